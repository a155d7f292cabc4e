"""One case from request to row: honest kernels pass everywhere, planted faults fail with the right verdict and place."""

from __future__ import annotations

import pytest
import torch

from kvcheck.agent import main, specs
from kvcheck.agent.protocol import failed

DEFAULTS = {op: {name: axis.default for name, axis in specs.axes(op).items()} for op in specs.names("ops")}
SMALL = dict(context_len=[300, 77], batch=2, next_n=2, topk=64, max_model_len=300)


@pytest.fixture(scope="module")
def runner():
    torch.set_num_threads(1)
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def judge(runner, provider="torch_eager", op="paged_mqa_logits", request=(), **params):
    message = {"op": op, "provider": provider, "params": {**DEFAULTS[op], **params}, "seed": 42, **dict(request)}
    return runner.run_case(message, lambda phase: None)


def choices(op, axis):
    return sorted(set(specs.axes(op)[axis].choices) - {"random_bytes"})


@pytest.mark.parametrize("values", choices("paged_mqa_logits", "values"))
@pytest.mark.parametrize("kv_dtype", ["e4m3fn", "e4m3fnuz"])
def test_honest_logits_pass_for_every_distribution(runner, values, kv_dtype):
    row = judge(runner, values=values, kv_dtype=kv_dtype, block_size=16, scale="decades", **SMALL)
    assert row["verdict"] == "pass", row["message"]
    assert row["metrics"]["max_bound_ratio"] < 0.1 and row["metrics"]["topk_tie_aware_match"] == 1 and row["trivial"] == []


@pytest.mark.parametrize("axis", ["block_table", "poison", "cache", "table_stride"])
def test_honest_logits_pass_for_every_layout(runner, axis):
    for choice in choices("paged_mqa_logits", axis):
        assert judge(runner, block_size=16, **{axis: choice}, **SMALL)["verdict"] == "pass", choice


@pytest.mark.parametrize("values", choices("topk_per_row", "values"))
def test_honest_topk_passes_for_every_distribution(runner, values):
    for poison in choices("topk_per_row", "poison"):
        row = judge(runner, op="topk_per_row", values=values, poison=poison, context_len=[300, 0, 64, 65], batch=4, next_n=2, topk=64)
        assert row["verdict"] == "pass", (poison, row["message"])


FAULTS = {
    "duplicate_index": ("wrong_topk", {}),
    "flat_read_as_shuffled": ("mismatch", {}),
    "fn_read_as_fnuz": ("mismatch", {}),
    "head_dropped": ("mismatch", {}),
    "mask_off_by_one": ("nonfinite", {}),
    "nothing_after_empty_request": ("unwritten", {"context_len": [0, 77]}),
    "only_last_tile_cut": ("nonfinite", {"context_len": 301, "max_model_len": 320, "next_n": 3}),
    "next_token_scale": ("mismatch", {}),
    "pages_taken_as_adjacent": ("nonfinite", {"cache": "pitched"}),
    "rows_past_offset_dropped": ("unwritten", {}),
    "row_limits_reversed": ("nonfinite", {}),
    "stored_past_row": ("out_of_bounds_write", {"context_len": 300}),
    "table_indexed_per_token": ("mismatch", {}),
    "table_rows_taken_as_adjacent": ("mismatch", {"table_stride": "wider"}),
    "tail_unwritten": ("unwritten", {}),
    "writes_table": ("input_mutated", {}),
    "wrong_between": ("mismatch", {}),
    "wrong_past": ("mismatch", {}),
}


def test_every_fault_is_expected_somewhere():
    """Faults of the other ops are those ops' tests' to expect, faults that values do not show are `test_relations`', those of our Triton
    kernels `test_selftest`'s."""
    here = {"paged_mqa_logits", "topk_per_row"}
    known = {name: specs.load("faults", name).data for name in specs.names("faults")}
    assert set(FAULTS) == {
        name for name, data in known.items() if here & set(data["ops"]) and "relation" not in data and data["base"] == "torch_eager"
    }


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught_with_their_verdict(runner, fault):
    verdict, changes = FAULTS[fault]
    data = specs.load("faults", fault).data
    name = f"fault:{fault}" + {"int": "=100", "range": "=100-400", None: ""}[data["value"]]
    for op in sorted({"paged_mqa_logits", "topk_per_row"} & set(data["ops"])):
        params = {**SMALL, **changes, **({"block_size": 16} if op == "paged_mqa_logits" else {})}
        row = judge(runner, name, op, **params)
        wanted = "wrong_topk" if op == "topk_per_row" else verdict
        assert row["verdict"] == wanted, (op, row["message"])
        assert name in row["dispatch"]


