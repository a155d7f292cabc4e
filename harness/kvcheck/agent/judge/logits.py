"""Checks of logits: finite mask, certified bound, and the numbers other tools judge by, for comparison."""

from __future__ import annotations

import torch

from kvcheck.agent.inputs.arena import is_sentinel
from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first


def finite_mask(evidence: Evidence) -> Finding | None:
    """Finite where a value is promised; -inf or untouched elsewhere."""
    inside = evidence.inside()
    actual = evidence.actual
    evidence.metrics["nonfinite_expected"] = int((~torch.isfinite(evidence.expected) & inside).sum())
    untouched = is_sentinel(actual) if not evidence.returned else torch.zeros_like(inside)
    missing = ~torch.isfinite(actual) & inside & ~untouched
    evidence.metrics["nonfinite_actual"] = int(missing.sum())
    extra = ~inside & ~untouched & (actual != -torch.inf)
    bad = missing | extra
    count = int(bad.sum())
    if not count:
        return None
    index = first(bad)
    promised = bool(inside[index])
    wanted = float(evidence.expected[index]) if promised else "-inf"
    what = "not finite inside the row" if promised else f"{_outside(evidence, inside, index)}, where only -inf or nothing may stand"
    message = f"{int(missing.sum())} elements not finite inside the rows, {int(extra.sum())} values past them; the first is {what}"
    where = evidence.where(index, wanted, float(actual[index]))
    return Finding("nonfinite", "finite_mask", message, evidence.output, where, count, bad.numel(), spread.wrong(evidence, bad))


def _outside(evidence: Evidence, inside, index: tuple[int, ...]) -> str:
    """How an element that is not promised lies to its row."""
    if evidence.row_lengths is not None:
        return f"past the row's {int(evidence.row_lengths[index[0]])} positions"
    live = inside[index[:-1]].nonzero().flatten()
    return f"outside the row's window [{int(live[0])}, {int(live[-1]) + 1})" if len(live) else "in a row whose window is empty"


def bound(evidence: Evidence) -> Finding | None:
    """Every promised element inside its certified bound."""
    inside = evidence.inside()
    both = inside & torch.isfinite(evidence.actual) & torch.isfinite(evidence.expected)
    total = int(inside.sum())
    _comparison_metrics(evidence, both)
    if not total:
        evidence.trivial += ["max_bound_ratio", "median_bound_ratio", "max_abs_diff", "max_rel_diff", "calc_diff"]
    if not bool(both.any()):
        return None
    difference = (evidence.actual.double() - evidence.expected).abs()
    ratio = torch.where(difference == 0, torch.zeros_like(difference), difference / evidence.bound)
    ratio = torch.where(both, ratio, torch.zeros_like(ratio))
    seen = ratio[both]
    worst, middle = float(seen.max()), float(seen.median())
    evidence.metrics.update(max_bound_ratio=worst, median_bound_ratio=middle)
    bad = ratio > 1
    count = int(bad.sum())
    if not count:
        return None
    index = first(bad)
    where = evidence.where(index, *(float(side[index]) for side in (evidence.expected, evidence.actual, evidence.bound)))
    message = f"max_bound_ratio {worst:.3g} (pass is <= 1), {_spread(evidence, bad, inside, middle)}"
    return Finding("mismatch", "bound", message, evidence.output, where, count, total, spread.wrong(evidence, bad))


def _spread(evidence: Evidence, bad, inside, middle: float) -> str:
    """Whether the wrong elements look like a wrong precision class, or like an addressing fault."""
    rows, promised = (int(mask.flatten(1).any(1).sum()) for mask in (bad, inside))
    where = f"{int(bad.sum())} of {int(inside.sum())} elements in {rows} of {promised} rows"
    if middle > 1:
        return where + f"; the median ratio is {middle:.3g} too: a global fault (scale, dtype, head) or the wrong precision model"
    return where + f"; the median ratio is {middle:.3g}: most elements are right, so an addressing or masking fault"


def _comparison_metrics(evidence: Evidence, both) -> None:
    actual, expected = evidence.actual.double()[both], evidence.expected[both]
    if not actual.numel():
        return
    difference = (actual - expected).abs()
    evidence.metrics["max_abs_diff"] = float(difference.max())
    nonzero = expected != 0
    evidence.metrics["max_rel_diff"] = float((difference[nonzero] / expected[nonzero].abs()).max()) if bool(nonzero.any()) else 0.0
    energy = float((actual * actual + expected * expected).sum())
    evidence.metrics["calc_diff"] = 1 - 2 * float((actual * expected).sum()) / energy if energy else 0.0
