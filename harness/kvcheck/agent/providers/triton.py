"""Our own Triton kernels: what runs where nothing else is installed.

Origin: kvcheck, agent/kernels.
Hardware: CUDA and ROCm devices, emulated ones, and any CPU under Triton's interpreter.
"""

from __future__ import annotations

from typing import Any

SPEC = {
    "name": "triton",
    "summary": "our own Triton kernels of every op",
    "ops": [
        "block_table",
        "index_k_cache_gather",
        "index_k_cache_write",
        "mla_decode",
        "mla_metadata",
        "mqa_logits",
        "paged_mqa_logits",
        "topk_per_row",
        "topk_slots",
    ],
    "variants": {},
    "process": "shared",
    "origin": "kvcheck, agent/kernels",
    "hardware": "CUDA, ROCm; any CPU under Triton's interpreter",
    "remedy": "pip install triton (kvcheck[cpu] brings it)",
}

WGMMA_HEADS = 64
"""From this many rows of a tile on, tl.dot on Hopper takes the wgmma path with its 13-bit accumulators (measured on an H200)."""

_ran: dict[str, str] = {}


def paged_mqa_logits(
    q: Any,
    kv_cache: Any,
    weights: Any,
    context_lens: Any,
    block_table: Any,
    *,
    max_model_len: int,
    block_size: int,
    kv_dtype: str,
    out: Any,
    alloc: Any,
) -> None:
    """One program a row and a tile of tokens."""
    from kvcheck.agent.kernels import paged_mqa_logits as kernel
    from kvcheck.agent.kernels.target import native_fp8

    from_bytes = kv_dtype not in native_fp8(q.device)
    config = kernel.paged_mqa_logits(
        q,
        kv_cache,
        weights,
        context_lens,
        block_table,
        max_model_len=max_model_len,
        block_size=block_size,
        kv_dtype=kv_dtype,
        out=out,
        from_bytes=from_bytes,
    )
    _note("paged_mqa_logits", config, q.device, "FP8 decoded by integer arithmetic" if from_bytes else "native FP8")


def topk_per_row(logits: Any, context_lens: Any, *, topk: int, next_n: int, out: Any, alloc: Any) -> None:
    """One program a row."""
    from kvcheck.agent.kernels import topk_per_row as kernel

    _note("topk_per_row", kernel.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out), logits.device, "radix select")


def version() -> str:
    """The version of Triton that compiles or interprets the kernels."""
    import triton

    return f"triton {triton.__version__}"


def dispatch(op: str) -> str:
    """What ran in the last call."""
    return _ran.get(op, f"agent/kernels/{op}.py")


def precision(op: str, params: dict[str, Any], device: dict[str, Any]) -> str:
    """fp32 sums in any order, CDNA3's FP8 groups included (the compiler permutes the products); not so on Hopper and Ada."""
    if op not in globals():
        import importlib

        declared = getattr(importlib.import_module(f"kvcheck.agent.kernels.{op}"), "precision", None)
        return declared(params, device) if declared else "fp32_any"
    arch = device.get("arch")
    if params["kv_dtype"] != "e4m3fn":
        return "fp32_any"
    tall = params["num_heads"] > WGMMA_HEADS // 2 and params["head_dim"] <= 256
    return "hopper_wgmma_fp8" if arch == "sm_89" or (arch == "sm_90" and tall) else "fp32_any"


def _note(op: str, config: dict[str, int], device: Any, how: str) -> None:
    from kvcheck.agent.kernels.target import current

    target = current(device)
    where = "Triton's interpreter" if target.interpreted else f"compiled for {target.arch}"
    parts = [f"agent/kernels/{op}.py _{op}", *(f"{key}={value}" for key, value in config.items()), how, where]
    _ran[op] = ", ".join(part for part in parts if part)


def __getattr__(name: str) -> Any:
    """The functions of the other ops: those of `agent/kernels/<op>.py`, which have the op's own signature and return their tile sizes."""
    import functools
    import importlib

    if name.startswith("_") or name not in SPEC["ops"]:
        raise AttributeError(name)
    kernel = getattr(importlib.import_module(f"kvcheck.agent.kernels.{name}"), name)

    @functools.wraps(kernel)
    def launch(*tensors: Any, **arguments: Any) -> None:
        config = kernel(*tensors, **arguments)
        device = next(value.device for value in (*tensors, *arguments.values()) if hasattr(value, "device"))
        _note(name, config, device, "")

    return launch