def test_table_fault_is_invisible_at_block_size_one(runner):
    assert judge(runner, "fault:table_indexed_per_token", block_size=1, **SMALL)["verdict"] == "pass"


def test_mask_fault_names_row_position_block_and_offset(runner):
    bad = judge(runner, "fault:mask_off_by_one", block_size=16, **SMALL)["first_bad"]
    assert (bad["row"], bad["position"], bad["block"], bad["offset"]) == (0, 299, 18, 11)
    assert bad["expected"] == "-inf" and bad["actual"] == 0.0


def test_faults_compose(runner):
    row = judge(runner, "fault:wrong_past=200+tail_unwritten", block_size=16, **SMALL)
    assert row["verdict"] == "unwritten" and "mismatch" in row["also_failed"]


def test_set_match_stands_beside_its_chance_level_and_is_trivial_when_no_row_is_longer_than_k(runner):
    row = judge(runner, block_size=16, **{**SMALL, "topk": 300})
    assert "topk_set_match" in row["trivial"] and "topk_set_match" not in row["metrics"]
    row = judge(runner, block_size=16, **SMALL)
    assert row["metrics"]["topk_set_match_chance"] == pytest.approx((64 / 299 + 64 / 300 + 64 / 76 + 64 / 77) / 4)


def test_random_bytes_are_an_invalid_case_for_any_seed_and_shape(runner):
    for seed, shape in (
        (1, dict(context_len=64)),
        (2, dict(context_len=[9, 500], batch=2, block_size=16)),
        (3, dict(context_len=4, num_heads=1)),
    ):
        row = judge(runner, values="random_bytes", request={"seed": seed}, **shape)
        assert row["verdict"] == "invalid_case" and "NaN codes" in row["message"] and "negative" in row["message"]


@pytest.mark.parametrize("part", ["key", "scale", "negative scale", "zero scale", "q", "weight"])
def test_a_single_bad_value_is_an_invalid_case(runner, part, monkeypatch):
    from kvcheck.agent.ops import paged_mqa_logits

    honest = paged_mqa_logits.make_inputs

    def broken(case, generator):
        inputs = honest(case, generator)
        page = inputs.tensors["kv_cache"][int(inputs.tensors["block_table"][0, 0])].view(-1)
        scale = page[16 * 128 : 16 * 128 + 4]
        if part == "key":
            page[3] = 0x7F
        elif part.endswith("scale"):
            value = {"scale": float("inf"), "negative scale": -1.0, "zero scale": 0.0}[part]
            scale.copy_(torch.tensor([value]).view(torch.uint8))
        elif part == "q":
            inputs.tensors["q"].view(torch.uint8)[0, 0, 0, 0] = 0xFF
        else:
            inputs.tensors["weights"][0, 0] = float("nan")
        return inputs

    monkeypatch.setattr(paged_mqa_logits, "make_inputs", broken)
    assert judge(runner, block_size=16, **SMALL)["verdict"] == "invalid_case"


def test_poison_nobody_reads_is_no_premise(runner):
    assert judge(runner, block_size=16, poison="nan", **SMALL)["verdict"] == "pass"


def test_zero_length_batch_says_what_could_have_failed(runner):
    row = judge(runner, context_len=0, batch=3)
    assert row["verdict"] == "pass" and "max_bound_ratio" in row["trivial"] and "no position is promised" in row["message"]


HEADER = """import torch
def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
"""


def user(tmp_path, body, name="mine"):
    file = tmp_path / f"{name}.py"
    file.write_text(HEADER + body)
    return str(file)


USER = {
    "    raise RuntimeError('[red]boom')\n": ("crash", "RuntimeError: [red]boom"),
    "    raise Unsupported('needs gfx950')\n": ("unsupported", "needs gfx950"),
    "    return out[:, 1:]\n": ("wrong_shape", "returned"),
    "    return out.double()\n": ("wrong_shape", "float64"),
    "    return 3\n": ("wrong_shape", "returned int"),
    "    pass\n": ("unwritten", "never written"),
    "    out.fill_(0)\n": ("nonfinite", "past them"),
    "    kv_cache.zero_(); out.fill_(0)\n": ("input_mutated", "kv_cache"),
    "    alloc((2, 2), torch.float32, 0).as_strided((5,), (1,))[:] = 0\n": ("out_of_bounds_write", "scratch"),
    "    import sys; sys.exit(3)\n": ("crash", "SystemExit"),
}


