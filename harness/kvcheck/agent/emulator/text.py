"""Reads the assembly text of one kernel: instructions, labels, source lines, kernel descriptor and argument list.

Strict: a line in the kernel's body that is neither a label, a known directive nor an instruction is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from .errors import NotEmulated

_LABEL = re.compile(r"([.\w$]+):$")
_MNEMONIC = re.compile(r"[a-z][a-z0-9_]*$")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')


class Source(NamedTuple):
    """Where an instruction comes from in the kernel's Python source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "?"


@dataclass
class Instruction:
    """One instruction: mnemonic, operands, modifiers (`{"offset": "16", "offen": ""}`), line of the text, source line."""

    mnemonic: str
    operands: list[str]
    modifiers: dict[str, str]
    line: int
    source: Source
    raw: str

    def refuse(self, why: str) -> NotEmulated:
        """The error for something in this instruction that is not emulated."""
        return NotEmulated(f"{self.mnemonic}: {why}", self.line)


class KernelArgument(NamedTuple):
    """Offset and size in bytes of one entry of the argument block."""

    offset: int
    size: int
    kind: str


@dataclass
class Text:
    """A parsed kernel."""

    name: str
    arch: str
    instructions: list[Instruction]
    labels: dict[str, int]
    descriptor: dict[str, int]
    arguments: list[KernelArgument]
    info: dict[str, int] = field(default_factory=dict)

    @property
    def entry(self) -> int:
        """First instruction the hardware runs: past the compatibility prologue when arguments are preloaded."""
        if self.descriptor.get("user_sgpr_kernarg_preload_length", 0):
            for _i, ins in enumerate(self.instructions[:32]):
                if ins.mnemonic == "s_branch":
                    return self.labels[ins.operands[0]]
        return 0


def split_operands(rest: str) -> tuple[list[str], list[str]]:
    """`v1, s[2:3], |v4| offset:8 glc` into operands and trailing modifier words."""
    parts = [p.strip() for p in re.split(r",(?![^\[\(]*[\]\)])", rest)] if rest else []
    if not parts:
        return [], []
    last = re.split(r"\s+(?![^\[\(]*[\]\)])", parts[-1])
    if len(parts) == 1 and re.match(r"(offset\d?|sc[01]|nt|clamp|glc|slc)\b", last[0]):
        return [], last
    return parts[:-1] + [last[0]], last[1:]


def parse(text: str) -> Text:
    """Parses the text of `kernel.asm["amdgcn"]`.

    Raises: NotEmulated for text that is not understood.
    """
    target = re.search(r'\.amdgcn_target "[^"]*-(gfx\w+)', text)  # amdgcn-amd-amdhsa--gfx950, or amdgpu9.50-amd-amdhsa-unknown-gfx950
    if not target:
        raise NotEmulated("no target in the text")
    found = re.search(r"\.type\s+([\w$.]+),@function", text)
    if not found:
        raise NotEmulated("no kernel function in the text")
    name = found.group(1)
    files: dict[str, str] = {}
    for number, first, second in _FILE.findall(text):
        files[number] = f"{first}/{second}" if second and not second.startswith("/") else second or first
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    source, inside = Source("?", 0), False
    for number, line in enumerate(text.splitlines(), 1):
        body = line.split(";", 1)[0].split("//", 1)[0].strip()
        if not body:
            continue
        label = _LABEL.match(body)
        if label:
            if label.group(1) == name:
                inside = True
            elif label.group(1) == ".Lfunc_end0":
                break
            labels[label.group(1)] = len(instructions)
            continue
        if not inside:
            continue
        if body.startswith(".loc"):
            words = body.split()
            if words[2] != "0":
                source = Source(files.get(words[1], "?"), int(words[2]))
            continue
        if body.startswith("."):
            if body.startswith(".section"):
                inside = False
            continue
        mnemonic, _, rest = body.partition(" ")
        mnemonic, _, tail = mnemonic.partition("\t")
        rest = re.sub(r"\s+", " ", (tail + " " + rest).strip())
        if not _MNEMONIC.match(mnemonic):
            raise NotEmulated(body, number)
        if mnemonic in ("s_waitcnt", "s_nop", "s_setprio", "s_sleep", "s_sethalt", "s_endpgm", "s_barrier"):
            operands, extra = ([rest] if rest else []), []
        else:
            operands, extra = split_operands(rest)
        modifiers: dict[str, str] = {}
        for word in extra:
            key, _, value = word.partition(":")
            if key in modifiers:
                raise NotEmulated(f"{mnemonic} {word}", number)
            modifiers[key] = value
        instructions.append(Instruction(mnemonic, operands, modifiers, number, source, body))
    return Text(name, target.group(1), instructions, labels, _descriptor(text), _arguments(text), _information(text))


def _descriptor(text: str) -> dict[str, int]:
    block = re.search(r"\.amdhsa_kernel .*?\.end_amdhsa_kernel", text, re.S)
    if not block:
        raise NotEmulated("no kernel descriptor in the text")
    return {k: int(v, 0) for k, v in re.findall(r"\.amdhsa_(\w+)\s+(-?\w+)\s*$", block.group(0), re.M) if re.match(r"-?\d", v)}


def _arguments(text: str) -> list[KernelArgument]:
    block = re.search(r"\.args:\s*\n(.*?)\n\s{4}\.\w|\.args:\s*\[\]", text, re.S)
    out = []
    for entry in re.split(r"\n\s*- ", "\n" + (block.group(1) or "") if block else ""):
        fields = dict(re.findall(r"\.(\w+):\s*(\S+)", entry))
        if "offset" in fields:
            out.append(KernelArgument(int(fields["offset"]), int(fields["size"]), fields.get("value_kind", "by_value")))
    return out


def _information(text: str) -> dict[str, int]:
    """The numbers the compiler states in comments (`; codeLenInByte = 1332`, `; Occupancy: 8`) and in the metadata (`.vgpr_spill_count:
    0`)."""
    info = {k: int(v) for k, v in re.findall(r"^; (\w+)\s*[:=]\s*(\d+)", text, re.M)}
    info.update({k: int(v) for k, v in re.findall(r"^\s+\.(\w+):\s+(\d+)\s*$", text, re.M) if k.endswith(("_count", "_size"))})
    return info
