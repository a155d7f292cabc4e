"""Providers planted to harm the run: each gets its verdict from a real agent, and the next case of the same provider passes."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest

from kvcheck.agent import specs
from kvcheck.cases.model import Case
from kvcheck.execute.executor import Executor

HERE = Path(__file__).parent
DEFAULTS = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}
MIB = 1 << 20
FATAL = 7
"""As in honest.py, which only providers can import."""

pytestmark = pytest.mark.xdist_group("planted")
"""One worker for all: agents are what takes time here, and they are shared."""

PLANTED = {
    "raises": ("crash", "ValueError: no kernel for"),
    "segfaults": ("crash", "SIGSEGV in phase kernel"),
    "kills_itself": ("crash", "SIGKILL"),
    "exhausts_memory": ("crash", "can't allocate memory"),
    "exhausts_memory_in_python": ("crash", "MemoryError"),
    "exits_quietly": ("crash", "exited by itself with status 0 in phase kernel"),
    "exits": ("crash", "SystemExit"),
    "interrupts": ("crash", "KeyboardInterrupt"),
    "recurses": ("crash", "RecursionError"),
    "returns_nonsense": ("wrong_shape", "returned dict"),
    "returns_wrong_dtype": ("wrong_shape", "int64"),
    "lies": ("unwritten", ""),
    "closes_descriptors": ("crash", "status 70 in phase kernel"),
    "forks": ("crash", "status 3 in phase kernel"),
    "forks_and_goes_on": ("pass", ""),
    "refuses": ("unsupported", "k below 8 needs another kernel"),
    "hangs": ("timeout", "not finished within 6 s in phase kernel"),
}


def case(provider: str, topk: int, name: str = "planted") -> Case:
    params = {**DEFAULTS, "context_len": 40, "topk": topk}
    return Case(id=f"{name}[topk={topk}]", case_file="planted", op="topk_per_row", provider=provider, params=params, seed=7)


@pytest.fixture(scope="module")
def child_file(tmp_path_factory):
    return tmp_path_factory.mktemp("child") / "pid"


@pytest.fixture(scope="module")
def executor(child_file):
    # One world for all of them: a process that survived one provider judges the next, which is harder on it, and quicker.
    patch = pytest.MonkeyPatch()
    patch.setenv("KVCHECK_TEST_CHILD", str(child_file))
    patch.setattr("kvcheck.execute.executor.world_of", lambda provider, variables=None: "shared")
    with Executor(device="cpu", jobs=1, timeout=6.0, startup_timeout=120.0, memory_limit=512 * MIB) as opened:
        opened.wait_ready()
        yield opened
    patch.undo()


@pytest.mark.parametrize(("name", "verdict", "message"), [(name, *wanted) for name, wanted in PLANTED.items()], ids=PLANTED)
def test_a_planted_provider_gets_its_verdict_and_the_run_goes_on(executor, child_file, name, verdict, message):
    provider = str(HERE / f"{name}.py")
    bad, good = executor.submit(case(provider, FATAL)), executor.submit(case(provider, 8))
    row = bad.result(120)
    assert row["verdict"] == verdict, row["message"]
    assert message in row["message"]
    assert row["params"]["topk"] == FATAL
    assert good.result(120)["verdict"] == "pass", good.result()["message"]
    if name == "forks":
        for child in child_file.read_text().split():
            assert_gone(int(child))
    if name == "segfaults":
        assert "Fatal Python error: Segmentation fault" in row["message"], "the stack is quoted"
        assert "segfaults.py" in row["message"]
    assert not any(ord(char) < 32 and char != "\n" for char in row["message"])


def assert_gone(pid: int) -> None:
    """A child that a dead agent left behind is ended, and does not hold anybody up."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} lives on")


def test_a_provider_that_does_not_load_is_no_evidence_against_a_kernel(executor):
    row = executor.submit(case(str(HERE / "does_not_load.py"), 8)).result(120)
    assert row["verdict"] == "harness_error"
    assert "no_such_package_anywhere" in row["message"]


def test_a_provider_that_ends_the_process_while_it_loads_crashed(executor):
    row = executor.submit(case(str(HERE / "dies_on_load.py"), 8)).result(120)
    assert row["verdict"] == "crash"
    assert "SIGILL in phase load" in row["message"]


def test_relative_files_are_found_although_agents_run_elsewhere(executor, monkeypatch):
    monkeypatch.chdir(HERE)
    row = executor.submit(case("raises.py", 8, "relative")).result(120)
    assert (row["verdict"], row["provider"]) == ("pass", "raises.py")


def test_supervision_adds_less_than_20_ms_a_case_to_a_warm_agent(executor):
    executor.submit(case("torch_eager", 8, "warm")).result(120)
    added = []
    for number in range(25):
        begun = time.perf_counter()
        row = executor.submit(case("torch_eager", 8, str(number))).result(120)
        added.append((time.perf_counter() - begun) * 1e3 - row["timing"]["total_ms"])
        assert row["verdict"] == "pass"
    assert statistics.median(added) < 20, f"{statistics.median(added):.1f} ms"
