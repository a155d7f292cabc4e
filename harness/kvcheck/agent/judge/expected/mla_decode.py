"""Out and lse of MLA decode, and the bound of NUMERICS 2: no correct kernel of the stated formats differs from float64 by more.

    rho_t = E_t + 2u(m - x_t) + eps + R + 2u range(x) + 4u |lse| + 4u          what re-weights a token
    B_out = (sum pi rho |v| + |o| sum pi rho + num + den |o|) / (1 - sum pi rho - den), then the rounding of the output
    num   = (u_p + gamma(n_acc + n_resc, u) + u_part + 8u) sum pi |v| (1 + max rho) + eta_p / l * sum |v|,   den = gamma(n_acc, u) + 8u

E_t = sc gamma(2 head_dim, u) |q|.|k_t| + 3u |x_t| bounds a score, pi are the weights, m the largest score, l = sum exp(x - m).
Inputs that are exact in every order (coded attention) leave the roundings of the output and of lse alone.
Source: Blanchard, Higham and Higham, IMA JNA 41 (2021); Higham and Mary, SISC 41 (2019).
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from kvcheck.agent.precision import Model, U

EXPONENTIAL = 2.0**-21
"""Error of an exponential, its multiplication by log2(e) included (ex2.approx)."""

SLACK = 1 + 1e-6


def expected(inputs: Any, tensors: dict[str, Any], model: Model) -> dict[str, tuple[Any, Any]]:
    """Values and bounds of both outputs.

    Args:
        inputs: the call.
        tensors: its tensors on the case's device.
        model: precision of the kernel; one that is not of attention has P in fp32.

    Returns:
        out: ([batch, next_n, num_heads, head_dim_v] float64, the same).
        lse: ([batch, next_n, num_heads] float64, the same).
    """
    import torch

    reference = importlib.import_module("kvcheck_references.mla_decode")
    given = inputs.scalars
    batch, next_n, heads, dim = tensors["q"].shape
    device, width = tensors["q"].device, given["head_dim_v"]
    stored, least = (2.0**-11, 2.0**-24) if tensors["q"].dtype == torch.float16 else (2.0**-8, 2.0**-126)
    out = torch.zeros(batch, next_n, heads, width, dtype=torch.float64, device=device)
    lse = torch.zeros(batch, next_n, heads, dtype=torch.float64, device=device)
    of_out, of_lse = torch.zeros_like(out), torch.zeros_like(lse)
    keys = ("page_size", "softmax_scale", "kv_format", "kv_scale")
    calls = reference.requests(**tensors, **{key: given[key] for key in keys})
    for b, limits, score, tokens in calls:
        terms = _Terms(
            reference.weights(score),
            score,
            tensors["q"][b].double().abs(),
            given["softmax_scale"],
            model,
            limits,
            given["num_splits"],
            inputs.exact,
        )
        out[b], of_out[b] = terms.output(tokens, width, max(model.u_out, stored), stored, least)
        lse[b], of_lse[b] = terms.lse, terms.lse_bound()
        for j, limit in enumerate(limits):
            if not limit:
                out[b, j], lse[b, j] = reference.empty(given["empty_row"])
                of_out[b, j] = of_lse[b, j] = 0
    return {"out": (out, of_out), "lse": (lse, of_lse)}


class _Terms:
    """Scores of one request, and what their errors do; all [next_n, num_heads, positions] or [next_n, num_heads]."""

    def __init__(self, parts: Any, score: Any, queries: Any, scale: float, model: Model, limits: list[int], splits: int, exact: bool):
        import torch

        self.score, self.queries, self.scale, self.model, self.exact = score, queries, scale, model, exact
        count = torch.tensor(limits, dtype=torch.float64, device=score.device)[:, None]
        depth = torch.full_like(count, float(model.n_acc)) if model.n_acc else count
        rescalings = torch.ceil(count / max(model.tile, 1)) + splits
        self.sums = _gamma(depth)
        self.rescaled_sums = _gamma(depth + rescalings)
        self.rescaling = rescalings * (EXPONENTIAL + U)
        self.share, self.total, self.top = parts
        self.lse = self.top + self.total.log()
        self.weight = self.share / self.total.clamp(min=1.0)[..., None]
        self.seen = torch.isfinite(score)
        self.below = torch.where(self.seen, self.top[..., None] - score, torch.zeros_like(score))
        self.range = self.below.amax(2) if score.shape[2] else self.top

    def output(self, tokens: Any, width: int, u_out: float, stored: float, least: float) -> tuple[Any, Any]:
        """out and its bound, both [next_n, num_heads, head_dim_v]; `stored`, `least`: roundings of the dtype."""
        import torch

        value = torch.zeros(*self.score.shape[:2], width, dtype=torch.float64, device=self.score.device)
        for start, rows in tokens():
            value += self.share[..., start : start + len(rows)] @ rows[:, :width]
        value /= self.total[..., None]
        if self.exact:
            # Exactly representable: rounded to nearest it stays, truncated it may lose a unit that a rescaling put in doubt.
            truncated = u_out if u_out > stored else 0.0
            return value, value.abs() * truncated + least  # weights that are 0 in fp32 are 1e-128 in the reference
        self.error = torch.zeros_like(self.score)
        reach = self.scale * _gamma(2.0 * self.queries.shape[-1])
        for start, rows in tokens():
            self.error[..., start : start + len(rows)] = reach * (self.queries @ rows.abs().T)
        self.error += 3 * U * torch.where(self.seen, self.score, torch.zeros_like(self.score)).abs()
        everywhere = EXPONENTIAL + self.rescaling + 2 * U * self.range + 4 * U * self.lse.abs() + 4 * U
        rho = torch.where(self.seen, self.error + 2 * U * self.below + everywhere[..., None], torch.zeros_like(self.error))
        moved = self.weight * rho
        size, shaken, plain = (torch.zeros_like(value) for _ in range(3))
        for start, rows in tokens():
            v, span = rows[:, :width], slice(start, start + len(rows))
            size += self.weight[..., span] @ v.abs()
            shaken += moved[..., span] @ v.abs()
            if self.model.eta_p:
                plain += self.seen[..., span].double() @ v.abs()
        total, most = moved.sum(2)[..., None], rho.amax(2)[..., None] if rho.shape[2] else 0.0
        share = (self.model.u_p + self.rescaled_sums + self.model.u_part + 8 * U)[..., None]
        num = share * size * (1 + most) + self.model.eta_p / self.total.clamp(min=1.0)[..., None] * plain
        den = (self.sums + 8 * U)[..., None]
        bound = (shaken + value.abs() * total + num + den * value.abs()) / (1 - total - den).clamp(min=1e-300)
        bound = torch.where(1 - total - den > 0, bound, torch.full_like(bound, math.inf))
        return value, (bound + u_out * (value.abs() + bound)) * SLACK + least

    def lse_bound(self) -> Any:
        """Bound of lse, [next_n, num_heads]."""
        logs = U * (3 * self.top.abs() + 4 * self.total.log().abs() + 2 * self.lse.abs()) + 8 * U
        if self.exact:
            return logs
        moved = (self.weight * (self.error + 2 * U * self.below)).sum(2)
        return (moved + self.rescaling + EXPONENTIAL + self.sums + 2 * U * self.range + logs) * SLACK


def _gamma(count: Any) -> Any:
    return count * U / (1 - count * U)
