"""Value distributions of the queries and the latents of MLA: which faults can show themselves.

Coded attention (NUMERICS 6): 64 dims of a key hold two digits of its group in base 32, 16.0 everywhere but 0 at the digits; a query
holds -256 at the digits of the group that its head reads. The score is 0 inside the group and at most -4096 * softmax_scale outside,
so that every weight is exactly 0 or 1 whatever exponential, rescaling, split or format of P a kernel has; V holds small positive
integers and a group 2**i tokens, so that the answer is exact in every order. One token that is wrong among 65,536 changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SPEC = {
    "choices": {
        "gaussian": {"doc": "normal queries and latents (sums of four random bytes): the realistic run"},
        "heavy_tail": {"doc": "normal latents times 2**g, g geometric: a few tokens dominate"},
        "sink": {"doc": "the first token takes nearly all of the weight, as attention sinks do: score errors dominate"},
        "flat": {"doc": "every token has the same score: out is the mean of V, lse the logarithm of the length"},
        "coded_attention": {
            "doc": "each head attends to one coded group of tokens, exactly: bitwise verdicts; the code is in the last 64 dims",
            "needs": {"head_dim": 80},
        },
        "coded_latent": {
            "doc": "coded attention with the code in the first 64 dims of the latent: the other part of the score",
            "needs": {"head_dim": 80},
        },
    }
}

CODED = frozenset({"coded_attention", "coded_latent"})
"""Values whose outputs are exact in every order, so that a verdict is bitwise."""

UNIT = 128.0
BASE = 32
GROUPS = BASE * BASE
LARGEST_GROUP = 64
LEAST_SCALE = 0.03
"""From this softmax_scale on, exp(-4096 * softmax_scale) is 0 in fp32."""


@dataclass(frozen=True)
class Code:
    """Who reads what in one request.

    Attributes:
        group: [tokens] int64. Group of each token, -1 for none.
        read: [next_n, num_heads] int64. Group that each head reads.
        largest: largest integer of V.
    """

    group: Any
    read: Any
    largest: int


def latents(kind: str, dim: int, generator: Any, stream: str, start: int, count: int, code: Code | None = None) -> Any:
    """Latents of consecutive tokens of one request.

    Args:
        kind: a choice of SPEC.
        dim: dims of a latent, the rotated ones included.
        generator: an `inputs.random.Generator`.
        stream: name of the request's stream.
        start: position of the first token.
        count: tokens.
        code: the request's code, for coded kinds.

    Returns:
        numbers: [count, dim] float64. Before they are written in the cache's format.
    """
    import torch

    if kind in CODED:
        numbers = generator.integers(stream, count * dim, 1, code.largest + 1, start * dim).view(count, dim).double()
        first = _code_at(kind, dim)
        group = code.group[start : start + count]
        numbers[:, first : first + 2 * BASE] = 16
        for digit in (group // BASE, BASE + group % BASE):
            numbers[(group >= 0).nonzero().flatten(), first + digit[group >= 0]] = 0
        return numbers
    numbers = generator.normal(stream, count * dim, start * dim).view(count, dim).double() / UNIT
    if kind == "heavy_tail":
        draw = generator.integers(f"{stream}/tail", count, 1, 1 << 12, start)
        numbers *= (draw & -draw).clamp(max=16).double()[:, None]
    elif kind == "sink":
        numbers[:, 0] = 0
        if start == 0 and count:
            numbers[0, 0] = 32
    elif kind == "flat":
        numbers[:, 0] = 1
    elif kind != "gaussian":
        raise ValueError(f"no latents of {kind}")
    return numbers if not isinstance(numbers, torch.Tensor) else numbers.contiguous()


def queries(kind: str, next_n: int, heads: int, dim: int, generator: Any, request: int, code: Code | None = None) -> Any:
    """Queries of one request.

    Args:
        kind: a choice of SPEC.
        next_n: query tokens.
        heads: query heads.
        dim: dims of a query.
        generator: an `inputs.random.Generator`.
        request: number of the request.
        code: the request's code, for coded kinds.

    Returns:
        numbers: [next_n, heads, dim] float64.
    """
    import torch

    if kind in CODED:
        numbers = torch.zeros(next_n, heads, dim, dtype=torch.float64)
        first = _code_at(kind, dim)
        numbers.scatter_(2, (first + code.read // BASE)[..., None], -256.0)
        numbers.scatter_(2, (first + BASE + code.read % BASE)[..., None], -256.0)
        return numbers
    count = next_n * heads * dim
    numbers = generator.normal("q", count, request * count).view(next_n, heads, dim).double() / UNIT
    if kind == "flat":
        numbers[..., 1:] = 0
    elif kind == "sink":
        numbers[..., 0] = 16
    return numbers


def code(attended: Any, tokens: int, limits: list[int], heads: int, most: int, generator: Any, request: int) -> Code:
    """The code of one request.

    Args:
        attended: [n] int64. Distinct tokens that the last row attends to, in order.
        tokens: tokens that the request owns.
        limits: how many of them each row sees.
        heads: query heads.
        most: largest integer that the cache's format holds exactly, with all below it.
        generator: an `inputs.random.Generator`.
        request: number of the request.

    Conventions:
        Groups lie among the tokens that every row sees, as large as lets the heads read all of them. Later tokens carry codes that
        the first row reads and no row that sees them does; tokens that are not attended to carry codes that heads read.

    Raises:
        ValueError: more groups than codes.
    """
    import torch

    common = min(limits)
    group = torch.full((tokens,), -1, dtype=torch.int64)
    if common == 0:  # rows that see nothing: every token a group of its own
        seen = attended[: min(max(limits), GROUPS)]
        group[seen] = torch.arange(len(seen))
        read = torch.tensor([[head % max(min(limit, len(seen)), 1) for head in range(heads)] for limit in limits])
        return Code(group, read, min(256, most))
    size = 1
    while common // size > heads and size < LARGEST_GROUP:
        size *= 2
    groups = common // size
    if groups > GROUPS or (groups == GROUPS and common > groups * size):
        raise ValueError(f"{common} tokens make {groups} groups of {size}, more than {GROUPS} codes")
    order = generator.permutation(f"code/{request}/groups", groups)
    half = groups // 2 if len(limits) > 1 else 0
    # The first row reads the first half where there are other rows; they read the second.
    parts = [order[:half] if half and j == 0 else order[half:] for j in range(len(limits))]
    read = torch.stack([part[(torch.arange(heads) + j * heads) % len(part)] for j, part in enumerate(parts)])
    spare = read[0] if half or len(limits) == 1 else torch.tensor([-1])
    group[:] = spare[torch.arange(tokens) % len(spare)]
    rank = generator.permutation(f"code/{request}/tokens", common)
    group[attended[:common]] = torch.where(rank < groups * size, rank % groups, -1)
    if groups == 1 and len(limits) > 1:
        group[attended[common:]] = -1
    return Code(group, read, min(256 // size, most))


def _code_at(kind: str, dim: int) -> int:
    return dim - 2 * BASE if kind == "coded_attention" else 0
