"""Names and defaults of the parameters of aiter's entry points, by the commits (of those tried) that have them."""

from __future__ import annotations

OLD = ("d36601a9d0", "5dafe275e0")
MIDDLE = ("ee7897ea55", "9715eeccee", "4c2a3025b6", "e72c1ddf95", "02d8af55ea", "98dfb20bbf")
NEW = ("d9c373033c", "f369720033", "8abb3607e9", "eb84cb0220", "04907edc21", "e4048607a5")

_START = "q_fp8, kv_cache_fp8, weights"
_PAGED = "context_lens, kv_indices, max_model_len"
_RAGGED = "prefix_sum_context_lens, kv_indices, max_model_len"
_TILES = "Preshuffle=False, KVBlockSize=1, ChunkK=256"
_TOPK = "logits, next_n, seqLens, indices, numRows, stride0, stride1"

SIGNATURES = {
    "deepgemm_fp8_paged_mqa_logits_stage1": {
        OLD: f"{_START}, out_qk, {_PAGED}",
        MIDDLE: f"{_START}, out_qk, {_PAGED}, ChunkQ=64, ChunkK=256, TotalCuCount=80, WavePerEU=2",
        NEW: f"{_START}, out_qk, {_PAGED}, ChunkQ=64, ChunkK=256, TotalCuCount=None, WavePerEU=2",
    },
    "deepgemm_fp8_paged_mqa_logits": {
        OLD: f"{_START}, out_logits, {_PAGED}, ChunkK=64, SplitKV=5",
        MIDDLE[:1]: f"q_fp8, kv_cache, weights, out_logits, {_PAGED}, {_TILES}, "
        "TotalCuCount=80 if get_gfx() == 'gfx942' else 256, WavePerEU=2",
        MIDDLE[1:]: f"q_fp8, kv_cache, weights, out_logits, {_PAGED}, {_TILES}, "
        "TotalCuCount=80 if get_gfx() == 'gfx942' else 256, WavePerEU=2, VarCtxSchedule=None",
        NEW: f"q_fp8, kv_cache, weights, out_logits, {_PAGED}, {_TILES}, TotalCuCount=None, WavePerEU=2, VarCtxSchedule=None",
    },
    "deepgemm_fp8_paged_mqa_logits_ragged_k": {OLD + MIDDLE + NEW: f"{_START}, out_logits, {_RAGGED}, ChunkK=64, SplitKV=5"},
    "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k": {OLD + MIDDLE + NEW: f"{_START}, out_qk, {_RAGGED}"},
    "top_k_per_row_decode": {
        OLD[1:] + MIDDLE[:-1]: _TOPK,
        MIDDLE[-1:] + NEW[:3]: f"{_TOPK}, k=2048",
        NEW[3:]: f"{_TOPK}, k=2048, stable=False",
    },
}
