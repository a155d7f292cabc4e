"""Whether a case can prove anything: decided from its bytes and the reference alone, for any seed, op and shape."""

from __future__ import annotations

from typing import Any

import torch

from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.layouts import block_flat, fp8

FLOAT32_MAX = 3.4028234663852886e38


def premise(evidence: Evidence) -> Finding | None:
    """The reference is finite inside every row, and key scales are positive and finite."""
    tensors = evidence.tensors
    if "kv_cache" not in tensors:
        nan = int((torch.isnan(tensors["logits"]) & _row_mask(tensors["logits"], evidence.row_lengths)).sum())
        return Finding("invalid_case", "premise", f"{nan} logits inside the rows are NaN: no order is defined") if nan else None
    facts = _cache_facts(evidence)
    inside = evidence.inside()
    finite = torch.isfinite(evidence.expected) & (evidence.expected.abs() <= FLOAT32_MAX)
    lost, total = int((~finite & inside).sum()), int(inside.sum())
    if not lost and not facts["bad_scales"]:
        return None
    parts = []
    if lost:
        parts.append(f"the reference is not finite in {lost} of {total} promised elements ({lost / total:.1%})")
    if facts["nan_tokens"]:
        parts.append(
            f"{facts['nan_bytes']} of {facts['bytes']} key bytes are {evidence.inputs.scalars['kv_dtype']} NaN codes "
            f"({facts['nan_bytes'] / facts['bytes']:.2%}), so {facts['nan_tokens']} of {facts['tokens']} tokens "
            f"({facts['nan_tokens'] / facts['tokens']:.1%}) hold at least one"
        )
    if facts["bad_scales"]:
        parts.append(facts["scales"])
    for name in ("q", "weights"):
        if facts[name]:
            parts.append(f"{facts[name]} elements of {name} are not finite")
    return Finding("invalid_case", "premise", "; ".join(parts), bad_count=lost, element_count=total)


def _cache_facts(evidence: Evidence) -> dict[str, Any]:
    """Share of NaN bytes, and range and sign of scales, over the tokens that some row sees."""
    tensors, size = evidence.tensors, evidence.inputs.block_size
    table, lens = tensors["block_table"].long(), tensors["context_lens"].long()
    used = []
    for request, length in enumerate(lens.view(len(lens), -1).amax(1).tolist()):
        position = torch.arange(length, device=table.device)
        used.append(table[request, position // size] * size + position % size)
    slots = torch.cat(used).unique()
    kv_dtype = evidence.inputs.scalars["kv_dtype"]
    nan_bytes = nan_tokens = 0
    scales = []
    for part in slots.split(1 << 16):
        codes, scale = block_flat.gather(tensors["kv_cache"], part)
        hit = torch.zeros_like(codes, dtype=torch.bool)
        for code in fp8.NAN_CODES[kv_dtype]:
            hit |= codes == code
        nan_bytes, nan_tokens = nan_bytes + int(hit.sum()), nan_tokens + int(hit.any(1).sum())
        scales.append(scale)
    scale = torch.cat(scales) if scales else torch.ones(0)
    q = tensors["q"].view(torch.uint8)
    return {
        "tokens": len(slots),
        "bytes": len(slots) * tensors["q"].shape[-1],
        "nan_bytes": nan_bytes,
        "nan_tokens": nan_tokens,
        "q": sum(int((q == code).sum()) for code in fp8.NAN_CODES[kv_dtype]),
        "weights": int((~torch.isfinite(tensors["weights"])).sum()),
        **scale_facts(scale),
    }


def scale_facts(scale: Any) -> dict[str, Any]:
    """How many scales are not positive and finite, and a sentence about them.

    Args:
        scale: [tokens] float32. Scales of tokens that some row sees.

    Returns:
        facts: bad_scales, and scales, the sentence.
    """
    finite = torch.isfinite(scale)
    bad = ~finite | (scale <= 0)
    count, total = int(bad.sum()), scale.numel()
    if not count:
        return {"bad_scales": 0, "scales": ""}
    size = scale[finite].abs()
    spread = f", |scale| from {float(size.min()):.1e} to {float(size.max()):.1e}" if size.numel() else ""
    negative, odd = int((scale < 0).sum()), int((~finite).sum())
    text = (
        f"{count} of {total} key scales are not positive and finite ({negative / total:.1%} negative, {odd / total:.1%} NaN or infinite"
        f"{spread}): implementations differ on relu(scale * x) and scale * relu(x) there"
    )
    return {"bad_scales": count, "scales": text}


def _row_mask(logits: Any, lengths: Any) -> Any:
    return torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
