"""aiter's Triton MLA decode, called as its own tests call it: dense by pages, sparse by token slots.

Dense (page_size 16 and above): aiter.ops.triton.attention.mla.mla_decode_fwd. It returns no lse: that is put together here from the
partial sums that the same kernel leaves with skip_reduce=True. Token slots (page_size 1, one query token a request):
unified_attention_sparse_mla, whose lists are as wide as the longest, -1 past a row's end; it has no lse, which is withheld from the
judge, and a row without a token is NaN. On ROCm the installed package's assembly is called instead (mla_asm.py).

Source: ROCm/aiter@e4048607a5 aiter/ops/triton/attention/mla.py, unified_attention_sparse_mla.py; op_tests/triton_tests/attention.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter import mla_asm, shim

ASSEMBLY = "aiter.mla"
DENSE = "aiter.ops.triton.attention.mla"
SPARSE = "aiter.ops.triton.attention.unified_attention_sparse_mla"
LN_2 = 0.6931471805599453
LEAST_PAGE = 16
"""A page is the kernel's tile, and a matrix product takes 16 rows at least."""


def attach(made: Any) -> Any:
    """Gives one bound aiter its `mla_decode`, and returns it.

    Args:
        made: a `calls.Aiter`.
    """
    told, declared, ran = made.dispatch, made.precision, {}

    def dispatch(op: str) -> str | None:
        return f"{made.source.name()} {ran['said']}" if op == "mla_decode" and ran else told(op)

    def precision(op: str, params: dict[str, Any], device: dict[str, Any]) -> str | None:
        if op != "mla_decode":
            return declared(op, params, device)
        kind = "fp16" if params["kv_format"] == "fp16" else "bf16"
        return f"mla+u_p={kind}+u_out={kind}"

    def withheld(op: str, params: dict[str, Any]) -> tuple[str, ...]:
        if op != "mla_decode":
            return ()
        if made.machine.rocm:
            return () if mla_asm.has_lse(_module(ASSEMBLY).mla_decode_fwd) else ("lse",)
        return ("lse",) if params["page_size"] == 1 else ()

    made.mla_decode = functools.partial(_mla_decode, made, ran)
    made.dispatch, made.precision, made.withheld = dispatch, precision, withheld
    return made


def _mla_decode(
    made: Any,
    ran: dict[str, str],
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    last_page_len: torch.Tensor,
    *,
    page_size: int,
    head_dim_v: int,
    softmax_scale: float,
    kv_format: str,
    kv_scale: float,
    num_splits: int,
    empty_row: str,
    out: torch.Tensor,
    lse: torch.Tensor,
    alloc: Any,
) -> None:
    """MLA decode by aiter (the op's function; tensors as the op documents them)."""
    batch, next_n, heads, dim = q.shape
    pages = (kv_indptr[1:] - kv_indptr[:-1]).long()
    lens = torch.where(pages > 0, (pages - 1) * page_size + last_page_len, 0)
    _refuse(made, kv_format, dim, head_dim_v)
    if made.machine.rocm:
        ran["said"] = f"{ASSEMBLY}.mla_decode_fwd (assembly)"
        mla_asm.call(
            _module(ASSEMBLY).mla_decode_fwd, q, kv_cache, kv_indptr, kv_indices, last_page_len, page_size=page_size,
            softmax_scale=softmax_scale, kv_format=kv_format, num_splits=num_splits, out=out, lse=lse,
        )  # fmt: skip
        return
    sparse = page_size == 1
    wide = torch.full((batch, max(int(pages.max()), 1)), -1 if sparse else 0, dtype=torch.int32, device=q.device)
    inside = torch.arange(wide.shape[1], device=q.device) < pages[:, None]
    wide[inside] = kv_indices[: int(kv_indptr[-1])]
    cache = kv_cache.view(_dtype(kv_format))
    rows, seats = q.view(batch * next_n, heads, dim), out.view(batch * next_n, heads, head_dim_v)
    starts = torch.arange(0, batch * next_n + 1, next_n, dtype=torch.int32, device=q.device)
    if sparse:
        _refuse_sparse(made, kv_format, heads, next_n, empty_row if bool((lens == 0).any()) else None)
        spare = -len(cache) % LEAST_PAGE
        pool = cache if not spare else torch.cat((cache, cache.new_zeros(spare, 1, 1, dim)))
        pool = pool.view(-1, LEAST_PAGE, 1, dim)
        longest = int(lens.max())
        wrapper = _module(SPARSE).unified_attention_sparse_mla
        ran["said"] = f"{SPARSE}.unified_attention_sparse_mla, tiles of {LEAST_PAGE} tokens; it has no lse"
        wrapper(rows, pool, seats, starts, 1, lens.int(), longest, softmax_scale, wide, wide, head_dim_v)
        return
    _refuse_dense(made, page_size, bool((lens < next_n).any()))
    per_tensor = None if kv_format in ("bf16", "fp16") else torch.tensor([kv_scale], dtype=torch.float32, device=q.device)
    call = functools.partial(
        _module(DENSE).mla_decode_fwd, rows, cache, seats, starts, lens.int(), int(lens.max()), wide, softmax_scale,
        head_dim_v, dim - head_dim_v, True, None, per_tensor,
    )  # fmt: skip
    ran["said"] = f"{DENSE}.mla_decode_fwd, which splits as it likes; lse from its partial sums"
    call()
    parts = call(skip_reduce=True)
    if not isinstance(parts, tuple):
        raise Unsupported("aiter's mla_decode_fwd leaves no partial sums at one segment, so there is no lse")
    _, tops, totals = parts
    lse.copy_(_lse(tops, totals, lens, page_size).view(batch, next_n, heads))


