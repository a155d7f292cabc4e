"""Checks of a block table's slots: each the right one, and no two tokens in one slot that are not in one state."""

from __future__ import annotations

from typing import Any

import torch

from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first


def premise_slots(evidence: Evidence) -> Finding | None:
    """The reference's own slots are distinct where they must be, and none of them lies in the null block."""
    expected, (state, _) = evidence.expected, _states(evidence)
    asked = expected >= 0
    live = evidence.tensors["request_ids"] >= 0
    if not bool((evidence.tensors["block_table"].shape[1] > _entry(evidence))[live].all()):
        return Finding("invalid_case", "premise_slots", "a token lies past its request's table")
    shared, _ = _clashes(expected, state, asked)
    null = int((_block(evidence)[asked] <= 0).sum())
    if null or shared:
        return Finding(
            "invalid_case", "premise_slots", f"{null} tokens in the null block, {shared} slots of two states: nothing is defined"
        )
    return None


def slots(evidence: Evidence) -> Finding | None:
    """Every token has its own slot, and -1 stands where none is."""
    expected, actual = evidence.expected, evidence.actual
    wrong = actual != expected
    total, asked = len(expected), expected >= 0
    right, of = int((~wrong & asked).sum()), int(asked.sum())
    if of:
        evidence.metrics["slot_match"] = right / of
    else:
        evidence.trivial.append("slot_match")
    count = int(wrong.sum())
    if not count:
        return None
    (index,) = first(wrong)
    message = f"{count} of {total} slots are wrong; {right} of {of} tokens that have a slot are given theirs"
    states = evidence.inputs.scalars["manager_block_size"] // evidence.inputs.scalars["tokens_per_state"]
    null = int((wrong & asked & (actual >= 0) & (actual < states)).sum())
    if null:
        message += f"; {null} are given one of the null block, which every request shares"
    return Finding("mismatch", "slots", message, evidence.output, _place(evidence, index), count, total, _spread(evidence, wrong))


def injective(evidence: Evidence) -> Finding | None:
    """Tokens share a slot only where they share the state: the manager block and the place in it. Needs no reference."""
    state, blocks = _states(evidence)
    given = (evidence.tensors["request_ids"] >= 0) & (evidence.actual >= 0)
    count, pair = _clashes(evidence.actual, state, given)
    evidence.metrics["shared_slots"] = count
    if blocks < 2:
        evidence.trivial.append("shared_slots")
    if pair is None:
        return None
    tensors = evidence.tensors
    names = [
        f"request {int(tensors['request_ids'][at])} position {int(tensors['positions'][at])} (manager block {int(_block(evidence)[at])})"
        for at in pair
    ]
    message = f"{count} slots are given to several states, first slot {int(evidence.actual[pair[0]])}: to {names[0]} and to {names[1]}"
    return Finding("metamorphic", "injective", message, evidence.output, _place(evidence, pair[1]), count, len(state))


def _entry(evidence: Evidence) -> Any:
    return evidence.tensors["positions"].long() // evidence.inputs.scalars["manager_block_size"]


def _block(evidence: Evidence) -> Any:
    """Manager block of every token, as its request's table has it."""
    table = evidence.tensors["block_table"].long()
    return table[evidence.tensors["request_ids"].long().clamp(min=0), _entry(evidence).clamp(max=table.shape[1] - 1)]


def _spread(evidence: Evidence, wrong: Any) -> dict[str, Any]:
    """Which tokens are wrong, and whose manager blocks those are."""
    live = evidence.tensors["request_ids"] >= 0
    block, size = _block(evidence), evidence.inputs.scalars["manager_block_size"]
    pages = {"block_size": size, "pool": None, "blocks": block[wrong & live], "used": block[live]}
    return spread.wrong(evidence, wrong, axes=("", "token"), pages=pages)


def _states(evidence: Evidence) -> tuple[Any, int]:
    """A number of every token's state, equal where block and place in it are equal; how many manager blocks are used."""
    scalars = evidence.inputs.scalars
    place = evidence.tensors["positions"].long() % scalars["manager_block_size"] // scalars["tokens_per_state"]
    names, number = _block(evidence).unique(return_inverse=True)
    return number * scalars["manager_block_size"] + place, len(names)


def _clashes(slot: Any, state: Any, chosen: Any) -> tuple[int, tuple[int, int] | None]:
    """How many slots hold several states, and two tokens of one of them, of different requests' blocks."""
    tokens = chosen.nonzero().flatten()
    tokens = tokens[torch.sort(state[tokens], stable=True).indices]
    tokens = tokens[torch.sort(slot[tokens], stable=True).indices]
    ahead, behind = tokens[:-1], tokens[1:]
    clash = (slot[ahead] == slot[behind]) & (state[ahead] != state[behind])
    if not bool(clash.any()):
        return 0, None
    (at,) = first(clash)
    return len(slot[ahead[clash]].unique()), (int(ahead[at]), int(behind[at]))


def _place(evidence: Evidence, index: int) -> dict[str, Any]:
    """`first_bad` of one token: row is its request, block its entry in the request's table."""
    size, tensors = evidence.inputs.scalars["manager_block_size"], evidence.tensors
    request, position = int(tensors["request_ids"][index]), int(tensors["positions"][index])
    where = {"output": evidence.output, "row": request, "request": request, "position": position, "block": position // size}
    if request >= 0:
        where["block_id"] = int(_block(evidence)[index])
    expected, actual = int(evidence.expected[index]), int(evidence.actual[index])
    return {**where, "offset": position % size, "index": {"token": index}, "expected": expected, "actual": actual, "bound": None}
