"""Certified error bound of every logit: no correct kernel of the stated precision differs from float64 by more.

    B = |s| * sum_h |w_h| * (E_h * (1 + g) + g * relu(d_h)) + eta,   g = gamma(H + 2, 2**-24)

E_h bounds the error of the dot d_h under the precision model; relu is 1-Lipschitz; the head sum and at most three
multiplications cost g; eta allows flush-to-zero. With inputs that are exact in any fp32 order E, g and eta are zero.
Source: Higham, Accuracy and Stability of Numerical Algorithms (2002), 3 and 4; Jeannerod and Rump, SIMAX 34 (2013).
"""

from __future__ import annotations

import importlib
from typing import Any

from kvcheck.agent.layouts import fp8
from kvcheck.agent.precision import Model, U

FLUSH = 2.0**-126
"""What a result below the smallest normal number can lose where such numbers are flushed to zero."""

REFERENCE_SLACK = 1 + 1e-6
"""Covers the rounding of the float64 reference and of this bound itself."""


def logits_bound(tensors: dict[str, Any], scalars: dict[str, Any], row_lengths: Any, model: Model, exact: bool) -> Any:
    """The bound of `paged_mqa_logits`: the second of `reference_with_bound`."""
    return reference_with_bound(tensors, scalars, row_lengths, model, exact)[1]


def reference_with_bound(tensors: dict[str, Any], scalars: dict[str, Any], row_lengths: Any, model: Model, exact: bool) -> tuple[Any, Any]:
    """The reference's logits and their bound, in one pass over the reference's own terms.

    Args:
        tensors: the op's tensors on one device: q, kv_cache, weights, context_lens, block_table.
        scalars: block_size, kv_dtype, max_model_len.
        row_lengths: [rows] int64. Promised positions of each row.
        model: precision of the kernel.
        exact: the inputs are exact in any fp32 order.

    Returns:
        logits: [rows, max_model_len] float64. Bit for bit the reference's; -inf past each row's length.
        bound: [rows, max_model_len] float64. 0 past each row's length.
    """
    import torch

    q = tensors["q"]
    batch, next_n, heads, dim = q.shape
    weights = tensors["weights"].double().view(batch, next_n, 1, heads)
    sizes = weights.abs()
    both = torch.stack((weights, sizes), 1).view(batch, 2, next_n, 1, heads)
    share, of_relu = factors(model, heads, dim, exact)
    flush = None if exact else (sizes.sum(3) + 2 * heads) * FLUSH
    logits = torch.full((batch, next_n, scalars["max_model_len"]), -torch.inf, dtype=torch.float64, device=q.device)
    bound = torch.zeros_like(logits)
    context = {name: tensors[name] for name in ("q", "kv_cache", "context_lens", "block_table")}
    terms = importlib.import_module("kvcheck_references.paged_mqa_logits").terms
    for b, start, score, queries, keys, scale in terms(**context, **scalars):
        span = slice(start, start + len(keys))
        logits[b, :, span], total = (both[b] @ score)[:, :, 0]
        total.mul_(of_relu)
        if not exact:
            total += flush[b]
        if share:
            reach = (sizes[b] @ queries.abs().view(next_n, heads, dim))[:, 0]
            total.addcmul_(reach @ keys.abs().T, scale.abs(), value=share)
        if not exact:
            total.add_(scale.abs(), alpha=FLUSH * heads)
        if model.kind != "any_order" and not exact:
            running = running_error(queries, keys, scalars["kv_dtype"], model).view(next_n, heads, -1)
            total.addcmul_((sizes[b] @ running)[:, 0], scale.abs(), value=factors(model, heads, dim, exact, running=True)[0])
        bound[b, :, span] = total
    for row, length in enumerate(row_lengths.tolist()):
        b, j = divmod(row, next_n)
        logits[b, j, length:] = -torch.inf
        bound[b, j, length:] = 0
    return logits.view(batch * next_n, -1), bound.view(batch * next_n, -1)


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


def factors(model: Model, heads: int, dim: int, exact: bool, running: bool = False) -> tuple[float, float]:
    """What |w| |q| . |k| |s| (or |w| E |s| of a running bound) and |w| relu(s d) are multiplied by.

    An any-order E is a multiple of |q| . |k|, so that its sum over heads is one dot a token instead of one a head.
    """
    g = 0.0 if exact else gamma(heads + 2, U)
    of_error = (1 + g) * (1 + model.u_s) * REFERENCE_SLACK
    of_relu = (g + (1 + g) * model.u_s) * REFERENCE_SLACK
    if running:
        return of_error * (1 + model.u_k), of_relu
    share = 0.0
    if model.kind == "any_order" and not exact:
        share = gamma(model.depth * dim if model.depth > 1 else max(dim - 1, 1), model.unit)
    if model.u_k:
        share = share * (1 + model.u_k) + model.u_k + U
    return of_error * share, of_relu


def running_error(qf: Any, kf: Any, kv_dtype: str, model: Model) -> Any:
    """Bound of a fused multiplier that aligns `block` products and the accumulator to their largest exponent, block by block."""
    import torch

    qp, kp = fp8.powers(qf, kv_dtype), fp8.powers(kf, kv_dtype)
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


def gamma(count: int, unit: float) -> float:
    """Higham's gamma: the relative error of `count` roundings in a row."""
    return count * unit / (1 - count * unit)
