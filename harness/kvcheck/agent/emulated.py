"""The emulated device in one case: takes the kernel's launches, and turns what its sanitizer saw into findings of the judge.

Source: EMULATION.md; verdict names as in CONTRACT.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvcheck.agent import emulator
from kvcheck.agent.emulator.device import MODELLED, NOTICE
from kvcheck.agent.judge.evidence import Finding

SUFFIX = "-emulated"
UNSUPPORTED = "not emulated"
VERDICTS = {"out_of_bounds_write": "out_of_bounds_write", "race": "nondeterministic", "input_write": "input_mutated"}
"""Verdict of each kind of fault; every other kind is a crash: on a card, what such a kernel does is not defined."""

ORDER = ("out_of_bounds_write", "out_of_bounds_read", "input_write")
BESIDE = frozenset({"clamped_access"})
"""Kinds that are told beside the verdict: the card answers a clamped access with zeros and a dropped store."""


class EmulatedDevice:
    """An emulated card for the cases of one agent.

    Args:
        arch: gfx942 or gfx950.
        off: kinds of findings that are not looked for.
        cores: processes that share the workgroups of a launch.
    """

    def __init__(self, arch: str, off: tuple[str, ...] = (), cores: int = 1):
        self.arch = arch
        self.off = tuple(off)
        detect = tuple(kind for kind in emulator.KINDS if kind not in off)
        self.device = emulator.install(arch, detect=detect, cores=cores)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While inside, Triton compiles for this card and its launches run here."""
        with self.device:
            yield

    def begin(self, inputs: dict[str, Any]) -> None:
        """A new case.

        Args:
            inputs: tensors that the kernel may not write.
        """
        self.device.forget()
        for tensor in inputs.values():
            self.device.protect(tensor)

    def rows(self) -> list[dict[str, Any]]:
        """What the sanitizer saw in the last call, for `run.json`."""
        return [_row(found) for found in self.device.findings]

    def findings(self) -> tuple[Finding | None, list[Finding]]:
        """The verdicts of what the sanitizer saw: one that ends the case, and races, which come after the checks of the outputs."""
        faults = [found for found in self.device.findings if found.kind not in BESIDE]
        faults.sort(key=lambda found: ORDER.index(found.kind) if found.kind in ORDER else len(ORDER))
        early = [_judged(found) for found in faults if found.kind != "race"]
        return (early[0] if early else None), [_judged(found) for found in faults if found.kind == "race"][:1]

    def failure(self, error: BaseException) -> Finding | str | None:
        """What an exception out of a kernel call means here: a finding, the reason why it is unsupported, or None (not the emulator's)."""
        for cause in _chain(error):
            if isinstance(cause, emulator.NotEmulated):
                return str(cause)
            if isinstance(cause, emulator.MemoryFault):
                return _judged(cause.finding)
            if isinstance(cause, emulator.Deadlock):
                return Finding("timeout", "deadlock", f"on the emulated {self.arch}: {cause}")
        return None


def facts(arch: str, host: dict[str, Any], off: tuple[str, ...] = ()) -> dict[str, Any]:
    """The device part of the environment.

    Args:
        arch: gfx942 or gfx950.
        host: facts of the CPU that emulates it.
        off: kinds of findings that are not looked for.
    """
    return {
        **host,
        "type": "emulated",
        "name": arch + SUFFIX,
        "arch": arch,
        "host": host.get("name"),
        "interpreted": False,
        "notice": NOTICE,
        "modelled": MODELLED[arch],
        "sanitizer": [kind for kind in emulator.KINDS if kind not in off],
    }


def _judged(found: Any) -> Finding:
    verdict, row = VERDICTS.get(found.kind, "crash"), _row(found)
    lanes = f"{found.lanes} of {found.active} active lanes, " if found.active else ""
    where = f"{found.tensor} byte {found.offset} of {found.size}, " if found.tensor else ""
    message = f"{found.kind}: {lanes}{where}{row['source']}" + (f": {found.detail}" if found.detail else "")
    return Finding(verdict, found.kind, message, found.tensor or None, {"output": found.tensor or None, **row}, found.count)


def _row(found: Any) -> dict[str, Any]:
    """A finding for `run.json`; a source file of an installed package is named from the package on."""
    row = found.row()
    return {**row, "source": re.sub(r"^.*/(?:site|dist)-packages/", "", row["source"])}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
