"""aiter's prefill logits under Triton's interpreter: right for windows that begin on a tile, and what the wheel does to the others."""

from __future__ import annotations

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("aiter") is None, reason="needs the amd-aiter wheel")

SHAPE = {"rows": 6, "tokens": 300, "num_heads": 16}


def test_windows_from_the_first_column_are_right(judge):
    cases = [{**SHAPE, "window": window, "kv_dtype": "e4m3fn"} for window in ("full", "causal", "one_short", "empty")]
    for case, row in zip(cases, judge("aiter", cases, "mqa_logits"), strict=True):
        assert row.verdict == "pass", (case, row.message)


def test_heads_that_are_no_power_of_two_are_refused(judge):
    (row,) = judge("aiter", [{**SHAPE, "num_heads": 24}], "mqa_logits")
    assert row.verdict == "unsupported" and "powers of two" in row.message


def test_the_wheel_counts_tiles_from_zero(judge):
    """Its loop ends at the multiple of 128 below ke, and begins at ks: past ke by up to 127 columns, and the rest is shifted."""
    row, *_ = judge("aiter", [{**SHAPE, "rows": 3, "tokens": 700, "window": "packed"}], "mqa_logits")  # it may die behind its answer
    assert row.verdict in ("nonfinite", "crash"), row.message
