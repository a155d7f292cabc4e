"""The wheel's kernels and stand-ins of our own, compiled for gfx942 and gfx950 and run instruction by instruction.

The wheel's mask lets one position too many through (aiter before fe927e8d32); here the compiled code does, as the interpreter did. The
wheel has no Gluon kernel of this op: the stand-in's are ours, with aiter's file, names and wrapper.
"""

from __future__ import annotations

from importlib import metadata

import pytest

pytest.importorskip("triton", reason="needs triton")

TARGETS = ("gfx942", "gfx950")
SMALL = {"num_heads": 32, "batch": 1, "topk": 64, "head_dim": 128, "block_size": 1}


def _installed() -> str | None:
    try:
        return metadata.version("amd-aiter")
    except metadata.PackageNotFoundError:
        return None


wheel = pytest.mark.skipif(_installed() != "0.1.7.post2.dev18", reason=f"needs amd-aiter 0.1.7.post2.dev18, found {_installed()}")


VARIANTS = ["stage1", "fused", "ragged", "ragged_stage1"]
CASES = {
    **{(variant, length): (f"aiter:{variant}", {"context_len": length}) for variant in VARIANTS for length in (64, 65)},
    "reversed": ("aiter:stage1", {"context_len": 128, "next_n": 2}),
    "overrun": ("aiter:stage1", {"context_len": 65, "max_model_len": 65, "batch": 2}),
    "production": ("aiter", {"context_len": 64}),
    "e4m3fn": ("aiter", {"context_len": 64, "kv_dtype": "e4m3fn"}),
    "blocks": ("aiter", {"context_len": 64, "block_size": 16}),
    "gluon": ("aiter:gluon", {"context_len": 64}),
}


@pytest.fixture(scope="module", params=TARGETS)
def emulated(judge, request):
    """The target and its rows by name: all of the wheel's variants in one agent."""
    names = [name for name, _ in CASES.values()]
    rows = judge(names, [SMALL | case for _, case in CASES.values()], device=f"{request.param}-emulated")
    return request.param, dict(zip(CASES, rows, strict=True))


@wheel
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_wheel_s_mask_fault_is_in_the_machine_code(emulated, variant):
    arch, rows = emulated
    right, wrong = rows[variant, 64], rows[variant, 65]
    assert right.verdict == "pass", right.message
    assert wrong.verdict == "nonfinite"
    assert (wrong.first_bad["row"], wrong.first_bad["position"], wrong.first_bad["actual"]) == (0, 65, 0.0)
    assert wrong.bad_count == 1
    assert wrong.metrics["max_bound_ratio"] < 0.01, "inside the row it is right"
    assert f"compiled for {arch}, emulated" in wrong.dispatch
    assert wrong.params["kv_dtype"] == {"gfx942": "e4m3fnuz", "gfx950": "e4m3fn"}[arch]


@wheel
def test_rows_are_reversed_and_stores_leave_the_row(emulated):
    _, rows = emulated
    assert rows["reversed"].verdict == "nonfinite"
    assert (rows["reversed"].first_bad["row"], rows["reversed"].first_bad["position"]) == (0, 127)
    assert rows["overrun"].verdict == "out_of_bounds_write"


@wheel
def test_the_production_entry_is_the_fused_one(emulated):
    _, rows = emulated
    assert rows["production"].verdict == "pass", rows["production"].message
    assert rows["production"].dispatch.startswith("_deepgemm_fp8_paged_mqa_logits (aiter/ops/triton/_triton_kernels/pa_mqa_logits.py:")


@wheel
def test_what_the_wheel_has_not_is_said(emulated):
    arch, rows = emulated
    assert rows["gluon"].verdict == rows["blocks"].verdict == "unsupported"
    assert "no Gluon kernels: they came with fe927e8d32" in rows["gluon"].message
    assert "takes no KVBlockSize" in rows["blocks"].message
    assert rows["e4m3fn"].verdict == {"gfx942": "unsupported", "gfx950": "pass"}[arch]
    if arch == "gfx942":
        assert "reads every cache as e4m3fnuz here" in rows["e4m3fn"].message


RAGGED = SMALL | {"batch": 2, "next_n": 2, "context_len": [70, 1], "topk": 16}


@pytest.mark.parametrize("arch", TARGETS)
def test_gluon_kernels_of_a_checkout_run(gluon, judge, tmp_path, arch):
    name, wrong = gluon(tmp_path / "right"), gluon(tmp_path / "wrong", right=False)
    wanted = {
        f"aiter@{name}": (64, "pass", "Preshuffle=True"),
        f"aiter:gluon@{name}": (1, "pass", "Preshuffle=False"),
        f"aiter:gluon_preshuffle@{name}": (16, "pass", "KVBlockSize=16"),
        f"aiter:gluon_varctx@{name}": (64, "pass", "VarCtxOpt=True"),
        f"aiter:gluon_preshuffle@{wrong}": (64, "mismatch", "stand_in_gluon (aiter/ops/triton/gluon/pa_mqa_logits.py:"),
    }
    rows = judge(list(wanted), [RAGGED | {"block_size": size} for size, _, _ in wanted.values()], device=f"{arch}-emulated")
    for row, (provider, (_, verdict, said)) in zip(rows, wanted.items(), strict=True):
        assert row.verdict == verdict, (provider, row.message)
        assert said in row.dispatch and f"compiled for {arch}, emulated" in row.dispatch


def test_gluon_kernels_that_do_not_compile_or_are_not_compiled(gluon, judge, tmp_path):
    roots = {"some": gluon(tmp_path / "a"), "none": gluon(tmp_path / "b", serves="HEADS < 0"), "built": gluon(tmp_path / "c", jit=False)}
    names = [f"aiter:gluon_preshuffle@{root}" for root in roots.values()] + [f"aiter:gluon_preshuffle@{roots['some']}"]
    cases = [RAGGED | {"num_heads": 16, "block_size": size} for size in (64, 64, 64, 8)]
    some, none, built, pages = judge(names, cases, device="gfx950-emulated")
    assert some.verdict == "crash", some.message
    assert "gl.static_assert(HEADS >= 32)" in some.message
    assert [row.verdict for row in (none, built, pages)] == ["unsupported"] * 3
    assert "compiles no tile of this Gluon kernel" in none.message
    assert "built beforehand" in built.message
    assert "multiples of 16" in pages.message


def test_gluon_is_not_interpreted(gluon, judge, tmp_path):
    (row,) = judge(f"aiter:gluon@{gluon(tmp_path)}", [RAGGED])
    assert row.verdict == "unsupported"
    assert "no interpreter runs them: --device gfx950-emulated" in row.message
