"""How small a case of each planted fault must become: where shrinking begins, and the most that may be left of each axis.

An axis that is not named must be as simple as its SPEC allows: one request, one head, one page, the plainest values. A number is the
largest that may be left, a list the largest batch, a choice the least plain one; of `nonzero_keys` and `distinct_pages` it is how many.
"""

from __future__ import annotations

from typing import Any

START: dict[str, tuple[dict[str, Any], ...]] = {
    "block_table": (
        {"batch": 3, "context_len": [640, 0, 100], "manager_block_size": 64, "kernel_block_size": 16, "storage_block_size": 32},
        {"batch": 3, "context_len": [640, 0, 100], "manager_block_size": 64, "kernel_block_size": 16, "storage_block_size": 32,
         "mapping": "write"},
        {"batch": 3, "context_len": [640, 0, 100], "manager_block_size": 64, "kernel_block_size": 24, "storage_block_size": 32},
        {"batch": 3, "context_len": [640, 0, 100], "manager_block_size": 64, "kernel_block_size": 64, "storage_block_size": 64,
         "block_table": "past_2_31"},
    ),
    "index_k_cache_gather": (
        {"batch": 3, "context_len": [300, 0, 77], "block_size": 16, "cache": "pitched", "table_stride": "wider"},
        {"batch": 3, "context_len": [300, 0, 77], "block_size": 16, "layout": "shuffled"},
    ),
    "index_k_cache_write": (
        {"tokens": 300, "block_size": 16, "values": "edges", "cache": "pitched"},
        {"tokens": 300, "block_size": 16, "layout": "shuffled", "slots": "pages"},
    ),
    "mla_decode": (
        {"batch": 3, "context_len": [300, 0, 77], "next_n": 2, "num_heads": 8, "head_dim": 192, "head_dim_v": 128, "page_size": 16,
         "block_table": "wide_garbage"},
        {"batch": 3, "context_len": [300, 0, 77], "num_heads": 8, "head_dim": 192, "head_dim_v": 128, "page_size": 1,
         "selection": "repeated", "topk": 64},
        {"batch": 3, "context_len": [300, 0, 77], "next_n": 2, "num_heads": 8, "head_dim": 192, "head_dim_v": 128, "page_size": 16,
         "poison": "nan", "kv_format": "e4m3fn"},
        {"batch": 2, "context_len": [300, 77], "num_heads": 8, "head_dim": 192, "head_dim_v": 128, "page_size": 16, "num_splits": 1},
    ),
    "mla_metadata": (
        {"batch": 3, "context_len": [300, 0, 128], "block_size": 16, "page_size": 4, "split_granularity": 16},
    ),
    "mqa_logits": (
        {"rows": 40, "tokens": 700, "num_heads": 8, "head_dim": 64, "window": "packed"},
        {"rows": 40, "tokens": 700, "num_heads": 8, "head_dim": 64, "window": "ragged"},
    ),
    "paged_mqa_logits": (
        {"batch": 3, "context_len": [2100, 0, 300], "next_n": 2, "num_heads": 8, "head_dim": 64, "block_size": 64, "topk": 64,
         "max_model_len": 2304, "block_table": "wide_garbage", "cache": "pitched", "table_stride": "wider", "scale": "decades"},
        {"batch": 3, "context_len": [300, 77, 120], "num_heads": 16, "head_dim": 64, "block_size": 16, "topk": 64},
    ),
    "topk_per_row": ({"batch": 4, "context_len": [300, 290, 12, 100], "next_n": 2, "topk": 64, "values": "heavy_tail"},),
    "topk_slots": (
        {"rows": 16, "topk": 64, "batch": 3, "context_len": [300, 0, 77], "block_size": 16, "block_stride": 20, "table_stride": "wider"},
        {"rows": 16, "topk": 64, "batch": 3, "context_len": [300, 0, 77], "block_size": 16, "positions": "past_table"},
    ),
}  # fmt: skip
"""The first of an op's cases that a fault fails is shrunk; where all of these pass, the largest of the selftest's."""

