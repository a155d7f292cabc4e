"""The gather of index keys: whole requests copied out of the paged cache, codes and scales."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import pages, parts, tables
from kvcheck.repro.parts import Output, Parts

SPARE_ROWS = 5


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: everything is a copy.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    size = case["block_size"]
    count = [-(-n // size) for n in parts.longest(case)]
    num_blocks = case["num_blocks"] or tables.pool_size(case["block_table"], count)
    return Parts(
        constants=[
            f"BATCH, DIM, BLOCK_SIZE, NUM_BLOCKS = {case['batch']}, {case['head_dim']}, {size}, {num_blocks}",
            *parts.context(case)[0],
            f"ROWS, PAGE, FP8 = sum(CONTEXT) + {SPARE_ROWS}, BLOCK_SIZE * (DIM + 4), torch.float8_{case['kv_dtype']}",
        ],
        inputs=[
            *tables.build(case, count, num_blocks, seed, "BLOCK_SIZE"),
            *tables.lay(case["table_stride"]),
            *pages.build({**case, "num_heads": case["head_dim"]}, num_blocks),
            *(pages.shuffle() if case["layout"] == "shuffled" else []),
            "flat = kv_cache",
            pages.shape(),
            "cu_seq_lens = torch.tensor([0, *CONTEXT]).cumsum(0).int()",
            'codes_before = bits("before", ROWS * DIM // 8).view(torch.uint8).view(ROWS, DIM)',
            'scales_before = (normal("before/scale", ROWS) * 128).float()',
        ],
        expected=[
            "want_k, want_scale, dim = codes_before.clone(), scales_before.clone(), torch.arange(DIM)",
            "for b in range(BATCH):",
            "    position = torch.arange(CONTEXT[b])",
            "    page, token = block_table[b, position // BLOCK_SIZE].long()[:, None], position[:, None] % BLOCK_SIZE",
            "    row = cu_seq_lens[b] + position",
            f"    want_k[row] = flat[page, {pages.address(case['layout'])}]",
            "    scale = flat[page, BLOCK_SIZE * DIM + 4 * token + torch.arange(4)]",
            "    want_scale[row] = scale.view(torch.float32).flatten()",
        ],
        arguments=("kv_cache", "block_table", "cu_seq_lens"),
        keywords={"block_size": "BLOCK_SIZE", "kv_dtype": repr(case["kv_dtype"]), "layout": repr(case["layout"])},
        outputs=(
            Output("k", "(ROWS, DIM)", "uint8", "codes_before"),
            Output("k_scale", "(ROWS,)", "float32", "scales_before"),
        ),
        check=[
            'show("k", k != want_k, want_k, k)',
            'show("k_scale", k_scale.view(torch.int32) != want_scale.view(torch.int32), want_scale, k_scale)',
        ],
    )
