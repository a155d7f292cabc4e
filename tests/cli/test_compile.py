"""`kvcheck compile`: real compilations for chips that are not here, what fails with its place, and what changed."""

from __future__ import annotations

import json

import pytest

from kvcheck.flow.compiled import differences, kernels

ONE = """
schema: 1
name: one
op: paged_mqa_logits
providers: [triton]
fixed: {batch: 2, num_heads: 64, head_dim: 128, context_len: 100, max_model_len: 1024, block_size: 16}
axes: {next_n: [1, 2]}
"""
PROVIDER = """
import triton
import triton.language as tl


@triton.jit
def _narrow(x, WAY: tl.constexpr):
    if WAY == "convert":
        x = x.to(tl.float8e4b8).to(tl.float32)
    elif WAY == "kill":
        x = tl.inline_asm_elementwise("v_mov_b32 $0, $1", "=v,v", [x], dtype=tl.float32, is_pure=True, pack=1)
    return x


@triton.jit
def _copy(
    source,
    target,
    WAY: tl.constexpr,
    LANES: tl.constexpr,
):
    lane = tl.arange(0, LANES)
    tl.store(target + lane, _narrow(tl.load(source + lane), WAY))


def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
    _copy[(1,)](weights, out, "WAY_HERE", 128)
"""
PLACE_OF_CONVERT = 9
"""Line of `tl.float8e4b8` in PROVIDER."""

ROW_KEYS = {
    *("provider", "target", "verdict", "stage", "message", "kernel", "file", "line", "key", "error_file", "error_line", "compile_s"),
    *("constants", "types", "divisible_by_16", "within_2_gib", "options", "cases"),
    *("vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch_bytes", "lds_bytes", "occupancy"),
    *("code_bytes", "instructions", "matrix"),
}


@pytest.fixture
def provider(tmp_path):
    """Writes a provider whose kernel narrows its values in one way."""

    def write(name, way, text=PROVIDER):
        file = tmp_path / name
        file.write_text(text.replace("WAY_HERE", way))
        return file

    return write


def test_our_kernel_on_two_amd_chips_and_one_of_nvidia(kvcheck, case_file):
    targets = ("--target", "gfx942", "--target", "gfx950", "--target", "sm90")
    done = kvcheck("compile", case_file(ONE), *targets, "--format", "json", "--out", "o", "--quiet")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["schema"] == "kvcheck.compile/1"
    assert report["run"]["targets"] == ["gfx942", "gfx950", "sm_90"]
    assert report["environment"]["triton"] and report["environment"]["torch"]
    assert [device["arch"] for device in report["environment"]["device"]["targets"]] == ["gfx942", "gfx950", "sm_90"]
    native = {"gfx942": "v_mfma_f32_32x32x16_fp8_fp8", "gfx950": "v_mfma_f32_32x32x64_f8f6f4", "sm_90": "QGMMA"}
    types = {"gfx942": "*fp8e4b8", "gfx950": "*fp8e4nv", "sm_90": "*fp8e4nv"}
    for target in native:
        rows = [row for row in report["rows"] if row["target"] == target]
        assert [row["cases"] for row in rows] == [["one[next_n=1]"], ["one[next_n=2]"]], "one specialisation for each next_n"
        for row in rows:
            assert set(row) >= ROW_KEYS
            assert (row["verdict"], row["kernel"], row["provider"]) == ("pass", "_paged_mqa_logits", "triton")
            assert row["file"] == "kvcheck/agent/kernels/paged_mqa_logits.py"
            assert any(name.startswith(native[target]) for name in row["matrix"]), row["matrix"]
            assert row["types"]["q_ptr"] == types[target]
            assert 16 < row["vgprs"] <= 512 and row["code_bytes"] > 1000 and row["lds_bytes"] > 0
            assert row["vgpr_spills"] == 0 and row["scratch_bytes"] == 0 and row["compile_s"] > 0.05
            assert row["options"]["num_warps"] == 4 and row["constants"]["HEADS"] == 64
            assert (row["occupancy"] is None) == (target == "sm_90") and (row["occupancy"] or 1) in range(1, 9)
        assert rows[0]["constants"]["next_n"] == 1 and "next_n" in rows[1]["types"], "an argument of 1 is a constant, as in a launch"
    assert [path.name for path in done.folder.iterdir()] == ["compile.json"]


