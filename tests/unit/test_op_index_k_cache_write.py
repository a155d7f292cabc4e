"""The key writer: references agree byte for byte, honest quotients pass and only those, faults are named, nothing else changes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs import slot_mapping, writer_keys
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import codes
from kvcheck.agent.layouts import fp8, shuffled
from kvcheck.agent.ops import index_k_cache_write as op
from kvcheck_references.index_k_cache_write import index_k_cache_write as fast
from kvcheck_references.index_k_cache_write import nearest_codes
from kvcheck_references.index_k_cache_write_naive import index_k_cache_write as naive

OP = "index_k_cache_write"
AXES = specs.axes(OP)
DEFAULTS = {name: axis.default for name, axis in AXES.items()} | {"kv_dtype": "e4m3fn"}
VALUES, SLOTS = sorted(AXES["values"].choices), sorted(AXES["slots"].choices)
FORMATS = [("e4m3fn", 448), ("e4m3fnuz", 240), ("e4m3fnuz", 224), ("e4m3fnuz", 448), ("e4m3fn", 224)]


def make(seed=1, **changes):
    return op.make_inputs({**DEFAULTS, **changes}, Generator(seed))


def call(function, inputs):
    return function(**inputs.tensors, **inputs.scalars, out=inputs.initial["kv_cache"], alloc=None)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.sampled_from([16, 48]),
    st.sampled_from([1, 3, 16, 32]),
    st.sampled_from(FORMATS),
    st.sampled_from(["fp32", "ue8m0"]),
    st.sampled_from(["block_flat", "shuffled"]),
    st.sampled_from(VALUES),
    st.sampled_from(SLOTS),
    st.sampled_from(["contiguous", "pitched"]),
    st.integers(0, 99),
)
def test_references_agree(tokens, head_dim, block_size, formats, scale_format, layout, values, slots, cache, seed):
    if layout == "shuffled" and not shuffled.fits(block_size, head_dim):
        layout = "block_flat"
    sizes = {"tokens": tokens, "head_dim": head_dim, "block_size": block_size, "kv_dtype": formats[0], "divisor": formats[1]}
    inputs = make(seed, scale_format=scale_format, layout=layout, values=values, slots=slots, cache=cache, **sizes)
    before = inputs.initial["kv_cache"].clone()
    sides = [call(function, inputs) for function in (fast, naive)]
    assert torch.equal(*sides) and torch.equal(inputs.initial["kv_cache"], before)
    assert torch.equal(sides[0][~inputs.inside["kv_cache"]], before[~inputs.inside["kv_cache"]])
    assert int(inputs.inside["kv_cache"].sum()) == int((inputs.tensors["slot_mapping"] >= 0).sum()) * (head_dim + 4)


@pytest.mark.parametrize("kv_dtype", ["e4m3fn", "e4m3fnuz"])
def test_nearest_codes_are_torchs_where_nothing_is_rounded_twice(kv_dtype):
    numbers = torch.randn(20000, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).float() * 60
    numbers = torch.cat((numbers, torch.tensor([0.0, -0.0, 2.0**-20, -(2.0**-20), 2.0**-10, 3 * 2.0**-10])))
    largest = fp8.MAXIMUM[kv_dtype]
    theirs = numbers.clamp(-largest, largest).to(fp8.torch_dtype(kv_dtype)).view(torch.uint8)
    assert torch.equal(nearest_codes(numbers.double(), kv_dtype), theirs)


@pytest.mark.parametrize(("kv_dtype", "divisor"), FORMATS)
def test_division_and_the_reciprocal_are_both_honest_and_their_neighbours_are_not(kv_dtype, divisor):
    """The rule is not slack: of the codes it takes, both are some honest kernel's or the quotient is within 2**-22 of a middle."""
    k = writer_keys.build("midpoints", 400, 64, divisor, Generator(3))
    scale = k.float().abs().amax(1).clamp(min=1e-4) / divisor
    largest, dtype = fp8.MAXIMUM[kv_dtype], fp8.torch_dtype(kv_dtype)
    quotients = (k.float() / scale[:, None], k.float() * (1 / scale)[:, None])
    division, product = (q.clamp(-largest, largest).to(dtype).view(torch.uint8) for q in quotients)
    nearest, low, high = codes.honest_codes(k, scale, kv_dtype)
    for honest in (division, product):
        assert ((honest == low) | (honest == high)).all()
    assert (division != product).any(), "the keys do not tell the two apart"
    assert ((low.int() - high.int()).abs() <= 1).all() and ((nearest == low) | (nearest == high)).all()
    assert (low == high).double().mean() > 0.5
    # bf16 keys over bf16 keys lie on a middle or 2**-14 and more beside it, so this is the first that can show: a bf16 quotient.
    wrong = (k.float() / scale[:, None]).bfloat16().float().clamp(-largest, largest).to(dtype).view(torch.uint8)
    assert ((wrong != low) & (wrong != high)).any(), "a quotient rounded to bf16 is not told"


