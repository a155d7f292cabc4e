"""The certified bound: simulated accumulators never break it, and the wrong precision class visibly does."""

from __future__ import annotations

import importlib
import math

import pytest
import torch

from kvcheck.agent import precision, specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import bounds
from kvcheck.agent.layouts import block_flat, fp8
from kvcheck.agent.ops import paged_mqa_logits

HEADS, DIM, TOKENS = 8, 128, 48
BASE = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
BASE.update(num_heads=HEADS, context_len=TOKENS, block_size=16, kv_dtype="e4m3fn", poison="zero")


def call(values="gaussian", **changes):
    inputs = paged_mqa_logits.make_inputs({**BASE, "values": values, **changes}, Generator(11))
    table, cache = inputs.tensors["block_table"].long(), inputs.tensors["kv_cache"]
    position = torch.arange(TOKENS)
    codes, scales = block_flat.gather(cache, table[0, position // 16] * 16 + position % 16)
    q = inputs.tensors["q"].view(torch.uint8)[0, 0]
    return inputs, fp8.decode(q, "e4m3fn"), fp8.decode(codes, "e4m3fn"), scales


def bound_of(inputs, name, exact=False):
    return bounds.logits_bound(inputs.tensors, inputs.scalars, inputs.row_lengths, precision.parse(name), exact)[0, :TOKENS]


def truth(q, k, scales, weights):
    return (weights.double()[:, None] * torch.relu(q @ k.T * scales.double())).sum(0)


def finish(dot, scales, weights):
    """The part after the dot, in fp32 and in the kernel's order."""
    return (weights[:, None] * torch.relu(dot.float() * scales)).sum(0).double()


def truncate(x, bits, top):
    """x cut toward zero to multiples of top * 2**-bits."""
    unit = top * 2.0**-bits
    return torch.where(unit > 0, torch.trunc(x / unit) * unit, x)


def fused_dot(q, k, model):
    """A tensor core that aligns `block` products and the accumulator to the largest exponent and truncates."""
    exponent = lambda x: torch.where(x == 0, torch.zeros_like(x), torch.exp2(torch.floor(torch.log2(x.abs().clamp(min=2.0**-6)))))  # noqa: E731
    total = torch.zeros(len(q), len(k), dtype=torch.float64)
    for start in range(0, DIM, model.block):
        qs, ks = q[:, None, start : start + model.block], k[None, :, start : start + model.block]
        products = qs * ks
        top = torch.maximum((exponent(qs) * exponent(ks)).amax(2), exponent(total) * (total != 0))
        summed = truncate(products, model.fraction, top[..., None].expand_as(products)).sum(2) + truncate(total, model.fraction, top)
        total = truncate(summed, model.out, exponent(summed))
    return total


def any_order_dot(q, k, seed):
    order = Generator(seed).permutation("order", DIM)
    total = torch.zeros(len(q), len(k))
    for lane in order.tolist():
        total = total + (q[:, lane, None] * k[None, :, lane]).float()
    return total


@pytest.mark.parametrize("values", ["gaussian", "heavy_tail", "relu_sparse", "narrow_band", "exact_int"])
@pytest.mark.parametrize("name", ["fp32_any", "ieee_rn"])
def test_fp32_in_any_order_stays_inside(values, name):
    inputs, q, k, scales = call(values)
    bound, wanted = bound_of(inputs, name), truth(q, k, scales, inputs.tensors["weights"][0])
    for seed in range(3):
        got = finish(any_order_dot(q, k, seed), scales, inputs.tensors["weights"][0])
        assert ((got - wanted).abs() <= bound).all()


@pytest.mark.parametrize("values", ["gaussian", "heavy_tail", "relu_sparse", "narrow_band"])
@pytest.mark.parametrize("name", ["hopper_wgmma_fp8", "blackwell_tcgen05_fp8"])
def test_fused_accumulators_stay_inside_their_model(values, name):
    inputs, q, k, scales = call(values)
    got = finish(fused_dot(q, k, precision.MODELS[name]), scales, inputs.tensors["weights"][0])
    wanted = truth(q, k, scales, inputs.tensors["weights"][0])
    assert ((got - wanted).abs() <= bound_of(inputs, name)).all()


def test_a_correct_wgmma_kernel_under_the_wrong_model_is_globally_out():
    """The precision class must be seen, and be seen as global: 1 % of a fp32 bound is not what 13 bits keep."""
    inputs, q, k, scales = call("narrow_band")
    q[:, 0] = k[:, 0] = 448.0
    weights = inputs.tensors["weights"][0]
    got = finish(fused_dot(q, k, precision.MODELS["hopper_wgmma_fp8"]), scales, weights)
    error = bounds.gamma(2 * DIM, precision.U) * (q.abs() @ k.abs().T)
    ratio = (got - truth(q, k, scales, weights)).abs() / (weights.double().abs()[:, None] * error * scales.double()).sum(0)
    assert ratio.median() > 1


def test_adversarial_product_comes_close_and_not_over():
    """One product of 256 squared, and 127 just under what a 13-bit accumulator keeps: the constant is not slack."""
    q = torch.full((1, DIM), 4.0, dtype=torch.float64)
    k = torch.full((1, DIM), 1.875, dtype=torch.float64)
    q[0, 0] = k[0, 0] = 256.0
    model = precision.MODELS["hopper_wgmma_fp8"]
    error = bounds.running_error(q, k, "e4m3fn", model)
    ratio = float((fused_dot(q, k, model) - q @ k.T).abs() / error)
    assert 0.8 < ratio <= 1


def test_bf16_keys_need_their_modifier():
    inputs, q, k, scales = call()
    rounded = (k * scales.double()[:, None]).bfloat16().double()
    got = finish(q @ rounded.T, torch.ones_like(scales), inputs.tensors["weights"][0])
    wanted = truth(q, k, scales, inputs.tensors["weights"][0])
    assert ((got - wanted).abs() > bound_of(inputs, "fp32_any")).any()
    assert ((got - wanted).abs() <= bound_of(inputs, "fp32_any+u_k=bf16")).all()


def test_bf16_logits_need_their_modifier():
    inputs, q, k, scales = call()
    wanted = truth(q, k, scales, inputs.tensors["weights"][0])
    got = wanted.bfloat16().double()
    bound = bound_of(inputs, "fp32_any+u_out=2^-8").clone()
    assert ((got - wanted).abs() > bound).any()
    assert ((got - wanted).abs() <= bounds.add_output_rounding(bound, wanted, precision.parse("fp32_any+u_out=2^-8"))).all()


def test_exact_inputs_have_no_slack_and_simulated_hardware_needs_none():
    inputs, q, k, scales = call("exact_int")
    assert float(bound_of(inputs, "hopper_wgmma_fp8", exact=True).max()) == 0
    wanted = truth(q, k, scales, inputs.tensors["weights"][0])
    for name in ("hopper_wgmma_fp8", "blackwell_tcgen05_fp8"):
        assert torch.equal(finish(fused_dot(q, k, precision.MODELS[name]), scales, inputs.tensors["weights"][0]), wanted)


def test_bound_scales_with_the_weights():
    """A tolerance tuned on large logits blames nobody and sees nothing on small ones; a bound is relative to the inputs."""
    inputs, *_ = call()
    before = bound_of(inputs, "fp32_any")
    inputs.tensors["weights"] *= 2.0**-13
    assert torch.allclose(bound_of(inputs, "fp32_any"), before * 2.0**-13, rtol=1e-12)


def test_chunks_change_nothing(monkeypatch):
    long = paged_mqa_logits.make_inputs({**BASE, "context_len": 1000, "next_n": 2}, Generator(11))
    reference = importlib.import_module("kvcheck_references.paged_mqa_logits")
    arguments = (long.tensors, long.scalars, long.row_lengths, precision.parse("fp32_any"), False)
    whole = bounds.reference_with_bound(*arguments)
    assert torch.equal(whole[0], reference.paged_mqa_logits(**long.tensors, **long.scalars, out=None, alloc=None))
    monkeypatch.setattr(reference, "CHUNK_BYTES", 1 << 17)
    for chunked, side in zip(bounds.reference_with_bound(*arguments), whole, strict=True):
        assert torch.allclose(chunked, side, rtol=1e-12)
    assert float(whole[1][0, 999]) == 0 and float(whole[1][1, 999]) > 0 and whole[0][0, 999] == -torch.inf


@pytest.mark.parametrize("text", ["fp23", "fp32_any+u_q=1", "fp32_any+u_k", "fp32_any+u_k=2^99", "fp32_any+u_out=x"])
def test_bad_model_names_are_refused(text):
    with pytest.raises(ValueError):
        precision.parse(text)


def test_models_parse_with_modifiers():
    model = precision.parse("hopper_wgmma_fp8+u_k=2^-8+u_out=fp16")
    assert (model.kind, model.u_k, model.u_out) == ("fused", 2**-8, 2**-11)
    assert precision.assumed({"arch": "sm_90"}) == "hopper_wgmma_fp8" and precision.assumed({"arch": "gfx942"}) == "fp32_any"
    assert math.isclose(bounds.gamma(256, precision.U), 256 * precision.U, rel_tol=1e-4)
