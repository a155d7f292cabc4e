"""Checks of a quantised cache: scales, codes, tokens nobody wrote, bytes that had to stay.

With a scale s that is a power of two every quotient k / s is exact, and one byte is right. With an fp32 scale an honest quotient is an fp32
number near k / s: one rounding (2**-24) for a division, two for a product with 1 / s, up to 2**-22 for a GPU's fast division. Rounding to
FP8 is monotone, so the code lies between those of k / s * (1 - 2**-22) and k / s * (1 + 2**-22): the same code, or, where the middle
between two codes lies in between, either of the two. s is the scale that the kernel itself wrote. It may be
two ulp off amax / divisor: what a product with 1 / divisor, rounded twice, and a GPU's fast division can lose.
"""

from __future__ import annotations

from typing import Any

import torch

from kvcheck.agent.inputs import pitch
from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first
from kvcheck.agent.judge.exact import bits
from kvcheck.agent.layouts import block_flat, fp8, shuffled

QUOTIENT = 2.0**-22
"""Largest relative error of an honest fp32 quotient."""

FLOOR = float(torch.tensor(1e-4, dtype=torch.float32))


def cache_written(evidence: Evidence) -> Finding | None:
    """Every token with a slot changed its bytes there, unless they held the right ones before."""
    before = _tokens(evidence, evidence.inputs.initial[evidence.output].cpu())
    after, wanted = _tokens(evidence, evidence.actual.cpu()), _tokens(evidence, evidence.expected.cpu())
    left = _same(after, before) & ~_same(after, wanted)
    count = int(left.sum())
    evidence.metrics["unwritten"] = count
    if not len(left):
        evidence.trivial += ["unwritten", "scales_differ", "codes_differ"]
    if not count:
        return None
    where = _place(evidence, int(torch.argmax(left.to(torch.uint8))), None, "a key and its scale", "the bytes of before")
    message = f"{count} of {len(left)} tokens were never written"
    return Finding("unwritten", "cache_written", message, evidence.output, where, count, len(left), _spread(evidence, left))


def cache_scales(evidence: Evidence) -> Finding | None:
    """ue8m0: the power of two, bit for bit; fp32: at most two ulp off amax / divisor."""
    _, actual = _tokens(evidence, evidence.actual.cpu())
    _, wanted = _tokens(evidence, evidence.expected.cpu())
    evidence.metrics["scales_differ"] = int((bits(actual) != bits(wanted)).sum())
    bad = ~_legal_scales(evidence, actual, wanted)
    count = int(bad.sum())
    if not count:
        return None
    (token,) = first(bad)
    where = _place(evidence, token, None, float(wanted[token]), float(actual[token]))
    exact = evidence.case["scale_format"] == "ue8m0"
    rule = "are not the power of two" if exact else "are more than two ulp off amax / divisor"
    message = f"{count} of {len(bad)} scales {rule}: expected {wanted[token]:.9g}, got {actual[token]:.9g}"
    return Finding("mismatch", "cache_scales", message, evidence.output, where, count, len(bad), _spread(evidence, bad))


def cache_codes(evidence: Evidence) -> Finding | None:
    """Every code is one that an honest quotient by the written scale rounds to; tokens with a wrong scale are left to `cache_scales`."""
    codes, scales = _tokens(evidence, evidence.actual.cpu())
    expected, wanted = _tokens(evidence, evidence.expected.cpu())
    judged = _legal_scales(evidence, scales, wanted)
    keys = evidence.tensors["k"].cpu()[_owned(evidence)]
    nearest, low, high = honest_codes(keys, scales, evidence.case["kv_dtype"])
    if evidence.case["scale_format"] == "ue8m0":
        nearest = low = high = expected
    legal = (codes == low) | (codes == high)
    evidence.metrics["codes_differ"] = int(((codes != nearest) & judged[:, None]).sum())
    bad = ~legal & judged[:, None]
    count = int(bad.sum())
    if not count:
        return None
    token, dim = first(bad)
    where = _place(evidence, token, dim, int(nearest[token, dim]), int(codes[token, dim]))
    numbers = [fp8.decode(side[token, dim][None], evidence.case["kv_dtype"]).item() for side in (nearest, codes)]
    message = (
        f"{count} of {bad.numel()} codes in {int(bad.any(1).sum())} of {len(bad)} tokens are none that k / scale rounds to: "
        f"first {numbers[1]} for {numbers[0]}; {evidence.metrics['codes_differ'] - count} more differ from the nearest where that is right"
    )
    return Finding("mismatch", "cache_codes", message, evidence.output, where, count, bad.numel(), _spread(evidence, bad.any(1)))


