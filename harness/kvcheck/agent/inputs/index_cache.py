"""Builds a paged FP8 index-K cache: tokens quantised and written through a block table, poison everywhere else."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import keys, reduced, tables
from kvcheck.agent.layouts import block_flat, fp8

CHUNK = 1 << 21
"""Elements quantised at a time: keeps the float64 copies small at 202,752 tokens."""

AMAX_FLOOR = 1e-4


def build(case: dict[str, Any], lengths: list[int], generator: Any) -> tuple[Any, Any, keys.Shape]:
    """The cache and the table of a batch.

    Args:
        case: resolved params of `paged_mqa_logits`; `poison` and `kv_dtype` not `auto`.
        lengths: tokens of each request.
        generator: an `inputs.random.Generator`.

    Returns:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat.
        block_table: [batch, width] int32. Page ids.
        shape: the sizes that the values depend on.

    Raises:
        ValueError: the pool is too small for the requests, or for the beacon's digits; or bytes are to be reduced.
    """
    import torch

    block_size, dim, kind = case["block_size"], case["head_dim"], case["values"]
    pages = [-(-n // block_size) for n in lengths]
    num_blocks = case["num_blocks"] or tables.pool_size(case["block_table"], pages)
    table = reduced.table(case, tables.build(case["block_table"], pages, num_blocks, generator), pages)
    shape = keys.Shape(case["num_heads"], dim, num_blocks * block_size)
    width = dim + 4
    if kind == "random_bytes":
        if reduced.is_reduced(case):
            raise ValueError("random_bytes fills a pool with bytes, not with keys of which some could be zero")
        octets = generator.bits("random_bytes", -(-num_blocks * block_size * width // 8)).view(torch.uint8)
        return octets[: num_blocks * block_size * width].view(num_blocks, block_size, 1, width), table, shape
    cache = _poisoned(case, num_blocks, shape, generator)
    step = max(CHUNK // dim, 1)
    for request in reversed(range(len(lengths))):
        for start in range(0, lengths[request], step):
            position = torch.arange(start, min(start + step, lengths[request]))
            slots = table[request].long()[position // block_size] * block_size + position % block_size
            numbers, scales = keys.tokens(kind, shape, generator, f"keys/{request}", start, slots)
            quantised = quantise(case, numbers, scales, generator, request, start)
            block_flat.scatter(cache, slots, *reduced.tokens(case, position, block_size, quantised))
    return cache, table, shape


def quantise(case: dict[str, Any], numbers: Any, scales: Any, generator: Any, request: int, start: int) -> tuple[Any, Any]:
    """Codes and scales of consecutive tokens of one request, as the `scale` axis says.

    Args:
        case: `kv_dtype` and `scale`.
        numbers: [tokens, head_dim] float64. Keys; where there are scales, in units of them.
        scales: [tokens] float64, or None: from the numbers.
        generator: an `inputs.random.Generator`.
        request: whose tokens they are.
        start: position of the first.

    Returns:
        codes: [tokens, head_dim] uint8. FP8 codes.
        scales: [tokens] float32. Key scales.
    """
    import torch

    if scales is None:
        exact = numbers.abs().amax(1).clamp(min=AMAX_FLOOR) / fp8.MAXIMUM[case["kv_dtype"]]
        if case["scale"] == "ue8m0":
            mantissa, exponent = torch.frexp(exact)
            exact = torch.ldexp(torch.ones_like(exact), exponent - (mantissa == 0.5).int())
        scales = exact.float()
        numbers = numbers / scales.double()[:, None]
        if case["scale"] == "decades":
            draw = generator.integers(f"keys/{request}/decades", len(scales), -10, 11, start)
            scales = torch.ldexp(scales, draw.int())
    codes = fp8.encode(numbers, case["kv_dtype"])
    if case["kv_dtype"] == "e4m3fn":
        codes[torch.signbit(numbers) & (numbers == 0)] = 0x80
    return codes, scales.float()


def _poisoned(case: dict[str, Any], num_blocks: int, shape: keys.Shape, generator: Any) -> Any:
    """A pool in which no slot has an owner yet."""
    import torch

    block_size, dim, poison = case["block_size"], case["head_dim"], case["poison"]
    cache = torch.zeros(num_blocks, block_size, 1, dim + 4, dtype=torch.uint8)
    if poison == "zero":
        return cache
    if poison == "none":
        step = max(CHUNK // dim, 1)
        for start in range(0, shape.num_slots, step):
            slots = torch.arange(start, min(start + step, shape.num_slots))
            numbers, scales = keys.tokens(case["values"], shape, generator, "keys/spare", start, slots)
            block_flat.scatter(cache, slots, *quantise(case, numbers, scales, generator, -1, start))
        return cache
    codes, scale = poison_token(poison, dim, case["kv_dtype"])
    flat = cache.view(num_blocks, -1)
    flat[:, : block_size * dim] = codes.repeat(block_size)
    flat[:, block_size * dim :] = torch.tensor([scale], dtype=torch.float32).view(torch.uint8).repeat(block_size)
    return cache


def poison_token(poison: str, dim: int, kv_dtype: str) -> tuple[Any, float]:
    """Codes and scale of a token that nobody owns.

    Args:
        poison: a choice of `poison`, neither `none` nor `auto`.
        dim: codes of a token.
        kv_dtype: format.

    Returns:
        codes: [dim] uint8. FP8 codes.
        scale: float. Key scale.
    """
    import torch

    if poison == "zero":
        return torch.zeros(dim, dtype=torch.uint8), 0.0
    if poison == "nan":
        return torch.full((dim,), fp8.NAN_CODES[kv_dtype][0], dtype=torch.uint8), float("nan")
    if poison == "inf":
        return fp8.encode(torch.ones(dim, dtype=torch.float64), kv_dtype), float("inf")
    largest = torch.full((dim,), fp8.MAXIMUM[kv_dtype], dtype=torch.float64)
    if poison == "finite_beacon":
        largest[1::2] *= -1
    return fp8.encode(largest, kv_dtype), 1048576.0 if poison == "finite_beacon" else 1e4
