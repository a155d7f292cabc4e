"""The key writer: quantises new keys and writes them into their slots."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import keys, pages, reduced, writer
from kvcheck.repro.parts import NoScript, Output, Parts


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: what an fp32 quotient may be is part of the op.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    tokens, size, dtype = case["tokens"], case["block_size"], case["kv_dtype"]
    num_blocks = case["num_blocks"] or writer.pool_size(case["slots"], tokens, size)
    pitch = "PAGE" if case["cache"] == "contiguous" else pages.PITCH.get(case["cache"])
    if pitch is None:
        raise NoScript(f"cache {case['cache']} has no short form")
    apart = case["cache"] != "contiguous"
    view = "whole[:, :PAGE].unflatten(1, (BLOCK_SIZE, 1, DIM + 4))"
    exact = case["scale_format"] == "ue8m0"
    amax = "(numbers.abs().amax(1).clamp(min=torch.tensor(1e-4).double().item()) / DIVISOR).float()"
    return Parts(
        constants=[
            f"TOKENS, DIM, BLOCK_SIZE, NUM_BLOCKS, DIVISOR = {tokens}, {case['head_dim']}, {size}, {num_blocks}, {case['divisor']}",
            f"PAGE, FP8, LARGEST = BLOCK_SIZE * (DIM + 4), torch.float8_{dtype}, {keys.LARGEST[dtype]}",
        ],
        inputs=[
            *writer.keys(case["values"]),
            *(["n = TOKENS", *reduced.gone(case), "k[gone] = 0"] if reduced.gone(case) else []),
            *writer.slots(case["slots"]),
            f"before = {pages.random_bytes('before')}",
            *(
                [f"before = torch.nn.functional.pad(before, (0, {pitch} - PAGE), value={pages.GAP})  # bytes between pages"]
                if apart
                else []
            ),
        ],
        expected=[
            "slots, numbers = slot_mapping[slot_mapping >= 0], k[slot_mapping >= 0].double()",
            f"scale = {amax}",
            *(["scale = power_of_two(scale).float()  # ue8m0"] if exact else []),
            "page, token, dim = (slots // BLOCK_SIZE)[:, None], (slots % BLOCK_SIZE)[:, None], torch.arange(DIM)",
            "",
            "def cache_with(scale, factor=1.0):  # the cache with codes of the nearest numbers to k / scale * factor",
            "    code = (numbers / scale.double()[:, None] * factor).clamp(-LARGEST, LARGEST).to(FP8)",
            "    cache = before.clone()",
            f"    cache[page, {pages.address(case['layout'])}] = code.view(torch.uint8)",
            "    cache[page, BLOCK_SIZE * DIM + 4 * token + torch.arange(4)] = scale.view(torch.uint8).view(-1, 4)",
            "    return cache",
            "",
            "want = cache_with(scale)",
        ],
        arguments=("k", "slot_mapping"),
        keywords={
            "block_size": "BLOCK_SIZE",
            "kv_dtype": repr(dtype),
            "scale_format": repr(case["scale_format"]),
            "divisor": "DIVISOR",
            "layout": repr(case["layout"]),
        },
        outputs=(Output("kv_cache", "before.shape", "uint8", "before", view),),
        check=[
            *([] if exact else _either()),
            "code_of = torch.zeros_like(before)",
            f"code_of[page, {pages.address(case['layout'])}] = 1",
            f"wrong = {'whole != want' if exact else '(whole != low) & (whole != high)'}",
            'show("kv_cache", wrong, want, whole, lambda block, byte:',
            '     " a scale" if BLOCK_SIZE * DIM <= byte < PAGE else " between pages" if byte >= PAGE else',
            '     f" a code" if code_of[block, byte] else " a byte that had to stay")',
        ],
    )


def _either() -> list[str]:
    return [
        "mine = whole[page, BLOCK_SIZE * DIM + 4 * token + torch.arange(4)].view(torch.float32).flatten()",
        "mine = torch.where((mine - scale).abs() <= scale * 2**-22, mine, scale)  # two ulp for an fp32 division",
        "low, high = cache_with(mine, 1 - 2**-22), cache_with(mine, 1 + 2**-22)  # so with a quotient",
    ]
