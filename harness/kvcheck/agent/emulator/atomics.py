"""Atomic operations on global memory and LDS. Lanes are served in order; lanes at the same address one after another."""

from __future__ import annotations

import re

import numpy as np

from .convert import to_bf16
from .decoder import BUILDERS, Decoder, Step
from .lds import place
from .state import Group
from .vector_float import f32max, f32min
from .vmem import buffer_address, cache_flags, fault_handler, flat_address, global_address, lanes_of, offset_of, put_loaded, stored

U32, U64, F16, F32, F64 = np.uint32, np.uint64, np.float16, np.float32, np.float64


def _halves(fn):
    def run(old, new):
        a, b = (np.ascontiguousarray(x).view(F16).reshape(-1, 2).astype(F32) for x in (old, new))
        return np.ascontiguousarray(fn(a, b).astype(F16)).view(U32).reshape(-1)

    return run


def _bf16(old, new):
    low = to_bf16((old << U32(16)).view(F32) + (new << U32(16)).view(F32))
    high = to_bf16((old & U32(0xFFFF0000)).view(F32) + (new & U32(0xFFFF0000)).view(F32))
    return low | (high << U32(16))


def _as(dtype, fn):
    return lambda old, new: np.ascontiguousarray(fn(old.view(dtype), new.view(dtype))).view(old.dtype)


INTEGER = {
    "add": np.add,
    "sub": np.subtract,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "umin": np.minimum,
    "umax": np.maximum,
    "swap": lambda old, new: new,
    "inc": lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1)),
}


def function(name: str, wide: bool):
    """old, new -> stored value, on uint32 or uint64 arrays."""
    if name in INTEGER:
        return INTEGER[name]
    signed = np.int64 if wide else np.int32
    return {
        "smin": _as(signed, np.minimum),
        "smax": _as(signed, np.maximum),
        "add_f32": _as(F32, np.add),
        "add_f64": _as(F64, np.add),
        "min_f64": _as(F64, f32min),
        "max_f64": _as(F64, f32max),
        "pk_add_f16": _halves(np.add),
        "pk_add_bf16": _bf16,
    }[name]


def rounds(key: np.ndarray):
    """Index arrays of lanes with distinct addresses, in lane order: the n'th holds the n'th lane of every address."""
    order = np.argsort(key, kind="stable")
    sorted_ = key[order]
    start = np.r_[True, sorted_[1:] != sorted_[:-1]]
    rank = np.arange(key.size) - np.maximum.accumulate(np.where(start, np.arange(key.size), 0))
    if rank.size and rank.max() == 0:
        yield np.arange(key.size)
        return
    for n in range(int(rank.max()) + 1 if rank.size else 0):
        yield order[rank == n]


def update(load, store, key: np.ndarray, data: np.ndarray, fn, wide: bool, compare: bool) -> np.ndarray:
    """Performs the atomic for every lane and returns the old words [words, n]."""
    words = 2 if wide else 1
    old = np.zeros((words, key.size), U32)

    def join(w: np.ndarray) -> np.ndarray:
        return w[0].astype(U64) | (w[1].astype(U64) << U64(32)) if wide else w[0].copy()

    for lanes in rounds(key):
        before = load(key[lanes])
        old[:, lanes] = before
        current, new = join(before), join(data[:words, lanes])
        if compare:
            wanted = join(data[words:, lanes])
            value = np.where(current == wanted, new, current)
        else:
            value = fn(current, new)
        out = np.stack([(value & U64(0xFFFFFFFF)).astype(U32), (value >> U64(32)).astype(U32)]) if wide else value[None]
        store(key[lanes], out)
    return old


