"""The frame of vector ALU instructions: typed sources, SDWA, DPP, op_sel, clamp and omod, and the masked write of the result.

An instruction is a row of a table: result type, source types, a numpy function. Families call `table` with their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dpp
from .decoder import BUILDERS, Decoder, Step
from .operands import DTYPES, Getter, bits, signs, to_kind
from .state import Group

U32, U64 = np.uint32, np.uint64
FLOATS = ("f32", "f16", "f64")
WIDE = ("u64", "i64", "f64")
HALF = ("u16", "i16", "f16")
KEEPS_UPPER = ("v_mad_u16", "v_mad_i16", "v_fma_f16", "v_div_fixup_f16")
"""16-bit instructions that leave the upper half of their destination as it was; the others clear it."""
Function = Callable[..., np.ndarray]


def table(rows: dict[str, tuple[str, str, Function]]) -> None:
    """Registers vector instructions: name -> (result type, "source types", function)."""
    for name, (result, sources, function) in rows.items():
        if name in BUILDERS:
            raise KeyError(f"{name} is defined twice")
        BUILDERS[name] = _builder(result, sources.split(), function)


def _builder(result: str, kinds: list[str], plain: Function) -> Callable[[Decoder], Step]:
    def build(d: Decoder) -> Step:
        function = saturating(d, plain)
        get, lanes = sources(d, kinds, [i + 1 for i in range(len(kinds))])
        put = destination(d, result, lanes)
        if len(get) == 1:
            a = get[0]
            return lambda g: put(g, function(a(g)))
        if len(get) == 2:
            a, b = get
            return lambda g: put(g, function(a(g), b(g)))
        a, b, c = get
        return lambda g: put(g, function(a(g), b(g), c(g)))

    return build


SATURATE = {"v_add_u32": (0, 0xFFFFFFFF, 1), "v_sub_u32": (0, 0xFFFFFFFF, -1), "v_add_u16": (0, 0xFFFF, 1), "v_sub_u16": (0, 0xFFFF, -1)}


def saturating(d: Decoder, plain: Function) -> Function:
    """The function of an unsigned add or subtract with `clamp`; the plain one otherwise."""
    if "clamp" not in d.modifiers or d.name not in SATURATE:
        return plain
    d.flag("clamp")
    low, high, sign = SATURATE[d.name]
    return lambda x, y: np.clip(np.asarray(x).astype(np.int64) + sign * np.asarray(y).astype(np.int64), low, high).astype(x.dtype)


def sources(d: Decoder, kinds: list[str], places: list[int]) -> tuple[list[Getter], Callable[[Group], np.ndarray] | None]:
    """Readers of the sources, with SDWA selection, DPP shuffles and op_sel; and the lanes a DPP instruction may write."""
    lanes = None
    if d.encoding == "sdwa":
        return [_sdwa(d, place, kind, n) for n, (place, kind) in enumerate(zip(places, kinds, strict=False))], None
    get: list[Getter] = []
    selects = _op_sel(d, len(kinds)) if any(k in HALF for k in kinds) and d.encoding in ("", "e64") else [0] * len(kinds)
    for n, (place, kind) in enumerate(zip(places, kinds, strict=False)):
        if d.encoding == "dpp" and n == 0:
            operand = d.operand(place)
            if kind in WIDE:
                raise d.ins.refuse("64-bit DPP")
            values, lanes = dpp.reader(d, d.raw(place))
            get.append(signs(to_kind(values, kind), operand, kind))
        elif selects[n] and kind in HALF:
            operand, raw = d.operand(place), d.raw(place)
            if operand.kind == "c":
                raise d.ins.refuse("op_sel on a constant")
            get.append(signs(to_kind(_upper(raw), kind), operand, kind))
        else:
            get.append(d.source(place, kind))
    return get, lanes


def _upper(raw: Getter) -> Getter:
    return lambda g: raw(g) >> U32(16)


def _op_sel(d: Decoder, n: int) -> list[int]:
    text = d.modifiers.get("op_sel")
    if text is None:
        return [0] * n
    values = [int(t) for t in text.strip("[]").split(",")]
    d.modifiers["op_sel"] = "[0,0,0," + str(values[n] if len(values) > n else 0) + "]"
    return (values + [0] * n)[:n]


def select(raw: Getter, choice: str, signed: bool) -> Getter:
    """An SDWA source selection (BYTE_0.., WORD_0.., DWORD) of a 32-bit reader, extended to 32 bits."""
    if choice == "DWORD":
        return raw
    width, n = (8, int(choice[-1])) if choice.startswith("BYTE_") else (16, int(choice[-1]))
    shift = U32(width * n)
    if signed:
        dtype = np.int8 if width == 8 else np.int16
        return lambda g: (raw(g) >> shift).astype(dtype).astype(np.int32).view(U32)
    low = U32((1 << width) - 1)
    return lambda g: (raw(g) >> shift) & low


def _sdwa(d: Decoder, place: int, kind: str, n: int) -> Getter:
    operand, choice = d.operand(place), d.modifier(f"src{n}_sel", "DWORD")
    if kind in WIDE or choice not in ("DWORD", "WORD_0", "WORD_1", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3"):
        raise d.ins.refuse(f"SDWA source {choice}")
    if operand.kind == "c":
        pattern = U32(bits(operand.value, kind))
        return to_kind(lambda g: pattern, kind)
    return signs(to_kind(select(d.raw(place), choice, operand.sign_extend), kind), operand, kind)


def destination(d: Decoder, kind: str, lanes: Callable[[Group], np.ndarray] | None = None, place: int = 0) -> Callable[[Group, Any], None]:
    """A masked writer of results of `kind` to a vector register (two registers for 64 bits)."""
    scale = _output_modifiers(d, kind)
    if d.encoding == "sdwa":
        return _sdwa_destination(d, kind, scale, place)
    index = d.vector(place, 2 if kind in WIDE else 1)
    if kind in WIDE:
        if lanes is not None:
            raise d.ins.refuse("64-bit DPP")

        def wide(g: Group, value: np.ndarray) -> None:
            if scale:
                value = scale(value)
            value = np.asarray(value).view(U64)
            store(g, index, (value & U64(0xFFFFFFFF)).astype(U32))
            store(g, index + 1, (value >> U64(32)).astype(U32))

        return wide
    high = False
    if kind in HALF and "op_sel" in d.modifiers:
        high = d.modifier("op_sel").strip("[]").split(",")[3] == "1"
    if lanes is not None:

        def masked(g: Group, value: np.ndarray) -> None:
            if scale:
                value = scale(value)
            np.copyto(g.V[index], as_u32(value, kind), where=lanes(g))

        return masked
    if kind in HALF:
        keeps = d.name in KEEPS_UPPER

        def half(g: Group, value: np.ndarray) -> None:
            if scale:
                value = scale(value)
            word = as_u32(value, kind)
            if keeps and not high:
                word = (g.V[index] & U32(0xFFFF0000)) | word
            elif high:
                word = (g.V[index] & U32(0xFFFF)) | (word << U32(16))
            store(g, index, word)

        return half
    if kind == "f32":

        def single(g: Group, value: np.ndarray) -> None:
            if scale:
                value = scale(value)
            if g.full:
                g.F[index] = value
            else:
                np.copyto(g.F[index], value, where=g.exec)

        return single

    def plain(g: Group, value: np.ndarray) -> None:
        value = value if value.dtype == U32 else value.view(U32)
        if g.full:
            g.V[index] = value
        else:
            np.copyto(g.V[index], value, where=g.exec)

    return plain


def store(g: Group, index: int, value: np.ndarray) -> None:
    """Writes uint32 values to the active lanes of a vector register."""
    if g.full:
        g.V[index] = value
    else:
        np.copyto(g.V[index], value, where=g.exec)


def as_u32(value: np.ndarray, kind: str) -> np.ndarray:
    """Result bits as uint32 (16-bit results zero-extended)."""
    value = np.asarray(value)
    if kind in HALF:
        return value.view(np.uint16).astype(U32)
    return value if value.dtype == U32 else value.view(U32)


def _output_modifiers(d: Decoder, kind: str) -> Callable[[np.ndarray], np.ndarray] | None:
    clamp = "clamp" in d.modifiers and kind in FLOATS and d.flag("clamp")
    factor = None
    if kind in FLOATS:
        for name in ("mul", "div"):
            if name in d.modifiers:
                amount = float(d.modifier(name))
                factor = DTYPES[kind](amount if name == "mul" else 1 / amount)
    if not clamp and factor is None:
        return None
    one, zero = DTYPES[kind](1), DTYPES[kind](0)

    def apply(value: np.ndarray) -> np.ndarray:
        if factor is not None:
            value = value * factor
        if clamp:
            value = np.where(np.isnan(value), zero, np.clip(value, zero, one))
        return value

    return apply


def _sdwa_destination(d: Decoder, kind: str, scale: Any, place: int) -> Callable[[Group, Any], None]:
    choice, unused = d.modifier("dst_sel", "DWORD"), d.modifier("dst_unused", "UNUSED_PAD")
    index = d.vector(place, 1)
    if kind in WIDE or unused not in ("UNUSED_PAD", "UNUSED_PRESERVE", "UNUSED_SEXT"):
        raise d.ins.refuse(f"SDWA destination {choice} {unused}")
    if choice == "DWORD":
        return lambda g, value: store(g, index, as_u32(scale(value) if scale else value, kind))
    width = 8 if choice.startswith("BYTE_") else 16
    shift = width * int(choice[-1])
    field = U32(((1 << width) - 1) << shift)
    if unused == "UNUSED_PRESERVE":
        d.note_read(d.operand(place), 1)

    def put(g: Group, value: np.ndarray) -> None:
        word = as_u32(scale(value) if scale else value, kind)
        bits_ = (word << U32(shift)) & field
        if unused == "UNUSED_PRESERVE":
            bits_ = bits_ | (g.V[index] & ~field)
        elif unused == "UNUSED_SEXT":
            bits_ = ((bits_ << U32(32 - width - shift)).view(np.int32) >> np.int32(32 - width - shift)).view(U32)
        store(g, index, bits_)

    return put
