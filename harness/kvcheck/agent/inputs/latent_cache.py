"""Builds a paged MLA cache and the lists that lead to it: tokens written through a block table, poison everywhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvcheck.agent.inputs import attention, reduced, tables
from kvcheck.agent.layouts import fp8, mla

SPEC = {
    "choices": {
        "dense": {"doc": "every token of the context, page by page"},
        "topk": {"doc": "sparse: topk tokens of the context in random order, as token slots (page_size 1, next_n 1)"},
        "repeated": {"doc": "sparse, with slots that come more than once: they count as often"},
    }
}

CHUNK = 1 << 12
"""Tokens written at a time: keeps the float64 copies small at 65,536 tokens."""


@dataclass
class Latents:
    """The cache of a batch and how it is read.

    Attributes:
        kv_cache: [num_pages, page_size, 1, row_bytes] uint8.
        kv_indptr: [batch + 1] int32.
        kv_indices: [entries] int32.
        last_page_len: [batch] int32.
        q: [batch, next_n, num_heads, head_dim] float64. Queries before their cast.
    """

    kv_cache: Any
    kv_indptr: Any
    kv_indices: Any
    last_page_len: Any
    q: Any


def build(case: dict[str, Any], lengths: list[int], generator: Any) -> Latents:
    """The cache, the lists and the queries of a batch.

    Args:
        case: resolved params of `mla_decode`; `poison` not `auto`.
        lengths: tokens of each request.
        generator: an `inputs.random.Generator`.

    Raises:
        ValueError: the pool is too small, or the values do not fit the other axes.
    """
    import torch

    size, kind, dim = case["page_size"], case["values"], case["head_dim"]
    pages = [-(-n // size) for n in lengths]
    num_pages = case["num_pages"] or tables.pool_size(case["block_table"], pages)
    table = reduced.table(case, tables.build(case["block_table"], pages, num_pages, generator), pages)
    _fits(case)
    cache = torch.empty(num_pages * size, mla.row_bytes(case["kv_format"], dim), dtype=torch.uint8)
    lists, codes = [], []
    for request, length in enumerate(lengths):
        chosen = _chosen(case, length, request, generator)
        lists.append(chosen)
        codes.append(_code(case, chosen, length, request, generator) if kind in attention.CODED else None)
    _fill(cache, case, codes, generator)
    zero = mla.encode(torch.zeros(1, dim, dtype=torch.float64), case["kv_format"], case["kv_scale"], torch.ones(1, 4))[0]
    for request in reversed(range(len(lengths))):
        for start in range(0, lengths[request], CHUNK):
            count = min(CHUNK, lengths[request] - start)
            position = torch.arange(start, start + count)
            slots = table[request].long()[position // size] * size + position % size
            numbers = attention.latents(kind, dim, generator, f"latent/{request}", start, count, codes[request])
            rows = _encode(case, numbers, generator, f"latent/{request}", start)
            cache[slots] = reduced.rows(case, position, size, rows, zero)
    entries = [_entries(case, table[request], chosen, pages[request]) for request, chosen in enumerate(lists)]
    counts = torch.tensor([0] + [len(entry) for entry in entries]).cumsum(0)
    spare = torch.full(
        (tables.EXTRA_COLUMNS if case["block_table"].startswith("wide_") else 1,), tables.PADDING.get(case["block_table"], 0)
    )
    last = [(length - 1) % size + 1 if case["selection"] == "dense" else 1 for length in lengths]
    q = [
        attention.queries(kind, case["next_n"], case["num_heads"], dim, generator, request, codes[request])
        for request in range(len(lengths))
    ]
    return Latents(
        cache.view(num_pages, size, 1, -1),
        counts.to(torch.int32),
        torch.cat([*entries, spare]).to(torch.int32),
        torch.tensor(last, dtype=torch.int32),
        torch.stack(q),
    )


def attended(case: dict[str, Any], length: int) -> int:
    """Entries that a request of some length attends to."""
    return length if case["selection"] == "dense" else min(case["topk"], length)


def _fits(case: dict[str, Any]) -> None:
    """Combinations that no axis alone forbids.

    Raises:
        ValueError: why the case cannot be.
    """
    import math

    if case["selection"] != "dense" and (case["page_size"] != 1 or case["next_n"] != 1):
        raise ValueError(f"selection {case['selection']} lists token slots, one list a query row: page_size and next_n are 1")
    if case["values"] not in attention.CODED:
        return
    if reduced.is_reduced(case):
        raise ValueError(f"{case['values']} codes every key: one that is zero would be read by every head")
    if case["block_table"] == "shared_prefix":
        raise ValueError(f"{case['values']} codes the tokens of each request apart: pages cannot be shared")
    if case["softmax_scale"] is not None and case["softmax_scale"] < attention.LEAST_SCALE:
        raise ValueError(f"{case['values']} needs a softmax_scale of at least {attention.LEAST_SCALE}")
    if case["kv_format"] in fp8.MAXIMUM and (math.frexp(case["kv_scale"])[0] != 0.5 or not 2**-3 <= case["kv_scale"] <= 2**3):
        raise ValueError(f"{case['values']} needs a kv_scale that is a power of two from 2^-3 to 2^3")


def _chosen(case: dict[str, Any], length: int, request: int, generator: Any) -> Any:
    """Positions that a request attends to, in the order of its list."""
    import torch

    if case["selection"] == "dense":
        return torch.arange(length)
    count = attended(case, length)
    order = generator.permutation(f"selection/{request}", length)
    if case["selection"] == "topk":
        return order[:count]
    if case["values"] in attention.CODED:  # each as often as the others, so that groups stay powers of two
        return order[: max(count // 2, 1)].repeat(2) if count > 1 else order[:count]
    return order[generator.integers(f"selection/{request}/repeated", count, 0, max(length, 1))] if length else order


def _code(case: dict[str, Any], chosen: Any, length: int, request: int, generator: Any) -> attention.Code:
    distinct, seen = [], set()
    if case["selection"] == "dense":
        attended_to = chosen
        limits = [max(length - case["next_n"] + 1 + j, 0) for j in range(case["next_n"])]
    else:
        for position in chosen.tolist():
            if position not in seen:
                seen.add(position)
                distinct.append(position)
        attended_to = chosen.new_tensor(distinct)
        limits = [len(distinct)]
    most = 256 if case["kv_format"] in ("bf16", "fp16") else 16
    return attention.code(attended_to, length, limits, case["num_heads"], most, generator, request)


def _entries(case: dict[str, Any], row: Any, chosen: Any, pages: int) -> Any:
    return row[:pages].long() if case["selection"] == "dense" else row.long()[chosen]


def _encode(case: dict[str, Any], numbers: Any, generator: Any, stream: str, start: int) -> Any:
    import torch

    scales = None
    if case["kv_format"] == "fp8_656":
        count = len(numbers)
        if case["values"] in attention.CODED or case["values"] == "flat":
            draw = generator.integers(f"{stream}/scale", count * 4, -3, 4, start * 4).view(count, 4)
            scales = torch.pow(2.0, draw.double()).float()
        else:
            if case["scale"] == "decades":
                draw = generator.integers(f"{stream}/decades", count, -4, 5, start)
                numbers = numbers * torch.pow(2.0, draw.double())[:, None]
            exact = (numbers[:, : mla.LATENT].unflatten(1, (-1, mla.GROUP)).abs().amax(2) / fp8.MAXIMUM["e4m3fn"]).clamp(min=1e-4)
            if case["scale"] == "ue8m0":
                mantissa, exponent = torch.frexp(exact)
                exact = torch.ldexp(torch.ones_like(exact), exponent - (mantissa == 0.5).int())
            scales = exact.float()
    return mla.encode(numbers, case["kv_format"], case["kv_scale"], scales)


def _fill(cache: Any, case: dict[str, Any], codes: list[Any], generator: Any) -> None:
    """A pool in which no slot has an owner yet."""
    import torch

    poison, dim = case["poison"], case["head_dim"]
    if poison != "none":
        cache[:] = poison_row(poison, case["kv_format"], dim)
        return
    code = next((c for c in codes if c is not None and len(c.group)), None)
    if case["values"] in attention.CODED:
        read = torch.tensor([0]) if code is None else code.read[0]
        code = attention.Code(read[torch.arange(len(cache)) % len(read)], read, 4)
    for start in range(0, len(cache), CHUNK):
        count = min(CHUNK, len(cache) - start)
        numbers = attention.latents(case["values"], dim, generator, "latent/spare", start + 1, count, code and _shifted(code))
        cache[start : start + count] = _encode(case, numbers, generator, "latent/spare", start)


def _shifted(code: attention.Code) -> attention.Code:
    """The code one token later: spare tokens are drawn from position 1 on, since position 0 may be special."""
    import torch

    return attention.Code(torch.cat((code.group[:1], code.group)), code.read, code.largest)


def poison_row(poison: str, kv_format: str, dim: int) -> Any:
    """The bytes of a slot that nobody may read.

    Args:
        poison: a choice of `poison`, not `none` or `auto`. FP8 has no infinity: `inf` is the largest code there.
        kv_format: layout.
        dim: dims of a latent.

    Returns:
        row: [row_bytes] uint8.
    """
    import torch

    if poison == "zero":
        return torch.zeros(mla.row_bytes(kv_format, dim), dtype=torch.uint8)
    if kv_format in fp8.MAXIMUM:
        return _poison_codes(poison, dim, kv_format)
    value = {"nan": float("nan"), "inf": float("inf"), "large": 1e4, "finite_beacon": 16384.0}[poison]
    numbers = torch.full((1, dim), value, dtype=torch.float64)
    if poison == "finite_beacon":
        numbers[:, 1::2] *= -1
    if kv_format != "fp8_656":
        return mla.encode(numbers, kv_format, 1.0)[0]
    codes = _poison_codes("one" if poison == "inf" else poison, mla.LATENT, "e4m3fn")
    scales = torch.full((4,), {"large": 1e4, "finite_beacon": 1024.0}.get(poison, value), dtype=torch.float32)
    rope = numbers[0, mla.LATENT :].float().bfloat16()
    return torch.cat((codes, scales.view(torch.uint8), rope.view(torch.uint8)))


def _poison_codes(poison: str, dim: int, kv_format: str) -> Any:
    import torch

    if poison == "nan":
        return torch.full((dim,), fp8.NAN_CODES[kv_format][0], dtype=torch.uint8)
    numbers = torch.full((dim,), 1.0 if poison == "one" else fp8.MAXIMUM[kv_format], dtype=torch.float64)
    if poison == "finite_beacon":
        numbers[1::2] *= -1
    return fp8.encode(numbers, kv_format)
