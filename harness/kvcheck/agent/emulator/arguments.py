"""Flattens a call's arguments into what the kernel's argument block holds, the way Triton's HIP launcher does."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple


class Argument(NamedTuple):
    """One kernel argument: its name (`a`, or `t.0` in a tuple), Triton's type (`*fp16`, `i32`), and the value passed."""

    name: str
    type: str
    value: Any


def flatten(signature: dict[str, Any], values: dict[str, Any]) -> Iterator[Argument]:
    """The arguments in kernel order: constexprs dropped, tuples flattened, tensor descriptors decomposed."""
    for name, kind in signature.items():
        yield from _one(name if isinstance(name, str) else str(name), kind, values[name])


def _one(name: str, kind: Any, value: Any) -> Iterator[Argument]:
    if isinstance(kind, (tuple, list)):
        for i, (inner, item) in enumerate(zip(kind, value, strict=False)):
            yield from _one(f"{name}.{i}", inner, item)
    elif kind == "constexpr":
        return
    elif kind.startswith("tensordesc"):
        dtype = re.match(r"tensordesc<([^\[>]*)\[", kind).group(1)
        yield Argument(name, "*" + dtype, value.base)
        for label, items, item_type in (("shape", value.shape, "i64"), ("strides", value.strides, "i64")):
            for i, item in enumerate(items):
                yield Argument(f"{name}.{label}.{i}", item_type, item)
        yield Argument(f"{name}.nan", "i1", getattr(value, "padding", "zero") == "nan")
        yield Argument(f"{name}.tf32", "i1", getattr(value, "round_f32_to_tf32", False))
        for label, items, item_type in (("shape", value.shape, "i32"), ("strides", value.strides, "i64")):
            for i, item in enumerate(items):
                yield Argument(f"{name}.{label}.{i}", item_type, item)
    else:
        yield Argument(name, kind, value)


def scalar_bytes(kind: str, value: Any, size: int) -> bytes:
    """The bytes of a scalar argument of `size` bytes in the argument block."""
    if kind in ("fp32", "f32"):
        return struct.pack("<f", value)
    if kind == "fp64":
        return struct.pack("<d", value)
    if kind == "fp16":
        return struct.pack("<e", value)
    if kind == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return (int(value) & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def extent(tensor: Any) -> tuple[int, int]:
    """Addresses of a tensor's first byte and of the byte behind its last element."""
    start, size = int(tensor.data_ptr()), 0
    if tensor.numel():
        size = (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=False)) + 1) * tensor.element_size()
    return start, start + size
