"""Whatever an agent does, its case gets the right verdict and the run goes on: tried on a double that needs no torch."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from kvcheck.cases.model import Case
from kvcheck.execute.errors import StartError
from kvcheck.execute.executor import Executor, world_of
from kvcheck.execute.journal import Journal
from kvcheck.execute.launch import MARK

DOUBLE = Path(__file__).parents[1] / "planted" / "agent_double.py"


class DoubleLauncher:
    """Starts doubles, and counts them."""

    def __init__(self, **environ: str) -> None:
        self.environ = environ
        self.started = []

    def launch(self, arguments, mark, variables):
        pipe = subprocess.PIPE
        environ = {**os.environ, **self.environ, MARK: mark}
        command = [sys.executable, "-S", str(DOUBLE), *arguments]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True, bufsize=0)
        self.started.append(process)
        return process

    def end(self, mark):
        """Nothing beyond the process."""

    def close(self):
        """Nothing was made."""


def case(*act: str, name: str = "c", provider: str = "double", **params) -> Case:
    return Case(id=f"{name}[act={'+'.join(act)}]", case_file="c", op="topk_per_row", provider=provider, params={"act": list(act), **params})


@pytest.fixture
def execute():
    opened = []

    def make(launcher=None, **options):
        executor = Executor(launcher=launcher or DoubleLauncher(), **{"jobs": 1, "timeout": 20.0, "startup_timeout": 20.0, **options})
        opened.append(executor)
        return executor

    yield make
    for executor in opened:
        executor.close()


DEATHS = [
    (["load", "inputs", "kernel", "signal:SIGSEGV"], "crash", "SIGSEGV in phase kernel"),
    (["load", "inputs", "kernel", "signal:SIGKILL"], "crash", "SIGKILL"),
    (["load", "inputs", "kernel", "status:0"], "crash", "exited by itself with status 0 in phase kernel"),
    (["load", "signal:SIGABRT"], "crash", "SIGABRT in phase load"),
    (["load", "inputs", "kernel", "compile", "signal:SIGILL"], "crash", "SIGILL in phase compile"),
    (["load", "inputs", "kernel", "reference", "signal:SIGBUS"], "crash", "wrote over memory"),
    (["load", "inputs", "signal:SIGSEGV"], "harness_error", "SIGSEGV in phase inputs"),
    (["load", "inputs", "kernel", "sleep:60"], "timeout", "not finished within 0.7 s in phase kernel"),
    (["load", "inputs", "kernel", "reference", "sleep:60"], "harness_error", "of which the kernel took"),
    (["load", "inputs", "kernel", "say:segmentation fault"], "harness_error", "nonsense"),
    (['say:{"type":"result","ticket":1,"row":{"verdict":"excellent"}}'], "harness_error", "nonsense"),
    (["stale"], "harness_error", "nonsense"),
    (['say:{"type":"phase","phase":"lunch"}'], "harness_error", "nonsense"),
]


@pytest.mark.parametrize(("act", "verdict", "message"), DEATHS, ids=lambda v: "+".join(v) if isinstance(v, list) else None)
def test_every_end_has_its_verdict_and_the_next_case_passes(execute, act, verdict, message):
    executor = execute(timeout=0.7)
    bad, good = executor.submit(case(*act)), executor.submit(case())
    row = bad.result(30)
    assert (row["verdict"], message in row["message"]) == (verdict, True), row["message"]
    assert row["id"] == case(*act).id
    assert row["timing"]["kernel_ms"] is None
    assert row["first_bad"] is None
    assert good.result(30)["verdict"] == "pass"


def test_the_end_of_what_was_printed_is_quoted_cleaned_and_of_this_case_only(execute):
    executor = execute()
    executor.submit(case("print:of an earlier case", "kernel")).result(30)
    row = executor.submit(case("kernel", "print:\x1b[31mGPU fault at 0x7f0012345678\x1b[0m \x07[bold]", "signal:SIGABRT")).result(30)
    assert "GPU fault at 0x... ?[bold]" in row["message"]
    assert "earlier" not in row["message"]
    assert "\x1b" not in row["message"]


def test_a_flood_on_stderr_neither_blocks_nor_fills_memory(execute):
    row = execute().submit(case("kernel", "flood:5000", "print:the end", "signal:SIGSEGV")).result(30)
    assert row["verdict"] == "crash"
    assert row["message"].endswith("the end")
    assert len(row["message"]) < 2000


def test_loading_and_compiling_are_off_the_clock_and_have_their_own_limit(execute):
    executor = execute(timeout=0.5, startup_timeout=2.0)
    slow = executor.submit(case("load", "sleep:0.8", "inputs", "kernel", "compile", "sleep:0.8", "kernel"))
    assert slow.result(30)["verdict"] == "pass"
    row = executor.submit(case("load", "inputs", "kernel", "compile", "sleep:60")).result(30)
    assert row["verdict"] == "timeout"
    assert "not finished within 2 s to compile" in row["message"]


def test_the_clock_adds_up_over_phases(execute):
    row = execute(timeout=0.8).submit(case("inputs", "sleep:0.5", "kernel", "sleep:0.5", "judge", "sleep:60")).result(30)
    assert row["verdict"] == "timeout", "0.5 s of inputs leave 0.3 s to a kernel that wants 0.5"


def test_a_death_that_an_earlier_case_prepared_is_not_blamed_on_the_next(execute):
    executor = execute()
    assert executor.submit(case("kernel", "die_after")).result(30)["verdict"] == "pass"
    assert executor.submit(case("load", "inputs", "kernel")).result(30)["verdict"] == "pass"


@pytest.mark.parametrize(("premise", "verdict"), [("fails", "invalid_case"), ("holds", "crash")])
def test_a_dead_kernel_is_blamed_only_where_the_premise_holds(execute, premise, verdict):
    row = execute().submit(case("kernel", "signal:SIGSEGV", premise=premise)).result(30)
    assert row["verdict"] == verdict
    assert "SIGSEGV" in row["message"]
    assert row["params"]["poison"] == "nan"
    assert ("scales are not finite" in row["message"]) == (premise == "fails")
    assert "premise" not in row
    assert "premise" in row["params"]


def test_an_agent_is_used_again_but_not_after_it_ran_out_of_memory(execute):
    launcher = DoubleLauncher()
    executor = execute(launcher)
    pids = [executor.submit(case(name=str(i))).result(30)["params"]["pid"] for i in range(3)]
    assert len(set(pids)) == 1
    assert executor.submit(case("kernel", "verdict:crash", name="raised")).result(30)["verdict"] == "crash"
    assert executor.submit(case(name="after an exception")).result(30)["params"]["pid"] in pids
    row = executor.submit(case("kernel", "message:MemoryError", "verdict:crash", name="memory")).result(30)
    assert row["verdict"] == "crash"
    assert executor.submit(case(name="after")).result(30)["params"]["pid"] not in pids


def test_a_spare_is_warm_when_an_agent_dies(execute):
    launcher = DoubleLauncher()
    executor = execute(launcher)
    executor.submit(case()).result(30)
    deadline = time.monotonic() + 10
    while len(launcher.started) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    spare = launcher.started[1].pid
    executor.submit(case("kernel", "signal:SIGSEGV", premise="unknown")).result(30)
    assert executor.submit(case(name="next")).result(30)["params"]["pid"] >= spare


def test_providers_of_their_own_world_do_not_share_a_process(execute, tmp_path):
    executor = execute()
    mine, shared = f"{tmp_path}/mine.py", "double"
    rows = [executor.submit(case(name=str(i), provider=(mine, shared)[i % 2])).result(30) for i in range(6)]
    pids = {provider: {row["params"]["pid"] for row in rows if row["provider"] == provider} for provider in (mine, shared)}
    assert [len(found) for found in pids.values()] == [1, 1]
    assert pids[mine] != pids[shared]
    assert world_of(mine) == mine
    assert world_of("fault:no_such") == "shared"


@pytest.mark.parametrize(
    ("start", "reason", "starts"),
    [
        ("refuses", "torch sees no GPU", 1),
        ("dies", "cannot open libtorch", 2),
        ("hangs", "not ready within 0.5 s", 2),
        ("babbles", "nonsense", 2),
    ],
)
def test_when_no_agent_comes_up_every_case_says_why_and_it_ends(execute, start, reason, starts):
    launcher = DoubleLauncher(DOUBLE_START=start)
    executor = execute(launcher, startup_timeout=0.5)
    rows = [future.result(30) for future in [executor.submit(case(name=str(i))) for i in range(5)]]
    assert {row["verdict"] for row in rows} == {"harness_error"}
    assert reason in rows[-1]["message"]
    assert len(launcher.started) == starts
    with pytest.raises(StartError, match=reason):
        executor.wait_ready()


def test_an_agent_that_cannot_be_launched_is_a_reason_too(execute):
    class Broken(DoubleLauncher):
        def launch(self, arguments, mark, variables):
            raise FileNotFoundError("no such interpreter")

    assert "no such interpreter" in execute(Broken()).submit(case()).result(30)["message"]


def test_jobs_change_the_time_and_nothing_else(execute):
    acts = [[], ["kernel", "signal:SIGSEGV"], ["kernel", "verdict:mismatch"], ["load", "inputs", "signal:SIGABRT"], []] * 3

    def run(jobs):
        executor = execute(jobs=jobs)
        futures = [executor.submit(case(*act, name=str(i), provider=("double", "/p/a.py")[i % 2])) for i, act in enumerate(acts)]
        rows = [future.result(60) for future in futures]
        for row in rows:
            row.pop("timing")
            row["params"].pop("pid", None)
        return rows

    assert run(1) == run(3)


@pytest.mark.parametrize(("device", "jobs"), [("cuda", 1), ("cpu", None)])
def test_the_first_agent_tells_how_many_jobs(execute, device, jobs):
    executor = execute(DoubleLauncher(DOUBLE_DEVICE=device), jobs=None)
    assert executor.wait_ready() == {"device": {"type": device}}
    assert executor.jobs == jobs or (jobs is None and 1 <= executor.jobs <= 4)


def test_closing_ends_what_runs_drops_what_waits_and_journals_neither(execute, tmp_path):
    launcher = DoubleLauncher()
    journal = Journal(tmp_path / "journal.jsonl", "p")
    executor = execute(launcher, journal=journal)
    done = executor.submit(case(name="done"))
    assert done.result(30)["verdict"] == "pass"
    running, waiting = executor.submit(case("kernel", "sleep:60")), executor.submit(case(name="waiting"))
    while not running.running():
        time.sleep(0.01)
    begun = time.monotonic()
    executor.close()
    assert time.monotonic() - begun < 5
    for future in (running, waiting, executor.submit(case())):
        with pytest.raises(CancelledError):
            future.result(1)
    assert len(journal) == 1
    assert journal.get(case(name="done"))
    assert all(process.poll() is not None for process in launcher.started)
    journal.close()


def test_the_providers_of_a_machine_are_asked_for(execute):
    executor = execute()
    assert executor.doctor() == [{"name": "double", "available": True}]
    assert executor.submit(case()).result(30)["verdict"] == "pass"


def test_supervision_takes_less_than_20_ms_a_case(execute, tmp_path):
    journal = Journal(tmp_path / "journal.jsonl", "p")
    executor = execute(journal=journal)
    executor.submit(case()).result(30)
    spent = []
    for i in range(60):
        begun = time.perf_counter()
        executor.submit(case("load", "inputs", "kernel", "reference", "judge", name=str(i))).result(30)
        spent.append((time.perf_counter() - begun) * 1e3)
    journal.close()
    assert statistics.median(spent) < 20, f"{statistics.median(spent):.1f} ms"
