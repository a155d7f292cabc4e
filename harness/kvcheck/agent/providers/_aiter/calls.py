"""One aiter, bound to a variant: refuses what its signatures cannot serve, calls it as vLLM does, and tells what really ran.

Calls: vLLM's rocm_fp8_paged_mqa_logits (vllm/v1/attention/ops/rocm_aiter_mla_sparse.py): the fused kernel on gfx942 and gfx950 with
ChunkK 256, WavePerEU 2 and Preshuffle for block sizes above 1; elsewhere stage1 with ChunkQ = heads and a sum over heads.
"""

from __future__ import annotations

import inspect
import types
from typing import Any

import torch

from kvcheck.agent.layouts import shuffled
from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter import binding, gluon, interpreter, rows, shim, watch
from kvcheck.agent.providers._aiter.source import Source, blob

ENTRIES = {
    "stage1": "deepgemm_fp8_paged_mqa_logits_stage1",
    "stage1_defaults": "deepgemm_fp8_paged_mqa_logits_stage1",
    **dict.fromkeys(("fused", "fused_plain", *gluon.VARIANTS), "deepgemm_fp8_paged_mqa_logits"),
    "ragged": "deepgemm_fp8_paged_mqa_logits_ragged_k",
    "ragged_stage1": "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k",
}
PER_HEAD = ("stage1", "stage1_defaults", "ragged_stage1")
RAGGED = ("ragged", "ragged_stage1")
FUSED = ("fused", "fused_plain", *gluon.VARIANTS)
CHUNK_K = 256
OLD_CHUNK_Q = 32
"""Query heads a tile where the wrapper has no ChunkQ: stage1 before fe927e8d32 (2025-11-18), and stage1_ragged_k always."""

CAVEAT = "gfx942 and gfx950 with Triton 3.5 and newer take Gluon kernels for the fused op instead of this plain Triton"


