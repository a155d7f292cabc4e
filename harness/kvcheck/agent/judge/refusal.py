"""Cases that must be refused: what a kernel that answers, refuses or fails otherwise has shown.

The op says why in its inputs, and the reference must say so too: a ValueError. A kernel refuses with an exception that means "not these
arguments": ValueError, NotImplementedError or a failed assertion. That is a pass, a silent answer is a mismatch, any other exception is
the crash that it is. `Unsupported` stays `unsupported`: a provider may raise it for reasons of its own, so it is no evidence.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.judge import memory, verdict
from kvcheck.agent.judge.evidence import Evidence, Finding

REFUSALS = (ValueError, NotImplementedError, AssertionError)


def judge(reason: str, call: Any, evidence: list[Evidence]) -> dict[str, Any]:
    """The judged part of a row.

    Args:
        reason: why the case must be refused.
        call: what came of calling the kernel.
        evidence: what each output left; nothing is expected of them.
    """
    findings: list[Finding] = []
    refused = call.raised is not None and issubclass(call.raised, REFUSALS)
    if call.finding and not refused:
        findings.append(call.finding)
    if call.actual is not None or refused:
        findings += [found for check in (memory.input_mutated, memory.guards) if (found := check(evidence[0]))]
    if call.actual is not None:
        shape = evidence[0].inputs.outputs[evidence[0].output][0]
        message = f"answered a case that must be refused: {reason}"
        findings.append(Finding("mismatch", "refusal", message, evidence[0].output, None, shape[0], shape[0]))
    row = verdict.compose(findings, evidence[0].metrics, [], 0)
    if call.unsupported is not None:
        row.update(verdict="unsupported", message=call.unsupported)
    elif not findings and refused:
        row["message"] = f"refused, as it must be ({reason}): {call.finding.message}"
    return {**row, "premise": "holds"}
