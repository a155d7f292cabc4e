"""The premise of logits over windows of contiguous keys: what some row sees is a number."""

from __future__ import annotations

import torch

from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.premise import FLOAT32_MAX, scale_facts


def premise_window(evidence: Evidence) -> Finding | None:
    """The reference is finite inside every window, and the scales of the keys that some row sees are positive and finite."""
    inside = evidence.inside()
    lost = int((~(evidence.expected.abs() <= FLOAT32_MAX) & inside).sum())
    facts = scale_facts(evidence.tensors["k_scale"][inside.any(0)])
    if not lost and not facts["bad_scales"]:
        return None
    parts = [facts["scales"]] if facts["bad_scales"] else []
    if lost:
        parts.insert(0, f"the reference is not finite in {lost} of {int(inside.sum())} promised elements")
    if bad := int((~torch.isfinite(evidence.tensors["weights"])).sum()):
        parts.append(f"{bad} elements of weights are not finite")
    return Finding("invalid_case", "premise_window", "; ".join(parts), bad_count=lost, element_count=int(inside.sum()))
