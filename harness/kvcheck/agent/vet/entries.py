"""The entry points that reporters' scripts call: where they lie, what their arguments mean, and the plain formula that stands in.

The formula is the op's (kvcheck_references.paged_mqa_logits, mqa_logits), in float32, with the relu of a GPU: max(NaN, 0) is 0
there, where torch's relu keeps the NaN. Both are honest, and a script whose answer depends on it has inputs that prove nothing.
"""

from __future__ import annotations

from typing import Any

_AITER = ("aiter.ops.triton.attention.pa_mqa_logits", "aiter.ops.triton.pa_mqa_logits")
_PAGED = ("q", "kv_cache", "weights", "out", "context_lens", "block_table", "max_model_len")

ENTRIES: dict[str, dict[str, Any]] = {
    "deepgemm_fp8_paged_mqa_logits_stage1": {"modules": _AITER, "form": "paged", "per_head": True, "order": _PAGED, "chunk_q": 64},
    "deepgemm_fp8_paged_mqa_logits": {"modules": _AITER, "form": "paged", "order": _PAGED},
    "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k": {
        "modules": _AITER, "form": "ragged", "per_head": True, "order": _PAGED, "chunk_q": 64,
    },
    "deepgemm_fp8_paged_mqa_logits_ragged_k": {"modules": _AITER, "form": "ragged", "order": _PAGED},
    "rocm_fp8_paged_mqa_logits": {
        "modules": ("vllm.v1.attention.ops.rocm_aiter_mla_sparse",),
        "form": "paged", "order": ("q", "kv_cache", "weights", "context_lens", "block_table", "schedule", "max_model_len"),
    },
    "fp8_paged_mqa_logits_torch": {
        "modules": ("vllm.v1.attention.ops.rocm_aiter_mla_sparse",),
        "form": "paged", "reference": True, "order": ("q", "kv_cache", "weights", "context_lens", "block_table", "max_model_len"),
    },
    "fp8_paged_mqa_logits": {
        "modules": ("deep_gemm", "vllm.utils.deep_gemm"),
        "form": "paged", "order": ("q", "kv_cache", "weights", "context_lens", "block_table", "schedule", "max_model_len"),
    },
    "fp8_mqa_logits": {
        "modules": ("deep_gemm", "vllm.utils.deep_gemm", "aiter.ops.triton.attention.fp8_mqa_logits", "aiter.ops.triton.fp8_mqa_logits"),
        "form": "prefill", "order": ("q", "kv", "weights", "starts", "ends"),
    },
    "get_paged_mqa_logits_metadata": {"modules": ("deep_gemm", "vllm.utils.deep_gemm"), "form": "metadata", "order": ()},
}  # fmt: skip
"""By name: modules that have it, the form of the call, its positional arguments by meaning; `per_head` where the output is."""

PACKAGES = ("aiter", "vllm", "deep_gemm")

MEANINGS = {
    "q": ("q_fp8", "Q"),
    "kv_cache": ("kv_cache_fp8", "fused_kv_cache"),
    "kv": ("KV",),
    "kv_scales": (),
    "out": ("out_qk", "out_logits"),
    "context_lens": ("prefix_sum_context_lens", "seq_lens"),
    "block_table": ("kv_indices", "block_tables"),
    "max_model_len": ("max_context_len",),
    "starts": ("cu_starts", "cu_seq_len_k_start", "cu_seqlen_ks"),
    "ends": ("cu_ends", "cu_seq_len_k_end", "cu_seqlen_ke"),
    "chunk_q": ("ChunkQ",),
    "schedule": ("schedule_metadata", "schedule_meta"),
}
"""What an argument means, and the other names that it goes by."""

_KNOWN = {name: meaning for meaning, names in MEANINGS.items() for name in names}


