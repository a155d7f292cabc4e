"""Workgroups spread over processes: the same bytes, findings and counts as one process, whatever happens in them."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kvcheck.agent.emulator import hazards, spread
from kvcheck.agent.emulator.errors import Deadlock, EmulatorError, MemoryFault
from kvcheck.agent.emulator.findings import KINDS, Findings
from kvcheck.agent.emulator.machine import WAVES_A_BATCH, Machine
from kvcheck.agent.emulator.memory import Arena
from kvcheck.agent.emulator.text import parse
from kvcheck.agent.emulator.tracking import Tracking

CORES = (1, 2, 3)
WAVES = 4
BATCH = WAVES_A_BATCH // WAVES
GROUPS = 5 * BATCH + 7
"""Workgroups: five whole batches and one that is not."""
N = GROUPS * WAVES * 64

TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
\t.type k,@function
k:
{body}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel k
\t\t.amdhsa_private_segment_fixed_size 0
\t\t.amdhsa_user_sgpr_count 4
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_kernarg_size 16
\t.end_amdhsa_kernel
"""

OWN_PLACE = "s_lshl_b32 s5, s4, 8\nv_add_u32_e32 v1, s5, v0\nv_lshlrev_b32_e32 v1, 2, v1\n"
"""v1: the offset of a thread's own 4 bytes. s[0:1] is x, s[2:3] is y, s4 the workgroup."""
LOAD_X = "global_load_dword v2, v1, s[0:1]\ns_waitcnt vmcnt(0)\n"
SHARED_PLACE = "s_and_b32 s5, s4, 31\ns_lshl_b32 s5, s5, 8\nv_add_u32_e32 v1, s5, v0\nv_lshlrev_b32_e32 v1, 2, v1\n"
STORE_GROUP = "v_mov_b32_e32 v3, s4\nglobal_store_dword v1, v3, s[2:3]\n"

DOUBLE = OWN_PLACE + LOAD_X + "v_add_u32_e32 v2, v2, v2\nglobal_store_dword v1, v2, s[2:3]"
IN_PLACE = DOUBLE.replace("s[0:1]", "s[2:3]")
BYTES = OWN_PLACE + LOAD_X + "v_lshrrev_b32_e32 v1, 2, v1\nglobal_store_byte v1, v2, s[2:3]"
RACE = SHARED_PLACE + STORE_GROUP
RACE_IN_A_SHARE = RACE.replace("31", "63")  # of every other batch: with two processes, both sides are in one
RACE_OF_A_LOAD = (
    OWN_PLACE + STORE_GROUP + "s_waitcnt vmcnt(0)\nv_xor_b32_e32 v4, 0x20000, v1\nv_min_u32_e32 v4, {last}, v4\n"
    "global_load_dword v2, v4, s[2:3]\ns_waitcnt vmcnt(0)\nglobal_store_dword v1, v2, s[0:1]"
).format(last=4 * N - 4)
"""Reads what a workgroup 128 further on, or back, stores to y, and keeps it in x."""
UNALIGNED = OWN_PLACE + "v_add_u32_e32 v1, 2, v1\n" + STORE_GROUP
ATOMIC = SHARED_PLACE + "v_mov_b32_e32 v3, 1\nglobal_atomic_add v1, v3, s[2:3]"
BUFFER = OWN_PLACE + "s_mov_b32 s8, s0\ns_and_b32 s9, s1, 0xffff\ns_mov_b32 s10, 0x20000\ns_mov_b32 s11, 0x27000\n"
CLAMPED = BUFFER + "buffer_load_dword v2, v1, s[8:11], 0 offen\ns_waitcnt vmcnt(0)\nglobal_store_dword v1, v2, s[2:3]"
"""Reads x through a buffer that ends before it does."""
IN_TURN = BUFFER.replace("0x20000", "16") + (
    f"s_cmp_lt_u32 s4, {BATCH}\ns_cbranch_scc1 .LBB0_2\ns_cmp_lt_u32 s4, {2 * BATCH}\ns_cbranch_scc1 .LBB0_1\n"
    "buffer_load_dword v2, v1, s[8:11], 0 offen\ns_branch .LBB0_2\n.LBB0_1:\nbuffer_load_dword v2, v1, s[8:11], 0 offen\n.LBB0_2:"
)
"""The second batch is the first to find something; the third finds something else."""


