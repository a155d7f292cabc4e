"""`kvcheck selftest`: a red row for a fault that no check catches, and totals as the contract has them."""

from __future__ import annotations

import json

from kvcheck.agent import specs
from kvcheck.flow import selftest as flow


def test_faults_of_one_kind_are_caught_and_the_report_says_where(kvcheck, tmp_path):
    words = ["--only", "columns_compacted", "--only", "topk_slots", "--quick", "--quiet", "--out", str(tmp_path), "--format", "json"]
    done = kvcheck("selftest", *words)
    report = json.loads(done.out)
    assert done.code == 0, done.err
    assert report == json.loads((tmp_path / "selftest.json").read_text())
    assert (report["faults_total"], report["faults_caught"], report["honest_blamed"]) == (1, 1, 0)
    assert report["mutants_total"] == len(flow.mutants(True, 0, ("topk_slots",))) and report["honest_total"] >= 6
    assert report["mutants_caught"] + report["mutants_equivalent"] == report["mutants_total"]
    (row,) = report["faults"]
    assert row["caught_by"][0]["check"] == "exact" and row["caught_by"][0]["case"].startswith("topk_slots[rows=5,topk=9")
    assert row["others"]["set_match"]["caught"] == 0 < row["others"]["allclose"]["caught"]


TRITON = {
    "keys_cut_to_24_bits": {"topk_positions"},
    "page_turned_early": {"bound", "exact"},
    "race_with_next_tile": {"finite_mask", "race"},
    "reads_clamped_to_zero": {"bound"},
    "rescale_forgotten": {"bound_values"},
    "rows_swapped": {"sentinel"},
    "stale_split_read": {"finite_values"},
    "whole_tile_stored": {"guards"},
}
"""Faults in the source of our Triton kernels, and the checks that must be among those that catch them."""


def test_faults_of_our_triton_kernels_are_caught_and_the_race_where_programs_run_side_by_side(kvcheck):
    assert set(TRITON) == {name for name in specs.names("faults") if specs.load("faults", name).data["base"] == "triton"}
    done = kvcheck("selftest", *(word for name in TRITON for word in ("--only", name)), "--quiet", "--format", "json")
    report = json.loads(done.out)
    assert done.code == 0, done.err
    assert report["faults_caught"] == report["faults_total"] == len(TRITON)
    for row in report["faults"]:
        assert TRITON[row["fault"]] & {each["check"] for each in row["caught_by"]}, row
        assert row["device"] == ("gfx950-emulated" if row["fault"] == "race_with_next_tile" else "cpu")


def test_a_mistyped_format_is_a_usage_error(kvcheck):
    done = kvcheck("selftest", "--format", "jsn")
    assert done.code == 2 and "nearest: json" in done.err
