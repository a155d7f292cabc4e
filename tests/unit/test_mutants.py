"""Mutants of our own Triton kernels: how they are made, that they run and stray under supervision, and that each reason is about one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from kvcheck.agent import mutations, specs
from kvcheck.agent.protocol import encode
from kvcheck.flow.equivalent import TABLE, reason
from kvcheck.flow.selftest import QUICK, compose, mutants, sound
from kvcheck.flow.selftest_cases import CASES
from kvcheck.report.selftest import render


def test_every_op_with_a_kernel_has_hundreds_of_mutants_in_all():
    every = [mutation for file in mutations.files() for mutation in mutations.of(file)]
    assert len(every) > 500 and len({mutation.name for mutation in every}) == len(every)
    assert {mutation.op for mutation in every} == set(specs.load("providers", "triton").data["ops"]) <= set(CASES)
    for mutation in every:
        ast.parse(mutations.mutated(mutation))
        assert mutations.mutated(mutation) != mutations.source(mutation.file)


def test_constants_comparisons_masks_strides_and_operators_are_changed():
    line = "tl.store(out_ptr + row.to(tl.int64) * out_stride + column, slot, mask=column < topk)"
    changes = {(m.column, m.change) for m in mutations.of("topk_slots") if m.text == line}
    assert changes == {
        (17, "+ -> -"), (38, "out_stride -> (out_stride + 1)"), (49, "+ -> -"), (63, "mask=column < topk dropped"),
        (77, "< -> <="), (77, "< -> >"),
    }  # fmt: skip


def test_what_the_interpreter_does_not_reach_is_left_alone():
    assert not [m for m in mutations.of("latents") if "tl.bfloat16" in m.text]


def test_a_quick_run_draws_the_same_mutants_from_the_same_seed():
    assert mutants(True, 1) == mutants(True, 1) != mutants(True, 2)
    assert len(mutants(True, 1)) == QUICK < len(mutants(False))
    assert {mutation.file for _, mutation in mutants(False, only=("topk_slots",))} == {"topk_slots"}


def test_every_reason_is_about_one_line_there_is():
    for file, entries in TABLE.items():
        known = [(mutation.text, f"{mutation.column} {mutation.change}") for mutation in mutations.of(file)]
        for begins, changes, why in entries:
            assert why
            for change in changes:
                lines = {text for text, each in known if text.startswith(begins) and each == change}
                assert len(lines) == 1, (file, begins, change)


def number(file: str, text: str, change: str) -> int:
    return next(n for n, m in enumerate(mutations.of(file)) if text in m.text and m.change == change)


def test_mutants_run_and_stray_reads_are_crashes():
    """In one agent: the kernel as it is passes, a wrong offset is seen, a dropped mask reads past a tensor."""
    load = "position = tl.load(positions_ptr"
    slots = "slot = tl.where(known"
    unmasked = number("topk_slots", load, "mask=column < topk, other=-1 dropped")
    wanted = {
        "mutant:topk_slots:honest": ("pass", ""),
        f"mutant:topk_slots:{number('topk_slots', slots, '% -> //')}": ("mismatch", ""),
        f"mutant:topk_slots:{unmasked}": ("crash", "the kernel reads 64 bytes that lie in none of the 4 tensors"),
        "mutant:latents:0": ("unsupported", "does not implement topk_slots"),
        "mutant:topk_slots:100000": ("harness_error", "expected FILE:N"),
    }
    known = {name: axis.default for name, axis in specs.axes("topk_slots").items()} | CASES["topk_slots"][1]
    sent = [{"type": "case", "op": "topk_slots", "provider": name, "params": known, "seed": 0} for name in wanted]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "kvcheck.agent", "--device", "cpu"]
    done = subprocess.run(command, input=b"".join(map(encode, sent)), capture_output=True, env=environment, timeout=170, check=False)
    rows = [answer["row"] for answer in map(json.loads, done.stdout.splitlines()) if answer["type"] == "result"]
    assert len(rows) == len(wanted), done.stderr.decode()[-2000:]
    for (name, (verdict, said)), row in zip(wanted.items(), rows, strict=True):
        assert row["verdict"] == verdict and said in row["message"], (name, row["message"])


FAULT = {"fault": "f", "op": "topk_slots", "sentence": "", "cases": 3, "unjudged": []}
CAUGHT = {"verdict": "mismatch", "check": "exact", "case": "topk_slots[rows=1]", "cases": 2}
MUTANT = {"mutant": "m", "text": "x", "op": "topk_slots", "provider": "mutant:m:0", "case": None, "message": ""}


@pytest.mark.parametrize(
    ("fault", "mutant", "verdict", "good"),
    [
        ([CAUGHT], {"caught_by": {}, "equivalent": None}, "pass", True),
        ([CAUGHT], {"caught_by": None, "equivalent": "because"}, "pass", True),
        ([], {"caught_by": {}, "equivalent": None}, "pass", False),
        ([CAUGHT], {"caught_by": None, "equivalent": None}, "pass", False),
        ([CAUGHT], {"caught_by": {}, "equivalent": None}, "mismatch", False),
        ([CAUGHT], {"caught_by": {}, "equivalent": None}, "harness_error", False),
    ],
)
def test_what_makes_a_run_red(fault, mutant, verdict, good):
    others = {"set_match": {"judged": 3, "caught": 1}}
    honest = {"id": "c", "op": "topk_slots", "provider": "triton", "verdict": verdict, "message": "", "compared": {"set_match": False}}
    report = compose([{**FAULT, "caught_by": fault, "others": others}], [{**MUTANT, **mutant}], [honest])
    assert sound(report) is good
    text = render({**report, "run": {"wall_s": 1.0, "device": "cpu"}})
    assert ("NO CHECK CATCHES IT" in text) is not bool(fault)
    assert ("SURVIVORS WITHOUT A REASON: 1" in text) is (mutant == {"caught_by": None, "equivalent": None})
    assert ("HONEST KERNELS BLAMED" in text) is (verdict != "pass")
    assert "| set match >= 0.99 | 1 of 1 | 1 of 1 |" in text
    assert (report["faults_total"], report["mutants_total"], report["honest_total"]) == (1, 1, 1)


def test_a_mutant_nobody_has_thought_about_has_no_reason():
    assert reason(mutations.Mutation("topk_slots", 1, 0, "x = 1", "1 -> 2", 4, 5, "2")) is None
