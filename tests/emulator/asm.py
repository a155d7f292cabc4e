"""Runs a few lines of assembly in the emulator, with registers given and returned: what the instruction tests stand on."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kvcheck.agent.emulator.findings import Findings
from kvcheck.agent.emulator.local import Local
from kvcheck.agent.emulator.machine import Machine
from kvcheck.agent.emulator.memory import Arena
from kvcheck.agent.emulator.state import EXEC, SCALARS, Group
from kvcheck.agent.emulator.text import parse
from kvcheck.agent.emulator.tracking import Tracking

TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.type k,@function
k:
{body}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel k
\t\t.amdhsa_private_segment_fixed_size {scratch}
\t\t.amdhsa_user_sgpr_count 100
\t\t.amdhsa_kernarg_size 16
\t.end_amdhsa_kernel
"""


EXECUTED: set[str] = set()
"""Mnemonics, without encoding suffix, of the snippets that ran since a test began."""


def f32(*values: float) -> np.ndarray:
    """The bits of float32 values, repeated over 64 lanes."""
    return np.resize(np.array(values, np.float32), 64).view(np.uint32)


def f64(*values: float) -> tuple[np.ndarray, np.ndarray]:
    """Low and high words of float64 values, repeated over 64 lanes."""
    bits = np.resize(np.array(values, np.float64), 64).view(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)


def base_name(mnemonic: str) -> str:
    """A mnemonic without its encoding."""
    return re.sub(r"_(e32|e64|sdwa|dpp|e64_dpp)$", "", mnemonic)


def machine_for(lines: str, arch: str = "gfx942", scratch: int = 0, tracking: Any = None, given: frozenset = frozenset()) -> Machine:
    """A decoded snippet."""
    body = "\n".join("\t" + line.strip() if not line.strip().endswith(":") else line.strip() for line in lines.strip().splitlines())
    return Machine(parse(TEXT.format(arch=arch, body=body, scratch=scratch)), Findings(), tracking, given)


def run(
    lines: str,
    vectors: dict[int, Any] | None = None,
    scalars: dict[int, Any] | None = None,
    *,
    arch: str = "gfx942",
    execute: int = (1 << 64) - 1,
    waves: int = 1,
    mode: int = 0xF0,
    memory: dict[str, np.ndarray] | None = None,
    scratch: int = 0,
    scc: bool = False,
    found: list | None = None,
) -> Group:
    """Runs lines of assembly and returns the registers.

    Args:
        vectors: register number (256 and up: accumulators) -> uint32 [64] or a number
        scalars: register number -> uint32
        execute: EXEC of every wave
        memory: name -> array; the tensor's address is in s[80:81], s[82:83], ... in this order
        found: turns the race and poison shadows on; receives the findings
    """
    given = frozenset(("v", i) for i in vectors or {}) | frozenset(("s", i) for i in scalars or {})
    machine = machine_for(lines, arch, scratch, Tracking(Findings()) if found is not None else None, given)
    if machine.tracking:
        machine.tracking.findings = machine.findings
    machine.arena = Arena()
    s = np.zeros((SCALARS, waves), np.uint32)
    v = np.zeros((512, waves, 64), np.uint32)
    for i, value in (vectors or {}).items():
        v[i] = value
    for i, value in (scalars or {}).items():
        s[i] = value
    for k, (name, array) in enumerate((memory or {}).items()):
        base = machine.arena.add(name, array.reshape(-1).view(np.uint8))
        s[80 + 2 * k], s[81 + 2 * k] = base & 0xFFFFFFFF, base >> 32
    s[EXEC], s[EXEC + 1] = execute & 0xFFFFFFFF, execute >> 32
    g = Group(s, v, np.full(waves, scc), np.arange(waves), np.zeros(waves, int), np.arange(waves))
    machine.lds, machine.scratch = Local(1, 4096, 0xFF), Local(64 * waves, max(16, scratch), 0xFF)
    g.lds_base, g.mode = np.zeros(waves, np.int64), mode
    if machine.tracking:
        machine.tracking.start(machine, np.arange(1), 4096)
    done: list[Group] = []
    original = machine._advance

    def keep(group: Group, others: list[Group]) -> Any:
        signal = original(group, others)
        if signal == "end":
            done.append(group)
        return signal

    machine._advance = keep
    with np.errstate(all="ignore"):
        machine._batch(g, 1, waves, 10**6)
    if found is not None:
        found += machine.findings.list()
    EXECUTED.update(base_name(ins.mnemonic) for ins in machine.text.instructions)
    out = done[0].join(done[1:]) if len(done) > 1 else done[0]
    order = np.argsort(out.wave)
    return out.take(order)
