"""Parts of a bisect that a whole run does not reach: what a row says, the words that go on, one level deeper, sentences."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from kvcheck.flow import bisect_ending, bisect_rows, bisect_state
from kvcheck.flow.bisect_state import State
from kvcheck.report.words import bisected
from kvcheck.search.bisect_evidence import FAIL, PASS, SILENT


def row(verdict, message="", **more):
    return {"verdict": verdict, "message": message, **more}


@pytest.mark.parametrize(
    ("said", "kind", "identity"),
    [
        (row("pass"), PASS, None),
        (row("mismatch", output="logits", check="bound"), FAIL, ("mismatch", "logits", "bound")),
        (row("mismatch", first_bad={"output": "out"}), FAIL, ("mismatch", "out", "")),
        (row("crash", "TypeError: got an unexpected argument at k.py:3 in f", check="exception"), FAIL, ("crash", "", "TypeError")),
        (row("crash", "SIGSEGV in phase kernel", phase="kernel"), FAIL, ("crash", "", "SIGSEGV")),
        (row("crash", "in 2 of 3 new processes: torch.OutOfMemoryError: no"), FAIL, ("crash", "", "torch.OutOfMemoryError")),
        (row("crash", "the process exited by itself with status 3 in phase kernel", phase="kernel"), FAIL, ("crash", "", "exit")),
        (row("timeout", "not finished within 20 s in phase kernel", phase="kernel"), FAIL, ("timeout", "", "")),
        (row("timeout", "not finished within 600 s to compile in phase compile", phase="compile"), SILENT, None),
        (row("timeout", "not finished within 600 s to load in phase load", phase="load"), SILENT, None),
        (row("crash", "SIGSEGV in phase load", phase="load"), SILENT, None),
        (row("crash", "SIGKILL (not sent by kvcheck) in phase kernel", phase="kernel"), SILENT, None),
        (row("crash", "in 1 of 2 new processes: ImportError: libamdhip64.so: cannot open shared object file"), SILENT, None),
        (row("crash", "OSError: libx.so: undefined symbol: _ZN3c10"), SILENT, None),
        (row("timeout", "not finished in phase kernel; it printed:\nfatal: unable to access 'https://x/'", phase="kernel"), SILENT, None),
        (row("crash", "CalledProcessError: Command '['hipcc', 'a.cu']' returned non-zero exit status 1."), SILENT, None),
        (row("crash", "RuntimeError: No HIP GPUs are available"), SILENT, None),
        (row("mismatch", "what it printed: Connection refused", output="o"), FAIL, ("mismatch", "o", "")),
        (row("unsupported", "needs gfx950"), SILENT, None),
        (row("invalid_case", "no scale"), SILENT, None),
        (row("harness_error", ""), SILENT, None),
    ],
)
def test_a_row_passes_fails_in_a_way_of_its_own_or_says_nothing_and_why(said, kind, identity):
    found = bisect_rows.result(said)
    assert (found.kind, found.identity) == (kind, identity)
    assert bool(found.reason) == (kind == SILENT)


def test_identities_survive_the_disk(tmp_path):
    runs = [{"a": bisect_rows.result(row("crash", "TypeError: x")), "b": bisect_rows.result(row("unsupported", "no"))}]
    step = json.loads(json.dumps({"runs": bisect_state.stored(runs)}))
    assert bisect_state.evidence(step) == runs


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("bisect git D case --good a --bad b", "bisect git D case --good a --bad b"),
        ("bisect git D case --out x --good a --resume", "bisect git D case --good a"),
        ("bisect git --out=x D --dry-run case", "bisect git D case"),
    ],
)
def test_the_command_that_goes_on_is_the_one_that_was_typed(tmp_path, words, kept):
    found = bisect_state.resume_words({"words": words.split()}, tmp_path)
    assert found == [*kept.split(), "--out", str(tmp_path), "--resume"]


def test_options_go_before_two_dashes(tmp_path):
    found = bisect_state.resume_words({"words": ["bisect", "git", "--out", "x", "--", "--odd"]}, tmp_path)
    assert found == ["bisect", "git", "--out", str(tmp_path), "--resume", "--", "--odd"]


def deep(tmp_path, commands, outcome="found"):
    return State(tmp_path, {"result": {"outcome": outcome, "deeper": commands}})


def test_one_level_deeper_is_the_first_command_in_a_folder_of_its_own(tmp_path, monkeypatch):
    started = []

    def run(words, **_):
        started.append(words[3:])
        (tmp_path / "deep").mkdir(exist_ok=True)
        (tmp_path / "deep" / "report.md").write_text("## kvcheck bisect `git`: broken by `abc`\n")
        (tmp_path / "deep" / "bisect.json").write_text("{}")
        return SimpleNamespace(returncode=130 if len(started) == 1 else 0)

    monkeypatch.setattr(bisect_ending.subprocess, "run", run)
    state = deep(tmp_path, [["bisect", "git", "D"], ["list", "ops"]])
    bisect_ending.look_deeper(state, lambda text: None, quiet=True)
    bisect_ending.look_deeper(state, lambda text: None, quiet=True)
    bisect_ending.look_deeper(state, lambda text: None, quiet=True)
    folder = str(tmp_path / "deep")
    assert started == [["bisect", "git", "D", "--out", folder, "--quiet"], ["bisect", "resume", folder]]
    kept = json.loads((tmp_path / "bisect.json").read_text())["result"]["deep"]
    assert kept["exit_code"] == 0 and kept["report"].startswith("## kvcheck bisect `git`")


@pytest.mark.parametrize(
    ("commands", "why"), [([], "no command"), ([["bisect", "git", "<commit of the good image>"]], "only you can fill in")]
)
def test_a_command_with_a_gap_is_not_run(tmp_path, monkeypatch, commands, why):
    monkeypatch.setattr(bisect_ending.subprocess, "run", lambda *a, **k: pytest.fail("it was run"))
    state = deep(tmp_path, commands)
    bisect_ending.look_deeper(state, lambda text: None, quiet=True)
    assert state.data["result"]["deep"]["exit_code"] is None and why in state.data["result"]["deep"]["why"]


def test_names_of_folders_hold_no_path():
    assert bisect_state.place_of_step(3, "../../rocm/vllm:nightly 0412@x") == "03-rocm-vllm-nightly-0412-x"
    assert bisect_state.place_of_step(12, "///") == "12-candidate"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.04, "0.0 s"), (12.4, "12 s"), (89, "89 s"), (200, "3 min"), (7500, "2 h 05 min")]
)
def test_times_are_told_as_people_do(seconds, text):
    assert bisected.duration(seconds) == text


def test_keys_are_cut_where_they_are_digests():
    assert bisected.short("sha256:" + "ab" * 32) == "sha256:abababababab"
    assert bisected.short("04907edc21" * 4) == "04907edc2104"
    assert bisected.short("0.1.7.post2+rocm7.2") == "0.1.7.post2+rocm7.2"


def test_a_chance_is_never_rounded_to_certainty():
    assert [bisected.percent(share) for share in (1, 0.875, 0.99999, 0.999999999)] == ["100 %", "87.5 %", "99.999 %", "99.9999999 %"]
