"""Operands of the text: registers, constants, modifiers; and how an instruction reads them from a group."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .state import EXEC, M0, VCC, Group
from .text import Instruction

Getter = Callable[[Group], np.ndarray]

_RANGE = re.compile(r"([sva])\[(\d+):(\d+)\]$|([sva])(\d+)$")
_NAMED = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
}
_INLINE_FLOATS = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494", "0.15915494309189532"}
AGPR = 256
"""Where accumulator registers begin in the unified numbering of vector registers."""


@dataclass
class Operand:
    """A register range, a constant, or a special source.

    kind: "v" (vector, accumulators from 256 on), "s" (scalar), "c" (constant), "scc", "off".
    """

    kind: str
    index: int = 0
    count: int = 1
    text: str = ""
    value: int | float = 0
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False


def decode(ins: Instruction, text: str) -> Operand:
    """The operand that a word of the text means. Raises NotEmulated when it is not known."""
    negate = absolute = sext = False
    word = text
    wrapped = re.match(r"(neg|abs|sext)\((.*)\)$", word)
    while wrapped or (word[:1] == "-" and re.match(r"-(\||[sva]\[|[sva]\d|vcc|abs)", word)) or word[:1] == "|":
        if wrapped:
            negate, absolute, sext = (
                negate or wrapped.group(1) == "neg",
                absolute or wrapped.group(1) == "abs",
                sext or wrapped.group(1) == "sext",
            )
            word = wrapped.group(2)
        elif word[0] == "-":
            negate, word = True, word[1:]
        else:
            absolute, word = True, word.strip("|")
        wrapped = re.match(r"(neg|abs|sext)\((.*)\)$", word)
    found = _RANGE.match(word)
    if found:
        letter = found.group(1) or found.group(4)
        low = int(found.group(2) or found.group(5))
        high = int(found.group(3) or found.group(5))
        index = low + (AGPR if letter == "a" else 0)
        return Operand("s" if letter == "s" else "v", index, high - low + 1, word, 0, negate, absolute, sext)
    if word in _NAMED:
        index, count = _NAMED[word]
        return Operand("s", index, count, word, 0, negate, absolute, sext)
    if word in ("off", "null"):
        return Operand("off", text=word)
    if word == "scc":
        return Operand("scc", text=word)
    if re.match(r"-?(\d+|0x[0-9a-fA-F]+)$", word):
        return Operand("c", text=word, value=int(word, 0), negate=negate, absolute=absolute)
    if word in _INLINE_FLOATS or re.match(r"-?\d+\.\d*(e[-+]?\d+)?$", word):
        return Operand("c", text=word, value=float(word), negate=negate, absolute=absolute)
    raise ins.refuse(f"operand {text!r}")


def bits(value: int | float, kind: str) -> int:
    """The bit pattern of a constant read as `kind` (u32, f32, f16, bf16, f64, u64, i64 ...)."""
    if isinstance(value, float):
        if kind == "f16":
            return struct.unpack("<H", struct.pack("<e", value))[0]
        if kind == "f64":
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        if kind == "bf16":
            return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
        return struct.unpack("<I", struct.pack("<f", value))[0]
    if kind == "f64":  # an inline integer is itself; a longer literal is the upper half
        return value & 0xFFFFFFFFFFFFFFFF if -16 <= value <= 64 else (value & 0xFFFFFFFF) << 32
    if kind in ("u64", "i64"):
        return value & 0xFFFFFFFFFFFFFFFF
    if kind in ("u16", "i16", "f16", "bf16"):
        return value & 0xFFFF
    return value & 0xFFFFFFFF


DTYPES = {
    "u32": np.uint32,
    "i32": np.int32,
    "f32": np.float32,
    "u64": np.uint64,
    "i64": np.int64,
    "f64": np.float64,
    "u16": np.uint16,
    "i16": np.int16,
    "f16": np.float16,
}
_LOW = np.uint32(0xFFFF)
_32 = np.uint64(32)


def raw32(op: Operand) -> Getter:
    """Reads 32 bits as uint32, broadcastable to [wave, lane]; modifiers not applied."""
    i = op.index
    if op.kind == "v":
        return lambda g: g.V[i]
    if op.kind == "s":
        return lambda g: g.S[i][:, None]
    if op.kind == "scc":
        return lambda g: g.scc.astype(np.uint32)[:, None]
    constant = np.uint32(bits(op.value, "u32"))
    return lambda g: constant


def raw64(op: Operand, kind: str = "u64") -> Getter:
    """Reads 64 bits as uint64, broadcastable to [wave, lane]."""
    i = op.index
    if op.kind == "v":
        return lambda g: g.V[i].astype(np.uint64) | (g.V[i + 1].astype(np.uint64) << _32)
    if op.kind == "s":
        return lambda g: g.s64(i)[:, None]
    constant = np.uint64(bits(op.value, kind))
    return lambda g: constant


def to_kind(get: Getter, kind: str) -> Getter:
    """Turns a uint32 reader into one of a 16 or 32-bit type (the low half, for 16 bits)."""
    if kind == "u32":
        return get
    if kind in ("i32", "f32"):
        dtype = DTYPES[kind]
        return lambda g: get(g).view(dtype)
    if kind == "u16":
        return lambda g: get(g).astype(np.uint16)
    if kind in ("i16", "f16"):
        dtype = DTYPES[kind]
        return lambda g: get(g).astype(np.uint16).view(dtype)
    if kind == "bf16":
        return lambda g: (get(g) << np.uint32(16)).view(np.float32)
    raise KeyError(kind)


def signs(get: Getter, op: Operand, kind: str) -> Getter:
    """Applies `|x|` and `-x` as sign-bit operations, as the hardware does (NaN included)."""
    if kind not in ("f32", "f16", "f64", "bf16"):
        return get
    unsigned = {"f32": np.uint32, "bf16": np.uint32, "f16": np.uint16, "f64": np.uint64}[kind]
    dtype = np.float32 if kind == "bf16" else DTYPES[kind]
    top = unsigned(1 << (unsigned(0).itemsize * 8 - 1))
    keep = unsigned(top - unsigned(1))
    if op.absolute and op.negate:
        return lambda g: (get(g).view(unsigned) | top).view(dtype)
    if op.absolute:
        return lambda g: (get(g).view(unsigned) & keep).view(dtype)
    if op.negate:
        return lambda g: (get(g).view(unsigned) ^ top).view(dtype)
    return get


def typed(op: Operand, kind: str) -> Getter:
    """Reads an operand as `kind` with its sign modifiers, broadcastable to [wave, lane]."""
    i = op.index
    if kind in ("u64", "i64", "f64"):
        get = raw64(op, kind)
        if kind != "u64":
            wide, dtype = get, DTYPES[kind]
            get = lambda g: wide(g).view(dtype)  # noqa: E731
    elif op.kind == "c":
        pattern = np.uint32(bits(op.value, kind))
        constant = to_kind(lambda g: pattern, kind)(None)
        get = lambda g: constant  # noqa: E731
    elif kind == "f32":
        get = (lambda g: g.F[i]) if op.kind == "v" else (lambda g: g.SF[i][:, None]) if op.kind == "s" else to_kind(raw32(op), kind)
    elif kind == "i32":
        get = (lambda g: g.I[i]) if op.kind == "v" else (lambda g: g.SI[i][:, None]) if op.kind == "s" else to_kind(raw32(op), kind)
    else:
        get = to_kind(raw32(op), kind)
    return signs(get, op, kind)
