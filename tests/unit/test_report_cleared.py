"""What a run clears is said only where everything passes, with what was run and what was not."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from kvcheck.agent.protocol import NOT_JUDGED, VERDICTS
from kvcheck.report.words import findings
from kvcheck.report.words.cleared import sentence

RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())
PASSING = {**RUN, "cases": [row for row in RUN["cases"] if row["verdict"] == "pass"]}


def with_(**axes):
    run = copy.deepcopy(PASSING)
    run["cases"][0]["params"] |= axes
    return sentence(run)


def test_names_ops_shapes_kernels_and_what_is_left():
    text = sentence(PASSING)
    assert text.startswith("KV path cleared on these ops, shapes and this dispatch: paged_mqa_logits by triton (kvcheck paged_mqa_logits")
    assert "context_len 1..4096 (6 values), num_heads 32 and 64, head_dim 128" in text
    for other in ("collectives", "GEMM", "MoE", "sampling", "no case had launch=graph", "interpreted on a CPU"):
        assert other in text.partition("Not cleared: ")[2]
    assert text in findings(PASSING)


@pytest.mark.parametrize("verdict", sorted(set(VERDICTS) - NOT_JUDGED - {"pass"}))
def test_one_failure_clears_nothing(verdict):
    run = copy.deepcopy(PASSING)
    run["cases"][-1]["verdict"] = verdict
    assert sentence(run) is None
    assert "cleared" not in "\n".join(findings(run))


def test_nothing_judged_clears_nothing_and_the_unjudged_are_counted():
    run = copy.deepcopy(PASSING)
    run["cases"][0]["verdict"] = "unsupported"
    assert "1 case that could not be judged" in sentence(run)
    assert sentence({**RUN, "cases": [row for row in RUN["cases"] if row["verdict"] in NOT_JUDGED]}) is None


def test_graphs_and_hardware_are_open_only_where_they_were_not_swept():
    assert "graph capture" not in with_(launch="graph")
    assert "graph capture" in with_(launch="eager")
    emulated = {**PASSING, "environment": {"device": {"type": "emulated", "name": "gfx950-emulated"}}}
    assert "it was emulated" in sentence(emulated)
    card = {**PASSING, "environment": {"device": {"type": "cuda", "interpreted": False}}}
    assert "emulated" not in sentence(card) and "any GPU" not in sentence(card)