class Aiter:
    """One aiter and one variant; what `bind` returns.

    Attributes:
        run_unsupported: set by the caller to have a refused call made all the same, where it can be made.
    """

    def __init__(
        self, source: Source, variant: str | None, module: types.ModuleType, dtypes: Any, device: torch.device, machine: shim.Machine
    ) -> None:
        self.run_unsupported = False
        production = "fused" if machine.backend == "hip" and machine.arch in gluon.ARCHS else "stage1"
        self.source, self.variant, self.plain = source, variant or production, variant is None
        self.module, self.dtypes, self.device, self.machine = module, dtypes, device, machine
        self.interpreted = machine.backend == "interpreter"
        self._launched: tuple[Any, Any, dict[str, Any]] | None = None
        self._flattened = False
        if self.variant == "fused_plain" and hasattr(module, gluon.SWITCH):
            setattr(module, gluon.SWITCH, False)
        drop = watch.AMD_LAUNCH_OPTIONS if machine.backend == "cuda" else frozenset()
        watch.watch(module, self._note, drop, gluon.failed(source, machine))

    def paged_mqa_logits(
        self,
        q: torch.Tensor,
        kv_cache: torch.Tensor,
        weights: torch.Tensor,
        context_lens: torch.Tensor,
        block_table: torch.Tensor,
        *,
        max_model_len: int,
        block_size: int,
        kv_dtype: str,
        out: torch.Tensor,
        alloc: Any,
    ) -> None:
        """Decode logits of the indexer, by aiter (the op's function; tensors as the op documents them).

        Conventions: the kernels take one length a request; per-row lengths become batch * next_n requests of one row, as vLLM
        flattens them. Columns that a kernel does not touch keep what `out` held (stage1: -inf).
        """
        self._launched = None
        rows.refuse_views(kv_cache, block_table)
        entry = self._entry()
        if self.variant in gluon.VARIANTS:
            gluon.refuse(self.variant, self.source, self.module, entry, self.machine)
        if self._gluon():
            gluon.refuse_prebuilt(self.module, self.machine)
        if not self.run_unsupported:
            self._refuse(entry, head_dim=q.shape[-1], block_size=block_size, kv_dtype=kv_dtype)
        self._flattened = context_lens.dim() == 2
        if self._flattened:
            q, block_table, context_lens = rows.flatten(q, block_table, context_lens)
        batch, next_n, heads, head_dim = q.shape
        values = {"q": q, "weights": weights, "max_model_len": max_model_len} | self._options(entry, heads)
        if self.variant in RAGGED:
            if block_size > 1:
                raise Unsupported("aiter's ragged_k kernels take token slots: there is no call for block sizes above 1")
            values["lengths"], values["table"] = rows.ragged(context_lens, block_table)
        else:
            values["lengths"], values["table"] = context_lens, block_table
        values["kv_cache"] = kv_cache
        if self.variant in FUSED:
            preshuffle = self._preshuffle(block_size)
            values |= {"block_size": block_size, "preshuffle": preshuffle}
            if "waves" in binding.parameters(entry):
                values |= {"chunk_k": CHUNK_K, "waves": 2}  # the older wrapper keeps its own ChunkK and SplitKV
            if preshuffle:
                gluon.refuse_shape(block_size, head_dim)
                values["kv_cache"] = shuffled.write(kv_cache)
            if self.variant == "gluon_varctx":
                values["schedule"] = gluon.schedule(self.module, batch, next_n, values["lengths"], max_model_len)
        per_head = self.variant in PER_HEAD
        values["out"] = alloc((heads, batch * next_n, max_model_len), torch.float32, float("-inf")) if per_head else out
        if self.machine.fp8 is None:
            self.dtypes.fp8 = q.dtype  # an AMD target has its own
        self._call(entry, binding.arguments(entry, values))
        if per_head:
            out.copy_(values["out"].sum(dim=0))

    def topk_per_row(
        self, logits: torch.Tensor, context_lens: torch.Tensor, *, topk: int, next_n: int, out: torch.Tensor, alloc: Any
    ) -> None:
        """Top-k positions of each row, by aiter's top_k_per_row_decode (the op's function; tensors as the op documents them).

        Source: ROCm/aiter@e4048607a5 aiter/ops/topk.py; rows no longer than k are the identity prefix, then -1.
        """
        if not self.machine.rocm or self.source.directory is not None:
            why = "a checkout has nothing built" if self.machine.rocm else f"there is no code object of it to run ({self._place()})"
            raise Unsupported(f"top_k_per_row_decode is a HIP kernel that aiter builds on ROCm; {why}")
        if not self.plain:
            raise Unsupported(f"aiter:{self.variant} names a paged logits kernel; topk_per_row is served by plain `aiter`")
        import aiter

        entry = getattr(aiter, "top_k_per_row_decode", None)
        if entry is None:
            raise Unsupported(f"{self.source.name()} has no top_k_per_row_decode (it came with df5ee5d8d0, 2025-10-29)")
        code = inspect.unwrap(entry).__code__  # the wrapper's own __signature__ changes once its module is built
        names = code.co_varnames[: code.co_argcount]
        if "k" not in names and topk != 2048 and not self.run_unsupported:
            raise Unsupported(f"top_k_per_row_decode of {self.source.name()} has no argument k (it came with fefd5136b7): 2048, not {topk}")
        if context_lens.dim() == 2:
            context_lens, next_n = context_lens.reshape(-1), 1
        extra = {"k": topk} if "k" in names else {}
        entry(logits, next_n, context_lens, out, logits.shape[0], logits.stride(0), logits.stride(1), **extra)

    def version(self) -> str | None:
        """The distribution's version, or the checkout's commit; a content hash where there is neither."""
        known = self.source.version or self.source.commit
        return known or f"pa_mqa_logits.py {blob(self.source.wrapper())[:10]}"

    def dispatch(self, op: str) -> str:
        """Which kernel of which file ran in the last call, with which tile and where."""
        if op == "topk_per_row":
            return f"top_k_per_row_decode, {self.source.name()}"
        entry = getattr(self.module, ENTRIES[self.variant], None)
        if entry is None:
            return f"{self.source.name()} has no {ENTRIES[self.variant]}"
        lead = f"{entry.__name__} ({self._where(entry)}), {self.source.name()}"
        flat = "; per-row lengths given as requests of one row" if self._flattened else ""
        if self._launched is None:
            return f"{lead}: nothing was launched; {self._place()}"
        kernel, grid, config = self._launched
        made = watch.function(kernel)
        tile = " ".join(f"{k}={v}" for k, v in sorted(config.items()) if isinstance(v, int) and k not in watch.AMD_LAUNCH_OPTIONS)
        programs = grid[0] if isinstance(grid, tuple) else grid
        via = f" by {entry.__name__}" if self._gluon() else ""
        caveat = "" if self.machine.backend == "hip" else f"; {CAVEAT}"
        what = f"{made.__name__} ({self._where(made)}){via}, {self.source.name()}"
        return f"{what}, {programs} programs, {tile}; {self._place()}{flat}{caveat}"

    def precision(self, op: str, params: dict[str, Any], device: dict[str, Any]) -> str | None:
        """The precision model of `tl.dot` on FP8 here: on sm_90 the wgmma path is taken from 64 query heads a tile on."""
        if op != "paged_mqa_logits":
            return None
        arch = device["arch"]
        if device["interpreted"] or arch.startswith("gfx"):
            return "fp32_any"
        if arch == "sm_90":
            return "hopper_wgmma_fp8" if self._chunk_q(params["num_heads"]) >= 64 else "fp32_any"
        return "hopper_wgmma_fp8" if arch == "sm_89" else None

    def promises(self, op: str) -> str | None:
        """What this kernel promises less than the op, read from its signature."""
        entry = getattr(self.module, ENTRIES[self.variant], None)
        if op != "paged_mqa_logits" or entry is None:
            return None
        if self.variant in RAGGED or not self._serves_blocks(entry):
            return "block_size 1 only"
        if self.variant in gluon.PRESHUFFLED:
            return "block_size a multiple of 16, head_dim 128"
        return "block_size 1 or a multiple of 16, head_dim 128" if self.variant == "fused" and self._gluon() else None

    def _entry(self) -> Any:
        entry = getattr(self.module, ENTRIES[self.variant], None)
        if entry is None:
            raise Unsupported(f"{self.source.name()} has no {ENTRIES[self.variant]}")
        return entry

    def _gluon(self) -> bool:
        return self.variant in FUSED and gluon.taken(self.module, self.machine)

    def _preshuffle(self, block_size: int) -> bool:
        """What vLLM passes where it takes Gluon, unless the variant says."""
        return self.variant in gluon.PRESHUFFLED or (self.variant == "fused" and self._gluon() and block_size > 1)

    def _place(self) -> str:
        """What the kernels were made for."""
        if self.machine.backend == "hip":
            return f"compiled for {self.machine.arch}" + ("" if self.machine.rocm else ", emulated")
        return "Triton interpreter" if self.interpreted else "CUDA"

    def _options(self, entry: Any, heads: int) -> dict[str, Any]:
        options: dict[str, Any] = {"chunk_q": heads} if self.variant == "stage1" else {}
        own = binding.default(entry, "cu_count")
        if self.interpreted and (own is None or self.variant != "stage1_defaults"):
            options["cu_count"] = self.machine.cu_count  # from d9c373033c on the default asks the device, and there is none
        return options

    def _call(self, entry: Any, keywords: dict[str, Any]) -> None:
        try:
            entry(**keywords)
        except AttributeError as error:
            # The fused wrapper returns the compiled kernel's hash; the interpreter compiles nothing, and the logits are written.
            if not (self.interpreted and self._launched and error.name == "hash" and error.obj is None):
                raise

    def _refuse(self, entry: Any, head_dim: int, block_size: int, kv_dtype: str) -> None:
        text = inspect.getsource(self.module)
        own = "e4m3fnuz" if "float8_e4m3fnuz" in text and "dtypes.fp8" not in text else self.machine.fp8  # before 5dafe275e0 (2025-11-14)
        if own is not None and own != kv_dtype:
            raise Unsupported(f"{self.source.name()} reads every cache as {own} here, the case is {kv_dtype}")
        if self.machine.backend == "cuda" and kv_dtype == "e4m3fnuz":
            raise Unsupported("Triton has no e4m3fnuz on CUDA")
        if self.interpreted and kv_dtype == "e4m3fnuz" and not interpreter.knows_fnuz():
            raise Unsupported("this Triton's interpreter has no e4m3fnuz")
        if block_size == 1:
            return
        if not self._serves_blocks(entry):
            since = "04907edc21 (2026-08-20)" if self.variant in FUSED else "8abb3607e9 (2026-08-10)"
            raise Unsupported(
                f"block_size {block_size}: {entry.__name__} of {self.source.name()} looks the block table up by token (its kernel "
                f"takes no KVBlockSize); larger blocks came with {since}"
            )
        if self.variant in FUSED:
            longer = block_size > CHUNK_K and block_size % CHUNK_K == 0 and "KVBlockSize % ChunkK == 0" in inspect.getsource(entry)
            if CHUNK_K % block_size and not longer:
                raise Unsupported(f"the fused wrapper asserts that ChunkK {CHUNK_K} and KVBlockSize {block_size} divide each other")

    def _serves_blocks(self, entry: Any) -> bool:
        """Whether the kernel that this entry point launches knows about blocks; read from its arguments, never from a date."""
        if self._gluon():
            return "preshuffle" in binding.parameters(entry)
        return any("KVBlockSize" in inspect.signature(k.fn).parameters for k in self._kernels(entry))

    def _kernels(self, entry: Any) -> list[Any]:
        from triton.runtime.jit import KernelInterface

        used = [getattr(self.module, name, None) for name in entry.__code__.co_names]
        return [k for k in used if isinstance(k, (watch.Launch, KernelInterface))]

    def _chunk_q(self, heads: int) -> int:
        if self.variant in (*FUSED, "ragged"):
            return heads
        entry = getattr(self.module, ENTRIES[self.variant], None)
        own = None if entry is None else binding.default(entry, "chunk_q")
        if own is None:
            return OLD_CHUNK_Q
        return heads if self.variant == "stage1" else own

    def _note(self, kernel: Any, grid: Any, keywords: dict[str, Any]) -> None:
        if "schedule" not in watch.function(kernel).__name__:  # what makes the schedule of varctx is not what is judged
            self._launched = (kernel, grid, keywords)

    def _where(self, function: Any) -> str:
        code = function.__code__
        return f"{self.source.relative(code.co_filename)}:{code.co_firstlineno}, blob {blob(code.co_filename)[:10]}"
