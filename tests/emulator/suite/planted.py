"""Faults planted in Triton kernels, and launches of unusual kinds: each must be found by the device, or run, as a card would."""

from __future__ import annotations

import inspect
import mmap

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kvcheck.agent import emulator

MAP_NORESERVE = 0x4000


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)
    else:
        tl.store(y + i, tl.load(x + i))


@triton.jit
def fill_rows(y, width, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * stride + i, tl.where(i < width, tl.program_id(0) + 1.0, -float("inf")))


@triton.jit
def far_row(y, row, stride, WIDE: tl.constexpr):
    r = row.to(tl.int64) if WIDE else row
    tl.store(y + r * stride, 7.0)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def tuned(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def mixed_arguments(y, pair, scale, flag: tl.int1, big, NONE):
    v = tl.load(pair[0]) * scale + pair[1]
    tl.store(y, tl.where(flag, v, -v) + (big >> 33).to(tl.float32))


@gluon.jit
def gluon_double(x, y, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [64], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(y + i, gl.load(x + i, mask=i < n) * 2, mask=i < n)


def faults(device, call):
    """The fault that ends a call, and the findings."""
    device.findings.clear()
    try:
        call()
    except emulator.MemoryFault as error:
        return error.finding, list(device.findings)
    return None, list(device.findings)


def line_of(kernel, text):
    """Line in this file of the first line of a kernel that contains a text."""
    lines, start = inspect.getsourcelines(kernel.fn)
    return start + next(i for i, line in enumerate(lines) if text in line)


def out_of_bounds_read(device):
    x, y = torch.zeros(200), torch.zeros(256)
    fault, _ = faults(device, lambda: copy[(1,)](x, y, 200, 256, False))
    assert (fault.kind, fault.tensor, fault.offset, fault.size, fault.lanes) == ("out_of_bounds_read", "x", 800, 800, 56), fault
    assert fault.source.endswith(f"planted.py:{line_of(copy, 'else') + 1}"), fault.source
    assert faults(device, lambda: copy[(1,)](x, y, 200, 256, True)) == (None, [])


def out_of_bounds_write_in_one_storage(device):
    storage = torch.zeros(512)
    x, y, neighbour = torch.ones(256), storage[:200], storage[200:]
    fault, _ = faults(device, lambda: copy[(1,)](x, y, 200, 256, False))
    assert (fault.kind, fault.tensor, fault.offset) == ("out_of_bounds_write", "y", 800), fault
    assert not neighbour.any()


def row_end_store_is_out_of_bounds_and_a_race(device):
    y = torch.zeros(600)
    rows = y[: 2 * 257].view(2, 257)
    fault, _ = faults(device, lambda: fill_rows[(2,)](rows, 257, 257, 512))
    assert (fault.kind, fault.tensor) == ("out_of_bounds_write", "y"), fault
    fault, found = faults(device, lambda: fill_rows[(2,)](torch.zeros(2, 512), 257, 257, 512))
    assert fault is None and [f.kind for f in found][:1] == ["race"] and found[0].tensor == "y", found


def poisoned_memory_is_found_when_read(device):
    x = device.poison(torch.empty(256))
    _, found = faults(device, lambda: copy[(1,)](x, torch.zeros(256), 256, 256, True))
    assert [f.kind for f in found] == ["uninitialised_read"] and found[0].tensor == "x" and found[0].lanes == 256, found
    out = device.poison(torch.empty(256))
    copy[(1,)](torch.ones(256), out, 256, 256, True)
    device.uninitialised.clear()


def a_store_to_an_input(device):
    y = device.protect(torch.zeros(256))
    _, found = faults(device, lambda: copy[(1,)](torch.ones(256), y, 256, 256, True))
    assert [(f.kind, f.tensor) for f in found] == [("input_write", "y")], found
    device.protected.clear()


def checks_can_be_turned_off(device):
    with emulator.install(device.arch, detect=("race",)) as quiet:
        x = quiet.poison(torch.empty(256))
        copy[(1,)](x, torch.zeros(256), 256, 256, True)
        assert quiet.findings == []


def offsets_past_2_to_the_31(device):
    size = (2 * 2**30 + 64) * 4
    y = torch.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE), dtype=torch.float32)
    far_row[(1,)](y, 2, 2**30, True)
    assert y[2**31].item() == 7.0
    fault, _ = faults(device, lambda: far_row[(1,)](y, 2, 2**30, False))
    assert fault.kind == "out_of_bounds_write" and fault.tensor == "y" and fault.offset == -(2**33), fault


