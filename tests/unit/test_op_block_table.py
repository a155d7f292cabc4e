"""The block table: references agree, honest kernels pass, faults and missing refusals are caught, and the worked example holds."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import main, specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.ops import block_table as op
from kvcheck.agent.protocol import encode

DEFAULTS = {name: axis.default for name, axis in specs.axes("block_table").items()}
SIZES = ("manager_block_size", "kernel_block_size", "storage_block_size", "tokens_per_state")
TABLES = sorted(specs.axes("block_table")["block_table"].choices)
EXAMPLE = dict(batch=1, context_len=3456, block_table="five_seven_two")
TOKENS = {
    0: (45, 1440, 5), 3: (45, 1440, 5), 127: (45, 1471, 5), 128: (46, 1472, 7), 383: (47, 1535, 2), 384: (48, 1536, 0),
    1151: (53, 1727, 0), 1152: (63, 2016, 0), 1400: (64, 2078, 0), 1403: (64, 2078, 0), 2303: (71, 2303, 0), 2304: (18, 576, 0),
    3455: (26, 863, 0),
}  # fmt: skip
"""SEMANTICS 7.6: position -> page, slot, and the page that the old mapping gave."""


@pytest.fixture(scope="module")
def runner():
    torch.set_num_threads(1)
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def judge(runner, provider="torch_eager", **params):
    message = {"op": "block_table", "provider": provider, "params": {**DEFAULTS, **params}, "seed": 42}
    return runner.run_case(message, lambda phase: None)


def sizes(manager, kernel, storage, per_state):
    return dict(zip(SIZES, (manager, kernel, storage, per_state), strict=True))


def reference(suffix=""):
    return importlib.import_module(f"kvcheck_references.block_table{suffix}").block_table


def both(inputs):
    return [side(**inputs.tensors, **inputs.scalars, out=None, alloc=None) for side in (reference(), reference("_naive"))]


@st.composite
def block_sizes(draw):
    per_state = draw(st.sampled_from([1, 2, 4]))
    storage = per_state * draw(st.integers(1, 6))
    manager = storage * draw(st.integers(1, 6))
    inner = [k for k in range(1, manager + 1) if manager % k == 0 and (k % storage == 0 or storage % k == 0)]
    return sizes(manager, draw(st.sampled_from(inner)), storage, per_state)


@settings(max_examples=120, deadline=None)
@given(
    block_sizes(),
    st.lists(st.integers(0, 90), min_size=2, max_size=4),
    st.sampled_from([t for t in TABLES if t != "past_2_31"]),
    st.sampled_from(["read", "write"]),
    st.integers(0, 9),
)
def test_the_references_agree_wherever_an_answer_is_asked(shape, lengths, table, mapping, seed):
    case = {**DEFAULTS, **shape, "batch": len(lengths), "context_len": lengths, "block_table": table, "mapping": mapping}
    inputs = op.make_inputs(case, Generator(seed))
    assert inputs.refusal is None
    fast, naive = both(inputs)
    assert torch.equal(fast, naive) and fast.dtype == torch.int64
    assert fast[-3:].tolist() == [-1, -1, -1]


@settings(max_examples=200, deadline=None)
@given(st.tuples(st.integers(1, 48), st.integers(1, 48), st.integers(1, 48), st.integers(1, 4)))
def test_op_and_references_refuse_the_same_sizes(chosen):
    case = {**DEFAULTS, **sizes(*chosen), "batch": 1, "context_len": 3}
    inputs = op.make_inputs(case, Generator(0))
    refused = []
    for side in (reference(), reference("_naive")):
        try:
            side(**inputs.tensors, **inputs.scalars, out=None, alloc=None)
            refused.append(False)
        except ValueError:
            refused.append(True)
    assert refused == [inputs.refusal is not None] * 2


def slots_of(function):
    inputs = op.make_inputs({**DEFAULTS, **EXAMPLE}, Generator(0))
    assert inputs.tensors["block_table"].tolist() == [[5, 7, 2]]
    out = torch.zeros(len(inputs.tensors["positions"]), dtype=torch.int64)
    made = function(**inputs.tensors, **inputs.scalars, out=out, alloc=None)
    return out if made is None or isinstance(made, dict) else made


@pytest.mark.parametrize("side", ["reference", "naive", "torch_eager"])
def test_the_worked_example_gives_its_slots(side):
    from kvcheck.agent import assemble

    known = {"reference": reference(), "naive": reference("_naive")}
    slots = slots_of(known.get(side) or assemble.provider(side, "cpu").function("block_table"))
    assert {position: int(slots[position]) for position in TOKENS} == {position: slot for position, (_, slot, _) in TOKENS.items()}
    assert {int(slots[position]) // 32 for position in range(1152)} == set(range(45, 54))


def test_the_old_mapping_gives_the_old_pages():
    from kvcheck.agent import assemble

    slots = slots_of(assemble.provider("fault:table_in_kernel_blocks", "cpu").function("block_table"))
    assert {position: int(slots[position]) // 32 for position in TOKENS} == {position: old for position, (_, _, old) in TOKENS.items()}
    assert int(slots[:3456].max()) < 9 * 32, "every page lies inside null block 0"


def test_the_old_mapping_has_no_right_slot_and_shares_them(runner):
    row = judge(runner, "fault:table_in_kernel_blocks", batch=2, context_len=3456, block_table="five_seven_two")
    assert row["verdict"] == "mismatch" and row["metrics"]["slot_match"] == 0
    assert "metamorphic" in row["also_failed"] and row["metrics"]["shared_slots"] > 0
    assert "null block" in row["message"]


GROUPS = [
    sizes(*chosen)
    for chosen in (
        (1152, 1152, 128, 4), (1152, 64, 128, 4), (1152, 128, 128, 4), (640, 64, 64, 1), (256, 64, 256, 4), (2176, 2176, 128, 4),
        (4352, 4352, 256, 4), (384, 16, 128, 4), (64, 1, 1, 1), (1, 1, 1, 1), (1280, 256, 256, 128),
    )
]  # fmt: skip


def lengths_of(shape):
    return [2 * shape["manager_block_size"] + 5, 0, 1]


@pytest.mark.parametrize("shape", GROUPS, ids=lambda s: "-".join(map(str, s.values())))
def test_the_honest_kernel_passes(runner, shape):
    for mapping in ("read", "write"):
        row = judge(runner, batch=3, context_len=lengths_of(shape), mapping=mapping, **shape)
        assert row["verdict"] == "pass", row["message"]
        assert row["trivial"] == []
    assert row["element_count"] == sum(lengths_of(shape)) + 3


@pytest.mark.parametrize("table", TABLES)
def test_the_honest_kernel_passes_on_every_table(runner, table):
    assert judge(runner, batch=2, context_len=[2400, 3000], block_table=table)["verdict"] == "pass"


REFUSED = [sizes(192, 48, 64, 4), sizes(1152, 500, 128, 4), sizes(192, 192, 128, 4), sizes(128, 128, 256, 4), sizes(128, 128, 2, 4)]


@pytest.mark.parametrize("shape", REFUSED, ids=lambda s: "-".join(map(str, s.values())))
def test_what_must_be_refused_is_a_pass_only_when_refused(runner, shape):
    row = judge(runner, **shape)
    assert row["verdict"] == "pass" and "refused, as it must be" in row["message"] and row["premise"] == "holds"
    row = judge(runner, "fault:refusal_missing", **shape)
    assert (row["verdict"], row["check"]) == ("mismatch", "refusal")
    assert op.refusal({**DEFAULTS, **shape}) in row["message"]


def test_our_triton_kernel_passes_and_refuses_too():
    """In an agent of its own: Triton decides when it is imported whether it interprets."""
    cases = [shape | dict(batch=3, context_len=lengths_of(shape), mapping=mapping) for shape in GROUPS for mapping in ("read", "write")]
    cases += [EXAMPLE, *(dict(context_len=[2400, 3000], block_table=table) for table in TABLES), *REFUSED]
    message = {"type": "case", "op": "block_table", "provider": "triton", "seed": 42}
    sent = b"".join(encode({**message, "params": {**DEFAULTS, **case}}) for case in cases)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    agent = [sys.executable, "-m", "kvcheck.agent", "--device", "cpu"]
    done = subprocess.run(agent, input=sent, capture_output=True, env=environment, cwd="/", timeout=170, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [answer["row"] for answer in answers if answer["type"] == "result"]
    assert [row["verdict"] for row in rows] == ["pass"] * len(cases), [row["message"] for row in rows] or done.stderr
    assert all("refused" in row["message"] for row in rows[-len(REFUSED) :])


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("raise Unsupported('no such kernel')", "unsupported"),
        ("raise ZeroDivisionError('integer division')", "crash"),
        ("raise NotImplementedError('sizes')", "pass"),
        ("block_table.zero_(); raise ValueError('sizes')", "input_mutated"),
        ("out.zero_()", "mismatch"),
    ],
)
def test_only_a_refusal_is_a_refusal(runner, tmp_path, body, verdict):
    file = tmp_path / "mine.py"
    file.write_text(f"def block_table(block_table, out, **rest):\n    {body}\n")
    assert judge(runner, str(file), **REFUSED[0])["verdict"] == verdict


FAULTS = {
    "collapse_without_divide": dict(kernel_block_size=64),
    "null_block_read": {},
    "padding_token_in_null_block": {},
    "slot_in_32_bits": dict(block_table="past_2_31"),
    "slot_not_compressed": {},
    "table_in_kernel_blocks": {},
    "unfinished_state_written": dict(mapping="write"),
}
BLIND = {
    "collapse_without_divide": {},
    "slot_in_32_bits": {},
    "slot_not_compressed": dict(tokens_per_state=1),
    "table_in_kernel_blocks": dict(kernel_block_size=128),
    "unfinished_state_written": {},
}


def test_every_fault_is_expected():
    assert FAULTS.keys() | {"refusal_missing"} == {
        n for n in specs.names("faults") if specs.load("faults", n).data["ops"] == ["block_table"]
    }


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught_and_seen_nowhere_else(runner, fault):
    row = judge(runner, f"fault:{fault}", **FAULTS[fault])
    assert row["verdict"] == "mismatch", row["message"]
    assert row["first_bad"]["expected"] != row["first_bad"]["actual"]
    if fault in BLIND:
        assert judge(runner, f"fault:{fault}", **BLIND[fault])["verdict"] == "pass"


def test_the_first_wrong_token_is_named(runner):
    row = judge(runner, "fault:null_block_read", context_len=[1152, 1160])
    bad = row["first_bad"]
    assert (bad["request"], bad["position"], bad["block"], bad["offset"]) == (0, 0, 0, 0)
    bad = judge(runner, "fault:null_block_read", context_len=[0, 1160])["first_bad"]
    assert (bad["request"], bad["position"], bad["block"], bad["offset"]) == (1, 1152, 1, 0)


def test_two_states_in_one_slot_show_without_a_reference(runner):
    """Both requests read the null block: the relation alone says that they share."""
    row = judge(runner, "fault:null_block_read", context_len=[1152, 1152])
    assert row["metrics"]["shared_slots"] == 288 and row["also_failed"] == ["metamorphic"]


def test_requests_may_share_a_prefix_but_nothing_else(runner):
    row = judge(runner, block_table="shared_prefix", context_len=[4608, 4608])
    assert row["verdict"] == "pass" and row["metrics"]["shared_slots"] == 0


def test_ids_that_do_not_fit_are_an_invalid_case(runner):
    row = judge(runner, block_table="past_2_31", kernel_block_size=1)
    assert row["verdict"] == "invalid_case" and "32 bits" in row["message"]
