"""Top-k of each row: the positions of the k largest logits."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import parts
from kvcheck.repro.parts import NoScript, Output, Parts

POISON = {"zero": "0.0", "nan": "math.nan", "inf": "math.inf", "large": "1e4", "finite_beacon": "1e30"}


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: a selection is exact.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    sizes, lens = parts.context(case, rows=True)
    none = case["poison"] == "none"
    return Parts(
        constants=[
            f"BATCH, NEXT_N, TOPK, WIDTH = {case['batch']}, {case['next_n']}, {case['topk']}, {parts.row_width(case)}",
            *sizes,
        ],
        inputs=[
            *lens,
            f"logits = torch.full((BATCH * NEXT_N, WIDTH), {POISON.get(case['poison'], '0.0')})"
            + ("" if none else "  # what lies past the rows"),
            "for row, length in enumerate(LENGTHS):",
            *(f"    {line}" for line in _row(case["values"], "WIDTH" if none else "length")),
        ],
        expected=[
            "want = torch.full((BATCH * NEXT_N, TOPK), -1)",
            "for row, n in enumerate(LENGTHS):  # the identity where a row is no longer than k; any choice among equals",
            "    kept = min(n, TOPK)",
            "    want[row, :kept] = torch.arange(n) if n <= TOPK else logits[row, :n].topk(TOPK).indices",
        ],
        arguments=("logits", "context_lens"),
        keywords={"topk": "TOPK", "next_n": "NEXT_N"},
        outputs=(Output("topk_positions", "(BATCH * NEXT_N, TOPK)", "int32"),),
        check=[
            "for row, n in enumerate(LENGTHS):",
            "    got, kept = topk_positions[row].tolist(), min(n, TOPK)",
            "    least = logits[row, want[row, kept - 1]] if kept else 0",
            "    missing = {} if n <= TOPK else set((logits[row, :n] > least).nonzero().flatten().tolist()) - set(got)",
            "    seen = set()",
            "    for column, p in enumerate(got):",
            "        legal = p not in seen and 0 <= p < n and (p == column if n <= TOPK else logits[row, p] >= least)",
            "        if not (legal if column < kept else p == -1) or (missing and column == kept - 1):",
            '            lost = f"; {sorted(missing)[:5]} are missing" if missing else ""',
            '            one = f"expected {want[row, column]}" + (", or another as large" if n > TOPK else "")',
            '            sys.exit(f"WRONG topk_positions at [{row}, {column}] of a row of {n}: {one}, got {p}{lost}")',
            "        seen.add(p)",
        ],
    )


def _row(kind: str, count: str) -> list[str]:
    """Lines that fill a row."""
    start = f'stream, count = f"row/{{row}}", {count}'
    band = 'integers(stream + "/band", count, 0, 1024)'
    plain = 'value = normal(stream, count) + integers(stream + "/fraction", count, 0, 65536) / 2**23'
    bits = f"({band} + 0x3F900000).int().view(torch.float32)"
    lines = {
        "gaussian": [plain],
        "heavy_tail": [plain, 'draw = integers(stream + "/tail", count, 1, 4096)', "value = value * (draw & -draw).clamp(max=64)"],
        "relu_sparse": [plain, 'value = torch.where(integers(stream + "/dark", count, 0, 3) == 2, value, 0.0).clamp(min=0)'],
        "ties": [plain, "value = value[torch.arange(count) // 7]"],
        "halves": ['value = integers(stream + "/halves", count, -4, 5) / 2'],
        "narrow_band": [f"value = 1 + {band}.double() / 102400"],
        "low_bits": [f"value = {bits}"],
        "low_bits_below_zero": [f"value = -{bits}"],
        "exact_int": ["value = normal(stream, count) * 128"],
        "certified_topk": ["value = permutation(stream, count)"],
    }.get(kind)
    if lines is None:
        raise NoScript(f"values {kind} have no short form")
    return [start, *lines, "logits[row, :count] = value"]
