"""Vector memory: global, flat, buffer and scratch loads and stores, and loads straight into LDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .decoder import BUILDERS, Decoder, Step, op
from .errors import MemoryFault
from .memory import Access
from .state import Group, over_lanes

U32, U64, I64 = np.uint32, np.uint64, np.int64
SIZES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "byte": 1, "short": 2}
MASKED = 0x80000000
"""Triton gives switched-off lanes of a buffer access this offset: far past every size, so that the card drops them. Not a finding."""
Address = Callable[[Group], tuple[np.ndarray, np.ndarray | None]]


def cache_flags(d: Decoder) -> None:
    """Cache policy does not change what is read or written here."""
    for flag in ("sc1", "nt"):
        d.flag(flag)


def offset_of(d: Decoder) -> int:
    """The byte offset of the instruction."""
    return int(d.modifier("offset", "0"), 0)


def fault_handler(d: Decoder, write: bool) -> Callable[[np.ndarray], Callable[[Access], None]]:
    """Reports lanes that left their tensor, and stops the launch there."""
    ins, machine = d.ins, d.machine
    kind = "out_of_bounds_write" if write else "out_of_bounds_read"

    def handler(access: Access) -> None:
        region = access.region
        name, offset, size = (region.name, access.address - region.base, region.size) if region else ("no tensor", access.address, 0)
        finding = machine.findings.add(
            kind, ins, tensor=name, offset=offset, size=size, lanes=int(access.bad.sum()), active=access.bad.size
        )
        if finding is not None:
            raise MemoryFault(finding)

    return handler


def lanes_of(g: Group, address: np.ndarray, on: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Addresses of the active lanes, flat; and their mask (None when all are active)."""
    address = over_lanes(address, g.size)
    mask = None if g.full else g.exec
    if on is not None:
        mask = on if mask is None else on & mask
    if mask is None or mask.all():
        return np.ascontiguousarray(address).reshape(-1), None
    return address[mask], mask


def put_loaded(g: Group, index: int, words: np.ndarray, mask: np.ndarray | None) -> None:
    """Writes loaded words to consecutive registers of the lanes they were loaded for."""
    for k in range(len(words)):
        if mask is None:
            g.V[index + k] = words[k].reshape(g.size, 64)
        else:
            g.V[index + k][mask] = words[k]


def stored(g: Group, index: int, count: int, mask: np.ndarray | None) -> np.ndarray:
    """Consecutive registers of the active lanes as [count, n]."""
    data = g.V[index : index + count]
    return data.reshape(count, -1) if mask is None else data[:, mask]


def global_address(d: Decoder, vector: int, scalar: int) -> Address:
    """vaddr(64) + offset, or saddr(64) + vaddr(32) + offset."""
    offset = I64(offset_of(d))
    base = d.operand(scalar)
    if base.kind == "off":
        wide = d.raw64(vector)
        return lambda g: (wide(g).view(I64) + offset, None)
    start, low = d.scalar(scalar, 2, write=False), d.raw(vector)
    if base.kind != "s":
        raise d.ins.refuse("address")
    return lambda g: (low(g).astype(I64) + g.s64(start).astype(I64)[:, None] + offset, None)


def flat_address(d: Decoder, vector: int) -> Address:
    """A 64-bit address plus the offset."""
    offset, wide = I64(offset_of(d)), d.raw64(vector)
    return lambda g: (wide(g).view(I64) + offset, None)


def buffer_address(d: Decoder, vector: int, resource: int, scalar: int, size: int) -> Address:
    """Base of the resource + offsets; lanes outside its size are clamped: they load 0, drop stores, and are a finding unless masked by
    Triton."""
    for flag in ("idxen", "addr64", "lds"):
        if flag in d.modifiers:
            raise d.ins.refuse(flag)
    fixed, offen = I64(offset_of(d)), d.flag("offen")
    j = d.scalar(resource, 4, write=False)
    if offen:
        lane = d.raw(vector)
    elif d.operand(vector).kind != "off":
        raise d.ins.refuse("address")
    soffset = d.source(scalar, "u32")
    ins, machine = d.ins, d.machine

    def address(g: Group) -> tuple[np.ndarray, np.ndarray]:
        low = g.S[j + 1].astype(I64)
        if ((low >> 16) & 0x3FFF).any() or (g.S[j + 3] & U32(0x00800000)).any():
            raise ins.refuse("a strided or swizzled buffer")
        base = (g.S[j].astype(I64) | ((low & I64(0xFFFF)) << I64(32)))[:, None]
        limit = g.S[j + 2].astype(I64)[:, None]
        start = lane(g).astype(I64) if offen else I64(0)
        s = np.asarray(soffset(g)).astype(I64)
        offset = over_lanes(start + fixed, g.size)
        inside = offset + size <= limit - s
        if not inside.all():
            outside = ~inside & (offset < MASKED) | (offset >= MASKED + 0x100000)
            if not g.full:
                outside &= g.exec
            if outside.any():
                _clamped(machine, ins, base, offset, outside, limit)
        return base + offset + s, inside

    return address