def machine_for(lines, detect=KINDS, x=N, y=N, protect=()):
    """A machine with tensors x and y of that many words, and their arrays."""
    body = "\n".join(line if line.endswith(":") else "\t" + line for line in lines.splitlines())
    findings = Findings(detect)
    machine = Machine(parse(TEXT.format(body=body)), findings, Tracking(findings))
    machine.arena = Arena()
    arrays = np.arange(x, dtype=np.uint32), np.full(y, 0xABABABAB, np.uint32)
    bases = [machine.arena.add(name, a.view(np.uint8), writable=name not in protect) for name, a in zip("xy", arrays, strict=True)]
    user = np.array([w for b in bases for w in (b & 0xFFFFFFFF, b >> 32)], np.uint32)
    machine.pace = 1.0  # worth it

    def launch(cores, budget=10**9):
        machine.run((GROUPS, 1, 1), WAVES, user, 0, budget, cores)

    return machine, arrays, launch


def outcome(lines, cores, **options):
    """Everything that can be seen of a launch."""
    machine, arrays, launch = machine_for(lines, **options)
    error = None
    try:
        launch(cores)
    except EmulatorError as caught:
        error = (type(caught).__name__, str(caught))
        assert not isinstance(caught, MemoryFault) or caught.finding is machine.findings.list()[-1]
    seen = {
        "bytes": [a.tobytes() for a in arrays],
        "findings": [f.row() for f in machine.findings.list()],
        "error": error,
        "executed": machine.executed,
        "steps": machine.calls,
    }
    return seen, machine.processes


@pytest.mark.parametrize(
    ("lines", "options", "found", "spreads"),
    [
        pytest.param(DOUBLE, {}, [], (2, 3), id="a copy"),
        pytest.param(DOUBLE, {"protect": "x"}, [], (2, 3), id="a protected input"),
        pytest.param(IN_PLACE, {}, [], (2, 3), id="in place"),
        pytest.param(BYTES, {}, [], (2, 3), id="bytes"),
        pytest.param(CLAMPED, {}, ["clamped_access"], (2, 3), id="findings of several processes"),
        pytest.param(IN_TURN, {}, ["clamped_access"] * 2, (2, 3), id="different findings in different processes"),
        pytest.param(ATOMIC, {}, [], (1, 1), id="atomics"),
        pytest.param(RACE, {}, ["race"], (1, 1), id="a race of two stores"),
        pytest.param(RACE_IN_A_SHARE, {}, ["race"], (2, 1), id="a race in one share"),
        pytest.param(RACE, {"detect": ()}, [], (1, 1), id="a race that nobody looks for"),
        pytest.param(RACE_OF_A_LOAD, {}, ["race"], (1, 1), id="a race of a load"),
        pytest.param(UNALIGNED, {"y": N + 1}, None, (1, 1), id="stores across words"),
        pytest.param(DOUBLE, {"y": N - 3}, ["out_of_bounds_write"], (1, 1), id="a store out of bounds in the last share"),
        pytest.param(DOUBLE, {"y": N - 3, "detect": ("race",)}, [], (2, 3), id="one that nobody looks for"),
        pytest.param(DOUBLE, {"x": N // 2}, ["out_of_bounds_read"], (1, 1), id="a load out of bounds"),
        pytest.param(DOUBLE, {"protect": "y"}, ["input_write"], (1, 1), id="a store to an input"),
    ],
)
def test_processes_change_nothing_but_the_time(lines, options, found, spreads):
    one, processes = outcome(lines, 1, **options)
    assert processes == 1
    assert found is None or [f["kind"] for f in one["findings"]] == found
    for cores, expected in zip(CORES[1:], spreads, strict=True):
        several, processes = outcome(lines, cores, **options)
        assert several == one
        assert processes == expected


def test_a_small_launch_and_one_of_unknown_length_stay_in_one_process(monkeypatch):
    machine, _, launch = machine_for(DOUBLE)
    monkeypatch.setattr(spread, "WORTH", 1e9)
    launch(2)
    assert machine.processes == 1
    monkeypatch.setattr(spread, "WORTH", 0.0)
    machine, arrays, launch = machine_for(DOUBLE)
    machine.pace = None  # the first batch tells, the others are spread
    launch(2)
    assert machine.processes == 2
    assert (arrays[1] == 2 * arrays[0]).all()


def test_a_machine_without_room_for_processes_runs_the_launch_in_one(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: os.open("/no such folder/file", os.O_RDONLY))
    machine, arrays, launch = machine_for(DOUBLE)
    launch(2)
    assert machine.processes == 1
    assert (arrays[1] == 2 * arrays[0]).all()


def planted(lines, act, first=4 * BATCH):
    """A machine whose last store does something when a workgroup from `first` on reaches it."""
    machine, arrays, launch = machine_for(lines)
    step = machine.steps[-2]

    def run(g):
        if int(g.S[4].max()) >= first:
            act()
        return step(g)

    machine.steps[-2] = run
    return machine, arrays, launch


def test_an_exception_is_raised_as_in_one_process():
    def act():
        raise ZeroDivisionError("planted")

    seen = []
    for cores in CORES:
        machine, arrays, launch = planted(DOUBLE, act)
        with pytest.raises(ZeroDivisionError, match="planted"):
            launch(cores)
        seen.append((arrays[1].tobytes(), machine.executed))
        assert (arrays[1] != 0xABABABAB).sum() == 4 * BATCH * WAVES * 64
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fate", ["killed", "exits", "sleeps"])
def test_a_lost_process_ends_the_launch_and_leaves_none_behind(monkeypatch, fate):
    monkeypatch.setattr(spread, "STALLED", 1.0)
    monkeypatch.setattr(spread, "LOOK", 0.1)
    parent, pids = os.getpid(), np.frombuffer(mmap.mmap(-1, 4096), np.int64)

    def act():
        assert os.getpid() != parent
        pids[0] = os.getpid()
        if fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "exits":
            os._exit(3)
        time.sleep(50)

    _, arrays, launch = planted(DOUBLE, act)
    with pytest.raises(spread.WorkerLost, match="no step" if fate == "sleeps" else "without an answer"):
        launch(2)
    assert pids[0] > 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0]), 0)
    assert (arrays[1] == 0xABABABAB).all()


