"""What a run in which everything passes clears, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.report.words import rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import listed, number, some

Quote = Callable[[str], str]

ALWAYS = ("batch", "next_n", "context_len", "num_heads", "head_dim", "block_size", "block_table", "max_model_len", "topk", "kv_dtype")
"""Axes that are named even where they have one value."""

NEVER = ("seed",)
MOST = 4
"""Ops and kernels that are spelt out; values of an axis that are listed."""


def sentence(run: dict[str, Any], quote: Quote = line) -> str | None:
    """The ops, shapes and kernels that passed, and the parts of a model's path that no case touched; None unless all judged pass.

    Args:
        run: run.json.
        quote: how foreign text is written.
    """
    judged = [row for row in run["cases"] if rows.is_judged(row)]
    if not judged or any(rows.is_failure(row) for row in judged):
        return None
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in judged:
        groups.setdefault((line(row.get("op"), 60), str(row.get("provider"))), []).append(row)
    parts = [_group(op, provider, mine, quote) for (op, provider), mine in groups.items()]
    shown = "; ".join(parts[:MOST]) + (f"; and {some(len(parts) - MOST, 'more pair')} of op and provider" if len(parts) > MOST else "")
    return f"KV path cleared on these ops, shapes and this dispatch: {shown}. Not cleared: {listed(_open(run, judged), 12)}."


def _group(op: str, provider: str, cases: list[dict[str, Any]], quote: Quote) -> str:
    kernels = list(dict.fromkeys(line(row["dispatch"], 200) for row in cases if row.get("dispatch")))
    ran = f" ({listed([quote(kernel) for kernel in kernels], MOST)})" if kernels else ""
    values: dict[str, list[Any]] = {}
    for row in cases:
        for axis, value in (row.get("params") or {}).items():
            held = values.setdefault(line(axis, 40), [])
            if value not in held:
                held.append(value)
    named = [axis for axis in ALWAYS if axis in values] + [axis for axis in values if axis not in ALWAYS and len(values[axis]) > 1]
    axes = [f"{axis} {_range(values[axis])}" for axis in named if axis not in NEVER and values[axis] != [None]]
    return f"{op} by {quote(line(provider, 120))}{ran}" + (f" at {', '.join(axes)}" if axes else "")


def _range(values: list[Any]) -> str:
    if len(values) > 1 and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return f"{min(values)}..{max(values)} ({len(values)} values)" if len(values) > 2 else f"{min(values)} and {max(values)}"
    return listed([line(number(value) if not isinstance(value, (list, dict)) else value, 60) for value in values], MOST)


def _open(run: dict[str, Any], judged: list[dict[str, Any]]) -> list[str]:
    """What the run says nothing of."""
    left = ["collectives", "GEMM", "MoE", "sampling"]
    if not any((row.get("params") or {}).get("launch") == "graph" for row in judged):
        left.append("graph capture and replay (no case had launch=graph)")
    left.append("other shapes, kernels and launch settings")
    device = (run.get("environment") or {}).get("device") or {}
    if device.get("type") == "emulated":
        left.append("the hardware itself (it was emulated)")
    elif device.get("interpreted"):
        left.append("any GPU (Triton kernels were interpreted on a CPU)")
    elif device.get("type") == "cpu":
        left.append("any GPU (this ran on a CPU)")
    unjudged = len(run["cases"]) - len(judged)
    if unjudged:
        left.append(f"{some(unjudged, 'case')} that could not be judged")
    return left
