"""MLA decode: references agree, honest kernels stay inside the bound, exact inputs are exact, and every fault is caught."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcheck.agent import main, precision, specs
from kvcheck.agent.inputs import attention
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.layouts import mla
from kvcheck.agent.ops import mla_decode
from kvcheck_references import mla_decode as fast
from kvcheck_references import mla_decode_naive as naive

AXES = specs.axes("mla_decode")
DEFAULTS = {name: axis.default for name, axis in AXES.items()}
SMALL = dict(batch=4, context_len=[150, 0, 1, 37], next_n=2, num_heads=4, page_size=16)
FORMATS = sorted(AXES["kv_format"].choices)


@pytest.fixture(scope="module")
def runner():
    torch.set_num_threads(1)
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def judge(runner, provider="torch_eager", request=(), seed=42, **params):
    message = {"op": "mla_decode", "provider": provider, "params": {**DEFAULTS, **params}, "seed": seed, **dict(request)}
    return runner.run_case(message, lambda phase: None)


@pytest.mark.parametrize("kv_format", FORMATS)
def test_bytes_are_decoded_alike_by_all_three(kv_format):
    """Random bytes, NaN codes and all: the layout, the reference and the naive reference were written apart."""
    dim = 576 if kv_format == "fp8_656" else 48
    rows = Generator(5).integers("rows", 64 * mla.row_bytes(kv_format, dim), 0, 256).to(torch.uint8).view(64, -1)
    if kv_format == "fp8_656":  # scales that stay inside bf16
        rows[:, 512:528] = torch.tensor([0.3, 2.0, 1e-3, 7e5]).view(torch.uint8)
    sides = [mla.decode(rows, kv_format, 0.37), fast.numbers(rows, kv_format, 0.37)]
    sides.append(torch.tensor([naive.token(bytes(row.tolist()), kv_format, 0.37) for row in rows], dtype=torch.float64))
    for side in sides[1:]:
        assert torch.equal(side.isnan(), sides[0].isnan())
        assert torch.equal(side.nan_to_num(), sides[0].nan_to_num())


@pytest.mark.parametrize("kv_format", FORMATS)
def test_what_is_written_is_read_back(kv_format):
    dim = 576 if kv_format == "fp8_656" else 48
    numbers = Generator(6).integers("n", 9 * dim, -8, 9).view(9, dim).double()
    rows = mla.encode(numbers, kv_format, 0.5, torch.tensor([[0.5, 1, 2, 4.0]]).expand(9, 4))
    assert torch.equal(mla.decode(rows, kv_format, 0.5), numbers)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([(96, 80), (80, 80), (112, 16)]),
    st.sampled_from(["bf16", "fp16", "e4m3fn", "e4m3fnuz"]),
    st.sampled_from(sorted(AXES["values"].choices)),
    st.sampled_from(["shuffled", "wide_garbage", "reversed", "high_ids"]),
    st.sampled_from(["nan", "inf", "none", "large"]),
    st.sampled_from(sorted(AXES["empty_row"].choices)),
    st.integers(0, 99),
)
def test_references_agree(lens, next_n, heads, page_size, dims, kv_format, values, table, poison, empty_row, seed):
    case = {**DEFAULTS, "batch": len(lens), "context_len": lens, "next_n": next_n, "num_heads": heads, "page_size": page_size}
    case.update(head_dim=dims[0], head_dim_v=dims[1], kv_format=kv_format, values=values, block_table=table, poison=poison)
    inputs = mla_decode.make_inputs({**case, "empty_row": empty_row}, Generator(seed))
    one = fast.mla_decode(**inputs.tensors, **inputs.scalars, out=None, lse=None, alloc=None)
    two = naive.mla_decode(**inputs.tensors, **inputs.scalars, out=None, lse=None, alloc=None)
    for a, b in zip(one.values(), two, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize("selection", ["topk", "repeated"])
def test_sparse_references_agree(selection):
    case = {**DEFAULTS, "batch": 3, "context_len": [20, 0, 3], "num_heads": 2, "page_size": 1, "topk": 8, "selection": selection}
    inputs = mla_decode.make_inputs({**case, "kv_format": "fp8_656", "poison": "nan"}, Generator(1))
    assert inputs.tensors["kv_indptr"].tolist() == [0, 8, 8, 11]
    one = fast.mla_decode(**inputs.tensors, **inputs.scalars, out=None, lse=None, alloc=None)
    two = naive.mla_decode(**inputs.tensors, **inputs.scalars, out=None, lse=None, alloc=None)
    for a, b in zip(one.values(), two, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("values", sorted(AXES["values"].choices))
@pytest.mark.parametrize("kv_format", FORMATS)
def test_an_honest_kernel_passes(runner, values, kv_format):
    row = judge(runner, values=values, kv_format=kv_format, **SMALL)
    assert row["verdict"] == "pass", row["message"]
    assert 0 < row["metrics"]["max_bound_ratio"] < 1 and not row["trivial"]


@pytest.mark.parametrize("axis", ["block_table", "poison", "empty_row", "scale"])
def test_an_honest_kernel_passes_for_every_choice(runner, axis):
    for choice in sorted(AXES[axis].choices):
        for kv_format in ("bf16", "fp8_656"):
            row = judge(runner, **{axis: choice}, kv_format=kv_format, **SMALL)
            assert row["verdict"] == "pass", (choice, row["message"])


@pytest.mark.parametrize("values", sorted(attention.CODED))
@pytest.mark.parametrize("kv_format", ["bf16", "fp8_656"])
def test_coded_attention_is_exact_by_construction(values, kv_format):
    """The expected output is integers over a power of two, in a format with eight bits, and lse the logarithm of a group."""
    inputs = mla_decode.make_inputs({**DEFAULTS, **SMALL, "values": values, "kv_format": kv_format, "poison": "nan"}, Generator(2))
    model = precision.parse("mla+u_p=bf16+u_out=bf16")
    sides = importlib.import_module("kvcheck.agent.judge.expected.mla_decode").expected(inputs, inputs.tensors, model)
    out, bound = sides["out"]
    rounded = torch.where(out.abs() < 1e-100, 0.0, out)
    assert torch.equal(rounded, rounded.bfloat16().double()) and float(bound.max()) <= 2.0**-126
    lse = sides["lse"][0]
    sizes = torch.exp(lse[torch.isfinite(lse)])
    assert torch.allclose(sizes, torch.exp2(torch.log2(sizes).round()), rtol=1e-12) and float(sides["lse"][1].max()) < 1e-5


def test_one_wrong_token_among_many_is_seen_by_coded_attention_alone(runner, tmp_path):
    """A tenth of a rounding of P: no tolerance that passes an honest bf16 kernel could see it in a diffuse softmax."""
    file = tmp_path / "one_token.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\nPRECISION = 'mla+u_p=bf16+u_out=bf16'\n"
        "def mla_decode(**a):\n    indices = a['kv_indices'].clone()\n    indices[4000] = indices[3000]\n"
        "    torch_eager.mla_decode(**{**a, 'kv_indices': indices})\n"
    )
    shape = dict(context_len=8192, page_size=1, num_heads=128, head_dim=96, head_dim_v=32)
    assert judge(runner, str(file), **shape)["verdict"] == "pass"
    row = judge(runner, str(file), values="coded_attention", **shape)
    assert row["verdict"] == "mismatch" and row["bad_count"] > 0


LONG = {"batch": 2, "context_len": [150, 37]}
"""No row that the fault would empty or fill: that would be a finite mask that differs."""

FAULTS = {
    "causal_mask_missing": ("mismatch", LONG),
    "last_page_len_is_seq_len": ("mismatch", {"page_size": 1, "next_n": 1}),
    "lse_base_2": ("mismatch", {}),
    "page_skipped": ("mismatch", {}),
    "repeated_slots_once": ("mismatch", {"page_size": 1, "next_n": 1, "selection": "repeated", "topk": 64}),
    "rope_dropped": ("mismatch", {}),
    "scale_missing": ("mismatch", {"kv_format": "fp8_656"}),
    "split_dropped": ("mismatch", LONG),
    "splits_averaged": ("mismatch", {}),
    "tail_of_last_page_attended": ("mismatch", {"next_n": 1}),
    "tail_times_zero": ("nonfinite", {"poison": "nan"}),
}


def test_every_fault_of_the_op_is_expected():
    known = [specs.load("faults", name).data for name in specs.names("faults")]
    known = [data for data in known if "mla_decode" in data["ops"] and data["base"] == "torch_eager"]
    assert set(FAULTS) == {data["name"] for data in known if "relation" not in data}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(runner, fault):
    verdict, changes = FAULTS[fault]
    row = judge(runner, f"fault:{fault}", **{**SMALL, **changes})
    assert row["verdict"] == verdict, row["message"]
    assert f"fault:{fault}" in row["dispatch"] and row["first_bad"]["index"]


def test_the_lse_alone_tells_its_base(runner):
    row = judge(runner, "fault:lse_base_2", **SMALL)
    assert row["output"] == "lse" and set(row["first_bad"]["index"]) == {"request", "query token", "head"}


@pytest.mark.parametrize("poison", ["zero", "large", "finite_beacon", "none"])
def test_a_tail_times_zero_is_right_unless_the_tail_is_not_finite(runner, poison):
    assert judge(runner, "fault:tail_times_zero", **{**SMALL, "poison": poison})["verdict"] == "pass"


@pytest.mark.parametrize(
    "fault", ["last_page_len_is_seq_len", "page_skipped", "split_dropped", "tail_of_last_page_attended", "causal_mask_missing"]
)
def test_coded_attention_catches_addressing_faults_with_poison_that_looks_real(runner, fault):
    shape = dict(batch=2, context_len=[500, 77], num_heads=16, page_size=16, values="coded_attention", poison="none", next_n=2)
    if fault == "last_page_len_is_seq_len":
        shape.update(page_size=1, next_n=1)
    if fault == "tail_of_last_page_attended":
        shape.update(next_n=1)
    assert judge(runner, **shape)["verdict"] == "pass"
    assert judge(runner, f"fault:{fault}", **shape)["verdict"] == "mismatch"


def test_the_empty_row_convention_is_judged(runner, tmp_path):
    file = tmp_path / "minus.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\nPRECISION = 'mla+u_p=0+u_out=bf16'\n"
        "def mla_decode(**a):\n    torch_eager.mla_decode(**{**a, 'empty_row': 'zero_minus_1e30'})\n"
    )
    assert judge(runner, str(file), empty_row="zero_minus_1e30", **SMALL)["verdict"] == "pass"
    row = judge(runner, str(file), empty_row="zero_inf", **SMALL)
    assert (row["verdict"], row["output"], row["first_bad"]["expected"]) == ("nonfinite", "lse", float("inf"))
    assert judge(runner, str(file), empty_row="zero", **SMALL)["verdict"] == "pass", "no lse is promised there"


def test_a_batch_of_empty_rows_proves_nothing_of_values(runner):
    row = judge(runner, batch=2, context_len=0)
    assert row["verdict"] == "pass" and "max_bound_ratio" in row["trivial"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"selection": "topk", "page_size": 16}, "page_size"),
        ({"selection": "topk", "page_size": 1, "next_n": 2}, "next_n"),
        ({"values": "coded_attention", "batch": 2, "block_table": "shared_prefix"}, "shared"),
        ({"values": "coded_attention", "softmax_scale": 0.001}, "softmax_scale"),
        ({"values": "coded_attention", "kv_format": "e4m3fn", "kv_scale": 0.3}, "power of two"),
        ({"kv_format": "fp8_656", "head_dim": 592}, "512 + 64"),
        ({"num_pages": 1, "context_len": 100, "page_size": 16}, "need 7 pages"),
    ],
)
def test_what_cannot_be_is_an_invalid_case_and_says_why(runner, params, text):
    row = judge(runner, **params)
    assert row["verdict"] == "invalid_case" and text in row["message"]


def test_scales_that_are_read_must_be_positive_and_finite(runner, monkeypatch):
    honest = mla_decode.make_inputs

    def broken(case, generator):
        inputs = honest(case, generator)
        page = int(inputs.tensors["kv_indices"][0])
        inputs.tensors["kv_cache"][page, 0, 0, 512:516] = torch.tensor([-1.0]).view(torch.uint8)
        return inputs

    monkeypatch.setattr(mla_decode, "make_inputs", broken)
    row = judge(runner, kv_format="fp8_656", **SMALL)
    assert row["verdict"] == "invalid_case" and "scales" in row["message"]


def test_precision_models_of_attention():
    model = precision.parse("mla+u_p=fp16+u_out=2^-7+n_acc=512+tile=64")
    assert (model.u_p, model.eta_p, model.u_out, model.n_acc, model.tile) == (2.0**-11, 2.0**-25, 2.0**-7, 512, 64)
    for wrong in ("mla+u_k=bf16", "fp32_any+u_p=bf16", "mla+n_acc=2^-3"):
        with pytest.raises(ValueError):
            precision.parse(wrong)
    assert precision.assumed({"arch": "sm_90"}, "mla_decode").startswith("mla+")


def test_a_bound_for_fp32_weights_blames_bf16_weights(runner, tmp_path):
    """The P format is part of the model: of a truncating bf16 P the fp32 model sees the error, and its own model does not."""
    file = tmp_path / "truncated.py"
    file.write_text(
        "import torch\nfrom kvcheck.agent.layouts import mla\n"
        "def mla_decode(**a):\n"
        "    rows = a['kv_cache'].view(-1, a['kv_cache'].shape[-1])[a['kv_indices'][: int(a['kv_indptr'][-1])].long()]\n"
        "    k = mla.decode(rows, 'fp16', 1.0).float()\n"
        "    s = a['q'][0, 0].float() @ k.T * a['softmax_scale']\n"
        "    p = torch.exp(s - s.amax(1, keepdim=True))\n"
        "    cut = (p.view(torch.int32) & -65536).view(torch.float32)\n"
        "    a['out'][0, 0] = ((cut @ k[:, : a['head_dim_v']]) / p.sum(1, keepdim=True)).half()\n"
        "    a['lse'][0, 0] = torch.logsumexp(s, 1)\n"
    )
    shape = dict(context_len=2048, num_heads=8, page_size=1, kv_format="fp16", head_dim=96, head_dim_v=32)
    verdicts = [judge(runner, str(file), request={"precision": f"mla+u_p={u}+u_out=fp16+n_acc=64"}, **shape) for u in ("0", "2^-7")]
    assert verdicts[0]["verdict"] == "mismatch" and verdicts[1]["verdict"] == "pass", [row["metrics"] for row in verdicts]


INTERPRETED = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
from kvcheck.agent import main, specs
torch.set_num_threads(1)
runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})
defaults = {name: axis.default for name, axis in specs.axes("mla_decode").items()}
small = dict(batch=3, context_len=[70, 0, 9], next_n=2, num_heads=3, page_size=16, num_splits=3, head_dim=96, head_dim_v=32)
wide = dict(batch=2, context_len=[40, 0], num_heads=2, page_size=1, num_splits=2, kv_format="fp8_656", poison="nan")
for case in (
    dict(small),
    dict(small, kv_format="fp16", values="flat", empty_row="zero_minus_1e30", poison="nan"),
    dict(small, kv_format="e4m3fn", values="coded_attention", poison="nan"),
    dict(small, kv_format="e4m3fnuz", values="heavy_tail", num_splits=64, empty_row="nan"),
    dict(wide, values="coded_latent"),
    dict(wide, scale="amax", selection="repeated", topk=16),
):
    request = {"op": "mla_decode", "provider": "triton", "params": {**defaults, **case}, "seed": 3}
    row = runner.run_case(request, lambda phase: None)
    print(row["verdict"], row["message"])
"""


@pytest.mark.timeout(170)
def test_our_triton_kernel_passes_under_the_interpreter():
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, timeout=160, env={**os.environ})
    assert done.stdout.split("\n")[:-1] == ["pass "] * 6, done.stdout + done.stderr[-2000:]