def test_a_power_of_two_leaves_one_code():
    k = writer_keys.build("midpoints", 100, 64, 448, Generator(3))
    exact = torch.full((100,), 2.0**-4)
    nearest, _, _ = codes.honest_codes(k, exact, "e4m3fn")
    assert torch.equal(nearest, nearest_codes(k.double() / 2.0**-4, "e4m3fn"))


def test_the_edges_are_what_they_say():
    k = writer_keys.build("edges", 8, 128, 448, Generator(1))
    assert (k[0] == 0).all() and not torch.signbit(k[0]).any() and torch.signbit(k[1]).all() and (k[1] == 0).all()
    assert (k[2] != 0).all() and k[2].float().abs().max() < 2.0**-126
    assert k[3].float().abs().max() < 1e-4 and float(k[4][0]) == pytest.approx(writer_keys.LARGEST) and torch.isfinite(k).all()
    inputs = make(values="edges", tokens=8, slots="consecutive", block_size=1)
    cache = call(fast, inputs)[:, 0, 0]
    floor = torch.tensor([2.0**-22]).view(torch.uint8)
    assert (cache[0, :128] == 0).all() and (cache[1, :128] == 0x80).all(), "-0 keeps its sign in e4m3fn"
    assert torch.equal(cache[0, 128:], floor) and torch.equal(cache[3, 128:], floor), "1e-4 / 448 is 2.2e-7, and 2**-22 the power above"
    fnuz = call(fast, make(values="edges", tokens=8, slots="consecutive", block_size=1, kv_dtype="e4m3fnuz", divisor=240))[:, 0, 0]
    assert (fnuz[1, :128] == 0).all(), "0x80 is NaN in e4m3fnuz"
    assert not (fnuz[:8, :128] == 0x80).any()


def test_slots_are_distinct_and_what_they_say():
    for kind in SLOTS:
        slots = slot_mapping.build(kind, 50, slot_mapping.pool_size(kind, 50, 16), 16, Generator(2))
        kept = slots[slots >= 0]
        assert len(kept.unique()) == len(kept) == {"padded": 34, "all_padding": 0}.get(kind, 50)
    assert slot_mapping.build("high_ids", 5, 100, 16, Generator(2)).min() == 1595
    with pytest.raises(ValueError, match="no slot for each of 50"):
        slot_mapping.build("scattered", 50, 3, 16, Generator(2))


@pytest.mark.parametrize("values", VALUES)
def test_honest_torch_passes(judged, values):
    for kv_dtype, divisor in FORMATS:
        for scale_format in ("fp32", "ue8m0"):
            shape = {"kv_dtype": kv_dtype, "divisor": divisor, "scale_format": scale_format, "layout": "shuffled"}
            row = judged(OP, values=values, tokens=80, cache="strided", **shape)
            assert row["verdict"] == "pass", (shape, row["message"])
            assert scale_format == "fp32" or row["metrics"]["codes_differ"] == row["metrics"]["scales_differ"] == 0


def test_fp32_scales_say_how_many_codes_differ(judged):
    metrics = judged(OP, values="midpoints", scale_format="fp32")["metrics"]
    assert metrics["scales_differ"] == 0 and 0 < metrics["codes_differ"] < 2560


