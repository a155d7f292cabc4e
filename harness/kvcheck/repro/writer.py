"""What a key writer is given, as code: `agent/inputs/writer_keys.py` and `slot_mapping.py`."""

from __future__ import annotations

from kvcheck.repro.parts import NoScript


def pool_size(kind: str, tokens: int, block_size: int) -> int:
    """Pages in the pool where the case does not say."""
    need = -(-tokens // block_size)
    return 2 * need + 3 if kind == "high_ids" else need + 3 + need // 8


def slots(kind: str) -> list[str]:
    """Lines that make `slot_mapping` [TOKENS] int64.

    Raises:
        NoScript: a kind that is not known here.
    """
    pool = "NUM_BLOCKS * BLOCK_SIZE"
    lines = {
        "consecutive": ["slot_mapping = torch.arange(TOKENS)"],
        "all_padding": ["slot_mapping = torch.full((TOKENS,), -1)"],
        "scattered": [f'slot_mapping = permutation("slots", {pool})[:TOKENS].clone()'],
        "padded": [f'slot_mapping = permutation("slots", {pool})[:TOKENS].clone()', "slot_mapping[2::3] = -1"],
        "high_ids": [f'slot_mapping = permutation("slots", TOKENS) + {pool} - TOKENS'],
        "pages": [
            'page = permutation("slots", NUM_BLOCKS)[:, None] * BLOCK_SIZE',
            "slot_mapping = (page + torch.arange(BLOCK_SIZE)).flatten()[:TOKENS].contiguous()",
        ],
    }.get(kind)
    if lines is None:
        raise NoScript(f"slots {kind} have no short form")
    return lines


def keys(kind: str) -> list[str]:
    """Lines that make `k` [TOKENS, DIM] bfloat16.

    Raises:
        NoScript: values that are not known here.
    """
    plain = 'k = normal("k", TOKENS, DIM)'
    lines = {
        "gaussian": [plain],
        "heavy_tail": [
            'draw = integers("k/tail", TOKENS * DIM, 1, 4096).view(TOKENS, DIM)',
            f"{plain} * (draw & -draw).clamp(max=64)",
        ],
        "decades": [plain, 'k = torch.ldexp(k, integers("k/decades", TOKENS, -100, 101)[:, None].int())'],
        "exact_int": [f"{plain} * 128 % 17 - 8"],
        "edges": [
            plain,
            "turn, lane = torch.arange(TOKENS) % 8, torch.arange(DIM)",
            "sign = torch.where(lane % 2 == 0, 1.0, -1.0).double()",
            "k[turn == 0], k[turn == 1] = 0.0, -0.0",
            "k[turn == 2] = sign * (lane % 127 + 1) * 2.0**-133  # subnormal",
            "k[turn == 3] *= 1e-5",
            "k[turn == 4] = sign * 3.3895313892515355e38 / (lane + 1)  # down from the largest bf16",
            "k[turn == 5] = torch.where(lane == DIM // 2, -1e4, 0.0).double()",
            "k[turn == 6] = sign * 1.75 * 2.0 ** (8 - lane // 2)",
            "k[turn == 7] = torch.where(lane == 0, 1e-4, -1e-4).double() / (lane + 1)",
        ],
        "midpoints": [
            'amax = integers("k/amax", TOKENS, 128, 256)[:, None].double() / 16',
            'odd = integers("k/middle", TOKENS * DIM, 8, 16).view(TOKENS, DIM).double() * 2 + 1',
            'power = integers("k/power", TOKENS * DIM, -11, 4).view(TOKENS, DIM).int()',
            'sign = integers("k/sign", TOKENS * DIM, 0, 2).view(TOKENS, DIM) * 2 - 1',
            "k = torch.ldexp(amax * odd * sign / DIVISOR, power)  # on and beside the middle between two codes",
            "k = torch.minimum(torch.maximum(k, -amax), amax)",
            "k[:, :1] = amax",
        ],
    }.get(kind)
    if lines is None:
        raise NoScript(f"values {kind} have no short form")
    return [*lines, "k = k.bfloat16()"]
