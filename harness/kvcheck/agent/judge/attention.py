"""Checks of attention's outputs: the premise, which elements are finite, and the certified bound."""

from __future__ import annotations

import torch

from kvcheck.agent.inputs.arena import is_sentinel
from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first
from kvcheck.agent.layouts import fp8, mla


def premise_attention(evidence: Evidence) -> Finding | None:
    """The reference is finite where a row sees a position, and the scales that are read are positive and finite."""
    parts = []
    scale = evidence.inputs.scalars["kv_scale"]
    if not 0 < scale < float("inf"):
        parts.append(f"kv_scale is {scale}")
    if evidence.inputs.scalars["kv_format"] == "fp8_656":
        bad = _bad_scales(evidence)
        if bad:
            parts.append(f"{bad} scales of tokens that are read are not positive and finite, or their codes are NaN")
    seen = _seen(evidence)
    lost = ~torch.isfinite(evidence.expected) & seen
    count, total = int(lost.sum()), int(seen.sum())
    if count:
        parts.append(f"the reference's {evidence.output} is not finite in {count} of {total} elements of rows that see a position")
    return Finding("invalid_case", "premise_attention", "; ".join(parts), bad_count=count, element_count=total) if parts else None


def finite_values(evidence: Evidence) -> Finding | None:
    """Finite where the reference is, and the same infinity or NaN where it is not."""
    inside, actual = evidence.inside(), evidence.actual.double()
    wanted = evidence.expected
    evidence.metrics["nonfinite_expected"] = int((~torch.isfinite(wanted) & inside).sum())
    missing = ~torch.isfinite(actual) & inside & ~is_sentinel(evidence.actual)
    evidence.metrics["nonfinite_actual"] = int(missing.sum())
    odd = ~torch.isfinite(wanted)
    same = torch.where(odd, (actual == wanted) | (actual.isnan() & wanted.isnan()), torch.isfinite(actual))
    bad = ~same & inside & ~is_sentinel(evidence.actual)
    count = int(bad.sum())
    if not count:
        return None
    index = first(bad)
    where = evidence.place_at(index, float(wanted[index]), float(actual[index]))
    message = f"{count} of {int(inside.sum())} elements of {evidence.output} are finite on one side only, or not the same infinity or NaN"
    return Finding("nonfinite", "finite_values", message, evidence.output, where, count, int(inside.sum()), spread.wrong(evidence, bad))


def bound_values(evidence: Evidence) -> Finding | None:
    """Every promised element inside its certified bound."""
    inside, actual = evidence.inside(), evidence.actual.double()
    both = inside & torch.isfinite(actual) & torch.isfinite(evidence.expected)
    total = int(inside.sum())
    if not bool((both & _seen(evidence)).any()):
        evidence.trivial += ["max_bound_ratio", "median_bound_ratio", "max_abs_diff", "max_rel_diff", "calc_diff"]
    if not bool(both.any()):
        return None
    difference = torch.where(both, (actual - evidence.expected).abs(), torch.zeros_like(actual))
    _metrics(evidence, actual[both], evidence.expected[both], difference[both])
    ratio = torch.where(difference == 0, torch.zeros_like(difference), difference / evidence.bound)
    worst, middle = float(ratio[both].max()), float(ratio[both].median())
    evidence.metrics.update(max_bound_ratio=worst, median_bound_ratio=middle)
    if bool(torch.isinf(evidence.bound[both]).any()):
        evidence.trivial.append("max_bound_ratio")
    bad = ratio > 1
    count = int(bad.sum())
    if not count:
        return None
    index = first(bad)
    where = evidence.place_at(index, float(evidence.expected[index]), float(actual[index]), float(evidence.bound[index]))
    rows = bad.flatten(0, 2).flatten(1).any(1) if bad.dim() > 3 else bad.flatten()
    extent = f"{count} of {total} elements of {evidence.output}, {int(rows.sum())} of {len(rows)} heads of rows"
    kind = "a global fault or the wrong precision model" if middle > 1 else "most elements are right"
    message = f"max_bound_ratio {worst:.3g} (pass is <= 1), {extent}; the median ratio is {middle:.3g}: {kind}"
    return Finding("mismatch", "bound_values", message, evidence.output, where, count, total, spread.wrong(evidence, bad))


def _metrics(evidence: Evidence, actual: torch.Tensor, expected: torch.Tensor, difference: torch.Tensor) -> None:
    evidence.metrics["max_abs_diff"] = float(difference.max())
    nonzero = expected != 0
    evidence.metrics["max_rel_diff"] = float((difference[nonzero] / expected[nonzero].abs()).max()) if bool(nonzero.any()) else 0.0
    energy = float((actual * actual + expected * expected).sum())
    evidence.metrics["calc_diff"] = 1 - 2 * float((actual * expected).sum()) / energy if energy else 0.0


def _lengths(evidence: Evidence) -> torch.Tensor:
    """[batch] int64. Tokens of each request."""
    indptr, last = evidence.tensors["kv_indptr"].long(), evidence.tensors["last_page_len"].long()
    pages = indptr[1:] - indptr[:-1]
    return torch.where(pages > 0, (pages - 1) * evidence.inputs.scalars["page_size"] + last, torch.zeros_like(last))


def _seen(evidence: Evidence) -> torch.Tensor:
    """Elements of rows that see a position: bool of the output's shape."""
    shape = evidence.inputs.outputs[evidence.output][0]
    next_n = shape[1]
    rows = _lengths(evidence)[:, None] - next_n + 1 + torch.arange(next_n, device=evidence.expected.device)
    return (rows > 0).view(*rows.shape, *[1] * (len(shape) - 2)).expand(shape)


def _bad_scales(evidence: Evidence) -> int:
    """Scales of tokens that some row sees that are not positive and finite."""
    tensors, size = evidence.tensors, evidence.inputs.scalars["page_size"]
    slots = []
    for b, length in enumerate(_lengths(evidence).tolist()):
        position = torch.arange(length, device=tensors["kv_indices"].device)
        slots.append(tensors["kv_indices"][int(tensors["kv_indptr"][b]) + position // size].long() * size + position % size)
    rows = tensors["kv_cache"].reshape(-1, mla.row_bytes("fp8_656", mla.LATENT + mla.ROPE))[torch.cat(slots).unique()]
    scales = rows[:, mla.LATENT : mla.SCALED].contiguous().view(torch.float32)
    codes = rows[:, : mla.LATENT]
    nan = sum(int((codes == code).sum()) for code in fp8.NAN_CODES["e4m3fn"])
    return int((~torch.isfinite(scales) | (scales <= 0)).sum()) + nan
