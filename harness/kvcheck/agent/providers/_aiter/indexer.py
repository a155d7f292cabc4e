"""aiter's prefill side of the indexer: the logits of gathered keys (Triton, Gluon), the key writer and the gather (HIP).

Logits: fp8_mqa_logits(Q, KV, kv_scales, weights, cu_starts, cu_ends), which returns a tensor of its own with -inf outside the windows;
called as vLLM's rocm_fp8_mqa_logits calls it. Writer and gather: indexer_k_quant_and_cache and cp_gather_indexer_k_quant_cache, which
aiter builds on ROCm; elsewhere only their signatures are held against the package's source (tests/unit/test_aiter_indexer.py).

Source: ROCm/aiter@e4048607a5 aiter/ops/triton/attention/fp8_mqa_logits.py (aiter/ops/triton/ before 4c2a3025b6), aiter/ops/cache.py.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter import interpreter, shim, watch

LOGITS = ("aiter.ops.triton.attention.fp8_mqa_logits", "aiter.ops.triton.fp8_mqa_logits")
"""The wrapper's module, newest place first."""

WRITER = ("k", "kv_cache", "slot_mapping", "quant_block_size", "scale_fmt")
GATHER = ("kv_cache", "dst_k", "dst_scale", "block_table", "cu_seq_lens")
"""Parameters of the HIP entry points; `preshuffle` came after the wheel of 2025-11."""


def attach(made: Any) -> Any:
    """Gives one bound aiter its indexer ops, and returns it.

    Args:
        made: a `calls.Aiter`.
    """
    told, declared, ran = made.dispatch, made.precision, {}

    def dispatch(op: str) -> str | None:
        return f"{made.source.name()} {ran[op]}" if op in ran else told(op)

    def precision(op: str, params: dict[str, Any], device: dict[str, Any]) -> str | None:
        if op != "mqa_logits":
            return declared(op, params, device)
        narrow = device["arch"] == "sm_89" or (device["arch"] == "sm_90" and params["num_heads"] >= 64)
        return "hopper_wgmma_fp8" if narrow else "fp32_any"

    made.mqa_logits = functools.partial(_mqa_logits, made, ran)
    made.index_k_cache_write = functools.partial(_write, made, ran)
    made.index_k_cache_gather = functools.partial(_gather, made, ran)
    made.dispatch, made.precision = dispatch, precision
    return made


def _mqa_logits(
    made: Any,
    ran: dict[str, str],
    q: torch.Tensor,
    k: torch.Tensor,
    k_scale: torch.Tensor,
    weights: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
    *,
    kv_dtype: str,
    out: torch.Tensor,
    alloc: Any,
) -> torch.Tensor:
    """Prefill logits by aiter (the op's function; tensors as the op documents them)."""
    _plain(made, "mqa_logits")
    ran.pop("mqa_logits", None)
    heads, dim = q.shape[1:]
    if (heads & (heads - 1) or dim & (dim - 1)) and not made.run_unsupported:
        raise Unsupported(f"fp8_mqa_logits asserts powers of two; {heads} heads of {dim}")
    if made.machine.fp8 not in (None, kv_dtype):
        raise Unsupported(f"aiter's FP8 on {made.machine.arch} is {made.machine.fp8}")
    if made.machine.backend == "cuda" and kv_dtype == "e4m3fnuz":
        raise Unsupported("Triton has no e4m3fnuz on CUDA")
    if made.interpreted and kv_dtype == "e4m3fnuz" and not interpreter.knows_fnuz():
        raise Unsupported("this Triton's interpreter has no e4m3fnuz")
    module = _wrapper(made)

    def note(kernel: Any, grid: Any, keywords: dict[str, Any]) -> None:
        function = watch.function(kernel)
        ran["mqa_logits"] = f"{function.__name__} by {module.__name__}.fp8_mqa_logits, BLOCK_KV={keywords.get('BLOCK_KV')}"

    if not getattr(module, "kvcheck_watched", False):
        watch.watch(module, note, watch.AMD_LAUNCH_OPTIONS if made.machine.backend == "cuda" else frozenset())
        module.kvcheck_watched = True
    ran["mqa_logits"] = f"{module.__name__}.fp8_mqa_logits"
    return module.fp8_mqa_logits(q, k, k_scale, weights, ks, ke)


