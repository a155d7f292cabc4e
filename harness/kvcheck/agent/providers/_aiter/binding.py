"""Arguments by name: aiter renamed and added parameters several times, and moved the functions once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from kvcheck.agent.protocol import Unsupported

NAMES = {
    "q": ("q_fp8", "q"),
    "kv_cache": ("kv_cache", "kv_cache_fp8"),
    "weights": ("weights",),
    "out": ("out_qk", "out_logits", "out"),
    "lengths": ("context_lens", "prefix_sum_context_lens", "seq_lens"),
    "table": ("kv_indices", "block_table", "block_tables"),
    "max_model_len": ("max_model_len",),
    "block_size": ("KVBlockSize",),
    "preshuffle": ("Preshuffle",),
    "chunk_q": ("ChunkQ",),
    "chunk_k": ("ChunkK",),
    "cu_count": ("TotalCuCount",),
    "waves": ("WavePerEU",),
    "schedule": ("VarCtxSchedule",),
}
"""What an argument means, and every name that some commit has given it."""

REQUIRED = ("q", "kv_cache", "weights", "out", "lengths", "table", "max_model_len")


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of one entry point under what they mean; those of unknown meaning keep their own name."""
    known = {name: meaning for meaning, names in NAMES.items() for name in names}
    return {known.get(name, name): p for name, p in inspect.signature(function).parameters.items()}


def arguments(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """Keywords for one entry point.

    Args:
        function: the entry point.
        values: values by meaning; those beyond REQUIRED are given only where the function has the parameter.

    Raises:
        Unsupported: the function lacks a parameter without which the call means nothing, or wants one that is not known here.
    """
    found = parameters(function)
    missing = [meaning for meaning in REQUIRED if meaning not in found]
    if missing:
        raise Unsupported(f"{function.__name__}{inspect.signature(function)} has no parameter for {', '.join(missing)}")
    wanted = [p.name for meaning, p in found.items() if meaning not in values and p.default is inspect.Parameter.empty]
    if wanted:
        raise Unsupported(f"{function.__name__} wants {', '.join(wanted)}, whose meaning is not known here")
    return {p.name: values[meaning] for meaning, p in found.items() if meaning in values}


def default(function: Callable[..., Any], meaning: str) -> Any:
    """The default of one parameter; None when it has none or does not exist."""
    found = parameters(function).get(meaning)
    return None if found is None or found.default is inspect.Parameter.empty else found.default
