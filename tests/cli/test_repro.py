"""Scripts in fresh processes: each fails on the faulty kernel, and its twin passes on the honest one."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvcheck.agent import specs
from kvcheck.flow.repro import confirm, text_for
from kvcheck.flow.selftest_cases import CASES

RUN = {
    "run": {"id": "a-run"},
    "environment": {"python": "3.11", "torch": "2.13", "device": {"type": "cpu", "name": "CPU", "arch": "cpu", "interpreted": True}},
}
NEEDS_AITER = pytest.mark.skipif(importlib.util.find_spec("aiter") is None, reason="needs aiter: pip install --no-deps amd-aiter")
FAULTS = (
    ("block_table", "slot_not_compressed", 1, "mismatch"),
    ("block_table", "refusal_missing", 5, "mismatch"),
    ("index_k_cache_gather", "tokens_unwritten", 0, "unwritten"),
    ("index_k_cache_gather", "gathers_past_end", 0, "crash"),
    ("index_k_cache_write", "scale_not_a_power_of_two", 0, "mismatch"),
    ("mla_decode", "lse_base_2", 0, "mismatch"),
    ("mla_decode", "tail_times_zero", 1, "nonfinite"),
    ("mla_metadata", "last_page_len_is_seq_len", 1, "mismatch"),
    ("mqa_logits", "window_start_ignored", 1, "nonfinite"),
    ("paged_mqa_logits", "mask_off_by_one", 0, "nonfinite"),
    ("paged_mqa_logits", "stored_past_row", 1, "out_of_bounds_write"),
    ("paged_mqa_logits", "writes_table", 0, "input_mutated"),
    ("paged_mqa_logits", "differs_when_repeated", 4, "nondeterministic"),
    ("topk_per_row", "duplicate_index", 1, "wrong_topk"),
    ("topk_slots", "padding_mapped", 1, "mismatch"),
)
FIRST = tuple({op: fault for op, fault, *_ in reversed(FAULTS)}.values())
"""One fault an op, whose honest twin is our Triton kernel; the others' is plain torch."""

MESSAGES = {"gathers_past_end": "IndexError: index 1 is out of bounds"}


def row(op, provider, case, verdict="mismatch", **given):
    """A row of a run."""
    params = {name: axis.default for name, axis in specs.axes(op).items()} | case
    params |= {name: value for name, value in (("kv_dtype", "e4m3fn"), ("poison", "finite_beacon")) if params.get(name) == "auto"}
    made = {"id": op, "op": op, "provider": provider, "params": params, "seed": 0, "verdict": verdict, "message": "", "also_failed": []}
    return {**made, **given}


def outcomes(folder, *rows):
    """Each row's script, run in a process of its own, two at a time."""
    files = []
    for number, each in enumerate(rows):
        script = text_for({**RUN, "cases": [each]}, each)
        assert script, each
        files.append(folder / f"repro{number}.py")
        files[-1].write_text(script)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda pair: confirm(pair[0], pair[1], sys.executable), zip(files, rows, strict=True)))


@pytest.mark.parametrize(("op", "fault", "number", "verdict"), FAULTS, ids=[f"{op}-{fault}" for op, fault, *_ in FAULTS])
def test_the_fault_fails_and_honest_kernels_pass(tmp_path, op, fault, number, verdict):
    wrong = row(op, f"fault:{fault}", CASES[op][number], verdict, message=MESSAGES.get(fault, ""))
    honest = "triton" if fault in FIRST else "torch_eager"
    failed, passed = outcomes(tmp_path, wrong, {**wrong, "provider": honest})
    assert failed.confirmed, failed.said
    assert failed.code == 1 and (verdict == "crash" or failed.said.startswith("WRONG ")), failed.said
    assert passed.code == 0 and passed.said.startswith("RIGHT"), passed.said


@NEEDS_AITER
def test_aiter_fails_with_nothing_of_kvcheck(tmp_path):
    """The wheel writes a column past the row, gives rows of a request each other's ends, and moves windows that begin inside a tile."""
    case = {"batch": 2, "num_heads": 32, "block_size": 1, "topk": 2}
    one = row("paged_mqa_logits", "aiter", case | {"context_len": 5}, "nonfinite")
    two = row("paged_mqa_logits", "aiter", case | {"context_len": 9, "next_n": 2}, "nonfinite")
    shape = {"rows": 4, "tokens": 256, "num_heads": 16, "head_dim": 32}
    moved = row("mqa_logits", "aiter", shape | {"window": "ragged"}, "nonfinite")
    kept = row("mqa_logits", "aiter", shape | {"window": "causal"}, "pass")
    for each in (one, two):
        script = text_for({**RUN, "cases": [each]}, each)
        assert "kvcheck." not in script.partition('"""\n')[2] and "from aiter" in script
    first, second, third, right = outcomes(tmp_path, one, two, moved, kept)
    assert first.confirmed and "at [0, 5], past the end of the row: expected -inf, got" in first.said
    assert second.confirmed and "WRONG logits at" in second.said
    assert third.confirmed and "of the window [" in third.said
    assert right.confirmed and right.code == 0, right.said


