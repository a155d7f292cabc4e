"""Which aiter is meant, what its arguments mean, and the tensors it is given; no kernel runs here."""

from __future__ import annotations

import hashlib
import subprocess
import types

import pytest
import torch

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers import aiter
from kvcheck.agent.providers._aiter import binding, calls, gluon, machine, rows, shim, source, watch


@pytest.fixture
def checkout(tmp_path):
    file = tmp_path / "aiter/ops/triton/pa_mqa_logits.py"
    file.parent.mkdir(parents=True)
    file.write_text("old = 1\n")
    (tmp_path / "aiter/__init__.py").write_text("")
    return tmp_path


def git(root, *words):
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.invalid"]
    return subprocess.run(["git", "-C", str(root), *identity, *words], check=True, capture_output=True, text=True).stdout.strip()


def test_the_newest_place_of_the_wrapper_wins(checkout):
    assert source.find(str(checkout)).module() == "aiter.ops.triton.pa_mqa_logits"
    new = checkout / "aiter/ops/triton/attention/pa_mqa_logits.py"
    new.parent.mkdir()
    new.write_text("")
    assert source.find(str(checkout)).module() == "aiter.ops.triton.attention.pa_mqa_logits"


def test_a_checkout_older_than_the_operator_is_unsupported(checkout):
    (checkout / "aiter/ops/triton/pa_mqa_logits.py").unlink()
    with pytest.raises(Unsupported, match="since d36601a9d0"):
        source.find(str(checkout)).wrapper()


def test_the_commit_is_read_from_loose_packed_and_worktree_refs(checkout, tmp_path_factory):
    assert source.find(str(checkout)).commit is None
    git(checkout, "init", "-q", "-b", "main")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "one")
    head = git(checkout, "rev-parse", "HEAD")
    assert source.find(str(checkout)).commit == head
    git(checkout, "pack-refs", "--all")
    assert source.commit_of(checkout) == head
    tree = tmp_path_factory.mktemp("trees") / "one"
    git(checkout, "worktree", "add", "-q", "-b", "other", str(tree))
    assert source.commit_of(tree) == head
    git(checkout, "checkout", "-q", "--detach")
    assert source.commit_of(checkout) == head
    assert source.find(str(checkout)).name() == f"aiter@{head[:10]}"


def test_a_blob_is_what_git_calls_it(checkout):
    data = b"old = 1\n"
    wanted = hashlib.sha1(b"blob 8\0" + data).hexdigest()
    assert source.blob(checkout / "aiter/ops/triton/pa_mqa_logits.py") == wanted
    assert wanted == git(checkout, "hash-object", "aiter/ops/triton/pa_mqa_logits.py")


def test_a_folder_of_that_name_is_not_an_installation(tmp_path, monkeypatch):
    (tmp_path / "aiter").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(Unsupported, match="only a folder of that name"):
        source.find(None)


REQUIRED = dict.fromkeys(binding.REQUIRED, 0)


def test_arguments_are_bound_by_what_they_mean():
    def entry(q_fp8, kv_cache, weights, out_qk, seq_lens, block_tables, max_model_len, ChunkQ=64): ...

    values = {meaning: meaning for meaning in (*binding.REQUIRED, "chunk_q", "cu_count")}
    assert binding.arguments(entry, values) == {
        "q_fp8": "q", "kv_cache": "kv_cache", "weights": "weights", "out_qk": "out", "seq_lens": "lengths", "block_tables": "table",
        "max_model_len": "max_model_len", "ChunkQ": "chunk_q",
    }  # fmt: skip
    assert binding.default(entry, "chunk_q") == 64
    assert binding.default(entry, "cu_count") is None


def test_a_signature_that_cannot_be_served_is_refused_with_the_reason():
    def fewer(q_fp8, kv_cache, weights, out_qk, kv_indices, max_model_len): ...

    def more(q_fp8, kv_cache, weights, out_qk, context_lens, kv_indices, max_model_len, new_tensor): ...

    with pytest.raises(Unsupported, match="no parameter for lengths"):
        binding.arguments(fewer, REQUIRED)
    with pytest.raises(Unsupported, match="wants new_tensor"):
        binding.arguments(more, REQUIRED)


def test_ragged_lists_hold_each_request_in_turn():
    table = torch.tensor([[5, 6, 7], [8, 9, 9], [1, 2, 3]], dtype=torch.int32)
    sums, slots = rows.ragged(torch.tensor([3, 0, 2], dtype=torch.int32), table)
    assert sums.tolist() == [0, 3, 3, 5]
    assert sums.dtype == torch.int32
    assert slots.tolist() == [5, 6, 7, 1, 2]


