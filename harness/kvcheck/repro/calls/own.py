"""Calls of functions with the op's own signature: our kernels, planted faults, mutants of them, and a user's FILE.py."""

from __future__ import annotations

import os

from kvcheck.repro.parts import Parts, invoke
from kvcheck.repro.wanted import Called, Wanted, rooms

OWN = ("triton", "torch_eager")


def build(wanted: Wanted, parts: Parts) -> Called:
    """How a function of the op's signature is loaded and called.

    Args:
        wanted: the row.
        parts: sections of its op.
    """
    names = [each.name for each in parts.outputs]
    seats = {"out": names[0]} if len(names) == 1 else {name: name for name in names}
    alloc = "guarded" if wanted.guards else "scratch" if wanted.op == "mla_decode" or wanted.provider not in OWN else "None"
    keywords = {**parts.keywords, **seats, "alloc": alloc}
    users = wanted.provider.endswith(".py")
    tensors = {name: name for name in parts.arguments}
    call = invoke("kernel", [], {**tensors, **keywords}, "result = " if users else "")
    if users:
        call += _brought(names)
    if wanted.verdict == "wrong_shape":
        for each in parts.outputs:
            said = f'f"WRONG shape: {{{each.name}.shape}} {{{each.name}.dtype}}"'
            call += [f"assert ({each.name}.shape, {each.name}.dtype) == ({each.shape}, torch.{each.dtype}), {said}"]
    return Called(_load(wanted), [*rooms(parts.outputs, wanted.guards), *call], os.path.basename(wanted.provider) if users else "kvcheck")


def _brought(names: list[str]) -> list[str]:
    """Lines that take what the kernel returned for what it was given, where it returned something."""
    if len(names) == 1:
        return [f"{names[0]} = {names[0]} if result is None else result  # it may bring a tensor of its own"]
    every = ", ".join(names)
    return [
        "if result is not None:  # it may bring tensors of its own",
        f"    {every} = result.values() if isinstance(result, dict) else result",
    ]


def _load(wanted: Wanted) -> list[str]:
    name, op = wanted.provider, wanted.op
    if name in OWN:
        return [f"from kvcheck.agent.providers.{name} import {op} as kernel"]
    if not name.endswith(".py"):
        return [
            "from kvcheck.agent.assemble import provider",
            "",
            f'kernel = provider({name!r}, "{wanted.device}").function("{op}")',
        ]
    return [
        f"FILE = {name!r}",
        "sys.path.insert(0, os.path.dirname(FILE))",
        f'kernel = runpy.run_path(FILE, {{"Unsupported": NotImplementedError}})["{op}"]',
    ]
