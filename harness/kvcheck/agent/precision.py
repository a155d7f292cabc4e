"""Precision models: what is known of a dot product's accumulation on some hardware, and roundings around it.

A model is written NAME or NAME+u_k=..+u_s=..+u_out=..: the accumulation, then unit roundoffs of the keys when they are
dequantised before the dot (u_k), of per-head scores (u_s) and of stored logits (u_out); 2^-8, 0.00390625, or bf16, fp16,
tf32, fp32. Attention is written mla+u_p=..+u_out=..: the format of P (a stored P of fp16 loses what is below 2^-24, so
`u_p=fp16` brings eta_p=2^-25), of the output, of stored partial outputs (u_part); n_acc, additions a sum goes through
(0: one a token), and tile, tokens between two rescalings.
Source: Higham, Accuracy and Stability of Numerical Algorithms (2002); MMA-Sim arXiv 2511.10909; DeepSeek-V3 report 3.5.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

U = 2.0**-24

PROBE = "probe"
"""In the place of a model: find out by running the kernel on sums that a narrow accumulator cannot hold."""

UNIT_ROUNDOFF = {"bf16": 2.0**-8, "fp16": 2.0**-11, "tf32": 2.0**-11, "fp32": U, "e4m3": 2.0**-4}

MODIFIERS = {"attention": ("u_p", "u_out", "u_part", "eta_p", "n_acc", "tile")}
"""What may follow a model's name, by kind; DOT of every other kind."""

DOT = ("u_k", "u_s", "u_out")
COUNTS = ("n_acc", "tile")


@dataclass(frozen=True)
class Model:
    """One accumulation of `dim` products, and the roundings around it.

    Attributes:
        name: as written.
        kind: "any_order" (gamma times the absolute dot), "fused" (a running bound by blocks), "cdna3" or "attention".
        unit: unit roundoff of an any-order sum.
        depth: additions a product can go through, as a multiple of head_dim (any_order).
        fraction: bits kept when addends are aligned (fused).
        block: products a fused step adds (fused, cdna3).
        out: bits of the accumulator's fraction (fused).
        u_k, u_s, u_out, u_p, u_part: further unit roundoffs; 0 where there is no rounding.
        eta_p: absolute rounding of P, whose largest is 1.
        n_acc: additions that a sum over tokens goes through; 0: as many as tokens.
        tile: tokens between two rescalings of the running maximum.
        about: what hardware or path it stands for.
    """

    name: str
    kind: str
    unit: float = U
    depth: int = 2
    fraction: int = 0
    block: int = 32
    out: int = 0
    u_k: float = 0.0
    u_s: float = 0.0
    u_out: float = 0.0
    u_p: float = 0.0
    u_part: float = U
    eta_p: float = 0.0
    n_acc: int = 0
    tile: int = 16
    about: str = ""


MODELS = {
    m.name: m
    for m in (
        Model("fp32_any", "any_order", depth=2, about="fp32 sums in any order, nearest or truncating; CDNA3 MFMA, mma.sync, tcgen05"),
        Model("ieee_rn", "any_order", depth=1, about="fp32 sums rounded to nearest, any order"),
        Model("ieee_rz", "any_order", unit=2 * U, depth=1, about="fp32 sums that truncate, any order"),
        Model("cdna3_mfma_fp8", "cdna3", block=16, about="CDNA3 FP8 MFMA in groups of 16"),
        Model("blackwell_tcgen05_fp8", "fused", fraction=25, block=32, out=23, about="Blackwell tcgen05 and Hopper mma.sync, 25 bits"),
        Model("hopper_wgmma_fp8", "fused", fraction=13, block=32, out=13, about="Hopper wgmma and Ada mma FP8, 13-bit accumulators"),
        Model("mla", "attention", about="attention: fp32 sums in any order, exponentials to 2^-21, P and the output in the formats given"),
    )
}


def parse(text: str) -> Model:
    """The model that a text names.

    Raises:
        ValueError: unknown name, modifier or number.
    """
    head, *modifiers = text.split("+")
    if head not in MODELS:
        raise ValueError(f"unknown precision model {head!r}; known: {', '.join(MODELS)}")
    model = replace(MODELS[head], name=text)
    for modifier in modifiers:
        key, equals, value = modifier.partition("=")
        known = MODIFIERS.get(model.kind, DOT)
        if key not in known or not equals:
            raise ValueError(f"unknown precision modifier {modifier!r}; known of {head}: {'=, '.join(known)}=")
        model = replace(model, **{key: _count(value) if key in COUNTS else _unit(value)})
        if modifier == "u_p=fp16":
            model = replace(model, eta_p=2.0**-25)
    return model


def assumed(device: dict, op: str = "") -> str:
    """The model of a kernel on a device when the provider declares none.

    Args:
        device: the agent's device facts; `arch` as in `sm_90`, `gfx942`, `cpu`.
        op: name of the op.
    """
    if op == "mla_decode":
        return "mla+u_p=bf16+u_out=bf16"
    return "hopper_wgmma_fp8" if device.get("arch") in ("sm_89", "sm_90") else "fp32_any"


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"not a count: {text!r}")
    return int(text)


def _unit(text: str) -> float:
    if text in UNIT_ROUNDOFF:
        return UNIT_ROUNDOFF[text]
    try:
        value = 2.0 ** float(text[2:]) if text.startswith("2^") else float(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a unit roundoff: {text!r}; write 2^-8, a number, or one of {', '.join(UNIT_ROUNDOFF)}") from error
    if not 0 <= value < 1:
        raise ValueError(f"a unit roundoff lies in [0, 1): {text!r}")
    return value