def test_a_users_file_is_called_by_its_own_name(tmp_path):
    kernel = tmp_path / "my kernel.py"
    kernel.write_text(
        "from kvcheck_references import topk_slots as reference\n"
        "def topk_slots(topk_positions, block_table, request_ids, *, block_size, block_stride, out, alloc):\n"
        "    made = reference.topk_slots(topk_positions, block_table, request_ids, block_size=block_size, block_stride=block_stride,\n"
        "                                out=None, alloc=None)\n"
        "    return made.int() + WRONG\n"
        "WRONG = 0\n"
    )
    other = tmp_path / "wrong.py"
    other.write_text(kernel.read_text().replace("WRONG = 0", "WRONG = 1"))
    dies = tmp_path / "dies.py"
    dies.write_text(kernel.read_text().replace("    return", "    import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)\n    return"))
    case = CASES["topk_slots"][1]
    right = row("topk_slots", str(kernel), case, "pass")
    wrong = row("topk_slots", str(other), case)
    crash = row("topk_slots", str(dies), case, "crash", message="the process ended: SIGSEGV in phase kernel")
    passed, failed, died = outcomes(tmp_path, right, wrong, crash)
    assert passed.confirmed, passed.said
    assert failed.confirmed and failed.said.startswith("WRONG slots at [0, 0]"), failed.said
    assert died.confirmed and died.code == -11, died


@pytest.fixture
def failing(kvcheck, tmp_path):
    """A run with a case that fails and one that passes."""
    words = ["--set", "context_len=9", "--set", "block_size=1", "--set", "num_heads=2", "--set", "head_dim=16", "--set", "batch=1"]
    words += ["--set", "values=gaussian", "--set", "block_table=shuffled", "--set", "topk=4", "--coverage", "full", "--no-diagnosis"]
    done = kvcheck("run", "paged_mqa", *words, "--provider", "fault:mask_off_by_one", "--provider", "torch_eager", "--out", "run")
    assert done.code == 1, done.err
    return done


def test_the_command_writes_runs_and_says_what_came_of_it(kvcheck, failing, tmp_path):
    case = next(each for each in failing.run["cases"] if each["verdict"] != "pass")
    done = kvcheck("repro", "run", case["id"])
    assert done.code == 0, done.out + done.err
    (file,) = (tmp_path / "run").glob("repro-*.py")
    assert f"{len(file.read_text().splitlines())} lines" in done.out and "WRONG logits at" in done.out and "exit status 1" in done.out
    assert f"kvcheck repro run '{case['id']}'" in " ".join(file.read_text().split())
    kept = kvcheck("repro", "run", f"{case['id']}@torch_eager", "--no-run", "--out", "elsewhere/one.py")
    assert kept.code == 0 and "not run" in kept.out and (tmp_path / "elsewhere" / "one.py").is_file()
    lost = kvcheck("repro", "run", "no_such_case")
    assert lost.code == 2 and "expected a case of the run, got 'no_such_case'" in lost.err


def test_a_failure_that_does_not_come_back_is_said(kvcheck, failing, tmp_path):
    case = next(each for each in failing.run["cases"] if each["verdict"] != "pass")
    file = tmp_path / "run" / "run.json"
    file.write_text(file.read_text().replace("fault:mask_off_by_one", "torch_eager"))
    done = kvcheck("repro", "run", f"{case['id']}@torch_eager")
    assert done.code in (2, 3) and ("it passes, where the run said" in done.out or "name one of" in done.err)


def test_an_emulated_run_is_not_repeated_here(kvcheck, failing, tmp_path):
    case = next(each for each in failing.run["cases"] if each["verdict"] != "pass")
    file = tmp_path / "run" / "run.json"
    file.write_text(file.read_text().replace('"type": "cpu"', '"type": "emulated"').replace('"arch": "cpu"', '"arch": "gfx942"'))
    done = kvcheck("repro", "run", case["id"])
    assert done.code == 3 and "needs a real gfx942 card" in done.out
    (script,) = (tmp_path / "run").glob("repro-*.py")
    assert 'set_default_device("cuda")' in script.read_text()


def test_a_users_file_that_is_elsewhere_is_missed_in_words(kvcheck, failing, tmp_path):
    case = next(each for each in failing.run["cases"] if each["verdict"] != "pass")
    file = tmp_path / "run" / "run.json"
    file.write_text(file.read_text().replace("fault:mask_off_by_one", "my_kernel.py"))
    done = kvcheck("repro", "run", f"{case['id']}@my_kernel.py")
    assert done.code == 2 and "start where the run was started" in done.err
