"""What the sanitizer reports: one row a place and kind, with the lanes, the tensor, the offset and the source line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvcheck.agent.protocol import SANITIZER

KINDS = SANITIZER
FAULTS = tuple(kind for kind in KINDS if kind != "clamped_access")
"""Kinds that blame the kernel. `clamped_access` is reported beside the verdict: the card answers it with zeros and dropped stores."""


@dataclass
class Finding:
    """A fault, or an access that hardware would hide.

    Args:
        kind: one of KINDS
        kernel: name of the kernel
        instruction: mnemonic and operands as in the assembly text
        line: line of the assembly text
        source: file:line of the kernel's source
        tensor: the argument the address belongs to ("lds" for LDS)
        offset: first bad byte, relative to the tensor's first
        size: bytes of the tensor
        lanes: lanes that did it, active: lanes that took part, the first time
        count: how many lanes over the whole launch
        detail: one sentence
    """

    kind: str
    kernel: str
    instruction: str
    line: int
    source: str
    tensor: str = ""
    offset: int = 0
    size: int = 0
    lanes: int = 0
    active: int = 0
    count: int = 0
    detail: str = ""
    workgroup: int = -1

    def __str__(self) -> str:
        where = f"{self.tensor} ({self.size} bytes, offset {self.offset})" if self.tensor else ""
        lanes = f"{self.lanes} of {self.active} active lanes, " if self.active else ""
        return f"{self.kind}: {lanes}{where} at {self.instruction} line {self.line}, {self.source}" + (
            f": {self.detail}" if self.detail else ""
        )

    def row(self) -> dict[str, Any]:
        """The finding as a dict for run.json's `first_bad` and `findings`."""
        return asdict(self)


class Findings:
    """Collects findings of a launch; the same place and kind is one row with a count."""

    def __init__(self, enabled: tuple[str, ...] = KINDS) -> None:
        self.enabled = frozenset(enabled)
        self.rows: dict[tuple[str, str, int, str], Finding] = {}
        self.kernel = ""
        self.current: Any = None

    def add(self, kind: str, ins: Any, **fields: Any) -> Finding | None:
        """Notes a finding at an instruction. Returns the row, or None when the kind is turned off."""
        if kind not in self.enabled:
            return None
        lanes = int(fields.get("lanes", 1))
        key = (kind, self.kernel, ins.line, fields.get("tensor", ""))
        if key in self.rows:
            self.rows[key].count += lanes
            return self.rows[key]
        row = Finding(kind, self.kernel, ins.raw, ins.line, str(ins.source), count=lanes, **fields)
        self.rows[key] = row
        return row

    def empty(self) -> Findings:
        """A collection of the same kinds for the same kernel, with nothing in it."""
        new = Findings(tuple(self.enabled))
        new.kernel = self.kernel
        return new

    def absorb(self, rows: dict[tuple[str, str, int, str], Finding]) -> None:
        """Adds what was found behind what is here: rows of another collection."""
        for key, row in rows.items():
            if key in self.rows:
                self.rows[key].count += row.count
            else:
                self.rows[key] = row

    def list(self) -> list[Finding]:
        """All findings, in the order they were met."""
        return list(self.rows.values())
