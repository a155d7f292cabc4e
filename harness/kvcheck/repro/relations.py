"""Relations between two calls, as one call that is held to the plain formula: the other side of the relation, where that is a case too."""

from __future__ import annotations

import dataclasses
from typing import Any

from kvcheck.repro.parts import NoScript
from kvcheck.repro.wanted import Wanted

MOST_IDS = 140000
"""Pages of a pool whose upper half has ids that do not fit 16 bits."""


IDS = {"mla_decode": "kv_indices", "paged_mqa_logits": "block_table", "index_k_cache_gather": "block_table"}
"""What names the pages, by op."""

STIRRED = {"paged_mqa_logits": (" // NEXT_N", "BATCH"), "mqa_logits": ("", "ROWS")}
"""Ops whose units can be given other values: how a row's unit is found, and how many there are."""


def moved(wanted: Wanted) -> list[str] | None:
    """Lines that change the inputs so that not a bit of the answer may change, or of the rows `keep`; None where a relation is not
    of that kind.

    Args:
        wanted: a metamorphic row.
    """
    names = IDS.get(wanted.op)
    if wanted.relation == "page_permutation" and names:
        return [f"kv_cache, {names} = kv_cache.flip(0), NUM_BLOCKS - 1 - {names}  # the same pages in another order"]
    if wanted.relation == "strided_against_contiguous" and "a pitched cache" in wanted.message and wanted.op != "mla_decode":
        pitched = "torch.nn.functional.pad(kv_cache.flatten(1), (0, 64))[:, :PAGE]"
        return [f"kv_cache = {pitched}.unflatten(1, (BLOCK_SIZE, 1, DIM + 4))  # the same pages, further apart"]
    if wanted.relation == "batch_neighbour" and wanted.op in STIRRED and wanted.message.startswith("other values in all but the "):
        each, units = STIRRED[wanted.op]
        second = "but the second" in wanted.message
        kept, stirred = (1, "0::2") if second else (0, "1::2")
        return [
            f"keep = (torch.arange(ROWS){each} % 2 == {kept})[:, None]  # the others get other values",
            f"weights.view({units}, -1)[{stirred}] *= -3",
            f"q.view(torch.uint8)[{stirred}] = q.view(torch.uint8)[{stirred}].flip(-2)",
        ]
    return None


def others(wanted: Wanted) -> list[Wanted]:
    """The cases that stand for the other side of a relation, likeliest first.

    Args:
        wanted: a metamorphic row.

    Raises:
        NoScript: a relation whose other side is no case of its own, or differs from the first in rounding alone.
    """
    changes = _changes(wanted.relation or "", wanted.params)
    if not changes:
        raise NoScript(f"one call is right: what fails is the relation {wanted.relation} between two, which `kvcheck run` shows")
    said = f"{wanted.message}; this is the other side of the relation {wanted.relation}, held to the plain formula"
    return [dataclasses.replace(wanted, verdict="mismatch", message=said, params={**wanted.params, **change}) for change in changes]


def _changes(relation: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Params of the other side that differ."""
    if relation == "block_size":
        return [{"block_size": size} for size in (64, 16, 1, 128) if size != params["block_size"]]
    if relation == "split_count":
        return [{"num_splits": count} for count in (1, 2, 4, 8) if count != params["num_splits"]]
    if relation == "strided_against_contiguous":
        return [{"cache": kind} for kind in ("pitched", "strided", "contiguous") if kind != params.get("cache", kind)]
    if relation == "low_against_high_ids":
        name = next((name for name in ("num_blocks", "num_pages") if name in params), None)
        return [{name: MOST_IDS, "block_table": "high_ids"}] if name else []
    if relation == "page_permutation":
        return [{"block_table": kind} for kind in ("reversed", "fragmented", "contiguous") if kind != params["block_table"]]
    if relation == "padded_batch" and "context_len" in params:
        lens = params["context_len"]
        every = [lens] * params["batch"] if isinstance(lens, int) else lens
        none = [0] * params["next_n"] if every and isinstance(every[0], list) else 0
        return [{"batch": params["batch"] + 3, "context_len": [none, *every, none, none]}]
    return []
