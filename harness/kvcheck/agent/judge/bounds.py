"""Certified error bound of every logit: no correct kernel of the stated precision differs from float64 by more.

    B = |s| * sum_h |w_h| * (E_h * (1 + g) + g * relu(d_h)) + eta,   g = gamma(H + 2, 2**-24)

E_h bounds the error of the dot d_h under the precision model; relu is 1-Lipschitz; the head sum and at most three
multiplications cost g; eta allows flush-to-zero. With inputs that are exact in any fp32 order E, g and eta are zero.
Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), 3 and 4; Jeannerod and Rump, SIMAX 34 (2013).
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.precision import U, Model
from kvcheck.agent.layouts import block_flat, fp8

CHUNK_BYTES = 1 << 26
"""Bytes of a float64 [heads, tokens] intermediate: bounds memory at 202,752 tokens."""

FLUSH = 2.0**-126
"""What a result below the smallest normal number can lose where such numbers are flushed to zero."""

REFERENCE_SLACK = 1 + 1e-6
"""Covers the rounding of the float64 reference and of this bound itself."""


def logits_bound(tensors: dict[str, Any], scalars: dict[str, Any], row_lengths: Any, model: Model, exact: bool) -> Any:
    """The bound of `paged_mqa_logits`.

    Args:
        tensors: the op's tensors on one device: q, kv_cache, weights, context_lens, block_table.
        scalars: block_size, kv_dtype, max_model_len.
        row_lengths: [rows] int64. Promised positions of each row.
        model: precision of the kernel.
        exact: the inputs are exact in any fp32 order.

    Returns:
        bound: [rows, max_model_len] float64. 0 past each row's length.
    """
    import torch

    q, cache, table = tensors["q"], tensors["kv_cache"], tensors["block_table"]
    batch, next_n, heads, dim = q.shape
    block_size, kv_dtype = scalars["block_size"], scalars["kv_dtype"]
    weights = tensors["weights"].double().abs_().view(batch, next_n, heads)
    flush = (weights.sum(2, keepdim=True) + 2 * heads) * FLUSH if not exact else weights.new_zeros(batch, next_n, 1)
    queries = q.view(torch.uint8).view(batch, next_n * heads, dim)
    keys, scales = block_flat.values(cache), block_flat.scales(cache)
    lengths = row_lengths.view(batch, next_n).tolist()
    bound = torch.zeros(batch, next_n, scalars["max_model_len"], dtype=torch.float64, device=cache.device)
    step = max(CHUNK_BYTES // (8 * heads * next_n), 64)
    for request, rows in enumerate(lengths):
        longest = max(rows)
        for start in range(0, longest, step):
            position = torch.arange(start, min(start + step, longest), device=cache.device)
            page, offset = table[request, position // block_size], position % block_size
            total = _weighted(queries[request], keys[page, offset], weights[request], kv_dtype, model, exact)
            scale = scales[page, offset].abs_().double()
            bound[request, :, start : start + len(position)] = torch.addcmul(flush[request], total, scale)
        for row, length in enumerate(rows):
            if length < longest:
                bound[request, row, length:longest] = 0
    return bound.view(batch * next_n, -1)


def add_output_rounding(bound: Any, expected: Any, model: Model) -> Any:
    """Widens a bound by the rounding of stored logits.

    Args:
        bound: [...] float64. Changed.
        expected: [...] float64. Reference logits; non-finite ones are left alone.
        model: precision of the kernel.

    Returns:
        bound: [...] float64.
    """
    import torch

    if model.u_out:
        finite = torch.isfinite(expected)
        bound += torch.where(finite, model.u_out * (expected.abs() + bound), torch.zeros_like(bound))
    return bound


def _weighted(q: Any, k: Any, weights: Any, kv_dtype: str, model: Model, exact: bool) -> Any:
    """The bound before the scale: sum over heads of |w| (E (1 + g) + g relu(d)), and the flush of the scaled terms.

    An any-order E is a multiple of |q| . |k|, so that its sum is one dot a token instead of one a head.

    Args:
        q: [next_n * heads, head_dim] uint8. Queries.
        k: [tokens, head_dim] uint8. Keys.
        weights: [next_n, heads] float64. Magnitudes.

    Returns:
        total: [next_n, tokens] float64.
    """
    import torch

    next_n, heads = weights.shape
    weight = weights[:, None]
    g = 0.0 if exact else _gamma(heads + 2, U)
    of_error = (1 + g) * (1 + model.u_s) * REFERENCE_SLACK
    of_relu = (g + (1 + g) * model.u_s) * REFERENCE_SLACK
    share = 0.0
    if model.kind == "any_order" and not exact:
        count = model.depth * q.shape[1] if model.depth > 1 else max(q.shape[1] - 1, 1)
        share = _gamma(count, model.unit)
    if model.u_k:
        share = share * (1 + model.u_k) + model.u_k + U
    qf, kf = fp8.decode(q, kv_dtype), fp8.decode(k, kv_dtype)
    reach = weight @ qf.abs().view(next_n, heads, -1)
    error = reach @ kf.abs().T
    relu = (qf @ kf.T).view(next_n, heads, -1).clamp_(min=0)
    total = torch.baddbmm(error, weight, relu, beta=of_error * share, alpha=of_relu)[:, 0]
    if model.kind != "any_order" and not exact:
        running = _running(qf, kf, fp8.powers(q, kv_dtype), fp8.powers(k, kv_dtype), model).view(next_n, heads, -1)
        total += (weight @ running)[:, 0] * (of_error * (1 + model.u_k))
    return total if exact else total.add_(FLUSH * heads)


def _running(qf: Any, kf: Any, qp: Any, kp: Any, model: Model) -> Any:
    """Bound of a fused multiplier that aligns `block` products and the accumulator to their largest exponent, block by block."""
    import torch

    error = torch.zeros(len(qf), len(kf), dtype=torch.float64, device=qf.device)
    prefix = torch.zeros_like(error)
    for start in range(0, qf.shape[1], model.block):
        lanes = slice(start, start + model.block)
        largest = torch.zeros_like(error)
        for lane in range(start, min(start + model.block, qf.shape[1])):
            torch.maximum(largest, qp[:, lane, None] * kp[None, :, lane], out=largest)
        top = torch.maximum(largest, prefix.abs() + error)
        prefix = prefix + qf[:, lanes] @ kf[:, lanes].T
        if model.kind == "cdna3":
            error = error + 18 * U * largest + (U + 2.0**-31) * top + U * (prefix.abs() + error)
        else:
            error = error + model.block * 2.0**-model.fraction * top
            error = error + 2.0**-model.out * (prefix.abs() + error)
    return error


def _gamma(count: int, unit: float) -> float:
    return count * unit / (1 - count * unit)
