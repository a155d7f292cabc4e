"""What an op's `make_inputs` returns: the tensors of one call, and what the judge must know about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SPEC = {"summary": "tensors, scalars and promises of one call"}


@dataclass
class Inputs:
    """One call of an op.

    Attributes:
        tensors: arguments that are tensors, by name, on the CPU.
        scalars: arguments that are not.
        outputs: shape and torch dtype of each output, by name. A single one is the argument `out`; several are arguments by name.
        row_lengths: [rows] int64. Promised elements of each row of a [rows, columns] output, never negative; None: see `inside`.
        exact: whether every fp32 order gives the same bits.
        block_size: tokens a page where rows are positions of a paged cache, else None.
        initial: what an output holds before the call, by name, where an op changes it in place; a sentinel elsewhere.
        inside: promised elements of an output, by name: bool of its shape; without one and without row_lengths all are.
        axes: names of the axes of an output, by name, for messages.
        refusal: why a kernel must refuse these arguments (the reference does); None: it must answer.
    """

    tensors: dict[str, Any]
    scalars: dict[str, Any]
    outputs: dict[str, tuple[tuple[int, ...], Any]]
    row_lengths: Any = None
    exact: bool = False
    block_size: int | None = None
    initial: dict[str, Any] = field(default_factory=dict)
    inside: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refusal: str | None = None

    def fingerprint(self) -> str:
        """SHA-256 over names, dtypes, shapes and bytes of every tensor that goes into the call, first 16 hex digits.

        Of a tensor that is a view, what lies between its rows too.
        """
        import hashlib

        from kvcheck.agent.inputs import pitch

        digest = hashlib.sha256()
        for name, tensor in [*self.tensors.items(), *self.initial.items()]:
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(memoryview(pitch.octets(tensor).numpy()))
        return digest.hexdigest()[:16]


def context_lens(value: Any, batch: int, next_n: int) -> Any:
    """The lengths of a batch as the kernels take them.

    Args:
        value: a `lengths` axis value.
        batch: sequences.
        next_n: query tokens a sequence.

    Returns:
        context_lens: [batch] int32, or [batch, next_n] int32 for per-row lengths.
    """
    import torch

    if isinstance(value, int):
        value = [value] * batch
    return torch.tensor(value, dtype=torch.int32)


def row_lengths(lens: Any, next_n: int) -> Any:
    """Valid positions of every row: L = context_len - next_n + 1 + j for query token j, or the per-row length.

    Args:
        lens: [batch] or [batch, next_n] int32. Context lengths.
        next_n: query tokens a sequence.

    Returns:
        lengths: [batch * next_n] int64. At least 0.
    """
    import torch

    wide = lens.long()
    if wide.dim() == 1:
        wide = wide[:, None] - next_n + 1 + torch.arange(next_n)
    return wide.flatten().clamp(min=0)


def row_width(case: dict[str, Any], longest: int) -> int:
    """`max_model_len`, or the longest context rounded up to 256 (at least 256) when the case leaves it open."""
    return case["max_model_len"] or max(-(-longest // 256), 1) * 256