@pytest.mark.parametrize("body", sorted(USER))
def test_a_users_own_file_gets_the_verdict_it_earned(runner, tmp_path, body):
    verdict, text = USER[body]
    row = judge(runner, user(tmp_path, body, f"mine_{abs(hash(body))}"), block_size=16, **SMALL)
    assert row["verdict"] == verdict and text in row["message"]


def test_a_file_that_does_not_load_is_not_the_kernels_fault(runner, tmp_path):
    (tmp_path / "broken.py").write_text("import does_not_exist\n")
    row = judge(runner, str(tmp_path / "broken.py"), **SMALL)
    assert row["verdict"] == "harness_error" and "does_not_exist" in row["message"]


def test_precision_is_assumed_declared_or_given(runner, tmp_path):
    plain = user(tmp_path, "    pass\n", "plain")
    assert judge(runner, plain, **SMALL)["precision"] == "fp32_any (assumed)"
    declared = tmp_path / "declared.py"
    declared.write_text((tmp_path / "plain.py").read_text() + "PRECISION = {'paged_mqa_logits': 'fp32_any+u_out=bf16'}\n")
    assert judge(runner, str(declared), **SMALL)["precision"] == "fp32_any+u_out=bf16 (declared)"
    assert judge(runner, str(declared), request={"precision": "ieee_rn"}, **SMALL)["precision"] == "ieee_rn (given)"


def test_a_repeat_that_differs_is_nondeterministic(runner, tmp_path):
    file = tmp_path / "flaky.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\nturn = [0]\n"
        "def paged_mqa_logits(**a):\n    torch_eager.paged_mqa_logits(**a)\n    turn[0] += 1\n    a['out'][0, 0] += turn[0] * 2**-13\n"
    )
    assert judge(runner, str(file), block_size=16, **SMALL)["verdict"] == "pass"
    assert judge(runner, str(file), request={"repeat": 3}, block_size=16, **SMALL)["verdict"] == "nondeterministic"


def test_premise_alone_can_be_asked(runner):
    row = judge(runner, "torch_eager", request={"premise_only": True}, **SMALL)
    assert row["premise"] == "holds" and row["metrics"] == {}
    assert judge(runner, request={"premise_only": True}, values="random_bytes", **SMALL)["premise"] == "fails"


def test_a_crash_on_a_failed_premise_is_an_invalid_case_with_the_crash_in_it(runner, tmp_path):
    row = judge(runner, user(tmp_path, "    raise RuntimeError('boom')\n", "boom"), values="random_bytes", **SMALL)
    assert row["verdict"] == "invalid_case" and "boom" in row["message"] and not failed(row["verdict"])


NARROW = """
import torch
from kvcheck.agent.layouts import block_flat, fp8


def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
    for row, length in enumerate(context_lens.tolist()):
        position = torch.arange(length)
        slots = block_table[row, position // block_size].long() * block_size + position % block_size
        codes, scales = block_flat.gather(kv_cache, slots)
        keys, query = fp8.decode(codes, kv_dtype), fp8.decode(q[row, 0].view(torch.uint8), kv_dtype)
        dot = torch.zeros(len(query), length, dtype=torch.float64)
        for start in range(0, query.shape[1], 32):
            products = query[:, None, start : start + 32] * keys[None, :, start : start + 32]
            top = torch.maximum(products.abs().amax(2), dot.abs())
            unit = torch.ldexp(torch.ones_like(top), torch.frexp(top).exponent - 1 - BITS)
            dot = (torch.trunc(products / unit[..., None]).sum(2) + torch.trunc(dot / unit)) * unit
        out[row, :length] = (weights[row, :, None] * torch.relu(dot.float() * scales)).sum(0)
"""


@pytest.mark.parametrize(("bits", "model"), [(13, "hopper_wgmma_fp8 (probed)"), (24, "fp32_any (probed)"), (5, "fp32_any (assumed)")])
def test_precision_can_be_probed(runner, tmp_path, bits, model):
    """Sums whose addends are cut to 13 bits below the largest are told from fp32, and neither is guessed for worse ones."""
    file = tmp_path / f"narrow_{bits}.py"
    file.write_text(NARROW.replace("BITS", str(bits)))
    row = judge(runner, str(file), request={"precision": "probe"}, context_len=[300], num_heads=4, block_size=16, topk=64)
    assert row["precision"] == model and (row["verdict"] == "pass") == (bits > 5), row["message"]


def test_a_value_error_of_the_judge_is_ours_and_no_invalid_case(runner, monkeypatch):
    def broken(*_):
        raise ValueError("of the harness")

    monkeypatch.setattr("kvcheck.agent.judging.Judgement.judge", broken)
    with pytest.raises(ValueError, match="of the harness"):  # the agent's loop makes it a harness_error
        judge(runner, **SMALL)
