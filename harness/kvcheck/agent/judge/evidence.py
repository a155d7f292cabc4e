"""What one case left behind, and what a check says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent.inputs.bundle import Inputs


@dataclass(frozen=True)
class Finding:
    """One failed check.

    Attributes:
        verdict: a verdict of CONTRACT.
        check: name of the check.
        message: one sentence with numbers.
        output: output that is wrong, or None.
        first_bad: {output, row, position, block, offset, expected, actual, bound}, or None.
        bad_count: wrong elements.
        element_count: elements looked at.
    """

    verdict: str
    check: str
    message: str
    output: str | None = None
    first_bad: dict[str, Any] | None = None
    bad_count: int = 0
    element_count: int = 0


@dataclass
class Evidence:
    """Both sides of one case.

    Attributes:
        case: resolved params.
        inputs: the call; its tensors were never seen by the kernel.
        tensors: the reference's copy of the tensors on the case's device.
        used: the kernel's copy, after the call.
        arena: guarded memory of the call.
        actual: what the kernel left, or None when it raised.
        expected: the reference's output, float64 or integer.
        bound: [rows, columns] float64. Largest honest difference, or None.
        row_lengths: [rows] int64. Promised elements, on the case's device.
        returned: the kernel returned its own tensor, so guards could not see its stores.
        metrics: numbers by name, filled by the checks.
        trivial: metrics that could not have failed.
    """

    case: dict[str, Any]
    inputs: Inputs
    tensors: dict[str, Any]
    used: dict[str, Any]
    arena: Any
    actual: Any
    expected: Any
    bound: Any
    row_lengths: Any
    returned: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    trivial: list[str] = field(default_factory=list)

    @property
    def output(self) -> str:
        """Name of the op's output."""
        return next(iter(self.inputs.outputs))

    def inside(self) -> Any:
        """Which elements the contract promises: [rows, columns] bool."""
        import torch

        width = self.inputs.outputs[self.output][0][1]
        return torch.arange(width, device=self.row_lengths.device) < self.row_lengths[:, None]

    def place(self, row: int, column: int, expected: Any, actual: Any, bound: Any = None) -> dict[str, Any]:
        """`first_bad` of one element: block is the page's index in its sequence, block_id the page in the pool."""
        next_n = self.case["next_n"]
        where = {"output": self.output, "row": row, "request": row // next_n, "position": column, "block": None, "offset": None}
        size = self.inputs.block_size
        if size:
            where.update(block=column // size, offset=column % size)
            table = self.inputs.tensors["block_table"]
            if column // size < table.shape[1]:
                where["block_id"] = int(table[row // next_n, column // size])
        return {**where, "expected": expected, "actual": actual, "bound": bound}


def first(mask: Any) -> tuple[int, int]:
    """Row and column of the first true element."""
    import torch

    flat = int(torch.argmax(mask.flatten().to(torch.uint8)))
    return flat // mask.shape[1], flat % mask.shape[1]
