"""What is compiled at a kernel's first call is not on the case's clock."""

from __future__ import annotations

import sys
import time
from types import ModuleType

import pytest

from kvcheck.agent.compile_clock import CompileClock


def test_a_build_of_a_kernel_package_is_a_compile_phase(monkeypatch):
    core = ModuleType("aiter.jit.core")
    core.build_module = build = lambda name, fails=False: time.sleep(0.05) or (1 / 0 if fails else name)
    monkeypatch.setitem(sys.modules, "aiter.jit.core", core)
    phases = []
    with CompileClock(phases.append) as clock:
        assert core.build_module("module_x") == "module_x"
        with pytest.raises(ZeroDivisionError):
            core.build_module("module_y", fails=True)
    assert phases == ["compile", "kernel", "compile", "kernel"] and clock.seconds >= 0.1
    assert core.build_module is build
