"""The published wheel of 2025-11 is really wrong: its mask lets one position too many through, and stage1 stores past the row.

Its mask is `p <= ctx - j` (aiter before fe927e8d32): a finite 0.0 at position ctx wherever the tile reaches past the context, so
not at multiples of 64 with next_n 1; with next_n above 1 the rows' limits are reversed.
"""

from __future__ import annotations

from importlib import metadata

import pytest


def _installed() -> str | None:
    try:
        return metadata.version("amd-aiter")
    except metadata.PackageNotFoundError:
        return None


pytestmark = pytest.mark.skipif(_installed() != "0.1.7.post2.dev18", reason=f"needs amd-aiter 0.1.7.post2.dev18, found {_installed()}")

SMALL = {"num_heads": 32, "block_size": 1, "batch": 1, "topk": 64}
CAVEAT = "gfx942 and gfx950 with Triton 3.5 and newer take Gluon kernels"


@pytest.fixture(scope="module")
def stage1(judge):
    cases = [
        {"context_len": 64}, {"context_len": 192}, {"context_len": 65}, {"context_len": 300},
        {"context_len": 128, "next_n": 2}, {"context_len": 65, "block_size": 16},
        {"context_len": 257, "max_model_len": 257, "batch": 2}, {"context_len": [320, 0, 64], "batch": 3},
        {"context_len": [[63, 64], [1, 128]], "next_n": 2, "batch": 2}, {"context_len": 64, "kv_dtype": "e4m3fnuz"},
    ]  # fmt: skip
    names = ["64", "192", "65", "300", "next_n", "blocks", "overrun", "ragged", "per_row", "fnuz"]
    return dict(zip(names, judge("aiter", [SMALL | case for case in cases]), strict=True))


@pytest.mark.parametrize("name", ["64", "192", "ragged", "fnuz"])
def test_multiples_of_64_pass(stage1, name):
    row = stage1[name]
    assert row.verdict == "pass", row.message
    assert row.metrics["max_bound_ratio"] < 0.01


@pytest.mark.parametrize("length", [65, 300])
def test_elsewhere_one_position_too_many_is_let_through(stage1, length):
    row = stage1[str(length)]
    assert row.verdict == "nonfinite"
    assert (row.first_bad["row"], row.first_bad["position"], row.first_bad["actual"]) == (0, length, 0.0)
    assert row.bad_count == 1
    assert row.metrics["max_bound_ratio"] < 0.01, "inside the row it is right"


def test_rows_are_reversed_with_two_query_tokens(stage1):
    row = stage1["next_n"]
    assert row.verdict == "nonfinite"
    assert (row.first_bad["row"], row.first_bad["position"]) == (0, 127)


def test_a_length_a_row_is_given_as_requests_of_one_row(stage1):
    row = stage1["per_row"]
    assert row.verdict == "nonfinite"
    assert (row.first_bad["row"], row.first_bad["position"]) == (0, 63)
    assert "per-row lengths given as requests of one row" in row.dispatch


def test_blocks_are_refused_with_the_reason(stage1):
    row = stage1["blocks"]
    assert row.verdict == "unsupported"
    assert "takes no KVBlockSize" in row.message
    assert "8abb3607e9" in row.message


def test_stores_past_the_row_end_hit_the_guard(stage1):
    row = stage1["overrun"]
    assert row.verdict == "out_of_bounds_write"
    assert row.metrics["guard_hits"] == 63, "257 columns end in a tile of 64 that holds one of them"
    assert "nonfinite" in row.also_failed, "the next row's first logits became -inf"


def test_the_row_says_what_ran(stage1):
    row = stage1["65"]
    assert row.dispatch.startswith("_deepgemm_fp8_paged_mqa_logits_stage1 (aiter/ops/triton/_triton_kernels/pa_mqa_logits.py:")
    for part in ("ChunkK=64 ChunkQ=32", "Triton interpreter", "aiter 0.1.7.post2.dev18", CAVEAT):
        assert part in row.dispatch
    assert row.provider_version == "0.1.7.post2.dev18"
    assert row.precision == "fp32_any (declared)"


@pytest.mark.parametrize("variant", ["fused", "ragged", "ragged_stage1"])
def test_the_other_kernels_of_the_wheel_have_the_same_mask(judge, variant):
    right, wrong = judge(f"aiter:{variant}", [SMALL | {"context_len": 64}, SMALL | {"context_len": 65}])
    assert right.verdict == "pass", right.message
    assert wrong.verdict == "nonfinite"
    assert (wrong.first_bad["row"], wrong.first_bad["position"]) == (0, 65)


def test_the_defaults_of_stage1_crash_where_no_tile_fits(judge):
    served, crashed = judge("aiter:stage1_defaults", [SMALL | {"context_len": 64}, SMALL | {"context_len": 64, "num_heads": 16}])
    assert served.verdict == "pass", served.message
    assert crashed.verdict == "crash"
    assert "AssertionError" in crashed.message


def test_topk_needs_rocm(judge):
    (row,) = judge("aiter", [{"context_len": 100, "max_model_len": 256, "topk": 64}], op="topk_per_row")
    assert row.verdict == "unsupported"
    assert "ROCm" in row.message


def test_an_unknown_variant_names_those_there_are(judge):
    (row,) = judge("aiter:stage2", [SMALL | {"context_len": 64}])
    assert row.verdict == "unsupported"
    assert "stage1_defaults" in row.message
