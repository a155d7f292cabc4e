"""`launch: graph`: a call is captured with other lengths and another table; these are changed in place, and it is replayed.

That is what a server does: the graph is captured once, and lengths, tables and slots are rewritten before each replay. A kernel that
decides anything on the host, from values it saw at capture, is right when it is called and wrong when it is replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kvcheck.agent.protocol import Unsupported

WARM_UP = 2
"""Calls before the capture: compilation, autotuning and library handles do not belong into a graph."""


def replay(
    function: Callable[..., Any], used: dict[str, Any], scalars: dict[str, Any], given: dict[str, Any], alloc: Any, device: Any
) -> Any:
    """Captures a call on other integers, puts the real ones in place, replays.

    Args:
        function: the kernel.
        used: its tensors; afterwards those that the graph has worked on.
        scalars: its other arguments.
        given: its outputs, which hold what they must hold before the call.
        alloc: guarded scratch.
        device: torch device of the tensors.

    Returns:
        result: what the kernel returned at capture; its tensors hold what the replay wrote.

    Raises:
        Unsupported: there are no graphs on this device, or the call cannot be captured because the host waits for the device in it.
    """
    if device.type != "cuda":
        raise Unsupported(f"launch=graph needs a GPU: there are no graphs on {device.type}")
    before = {name: tensor.clone() for name, tensor in given.items()}
    static = {name: _other(tensor) for name, tensor in used.items()}
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            function(**static, **scalars, **given, alloc=alloc)
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = function(**static, **scalars, **given, alloc=alloc)
    except RuntimeError as error:
        if "captur" not in str(error):
            raise
        raise Unsupported(f"the call cannot be captured into a graph: {str(error).splitlines()[0]}") from error
    for name, tensor in static.items():
        tensor.copy_(used[name])
    for name, tensor in given.items():
        tensor.copy_(before[name])
    graph.replay()
    torch.cuda.synchronize(device)
    used.update(static)
    return result


def _other(tensor: Any) -> Any:
    """A copy; of lengths, tables, slots and positions one with other values, in range wherever the real ones are."""
    if tensor.dtype not in (torch.int32, torch.int64):
        return tensor.clone()
    return torch.where(tensor > 0, (tensor + 1) // 2, tensor)
