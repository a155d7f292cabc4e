"""BUGS 9 and 11: what the regressions' headers say they show."""

from __future__ import annotations

import pytest

from kvcheck.cases.plan import plan


def rows(judged, name: str, provider: str):
    """Every case of a regression, judged: params and row."""
    return [(case.params, judged(case.op, provider, **case.params)) for case in plan([name]).cases]


def test_flat_read_as_shuffled_matches_at_chance(judged):
    found = {params["block_size"]: row for params, row in rows(judged, "vllm_52109_flat_read_as_shuffled", "fault:flat_read_as_shuffled")
             if "num_heads" in params}  # fmt: skip
    assert found[1]["verdict"] == "pass" and found[64]["verdict"] == "mismatch"
    metrics = found[64]["metrics"]
    assert metrics["topk_set_match_chance"] == 0.5 and metrics["topk_set_match"] == pytest.approx(0.5, abs=0.03)
    assert abs(metrics["topk_set_match_corrected"]) < 0.06 and found[1]["metrics"]["topk_set_match"] == 1.0
    gather = [row for params, row in rows(judged, "vllm_52109_flat_read_as_shuffled", "fault:layout_mistaken") if "num_heads" not in params]
    assert [row["verdict"] for row in gather] == ["mismatch", "mismatch"]


def test_fn_read_as_fnuz_and_back(judged):
    for params, row in rows(judged, "fn_read_as_fnuz", "torch_eager"):
        assert row["verdict"] == "pass", (params, row["message"])
    for params, row in rows(judged, "fn_read_as_fnuz", "fault:fn_read_as_fnuz"):
        plain = params["kv_dtype"] == "e4m3fn" and params["values"] == "gaussian"
        assert row["verdict"] == ("mismatch" if plain else "nonfinite"), (params, row["message"])
        if plain:
            assert row["first_bad"]["expected"] == pytest.approx(4 * row["first_bad"]["actual"], rel=1e-3), "both factors are halved"


def test_windows_that_begin_inside_a_tile(judged):
    for params, row in rows(judged, "aiter_mqa_logits_before_1422", "fault:tiles_counted_from_zero"):
        wrong = params["window"] in ("packed", "ragged", "edges")
        assert row["verdict"] == ("nonfinite" if wrong else "pass"), (params, row["message"])
