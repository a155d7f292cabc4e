"""Windows of query rows: written out where they are few, as the code that makes them where they are not."""

from __future__ import annotations

from kvcheck.repro.counted import Generator
from kvcheck.repro.parts import NoScript, literal

MOST = 40
"""Rows that are written out."""


def build(kind: str, rows: int, tokens: int, seed: int) -> list[str]:
    """Lines that make `ks` and `ke` [ROWS] int32; in code, out of ROWS and TOKENS.

    Args:
        kind: a choice of `window`.
        rows: query rows.
        tokens: columns.
        seed: of the run's inputs.

    Raises:
        NoScript: a kind that is not known here.
    """
    if rows <= MOST and kind not in ("full", "empty"):
        ends = [[min(max(n, 0), tokens) for n in pair] for pair in _pairs(kind, rows, tokens, Generator(seed))]
        return [
            *literal("ks = torch.tensor(", [start for start, _ in ends], ", dtype=torch.int32)"),
            *literal("ke = torch.tensor(", [end for _, end in ends], ", dtype=torch.int32)"),
        ]
    lines = {
        "full": ["ks, ke = torch.zeros(ROWS), torch.full((ROWS,), TOKENS)"],
        "empty": ["ks, ke = torch.zeros(ROWS), torch.zeros(ROWS)"],
        "causal": ["ks, ke = torch.zeros(ROWS), torch.arange(ROWS) + TOKENS - ROWS + 1"],
        "one_short": ["ks, ke = torch.zeros(ROWS), torch.arange(ROWS) + TOKENS - ROWS"],
        "ragged": [
            'one, two = (integers(f"windows/{end}", ROWS, 0, TOKENS + 1) for end in ("first", "second"))',
            'ks, ke, draw = torch.minimum(one, two), torch.maximum(one, two), integers("windows/empty", ROWS, 0, 8)',
            "ke = torch.where(draw == 0, ks, ke)",
            "ks, ke = torch.where(draw == 1, ke, ks), torch.where(draw == 1, ks, ke)  # some end before they start",
        ],
        "edges": [
            "row = torch.arange(ROWS)",
            "ks = torch.where(row % 3 == 0, 0, torch.where(row % 3 == 1, TOKENS - 1, row // 3 * 64 % TOKENS - 1))",
            "ke = ks + 1 + (row % 3 == 2).long()",
        ],
        "packed": _packed_code(rows, tokens),
    }.get(kind)
    if lines is None:
        raise NoScript(f"window {kind} has no short form")
    return [*lines, "ks, ke = ks.clamp(0, TOKENS).int(), ke.clamp(0, TOKENS).int()"]


def _pairs(kind: str, rows: int, tokens: int, generator: Generator) -> list[tuple[int, int]]:
    """Start and end of each row, before they are clamped."""
    if kind in ("causal", "one_short"):
        return [(0, row + tokens - rows + (kind == "causal")) for row in range(rows)]
    if kind == "packed":
        owners, shares = _shares(rows, tokens)
        cuts = [0, *sorted(generator.integers("windows/cuts", min(4, tokens) - 1, 1, max(tokens, 2))), tokens]
        return [(cuts[r], max(cuts[r + 1] - mine + 1 + j, cuts[r])) for r, mine in zip(owners, shares, strict=True) for j in range(mine)]
    if kind == "ragged":
        one, two = (generator.integers(f"windows/{end}", rows, 0, tokens + 1) for end in ("first", "second"))
        pairs = []
        for first, second, draw in zip(one, two, generator.integers("windows/empty", rows, 0, 8), strict=True):
            start, end = min(first, second), max(first, second)
            end = start if draw == 0 else end
            pairs.append((end, start) if draw == 1 else (start, end))
        return pairs
    if kind == "edges":
        starts = [(0, tokens - 1, row // 3 * 64 % tokens - 1)[row % 3] for row in range(rows)]
        return [(start, start + 1 + (row % 3 == 2)) for row, start in enumerate(starts)]
    raise NoScript(f"window {kind} has no short form")


def _shares(rows: int, tokens: int) -> tuple[list[int], list[int]]:
    """Requests that have rows, and how many: all but the second of several."""
    count = min(4, tokens)
    owners = [request for request in range(count) if request != 1 or count == 1]
    return owners, [rows // len(owners) + (turn < rows % len(owners)) for turn in range(len(owners))]


def _packed_code(rows: int, tokens: int) -> list[str]:
    owners, shares = _shares(rows, tokens)
    return [
        f'cuts = [0, *integers("windows/cuts", {min(4, tokens) - 1}, 1, max(TOKENS, 2)).sort().values.tolist(), TOKENS]',
        f"mine = [(cuts[r], cuts[r + 1], n, j) for r, n in zip({owners}, {shares}) for j in range(n)]",
        "ks = torch.tensor([start for start, *_ in mine])",
        "ke = torch.tensor([max(end - n + 1 + j, start) for start, end, n, j in mine])",
    ]
