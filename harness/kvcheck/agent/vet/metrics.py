"""What a script's comparison would say of answers whose worth is known: fillers, index lists, tolerances."""

from __future__ import annotations

from typing import Any

LOW = -1e3
"""A value that many elements share is a filler below this; -inf is none, since no logit can be lower."""


def filler(values: Any) -> dict[str, Any]:
    """The finite constant that stands for "no logit" in what a top-k is taken of.

    Returns:
        facts: filler (None without one), below (finite values that are lower: they lose to it), nan (values that are NaN).
    """
    import torch

    nan = int(values.isnan().sum())
    low = values[values.isfinite() & (values < LOW)].float()
    if low.numel() < 2:
        return {"filler": None, "below": 0, "nan": nan}
    distinct, counts = torch.unique(low, return_counts=True)
    most = int(counts.argmax())
    if int(counts[most]) < 2:
        return {"filler": None, "below": 0, "nan": nan}
    return {"filler": float(distinct[most]), "below": int((low < distinct[most]).sum()), "nan": nan}


def lists(left: Any, right: Any, longest: int) -> dict[str, Any]:
    """Two index lists, compared entry by entry and as sets.

    Returns:
        facts: k, positional (share of equal entries), overlap (share of common members), chance (of a random selection), outside
            (members past the longest row).
    """
    k = left.shape[-1]
    a, b = left.reshape(-1, k).tolist(), right.reshape(-1, k).tolist()
    common = sum(len(set(x) & set(y)) for x, y in zip(a, b, strict=True)) / max(len(a) * k, 1)
    equal = sum(sum(i == j for i, j in zip(x, y, strict=True)) for x, y in zip(a, b, strict=True)) / max(len(a) * k, 1)
    outside = sum(i >= longest for row in (*a, *b) for i in row)
    return {"k": k, "positional": equal, "overlap": common, "chance": min(1.0, k / longest) if longest else 1.0, "outside": outside}


def lets_through(expected: Any, rtol: float, atol: float, equal_nan: bool) -> dict[str, bool | float]:
    """Which wrong answers pass a tolerance, and whether an honest one fails it.

    Returns:
        facts: zeros, mirrored (answers that pass: all zero; each row's at the mirrored positions), refuses_rounding (an answer that
            differs by 2^-20 of the largest value, as fp32 sums in another order do, fails), nan (share of NaN in what is expected).
    """
    import torch

    wanted = expected.double()
    finite = wanted.isfinite()
    if not wanted.numel() or not finite.any():
        return {"zeros": True, "mirrored": True, "refuses_rounding": False, "nan": float(wanted.isnan().double().mean())}
    largest = float(wanted[finite].abs().max())

    def passes(answer: Any) -> bool:
        return torch.allclose(answer, wanted, rtol=rtol, atol=atol, equal_nan=True)

    row = torch.where(finite, wanted, 0.0)
    order = torch.flip(row, [-1]) if row.dim() else row
    turned = torch.where(finite & torch.flip(finite, [-1]), order, wanted) if row.dim() else wanted
    return {
        "zeros": largest > 0 and passes(torch.where(finite, 0.0, wanted)),
        "mirrored": bool((turned != wanted)[finite].any()) and passes(turned),
        "refuses_rounding": not passes(torch.where(finite, wanted + largest * 2.0**-20, wanted)),
        "nan": float(wanted.isnan().double().mean()),
    }