LEFT: dict[str, dict[str, dict[str, Any]]] = {
    "block_ids_for_pages": {"mla_metadata": {"context_len": 1, "block_size": 2, "block_table": "shuffled"}},
    "causal_mask_missing": {"mla_decode": {"next_n": 2, "context_len": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "collapse_without_divide": {"block_table": {"context_len": 1, "manager_block_size": 2, "storage_block_size": 2}},
    "columns_compacted": {"topk_slots": {"topk": 3, "context_len": 1, "positions": "holes"}},
    "columns_from_window_start": {"mqa_logits": {"rows": 2, "tokens": 3, "window": "packed"}},
    "differs_when_repeated": {
        "paged_mqa_logits": {"next_n": 2, "num_heads": 8, "head_dim": 64, "context_len": 2, "scale": "decades",
            "poison": "finite_beacon", "cache": "pitched", "table_stride": "wider", "values": "gaussian", "block_table": "wide_garbage"},
    },
    "divisor_mistaken": {"index_k_cache_write": {}},
    "duplicate_index": {"topk_per_row": {"context_len": 1, "topk": 2}},
    "flat_read_as_shuffled": {"paged_mqa_logits": {"num_heads": 2, "head_dim": 32, "context_len": 1, "block_size": 16}},
    "fn_read_as_fnuz": {"mqa_logits": {"num_heads": 2}, "paged_mqa_logits": {"num_heads": 2, "context_len": 1}},
    "gathers_past_end": {"index_k_cache_gather": {}},
    "head_dropped": {"mqa_logits": {"num_heads": 2}, "paged_mqa_logits": {"num_heads": 2, "context_len": 1}},
    "head_dropped_at_block_size": {"paged_mqa_logits": {"num_heads": 2, "context_len": 1, "block_size": 64}},
    "indptr_counts_tokens": {"mla_metadata": {"context_len": 2, "block_size": 2, "page_size": 2}},
    "keys_cut_to_24_bits": {"topk_per_row": {"context_len": 13, "values": "low_bits"}},
    "last_page_len_is_seq_len": {
        "mla_decode": {"context_len": 2, "distinct_pages": 1, "nonzero_keys": 1},
        "mla_metadata": {"context_len": 2},
    },
    "last_page_len_of_full_page_zero": {"mla_metadata": {}},
    "last_token_lost_beside_padding": {"paged_mqa_logits": {"batch": 2, "num_heads": 2, "context_len": [0, 1]}},
    "layout_mistaken": {
        "index_k_cache_gather": {"context_len": 1, "head_dim": 32, "block_size": 16},
        "index_k_cache_write": {"head_dim": 32, "block_size": 16},
    },
    "lse_base_2": {"mla_decode": {"context_len": 1}},
    "lse_base_2_unsplit": {"mla_decode": {"context_len": 1, "num_splits": 2}},
    "mask_off_by_one": {"paged_mqa_logits": {"context_len": 1}},
    "next_token_scale": {"paged_mqa_logits": {"num_heads": 2, "context_len": 1}},
    "nothing_after_empty_request": {"paged_mqa_logits": {"batch": 2, "context_len": [0, 1]}},
    "null_block_read": {"block_table": {"context_len": 1}},
    "only_last_tile_cut": {"paged_mqa_logits": {"next_n": 3, "context_len": 129}},
    "other_order_when_strided": {"paged_mqa_logits": {"next_n": 2, "num_heads": 8, "head_dim": 64, "context_len": 2, "values": "gaussian"}},
    "padding_mapped": {"topk_slots": {}},
    "padding_token_in_null_block": {"block_table": {}},
    "padding_written": {"index_k_cache_write": {"tokens": 3, "slots": "padded"}},
    "page_id_in_16_bits": {
        "index_k_cache_gather": {"context_len": 1},
        "mla_decode": {"context_len": 1},
        "paged_mqa_logits": {"num_heads": 2, "context_len": 1},
    },
    "page_skipped": {"mla_decode": {"context_len": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "page_turned_early": {
        "index_k_cache_gather": {"context_len": 2, "distinct_pages": 1, "nonzero_keys": 1},
        "paged_mqa_logits": {"context_len": 2, "distinct_pages": 1, "nonzero_keys": 1},
    },
    "pages_in_pool_order": {
        "mla_decode": {"batch": 2, "num_heads": 8, "head_dim": 192,
            "head_dim_v": 128, "context_len": [0, 8], "block_table": "wide_garbage"},
    },
    "pages_taken_as_adjacent": {
        "index_k_cache_gather": {"context_len": 1, "block_table": "shuffled", "cache": "pitched"},
        "index_k_cache_write": {"slots": "scattered", "cache": "pitched"},
        "paged_mqa_logits": {"num_heads": 2, "context_len": 1, "block_size": 8,
            "block_table": "shuffled", "poison": "nan", "cache": "pitched"},
    },
    "past_table_clamped": {"topk_slots": {"positions": "past_table"}},
    "prefill_scales_rounded": {
        "mqa_logits": {"tokens": 2, "num_heads": 2, "values": "gaussian", "nonzero_keys": 1},
        "paged_mqa_logits": {"num_heads": 4, "context_len": 2, "values": "gaussian"},
    },
    "reads_clamped_to_zero": {"paged_mqa_logits": {"context_len": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "refusal_missing": {"block_table": {"tokens_per_state": 2}},
    "repeated_slots_once": {"mla_decode": {"context_len": 3, "distinct_pages": 1, "nonzero_keys": 1}},
    "rescale_forgotten": {"mla_decode": {"context_len": 257, "head_dim": 32, "distinct_pages": 2, "nonzero_keys": 2}},
    "rest_of_page_cleared": {"index_k_cache_write": {"block_size": 2}},
    "rope_dropped": {"mla_decode": {"head_dim": 32, "context_len": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "row_limits_reversed": {"paged_mqa_logits": {"context_len": 1}},
    "rows_past_offset_dropped": {"paged_mqa_logits": {"next_n": 2, "context_len": 1}},
    "rows_swapped": {"paged_mqa_logits": {"batch": 2, "next_n": 2, "context_len": [0, 2]}},
    "scale_missing": {"mla_decode": {"context_len": 1, "kv_format": "e4m3fn"}},
    "scale_not_a_power_of_two": {"index_k_cache_write": {"scale_format": "ue8m0"}},
    "scale_of_batch": {
        "mqa_logits": {"rows": 2, "tokens": 2, "nonzero_keys": 1},
        "paged_mqa_logits": {"batch": 2, "head_dim": 64, "num_heads": 2, "context_len": [1, 1], "values": "gaussian"},
    },
    "slot_in_32_bits": {
        "block_table": {"context_len": 1, "manager_block_size": 2,
            "kernel_block_size": 2, "storage_block_size": 2, "block_table": "past_2_31"},
    },
    "slot_not_compressed": {"block_table": {"context_len": 1, "manager_block_size": 2, "storage_block_size": 2, "tokens_per_state": 2}},
    "split_dropped": {"mla_decode": {"context_len": 2, "num_splits": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "split_of_empty_request": {"mla_metadata": {}},
    "splits_averaged": {"mla_decode": {"context_len": 2, "num_splits": 2, "distinct_pages": 1, "nonzero_keys": 1}},
    "splits_capped_not_counted": {"mla_metadata": {"context_len": 1, "num_splits": 2}},
    "stale_split_read": {"mla_decode": {}},
    "stored_past_row": {"paged_mqa_logits": {"batch": 2, "context_len": [4097, 1], "max_model_len": 4097}},
    "stride_taken_as_block_size": {"topk_slots": {"context_len": 1, "block_stride": 2, "block_table": "shuffled"}},
    "table_in_kernel_blocks": {"block_table": {"context_len": 1, "manager_block_size": 2, "storage_block_size": 2}},
    "table_indexed_per_token": {"paged_mqa_logits": {"context_len": 2, "block_size": 2, "nonzero_keys": 1}},
    "table_rows_taken_as_adjacent": {
        "index_k_cache_gather": {"batch": 2, "context_len": [0, 1], "block_table": "shuffled", "table_stride": "wider"},
        "paged_mqa_logits": {"batch": 3, "context_len": [0, 0, 1], "block_table": "wide_garbage", "table_stride": "wider"},
        "topk_slots": {"batch": 2, "context_len": [0, 1], "block_table": "shuffled", "table_stride": "wider"},
    },
    "tail_of_last_page_attended": {"mla_decode": {"context_len": 1, "page_size": 2}},
    "tail_times_zero": {"mla_decode": {"context_len": 1, "page_size": 2, "poison": "nan"}},
    "tail_unwritten": {"paged_mqa_logits": {"context_len": 1}},
    "tiles_counted_from_zero": {"mqa_logits": {"rows": 2, "tokens": 3, "window": "packed"}},
    "tokens_unwritten": {"index_k_cache_gather": {"context_len": 1}, "index_k_cache_write": {}},
    "unfinished_state_written": {
        "block_table": {"context_len": 1, "manager_block_size": 2, "storage_block_size": 2, "tokens_per_state": 2, "mapping": "write"},
    },
    "whole_tile_stored": {"paged_mqa_logits": {"batch": 2, "context_len": [2049, 1]}},
    "window_end_inclusive": {"mqa_logits": {"window": "one_short"}},
    "window_start_ignored": {"mqa_logits": {"rows": 2, "tokens": 3, "window": "packed"}},
    "writes_table": {"paged_mqa_logits": {}},
    "wrong_between": {"paged_mqa_logits": {"context_len": 20}, "topk_per_row": {"context_len": 20}},
    "wrong_past": {"paged_mqa_logits": {"context_len": 21}, "topk_per_row": {"context_len": 21}},
}  # fmt: skip
"""By fault and op. Faults that show in the last bits alone have room, as other processors round otherwise."""

WITHOUT_TWIN = frozenset({
    ("divisor_mistaken", "index_k_cache_write"),
    ("gathers_past_end", "index_k_cache_gather"),
    ("last_page_len_of_full_page_zero", "mla_metadata"),
    ("mask_off_by_one", "paged_mqa_logits"),
    ("padding_token_in_null_block", "block_table"),
    ("page_id_in_16_bits", "index_k_cache_gather"),
    ("row_limits_reversed", "paged_mqa_logits"),
    ("tail_unwritten", "paged_mqa_logits"),
    ("tokens_unwritten", "index_k_cache_gather"),
    ("tokens_unwritten", "index_k_cache_write"),
    ("writes_table", "paged_mqa_logits"),
})  # fmt: skip
"""Faults that are wrong whatever the case, or are right only where nothing is promised."""