def _clamped(machine: Any, ins: Any, base: np.ndarray, offset: np.ndarray, outside: np.ndarray, limit: np.ndarray) -> None:
    base = np.broadcast_to(base, offset.shape)
    region = machine.arena.owner(int(base[outside][0]))
    first = int(offset[outside][0])
    machine.findings.add(
        "clamped_access",
        ins,
        tensor=region.name if region else "no tensor",
        size=region.size if region else 0,
        offset=first - (1 << 32) if first >= MASKED else first,
        lanes=int(outside.sum()),
        active=outside.size,
        detail=f"outside the buffer of {int(np.broadcast_to(limit, offset.shape)[outside][0])} bytes: the card reads 0 and drops stores",
    )


def load_step(d: Decoder, index: int, address: Address, name: str) -> Step:
    """A load into registers: extension of bytes and shorts, d16 halves."""
    machine = d.machine
    size = SIZES[name.split("_d16")[0]]
    half = "_d16" in name
    high = name.endswith("_hi")
    if half:
        d.note_read(d.operand(0), 1)
    signed = name[0] == "s"
    handler = fault_handler(d, False)

    def run(g: Group) -> None:
        where, on = address(g)
        flat, mask = lanes_of(g, where, on)
        if machine.tracking:
            machine.tracking.at(d.ins, g, mask)
        words = machine.arena.load(flat, size, handler)
        if signed:
            words = words.astype(np.int8 if size == 1 else np.int16).astype(np.int32).view(U32)
        if on is not None and not on.all():  # clamped lanes read zero
            dropped = ~on if g.full else ~on & g.exec
            for k in range(len(words)):
                g.V[index + k][dropped] = 0
        if half:
            old = stored(g, index, 1, mask)
            words = (old & U32(0xFFFF)) | (words << U32(16)) if high else (old & U32(0xFFFF0000)) | (words & U32(0xFFFF))
        put_loaded(g, index, words, mask)

    return run


def store_step(d: Decoder, index: int, address: Address, name: str) -> Step:
    """A store from registers."""
    machine = d.machine
    size = SIZES[name.split("_d16")[0]]
    high = name.endswith("_d16_hi")
    handler = fault_handler(d, True)

    def run(g: Group) -> None:
        where, on = address(g)
        flat, mask = lanes_of(g, where, on)
        if machine.tracking:
            machine.tracking.at(d.ins, g, mask)
        words = stored(g, index, max(1, size // 4), mask)
        if machine.arena.protected:
            protected_store(machine, d.ins, flat)
        machine.arena.store(flat, words >> U32(16) if high else words, size, handler)

    return run


def protected_store(machine: Any, ins: Any, address: np.ndarray) -> None:
    """Reports stores to tensors that the caller declared to be inputs."""
    for region in machine.arena.protected:
        hit = (address >= region.base) & (address < region.end)
        if hit.any():
            machine.findings.add(
                "input_write",
                ins,
                tensor=region.name,
                offset=int(address[hit][0]) - region.base,
                size=region.size,
                lanes=int(hit.sum()),
                active=address.size,
            )


LOADS = [
    "dword",
    "dwordx2",
    "dwordx3",
    "dwordx4",
    "ubyte",
    "sbyte",
    "ushort",
    "sshort",
    "ubyte_d16",
    "ubyte_d16_hi",
    "sbyte_d16",
    "sbyte_d16_hi",
    "short_d16",
    "short_d16_hi",
]
STORES = ["dword", "dwordx2", "dwordx3", "dwordx4", "byte", "short", "byte_d16_hi", "short_d16_hi"]


def _define(kind: str, name: str, load: bool) -> None:
    count = max(1, SIZES[name.split("_d16")[0]] // 4)

    def build(d: Decoder) -> Step:
        cache_flags(d)
        d.flag("sc0")
        d.counter = "vm"
        if kind == "buffer":
            index = d.vector(0, count, write=load)
            address = buffer_address(d, 1, 2, 3, SIZES[name.split("_d16")[0]])
        elif load:
            index = d.vector(0, count)
            address = global_address(d, 1, 2) if kind == "global" else flat_address(d, 1)
        else:
            index = d.vector(1, count, write=False)
            address = global_address(d, 0, 2) if kind == "global" else flat_address(d, 0)
        return (load_step if load else store_step)(d, index, address, name)

    BUILDERS[f"{kind}_{'load' if load else 'store'}_{name}"] = build


for _kind in ("global", "flat", "buffer"):
    for _name in LOADS:
        _define(_kind, _name, True)
    for _name in STORES:
        _define(_kind, _name, False)


@op("s_load_dword", "s_load_dwordx2", "s_load_dwordx4", "s_load_dwordx8", "s_load_dwordx16")
def scalar_load(d: Decoder) -> Step:
    """Scalar loads; the address is uniform in a wave."""
    n = int(d.name.partition("dwordx")[2] or 1)
    index, base = d.scalar(0, n), d.scalar(1, 2, write=False)
    extra = d.source(2, "u32") if d.operand(2).kind == "s" else None
    offset = I64(offset_of(d) + (int(d.operand(2).value) if extra is None else 0))
    d.flag("glc")
    d.counter = "smem"
    handler = fault_handler(d, False)
    machine = d.machine

    def run(g: Group) -> None:
        address = g.s64(base).astype(I64) + offset
        if extra is not None:
            address = address + extra(g)[:, 0].astype(I64)
        g.S[index : index + n] = machine.arena.load(address & ~I64(3), 4 * n, handler)

    return run
