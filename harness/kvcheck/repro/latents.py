"""The latent cache of MLA as code: `agent/inputs/latent_cache.py` and `attention.py`, coded values apart."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import keys

CODED = frozenset({"coded_attention", "coded_latent"})
BYTES = {"bf16": "2 * DIM", "fp16": "2 * DIM", "e4m3fn": "DIM", "e4m3fnuz": "DIM", "fp8_656": "656"}
TORCH = {"bf16": "bfloat16", "fp16": "float16", "e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz"}


def numbers(kind: str) -> list[str]:
    """Lines that make `latent` [n, DIM] float64 of `stream`."""
    plain = "latent = normal(stream, n, DIM)"
    return {
        "heavy_tail": [
            plain,
            'draw = integers(stream + "/tail", n, 1, 4096)[:, None]',
            "latent = latent * (draw & -draw).clamp(max=16)",
        ],
        "sink": [plain, "latent[:, 0] = 0", "latent[:1, 0] = 32  # the first token takes nearly all of the weight"],
        "flat": [plain, "latent[:, 0] = 1"],
    }.get(kind, [plain])


def encode(case: dict[str, Any]) -> list[str]:
    """Lines that make `octets` [n, bytes] of `latent`."""
    form = case["kv_format"]
    if form in ("bf16", "fp16"):
        return [f"octets = latent.float().to(torch.{TORCH[form]}).view(torch.uint8)"]
    if form != "fp8_656":
        top = keys.LARGEST[form]
        return [f"octets = (latent / KV_SCALE).clamp(-{top}, {top}).to(torch.{TORCH[form]}).view(torch.uint8)"]
    amax = "(latent[:, :512].unflatten(1, (4, 128)).abs().amax(2) / 448).clamp(min=1e-4)"
    lines = []
    if case["values"] == "flat":
        scale = 'scale = 2.0 ** integers(stream + "/scale", n * 4, -3, 4).view(n, 4).float()'
    else:
        if case["scale"] == "decades":
            lines = ['latent = latent * 2.0 ** integers(stream + "/decades", n, -4, 5)[:, None].double()']
        scale = f"scale = power_of_two({amax}).float()" if case["scale"] == "ue8m0" else f"scale = {amax}.float()"
    return [
        *lines,
        scale,
        "code = (latent[:, :512] / scale.double().repeat_interleave(128, 1)).clamp(-448, 448).to(torch.float8_e4m3fn)",
        "rope = latent[:, 512:].float().bfloat16()  # 512 codes, four fp32 scales, 64 bf16",
        "octets = torch.cat([part.view(torch.uint8) for part in (code, scale, rope)], 1)",
    ]


def poison(kind: str, form: str) -> str:
    """Expression of the bytes of one slot that nobody wrote."""
    alternating = kind == "finite_beacon"
    if kind == "zero":
        return "0"
    if form in keys.LARGEST:
        high, low = keys.TOP[form]
        pair = {"nan": [keys.NAN[form]] * 2, "finite_beacon": [high, low]}.get(kind, [high, high])
        return f"torch.tensor([{', '.join(pair)}], dtype=torch.uint8).repeat(DIM // 2)"
    value = {"nan": "math.nan", "inf": "math.inf", "large": "1e4", "finite_beacon": "16384.0"}[kind]
    pair = f"[{value}, -{value}]" if alternating else f"[{value}] * 2"
    if form != "fp8_656":
        return f"torch.tensor({pair}).repeat(DIM // 2).to(torch.{TORCH[form]}).view(torch.uint8)"
    codes = {"nan": "0x7F, 0x7F", "inf": "0x38, 0x38", "large": "0x7E, 0x7E", "finite_beacon": "0x7E, 0xFE"}[kind]
    rope = f"torch.tensor({pair}).repeat(32).bfloat16().view(torch.uint8)"
    scale = f"torch.tensor([{1024.0 if alternating else value}] * 4).view(torch.uint8)"
    return f"torch.cat((\n    torch.tensor([{codes}] * 256).byte(), {scale},\n    {rope}))"


def decode(form: str) -> list[str]:
    """Lines that make `key` [tokens, DIM] float64 of `octets`."""
    if form in ("bf16", "fp16"):
        return [f"key = octets.view(torch.{TORCH[form]}).double()"]
    if form != "fp8_656":
        return [f"key = octets.view(torch.{TORCH[form]}).double() * KV_SCALE"]
    return [
        "code, scale, rope = (part.contiguous() for part in octets.split((512, 16, 128), 1))",
        "latent = code.view(torch.float8_e4m3fn).float() * scale.view(torch.float32).repeat_interleave(128, 1)",
        "key = torch.cat((latent.bfloat16().double(), rope.view(torch.bfloat16).double()), 1)",
    ]
