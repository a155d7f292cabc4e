"""One verdict from many checks: the first failing one in the house's order, the others in `also_failed`."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.judge import logits, memory, premise, topk
from kvcheck.agent.judge.evidence import Evidence, Finding

CHECKS = {
    "premise": premise.premise,
    "input_mutated": memory.input_mutated,
    "guards": memory.guards,
    "sentinel": memory.sentinel,
    "finite_mask": logits.finite_mask,
    "bound": logits.bound,
    "topk_of_logits": topk.topk_of_logits,
    "topk_positions": topk.topk_positions,
}


def run_checks(evidence: Evidence, names: tuple[str, ...]) -> list[Finding]:
    """Every failed check, in order.

    Args:
        evidence: both sides; its metrics and trivial list are filled.
        names: checks of the op. `premise` and `shape` are run by the caller before there is an output to look at.
    """
    return [finding for name in names if name in CHECKS and name != "premise" and (finding := CHECKS[name](evidence))]


def compose(findings: list[Finding], evidence: Evidence) -> dict[str, Any]:
    """The judged part of a `cases` row."""
    row = {
        "verdict": "pass",
        "also_failed": [],
        "message": "",
        "metrics": evidence.metrics,
        "trivial": sorted(set(evidence.trivial)),
        "first_bad": None,
        "bad_count": 0,
        "element_count": int(evidence.row_lengths.sum()),
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
    return row
