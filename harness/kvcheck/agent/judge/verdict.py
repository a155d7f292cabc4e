"""One verdict from many checks: the first failing one in the house's order, the others in `also_failed`."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.judge import attention, codes, exact, logits, memory, premise, repeats, slots, topk, windows
from kvcheck.agent.judge.evidence import Evidence, Finding

CHECKS = {
    "premise": premise.premise,
    "premise_attention": attention.premise_attention,
    "premise_slots": slots.premise_slots,
    "premise_window": windows.premise_window,
    "input_mutated": memory.input_mutated,
    "guards": memory.guards,
    "sentinel": memory.sentinel,
    "finite_mask": logits.finite_mask,
    "finite_values": attention.finite_values,
    "bound": logits.bound,
    "bound_values": attention.bound_values,
    "exact": exact.exact,
    "cache_written": codes.cache_written,
    "cache_scales": codes.cache_scales,
    "cache_codes": codes.cache_codes,
    "cache_untouched": codes.cache_untouched,
    "slots": slots.slots,
    "topk_of_logits": topk.topk_of_logits,
    "topk_positions": topk.topk_positions,
    "injective": slots.injective,
    "repeat": repeats.repeat,
}
"""Every check by name. Ops name theirs in the house's order; those whose names begin with `premise` decide about the case."""


def unmet_premise(evidence: Evidence, names: tuple[str, ...]) -> Finding | None:
    """The first premise of a case that does not hold."""
    return next((found for name in names if name.startswith("premise") and (found := CHECKS[name](evidence))), None)


def run_checks(evidence: Evidence, names: tuple[str, ...]) -> list[Finding]:
    """Every failed check, in order.

    Args:
        evidence: both sides; its metrics and trivial list are filled.
        names: checks of the op. Premises, and `shape`, are run before there is an output to look at.
    """
    return [found for name in names if name != "shape" and not name.startswith("premise") and (found := CHECKS[name](evidence))]


def compose(findings: list[Finding], metrics: dict[str, Any], trivial: list[str], element_count: int) -> dict[str, Any]:
    """The judged part of a `cases` row.

    Args:
        findings: failed checks, the deciding one first.
        metrics: numbers by name.
        trivial: metrics that could not have failed.
        element_count: promised elements of all outputs.
    """
    row = {
        "verdict": "pass",
        "also_failed": [],
        "message": "",
        "metrics": metrics,
        "trivial": sorted(set(trivial)),
        "first_bad": None,
        "bad_count": 0,
        "element_count": element_count,
    }
    if not findings:
        return row
    head, *rest = findings
    others = [f.verdict for f in rest if f.verdict != head.verdict]
    row.update(
        verdict=head.verdict,
        check=head.check,
        output=head.output,
        also_failed=list(dict.fromkeys(others)),
        message=head.message,
        first_bad=head.first_bad or next((f.first_bad for f in rest if f.first_bad), None),
        bad_count=head.bad_count,
        element_count=head.element_count or row["element_count"],
    )
    if head.wrong:
        row["wrong"] = head.wrong
    return row
