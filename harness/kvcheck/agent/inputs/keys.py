"""Draws what `values` names: keys token by token, and the queries and weights that go with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvcheck.agent.inputs.random import NORMAL_UNIT

EXACT = frozenset({"beacon_slot", "beacon_scale", "beacon_head", "exact_int", "certified_topk"})
"""Values whose logits are exact in fp32 in any order, so that a verdict may be bitwise."""

BASE = 16
"""Base of the digits in which beacons are written: 0..15 are exact in both FP8 formats."""

HEADS_A_GROUP = 24
UNIT = 128.0
"""Normal integers are divided by a power of two near their deviation, which is exact."""


@dataclass(frozen=True)
class Shape:
    """The sizes that the values depend on."""

    num_heads: int
    head_dim: int
    num_slots: int

    @property
    def digits(self) -> int:
        """How many base-16 digits a slot id takes."""
        count = 1
        while BASE**count < self.num_slots:
            count += 1
        return count


def tokens(kind: str, shape: Shape, generator: Any, stream: str, start: int, slots: Any) -> tuple[Any, Any]:
    """Keys of consecutive tokens of one request.

    Args:
        kind: a choice of `values`, not `random_bytes`.
        shape: sizes.
        generator: an `inputs.random.Generator`.
        stream: name of the request's stream.
        start: position of the first token.
        slots: [tokens] int64. Where they will lie.

    Returns:
        keys: [tokens, head_dim] float64. Numbers before quantisation.
        scales: [tokens] float64, or None: the `scale` axis decides.
    """
    import torch

    count, dim = len(slots), shape.head_dim
    normal = generator.normal(stream, count * dim, start * dim).view(count, dim)
    index = torch.arange(start, start + count)
    if kind == "heavy_tail":
        draw = generator.integers(f"{stream}/tail", count * dim, 1, 1 << 12, start * dim).view(count, dim)
        return normal.double() / UNIT * (draw & -draw).clamp(max=64).double(), None
    if kind == "relu_sparse":
        dark = generator.integers(f"{stream}/dark", count, 0, 3, start) < 2
        return torch.where(dark[:, None], -normal.abs(), normal).double() / UNIT, None
    if kind == "ties":
        first = start // 7
        groups = int(index[-1]) // 7 - first + 1
        return (generator.normal(stream, groups * dim, first * dim).view(groups, dim).double() / UNIT)[index // 7 - first], None
    if kind in ("narrow_band", "low_bits"):
        base = generator.normal("base", dim).abs().double() / UNIT
        draw = generator.integers(f"{stream}/band", count, 0, 1024, start)
        narrow = 1 + draw.double() / 102400
        low = (draw + 0x3F900000).to(torch.int32).view(torch.float32).double()
        return base.expand(count, dim), narrow if kind == "narrow_band" else low
    if kind in ("beacon_slot", "certified_topk"):
        if shape.digits > min(shape.num_heads, dim):
            raise ValueError(f"{kind} writes slot ids in {shape.digits} digits, and needs as many heads and dims")
        keys = normal.double() / UNIT
        ids = slots if kind == "beacon_slot" else generator.permutation("ranks", shape.num_slots)[slots]
        for digit in range(shape.digits):
            keys[:, digit] = (ids // BASE**digit % BASE).double()
        return keys, torch.ones(count, dtype=torch.float64)
    if kind == "beacon_scale":
        keys = torch.zeros(count, dim, dtype=torch.float64)
        keys[:, 0] = 1
        return keys, slots.double() + 1
    if kind == "beacon_head":
        groups = -(-shape.num_heads // HEADS_A_GROUP)
        if groups > dim:
            raise ValueError(f"beacon_head needs a dim for each of {groups} groups of heads")
        keys = torch.zeros(count, dim, dtype=torch.float64)
        keys[torch.arange(count), index % groups] = 1
        return keys, torch.ones(count, dtype=torch.float64)
    if kind == "signed_zero":
        zero = generator.integers(f"{stream}/zero", count * dim, 0, 8, start * dim).view(count, dim) == 0
        return torch.where(zero, -0.0, normal.double() / UNIT), None
    if kind == "exact_int":
        power = generator.integers(f"{stream}/power", count, -3, 4, start)
        return _small_integers(normal, dim), torch.pow(2.0, power.double())
    return normal.double() / UNIT, None


def queries(kind: str, shape: Shape, generator: Any, rows: int) -> tuple[Any, Any]:
    """Queries and weights.

    Args:
        kind: a choice of `values`.
        shape: sizes.
        generator: an `inputs.random.Generator`.
        rows: batch * next_n.

    Returns:
        q: [rows, num_heads, head_dim] float64. Numbers before the cast to FP8.
        weights: [rows, num_heads] float64. Exact in fp32.
    """
    import torch

    heads, dim = shape.num_heads, shape.head_dim
    normal = generator.normal("q", rows * heads * dim).view(rows, heads, dim)
    weights = generator.normal("weights", rows * heads).view(rows, heads).double() / UNIT
    if kind in ("relu_sparse", "narrow_band", "low_bits"):
        q = (normal.abs().double() + NORMAL_UNIT / 8) / UNIT
        return q, weights if kind == "relu_sparse" else weights.abs() + 1 / UNIT
    if kind in ("beacon_slot", "certified_topk"):
        return _digit_readers(shape, rows)
    if kind == "beacon_scale":
        q = torch.zeros(rows, heads, dim, dtype=torch.float64)
        q[:, :, 0] = 1
        weights = torch.zeros(rows, heads, dtype=torch.float64)
        weights[:, 0] = 1
        return q, weights
    if kind == "beacon_head":
        q = torch.zeros(rows, heads, dim, dtype=torch.float64)
        head = torch.arange(heads)
        q[:, head, head // HEADS_A_GROUP] = 1
        return q, torch.pow(2.0, (head % HEADS_A_GROUP).double()).expand(rows, heads)
    if kind == "exact_int":
        most = max(2048 // heads, 1)
        return _small_integers(normal, dim), generator.integers("weights/int", rows * heads, -most, most + 1).view(rows, heads).double()
    return normal.double() / UNIT, weights


def _digit_readers(shape: Shape, rows: int) -> tuple[Any, Any]:
    """Head h reads dim h, and weighs it 16**h."""
    import torch

    q = torch.zeros(rows, shape.num_heads, shape.head_dim, dtype=torch.float64)
    weights = torch.zeros(rows, shape.num_heads, dtype=torch.float64)
    for digit in range(min(shape.digits, shape.num_heads, shape.head_dim)):
        q[:, digit, digit] = 1
        weights[:, digit] = float(BASE**digit)
    return q, weights


def _small_integers(normal: Any, dim: int) -> Any:
    """Integers in [-a, a] with dim * a**2 at most 8192, so that 13-bit accumulators hold every partial sum."""
    most = max(min(int((8192 / dim) ** 0.5), 8), 1)
    return (normal.long() % (2 * most + 1) - most).double()