def _global(kind: str, name: str, wide: bool) -> None:
    compare = name == "cmpswap"
    eight = wide or name.endswith("f64")
    words = 2 if eight else 1
    fn = None if compare else function(name, wide)

    def build(d: Decoder) -> Step:
        cache_flags(d)
        returns = d.flag("sc0")
        d.counter = "vm"
        n = words * (2 if compare else 1)
        first = 1 if returns and kind != "buffer" else 0
        if kind == "buffer":
            data = d.vector(0, n, write=False)
            address = buffer_address(d, 1, 2, 3, 4 * words)
        else:
            data = d.vector(first + 1, n, write=False)
            address = global_address(d, first, first + 2) if kind == "global" else flat_address(d, first)
        result = d.vector(0, words) if returns else None
        handler, machine = fault_handler(d, True), d.machine
        machine.has_atomics = True

        def run(g: Group) -> None:
            where, on = address(g)
            flat, mask = lanes_of(g, where, on)
            arena = machine.arena
            if machine.tracking:
                machine.tracking.at(d.ins, g, mask, atomic=True)
            old = update(
                lambda a: arena.load(a, 4 * words, handler),
                lambda a, w: arena.store(a, w, 4 * words, handler),
                flat,
                stored(g, data, n, mask),
                fn,
                eight,
                compare,
            )
            if machine.tracking:
                machine.tracking.atomic = False
            if result is not None:
                put_loaded(g, result, old, mask)

        return run

    BUILDERS[f"{kind}_atomic_{name}{'_x2' if wide else ''}"] = build


for _kind in ("global", "flat", "buffer"):
    for _name in ("add", "sub", "and", "or", "xor", "umin", "umax", "smin", "smax", "swap", "cmpswap", "inc", "dec"):
        _global(_kind, _name, False)
        _global(_kind, _name, True)
    for _name in ("add_f32", "add_f64", "min_f64", "max_f64", "pk_add_f16", "pk_add_bf16"):
        _global(_kind, _name, False)

LDS_NAMES = {
    "add_u32": "add",
    "add_u64": "add",
    "sub_u32": "sub",
    "sub_u64": "sub",
    "and_b32": "and",
    "and_b64": "and",
    "or_b32": "or",
    "or_b64": "or",
    "xor_b32": "xor",
    "xor_b64": "xor",
    "min_u32": "umin",
    "max_u32": "umax",
    "min_i32": "smin",
    "max_i32": "smax",
    "min_u64": "umin",
    "max_u64": "umax",
    "min_i64": "smin",
    "max_i64": "smax",
    "add_f32": "add_f32",
    "add_f64": "add_f64",
    "inc_u32": "inc",
    "dec_u32": "dec",
    "pk_add_f16": "pk_add_f16",
    "pk_add_bf16": "pk_add_bf16",
}


def _lds(name: str, returns: bool) -> None:
    wide = bool(re.search("64$", name))
    words = 2 if wide else 1
    fn = function(LDS_NAMES[name], wide)

    def build(d: Decoder) -> Step:
        d.counter = "lgkm"
        first = 1 if returns else 0
        at = place(d, d.raw(first), offset_of(d), 4 * words, True)
        data = d.vector(first + 1, words, write=False)
        result = d.vector(0, words) if returns else None
        machine = d.machine

        def run(g: Group) -> None:
            index, mask = at(g)
            memory = machine.lds
            if machine.tracking:
                machine.tracking.lds_atomic(d.ins, g, mask, index, 4 * words)
            old = update(
                lambda a: memory.load(a, 4 * words),
                lambda a, w: memory.store(a, w, 4 * words),
                index,
                stored(g, data, words, mask),
                fn,
                wide,
                False,
            )
            if result is not None:
                put_loaded(g, result, old, mask)

        return run

    full = (
        name
        if not returns
        else re.sub(r"^(\w+?)_(\w+)$", r"\1_rtn_\2", name)
        if not name.startswith("pk")
        else name.replace("pk_add", "pk_add_rtn")
    )
    BUILDERS[f"ds_{full}"] = build


for _name in LDS_NAMES:
    _lds(_name, False)
    _lds(_name, True)
