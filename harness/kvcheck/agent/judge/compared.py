"""What the checks that others use would have said of the same outputs; for comparison, and for no verdict.

Each sees what its users show it: the promised elements of an output, against the reference in the output's dtype.

Source: 1. `torch.allclose` with rtol = atol = 1e-2. 2. DeepGEMM `calc_diff` below 1e-3. 3. aiter `checkAllclose`: at most 5 % of the
elements outside rtol = atol = 1e-2. 4., 5. share of equal entries of sorted index rows, and of common members, at least 0.99.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

CHECKS = ("allclose", "calc_diff", "mismatch_5_percent", "positional_match", "set_match")

TOLERANCE = 1e-2
CALC_DIFF = 1e-3
ALLOWED = 0.05
MATCH = 0.99


def compared(
    op: str, params: dict[str, Any], inputs: Any, expected: dict[str, Any], actual: dict[str, Any] | None
) -> dict[str, bool | None]:
    """Whether each check passes.

    Args:
        op: name of the op.
        params: resolved params.
        inputs: the call.
        expected: value and bound of every output.
        actual: what the kernel left, or None when it raised.

    Returns:
        passes: by check; None where it does not apply.
    """
    import torch

    if actual is None or any(value is None for value, _ in expected.values()):
        return dict.fromkeys(CHECKS)
    passes: dict[str, bool | None] = dict.fromkeys(CHECKS)
    for name, (value, _) in expected.items() if op != "topk_per_row" else ():  # an index is no number to be near to
        inside = _inside(inputs, name, value)
        wanted, got = value.to(actual[name].dtype)[inside].double(), actual[name][inside].double()
        if not wanted.numel():
            continue
        close = torch.isclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        found = {
            "allclose": bool(close.all()),
            "calc_diff": _calc_diff(got, wanted) < CALC_DIFF,
            "mismatch_5_percent": float((~close).double().mean()) <= ALLOWED,
        }
        for check, passed in found.items():
            passes[check] = passed and passes[check] is not False
    rows = _selections(op, params, inputs, expected, actual)
    if rows:
        entries = sum(len(wanted) for wanted, _ in rows)
        equal = sum(int((wanted == got).sum()) for wanted, got in rows)
        common = sum((Counter(wanted.tolist()) & Counter(got.tolist())).total() for wanted, got in rows)
        passes.update(positional_match=equal >= MATCH * entries, set_match=common >= MATCH * entries)
    return passes


def _inside(inputs: Any, name: str, value: Any) -> Any:
    import torch

    if name in inputs.inside:
        return inputs.inside[name].to(value.device)
    if inputs.row_lengths is None or value.dim() != 2:
        return torch.ones(value.shape, dtype=torch.bool, device=value.device)
    return torch.arange(value.shape[1], device=value.device) < inputs.row_lengths.to(value.device)[:, None]


def _calc_diff(got: Any, wanted: Any) -> float:
    """1 - 2 <x, y> / (<x, x> + <y, y>); not a number where an output is not."""
    total = float((got * got + wanted * wanted).sum())
    return 1 - 2 * float((got * wanted).sum()) / total if total else 0.0


def _selections(op: str, params: dict[str, Any], inputs: Any, expected: dict[str, Any], actual: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Sorted rows of indices of both sides: the op's own, or the top-k of logits, in rows that are longer than k."""
    import torch

    name, (value, _) = next(iter(expected.items()))
    if op == "topk_slots" or (op == "topk_per_row" and value is not None):
        return [(wanted.sort().values, got.sort().values) for wanted, got in zip(value.long(), actual[name].long(), strict=True)]
    if op != "paged_mqa_logits":
        return []
    rows = []
    for row, length in enumerate(inputs.row_lengths.tolist()):
        if length > params["topk"]:
            picked = [torch.topk(side[row, :length].double(), params["topk"]).indices.sort().values for side in (value, actual[name])]
            rows.append((picked[0], picked[1]))
    return rows
