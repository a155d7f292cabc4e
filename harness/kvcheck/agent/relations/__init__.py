"""Relations that need no oracle, one a file: calls that must agree with the case's own, and how their outputs lie on its outputs.

Each file has `variants(op, inputs, generator, reach)`, which returns the transformed calls; none where the case has nothing to transform.
What the outputs must agree in is said by each call: bits, or the sum of both certified bounds where the order of sums may change
(inputs that are exact in every order have bound 0: bits again).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.bundle import Inputs

Outputs = dict[str, Any]
Mapped = dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Variant:
    """A call that must agree with the case's own.

    Attributes:
        what: what is different, as the beginning of a sentence.
        inputs: the call.
        back: its outputs as the case's: by name a tensor of the case's shape, and a bool mask of what may be compared.
        within_bound: whether sums may come in another order: values agree within both bounds. Else bits.
        op: another op that is called, or None.
        params: params that are different, for the precision model.
    """

    what: str
    inputs: Inputs
    back: Callable[[Outputs], Mapped]
    within_bound: bool = False
    op: str | None = None
    params: dict[str, Any] = field(default_factory=dict)


def promised(inputs: Inputs, name: str) -> Any:
    """Elements of an output that can be compared: bool of its shape. Of one that is changed in place, every one."""
    import torch

    shape = inputs.outputs[name][0]
    if name in inputs.initial:
        return torch.ones(shape, dtype=torch.bool)
    if name in inputs.inside:
        return inputs.inside[name]
    if inputs.row_lengths is None or len(shape) != 2:
        return torch.ones(shape, dtype=torch.bool)
    return torch.arange(shape[1]) < inputs.row_lengths[:, None]


def unmoved(inputs: Inputs) -> Callable[[Outputs], Mapped]:
    """The `back` of a call whose outputs lie where the case's do."""
    return lambda outputs: {name: (tensor, promised(inputs, name)) for name, tensor in outputs.items()}


def laid_like(original: Any, values: Any) -> Any:
    """Values in memory as another tensor lies there.

    Args:
        original: [rows, ...] any dtype. Rows end to end, or with something between them.
        values: [other rows, ...] that dtype, on any device.

    Returns:
        tensor: [other rows, ...]. As much between its rows as between the original's.
    """
    import torch

    gap = 0 if original.is_contiguous() else original.stride(0) - original[0].numel()
    if gap <= 0:
        return values.contiguous()
    row = values[0].numel()
    filler = pitch.GAP if values.dtype == torch.uint8 else 0
    whole = torch.full((len(values), row + gap), filler, dtype=values.dtype, device=values.device)
    whole[:, :row] = values.reshape(len(values), row)
    return whole[:, :row].unflatten(1, values.shape[1:])
