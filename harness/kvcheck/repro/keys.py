"""Keys, queries and weights of the indexer as code: the `values` of `agent/inputs/keys.py`, and their quantisation."""

from __future__ import annotations

from typing import Any

from kvcheck.repro.parts import NoScript

EXACT = frozenset({"beacon_slot", "beacon_scale", "beacon_head", "exact_int", "certified_topk"})
LARGEST = {"e4m3fn": 448, "e4m3fnuz": 240}
NAN = {"e4m3fn": "0x7F", "e4m3fnuz": "0x80"}
ONE = {"e4m3fn": "0x38", "e4m3fnuz": "0x40"}
TOP = {"e4m3fn": ("0x7E", "0xFE"), "e4m3fnuz": ("0x7F", "0xFF")}
HEADS_A_GROUP = 24


def digits(slots: int) -> int:
    """Base-16 digits that the id of a slot takes."""
    count = 1
    while 16**count < slots:
        count += 1
    return count


def small(dim: int) -> int:
    """Largest of the small integers of exact values."""
    return max(min(int((8192 / dim) ** 0.5), 8), 1)


def tokens(case: dict[str, Any], slots: int) -> list[str]:
    """Lines that make `code` and `scale` of `n` consecutive tokens out of `stream`, and of `slots` where the values are those of slots.

    Args:
        case: values, scale, kv_dtype, num_heads, head_dim.
        slots: slots of the pool.

    Raises:
        NoScript: values that are not known here.
    """
    kind, dim = case["values"], case["head_dim"]
    plain = "key = normal(stream, n, DIM)"
    zeros = "key = torch.zeros(n, DIM, dtype=torch.float64)"
    number = "torch.arange(n)"
    own = {
        "gaussian": [plain],
        "heavy_tail": [
            'draw = integers(stream + "/tail", n * DIM, 1, 4096).view(-1, DIM)',
            "key = normal(stream, n, DIM) * (draw & -draw).clamp(max=64)",
        ],
        "relu_sparse": [
            plain,
            'key = torch.where((integers(stream + "/dark", n, 0, 3) < 2)[:, None], 0 - key.abs(), key)',
        ],
        "ties": [f"key = normal(stream, -(-n // 7), DIM)[{number} // 7]"],
        "signed_zero": [
            plain,
            'key[integers(stream + "/zero", n * DIM, 0, 8).view(-1, DIM) == 0] = -0.0',
        ],
    }
    if kind in own:
        return own[kind] + _quantised(case)
    count = digits(slots)
    ids = 'permutation("ranks", NUM_BLOCKS * BLOCK_SIZE)[slots]' if "block_size" in case else 'permutation("ranks", TOKENS)[slots]'
    band = 'integers(stream + "/band", n, 0, 1024)'
    groups = -(-case["num_heads"] // HEADS_A_GROUP)
    scaled = {
        "narrow_band": ['key = normal("base", DIM).abs().expand(n, DIM)', f"scale = (1 + {band}.double() / 102400).float()"],
        "low_bits": [
            'key = normal("base", DIM).abs().expand(n, DIM)',
            f"scale = ({band} + 0x3F900000).int().view(torch.float32)",
        ],
        "beacon_slot": [
            plain,
            f"key[:, :{count}] = slots[:, None] // 16 ** torch.arange({count}) % 16 * 1.0  # digits of the slot",
            "scale = torch.ones(n)",
        ],
        "certified_topk": [
            plain,
            f"key[:, :{count}] = {ids}[:, None] // 16 ** torch.arange({count}) % 16 * 1.0",
            "scale = torch.ones(n)",
        ],
        "beacon_scale": [zeros, "key[:, 0], scale = 1, slots + 1.0"],
        "beacon_head": [zeros, f"key[{number}, {number} % {groups}] = 1", "scale = torch.ones(n)"],
        "exact_int": [
            f"key = (normal(stream, n, DIM) * 128) % {2 * small(dim) + 1} - {small(dim)}",
            'scale = 2.0 ** integers(stream + "/power", n, -3, 4)',
        ],
    }
    if kind not in scaled:
        raise NoScript(f"values {kind} have no short form")
    return [*scaled[kind], "code = key.to(FP8)"]


def _quantised(case: dict[str, Any]) -> list[str]:
    amax = f"key.abs().amax(1).clamp(min=1e-4) / {LARGEST[case['kv_dtype']]}"
    scale = f"power_of_two({amax})" if case["scale"] == "ue8m0" else f"({amax})"
    lines = [f"scale = {scale}.float()", "code = fp8(key / scale.double()[:, None])"]
    if case["scale"] == "decades":
        lines += ["scale = torch.ldexp(scale, integers(decades, n, -10, 11).int())"]
    return lines


def queries(case: dict[str, Any], slots: int, rows: str = "ROWS") -> list[str]:
    """Lines that make `q` [ROWS, HEADS, DIM] float64 and `weights` [ROWS, HEADS] float64.

    Args:
        case: values, num_heads, head_dim.
        slots: slots of the pool.
        rows: name of the constant that counts query rows.
    """
    kind, heads = case["values"], case["num_heads"]
    shape = f"{rows}, HEADS, DIM"
    if kind in ("relu_sparse", "narrow_band", "low_bits"):
        weights = f'normal("weights", {rows}, HEADS)'
        return [
            f'q = normal("q", {shape}).abs() + 148 / 1024',
            f"weights = {weights}" if kind == "relu_sparse" else f"weights = {weights}.abs() + 1 / 128",
        ]
    empty = f"q, weights = torch.zeros({shape}), torch.zeros({rows}, HEADS)"
    if kind in ("beacon_slot", "certified_topk"):
        count = min(digits(slots), heads, case["head_dim"])
        each = f"torch.arange({count})"
        return [empty, f"q[:, {each}, {each}], weights[:, :{count}] = 1, 16.0 ** {each}  # head h reads dim h"]
    if kind == "beacon_scale":
        return [empty, "q[:, :, 0], weights[:, 0] = 1, 1"]
    if kind == "beacon_head":
        head = "torch.arange(HEADS)"
        return [
            empty,
            f"q[:, {head}, {head} // {HEADS_A_GROUP}], weights[:] = 1, 2.0 ** ({head} % {HEADS_A_GROUP})",
        ]
    if kind == "exact_int":
        most, top = small(case["head_dim"]), max(2048 // heads, 1)
        return [
            f'q = (normal("q", {shape}) * 128) % {2 * most + 1} - {most}',
            f'weights = integers("weights/int", {rows} * HEADS, {-top}, {top + 1}).view({rows}, HEADS)',
        ]
    return [f'q, weights = normal("q", {shape}), normal("weights", {rows}, HEADS)']


def poison(kind: str, kv_dtype: str) -> tuple[str, str]:
    """Codes (for a row of DIM) and scale of a token that nobody owns, as expressions."""
    high, low = TOP[kv_dtype]
    return {
        "zero": ("0", "0"),
        "nan": (NAN[kv_dtype], "math.nan"),
        "inf": (ONE[kv_dtype], "math.inf"),
        "large": (high, "1e4"),
        "finite_beacon": (f"torch.tensor([{high}, {low}], dtype=torch.uint8).repeat(DIM // 2)", "2.0**20"),
    }[kind]


def poisoned(kind: str, kv_dtype: str) -> str:
    """The line that fills `codes` and `scales` with tokens that nobody owns."""
    high, low = TOP[kv_dtype]
    if kind == "finite_beacon":
        return f"codes[..., 0::2], codes[..., 1::2], scales[:] = {high}, {low}, 2.0**20  # what lies where nobody wrote"
    return "codes[:], scales[:] = {}, {}  # what lies where nobody wrote".format(*poison(kind, kv_dtype))
