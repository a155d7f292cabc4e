"""The indexer's key writer by the plain fp32 formula: division by the scale, torch's own casts."""

from __future__ import annotations

from typing import Any


def index_k_cache_write(
    k: Any,
    slot_mapping: Any,
    *,
    block_size: int,
    kv_dtype: str,
    scale_format: str,
    divisor: int,
    layout: str,
    out: Any,
    alloc: Any,
) -> None:
    """Quantises the tokens that have a slot, and puts their bytes where the layout has them."""
    import torch

    dtype, largest = {"e4m3fn": (torch.float8_e4m3fn, 448.0), "e4m3fnuz": (torch.float8_e4m3fnuz, 240.0)}[kv_dtype]
    written = slot_mapping >= 0
    number, slot = k[written].float(), slot_mapping[written]
    scale = number.abs().amax(1).clamp(min=1e-4) / divisor
    if scale_format == "ue8m0":
        bits = scale.view(torch.int32) + 0x7FFFFF
        scale = (bits >> 23 << 23).view(torch.float32)
    code = (number / scale[:, None]).clamp(-largest, largest).to(dtype).view(torch.uint8)
    width = k.shape[1]
    pages = out.view(out.shape[0], -1)
    block, offset = slot // block_size, slot % block_size
    if layout == "shuffled":
        tiles = pages[:, : block_size * width].unflatten(1, (block_size // 16, width // 16, 16, 16))
        tiles[block, offset // 16, :, offset % 16] = code.view(-1, width // 16, 16)
    else:
        pages[:, : block_size * width].unflatten(1, (block_size, width))[block, offset] = code
    pages[:, block_size * width :].unflatten(1, (block_size, 4))[block, offset] = scale.view(torch.uint8).view(-1, 4)
