"""The paged index-K cache as code: tokens quantised and written through `block_table`, poison elsewhere."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import keys, reduced
from kvcheck.repro.parts import NoScript

PITCH = {"pitched": "PAGE + 64", "strided": "2 * PAGE"}
GAP = "0x5A"


def room(kind: str, content: str) -> list[str]:
    """Lines that make `kv_cache` [NUM_BLOCKS, PAGE] uint8, whose pages may lie apart.

    Args:
        kind: the `cache` axis.
        content: expression of its bytes, or "" where they are written later.
    """
    if kind == "contiguous":
        return [f"kv_cache = {content or 'torch.zeros(NUM_BLOCKS, PAGE, dtype=torch.uint8)'}"]
    if kind not in PITCH:
        raise NoScript(f"cache {kind} has no short form")
    lines = [f"kv_cache = torch.full((NUM_BLOCKS, {PITCH[kind]}), {GAP}, dtype=torch.uint8)[:, :PAGE]  # pages lie apart"]
    return lines + [f"kv_cache[:] = {content or '0'}"]


def random_bytes(stream: str) -> str:
    """Expression of [NUM_BLOCKS, PAGE] random bytes."""
    return f'bits("{stream}", NUM_BLOCKS * PAGE // 8 + 1).view(torch.uint8)[: NUM_BLOCKS * PAGE].view(NUM_BLOCKS, -1)'


def build(case: dict[str, Any], num_blocks: int) -> list[str]:
    """Lines that make `kv_cache` [NUM_BLOCKS, PAGE] and its views `codes` and `scales`.

    Args:
        case: resolved params: values, scale, kv_dtype, poison, cache, head_dim, num_heads, block_size.
        num_blocks: pages in the pool.
    """
    views = [
        "codes = kv_cache[:, : BLOCK_SIZE * DIM].unflatten(1, (BLOCK_SIZE, DIM))  # token after token",
        "scales = kv_cache[:, BLOCK_SIZE * DIM :].view(torch.float32)  # behind them",
    ]
    if case["values"] == "random_bytes":
        return room(case["cache"], random_bytes("random_bytes")) + views
    body = keys.tokens(case, num_blocks * case["block_size"])
    lines = room(case["cache"], "") + views
    spare = case["poison"] == "none"
    if spare:  # spare slots hold tokens like any others
        turns = '("spare", *reversed(range(BATCH)))'
        head = [
            'n, stream = NUM_BLOCKS * BLOCK_SIZE if b == "spare" else CONTEXT[b], f"keys/{b}"',
            "page = torch.arange(n) // BLOCK_SIZE",
            'page, offset = page if b == "spare" else block_table[b, page].long(), torch.arange(n) % BLOCK_SIZE',
        ]
    else:
        turns = "reversed(range(BATCH))"
        head = [
            'n, stream = CONTEXT[b], f"keys/{b}"',
            "page, offset = block_table[b, torch.arange(n) // BLOCK_SIZE].long(), torch.arange(n) % BLOCK_SIZE",
        ]
    if not spare and case["poison"] != "zero":
        lines += [keys.poisoned(case["poison"], case["kv_dtype"])]
    decades = 'stream.replace("spare", "-1") + "/decades"' if spare else 'stream + "/decades"'
    body = [line.replace("decades, ", f"{decades}, ") for line in body]
    if any("slots" in line for line in body) and not reduced.empty(case):
        head += ["slots = page * BLOCK_SIZE + offset"]
    store = "codes[page, offset], scales[page, offset] = code.view(torch.uint8), scale"
    gone = reduced.gone(case, "BLOCK_SIZE")
    if gone and reduced.empty(case):
        body, gone, store = [], [], "codes[page, offset], scales[page, offset] = 0, 1  # every key is zero"
    elif gone:
        gone += ["code.view(torch.uint8)[gone], scale[gone] = 0, 1"]
    every = [*head, *body, *gone, store]
    return [*lines, f"for b in {turns}:", *("    " + line for line in every)]


def shuffle() -> list[str]:
    """Lines that put the codes of each page in tiles of 16 tokens by 16 bytes."""
    return [
        "tiles = codes.reshape(NUM_BLOCKS, BLOCK_SIZE // 16, 16, DIM // 16, 16).transpose(2, 3)",
        "codes[:] = tiles.reshape(codes.shape)  # 16 tokens by 16 bytes each",
    ]


def shape() -> str:
    """The line that gives the cache the four dimensions that kernels take."""
    return "kv_cache = kv_cache.unflatten(1, (BLOCK_SIZE, 1, DIM + 4))"


def address(layout: str) -> str:
    """Where the code of (token, dim) lies in its page, as an expression."""
    if layout == "shuffled":
        return "token // 16 * 16 * DIM + dim // 16 * 256 + token % 16 * 16 + dim % 16"
    return "token * DIM + dim"