def autotuning_runs(device):
    x, y = torch.randn(1000), torch.zeros(1000)
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, 1000)
    assert torch.equal(y, x * 2)


def arguments_of_every_kind(device):
    y = torch.zeros(1)
    mixed_arguments[(1,)](y, (torch.full((1,), 3.0), 4), 0.5, True, 5 << 33, None)
    assert y.item() == 10.5, y
    mixed_arguments[(1,)](y, (torch.full((1,), 3.0), 1), 0.5, False, 5 << 33, None)
    assert y.item() == 2.5, y


def gluon_kernels_run(device):
    x, y = torch.randn(1000), torch.zeros(1000)
    gluon_double[(4,)](x, y, 1000, 256, num_warps=4)
    assert torch.equal(y, x * 2)


def overlapping_tensors_share_memory(device):
    base = torch.arange(300, dtype=torch.float32)
    copy[(1,)](base[:256], base[44:], 256, 256, True)
    assert torch.equal(base[44:], torch.arange(256, dtype=torch.float32))


def cuda_means_this_device(device):
    x = torch.ones(256, device="cuda")
    y = torch.zeros(256).cuda().to("cuda:0")
    copy[(1,)](x, y, 256, 256, True)
    assert x.device.type == y.device.type == "cpu"
    assert bool(y.all())


def both_targets_in_one_process(device):
    other = "gfx950" if device.arch == "gfx942" else "gfx942"
    with emulator.install(other) as second:
        y = torch.zeros(256)
        copy[(1,)](torch.ones(256), y, 256, 256, True)
        assert len(second.statistics) == 1
        assert y.all()
    before = len(device.statistics)
    copy[(1,)](torch.ones(256), torch.zeros(256), 256, 256, True)
    assert len(device.statistics) == before + 1


def inspection_of_a_compiled_kernel(device):
    from kvcheck.agent.emulator import inspect as figures

    kernel = gluon_double[(4,)](torch.randn(1000), torch.zeros(1000), 1000, 256, num_warps=4)
    row = figures.summary(kernel.asm["amdgcn"], kernel.metadata.num_warps, kernel.metadata.shared)
    assert row["arch"] == device.arch
    assert row["kernel"] == "gluon_double"
    assert row["vgpr_spills"] == 0
    assert row["lds_bytes"] == 0
    assert 0 < row["vgprs"] < 64
    assert row["occupancy"] == 8
    assert row["code_bytes"] > 100
    assert row["matrix"] == {}


CHECKS = (
    out_of_bounds_read,
    out_of_bounds_write_in_one_storage,
    row_end_store_is_out_of_bounds_and_a_race,
    poisoned_memory_is_found_when_read,
    a_store_to_an_input,
    checks_can_be_turned_off,
    offsets_past_2_to_the_31,
    autotuning_runs,
    arguments_of_every_kind,
    gluon_kernels_run,
    overlapping_tensors_share_memory,
    cuda_means_this_device,
    both_targets_in_one_process,
    inspection_of_a_compiled_kernel,
)


def cases(arch):
    """The checks as cases of the runner: they assert for themselves."""
    for check in CHECKS:

        def run(check=check):
            from kvcheck.agent.emulator.driver import ACTIVE

            device = ACTIVE[-1]
            check(device)
            device.findings.clear()
            return []

        yield check.__name__, run