def test_the_budget_is_that_of_the_launch():
    for cores in CORES:
        machine, _, launch = machine_for(DOUBLE)
        launch(cores, budget=10 * GROUPS * WAVES)
        used = machine.executed
        machine, _, launch = machine_for(DOUBLE)
        with pytest.raises(Deadlock, match="does not end"):
            launch(cores, budget=used - 1)
    _, _, launch = machine_for("s_cmp_lg_u32 s4, 150\ns_cbranch_scc1 .LBB0_2\n.LBB0_1:\ns_branch .LBB0_1\n.LBB0_2:")
    with pytest.raises(Deadlock, match="does not end"):
        launch(2, budget=10**5)


def test_steps_grow_with_the_batches_and_not_faster():
    counts = {}
    for groups in (BATCH, 4 * BATCH, 16 * BATCH):
        machine, _, _ = machine_for(DOUBLE, x=groups * 256, y=groups * 256)
        bases = [r.base for r in machine.arena.regions]
        user = np.array([w for b in bases for w in (b & 0xFFFFFFFF, b >> 32)], np.uint32)
        machine.run((groups, 1, 1), WAVES, user, 0, 10**9)
        counts[groups] = machine.calls, machine.executed
    assert counts == {n * BATCH: (n * 8, n * 8 * WAVES_A_BATCH) for n in (1, 4, 16)}


@pytest.mark.parametrize("branches", [4, 16, 64])
def test_a_program_is_decoded_in_time_linear_in_its_length(monkeypatch, branches):
    lines = "\n".join(
        f"global_load_dword v{2 + k % 200}, v0, s[0:1]\ns_cmp_eq_u32 s4, {k}\ns_cbranch_scc1 .LBB0_{k}\ns_nop 0\n.LBB0_{k}:\ns_nop 0"
        for k in range(branches)
    )
    visits, pop = [], hazards.Work.pop

    def count(work):
        visits.append(1)
        return pop(work)

    monkeypatch.setattr(hazards.Work, "pop", count)
    machine, _, _ = machine_for(lines + "\ns_waitcnt vmcnt(0)")
    assert len(visits) == 2 * len(machine.steps)  # each of two analyses looks at each instruction once


SCRIPT = """
import json, sys
import torch, triton
import triton.language as tl
from kvcheck.agent import emulator
from kvcheck.agent.emulator import spread

@triton.jit
def softmax(x, y, width, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * stride + i, mask=i < width, other=-float("inf"))
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * stride + i, e / tl.sum(e, 0), mask=i < width)

spread.WORTH = 0.0
x = torch.randn(301, 257)
rows = []
for cores in (1, 2, 3):
    y = torch.zeros_like(x)
    with emulator.install("gfx950", cores=cores) as device:
        device.protect(x)
        softmax[(301,)](x, y, 257, 257, 512)
        print(json.dumps({
            "bytes": y.numpy().tobytes().hex(), "findings": [f.row() for f in device.findings],
            "right": bool(torch.allclose(y, x.softmax(1), atol=1e-6)),
            **{k: device.statistics[0][k] for k in ("processes", "steps", "wave_instructions")},
        }))
"""


def test_a_triton_launch_is_spread(tmp_path):
    pytest.importorskip("triton", reason="compiling kernels needs triton")
    script = tmp_path / "softmax.py"
    script.write_text(SCRIPT)
    harness = str(Path(__file__).parents[2] / "harness")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"PYTHONPATH": harness, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.pop("processes") for row in rows] == [1, 2, 3]
    assert rows[0] == rows[1] == rows[2]
    assert rows[0]["right"] and not rows[0]["findings"]
