"""What a script's run says of its conclusion, from events alone."""

from __future__ import annotations

import pytest

from kvcheck.flow.vet import Run
from kvcheck.flow.vet_findings import contrast, judge

CALL = {
    "type": "call", "call": 0, "entry": "deepgemm_fp8_paged_mqa_logits", "reference": False, "form": "paged", "tokens": 9, "num_heads": 8,
    "nan_tokens": 0.0, "scales_nonfinite": 0.0, "scales_negative": 0.0, "scales_range": [0.01, 0.02], "reference_finite": 1.0, "q_nan": 0,
    "weights_nonfinite": 0, "logits_equal": False, "chunk_q": None, "chunk_q_given": False, "table": "mixed", "longest": 9,
    "context_len": 9,
}  # fmt: skip
DIFFERENCE = {"type": "difference", "call": 0, "both": False}
ENDED = {"type": "end", "code": 0, "error": None, "place": "", "assertion": False}


def found(*events, stopped=False, installed=False):
    run = Run((CALL, *events), "said", 0)
    return {entry["id"]: entry["level"] for entry in judge({}, run, stopped=stopped, installed=installed)}


def test_a_call_that_nothing_is_compared_with():
    assert found(ENDED) == {"nothing_compared": "void"}
    assert found(stopped=True) == {}  # the comparison may have been to come
    assert found(DIFFERENCE, ENDED) == {}


@pytest.mark.parametrize("ended", [{"code": 1, "error": "AssertionError: FAILED", "assertion": True, "place": "7"}, {"code": 4}])
def test_a_failure_with_exact_answers_blames_an_honest_kernel(ended):
    assert found(DIFFERENCE, ENDED | ended) == {"blames_honest": "void"}
    assert found(DIFFERENCE, ENDED | ended, installed=True) == {}  # the installed kernel may be wrong


@pytest.mark.parametrize(
    ("code", "printed", "name", "level"),
    [(0, "said", "sees_nothing", "void"), (0, "other", "status_blind", "note"), (1, "said", "sees_mirrored", "good")],
)
def test_what_a_planted_fault_changes(code, printed, name, level):
    (entry,) = contrast(Run((), "said", 0), Run((), printed, code))
    assert (entry["id"], entry["level"]) == (name, level)


def test_heads_that_no_chunk_fits():
    short = {**CALL, "chunk_q": 64, "num_heads": 32}
    (entry,) = judge({}, Run((short, DIFFERENCE, ENDED), "", 0), stopped=False, installed=False)
    assert entry["sentence"].startswith("ChunkQ default 64 with 32 heads: dies before it measures (heads // ChunkQ is 0")
