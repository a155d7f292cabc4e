"""Functions that scripts define for themselves, as text; `used` picks those that a script calls."""

from __future__ import annotations

import re

HELPERS = {
    "bits": """\
def bits(stream, count):  # the numbers of the run: splitmix64 of (seed, name of the stream, index)
    base = int.from_bytes(hashlib.sha256(f"{SEED}/{stream}".encode()).digest()[:8], "little", signed=True)
    x = torch.arange(count) * -0x61C8864680B583EB + base
    for shift, factor in ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15), (31, 1)):
        x = (x ^ (x >> shift & (1 << 64 - shift) - 1)) * factor
    return x""",
    "normal": """\
def normal(stream, *shape):  # sums of four random bytes: a bell of deviation 1.15
    octets = bits(stream, (math.prod(shape) + 1) // 2).view(torch.uint8).view(-1, 4)
    return (octets.sum(1) - 510)[: math.prod(shape)].view(shape).double() / 128""",
    "integers": """\
def integers(stream, count, low, high):
    return ((bits(stream, count) >> 32 & 0xFFFFFFFF) * (high - low) >> 32) + low""",
    "permutation": """\
def permutation(stream, count):
    return bits(stream, count).sort(stable=True).indices""",
    "power_of_two": """\
def power_of_two(scale):  # the next one
    mantissa, exponent = torch.frexp(scale.double())
    return torch.ldexp(torch.ones_like(mantissa), exponent - (mantissa == 0.5).int())""",
    "fp8": """\
def fp8(x):  # the nearest; a cast alone would round to fp32 first
    step = torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent.clamp(min=LEAST) - 4)
    return ((x / step).round() * step).to(FP8)""",
    "scratch": """\
def scratch(shape, dtype, fill=None):  # holds something, as fresh memory does
    return torch.full(shape, 99 if fill is None else fill, dtype=dtype)""",
    "guarded": """\
def guarded(shape, dtype, fill=None):  # a tensor with known bytes before and after it
    size = math.prod(shape) * dtype.itemsize
    memories.append(torch.full((GUARD + size + GUARD,), 0x5A, dtype=torch.uint8))
    tensor = memories[-1][GUARD : GUARD + size].view(dtype).view(shape)
    return tensor if fill is None else tensor.fill_(fill)""",
    "show": """\
def show(output, wrong, want, got, note=lambda *at: ""):  # the first wrong element
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        count = f"{int(wrong.sum())} of {wrong.numel()} wrong"
        sys.exit(f"WRONG {output} at {list(at)}{note(*at)}: expected {want[at].item()}, got {got[at].item()}; {count}")""",
}

BEFORE = {
    "guarded": ["GUARD, memories = 1 << 14, []"],
}
"""What a function needs beside it."""


def used(body: str) -> list[str]:
    """The functions that a text calls, and those that they call, in an order in which they can stand."""
    wanted: set[str] = set()
    text = body
    while new := {name for name in HELPERS if name not in wanted and re.search(rf"\b{name}\(|alloc={name}\b", text)}:
        wanted |= new
        text = "\n".join(HELPERS[name] for name in new)
    return [name for name in HELPERS if name in wanted]