def test_what_does_not_compile_has_its_place_and_is_told_from_what_changed(kvcheck, case_file, provider):
    old, new = provider("old.py", "plain"), provider("new.py", "convert")
    words = ("compile", case_file(ONE), "--target", "gfx942", "--target", "sm_90", "--provider", new)
    done = kvcheck(*words, "--against", old, "--out", "o", "--quiet")
    assert done.code == 1, done.err
    place = f"{new}:{PLACE_OF_CONVERT}"
    assert "type fp8e4b8 not supported in this architecture" in done.out and f"at {place}" in done.out
    assert f"NEWLY FAILS sm_90 _copy ({new}:16)" in done.out
    report = json.loads((done.folder / "compile.json").read_text())
    passed, failed = report["rows"]
    assert (passed["target"], passed["verdict"]) == ("gfx942", "pass")
    assert (failed["target"], failed["verdict"], failed["stage"]) == ("sm_90", "crash", "compile")
    assert (failed["error_file"], failed["error_line"]) == (str(new), PLACE_OF_CONVERT)
    assert failed["cases"] == ["one[next_n=1]", "one[next_n=2]"], "what failed once is one row"
    assert [row["verdict"] for row in report["against_rows"]] == ["pass", "pass"]
    fails, changed = report["differences"]
    assert (fails["kind"], fails["target"]) == ("newly_fails", "sm_90") and place in fails["message"]
    assert (changed["kind"], changed["target"]) == ("changed", "gfx942")
    assert changed["specialisation"] == {"WAY": ["plain", "convert"]}
    before, after = changed["changes"]["code_bytes"]
    assert before == report["against_rows"][0]["code_bytes"] < after == passed["code_bytes"]


def test_a_compiler_that_ends_the_process_is_the_kernel_it_was_at(kvcheck, case_file, provider):
    file = provider("kills.py", "kill")
    done = kvcheck("compile", case_file(ONE), "--set", "next_n=1", "--target", "sm_90", "--provider", file, "--format", "json", "--quiet")
    assert done.code == 1, done.err
    (row,) = json.loads(done.out)["rows"]
    assert (row["verdict"], row["stage"], row["kernel"], row["line"]) == ("crash", "compile", "_copy", 16)
    assert "couldn't allocate output register" in row["message"] and f"{file}:16" in row["message"]


@pytest.mark.parametrize(
    ("words", "code", "texts"),
    [
        (("--target", "gfx9x4"), 2, ("--target: expected a chip such as", "nearest: gfx942")),
        (("--target", "gfx999"), 2, ("does not compile for gfx999", "nearest: gfx9")),
        (("--against", "triton", "--provider", "triton", "--provider", "torch_eager"), 2, ("--against: expected one --provider",)),
        (("--format", "jsno"), 2, ("nearest: json",)),
        (("--provider", "torch_eager", "--target", "gfx950"), 3, ("no Triton or Gluon kernel was launched",)),
    ],
    ids=["no_chip", "refused_by_triton", "two_sides", "format", "nothing_to_compile"],
)
def test_ends_as_the_contract_says(kvcheck, case_file, words, code, texts):
    done = kvcheck("compile", case_file(ONE), *words, "--quiet")
    assert done.code == code, done.out + done.err
    for text in texts:
        assert text in done.out + done.err


def case(name, *entries, verdict="pass"):
    return {"id": name, "provider": "p", "verdict": verdict, "message": "no", "kernels": list(entries)}


def kernel(name, verdict="pass", **figures):
    row = {"kernel": name, "file": "k.py", "line": 1, "verdict": verdict, "message": f"{name} {verdict}", "key": f"{name}{figures}"}
    return {**row, "vgprs": 128, "matrix": {"v_mfma": 4}, **figures}


def kinds(new, old):
    found = differences(kernels(("gfx950", row) for row in new), kernels(("gfx950", row) for row in old))
    return [(entry["kind"], entry["kernel"], entry["changes"], entry["cases"]) for entry in found]


def test_differences_are_told_once_with_the_cases_that_show_them():
    old = [case("a", kernel("x")), case("b", kernel("x"), kernel("y"))]
    assert kinds(old, old) == []
    more = {"vgprs": 160, "matrix": {"v_mfma": 8}}
    changes = {"vgprs": [128, 160], "matrix": [{"v_mfma": 4}, {"v_mfma": 8}]}
    new = [case("a", kernel("x", **more)), case("b", kernel("x", **more), kernel("z"))]
    assert kinds(new, old) == [("changed", "x", changes, ["a", "b"]), ("gone", "y", {}, ["b"]), ("new", "z", {}, ["b"])]


def test_what_a_failing_side_did_not_reach_is_neither_new_nor_gone():
    good, bad = [case("a", kernel("x"), kernel("y"))], [case("a", kernel("x", "crash"), verdict="crash")]
    assert kinds(bad, good) == [("newly_fails", "x", {}, ["a"])]
    assert kinds(good, bad) == [("compiles_again", "x", {}, ["a"])]
    assert kinds(bad, bad) == []
    passed_over = [case("a", kernel("x", "unsupported", vgprs=None), kernel("x"), kernel("y"))]
    assert kinds(passed_over, good) == kinds(good, passed_over) == []
