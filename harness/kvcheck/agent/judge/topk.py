"""Checks of a selection: the top-k that logits lead to, and the positions that a top-k kernel returns.

A set S of k positions can come from a correct kernel iff min over S of (L + B) >= max over the rest of (L - B). The raw
set match is printed beside the level that a random selection would reach: 2048 of 2049 match at 0.9995 by chance.
"""

from __future__ import annotations

from typing import Any

import torch

from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.reproducer import fp32_logits

FILLER = -1e30
"""What quick reproducers put for non-finite logits; used for `topk_positional_match` alone, to show what they print."""

ROWS_AT_ONCE = 1 << 24
METRICS = ("topk_set_match", "topk_set_match_chance", "topk_set_match_corrected", "topk_tie_aware_match", "topk_positional_match")


def topk_of_logits(evidence: Evidence) -> Finding | None:
    """The k largest logits of every row that is longer than k are a set that a correct kernel can select."""
    k = evidence.case["topk"]
    actual = evidence.actual.double().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    _positional(evidence, k)
    rows = (evidence.row_lengths > k).nonzero().flatten()
    if not len(rows):
        evidence.trivial += METRICS
        return None
    wrong, sums, first_bad = 0, torch.zeros(3, dtype=torch.float64), None
    misplaced = torch.zeros(actual.shape, dtype=torch.bool)
    step = max(ROWS_AT_ONCE // actual.shape[1], 1)
    for part in rows.split(step):
        lengths = evidence.row_lengths[part]
        inside = torch.arange(actual.shape[1], device=part.device) < lengths[:, None]
        low = evidence.expected[part] - evidence.bound[part]
        high = evidence.expected[part] + evidence.bound[part]
        picked = largest(actual[part], inside, k)
        wanted = largest(evidence.expected[part], inside, k)
        mask = torch.zeros_like(inside).scatter_(1, picked, True)
        reach = torch.where(inside, low, -torch.inf).topk(k, 1).values[:, -1:]
        legal = high.gather(1, picked) >= reach
        worst_in = torch.where(mask, high, torch.inf).amin(1)
        best_out = torch.where(inside & ~mask, low, -torch.inf).amax(1)
        bad = worst_in < best_out
        sums += torch.stack([_overlap(mask, wanted), (k / lengths).double().sum().cpu(), legal.double().mean(1).sum().cpu()])
        if bool(bad.any()) and first_bad is None:
            first_bad = _first_wrong(evidence, part, bad, mask, high, low)
        if bool(bad.any()):
            taken, left = mask & (high < best_out[:, None]), inside & ~mask & (low > worst_in[:, None])
            misplaced[part.cpu()] = (taken | left).cpu()
        wrong += int(bad.sum())
    match, chance, tie_aware = (sums / len(rows)).tolist()
    evidence.metrics.update(_set_metrics(match, chance), topk_tie_aware_match=tie_aware)
    if not wrong:
        return None
    found = {**spread.wrong(evidence, misplaced), "output": "topk_positions"}
    message = f"{wrong} of {len(rows)} rows longer than {k} select a set outside the tie band; set match {match:.4f}, chance {chance:.4f}"
    return Finding("wrong_topk", "topk_of_logits", message, "topk_positions", first_bad, wrong, len(rows), found)


def topk_positions(evidence: Evidence) -> Finding | None:
    """Positions in range and distinct, -1 only in the tail, the identity in short rows, the largest values in long ones."""
    k = evidence.case["topk"]
    logits, lengths, chosen = evidence.tensors["logits"], evidence.row_lengths, evidence.actual.long()
    wanted = evidence.expected.long()
    count = lengths.clamp(max=k)
    lane = torch.arange(k, device=chosen.device)
    live = lane < count[:, None]
    ranged = (chosen >= 0) & (chosen < lengths[:, None])
    bad = torch.where(live, ~ranged, chosen != -1)
    ordered, order = torch.where(live & ranged, chosen, -1 - lane).sort(1)
    twice = torch.zeros_like(bad)
    twice[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    bad |= torch.zeros_like(bad).scatter_(1, order, twice)
    short = lengths <= k
    bad |= short[:, None] & live & (chosen != wanted)
    safe = chosen.clamp(0, logits.shape[1] - 1)
    value = torch.where(live & ranged, logits.gather(1, safe), torch.nan)
    best = logits.gather(1, wanted.clamp(min=0))
    floor = torch.where(live, best, torch.inf).amin(1, keepdim=True)
    legal = live & ~bad & (value >= floor)
    spent = ~short & ~bad.any(1) & (_sorted_values(value, live) != _sorted_values(best, live)).any(1)
    bad |= spent[:, None] & live & ~legal
    _positions_metrics(evidence, lengths, chosen, wanted, live, legal, k)
    rows = bad.any(1) | spent
    if not bool(rows.any()):
        return None
    row = int(torch.argmax(rows.to(torch.uint8)))
    column = int(torch.argmax(bad[row].to(torch.uint8)))
    why = _why(evidence, row, column, value, bool(bad[row, column]))
    message = f"{int(rows.sum())} of {len(rows)} rows wrong; row {row} ({int(lengths[row])} positions, k {k}): {why}"
    where = {**evidence.place(row, column, int(wanted[row, column]), int(chosen[row, column])), "block": None, "offset": None}
    found = spread.wrong(evidence, bad, axes=("row", "entry"))
    return Finding("wrong_topk", "topk_positions", message, evidence.output, where, int(bad.sum()), bad.numel(), found)


def largest(values: Any, inside: Any, k: int) -> Any:
    """Positions of the k largest values of each row, lowest position first among equals.

    Args:
        values: [rows, columns] float. No NaN where `inside`.
        inside: [rows, columns] bool. A prefix of each row, at least k long.
        k: how many.

    Returns:
        positions: [rows, k] int64.
    """
    return torch.where(inside, values.double(), -torch.inf).sort(dim=1, descending=True, stable=True).indices[:, :k]


def _overlap(mask: Any, wanted: Any) -> Any:
    return mask.gather(1, wanted).double().mean(1).sum().cpu()


def _set_metrics(match: float, chance: float) -> dict[str, float]:
    corrected = (match - chance) / (1 - chance) if chance < 1 else 1.0
    return {"topk_set_match": match, "topk_set_match_chance": chance, "topk_set_match_corrected": corrected}


def _positional(evidence: Evidence, k: int) -> None:
    """The quick reproducer's number: sorted index lists of whole rows compared position by position, min(k, context) of them."""
    total, rows = 0.0, 0
    inside = evidence.inside()
    expected = evidence.expected
    if not bool(torch.isfinite(expected[inside]).all()):
        expected = fp32_logits(evidence)
    for row, length in enumerate(evidence.row_lengths.tolist()):
        if length:
            sides = [
                _filled(side[row], inside[row]).sort(descending=True, stable=True).indices[: min(k, length)].sort().values
                for side in (evidence.actual, expected)
            ]
            total, rows = total + float((sides[0] == sides[1]).double().mean()), rows + 1
    if rows:
        evidence.metrics["topk_positional_match"] = total / rows


def _filled(row: Any, inside: Any) -> Any:
    return torch.where(torch.isfinite(row) & inside, row.double(), FILLER)


def _first_wrong(evidence: Evidence, part: Any, bad: Any, mask: Any, high: Any, low: Any) -> dict[str, Any]:
    row = int(torch.argmax(bad.to(torch.uint8)))
    position = int(torch.where(mask[row], high[row], torch.inf).argmin())
    source = int(part[row])
    where = evidence.place(source, position, float(evidence.expected[source, position]), float(evidence.actual[source, position]))
    return {**where, "output": "topk_positions", "bound": float(evidence.bound[source, position])}


def _sorted_values(values: Any, live: Any) -> Any:
    return torch.where(live, values + 0.0, -torch.inf).sort(1, descending=True).values


def _positions_metrics(evidence: Evidence, lengths: Any, chosen: Any, wanted: Any, live: Any, legal: Any, k: int) -> None:
    long_rows = lengths > k
    if not bool(long_rows.any()):
        evidence.trivial += METRICS
        return
    width = evidence.tensors["logits"].shape[1]
    mask = torch.zeros(int(long_rows.sum()), width + 1, dtype=torch.bool, device=chosen.device)
    picked = chosen[long_rows]
    mask.scatter_(1, torch.where((picked >= 0) & (picked < width), picked, width), True)
    match = float(_overlap(mask, wanted[long_rows])) / len(mask)
    evidence.metrics.update(_set_metrics(match, float((k / lengths[long_rows]).double().mean())))
    evidence.metrics["topk_tie_aware_match"] = float(legal[long_rows].double().mean())
    positional = picked.sort(1).values == wanted[long_rows].sort(1).values
    evidence.metrics["topk_positional_match"] = float(positional.double().mean())


def _why(evidence: Evidence, row: int, column: int, value: Any, wrong: bool) -> str:
    chosen, length = int(evidence.actual[row, column]), int(evidence.row_lengths[row])
    if column >= min(length, evidence.case["topk"]):
        return f"entry {column} is {chosen}, where only the padding -1 may stand"
    if not 0 <= chosen < length:
        return f"entry {column} is {chosen}, out of range"
    if int((evidence.actual[row] == chosen).sum()) > 1:
        return f"entry {column} is {chosen}, which stands there twice"
    if length <= evidence.case["topk"]:
        return f"entry {column} is {chosen}; a row not longer than k is the identity"
    if not wrong:
        return "every entry reaches the k-th largest value, but a larger one was left out"
    return f"entry {column} is {chosen} with value {float(value[row, column]):.9g}, below the k-th largest"
