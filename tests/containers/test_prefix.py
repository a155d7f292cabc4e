"""Agents behind a command: what ssh, srun and kubectl do to a command line, done by a shell on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvcheck.cases.model import Case
from kvcheck.execute.executor import Executor
from kvcheck.execute.prefix import PrefixLauncher, prefix_words

DOUBLE = Path(__file__).parents[1] / "planted" / "agent_double.py"
NOISE = 'sh -c \'echo Welcome to the machine; echo {\\"type\\": 1}; exec "$@"\' noise'
SSH = "sh -c 'exec sh -c \"$*\"' ssh"
"""As ssh does: the words joined by spaces, and read by another shell."""

LABELLED = 'sh -c \'"$@" | while IFS= read -r line; do printf "0: %s\\n" "$line"; done\' srun'
"""As srun --label does: a prefix before every line."""


@pytest.fixture
def execute(tmp_path, monkeypatch):
    """An executor behind a prefix, with a double of the agent; the far side's folder for temporary files is tmp_path/far."""
    torch = tmp_path / "packages"
    torch.mkdir()
    (torch / "torch.py").write_text("# in place of torch\n")
    (tmp_path / "far").mkdir()
    monkeypatch.setattr("kvcheck.execute.zipapp.sources", lambda: {"__main__.py": DOUBLE.read_bytes()})
    with contextlib.ExitStack() as stack:

        def make(prefix, python=None, **options):
            words = ["env", f"PYTHONPATH={torch}", f"TMPDIR={tmp_path}/far", *prefix_words(prefix)]
            launcher = PrefixLauncher(words, python, note=notes.append)
            options = {"jobs": 1, "timeout": 20.0, "startup_timeout": 60.0, "spare": False, **options}
            return stack.enter_context(Executor(launcher=launcher, **options))

        notes = make.notes = []
        yield make
    assert list((tmp_path / "far").iterdir()) == []


def case(*act: str, **params) -> Case:
    given = {"act": list(act), "premise": "holds", **params}
    return Case(id=f"c[act={'+'.join(act)}]", case_file="c", op="topk_per_row", provider="double", params=given)


@pytest.mark.parametrize("prefix", ["env --", "sh -c 'exec \"$@\"' x", NOISE, SSH, LABELLED], ids=["env", "sh", "noise", "ssh", "label"])
def test_agents_run_behind_a_prefix(execute, prefix):
    executor = execute(prefix)
    acts = [["print:x"], ["kernel", "signal:SIGSEGV"], ["kernel", "status:9"], ["flood:300"], ["verdict:mismatch"]]
    rows = [future.result(60) for future in [executor.submit(case(*act)) for act in acts]]
    assert [row["verdict"] for row in rows] == ["pass", "crash", "crash", "pass", "mismatch"]
    assert "SIGSEGV in phase kernel" in rows[1]["message"] and "status 9" in rows[2]["message"]
    assert execute.notes[0].startswith("agents are started by: env PYTHONPATH=")


def test_what_a_prefix_prints_while_a_case_runs_is_output_and_no_answer(execute):
    executor = execute("sh -c '(for i in 1 2 3 4 5 6 7 8 9; do sleep 1; echo over quota; done) & exec \"$@\"' x", timeout=4.0)
    row = executor.submit(case("kernel", "sleep:60")).result(60)
    assert row["verdict"] == "timeout" and "over quota" in row["message"]


def test_a_killed_client_ends_the_far_side(execute, tmp_path):
    executor = execute("env --", timeout=60.0)
    executor.wait_ready()
    future = executor.submit(case("kernel", "sleep:60"))
    time.sleep(0.5)
    (folder,) = (tmp_path / "far").iterdir()
    agent = next(iter(executor._pool._busy))
    os.kill(agent._process.pid, signal.SIGKILL)
    assert "SIGKILL" in future.result(60)["message"]
    executor.submit(case()).result(60)
    # What the first one left is removed by the next.
    assert not folder.exists()


def test_a_far_side_without_python_or_without_the_prefix_is_a_reason(execute):
    message = execute("env --", python="no-such-python").submit(case()).result(60)["message"]
    assert "no-such-python: it is not there" in message, message
    message = execute("no-such-launcher --").submit(case()).result(60)["message"]
    assert "no-such-launcher" in message and "status 127" in message


def test_a_prefix_is_read_as_a_shell_reads_it():
    assert prefix_words("ssh -i 'my key' host") == ["ssh", "-i", "my key", "host"]
    for text in ("", "  ", "ssh 'host"):
        with pytest.raises(ValueError):
            prefix_words(text)


def test_a_run_behind_a_prefix(tmp_path):
    honest = Path(__file__).parents[1] / "planted" / "honest.py"
    prefix = "sh -c 'echo Welcome; exec \"$@\"' x"
    words = ["topk_per_row", "--exec", prefix, "--provider", str(honest), "--device", "cpu", "--limit", "1000", "--no-threshold"]
    words += [
        "--set",
        "context_len=40",
        "--set",
        "topk=4",
        "--set",
        "values=gaussian",
        "--set",
        "batch=1",
        "--set",
        "next_n=1",
        "--out",
        "o",
    ]
    command = [sys.executable, "-m", "kvcheck.cli.main", "run", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=170)
    assert done.returncode == 0, done.stderr
    assert f"agents are started by: sh -c '{prefix[7:-3]}' x sh" in done.stderr, done.stderr
    run = json.loads((tmp_path / "o" / "run.json").read_text())
    assert {row["verdict"] for row in run["cases"]} == {"pass"} and run["environment"]["torch"]
    assert all(f"--exec {shlex.quote(prefix)}" in row["repro"] for row in run["cases"])
