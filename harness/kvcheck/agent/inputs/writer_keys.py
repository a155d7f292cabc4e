"""Keys before they are quantised: bf16 numbers that reach every corner of a quantiser."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs.keys import UNIT

SPEC = {
    "choices": {
        "gaussian": {"doc": "normal keys (sums of four random bytes)"},
        "heavy_tail": {"doc": "normal values times 2**g, g geometric: a few channels decide the scale"},
        "decades": {"doc": "normal keys times 2**j, j in -100..100 drawn per token: scales on both sides of the floor"},
        "midpoints": {"doc": "quotients on and beside the middle between two codes, where rounding is decided by the last bit"},
        "edges": {
            "doc": "in turn: a zero row, -0.0, subnormal bf16, a row below the amax floor, the largest bf16, one spike, powers of two down "
            "through the subnormal codes of both signs, and a row at the floor itself"
        },
        "exact_int": {"doc": "integers from -8 to 8"},
    }
}

LARGEST = 3.3895313892515355e38
"""Largest bf16 number."""


def build(kind: str, tokens: int, head_dim: int, divisor: int, generator: Any) -> Any:
    """Keys of a step.

    Args:
        kind: a choice of SPEC.
        tokens: how many.
        head_dim: numbers a key.
        divisor: largest code that the quantiser scales to.
        generator: an `inputs.random.Generator`.

    Returns:
        k: [tokens, head_dim] bfloat16. Finite.
    """
    import torch

    normal = generator.normal("k", tokens * head_dim).view(tokens, head_dim).double() / UNIT
    if kind == "heavy_tail":
        draw = generator.integers("k/tail", tokens * head_dim, 1, 1 << 12).view(tokens, head_dim)
        normal = normal * (draw & -draw).clamp(max=64).double()
    elif kind == "decades":
        normal = torch.ldexp(normal, generator.integers("k/decades", tokens, -100, 101)[:, None].int())
    elif kind == "midpoints":
        normal = _midpoints(tokens, head_dim, divisor, generator)
    elif kind == "exact_int":
        normal = (generator.normal("k", tokens * head_dim).view(tokens, head_dim) % 17 - 8).double()
    elif kind == "edges":
        normal = _edges(normal)
    return normal.to(torch.bfloat16)


def _midpoints(tokens: int, dim: int, divisor: int, generator: Any) -> Any:
    """x = amax * middle / divisor, as near as bf16 comes: with a mantissa of amax that no power of two divides."""
    import torch

    amax = generator.integers("k/amax", tokens, 128, 256).double() / 16
    odd = generator.integers("k/middle", tokens * dim, 8, 16).view(tokens, dim) * 2 + 1
    power = generator.integers("k/power", tokens * dim, -11, 4).view(tokens, dim)
    sign = generator.integers("k/sign", tokens * dim, 0, 2).view(tokens, dim) * 2 - 1
    numbers = torch.ldexp(amax[:, None] * odd.double() * sign / divisor, power.int())
    numbers = torch.minimum(torch.maximum(numbers, -amax[:, None]), amax[:, None])
    numbers[:, 0] = amax
    return numbers


def _edges(normal: Any) -> Any:
    import torch

    numbers = normal.clone()
    turn = torch.arange(len(numbers)) % 8
    lane = torch.arange(numbers.shape[1])
    sign = torch.where(lane % 2 == 0, 1.0, -1.0).double()
    numbers[turn == 0] = 0.0
    numbers[turn == 1] = -0.0
    numbers[turn == 2] = sign * (lane % 127 + 1) * 2.0**-133
    numbers[turn == 3] = normal[turn == 3] * 1e-5
    numbers[turn == 4] = sign * LARGEST / (lane + 1)
    numbers[turn == 5] = torch.where(lane == len(lane) // 2, -1e4, 0.0).double()
    numbers[turn == 6] = sign * 1.75 * torch.pow(2.0, (8 - lane // 2).double())
    numbers[turn == 7] = torch.where(lane == 0, 1e-4, -1e-4).double() / (lane + 1)
    return numbers
