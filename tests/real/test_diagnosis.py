"""Real kernels and stand-ins of them, diagnosed: the published wheel's mask, and the block table looked up by token."""

from __future__ import annotations

from importlib import metadata

import pytest

SMALL = {"num_heads": 32, "batch": 1, "topk": 64}


def _wheel() -> str | None:
    try:
        return metadata.version("amd-aiter")
    except metadata.PackageNotFoundError:
        return None


def names(row) -> list[str]:
    return [entry["fault"] for entry in row.diagnosis if entry["explains"] == 1]


@pytest.mark.skipif(_wheel() != "0.1.7.post2.dev18", reason=f"needs amd-aiter 0.1.7.post2.dev18, found {_wheel()}")
def test_the_wheels_mask_is_named_and_with_two_query_tokens_alone(judge):
    cases = [{"context_len": 65}, {"context_len": 65, "next_n": 2}]
    first, second = judge("aiter", [SMALL | {"block_size": 1} | case for case in cases], diagnose=True)
    assert names(first) == ["mask_off_by_one", "row_limits_reversed"]
    assert "cannot tell them apart" in first.diagnosis[0]["sentence"]
    assert names(second) == ["row_limits_reversed"], second.diagnosis
    assert "p <= context_len - j" in second.diagnosis[0]["sentence"]


def test_a_table_looked_up_by_token_is_named(standin, judge, tmp_path):
    case = SMALL | {"context_len": 70, "block_size": 16}
    (row,) = judge(f"aiter:stage1@{standin(tmp_path, right=False)}", [case], diagnose=True, run_unsupported=True)
    assert names(row) == ["table_indexed_per_token"], row.diagnosis
