"""The cause of a failure is named: the planted fault where there is one that leaves the same, what is known where there is none."""

from __future__ import annotations

import random

import pytest
import torch

from kvcheck.agent import main, specs
from kvcheck.agent.protocol import failed
from kvcheck.cases.plan import plan
from kvcheck.report.words import diagnosis as words
from kvcheck.report.words import error_text

DEFAULTS = {op: {name: axis.default for name, axis in specs.axes(op).items()} for op in specs.names("ops")}
OPS = ("paged_mqa_logits", "topk_per_row", "block_table", "mla_metadata", "mla_decode", "index_k_cache_write")
CASES_A_FAULT = 2
TRIES = 40
RARE = {"repeated_slots_once", "rows_past_offset_dropped"}
"""Show themselves where a list names a slot twice, which no table here does, and where the output is larger than 2 GiB."""
SIZES = [(1152, 1152, 128, 4), (64, 64, 64, 1), (128, 64, 128, 1), (640, 640, 160, 4), (256, 64, 32, 1), (640, 64, 640, 1)]
BLOCKS = ("manager_block_size", "kernel_block_size", "storage_block_size", "tokens_per_state")
REFUSED = (640, 96, 64, 1)
TABLES = ["shuffled", "reversed", "fragmented", "high_ids", "wide_zero"]


@pytest.fixture(scope="module")
def runner():
    torch.set_num_threads(1)
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def diagnosed(runner, provider, op="paged_mqa_logits", seed=42, **params):
    message = {"op": op, "provider": str(provider), "params": {**DEFAULTS[op], **params}, "seed": seed, "diagnose": True}
    return runner.run_case(message, lambda phase: None)


def whole(row):
    """Names of the faults that explain everything, without their values."""
    return [entry["fault"].partition("=")[0] for entry in row.get("diagnosis") or () if entry["fault"] and entry["explains"] == 1]


def drawn(op, draw):
    """A random small case."""
    pick = draw.choice
    batch = pick([1, 2, 3])
    lens = [pick([1, 17, 64, 77, 130, 200]) for _ in range(batch)]
    lens[1:2] = [pick([0, 65])] if batch == 3 else lens[1:2]
    own = {
        "paged_mqa_logits": dict(
            batch=batch, context_len=lens, num_heads=8, head_dim=32, block_size=pick([1, 16, 64]), block_table=pick(TABLES),
            next_n=pick([1, 2, 3]), topk=64, kv_dtype=pick(["e4m3fn", "e4m3fnuz"]), scale=pick(["amax", "ue8m0", "decades"]),
            values=pick(["gaussian", "heavy_tail", "relu_sparse", "ties"]), cache=pick(["contiguous", "pitched"]),
            table_stride=pick(["width", "wider"]), max_model_len=pick([None, 200, 512]),
        ),
        "topk_per_row": dict(batch=batch, context_len=lens, topk=64, next_n=pick([1, 2]), values=pick(["gaussian", "ties", "narrow_band"])),
        "block_table": dict(
            batch=batch, context_len=[4 * n for n in lens], mapping=pick(["read", "write"]), block_table=pick([*TABLES, "past_2_31"]),
            **dict(zip(BLOCKS, pick([*SIZES, REFUSED]), strict=True)),
        ),
        "mla_metadata": dict(
            batch=batch, context_len=lens, block_size=pick([16, 64]), page_size=pick([1, 4, 16]), block_table=pick(TABLES),
        ),
        "mla_decode": dict(
            batch=batch, context_len=lens, num_heads=4, head_dim=80, head_dim_v=64, next_n=pick([1, 2]),
            page_size=pick([1, 16, 64]), num_splits=pick([1, 2, 4]),
            kv_format=pick(["bf16", "fp16", "e4m3fn"]), block_table=pick(TABLES), poison=pick(["finite_beacon", "nan"]),
        ),
        "index_k_cache_write": dict(
            tokens=pick([17, 64, 100]), head_dim=32, block_size=pick([16, 64]), kv_dtype=pick(["e4m3fn", "e4m3fnuz"]),
            scale_format=pick(["fp32", "ue8m0"]), layout=pick(["block_flat", "shuffled"]), cache=pick(["contiguous", "pitched"]),
            slots=pick(sorted(specs.axes(op)["slots"].choices)) if "slots" in specs.axes(op) else None,
        ),
    }[op]  # fmt: skip
    return own


