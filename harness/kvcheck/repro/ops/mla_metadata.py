"""The lists that an MLA kernel reads its pages through."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import parts, tables
from kvcheck.repro.parts import Output, Parts


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: lists are exact.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    size = case["block_size"]
    count = [-(-n // size) for n in parts.longest(case)]
    sizes, lens = parts.context(case)
    pool = tables.pool_size(case["block_table"], count)
    return Parts(
        constants=[
            f"BATCH, BLOCK_SIZE, PAGE_SIZE, NUM_BLOCKS = {case['batch']}, {size}, {case['page_size']}, {pool}",
            f"SPLITS, GRANULARITY = {case['num_splits']}, {case['split_granularity']}",
            *sizes,
        ],
        inputs=[
            *lens,
            *tables.build(case, count, pool, seed, "BLOCK_SIZE"),
        ],
        expected=[
            "lists, splits, last = [], [0], []",
            "for b, n in enumerate(CONTEXT):",
            "    token = torch.arange(0, n, PAGE_SIZE)",
            "    block = block_table[b, token // BLOCK_SIZE] * (BLOCK_SIZE // PAGE_SIZE)",
            "    lists.append(block + token % BLOCK_SIZE // PAGE_SIZE)",
            "    splits.append(splits[-1] + min(SPLITS, -(-n // GRANULARITY)))",
            "    last.append((n - 1) % PAGE_SIZE + 1)",
            "want_indices, want_last, want_splits = torch.cat(lists), torch.tensor(last), torch.tensor(splits)",
            "want_indptr = torch.tensor([0, *map(len, lists)]).cumsum(0)",
            "promised = torch.tensor(CONTEXT) > " + ("-1" if case["page_size"] == 1 else "0  # of requests without tokens nothing is"),
        ],
        arguments=("block_table", "context_lens"),
        keywords={
            "page_size": "PAGE_SIZE",
            "block_size": "BLOCK_SIZE",
            "num_splits": "SPLITS",
            "split_granularity": "GRANULARITY",
        },
        outputs=(
            Output("kv_indptr", "(BATCH + 1,)", "int32"),
            Output("kv_indices", "(len(want_indices),)", "int32"),
            Output("last_page_len", "(BATCH,)", "int32"),
            Output("splits_indptr", "(BATCH + 1,)", "int32"),
        ),
        check=[
            'show("kv_indptr", kv_indptr != want_indptr, want_indptr, kv_indptr)',
            'show("kv_indices", kv_indices != want_indices, want_indices, kv_indices)',
            'show("last_page_len", promised & (last_page_len != want_last), want_last, last_page_len)',
            'show("splits_indptr", splits_indptr != want_splits, want_splits, splits_indptr)',
        ],
    )
