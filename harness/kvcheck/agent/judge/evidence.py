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
        wrong: where the wrong elements lie (`spread.wrong`), or None.
    """

    verdict: str
    check: str
    message: str
    output: str | None = None
    first_bad: dict[str, Any] | None = None
    bad_count: int = 0
    element_count: int = 0
    wrong: dict[str, Any] | None = None


@dataclass
class Evidence:
    """Both sides of one output of a case.

    Attributes:
        output: name of the output.
        case: resolved params.
        inputs: the call; its tensors were never seen by the kernel.
        tensors: the reference's copy of the tensors on the case's device.
        used: the kernel's copy, after the call.
        arena: guarded memory of the call.
        actual: what the kernel left, or None when it raised.
        expected: the reference's output, float64 or integer.
        bound: float64 of the output's shape. Largest honest difference, or None.
        row_lengths: [rows] int64. Promised elements of each row, on the case's device; None where `inputs.inside` says what is promised.
        returned: the kernel returned its own tensor, so guards could not see its stores.
        others: what repeated calls left.
        eager: what an eager call left, where `actual` is of a graph's replay.
        metrics: numbers by name, filled by the checks.
        trivial: metrics that could not have failed.
    """

    output: str
    case: dict[str, Any]
    inputs: Inputs
    tensors: dict[str, Any]
    used: dict[str, Any]
    arena: Any
    actual: Any
    expected: Any
    bound: Any
    row_lengths: Any = None
    returned: bool = False
    others: list[Any] = field(default_factory=list)
    eager: Any = None
    metrics: dict[str, Any] = field(default_factory=dict)
    trivial: list[str] = field(default_factory=list)

    def inside(self) -> Any:
        """Which elements the contract promises: bool of the output's shape."""
        import torch

        shape = self.inputs.outputs[self.output][0]
        device = self.expected.device
        if self.output in self.inputs.inside:
            return self.inputs.inside[self.output].to(device)
        if self.row_lengths is None or len(shape) != 2:
            return torch.ones(shape, dtype=torch.bool, device=device)
        return torch.arange(shape[1], device=device) < self.row_lengths[:, None]

    def place(self, row: int, column: int, expected: Any, actual: Any, bound: Any = None) -> dict[str, Any]:
        """`first_bad` of one element of a row of positions: block is the page's index in its sequence, block_id the page in the pool."""
        next_n = self.case["next_n"]
        where = {"output": self.output, "row": row, "request": row // next_n, "position": column, "block": None, "offset": None}
        size = self.inputs.block_size
        if size:
            where.update(block=column // size, offset=column % size)
            table = self.inputs.tensors["block_table"]
            if column // size < table.shape[1]:
                where["block_id"] = int(table[row // next_n, column // size])
        return {**where, "expected": expected, "actual": actual, "bound": bound}

    def where(self, index: tuple[int, ...], expected: Any, actual: Any, bound: Any = None) -> dict[str, Any]:
        """`first_bad` of one element: by position and page where rows are positions of a sequence, by axis elsewhere."""
        by_position = self.row_lengths is not None and len(index) == 2
        return self.place(*index, expected, actual, bound) if by_position else self.place_at(index, expected, actual, bound)

    def place_at(self, index: tuple[int, ...], expected: Any, actual: Any, bound: Any = None) -> dict[str, Any]:
        """`first_bad` of one element of any output: its index by axis; row and position are the first and the last."""
        names = self.inputs.axes.get(self.output) or tuple(f"axis {n}" for n in range(len(index)))
        where = {"output": self.output, "row": index[0], "position": index[-1], "block": None, "offset": None}
        return {**where, "index": dict(zip(names, index, strict=True)), "expected": expected, "actual": actual, "bound": bound}


def first(mask: Any) -> tuple[int, ...]:
    """Index of the first true element: row and column where there are two axes."""
    import torch

    flat = int(torch.argmax(mask.flatten().to(torch.uint8)))
    index: list[int] = []
    for extent in reversed(mask.shape):
        flat, rest = divmod(flat, extent)
        index.insert(0, rest)
    return tuple(index)
