"""Logits, and the bound of NUMERICS 1."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.judge import bounds


def expected(inputs: Any, tensors: dict[str, Any], model: Any) -> dict[str, tuple[Any, Any]]:
    """Value and bound of the output.

    Args:
        inputs: the call.
        tensors: its tensors on the case's device.
        model: precision of the kernel.

    Returns:
        logits: ([rows, max_model_len] float64, [rows, max_model_len] float64).
    """
    lengths = inputs.row_lengths.to(tensors["q"].device)
    value, bound = bounds.reference_with_bound(tensors, inputs.scalars, lengths, model, inputs.exact)
    return {"logits": (value, bounds.add_output_rounding(bound, value, model))}
