"""Block-table algebra: the cache slot of every token."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import parts, tables
from kvcheck.repro.parts import Output, Parts, literal

PADDING_TOKENS = 3
FIVE_SEVEN_TWO = [5, 7, 2]


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: slots are exact.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    manager, kind = case["manager_block_size"], case["block_table"]
    count = [-(-n // manager) for n in parts.longest(case)]
    names = "MANAGER, KERNEL, STORAGE, PER_STATE"
    values = ", ".join(str(case[f"{name}_block_size"]) for name in ("manager", "kernel", "storage"))
    refused = _refused(case)
    pool = tables.pool_size("shuffled" if kind in ("past_2_31", "sliding_window", "five_seven_two") else kind, count)
    first = "-(-n // MANAGER) // 2 * MANAGER" if kind == "sliding_window" else "0"
    return Parts(
        constants=[
            f"BATCH, NUM_BLOCKS, {names} = {case['batch']}, {pool}, {values}, {case['tokens_per_state']}",
            *parts.context(case)[0],
        ],
        inputs=[
            *_table(case, kind, count, pool, manager, seed),
            f"tokens = [(b, p) for b, n in enumerate(CONTEXT) for p in range({first}, n)] + [(-1, 0)] * {PADDING_TOKENS}",
            "request_ids, positions = torch.tensor(tokens, dtype=torch.int32).T.contiguous()",
        ],
        expected=["want = torch.zeros(len(positions))"]
        if refused
        else [
            "block = block_table[request_ids.long().clamp(min=0), positions.long() // MANAGER].long()",
            "address = block * MANAGER + positions % MANAGER",
            f"asked = (request_ids >= 0){' & ((positions + 1) % PER_STATE == 0)' if case['mapping'] == 'write' else ''}",
            "want = torch.where(asked, address // PER_STATE, -1)",
        ],
        arguments=("block_table", "request_ids", "positions"),
        keywords={
            "manager_block_size": "MANAGER",
            "kernel_block_size": "KERNEL",
            "storage_block_size": "STORAGE",
            "tokens_per_state": "PER_STATE",
            "mapping": repr(case["mapping"]),
        },
        outputs=(Output("slots", "(len(positions),)", "int64"),),
        check=[
            'show("slots", slots != want, want, slots, lambda token:',
            '     f" of request {request_ids[token]}, position {positions[token]}")',
        ],
        facts={"refused": refused},
    )


def _table(case: dict[str, Any], kind: str, count: list[int], pool: int, size: int, seed: int) -> list[str]:
    if kind == "five_seven_two":
        ids = FIVE_SEVEN_TWO + [number for number in range(1, sum(count) + 4) if number not in FIVE_SEVEN_TWO]
        rows = [ids[sum(count[:b]) : sum(count[: b + 1])] for b in range(len(count))]
        return literal("block_table = torch.tensor(", [row + [0] * (max([1, *count]) - len(row)) for row in rows], ", dtype=torch.int32)")
    first, freed = (2**31 // size + 1 if kind == "past_2_31" else 1), kind == "sliding_window"
    return tables.build(case, count, pool, seed, "MANAGER", first, "shuffled" if freed or first > 1 else kind, freed)


def _refused(case: dict[str, Any]) -> str | None:
    """Why a combination of sizes must be refused, or None."""
    manager, kernel, storage = (case[f"{name}_block_size"] for name in ("manager", "kernel", "storage"))
    if manager % kernel or manager % storage or (kernel % storage and storage % kernel):
        return f"manager, kernel and storage blocks of {manager}, {kernel} and {storage} tokens do not divide"
    if storage % case["tokens_per_state"]:
        return f"a storage block of {storage} tokens is not whole states of {case['tokens_per_state']}"
    return None
