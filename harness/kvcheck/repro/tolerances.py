"""What a right kernel may be off by, as one expression: sound for every precision model, plainer than the certified bound of a run."""

from __future__ import annotations

from kvcheck.agent import precision


def logits(model: str | None, exact: bool) -> tuple[str, str]:
    """Share of sum |weight| |q| . |key| scale by which a logit may be off, and why.

    Args:
        model: the row's `precision`.
        exact: the values are exact in every order.

    Returns:
        share: expression of HEADS and DIM.
        why: a comment.
    """
    if exact:
        return "0", "these values are exact in fp32 in any order"
    found = _parse(model, "fp32_any")
    base = "(2 * DIM + HEADS + 8) * 2**-24" if found.kind in ("any_order", "attention") else "2**-8"
    why = "fp32 sums in any order" if found.kind == "any_order" else "sums in fewer bits than fp32"
    extra = found.u_k + found.u_s + found.u_out
    if extra:
        return f"{base} + {_power(extra)}", f"{why}, and roundings to a narrower format"
    return base, why


def attention(model: str | None, fp16: bool) -> tuple[float, float]:
    """Unit roundoffs of MLA: of the output with P and partial outputs, and the absolute one of P.

    Args:
        model: the row's `precision`.
        fp16: whether the output is fp16.
    """
    found = _parse(model, "mla+u_p=bf16+u_out=bf16")
    stored = 2.0**-11 if fp16 else 2.0**-8
    if found.kind != "attention":
        return stored, 0.0
    return max(found.u_out, stored) + found.u_p + found.u_part, found.eta_p


def _parse(model: str | None, other: str) -> precision.Model:
    name = str(model or other).rpartition(" (")[0] or str(model or other)
    try:
        return precision.parse(name)
    except ValueError:
        return precision.parse(other)


def _power(unit: float) -> str:
    """A number as a sum of powers of two that reads easily."""
    exponent = -1
    while 2.0**exponent > unit:
        exponent -= 1
    return f"2**{exponent}" if 2.0**exponent == unit else f"2**{exponent + 1}"
