"""The cases of `kvcheck selftest`, smallest first: what faults, mutants and honest kernels are held to.

Between them: one token, lengths around a page and a tile, ragged batches with an empty request, several query tokens, pages of one, seven
and sixteen tokens, wide and strided tables, pages that lie apart, both FP8 formats, poison that is finite and that is not.
"""

from __future__ import annotations

from typing import Any

CASES: dict[str, tuple[dict[str, Any], ...]] = {
    "block_table": (
        {"batch": 1, "context_len": 7, "manager_block_size": 4, "kernel_block_size": 4, "storage_block_size": 2, "tokens_per_state": 1},
        {"context_len": [33, 9], "manager_block_size": 16, "kernel_block_size": 4, "storage_block_size": 8, "tokens_per_state": 2},
        {"context_len": [33, 0], "manager_block_size": 16, "kernel_block_size": 16, "storage_block_size": 4, "tokens_per_state": 2,
         "mapping": "write", "block_table": "wide_garbage"},
        {"batch": 3, "context_len": [50, 0, 64], "manager_block_size": 32, "kernel_block_size": 8, "storage_block_size": 8,
         "tokens_per_state": 4, "mapping": "write"},
        {"batch": 1, "context_len": 20, "manager_block_size": 64, "kernel_block_size": 64, "storage_block_size": 8, "tokens_per_state": 2,
         "block_table": "past_2_31"},
        {"context_len": 12, "manager_block_size": 12, "kernel_block_size": 4, "storage_block_size": 6, "tokens_per_state": 1},
        {"batch": 1, "context_len": 70000, "manager_block_size": 64, "kernel_block_size": 64, "storage_block_size": 64},
    ),
    "index_k_cache_gather": (
        {"batch": 1, "context_len": 1, "head_dim": 16, "block_size": 1},
        {"batch": 3, "context_len": [9, 0, 5], "head_dim": 48, "block_size": 7, "table_stride": "wider", "block_table": "wide_garbage"},
        {"batch": 2, "context_len": [40, 33], "head_dim": 48, "block_size": 32, "layout": "shuffled", "values": "random_bytes"},
        {"batch": 2, "context_len": [3, 17], "head_dim": 16, "block_size": 4, "cache": "pitched", "block_table": "high_ids"},
        {"batch": 2, "context_len": [1100, 3], "head_dim": 16, "block_size": 64},
    ),
    "index_k_cache_write": (
        {"tokens": 1, "head_dim": 16, "block_size": 1, "slots": "consecutive"},
        {"tokens": 12, "head_dim": 48, "block_size": 7, "values": "edges"},
        {"tokens": 13, "head_dim": 48, "block_size": 7, "values": "midpoints", "kv_dtype": "e4m3fnuz", "divisor": 240},
        {"tokens": 40, "head_dim": 128, "block_size": 32, "values": "edges", "layout": "shuffled", "kv_dtype": "e4m3fnuz", "divisor": 224},
        {"tokens": 9, "head_dim": 16, "block_size": 4, "cache": "pitched", "slots": "high_ids", "scale_format": "fp32",
         "values": "decades"},
        {"tokens": 6, "head_dim": 16, "block_size": 4, "slots": "all_padding", "num_blocks": 3},
        {"tokens": 300, "head_dim": 16, "block_size": 16},
    ),
    "mla_decode": (
        {"batch": 1, "context_len": 1, "num_heads": 2, "head_dim": 96, "head_dim_v": 80, "page_size": 1, "num_splits": 1},
        {"batch": 3, "context_len": [19, 0, 16], "num_heads": 3, "head_dim": 128, "head_dim_v": 80, "page_size": 16, "num_splits": 3,
         "next_n": 2, "poison": "nan", "values": "coded_attention", "block_table": "wide_garbage"},
        {"batch": 2, "context_len": [40, 7], "num_heads": 3, "head_dim": 80, "head_dim_v": 80, "page_size": 4, "kv_format": "fp16",
         "num_splits": 2, "empty_row": "zero_minus_1e30"},
        {"batch": 2, "context_len": [33, 5], "num_heads": 2, "page_size": 8, "kv_format": "fp8_656", "num_splits": 2, "poison": "nan"},
        {"batch": 2, "context_len": [33, 0], "num_heads": 2, "head_dim": 96, "head_dim_v": 64, "page_size": 8, "kv_format": "e4m3fn",
         "kv_scale": 0.0625, "values": "heavy_tail"},
        {"batch": 2, "context_len": [300, 600], "num_heads": 17, "head_dim": 48, "head_dim_v": 48, "page_size": 64,
         "kv_format": "e4m3fnuz", "num_splits": 2, "values": "heavy_tail", "kv_scale": 0.0625},
        {"batch": 3, "context_len": [60, 0, 5], "num_heads": 2, "head_dim": 96, "head_dim_v": 80, "page_size": 1, "topk": 20,
         "selection": "repeated"},
        {"batch": 2, "context_len": [9, 5], "num_heads": 130, "head_dim": 32, "head_dim_v": 32, "page_size": 4, "values": "flat"},
    ),
    "mla_metadata": (
        {"batch": 1, "context_len": 1, "block_size": 1, "page_size": 1},
        {"batch": 5, "context_len": [9, 0, 4, 8, 3], "block_size": 8, "page_size": 4, "block_table": "wide_garbage"},
        {"batch": 3, "context_len": [9, 0, 17], "block_size": 4, "page_size": 1, "block_table": "wide_minus_one"},
        {"batch": 2, "context_len": [1100, 30], "block_size": 64, "page_size": 1},
        {"batch": 4, "context_len": [17, 9, 5, 33], "block_size": 8, "page_size": 4, "num_splits": 4, "split_granularity": 8},
    ),
    "mqa_logits": (
        {"rows": 1, "tokens": 1, "num_heads": 1, "head_dim": 16, "window": "full"},
        {"rows": 5, "tokens": 40, "num_heads": 3, "head_dim": 48, "window": "ragged", "kv_dtype": "e4m3fnuz", "scale": "decades"},
        {"rows": 17, "tokens": 70, "num_heads": 5, "head_dim": 16, "window": "packed"},
        {"rows": 6, "tokens": 300, "num_heads": 3, "head_dim": 16, "window": "packed", "values": "exact_int"},
        {"rows": 16, "tokens": 2100, "num_heads": 2, "head_dim": 16, "window": "edges", "values": "exact_int"},
    ),
    "paged_mqa_logits": (
        {"context_len": 1, "num_heads": 1, "head_dim": 16, "block_size": 1, "topk": 1},
        {"batch": 2, "context_len": [30, 9], "next_n": 2, "num_heads": 3, "head_dim": 48, "block_size": 7, "topk": 4,
         "kv_dtype": "e4m3fnuz", "table_stride": "wider", "max_model_len": 31},
        {"batch": 3, "context_len": [40, 0, 17], "num_heads": 17, "head_dim": 32, "block_size": 16, "topk": 8, "cache": "pitched",
         "block_table": "wide_garbage", "scale": "decades", "max_model_len": 40},
        {"batch": 2, "context_len": [[30, 25], [16, 9]], "next_n": 2, "num_heads": 3, "head_dim": 48, "block_size": 8, "topk": 4,
         "values": "exact_int", "block_table": "high_ids"},
        {"batch": 2, "context_len": [300, 77], "next_n": 2, "num_heads": 2, "head_dim": 32, "block_size": 16, "topk": 64},
        {"batch": 2, "context_len": [257, 300], "next_n": 3, "num_heads": 2, "head_dim": 16, "block_size": 16, "topk": 64,
         "max_model_len": 320},
        {"batch": 2, "context_len": [4100, 2049], "num_heads": 2, "head_dim": 16, "block_size": 64, "topk": 64, "max_model_len": 4100},
    ),
    "topk_per_row": (
        {"context_len": 1, "topk": 1},
        {"batch": 3, "context_len": [9, 0, 3], "next_n": 2, "topk": 3, "poison": "nan"},
        {"batch": 2, "context_len": [[9, 12], [0, 5]], "next_n": 2, "topk": 5, "values": "ties", "poison": "inf"},
        {"batch": 2, "context_len": [120, 65], "topk": 64, "values": "relu_sparse", "poison": "nan"},
        {"batch": 2, "context_len": [300, 290], "topk": 100, "values": "low_bits", "max_model_len": 300},
        {"batch": 2, "context_len": [300, 101], "topk": 100, "values": "heavy_tail"},
        {"batch": 4, "context_len": 40, "topk": 20, "values": "halves"},
        {"batch": 4, "context_len": 300, "topk": 200, "values": "exact_int"},
        {"batch": 8, "context_len": 1000, "topk": 500, "values": "low_bits"},
        {"batch": 8, "context_len": 1000, "topk": 500, "values": "low_bits_below_zero"},
        {"context_len": 270000, "topk": 150000, "values": "exact_int"},
    ),
    "topk_slots": (
        {"rows": 1, "topk": 1, "batch": 1, "context_len": 1, "block_size": 1, "positions": "full"},
        {"rows": 5, "topk": 9, "batch": 3, "context_len": [9, 0, 30], "block_size": 4, "block_stride": 5, "table_stride": "wider"},
        {"rows": 5, "topk": 20, "batch": 3, "context_len": [50, 3, 30], "block_size": 7, "positions": "past_table"},
        {"rows": 4, "topk": 20, "batch": 2, "context_len": [50, 30], "block_size": 8, "pool": "last", "positions": "past_context"},
        {"rows": 3, "topk": 20, "batch": 2, "context_len": [50, 30], "block_size": 8, "positions": "prefix", "block_table": "wide_zero"},
        {"rows": 2, "topk": 70000, "batch": 2, "context_len": [50, 30], "block_size": 8, "positions": "past_table"},
    ),
}  # fmt: skip
"""Params beside the defaults, by op."""

HONEST_ONLY: dict[str, tuple[dict[str, Any], ...]] = {
    "indexer_mla_decode": (
        {"context_len": [40, 9], "batch": 2, "index_heads": 2, "index_head_dim": 32, "num_heads": 2, "topk": 8, "block_size": 16},
    ),
    "topk_per_row": ({"batch": 2, "context_len": [200, 65], "topk": 64, "values": "ties"},),
    "paged_mqa_logits": (
        {"batch": 2, "context_len": [200, 90], "num_heads": 8, "block_size": 16, "topk": 64, "values": "narrow_band"},
        {"batch": 2, "context_len": [200, 90], "num_heads": 8, "block_size": 16, "topk": 64, "values": "low_bits"},
    ),
}
"""Cases that honest kernels are held to besides: ties and near ties, and the whole path."""

VALUES = {
    "wrong_past": "=20",
    "wrong_between": "=20-400",
    "only_last_tile_cut": "=128",
    "head_dropped_at_block_size": "=64",
    "rows_past_offset_dropped": "=100",
}
"""What a fault that takes a value is planted with."""
