"""Turns instructions into closures, once. A builder that leaves an operand or a modifier unread has not understood the instruction:
NotEmulated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .operands import Getter, Operand, decode, raw32, raw64, typed
from .state import EXEC, VCC, Group
from .text import Instruction, Text

Step = Callable[[Group], Any]
Builder = Callable[["Decoder"], Step]

BUILDERS: dict[str, Builder] = {}
"""Mnemonic without encoding suffix -> builder. Filled by the instruction families when they are imported."""

_SUFFIX = re.compile(r"_(e32|e64|sdwa|dpp|e64_dpp)$")
WIDTH = {"u64": 2, "i64": 2, "f64": 2}


def op(*names: str) -> Callable[[Builder], Builder]:
    """Registers a builder for mnemonics."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in BUILDERS:
                raise KeyError(f"{name} is defined twice")
            BUILDERS[name] = builder
        return builder

    return register


class Decoder:
    """One instruction while it is being built: hands out operand readers and notes what is read and written."""

    def __init__(self, ins: Instruction, text: Text, machine: Any) -> None:
        self.ins = ins
        self.text = text
        self.machine = machine
        self.arch = text.arch
        self.operands: list[Operand | None] = [None] * len(ins.operands)
        self.used: set[int] = set()
        self.modifiers = dict(ins.modifiers)
        self.reads: set[tuple[str, int]] = set()
        self.writes: set[tuple[str, int]] = set()
        self.counter: str | None = None
        suffix = _SUFFIX.search(ins.mnemonic)
        self.encoding = suffix.group(1) if suffix else ""
        self.name = ins.mnemonic[: suffix.start()] if suffix else ins.mnemonic

    def operand(self, i: int) -> Operand:
        """The decoded operand at a place."""
        if i >= len(self.operands):
            raise self.ins.refuse(f"expected operand {i}")
        self.used.add(i)
        if self.operands[i] is None:
            self.operands[i] = decode(self.ins, self.ins.operands[i])
        return self.operands[i]

    def word(self, i: int) -> str:
        """The raw text of an operand (labels, counts)."""
        self.used.add(i)
        return self.ins.operands[i]

    def modifier(self, name: str, default: str | None = None) -> str | None:
        """Takes a modifier; a flag without a value reads as ""."""
        return self.modifiers.pop(name, default)

    def flag(self, name: str) -> bool:
        """Takes a modifier that has no value."""
        return self.modifiers.pop(name, None) is not None

    def note_read(self, operand: Operand, count: int) -> None:
        """Records that `count` registers of an operand are read."""
        if operand.kind in "sv":
            self.reads.update((operand.kind, operand.index + k) for k in range(count))
        elif operand.kind == "scc":
            self.reads.add(("scc", 0))

    def note_write(self, kind: str, index: int, count: int) -> None:
        """Records that registers are written."""
        self.writes.update((kind, index + k) for k in range(count))

    def source(self, i: int, kind: str) -> Getter:
        """A reader of operand i as `kind`, with its sign modifiers."""
        operand = self.operand(i)
        self.note_read(operand, WIDTH.get(kind, 1))
        if operand.kind == "off" or operand.sign_extend:
            raise self.ins.refuse(f"operand {self.ins.operands[i]!r}")
        return typed(operand, kind)

    def raw(self, i: int) -> Getter:
        """A reader of the 32 bits of operand i."""
        self.note_read(self.operand(i), 1)
        return raw32(self.operand(i))

    def raw64(self, i: int) -> Getter:
        """A reader of the 64 bits of operand i."""
        self.note_read(self.operand(i), 2)
        return raw64(self.operand(i))

    def vector(self, i: int, count: int, write: bool = True) -> int:
        """The first register of a vector operand that is written (or read, with write=False)."""
        operand = self.operand(i)
        if operand.kind != "v" or operand.negate or operand.absolute:
            raise self.ins.refuse(f"operand {self.ins.operands[i]!r} is not a vector register")
        if operand.count < count:
            raise self.ins.refuse(f"operand {self.ins.operands[i]!r} has fewer than {count} registers")
        if write:
            self.note_write("v", operand.index, count)
        else:
            self.note_read(operand, count)
        return operand.index

    def scalar(self, i: int, count: int, write: bool = True) -> int:
        """The first register of a scalar operand that is written (or read, with write=False)."""
        operand = self.operand(i)
        if operand.kind != "s" or operand.negate or operand.absolute:
            raise self.ins.refuse(f"operand {self.ins.operands[i]!r} is not a scalar register")
        if write:
            self.note_write("s", operand.index, count)
        else:
            self.note_read(operand, count)
        return operand.index

    def reads_vcc(self) -> None:
        """Notes an implicit read of VCC."""
        self.reads.update((("s", VCC), ("s", VCC + 1)))

    def finish(self) -> None:
        """Raises NotEmulated when something of the instruction was not read."""
        for i in range(len(self.operands)):
            if i not in self.used:
                raise self.ins.refuse(f"operand {self.ins.operands[i]!r}")
        if self.modifiers:
            raise self.ins.refuse("modifier " + ", ".join(f"{k}:{v}" if v else k for k, v in self.modifiers.items()))


def build(ins: Instruction, text: Text, machine: Any) -> tuple[Step, Decoder]:
    """The closure of an instruction and what it reads and writes. Raises NotEmulated."""
    decoder = Decoder(ins, text, machine)
    builder = BUILDERS.get(decoder.name)
    if builder is None:
        raise ins.refuse("unknown mnemonic")
    step = builder(decoder)
    decoder.finish()
    if decoder.name.startswith("v_"):
        decoder.reads.update((("s", EXEC), ("s", EXEC + 1)))
    return step, decoder