def test_without_the_interpreter_a_cpu_is_refused(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(Unsupported, match="TRITON_INTERPRET=1"):
        machine.ask(torch.device("cpu"))


def test_an_unknown_variant_is_refused_before_anything_loads():
    with pytest.raises(Unsupported, match="no variant 'nope'"):
        aiter.bind("nope", None, "cpu")


def test_a_launch_is_noted_whole_and_passed_on_without_amd_s_own_keywords():
    class Kernel:
        arg_names = ("q",)

        def __getitem__(self, grid):
            return lambda *args, **keywords: (grid, args, keywords)

    noted = []
    launch = watch.Launch(Kernel(), lambda kernel, grid, keywords: noted.append((grid, keywords)), watch.AMD_LAUNCH_OPTIONS)
    assert launch[(3,)](1, waves_per_eu=2, ChunkK=64) == ((3,), (1,), {"ChunkK": 64})
    assert noted == [((3,), {"waves_per_eu": 2, "ChunkK": 64})]
    assert launch.arg_names == ("q",)


def test_a_compiled_kernel_is_noted_with_what_it_was_compiled_for():
    class Compiled:
        hash = "abc"

        def __getitem__(self, grid):
            return lambda *args: args

    module = types.ModuleType("wrapper")

    def compile_it(ChunkQ, ChunkK, Preshuffle=False):
        return Compiled()

    module._compile_it = compile_it
    noted, failures = [], []
    watch.watch(module, lambda kernel, grid, keywords: noted.append((grid, keywords)), failed=lambda *facts: failures.append(facts))
    kernel = module._compile_it(64, ChunkK=256, Preshuffle=True)
    assert kernel[(7,)](1, 2) == (1, 2) and kernel.hash == "abc"
    assert noted == [((7,), {"ChunkQ": 64, "ChunkK": 256, "Preshuffle": True})]
    assert failures == []


CONFIG = {"ChunkQ": 16, "ChunkK": 256, "HiddenDim": 128, "is_padded_mode": True, "Preshuffle": True, "KVBlockSize": 16}


@pytest.mark.parametrize("compiles", [64, 1])
def test_a_tile_that_does_not_compile_is_blamed_where_a_usual_one_does(checkout, compiles):
    def compile_it(ChunkQ, ChunkK, HiddenDim, is_padded_mode, Preshuffle, KVBlockSize):
        if ChunkQ != compiles:
            raise RuntimeError("instr_shape must follow the (M, N, K) format")

    module = types.ModuleType("wrapper")
    module._compile_it = compile_it
    watch.watch(module, lambda *_: None, failed=gluon.failed(source.find(str(checkout)), shim.Machine("gfx950", 256, "hip")))
    wanted = RuntimeError if compiles == 64 else Unsupported
    with pytest.raises(
        wanted, match=r"instr_shape" if compiles == 64 else r"compiles no tile .* needs triton 3.5: its MFMA layout names two"
    ):
        module._compile_it(**CONFIG)


def entry_of(parameters: str):
    scope = {}
    required = "q_fp8, kv_cache, weights, out_logits, context_lens, kv_indices, max_model_len"
    exec(f"def deepgemm_fp8_paged_mqa_logits({required}{parameters}): pass", scope)
    return scope["deepgemm_fp8_paged_mqa_logits"]


NEW, OLD, VARCTX = ", Preshuffle=False, KVBlockSize=1, VarCtxSchedule=None", ", ChunkK=64, SplitKV=5", ", Preshuffle=False, KVBlockSize=1"
HIP = shim.Machine("gfx950", 256, "hip")


@pytest.mark.parametrize(
    ("variant", "parameters", "where", "on", "why"),
    [
        ("gluon", OLD, HIP, True, "no Gluon kernels: they came with fe927e8d32"),
        ("gluon_varctx", VARCTX, HIP, True, "no VarCtxSchedule: it came with 9715eeccee"),
        ("gluon", NEW, shim.Machine(), True, "no interpreter runs them"),
        ("gluon_preshuffle", NEW, shim.Machine(backend="cuda"), True, "do not compile for CUDA"),
        ("gluon", NEW, shim.Machine("gfx90a", 104, "hip"), True, "gfx942 and gfx950, this is gfx90a"),
        ("gluon", NEW, HIP, False, "with triton 3.5.0 and newer; this is triton"),
    ],
)
def test_where_there_is_no_gluon_the_reason_is_said(checkout, monkeypatch, variant, parameters, where, on, why):
    module = types.ModuleType("wrapper")
    module.enable_gluon_pa_mqa_logits = on
    monkeypatch.setattr(gluon, "gate", lambda module: "3.5.0")
    with pytest.raises(Unsupported, match=why):
        gluon.refuse(variant, source.find(str(checkout)), module, entry_of(parameters), where)


def test_code_objects_built_beforehand_are_for_a_card():
    module = types.ModuleType("wrapper")
    gluon.refuse_prebuilt(module, HIP)
    module.enable_jit_gluon_pa_mqa_logits_kernel = False
    with pytest.raises(Unsupported, match="built beforehand"):
        gluon.refuse_prebuilt(module, HIP)
    gluon.refuse_prebuilt(module, shim.Machine("gfx950", 256, "hip", rocm=True))


def test_the_architecture_has_its_fp8_format():
    assert [shim.Machine(arch, 1, "hip").fp8 for arch in ("gfx942", "gfx950")] == ["e4m3fnuz", "e4m3fn"]
    assert shim.Machine().fp8 is None and shim.Machine(backend="cuda").fp8 is None


@pytest.mark.parametrize(("block_size", "head_dim"), [(1, 128), (24, 128), (64, 64)])
def test_pages_that_the_preshuffle_kernels_cannot_read_are_refused(block_size, head_dim):
    gluon.refuse_shape(64, 128)
    with pytest.raises(Unsupported, match="multiples of 16 and head_dim 128"):
        gluon.refuse_shape(block_size, head_dim)


def test_topk_is_a_prebuilt_kernel(checkout):
    place = shim.Machine("gfx950", 256, "hip")
    bound = calls.Aiter(source.find(str(checkout)), None, types.ModuleType("wrapper"), None, torch.device("cpu"), place)
    with pytest.raises(Unsupported, match=r"no code object of it to run \(compiled for gfx950, emulated\)"):
        bound.topk_per_row(torch.zeros(1, 4), torch.ones(1, dtype=torch.int32), topk=2, next_n=1, out=None, alloc=None)
