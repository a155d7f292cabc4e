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

    q, cache, table = tensors["q"], tensors["kv_cache"], tensors["block_table"].long()
    batch, next_n, heads, _ = q.shape
    block_size, kv_dtype = scalars["block_size"], scalars["kv_dtype"]
    weights = tensors["weights"].double().abs()
    bound = torch.zeros(batch * next_n, scalars["max_model_len"], dtype=torch.float64, device=cache.device)
    step = max(CHUNK_BYTES // (8 * heads * next_n), 64)
    queries = q.view(torch.uint8)
    for request in range(batch):
        rows = slice(request * next_n, (request + 1) * next_n)
        length = int(row_lengths[rows].max())
        for start in range(0, length, step):
            position = torch.arange(start, min(start + step, length), device=cache.device)
            slots = table[request, position // block_size] * block_size + position % block_size
            codes, scales = block_flat.gather(cache, slots)
            dot, error = _dot_and_error(queries[request].reshape(next_n * heads, -1), codes, kv_dtype, model, exact)
            shape = (next_n, heads, len(position))
            bound[rows, start : start + len(position)] = _combine(
                dot.view(shape), error.view(shape), weights[rows], scales.double().abs(), model, exact
            )
    bound *= torch.arange(bound.shape[1], device=bound.device) < row_lengths.to(bound.device)[:, None]
    return bound.mul_(REFERENCE_SLACK)


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


def _combine(dot: Any, error: Any, weights: Any, scale: Any, model: Model, exact: bool) -> Any:
    heads = weights.shape[1]
    relu = dot.clamp(min=0)
    if model.u_s:
        error = error + model.u_s * (relu + error)
    g = 0.0 if exact else _gamma(heads + 2, U)
    total = scale * (weights[:, :, None] * (error * (1 + g) + g * relu)).sum(1)
    if not exact:
        total += 2.0**-126 * (weights.sum(1)[:, None] + heads * (2 + scale))
    return total


def _dot_and_error(q: Any, k: Any, kv_dtype: str, model: Model, exact: bool) -> tuple[Any, Any]:
    """d = q . k and its bound E for all pairs: [queries, tokens] float64 each."""
    import torch

    qf, kf = fp8.decode(q, kv_dtype), fp8.decode(k, kv_dtype)
    dot = qf @ kf.T
    magnitude = qf.abs() @ kf.abs().T
    dim = qf.shape[1]
    if exact:
        error = torch.zeros_like(dot)
    elif model.kind == "any_order":
        count = model.depth * dim if model.depth > 1 else max(dim - 1, 1)
        error = _gamma(count, model.unit) * magnitude
    else:
        error = _running(qf, kf, fp8.powers(q, kv_dtype), fp8.powers(k, kv_dtype), model)
    if model.u_k:
        error = error * (1 + model.u_k) + (model.u_k + U) * magnitude
    return dot, error


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
