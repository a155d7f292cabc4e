"""Guarded, sentinel-filled memory for outputs and scratch: what was never written, and what was written beside it, shows.

Every tensor lies between two guards of GUARD_WORDS known words in one allocation. Fresh memory can hold the right answer
of the call before; a sentinel cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent.inputs import pitch

SPEC = {"summary": "guard words around every output and scratch tensor, a sentinel in every output"}

GUARD_WORDS = 4096
"""32-bit words before and after each tensor: more than the widest tile that a kernel is known to overrun by."""

GUARD = 0x5AFEC0DE
SENTINEL = {"float32": 0x7FC5E47E, "int32": -0x5E47E11, "bfloat16": 0x7FE5, "float16": 0x7E5E, "int64": -0x5E47E115E47E11}
"""Bit patterns: a quiet NaN with a payload, and an integer that no slot or position can be."""

WORDS = {4: "int32", 2: "int16", 8: "int64"}


@dataclass
class Arena:
    """Allocates guarded tensors on one device, and says afterwards which guards were overwritten.

    Args:
        device: torch device.
        untouched: told of every tensor that nobody has written a value to.
    """

    device: Any
    untouched: Callable[[Any], object] = lambda tensor: None
    _blocks: list[tuple[str, Any, int]] = field(default_factory=list)

    def output(self, name: str, shape: tuple[int, ...], dtype: Any, content: Any = None) -> Any:
        """A tensor filled with the sentinel, or with what it holds before the call.

        Args:
            name: how a finding names it.
            shape: sizes.
            dtype: torch dtype; of those in SENTINEL where there is no content.
            content: [*shape] dtype. What an op that works in place finds there; what lies between the rows of a view too.

        Returns:
            tensor: [*shape] dtype. Contiguous, or with the strides of the content.
        """
        if content is not None and not content.is_contiguous():
            whole = pitch.span(content)
            return self._guarded(name, tuple(whole.shape), dtype).copy_(whole).as_strided(shape, content.stride())
        tensor = self._guarded(name, shape, dtype)
        if content is not None:
            tensor.copy_(content)
        else:
            _bits(tensor).fill_(SENTINEL[str(dtype).removeprefix("torch.")])
            self.untouched(tensor)
        return tensor

    def alloc(self, shape: Any, dtype: Any, fill: float | int | None = None) -> Any:
        """Scratch for a provider, guarded like an output.

        Args:
            shape: sizes.
            dtype: any torch dtype whose size divides 4 bytes times the element count.
            fill: value to fill with; None leaves the sentinel's bits.

        Returns:
            tensor: [*shape] dtype. Contiguous.
        """
        tensor = self._guarded(f"scratch {len(self._blocks)}", tuple(shape), dtype)
        if fill is not None:
            tensor.fill_(fill)
        else:
            self.untouched(tensor)
        return tensor

    def guard_hits(self) -> list[tuple[str, int, int]]:
        """Overwritten guards.

        Returns:
            hits: (name, words overwritten, offset in words of the first: negative before the tensor, else past its end).
        """
        hits = []
        for name, words, size in self._blocks:
            before = (words[:GUARD_WORDS] != GUARD).nonzero().flatten()
            after = (words[GUARD_WORDS + size :] != GUARD).nonzero().flatten()
            count = len(before) + len(after)
            if count:
                first = int(after[0]) if len(after) else int(before[0]) - GUARD_WORDS
                hits.append((name, count, first))
        return hits

    def _guarded(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        import torch

        count = 1
        for extent in shape:
            count *= extent
        octets = count * torch.empty(0, dtype=dtype).element_size()
        size = -(-octets // 4)
        words = torch.empty(2 * GUARD_WORDS + size, dtype=torch.int32, device=self.device)
        words[:GUARD_WORDS] = GUARD
        words[GUARD_WORDS:] = GUARD
        self._blocks.append((name, words, size))
        body = words[GUARD_WORDS : GUARD_WORDS + size]
        return body.view(torch.uint8)[:octets].view(dtype).view(shape)


def is_sentinel(tensor: Any) -> Any:
    """Which elements still hold the sentinel's bits.

    Args:
        tensor: [...] of a dtype in SENTINEL.

    Returns:
        mask: [...] bool.
    """
    return _bits(tensor) == SENTINEL[str(tensor.dtype).removeprefix("torch.")]


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.view(getattr(torch, WORDS[tensor.element_size()]))
