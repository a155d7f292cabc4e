"""Rows of logits for the top-k op: the `values` distributions as scores, poison past each row."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs.keys import UNIT

SPEC = {"summary": "logits rows by the names of `values`, poison past each row's length"}

POISON = {"zero": 0.0, "nan": float("nan"), "inf": float("inf"), "large": 1e4, "finite_beacon": 1e30}


def build(case: dict[str, Any], lengths: list[int], width: int, generator: Any) -> Any:
    """Logits of every row.

    Args:
        case: resolved params of `topk_per_row`; `poison` not `auto`.
        lengths: valid positions of each row.
        width: columns.
        generator: an `inputs.random.Generator`.

    Returns:
        logits: [rows, width] float32. Finite inside the rows, never -0.
    """
    import torch

    logits = torch.empty(len(lengths), width, dtype=torch.float32)
    for row, length in enumerate(lengths):
        if case["poison"] == "none":
            logits[row] = _row(case["values"], f"row/{row}", width, generator)
            continue
        logits[row, :length] = _row(case["values"], f"row/{row}", length, generator)
        logits[row, length:] = POISON[case["poison"]]
    return logits


def _row(kind: str, stream: str, count: int, generator: Any) -> Any:
    import torch

    fraction = generator.integers(f"{stream}/fraction", count, 0, 1 << 16).double() / (1 << 16)
    normal = (generator.normal(stream, count).double() + fraction) / UNIT
    if kind == "heavy_tail":
        draw = generator.integers(f"{stream}/tail", count, 1, 1 << 12)
        return (normal * (draw & -draw).clamp(max=64).double()).float()
    if kind == "relu_sparse":
        lit = generator.integers(f"{stream}/dark", count, 0, 3) == 2
        return torch.where(lit, normal, torch.zeros_like(normal)).clamp(min=0).float()
    if kind == "ties":
        return normal[torch.arange(count) // 7].float()
    if kind == "halves":
        return generator.integers(f"{stream}/halves", count, -4, 5).float() / 2
    if kind == "low_bits_below_zero":
        return -_row("low_bits", stream, count, generator)
    if kind in ("narrow_band", "low_bits"):
        draw = generator.integers(f"{stream}/band", count, 0, 1024)
        return (1 + draw.double() / 102400).float() if kind == "narrow_band" else (draw + 0x3F900000).to(torch.int32).view(torch.float32)
    if kind == "exact_int":
        return generator.normal(stream, count).float()
    if kind == "certified_topk":
        return generator.permutation(stream, count).float()
    return normal.float()