def _lse(tops: torch.Tensor, totals: torch.Tensor, lens: torch.Tensor, page_size: int) -> torch.Tensor:
    """Natural lse of the segments that a sequence reaches: [tokens, heads]. The others were never written."""
    tokens, _, segments = tops.shape
    tiles = (lens + segments * page_size - 1) // (segments * page_size)
    first = torch.arange(segments, device=tops.device) * (tiles * page_size)[:, None]
    live = (first < lens[:, None]).repeat_interleave(tokens // len(lens), 0)[:, None, :] & (totals != 0)
    top = torch.where(live, tops, -torch.inf).amax(2, keepdim=True)
    total = torch.where(live, totals * torch.exp2(tops - top), 0.0).sum(2)
    return (top[..., 0] + torch.log2(total)) * LN_2


def _refuse(made: Any, kv_format: str, dim: int, head_dim_v: int) -> None:
    """Refuses what neither kernel is written for.

    Raises:
        Unsupported: why.
    """
    if not made.plain:
        raise Unsupported(f"aiter:{made.variant} is a way to score the indexer's keys; MLA is called through plain aiter")
    if made.machine.rocm:
        if made.source.directory is not None:
            raise Unsupported("aiter's assembly MLA needs the installed package: a checkout has nothing built")
        return
    if kv_format == "fp8_656":
        raise Unsupported("aiter's Triton MLA does not read 656-byte tokens")
    if dim == head_dim_v or head_dim_v & (head_dim_v - 1) or (dim - head_dim_v) & (dim - head_dim_v - 1):
        raise Unsupported("aiter's Triton MLA takes latents and rotated parts of powers of two, and no latent without a rotated part")
    if made.interpreted and kv_format != "fp16":
        raise Unsupported("Triton's interpreter multiplies bf16 wrongly (3.7.1: as integers); fp16 is right there")
    wanted = made.machine.fp8 or kv_format
    if kv_format in ("e4m3fn", "e4m3fnuz") and kv_format != wanted:
        raise Unsupported(f"aiter's FP8 on {made.machine.arch} is {wanted}")


def _refuse_sparse(made: Any, kv_format: str, heads: int, next_n: int, empty_row: str | None) -> None:
    if kv_format not in ("bf16", "fp16"):
        raise Unsupported("aiter's unified_attention_sparse_mla has no scale for FP8")
    if next_n > 1:
        raise Unsupported("aiter's unified_attention_sparse_mla has one list a query token; this call has one a request")
    if heads % 16 and not made.run_unsupported:
        raise Unsupported("aiter's unified_attention_sparse_mla computes whole tiles of 16 heads and leaves the others unwritten")
    if empty_row not in (None, "nan") and not made.run_unsupported:
        raise Unsupported("aiter's unified_attention_sparse_mla leaves NaN in a row without a token (empty_row: nan)")


def _refuse_dense(made: Any, page_size: int, empty: bool) -> None:
    if page_size < LEAST_PAGE or page_size & (page_size - 1):
        raise Unsupported(f"aiter's mla_decode_fwd takes pages of a power of two from {LEAST_PAGE} tokens on: a page is its tile")
    if empty and not made.run_unsupported:
        raise Unsupported("aiter's mla_decode_fwd says nothing of rows that see no token")


def _dtype(kv_format: str) -> Any:
    return {
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
        "e4m3fn": torch.float8_e4m3fn,
        "e4m3fnuz": torch.float8_e4m3fnuz,
    }[kv_format]


def _module(name: str) -> Any:
    """One more file of the aiter that is loaded.

    Raises:
        Unsupported: it has none, or it does not load.
    """
    try:
        with shim._some_driver():
            return importlib.import_module(name)
    except Exception as error:
        raise Unsupported(f"{name} does not load: {type(error).__name__}: {error}") from error