def named(name, draw):
    """A fault with a value."""
    told = specs.load("faults", name).data.get("candidates")
    low = draw.choice(told if isinstance(told, list) else [16, 64, 100])
    return name + {"int": f"={low}", "range": f"={low}-{low + 60}", None: ""}[specs.load("faults", name).data["value"]]


def caught(runner, op, fault):
    """Failing rows of a fault on random cases."""
    draw, found = random.Random(f"{op} {fault}"), []
    for _ in range(TRIES):
        params = drawn(op, draw)
        if specs.check_params(op, {**DEFAULTS[op], **params}):
            continue
        plain = {"op": op, "provider": f"fault:{named(fault, draw)}", "params": {**DEFAULTS[op], **params}, "seed": draw.randrange(1000)}
        if not failed(runner.run_case(plain, lambda phase: None)["verdict"]):
            continue
        found.append((params, runner.run_case(plain | {"diagnose": True}, lambda phase: None)))
        if len(found) == CASES_A_FAULT:
            break
    return found


def test_the_planted_fault_is_named_and_first_in_nine_of_ten_random_cases(runner):
    known = {name: specs.load("faults", name).data for name in specs.names("faults")}
    known = {name: data for name, data in known.items() if data["base"] == "torch_eager" and "relation" not in data}
    pairs = [(op, fault) for op in OPS for fault, data in known.items() if op in data["ops"]]
    rows = [(fault, *each) for op, fault in pairs for each in caught(runner, op, fault)]
    assert {fault for _, fault in pairs} - {fault for fault, _, _ in rows} <= RARE, "no random case shows them"
    absent = [(fault, params, row["diagnosis"]) for fault, params, row in rows if fault not in whole(row)]
    assert not absent, absent[:1]
    first, alone = (sum(test(whole(row), fault) for fault, _, row in rows) for test in (lambda w, f: w[0] == f, lambda w, f: w == [f]))
    assert first >= 0.9 * len(rows), f"first in {first}, alone in {alone} of {len(rows)}"
    assert alone >= 0.8 * len(rows), f"first in {first}, alone in {alone} of {len(rows)}"


REGRESSIONS = [
    ("vllm_58858_table_in_kernel_blocks", "table_in_kernel_blocks", "storage blocks"),
    ("vllm_31282_last_page_len", "last_page_len_is_seq_len", "takes last_page_len for the sequence length"),
    ("vllm_52109_flat_read_as_shuffled", "flat_read_as_shuffled", "tiles of 16 tokens"),
    ("fn_read_as_fnuz", "fn_read_as_fnuz", "factor of two"),
]


@pytest.mark.parametrize(("ref", "fault", "sentence"), REGRESSIONS)
def test_public_bugs_are_named_on_their_own_cases(runner, ref, fault, sentence):
    """BUGS 4, 5, 9 and 11."""
    data = specs.load("faults", fault).data
    told = 0
    for case in plan([f"regressions/{ref}"]).cases[:12]:
        if case.op in data["ops"]:
            row = runner.run_case(case.request() | {"provider": f"fault:{fault}", "diagnose": True}, lambda phase: None)
            if failed(row["verdict"]):
                assert whole(row)[:1] == [fault], row["diagnosis"]
                assert sentence in row["diagnosis"][0]["sentence"]
                told += 1
    assert told


def kernel(tmp_path, body):
    """A user's FILE.py: torch_eager, and a change."""
    path = tmp_path / "mine.py"
    text = "from kvcheck.agent.providers import torch_eager\n\ndef paged_mqa_logits(**arguments):\n    out = arguments['out']\n"
    signature = "q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc"
    text = text.replace("**arguments", signature).replace("    out = arguments['out']\n", "    arguments = dict(locals())\n")
    path.write_text(text + "".join(f"    {line}\n" for line in body))
    return path


FORWARD = "torch_eager.paged_mqa_logits(**{{**arguments, {}}})"
SMALL = dict(batch=2, context_len=[400, 90], num_heads=8, block_size=16, topk=64)


