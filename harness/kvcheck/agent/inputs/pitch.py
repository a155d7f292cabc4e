"""How the pages of a cache lie in memory: end to end, or as a view with bytes between them that belong to nobody.

Kernels that compute addresses from shapes instead of strides read those bytes; ones that store to them change what the judge compares.
"""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "contiguous": {"doc": "pages lie end to end"},
        "pitched": {"doc": "64 bytes that belong to nobody follow each page: the padded block stride of hybrid caches"},
        "strided": {"doc": "every second page of a pool of twice the size: a view with the block stride of two pages"},
    }
}

PITCH = 64
"""Bytes between pages of a pitched cache: a multiple of every alignment that kernels ask of a block stride."""

GAP = 0x5A
"""What lies there: as FP8 a plain number, as an fp32 scale 1.5e16."""


def lay(cache: Any, kind: str) -> Any:
    """A cache as the kernels are given it.

    Args:
        cache: [num_blocks, block_size, 1, width] uint8. Contiguous.
        kind: a choice of SPEC.

    Returns:
        cache: [num_blocks, block_size, 1, width] uint8. The same values; the pages themselves are contiguous.
    """
    import torch

    if kind == "contiguous":
        return cache
    pages = cache.view(cache.shape[0], -1)
    count, page = pages.shape
    whole = torch.full((count, page + PITCH if kind == "pitched" else 2 * page), GAP, dtype=torch.uint8)
    whole[:, :page] = pages
    return whole[:, :page].unflatten(1, cache.shape[1:])


def span(tensor: Any) -> Any:
    """Everything between the first and the last element of a tensor, as a view: what lies between rows included.

    Args:
        tensor: [...] any dtype.

    Returns:
        elements: [count] of that dtype. Shares the tensor's memory.
    """
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((count if tensor.numel() else 0,), (1,), tensor.storage_offset())


def copied(tensor: Any, device: Any) -> Any:
    """A copy with the tensor's own strides, and what lies between its rows.

    Args:
        tensor: [...] any dtype.
        device: torch device.

    Returns:
        copy: [...] that dtype. Shares no memory with it.
    """
    if tensor.is_contiguous():
        return tensor.to(device, copy=True)
    return span(tensor).to(device, copy=True).as_strided(tensor.shape, tensor.stride())


def octets(tensor: Any) -> Any:
    """The bytes of a tensor, and what lies between its rows.

    Args:
        tensor: [...] any dtype.

    Returns:
        octets: [...] uint8.
    """
    import torch

    return (tensor if tensor.is_contiguous() else span(tensor)).view(torch.uint8)