def bind(name: str, order: tuple[str, ...] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by what they mean.

    Args:
        name: of the entry point.
        order: parameter names of the real function; None for the stand-in's order.
        args, kwargs: as given.
    """
    entry = ENTRIES[name]
    aiter_prefill = entry["form"] == "prefill" and (len(args) == 6 or "kv_scales" in kwargs)
    order = order or (("q", "kv", "kv_scales", "weights", "starts", "ends") if aiter_prefill else entry["order"])
    bound = {_KNOWN.get(key, key): value for key, value in [*zip(order, args, strict=False), *kwargs.items()]}
    if isinstance(bound.get("kv"), tuple):
        bound["kv"], bound["kv_scales"] = bound["kv"]
    return bound


class Call:
    """One call as numbers: what the kernel should have computed, and what the inputs are worth.

    Args:
        name: of the entry point.
        bound: arguments by meaning, tensors on the CPU.

    Attributes:
        rows: [(row of the output, logits as torch's relu has them, logits as a GPU's relu has them, per head before the sum)].
        width: columns of the output.
    """

    def __init__(self, name: str, bound: dict[str, Any]) -> None:
        import torch

        self.name, self.bound, self.form = name, bound, ENTRIES[name]["form"]
        self.per_head = bool(ENTRIES[name].get("per_head"))
        q = bound["q"]
        self.q = q if q.dim() == 4 else q.unsqueeze(0)  # prefill: [1, rows, heads, head_dim]
        self.fp8 = next((t.dtype for t in (q, bound.get("kv")) if t is not None and "float8" in str(t.dtype)), torch.float8_e4m3fn)
        if self.form == "prefill":
            self.width = bound["kv"].shape[0]
            self.keys, self.scales = bound["kv"].view(self.fp8).float(), bound["kv_scales"].float().flatten()
        else:
            self.width = int(bound["max_model_len"])
            self._read_cache(bound["kv_cache"])
        self.used = torch.zeros(len(self.keys), dtype=torch.bool)
        self.rows = [self._row(*where) for where in self._where()]

    def _read_cache(self, cache: Any) -> None:
        """Keys and scales by physical slot: a page holds its keys, then its scales (layouts.block_flat)."""
        import torch

        self.block_size, head_dim = cache.shape[1], self.q.shape[-1]
        pages = cache.contiguous().view(torch.uint8).reshape(cache.shape[0], -1)
        if pages.shape[1] != self.block_size * (head_dim + 4):
            raise ValueError(f"a cache page of {pages.shape[1]} bytes is not {self.block_size} tokens of {head_dim} + 4 bytes")
        self.keys = pages[:, : self.block_size * head_dim].contiguous().view(self.fp8).reshape(-1, head_dim).float()
        self.scales = pages[:, self.block_size * head_dim :].contiguous().view(torch.float32).flatten()

    def _where(self) -> list[tuple[int, Any, Any, Any, int]]:
        """(output row, query [heads, head_dim], weights [heads], slots, first column) of every row."""
        import torch

        batch, next_n = self.q.shape[:2]
        weights = self.bound["weights"].float().reshape(batch * next_n, -1)
        query = self.q.float()
        found = []
        for b in range(batch):
            for j in range(next_n):
                row, first = b * next_n + j, 0
                if self.form == "prefill":
                    first = int(self.bound["starts"][row])
                    slots = torch.arange(first, max(int(self.bound["ends"][row]), first))
                elif self.form == "ragged":
                    ends = self.bound["context_lens"].flatten()
                    slots = self.bound["block_table"].flatten()[int(ends[b]) : int(ends[b + 1]) - next_n + 1 + j].long()
                else:
                    lens = self.bound["context_lens"]
                    length = int(lens[b, j]) if lens.dim() == 2 else int(lens[b]) - next_n + 1 + j
                    position = torch.arange(max(length, 0))
                    page = self.bound["block_table"][b, position // self.block_size].long()
                    slots = page * self.block_size + position % self.block_size
                found.append((row, query[b, j], weights[row], slots, first))
        return found

    def _row(self, row: int, query: Any, weight: Any, slots: Any, first: int) -> tuple[int, int, Any, Any]:
        import torch

        self.used[slots] = True
        raw = (query @ self.keys[slots].T) * self.scales[slots]
        exact = (weight[:, None] * torch.relu(raw)).sum(0)
        return row, first, exact, weight[:, None] * torch.fmax(raw, torch.zeros(()))

    def write(self, out: Any, wrong: bool) -> None:
        """Fills the output as the kernel would.

        Args:
            out: [rows, width], or [num_heads, rows, width] where the kernel leaves the sum to its caller.
            wrong: whether every row's answers are put at the mirrored positions: a fault that any script must see.
        """
        for row, first, exact, heads in self.rows:
            values = (exact if ENTRIES[self.name].get("reference") else heads.sum(0)) if not self.per_head else heads
            values = values.flip(-1) if wrong else values
            target = out[..., row, :]
            target[..., :first] = float("-inf")
            target[..., first : first + values.shape[-1]] = values
            target[..., first + values.shape[-1] :] = float("-inf")

    def facts(self) -> dict[str, Any]:
        """What the inputs are worth, in numbers that JSON holds."""
        import torch

        keys, scales = self.keys[self.used], self.scales[self.used]
        rows = torch.cat([exact for _, _, exact, _ in self.rows]) if self.rows else torch.zeros(0)
        finite = scales[scales.isfinite()]
        lengths = [len(exact) for _, _, exact, _ in self.rows]
        batch, next_n, heads, head_dim = self.q.shape
        entry = ENTRIES[self.name]
        count = max(len(keys), 1)
        good = rows[rows.isfinite()]
        return {
            "entry": self.name, "form": self.form, "reference": bool(entry.get("reference")),
            "batch": batch, "next_n": next_n, "num_heads": heads, "head_dim": head_dim,
            "block_size": getattr(self, "block_size", 1), "width": self.width,
            "row_lengths": lengths[:64], "longest": max(lengths, default=0),
            "context_len": max(self._contexts(), default=0), "kv_dtype": str(self.fp8).removeprefix("torch.float8_"),
            "tokens": len(keys), "nan_tokens": int(keys.isnan().any(1).sum()) / count,
            "scales_nonfinite": int((~scales.isfinite()).sum()) / count, "scales_negative": int((finite < 0).sum()) / count,
            "scales_zero": int((finite == 0).sum()) / count,
            "scales_range": [float(finite.abs().min()), float(finite.abs().max())] if len(finite) else None,
            "q_nan": int(self.q.float().isnan().sum()), "weights_nonfinite": int((~self.bound["weights"].float().isfinite()).sum()),
            "reference_finite": len(good) / max(len(rows), 1), "logits_equal": bool(len(good) > 1 and (good == good[0]).all()),
            "table": self._table(), "chunk_q": self.bound.get("chunk_q", entry.get("chunk_q")), "chunk_q_given": "chunk_q" in self.bound,
        }  # fmt: skip

    def _contexts(self) -> list[int]:
        if self.form != "paged":
            return [len(exact) for _, _, exact, _ in self.rows]
        return [int(length) for length in self.bound["context_lens"].flatten()[:4096]]

    def _table(self) -> str:
        """`ascending` where page i is the i-th: a kernel that never reads its table answers the same."""
        import torch

        table = self.bound.get("block_table")
        if table is None:
            return "none"
        flat = table if table.dim() == 2 else table.unsqueeze(0)
        same = torch.arange(flat.shape[1]).expand_as(flat)
        stride = "" if table.is_contiguous() else ", not contiguous"
        return ("ascending" if bool((flat == same).all()) else "mixed") + stride