def test_a_fault_that_is_not_in_the_set_is_told_by_place_and_by_the_slot_that_was_read(runner, tmp_path):
    """Page 20 of the first sequence is read from page 3."""
    body = ["table = block_table.clone()", "table[0, 20] = table[0, 3]", FORWARD.format("'block_table': table")]
    row = diagnosed(runner, kernel(tmp_path, body), **SMALL)
    (entry,) = row["diagnosis"]
    assert (entry["fault"], entry["explains"]) == (None, 0.0)
    place = ("16 of 490 promised", "wrong rows: 0 of 2", "positions 320 to 335", "whole pages of 16: 20")
    for part in ("none of the", *place, "row 0 position 320: expected slot", "(request 0 position 48)"):
        assert part in entry["sentence"], entry["sentence"]


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (["out[:, 5::64] *= -3"], "wrong only where position mod 64 (tile) is 5"),
        (["out[0, 256:384] *= -3"], "whole tiles of 128: 2"),
        (["out[0, 200:300] *= -3"], "part 3 of 4 of each row (split)"),
        (["out[0, 390:400] *= -3"], "to the end of each row, from position 390"),
        (["out[1, :90] *= -3"], "every position of those rows"),
    ],
)
def test_what_is_known_is_said(runner, tmp_path, body, known):
    row = diagnosed(runner, kernel(tmp_path, ["torch_eager.paged_mqa_logits(**arguments)", *body]), **SMALL)
    entry = row["diagnosis"][-1]
    assert entry["fault"] is None and known in entry["sentence"], entry["sentence"]
    assert "every key is read from its own slot" in entry["sentence"] or "no slot" in entry["sentence"]


def test_two_faults_together_are_named_as_a_pair(runner):
    row = diagnosed(runner, "fault:head_dropped+tail_unwritten", **SMALL)
    assert sorted(row["diagnosis"][0]["fault"].split("+")) == ["head_dropped", "tail_unwritten"]
    assert row["diagnosis"][0]["explains"] == 1 and row["diagnosis"][0]["elements"] == 490


def test_equal_causes_are_all_named_and_the_case_is_said_to_be_unable_to_tell(runner):
    row = diagnosed(runner, "fault:mask_off_by_one", **{**SMALL, "next_n": 1})
    assert {"mask_off_by_one", "row_limits_reversed"} == set(whole(row))
    assert all("cannot tell them apart" in entry["sentence"] for entry in row["diagnosis"])
    assert whole(diagnosed(runner, "fault:mask_off_by_one", **{**SMALL, "next_n": 2})) == ["mask_off_by_one"]


def test_what_passes_or_leaves_nothing_is_not_diagnosed(runner, tmp_path):
    assert "diagnosis" not in diagnosed(runner, "torch_eager", **SMALL)
    row = diagnosed(runner, kernel(tmp_path, ["raise RuntimeError('no')"]), **SMALL)
    assert (row["verdict"], row["diagnosis"]) == ("crash", [])


def test_a_case_without_time_says_so(runner):
    message = {"op": "paged_mqa_logits", "provider": "fault:head_dropped", "params": {**DEFAULTS["paged_mqa_logits"], **SMALL}, "seed": 1}
    (entry,) = runner.run_case(message | {"diagnose": True, "diagnose_s": 1e-6}, lambda phase: None)["diagnosis"]
    assert entry["explains"] is None and entry["sentence"].startswith("not diagnosed: the case took")


def test_the_words_name_the_fault_its_share_and_its_peers():
    whole_ = {"fault": "a_fault", "explains": 1.0, "elements": 1048576, "sentence": "reads ids of another unit; and more"}
    none = {"fault": None, "explains": 0.0, "elements": 10, "sentence": "none of the 9 faults that change this case explains it: row 3"}
    assert words.explained({"diagnosis": []}) is None and words.closing([{"diagnosis": []}], str) is None
    said = words.explained({"diagnosis": [whole_, {**whole_, "fault": "b_fault"}]})
    assert said.startswith("explained by fault:a_fault: explains 100 % of 1,048,576 elements: reads ids of another unit")
    assert said.endswith("(as well: b_fault)")
    partly = {**whole_, "explains": 0.99999999}
    assert words.explained({"diagnosis": [partly, none]}).startswith("nearest is fault:a_fault: explains almost 100 % of")
    assert words.explained({"diagnosis": [none]}).startswith("none of the 9")
    closing = words.closing([{"diagnosis": [whole_]}, {"diagnosis": [whole_]}, {"diagnosis": [none]}], str)
    assert closing.startswith("Of 3 failing cases that were diagnosed, fault:a_fault explains 2 (reads ids of another unit); ")
    assert closing.endswith("1 is explained by no fault that is known.")
    lines = error_text({"verdict": "mismatch", "op": "x", "diagnosis": [whole_]}).split("\n")
    assert len(lines) == 5 and lines[2].startswith("  explained by") and lines[4].startswith("  again: ")
