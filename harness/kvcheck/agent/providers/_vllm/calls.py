"""vLLM's functions behind the ops' signatures."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._vllm import indexer, metadata, tables
from kvcheck.agent.providers._vllm.load import Package

FILES = {
    "block_table": "v1/worker/block_table.py BlockTable.compute_slot_mapping, v1/worker/utils.py AttentionGroup.map_to_kernel_block_table",
    "mla_metadata": "v1/attention/backends/mla/rocm_aiter_mla.py AiterMLAMetadataBuilder._build_decode",
    "mqa_logits": "v1/attention/ops/rocm_aiter_mla_sparse.py fp8_mqa_logits_torch",
    "paged_mqa_logits": "v1/attention/ops/rocm_aiter_mla_sparse.py fp8_paged_mqa_logits_torch",
    "topk_slots": "v1/attention/backends/mla/sparse_utils.py triton_convert_req_index_to_global_index",
}


class Vllm:
    """One vLLM, bound to a variant and a device."""

    def __init__(self, package: Package, variant: str | None, device: Any):
        self.package, self.variant, self.device = package, variant, device
        self.ran: dict[str, str] = {}

    def block_table(
        self,
        block_table: Any,
        request_ids: Any,
        positions: Any,
        *,
        manager_block_size: int,
        kernel_block_size: int,
        storage_block_size: int,
        tokens_per_state: int,
        mapping: str = "read",
        out: Any,
        alloc: Any,
    ) -> None:
        """Tables and slot mappings as the model runner and the indexer's metadata builder make them."""
        self._only("block_table", None, "cpu")
        sizes = tables.Sizes(manager_block_size, kernel_block_size, storage_block_size, tokens_per_state)
        self.ran["block_table"] = tables.slots(self.package, block_table, request_ids, positions, sizes, mapping, out)

    def topk_slots(
        self, topk_positions: Any, block_table: Any, request_ids: Any, *, block_size: int, block_stride: int, out: Any, alloc: Any
    ) -> None:
        """Top-k positions to slots, as every sparse MLA backend does."""
        self._only("topk_slots", None)
        tables.convert(self.package, request_ids, block_table, topk_positions, block_size, block_stride, out)

    def paged_mqa_logits(
        self,
        q: Any,
        kv_cache: Any,
        weights: Any,
        context_lens: Any,
        block_table: Any,
        *,
        max_model_len: int,
        block_size: int,
        kv_dtype: str,
        out: Any,
        alloc: Any,
    ) -> Any:
        """Decode indexer logits."""
        self._only("paged_mqa_logits", None, "decode_kernel")
        self._same_fp8(kv_dtype)
        function = indexer.paged_kernel if self.variant else indexer.paged_torch
        return function(self.package, (q, kv_cache, weights, context_lens, block_table), max_model_len, out)

    def mqa_logits(self, q: Any, k: Any, k_scale: Any, weights: Any, ks: Any, ke: Any, *, kv_dtype: str, out: Any, alloc: Any) -> Any:
        """Prefill indexer logits: vLLM returns a tensor of its own."""
        self._only("mqa_logits", None)
        self._same_fp8(kv_dtype)
        return self.package.module("indexer_ops").fp8_mqa_logits_torch(q, (k, k_scale), weights, ks, ke)

    def mla_metadata(
        self,
        block_table: Any,
        context_lens: Any,
        *,
        page_size: int,
        block_size: int,
        num_splits: int,
        split_granularity: int,
        kv_indptr: Any,
        kv_indices: Any,
        last_page_len: Any,
        splits_indptr: Any,
        alloc: Any,
    ) -> None:
        """The decode part of aiter's MLA metadata builder, which leaves the split counts to aiter (`withheld`)."""
        self._only("mla_metadata", None)
        metadata.decode(self.package, block_table, context_lens, page_size, block_size, kv_indptr, kv_indices, last_page_len)

    def version(self) -> str:
        """The distribution's version."""
        return f"vllm {self.package.version}"

    def dispatch(self, op: str) -> str:
        """What ran, and how."""
        package = self.package
        how = "its C++" if package.compiled else "Triton's interpreter" if package.interpreted else "Triton"
        what = self.ran.get(op) or FILES[op]
        if op == "paged_mqa_logits" and self.variant:
            what = "v1/attention/ops/rocm_aiter_mla_sparse.py _fp8_paged_mqa_logits_decode_kernel"
        plain = op == "mqa_logits" or (op == "paged_mqa_logits" and not self.variant)
        return f"vllm {package.version}: {what} ({'torch' if plain else how})"

    def precision(self, op: str, params: dict[str, Any], device: dict[str, Any]) -> str:
        """bf16 scores in the prefill fallback; keys dequantised in fp32 before the dot in the decode fallback of several query tokens."""
        if op == "mqa_logits":
            return "fp32_any+u_s=bf16"
        if op == "paged_mqa_logits" and not self.variant and params["next_n"] > 1:
            return "fp32_any+u_k=fp32"
        return "fp32_any"

    def withheld(self, op: str, params: dict[str, Any]) -> tuple[str, ...]:
        """The outputs that vLLM does not make: its MLA builder has no list of split counts."""
        return ("splits_indptr",) if op == "mla_metadata" else ()

    def _only(self, op: str, *variants: str | None) -> None:
        if self.variant not in variants:
            raise Unsupported(f"vllm:{self.variant} does not implement {op}")

    def _same_fp8(self, kv_dtype: str) -> None:
        """vLLM knows one FP8 format a platform."""
        own = str(self.package.platform.fp8_dtype())
        if not own.endswith(kv_dtype):
            raise Unsupported(f"vllm reads {own.removeprefix('torch.float8_')} on this platform, the case has {kv_dtype}")
