"""LDS instructions: reads, writes, transposing reads, and loads from global memory straight into LDS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoder import BUILDERS, Decoder, Step, op
from .errors import MemoryFault
from .state import M0, Group, every_lane
from .vmem import buffer_address, cache_flags, fault_handler, global_address, lanes_of, offset_of, put_loaded, stored

U32, I64 = np.uint32, np.int64
LANE = np.arange(64)
WIDTH = {"b32": 4, "b64": 8, "b96": 12, "b128": 16, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "b8": 1, "b16": 2}


def place(d: Decoder, address: Callable[[Group], np.ndarray], offset: int, size: int, write: bool):
    """Absolute positions in the batch's LDS of the active lanes, and their mask; faults when a lane leaves its workgroup's share."""
    ins, machine = d.ins, d.machine
    kind = "out_of_bounds_write" if write else "out_of_bounds_read"

    def run(g: Group) -> tuple[np.ndarray, np.ndarray | None]:
        flat, mask = lanes_of(g, (address(g).astype(I64) + offset) & 0xFFFFFFFF, None)  # 32 bits: a negative base with an offset wraps
        memory = machine.lds
        if flat.size and int(flat.max()) + size > memory.limit:
            bad = flat + size > memory.limit
            finding = machine.findings.add(
                kind, ins, tensor="lds", offset=int(flat[bad][0]), size=memory.limit, lanes=int(bad.sum()), active=flat.size
            )
            if finding is not None:
                raise MemoryFault(finding)
            flat = np.where(bad, 0, flat)
        return flat + every_lane(g.lds_base, mask), mask

    return run


def read_at(d: Decoder, offset: int, size: int):
    """A reader of LDS for the active lanes: (words, mask)."""
    at = place(d, d.raw(1), offset, size, False)
    machine, ins = d.machine, d.ins

    def run(g: Group) -> tuple[np.ndarray, np.ndarray | None]:
        index, mask = at(g)
        if machine.tracking:
            machine.tracking.lds_read(ins, g, mask, index, size)
        return machine.lds.load(index, size), mask

    return run


def write_at(d: Decoder, data: int, offset: int, size: int, shift: int = 0):
    """A writer of registers to LDS for the active lanes."""
    at = place(d, d.raw(0), offset, size, True)
    index_of = d.vector(data, max(1, size // 4), write=False)
    machine, ins = d.machine, d.ins

    def run(g: Group) -> None:
        index, mask = at(g)
        words = stored(g, index_of, max(1, size // 4), mask)
        if shift:
            words = words >> U32(shift)
        if machine.tracking:
            machine.tracking.lds_write(ins, g, mask, index, size, words)
        machine.lds.store(index, words, size)

    return run


def _read(kind: str, signed: bool, half: str) -> None:
    size = WIDTH[kind]

    def build(d: Decoder) -> Step:
        d.counter = "lgkm"
        count = max(1, size // 4)
        index = d.vector(0, count)
        get = read_at(d, offset_of(d), size)
        if half:
            d.note_read(d.operand(0), 1)

        def run(g: Group) -> None:
            words, mask = get(g)
            if signed:
                words = words.astype(np.int8 if size == 1 else np.int16).astype(np.int32).view(U32)
            if half:
                old = stored(g, index, 1, mask)
                words = (old & U32(0xFFFF)) | (words << U32(16)) if half == "_d16_hi" else (old & U32(0xFFFF0000)) | (words & U32(0xFFFF))
            put_loaded(g, index, words, mask)

        return run

    BUILDERS[f"ds_read_{kind}{half}"] = build


for _kind in ("b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16"):
    _read(_kind, _kind[0] == "i", "")
for _kind in ("u8", "i8", "u16"):
    for _half in ("_d16", "_d16_hi"):
        _read(_kind, _kind[0] == "i", _half)


@op("ds_read2_b32", "ds_read2_b64", "ds_read2st64_b32", "ds_read2st64_b64")
def read_two(d: Decoder) -> Step:
    """Two reads at offsets counted in elements (or in 64 of them)."""
    size = WIDTH[d.name[-3:]]
    step = size * (64 if "st64" in d.name else 1)
    d.counter = "lgkm"
    index = d.vector(0, size // 2)
    first, second = (read_at(d, int(d.modifier(f"offset{k}", "0")) * step, size) for k in (0, 1))

    def run(g: Group) -> None:
        a, mask = first(g)
        b, _ = second(g)
        put_loaded(g, index, np.concatenate([a, b]), mask)

    return run


def _write(kind: str, suffix: str) -> None:
    size = WIDTH[kind]

    def build(d: Decoder) -> Step:
        d.counter = "lgkm"
        return write_at(d, 1, offset_of(d), size, 16 if suffix else 0)

    BUILDERS[f"ds_write_{kind}{suffix}"] = build


for _kind in ("b8", "b16", "b32", "b64", "b96", "b128"):
    _write(_kind, "")
for _kind in ("b8", "b16"):
    _write(_kind, "_d16_hi")


@op("ds_write2_b32", "ds_write2_b64", "ds_write2st64_b32", "ds_write2st64_b64")
def write_two(d: Decoder) -> Step:
    """Two writes at offsets counted in elements (or in 64 of them)."""
    size = WIDTH[d.name[-3:]]
    step = size * (64 if "st64" in d.name else 1)
    d.counter = "lgkm"
    first, second = (write_at(d, 1 + k, int(d.modifier(f"offset{k}", "0")) * step, size) for k in (0, 1))

    def run(g: Group) -> None:
        first(g)
        second(g)

    return run


@op("ds_read_b64_tr_b16", "ds_read_b64_tr_b8", "ds_read_b64_tr_b4")
def read_transposed(d: Decoder) -> Step:
    """16 lanes read 8 bytes each, which are the rows of a matrix of 16 columns; lane c gets column c."""
    bits = int(d.name.rsplit("b", 1)[1])
    d.counter = "lgkm"
    index = d.vector(0, 2)
    get = read_at(d, offset_of(d), 8)
    per = 64 // bits

    def run(g: Group) -> None:
        if not g.full:
            raise d.ins.refuse("switched-off lanes")
        words, _ = get(g)
        raw = np.ascontiguousarray(words.T).view(np.uint8)
        if bits == 4:
            raw = np.stack([raw & 15, raw >> 4], -1)
        elif bits == 16:
            raw = raw.view(np.uint16)
        cells = raw.reshape(g.size, 4, per, 16).transpose(0, 1, 3, 2)  # row k of 16 columns -> lane c, element k
        cells = np.ascontiguousarray(cells)
        if bits == 4:
            cells = cells[..., 0::2] | (cells[..., 1::2] << np.uint8(4))
        out = np.ascontiguousarray(cells).view(np.uint8).reshape(g.size, 64, 8).view(U32)
        g.V[index] = out[..., 0]
        g.V[index + 1] = out[..., 1]

    return run


def _to_lds(kind: str, name: str, size: int) -> None:
    def build(d: Decoder) -> Step:
        if kind == "buffer" and "lds" not in d.modifiers:
            return normal(d)
        cache_flags(d)
        d.flag("sc0")
        d.counter = "vm"
        extra = int(d.modifiers.get("offset", "0"), 0)
        if kind == "buffer":
            d.flag("lds")
            address = buffer_address(d, 0, 1, 2, size)
        else:
            address = global_address(d, 0, 1)
        handler, machine, ins = fault_handler(d, False), d.machine, d.ins
        d.reads.add(("s", M0))

        def run(g: Group) -> None:
            where, on = address(g)
            flat, mask = lanes_of(g, where, on)
            words = np.zeros((max(1, size // 4), g.size * 64), U32)
            words[:, slice(None) if mask is None else mask.reshape(-1)] = machine.arena.load(flat, size, handler)
            at = g.S[M0].astype(I64)[:, None] + extra + LANE * max(4, size) + g.lds_base[:, None]
            active = None if g.full else g.exec
            index = at.reshape(-1) if active is None else at[active]
            words = words if active is None else words[:, active.reshape(-1)]
            top = int((g.S[M0].astype(I64) + extra).max()) + 63 * max(4, size)
            if top + size > machine.lds.limit:
                finding = machine.findings.add(
                    "out_of_bounds_write", ins, tensor="lds", offset=top, size=machine.lds.limit, lanes=1, active=index.size
                )
                if finding is not None:
                    raise MemoryFault(finding)
            if machine.tracking:
                machine.tracking.lds_write(ins, g, active, index, max(4, size), words)
            machine.lds.store(index, words, max(4, size))

        return run

    key = f"{kind}_load_lds_{name}" if kind == "global" else f"buffer_load_{name}"
    normal = BUILDERS.get(key)
    BUILDERS[key] = build


for _name, _size in (("dword", 4), ("dwordx3", 12), ("dwordx4", 16)):
    for _kind in ("global", "buffer"):
        _to_lds(_kind, _name, _size)
