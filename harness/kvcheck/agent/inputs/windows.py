"""Which tokens each query row of a prefill sees: half-open windows [ks, ke) of absolute columns."""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "full": {"doc": "every row sees every token: blind to masks"},
        "causal": {"doc": "one request; the last row sees every token, each earlier one a token less"},
        "one_short": {"doc": "causal without the row's own token, as in aiter's tests: with as many rows as tokens row 0 is empty"},
        "packed": {"doc": "up to four requests gathered one after the other, causal in each; one of them has no row, windows start late"},
        "ragged": {"doc": "any start and any end, a quarter of the windows empty, some of those with the end before the start"},
        "edges": {"doc": "windows of one or two tokens at the first and the last column and across multiples of 64"},
        "empty": {"doc": "no row sees anything"},
    }
}


def build(kind: str, rows: int, tokens: int, generator: Any) -> tuple[Any, Any]:
    """Windows of every row.

    Args:
        kind: a choice of SPEC.
        rows: query rows.
        tokens: columns.
        generator: an `inputs.random.Generator`.

    Returns:
        ks: [rows] int32. First column of each row; in [0, tokens].
        ke: [rows] int32. One past the last; in [0, tokens]. At or before ks: the row sees nothing.
    """
    import torch

    row = torch.arange(rows)
    start, end = torch.zeros_like(row), torch.full_like(row, tokens)
    if kind == "empty":
        end = start
    elif kind in ("causal", "one_short"):
        end = row + tokens - rows + (kind == "causal")
    elif kind == "packed":
        start, end = _packed(rows, tokens, generator)
    elif kind == "ragged":
        first = generator.integers("windows/first", rows, 0, tokens + 1)
        second = generator.integers("windows/second", rows, 0, tokens + 1)
        start, end = torch.minimum(first, second), torch.maximum(first, second)
        draw = generator.integers("windows/empty", rows, 0, 8)
        end = torch.where(draw == 0, start, end)
        start, end = torch.where(draw == 1, end, start), torch.where(draw == 1, start, end)
    elif kind == "edges":
        start = torch.where(row % 3 == 0, 0, torch.where(row % 3 == 1, tokens - 1, row // 3 * 64 % tokens - 1))
        end = start + 1 + (row % 3 == 2).long()
    return start.clamp(0, tokens).to(torch.int32), end.clamp(0, tokens).to(torch.int32)


def mask(ks: Any, ke: Any, tokens: int) -> Any:
    """The elements that windows promise.

    Args:
        ks, ke: [rows] int32. Windows.
        tokens: columns.

    Returns:
        inside: [rows, tokens] bool.
    """
    import torch

    column = torch.arange(tokens, device=ks.device)
    return (column >= ks[:, None]) & (column < ke[:, None])


def _packed(rows: int, tokens: int, generator: Any) -> tuple[Any, Any]:
    """Requests whose tokens lie one after the other; rows belong to them in order, to all but the second of several."""
    import torch

    count = min(4, tokens)
    cuts = torch.sort(generator.integers("windows/cuts", count - 1, 1, max(tokens, 2))).values.tolist()
    bounds = [0, *cuts, tokens]
    owners = [request for request in range(count) if request != 1 or count == 1]
    start, end = [], []
    for turn, request in enumerate(owners):
        mine = rows // len(owners) + (turn < rows % len(owners))
        first, last = bounds[request], bounds[request + 1]
        start += [first] * mine
        end += [max(last - mine + 1 + j, first) for j in range(mine)]
    return torch.tensor(start, dtype=torch.int64), torch.tensor(end, dtype=torch.int64)
