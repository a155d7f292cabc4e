"""Decode indexer logits: each row scores the keys of its request, found through the block table."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import keys, pages, parts, tables, tolerances
from kvcheck.repro.parts import Output, Parts


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: the row's precision model.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    count = [-(-n // case["block_size"]) for n in parts.longest(case)]
    num_blocks = case["num_blocks"] or tables.pool_size(case["block_table"], count)
    slots = num_blocks * case["block_size"]
    sizes, lens = parts.context(case, rows=True)
    share, why = tolerances.logits(precision, case["values"] in keys.EXACT)
    return Parts(
        constants=[
            f"BATCH, NEXT_N, HEADS, DIM, BLOCK_SIZE = {case['batch']}, {case['next_n']}, {case['num_heads']}, {case['head_dim']}, "
            f"{case['block_size']}",
            *sizes,
            f"ROWS, WIDTH, NUM_BLOCKS, PAGE, FP8 = BATCH * NEXT_N, {parts.row_width(case)}, {num_blocks}, BLOCK_SIZE * (DIM + 4), "
            f"torch.float8_{case['kv_dtype']}",
        ],
        inputs=[
            *lens,
            *tables.build(case, count, num_blocks, seed, "BLOCK_SIZE"),
            *tables.lay(case["table_stride"]),
            *pages.build(case, num_blocks),
            pages.shape(),
            *keys.queries(case, slots),
            "q, weights = q.to(FP8).view(BATCH, NEXT_N, HEADS, DIM), weights.float().contiguous()",
        ],
        expected=[
            "want, size = (torch.full((ROWS, WIDTH), fill, dtype=torch.float64) for fill in (-math.inf, 0.0))",
            "for row, length in enumerate(LENGTHS):",
            "    position = torch.arange(length)",
            "    page, offset = block_table[row // NEXT_N, position // BLOCK_SIZE].long(), position % BLOCK_SIZE",
            "    key, scale = codes[page, offset].view(FP8).double(), scales[page, offset].double()",
            "    query, weight = q[row // NEXT_N, row % NEXT_N].double(), weights[row].double()",
            "    want[row, :length] = weight @ torch.relu(query @ key.T * scale)",
            "    size[row, :length] = weight.abs() @ (query.abs() @ key.abs().T * scale)",
            f"tolerance = size * ({share})  # {why}",
        ],
        arguments=("q", "kv_cache", "weights", "context_lens", "block_table"),
        keywords={"max_model_len": "WIDTH", "block_size": "BLOCK_SIZE", "kv_dtype": repr(case["kv_dtype"])},
        outputs=(Output("logits", "(ROWS, WIDTH)", "float32"),),
        check=[
            "inside = torch.arange(WIDTH) < torch.tensor(LENGTHS)[:, None]",
            "wrong = torch.where(inside, ~((logits - want).abs() <= tolerance), (logits != -math.inf) & (logits != FRESH))",
            'show("logits", wrong, want, logits, lambda row, p: ", past the end of the row" if p >= LENGTHS[row] else',
            '     f" block {block_table[row // NEXT_N, p // BLOCK_SIZE]} offset {p % BLOCK_SIZE}, tolerance {tolerance[row, p]:.2g}")',
        ],
    )