def test_our_kernel_passes(interpreted):
    pairs = dict(kv_dtype="e4m3fnuz", divisor=240), dict(kv_dtype="e4m3fn")
    cases = [dict(values=v, scale_format=s, tokens=70, cache="pitched", **p) for v in VALUES for s in ("fp32", "ue8m0") for p in pairs]
    cases += [dict(slots=slots, layout="shuffled", tokens=300, head_dim=48) for slots in SLOTS]
    cases += [dict(block_size=1, tokens=1, head_dim=16, slots="consecutive"), dict(block_size=7, tokens=30, cache="strided")]
    for case, row in zip(cases, interpreted(OP, cases), strict=True):
        assert row["verdict"] == "pass", (case, row["message"])


FAULTS = {
    "divisor_mistaken": ("mismatch", "cache_scales", {}),
    "layout_mistaken": ("mismatch", "cache_codes", {}),
    "padding_written": ("out_of_bounds_write", "cache_untouched", {"num_blocks": 20}),
    "pages_taken_as_adjacent": ("unwritten", "cache_written", {"cache": "pitched"}),
    "rest_of_page_cleared": ("out_of_bounds_write", "cache_untouched", {}),
    "scale_not_a_power_of_two": ("mismatch", "cache_scales", {}),
    "tokens_unwritten": ("unwritten", "cache_written", {}),
}


def test_every_fault_is_expected():
    assert set(FAULTS) == {name for name in specs.names("faults") if OP in specs.load("faults", name).data["ops"]}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(judged, fault):
    verdict, check, changes = FAULTS[fault]
    row = judged(OP, f"fault:{fault}", **changes)
    assert (row["verdict"], row["check"]) == (verdict, check), row["message"]


def test_a_wrong_layout_is_nothing_wrong_where_there_is_one_tile(judged):
    assert judged(OP, "fault:layout_mistaken", block_size=16, head_dim=16)["verdict"] == "pass"


def test_a_user_s_kernel_that_truncates_is_told_from_one_that_multiplies(judged, tmp_path):
    """Both use the reciprocal; one rounds toward zero, which no honest quotient excuses."""
    body = """
import torch
def index_k_cache_write(k, slot_mapping, *, block_size, kv_dtype, scale_format, divisor, layout, out, alloc):
    kept = slot_mapping >= 0
    number, slot = k[kept].float(), slot_mapping[kept]
    scale = number.abs().amax(1).clamp(min=1e-4) * (1 / divisor if SLOPPY else 1.0) / (1 if SLOPPY else divisor)
    value = (number * (1 / scale)[:, None]).clamp(-448, 448)
    if TRUNCATE:
        value = (value.view(torch.int32) >> 20 << 20).view(torch.float32)
    pages = out.view(len(out), -1)
    width = k.shape[1]
    pages[:, : block_size * width].unflatten(1, (block_size, width))[slot // block_size, slot % block_size] = (
        value.to(torch.float8_e4m3fn).view(torch.uint8))
    pages[:, block_size * width :].unflatten(1, (block_size, 4))[slot // block_size, slot % block_size] = (
        scale.view(torch.uint8).view(-1, 4))
"""
    verdicts = {}
    for name, sloppy, truncate in (("honest", False, False), ("sloppy", True, False), ("truncating", False, True)):
        file = tmp_path / f"{name}.py"
        file.write_text(body.replace("SLOPPY", str(sloppy)).replace("TRUNCATE", str(truncate)))
        row = judged(OP, str(file), scale_format="fp32", values="gaussian")
        verdicts[name] = (row["verdict"], row.get("check"))
    assert verdicts == {"honest": ("pass", None), "sloppy": ("pass", None), "truncating": ("mismatch", "cache_codes")}


def test_a_kernel_that_writes_between_pages_is_told(judged, tmp_path):
    file = tmp_path / "gap.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\n"
        "def index_k_cache_write(**a):\n    torch_eager.index_k_cache_write(**a)\n    out = a['out']\n"
        "    out.as_strided((1,), (1,), out.storage_offset() + out[0].numel())[0] += 1\n"
    )
    assert judged(OP, str(file))["verdict"] != "pass"
    row = judged(OP, str(file), cache="pitched")
    assert row["verdict"] == "out_of_bounds_write" and "1 bytes between pages" in row["message"]


def test_what_is_not_written_at_all(judged):
    row = judged(OP, slots="all_padding", scale_format="fp32")
    assert row["verdict"] == "pass" and "codes_differ" in row["trivial"]
