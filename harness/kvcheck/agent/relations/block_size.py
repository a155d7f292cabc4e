"""The same tokens in pages of another size, or the same blocks seen in another unit: the same answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.layouts import block_flat, shuffled
from kvcheck.agent.relations import Mapped, Variant, laid_like, unmoved

SPEC = {"name": "block_size", "demand": "bound", "doc": "the same tokens in pages of another size"}

SIZES = (64, 1, 16)
MOST = 2
"""How many other sizes are tried."""


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call at other page sizes: 64, 1 and 16 without its own, the first two."""
    if op == "block_table":
        return _units(inputs)
    axis = "page_size" if op == "mla_decode" else "block_size"
    own = inputs.scalars[axis]
    sizes = [size for size in SIZES if size != own and (inputs.scalars.get("layout") != "shuffled" or size % shuffled.TILE == 0)]
    make = {"mla_decode": _lists, "index_k_cache_write": _written}.get(op, _tables)
    found = []
    for size in sizes[:MOST]:
        made = make(inputs, size, generator)
        if made:
            found.append(Variant(f"the same tokens in pages of {size}", made[0], made[1], True, params={axis: size}))
    return found


def _tables(inputs: Inputs, size: int, generator: Any) -> tuple[Inputs, Any] | None:
    """The keys of every request, in new pages in random order."""
    import torch

    tensors, own, table = inputs.tensors, inputs.scalars["block_size"], inputs.tensors["block_table"].long()
    if "cu_seq_lens" in tensors:
        lengths = tensors["cu_seq_lens"].diff().tolist()
    else:
        lengths = tensors["context_lens"].view(len(table), -1).amax(1).tolist()
    if not sum(lengths):
        return None
    flat = _flat(tensors["kv_cache"].contiguous(), inputs)
    slots = [table[b][position // own] * own + position % own for b, n in enumerate(lengths) for position in [torch.arange(n)]]
    ids, new = _ids(lengths, size, generator)
    cache = torch.zeros(len(ids), size, 1, flat.shape[-1], dtype=torch.uint8)
    spare = _spare(len(flat) * own, torch.cat(slots))
    every = torch.arange(len(ids) * size)
    block_flat.scatter(cache, every, *block_flat.gather(flat, spare.expand(len(every))))
    block_flat.scatter(cache, torch.cat(new), *block_flat.gather(flat, torch.cat(slots)))
    width = max(1, max(-(-n // size) for n in lengths))
    rows, taken = torch.zeros(len(lengths), width, dtype=torch.int32), 0
    for row, length in zip(rows, lengths, strict=True):
        pages = -(-length // size)
        row[:pages] = ids[taken : taken + pages]
        taken += pages
    cache = shuffled.write(cache) if inputs.scalars.get("layout") == "shuffled" else cache
    laid = {"kv_cache": laid_like(tensors["kv_cache"], cache), "block_table": laid_like(tensors["block_table"], rows)}
    return _with(inputs, laid, "block_size", size), unmoved(inputs)


def _lists(inputs: Inputs, size: int, generator: Any) -> tuple[Inputs, Any] | None:
    """The latents of every request, in the order of its list, in new pages."""
    import torch

    tensors, own = inputs.tensors, inputs.scalars["page_size"]
    first, last = tensors["kv_indptr"].tolist(), tensors["last_page_len"].tolist()
    lengths = [(b - a - 1) * own + n if b > a else 0 for a, b, n in zip(first, first[1:], last, strict=False)]
    if not sum(lengths):
        return None
    indices, slots = tensors["kv_indices"].long(), []
    for start, length in zip(first, lengths, strict=False):
        position = torch.arange(length)
        slots.append(indices[start + position // own] * own + position % own)
    rows = tensors["kv_cache"].reshape(-1, tensors["kv_cache"].shape[-1])
    ids, new = _ids(lengths, size, generator)
    cache = rows[_spare(len(rows), torch.cat(slots))].repeat(len(ids) * size, 1)
    cache[torch.cat(new)] = rows[torch.cat(slots)]
    counts = [-(-n // size) for n in lengths]
    laid = {
        "kv_cache": cache.view(len(ids), size, 1, -1),
        "kv_indptr": torch.tensor([0, *counts]).cumsum(0).to(torch.int32),
        "kv_indices": torch.cat((ids[: sum(counts)], ids[:1] * 0)).to(torch.int32),
        "last_page_len": torch.tensor([(n - 1) % size + 1 for n in lengths], dtype=torch.int32),
    }
    return _with(inputs, laid, "page_size", size), unmoved(inputs)


def _written(inputs: Inputs, size: int, generator: Any) -> tuple[Inputs, Any] | None:
    """The pool's tokens in pages of another size, each at the slot that it had."""
    import torch

    before = inputs.initial["kv_cache"]
    count, own, _, width = before.shape
    tokens, layout = count * own, inputs.scalars["layout"]
    pages = -(-tokens // size)
    cache, every = torch.zeros(pages, size, 1, width, dtype=torch.uint8), torch.arange(tokens)
    block_flat.scatter(cache, every, *block_flat.gather(_flat(before.contiguous(), inputs), every))
    cache = laid_like(before, shuffled.write(cache) if layout == "shuffled" else cache)

    def back(outputs: dict[str, Any]) -> Mapped:
        given = outputs["kv_cache"].cpu().contiguous()
        home = torch.zeros(before.shape, dtype=torch.uint8)
        block_flat.scatter(home, every, *block_flat.gather(_flat(given, inputs), every))
        return {"kv_cache": (shuffled.write(home) if layout == "shuffled" else home, torch.ones(before.shape, dtype=torch.bool))}

    changed = _with(inputs, {}, "block_size", size)
    return replace(changed, initial={"kv_cache": cache}, outputs={"kv_cache": (tuple(cache.shape), torch.uint8)}, inside={}), back


def _units(inputs: Inputs) -> list[Variant]:
    """The same allocator's table for a kernel that sees it in blocks of another size."""
    given = inputs.scalars
    manager, own, storage = (given[f"{unit}_block_size"] for unit in ("manager", "kernel", "storage"))
    sizes = [n for n in (storage, manager, storage // 2, 2 * storage) if n and n != own and not manager % n]
    sizes = [n for n in dict.fromkeys(sizes) if not n % storage or not storage % n]
    return [Variant(f"a table in kernel blocks of {n}", _with(inputs, {}, "kernel_block_size", n), unmoved(inputs)) for n in sizes[:MOST]]


def _with(inputs: Inputs, tensors: dict[str, Any], axis: str, size: int) -> Inputs:
    pages = size if inputs.block_size else None
    return replace(inputs, tensors={**inputs.tensors, **tensors}, scalars={**inputs.scalars, axis: size}, block_size=pages)


def _flat(cache: Any, inputs: Inputs) -> Any:
    return shuffled.read(cache) if inputs.scalars.get("layout") == "shuffled" else cache


def _ids(lengths: list[int], size: int, generator: Any) -> tuple[Any, list[Any]]:
    """Ids of a pool in random order, the first of them the requests' pages; and the slots of every request's tokens."""
    import torch

    need = sum(-(-n // size) for n in lengths)
    ids = generator.permutation(f"relation/block_size/{size}", need + 3 + need // 8)
    slots, taken = [], 0
    for length in lengths:
        position = torch.arange(length)
        slots.append(ids[taken + position // size] * size + position % size)
        taken += -(-length // size)
    return ids, slots


def _spare(count: int, owned: Any) -> Any:
    """[1] int64. A slot that nobody owns, or the last one."""
    import torch

    free = torch.ones(count, dtype=torch.bool)
    free[owned] = False
    return free.nonzero()[:1, 0] if bool(free.any()) else torch.tensor([count - 1])