def cache_untouched(evidence: Evidence) -> Finding | None:
    """Bytes of slots that no token was written to, and between pages that lie apart, are what they were."""
    before, actual = evidence.inputs.initial[evidence.output], evidence.actual.cpu()
    differs = actual != before
    stray = differs & ~evidence.inside().cpu()
    count = int(stray.sum())
    between = 0
    if actual.stride() == before.stride():
        between = int((pitch.span(actual) != pitch.span(before)).sum()) - int(differs.sum())
    if not count and not between:
        return None
    where = found = None
    if count:
        index = first(stray)
        places = stray.flatten(2).any(2)
        pages = {**_pool(evidence), "blocks": places.any(1).nonzero().flatten()}
        found = spread.wrong(evidence, places, axes=("block_id", "offset"), pages=pages)
        where = evidence.place_at(index, int(before[index]), int(actual[index]))
    message = f"{count} bytes of slots that no token was written to have changed"
    if between:
        message += f", and {between} bytes between pages, which belong to nobody"
    total = int((~evidence.inside()).sum())
    return Finding("out_of_bounds_write", "cache_untouched", message, evidence.output, where, count + between, total, found)


def honest_codes(keys: Any, scales: Any, kv_dtype: str) -> tuple[Any, Any, Any]:
    """Codes of k / scale: the nearest, and those at both ends of what an honest fp32 quotient may be.

    Args:
        keys: [tokens, head_dim] bfloat16. Keys.
        scales: [tokens] float32. Above zero.
        kv_dtype: format.

    Returns:
        nearest, low, high: [tokens, head_dim] uint8. FP8 codes, saturated; ties to even; a zero keeps its sign in e4m3fn.
    """
    quotient = keys.double() / scales.double()[:, None]
    found = []
    for factor in (1.0, 1 - QUOTIENT, 1 + QUOTIENT):
        code = fp8.encode((quotient * factor).abs(), kv_dtype)
        negative = torch.signbit(keys) & ((code > 0) | (kv_dtype == "e4m3fn"))
        found.append(torch.where(negative, code + 128, code))
    return tuple(found)


def _legal_scales(evidence: Evidence, actual: Any, wanted: Any) -> Any:
    if evidence.case["scale_format"] == "ue8m0":
        return bits(actual) == bits(wanted)
    keys = evidence.tensors["k"].cpu()[_owned(evidence)].double()
    exact = keys.abs().amax(1).clamp(min=FLOOR) / evidence.case["divisor"]
    ulp = torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - 24)
    return (actual.double() - exact).abs() <= 2 * ulp


def _same(one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    """Which tokens have the same codes and the same scale on both sides."""
    return (one[0] == other[0]).all(1) & (bits(one[1]) == bits(other[1]))


def _owned(evidence: Evidence) -> Any:
    return evidence.tensors["slot_mapping"].cpu() >= 0


def _tokens(evidence: Evidence, cache: Any) -> tuple[Any, Any]:
    """Codes and scales of the tokens that have a slot."""
    slots = evidence.tensors["slot_mapping"].cpu()
    flat = shuffled.read(cache) if evidence.case["layout"] == "shuffled" else cache.contiguous()
    return block_flat.gather(flat, slots[slots >= 0])


def _spread(evidence: Evidence, bad: Any) -> dict[str, Any]:
    """Where the wrong ones of the tokens that have a slot lie: in the step, and in the pool."""
    owned = _owned(evidence)
    tokens = torch.zeros(len(owned), dtype=torch.bool)
    tokens[owned.nonzero().flatten()[bad]] = True
    pool = _pool(evidence)
    blocks = evidence.tensors["slot_mapping"].cpu()[tokens] // pool["block_size"]
    return spread.wrong(evidence, tokens, axes=("", "token"), pages={**pool, "blocks": blocks})


def _pool(evidence: Evidence) -> dict[str, Any]:
    """Pages of the cache, and those that a token of the step is written to."""
    size = evidence.case["block_size"]
    slots = evidence.tensors["slot_mapping"].cpu()
    return {"block_size": size, "pool": len(evidence.expected), "used": slots[slots >= 0] // size}


def _place(evidence: Evidence, nth: int, dim: int | None, expected: Any, actual: Any) -> dict[str, Any]:
    """`first_bad` of the nth token that has a slot: its number in the step, page and offset in the pool."""
    token = int(_owned(evidence).nonzero().flatten()[nth])
    slot = int(evidence.tensors["slot_mapping"][token])
    size = evidence.case["block_size"]
    place = {"output": evidence.output, "row": token, "position": dim, "block": None, "offset": slot % size, "block_id": slot // size}
    return {**place, "expected": expected, "actual": actual, "bound": None}
