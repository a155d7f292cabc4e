"""A well-formed version of the calls that a script made: the same shapes, keys quantised from random values, judged by kvcheck."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.plan import plan
from kvcheck.execute.errors import StartError
from kvcheck.execute.executor import Executor

MOST = 4
"""Shapes that are repeated: the shortest and the longest, and those beside k."""

PREFERRED = ("triton", "aiter", "torch_eager")
"""Providers in the order in which they are taken; torch_eager only where no kernel can run."""

LARGEST = 4 << 20
"""num_heads x positions of a case that a CPU is asked to interpret."""


def shapes(calls: list[dict[str, Any]], selections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Distinct shapes of the decode calls, in order, MOST of them at most.

    Returns:
        shapes: axes of `paged_mqa_logits` by name.
    """
    topk = max((event["k"] for event in selections), default=2048)
    found: list[dict[str, Any]] = []
    for call in calls:
        if call["form"] != "paged" or call["reference"] or not call["context_len"]:
            continue
        shape = {name: call[name] for name in ("batch", "next_n", "num_heads", "head_dim", "block_size", "kv_dtype", "context_len")}
        shape |= {"max_model_len": call["width"], "topk": topk}
        small = shape["num_heads"] * shape["batch"] * shape["next_n"] * shape["context_len"] <= LARGEST
        if small and shape not in found:
            found.append(shape)
    short = [shape for shape in found if shape["context_len"] <= topk]
    long = [shape for shape in found if shape["context_len"] > topk]
    kept = [*short[:1], *short[-1:], *long[:1], *long[-1:]]
    return [shape for shape in found if shape in kept][:MOST]


def judge(wanted: list[dict[str, Any]], python: str, timeout: float) -> dict[str, Any]:
    """Runs the shapes on what can run here.

    Returns:
        answer: rows ({context_len, num_heads, block_size, provider, verdict, max_bound_ratio, topk_set_match, chance}), and why
            (None, or the reason for there being none).
    """
    try:
        with Executor(python=python, jobs=1, timeout=timeout, spare=False) as executor:
            able = {row["name"] for row in executor.doctor() if row["available"] and "paged_mqa_logits" in row["ops"]}
            chosen = [name for name in PREFERRED[:2] if name in able] or [PREFERRED[2]]
            with tempfile.TemporaryDirectory(prefix="kvcheck-vet-") as folder:
                file = Path(folder) / "vet.yaml"
                file.write_text(yaml.safe_dump_all([_case(number, shape, chosen) for number, shape in enumerate(wanted)]))
                cases = plan([str(file)]).cases
            rows = [future.result() for future in [executor.submit(case) for case in cases]]
    except (CaseFileError, StartError) as error:
        return {"rows": [], "why": str(error)}
    return {"rows": [_row(row) for row in rows], "why": None}


def _case(number: int, shape: dict[str, Any], providers: list[str]) -> dict[str, Any]:
    return {
        "schema": 1, "name": f"vet_{number}", "op": "paged_mqa_logits", "providers": providers, "why": "the script's shape, well formed",
        "fixed": {**shape, "block_table": "shuffled"}, "inputs": {"values": "gaussian", "scale": "amax"},
    }  # fmt: skip


def _row(row: dict[str, Any]) -> dict[str, Any]:
    metrics = row.get("metrics") or {}
    trivial = "topk_set_match" in (row.get("trivial") or ())
    return {
        **{name: row["params"].get(name) for name in ("context_len", "num_heads", "block_size")},
        **{name: row.get(name) for name in ("provider", "provider_version", "dispatch", "verdict")},
        "message": row.get("message"),
        "max_bound_ratio": metrics.get("max_bound_ratio"),
        "topk_set_match": "trivial" if trivial else metrics.get("topk_set_match"),
        "chance": metrics.get("topk_set_match_chance"),
    }
