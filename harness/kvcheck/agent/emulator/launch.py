"""One launch: places the call's tensors in the arena, fills the argument block, runs the text, and reports what it met."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .arguments import Argument, extent, scalar_bytes
from .errors import NotEmulated
from .machine import Machine
from .memory import Arena

KERNARG_BASE = 1 << 36


class View:
    """A tensor argument as bytes: address on the host, extent in bytes from its first to its last element."""

    def __init__(self, argument: Argument) -> None:
        tensor = argument.value
        self.name, self.tensor = argument.name, tensor
        self.start, self.end = extent(tensor)


def host_bytes(start: int, size: int) -> np.ndarray:
    """Host memory as uint8 [size], not copied."""
    if size == 0:
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))


def unwritten(memory: np.ndarray, start: int, marks: list[tuple[int, np.ndarray]]) -> np.ndarray | None:
    """Bytes of a region that were marked as never written and still hold what they held then: bool [size], or None where there are none.

    Told by groups of 4 bytes, counted from where the mark begins: a single byte may hold the same by chance.
    """
    found = None
    for first, before in marks:
        low, high = max(first, start), min(first + before.size, start + memory.size)
        if low < high:
            found = np.zeros(memory.size, bool) if found is None else found
            same = memory[low - start : high - start] == before[low - first : high - first]
            groups = (np.arange(low - first, high - first)) // 4
            whole = np.ones(groups[-1] - groups[0] + 1, bool)
            np.logical_and.at(whole, groups - groups[0], same)
            found[low - start : high - start] = whole[groups - groups[0]]
    return found


def place(arena: Arena, views: list[View], device: Any) -> dict[str, int]:
    """Gives every tensor its address. Overlapping tensors share a region; others never do, even in one storage."""
    groups: list[list[View]] = []
    for view in sorted(views, key=lambda v: v.start):
        if groups and groups[-1] and view.start < max(v.end for v in groups[-1]) and view.end > view.start:
            groups[-1].append(view)
        else:
            groups.append([view])
    address: dict[str, int] = {}
    for members in groups:
        start, end = min(v.start for v in members), max(v.end for v in members)
        name = "+".join(dict.fromkeys(v.name for v in sorted(members, key=lambda v: views.index(v))))
        fixed = next((device.bases[v.name] for v in members if v.name in device.bases), None)
        memory = host_bytes(start, end - start)
        writable = not any(low < end and high > start for low, high in device.protected)
        base = arena.add(name, memory, start % 4096, writable, unwritten(memory, start, device.uninitialised), fixed)
        for v in members:
            address[v.name] = base + v.start - start
    return address


def run(machine: Machine, arguments: list[Argument], grid: tuple[int, int, int], waves: int, shared: int, device: Any) -> None:
    """Runs a decoded kernel on a call's arguments. Raises MemoryFault, NotEmulated or Deadlock."""
    arena = machine.arena = Arena()
    views = [View(a) for a in arguments if hasattr(a.value, "data_ptr")]
    for view in views:
        if view.tensor.device.type != "cpu":
            raise NotEmulated(f"argument {view.name} is on {view.tensor.device}")
    address = place(arena, views, device)
    descriptor = machine.text.descriptor
    block = np.zeros(max(16, descriptor["kernarg_size"]), np.uint8)
    explicit = [a for a in machine.text.arguments if not a.kind.startswith("hidden")]
    if len(explicit) < len(arguments):
        raise NotEmulated(f"{len(arguments)} arguments for {len(explicit)} in the argument block")
    for argument, spec in zip(arguments, explicit, strict=False):
        value = address.get(argument.name, argument.value) if hasattr(argument.value, "data_ptr") else argument.value
        value = 0 if value is None else value
        kind = "i64" if argument.type.startswith("*") else argument.type
        block[spec.offset : spec.offset + spec.size] = np.frombuffer(scalar_bytes(kind, value, spec.size), np.uint8)
    hidden = {f"hidden_block_count_{a}": n for a, n in zip("xyz", grid, strict=False)}
    hidden |= {"hidden_group_size_x": 64 * waves, "hidden_group_size_y": 1, "hidden_group_size_z": 1, "hidden_grid_dims": 3}
    for spec in machine.text.arguments:
        if spec.kind in hidden:
            block[spec.offset : spec.offset + spec.size] = np.frombuffer(hidden[spec.kind].to_bytes(spec.size, "little"), np.uint8)
    arena.add("kernel arguments", block, base=KERNARG_BASE, writable=False)
    user = user_scalars(block, descriptor)
    if len(user) != descriptor["user_sgpr_count"]:
        raise NotEmulated(f"{descriptor['user_sgpr_count']} user scalar registers")
    with np.errstate(all="ignore"):
        machine.run(grid, waves, user, shared, device.budget, device.cores)


USER_SGPRS = ("dispatch_ptr", "queue_ptr", "kernarg_segment_ptr", "dispatch_id")
"""Pairs of scalar registers that a kernel may ask for, in the order of the ABI. Only the argument block's address means anything here: a
kernel that reads the others' memory faults, as nothing lies at address 0."""


def user_scalars(block: np.ndarray, descriptor: dict[str, int]) -> np.ndarray:
    """The first scalar registers of every wave: the pairs that the descriptor enables, then the preloaded arguments."""
    pairs = [
        (KERNARG_BASE & 0xFFFFFFFF, KERNARG_BASE >> 32) if name == "kernarg_segment_ptr" else (0, 0)
        for name in USER_SGPRS
        if descriptor.get(f"user_sgpr_{name}", int(name == "kernarg_segment_ptr"))
    ]
    preload = descriptor.get("user_sgpr_kernarg_preload_length", 0)
    return np.concatenate([np.array(pairs, np.uint32).reshape(-1), _preloaded(block, preload, descriptor)])


def _preloaded(block: np.ndarray, length: int, descriptor: dict[str, int]) -> np.ndarray:
    offset = 4 * descriptor.get("user_sgpr_kernarg_preload_offset", 0)
    words = np.zeros(length, np.uint32)
    available = block[offset : offset + 4 * length]
    words[: available.size // 4] = available[: available.size // 4 * 4].view(np.uint32)
    return words