def _write(
    made: Any,
    ran: dict[str, str],
    k: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    block_size: int,
    kv_dtype: str,
    scale_format: str,
    divisor: int,
    layout: str,
    out: torch.Tensor,
    alloc: Any,
) -> None:
    """The key writer by aiter's HIP kernel (the op's function; tensors as the op documents them)."""
    entry, names = _hip(made, "index_k_cache_write", "indexer_k_quant_and_cache", WRITER)
    largest = 240 if made.machine.fp8 == "e4m3fnuz" else 448
    if kv_dtype != made.machine.fp8 or divisor != largest:
        raise Unsupported(f"indexer_k_quant_and_cache divides by {largest} on {made.machine.arch}, for {made.machine.fp8}")
    _contiguous(out)
    extra = _preshuffle(made, names, layout)
    ran["index_k_cache_write"] = "indexer_k_quant_and_cache (HIP)"
    entry(k, out.view(*out.shape[:2], -1), slot_mapping, k.shape[1], "ue8m0" if scale_format == "ue8m0" else "", **extra)


def _gather(
    made: Any,
    ran: dict[str, str],
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seq_lens: torch.Tensor,
    *,
    block_size: int,
    kv_dtype: str,
    layout: str,
    k: torch.Tensor,
    k_scale: torch.Tensor,
    alloc: Any,
) -> None:
    """The gather by aiter's HIP kernel (the op's function; tensors as the op documents them)."""
    entry, names = _hip(made, "index_k_cache_gather", "cp_gather_indexer_k_quant_cache", GATHER)
    _contiguous(kv_cache)
    extra = _preshuffle(made, names, layout)
    ran["index_k_cache_gather"] = "cp_gather_indexer_k_quant_cache (HIP)"
    fp8 = torch.float8_e4m3fnuz if kv_dtype == "e4m3fnuz" else torch.float8_e4m3fn
    entry(kv_cache.view(*kv_cache.shape[:2], -1), k.view(fp8), k_scale[:, None], block_table, cu_seq_lens, **extra)


def _plain(made: Any, op: str) -> None:
    if not made.plain:
        raise Unsupported(f"aiter:{made.variant} names a paged logits kernel; {op} is served by plain `aiter`")


def _hip(made: Any, op: str, name: str, wanted: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """A HIP entry point, and the names of its parameters.

    Raises:
        Unsupported: not on ROCm, a checkout, none of that name, or other parameters than are known here.
    """
    _plain(made, op)
    if not made.machine.rocm or made.source.directory is not None:
        why = "a checkout has nothing built" if made.machine.rocm else "there is no ROCm here"
        raise Unsupported(f"{name} is a HIP kernel that aiter builds on ROCm; {why}")
    entry = getattr(importlib.import_module("aiter"), name, None)
    if entry is None:
        raise Unsupported(f"{made.source.name()} has no {name}")
    code = inspect.unwrap(entry).__code__  # the wrapper's own __signature__ changes once its module is built
    names = code.co_varnames[: code.co_argcount]
    if names[: len(wanted)] != wanted:
        raise Unsupported(f"{name} of {made.source.name()} takes {', '.join(names)}, whose meaning is not known here")
    return entry, names


def _preshuffle(made: Any, names: tuple[str, ...], layout: str) -> dict[str, bool]:
    if "preshuffle" in names:
        return {"preshuffle": layout == "shuffled"}
    if layout == "shuffled":
        raise Unsupported(f"{made.source.name()} writes and gathers flat pages only: the entry point has no argument preshuffle")
    return {}


def _contiguous(cache: torch.Tensor) -> None:
    if not cache.is_contiguous():
        raise Unsupported(f"aiter finds pages by their size, and the block stride is {cache.stride(0)} bytes")


def _wrapper(made: Any) -> Any:
    """The module of fp8_mqa_logits of the aiter that is loaded.

    Raises:
        Unsupported: it has none, or it does not load.
    """
    for name in LOGITS:
        if made.source.package.joinpath(*name.split(".")[1:]).with_suffix(".py").is_file():
            try:
                with shim._some_driver():
                    return importlib.import_module(name)
            except Exception as error:
                raise Unsupported(f"{name} does not load: {type(error).__name__}: {error}") from error
    raise Unsupported(f"{made.source.name()} has no fp8_mqa_logits: aiter has it since 9aeaf71ec7 (2025-11-07)")
