"""Every instruction that the emulator accepts has a test by numpy, and is an instruction of one of the two targets.

The tests are found by their parametrisations: a test with a `mnemonic` parameter is about that instruction, and conftest.py sees to
it that it executes it. LLVM assembles every line of those tests for its target (opcodes.assemble): what it does not know is no instruction.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

from kvcheck.agent.emulator import machine  # noqa: F401 - fills the table
from kvcheck.agent.emulator.decoder import BUILDERS


def parametrised() -> dict[str, set[str]]:
    """Mnemonic -> tests, from the marks of every test module here."""
    found: dict[str, set[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_opcodes_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("test_") or function.__module__ != module.__name__:
                continue
            for mark in getattr(function, "pytestmark", []):
                names = mark.args[0] if mark.name == "parametrize" else ()
                names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
                if "mnemonic" in names:
                    at = names.index("mnemonic")
                    for row in mark.args[1]:
                        found.setdefault(row if len(names) == 1 else row[at], set()).add(f"{path.stem}::{name}")
    return found


def test_every_mnemonic_is_tested():
    missing = sorted(set(BUILDERS) - set(parametrised()))
    assert not missing, f"{len(missing)} of {len(BUILDERS)}: {missing}"


def test_every_tested_mnemonic_is_accepted():
    assert sorted(set(parametrised()) - set(BUILDERS)) == []
