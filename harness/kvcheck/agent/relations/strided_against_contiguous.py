"""The same pages and the same table with something between them, or without: not a bit may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvcheck.agent.inputs import pitch, table_stride
from kvcheck.agent.relations import Variant, unmoved

SPEC = {
    "name": "strided_against_contiguous",
    "demand": "bits",
    "doc": "pages and rows of the table that lie apart, against ones that lie end to end",
}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """A strided cache contiguous and a contiguous one strided, both ways; the table in the same manner."""
    found = []
    given = inputs.initial if op == "index_k_cache_write" else inputs.tensors
    if "kv_cache" in given:
        cache = given["kv_cache"]
        for kind in ("pitched", "strided") if cache.is_contiguous() else ("contiguous",):
            laid = {**given, "kv_cache": pitch.lay(cache.contiguous(), kind)}
            changed = replace(inputs, initial=laid) if given is inputs.initial else replace(inputs, tensors=laid)
            found.append(Variant(f"a {kind} cache", changed, unmoved(inputs), params={"cache": kind}))
    if "block_table" in inputs.tensors:
        table = inputs.tensors["block_table"]
        kind = "wider" if table.is_contiguous() else "width"
        changed = replace(inputs, tensors={**inputs.tensors, "block_table": table_stride.lay(table.contiguous(), kind)})
        what = "a table whose rows lie apart" if kind == "wider" else "a table whose rows lie end to end"
        found.append(Variant(what, changed, unmoved(inputs), params={"table_stride": kind}))
    return found
