"""How small the smallest case of each planted fault is, from a case of a few hundred tokens on.

KVCHECK_SHRINK=all shrinks every fault in a Triton kernel too.
"""

from __future__ import annotations

import os

import pytest

from kvcheck.agent import specs
from kvcheck.agent.protocol import failed
from kvcheck.cases.model import Case
from kvcheck.execute.executor import Executor
from kvcheck.flow.selftest_cases import CASES, VALUES
from kvcheck.flow.shrink import identity, shrink_case
from kvcheck.flow.shrink_axes import NOT_A_SIZE, differing, distance, simplest
from kvcheck.search.shrink import PASS, Budget

from .shrink_sizes import LEFT, START, WITHOUT_TWIN

SAMPLE = {"page_turned_early", "reads_clamped_to_zero"}
"""Faults in Triton kernels that are shrunk whenever tests are run; an interpreted case takes a tenth of a second."""

NEEDS_A_GPU = {"race_with_next_tile"}
ALL = os.environ.get("KVCHECK_SHRINK") == "all"

FAULTS = [(name, op) for name in specs.names("faults") for op in specs.load("faults", name).data["ops"]]
PLAIN = [(name, op) for name, op in FAULTS if specs.load("faults", name).data["base"] != "triton"]
IN_TRITON = [(name, op) for name, op in FAULTS if (name, op) not in PLAIN and name not in NEEDS_A_GPU]


def shrunk(fault: str, op: str, judge):
    """The smallest case of a fault, and its row, from the first case that fails."""
    data = specs.load("faults", fault).data
    relations = (data["relation"],) if data.get("relation") else ()
    known = {name: axis.default for name, axis in specs.axes(op).items()}
    for params in (*START[op], *reversed(CASES[op])):
        case = Case(op, "test", op, f"fault:{fault}{VALUES.get(fault, '')}", {**known, **params}, 42, relations=relations)
        row = judge(case)
        if failed(row["verdict"]):
            return row, shrink_case(Case(**{**vars(case), "params": row["params"]}), judge, Budget(400, 300.0), row)
    raise AssertionError(f"no case of {op} catches {fault}")


def hold(fault: str, op: str, judge) -> None:
    """Holds the smallest case to what may be left of it."""
    row, found = shrunk(fault, op, judge)
    assert found.stopped_by is None, "it must end by itself"
    smallest, its_row = found.smallest
    assert identity(its_row) == identity(row)
    assert op in LEFT.get(fault, {}), f"{fault} has no size in shrink_sizes.py: it became {smallest.params}"
    limits = LEFT[fault][op]
    over = {name: value for name, value in smallest.params.items() if not within(specs.axes(op)[name], value, limits.get(name))}
    assert not over, f"expected at most {limits}, got {over}"
    if (fault, op) in WITHOUT_TWIN:
        assert found.twin is None
        return
    twin, twin_row = found.twin
    assert identity(twin_row) == PASS and differing(smallest.params, twin.params) == list(found.axes)
    assert distance(op, smallest.params, twin.params) <= 1


def within(axis, value, limit) -> bool:
    """Whether a value is as simple as the axis allows, or no less simple than a limit."""
    if axis.type == "positions":
        return len(value) <= (limit or 0)
    if axis.type == "lengths":
        flat, most = ([each] if isinstance(each, int) else each for each in (value, limit or 0))
        return len(flat) <= len(most) and sum(flat) <= sum(most)
    if axis.type == "int" and axis.name not in NOT_A_SIZE:
        step = axis.multiple_of or 1
        least = None if axis.optional else -(-int(axis.min or 0) // step) * step
        return value == least or (value is not None and limit is not None and value <= limit)
    order = simplest(axis, object())
    return value == order[0] or value == limit or (limit in order and value in order[: order.index(limit)])


@pytest.mark.parametrize(("fault", "op"), PLAIN)
def test_the_smallest_case_of_a_fault_is_as_small_as_stated(judged, fault, op):
    hold(fault, op, lambda case: judged(op, case.provider, case.seed, {"relations": list(case.relations)}, **case.params))


@pytest.fixture(scope="module")
def agent():
    """The row of a case, from an agent that interprets Triton."""
    pytest.importorskip("triton", reason="the fault is in a Triton kernel")
    with Executor("cpu", jobs=1, timeout=60.0) as executor:
        executor.wait_ready()
        yield lambda case: executor.submit(case).result()


@pytest.mark.parametrize(("fault", "op"), IN_TRITON)
def test_a_fault_in_our_triton_kernels_shrinks_as_well(agent, fault, op):
    if fault not in SAMPLE and not ALL:
        pytest.skip("KVCHECK_SHRINK=all shrinks every fault in Triton")
    hold(fault, op, agent)


def test_every_size_is_that_of_a_fault():
    assert {(fault, op) for fault, ops in LEFT.items() for op in ops} | {(fault, "paged_mqa_logits") for fault in NEEDS_A_GPU} == set(
        FAULTS
    )
