"""Prefill indexer logits: each row scores a window of gathered keys."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import keys, reduced, tolerances, windows
from kvcheck.repro.parts import Output, Parts


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: the row's precision model.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    tokens = case["tokens"]
    share, why = tolerances.logits(precision, case["values"] in keys.EXACT)
    body = [line.replace("decades, ", '"keys/0/decades", ') for line in keys.tokens(case, tokens)]
    unseen = []
    if case["poison"] != "none":
        codes, scale = keys.poison(case["poison"], case["kv_dtype"])
        unseen = [
            "unseen = ~inside.any(0)  # tokens that no row sees",
            f"code.view(torch.uint8)[unseen], scale[unseen] = {codes}, {scale}",
        ]
    return Parts(
        constants=[
            f"ROWS, TOKENS, HEADS, DIM, FP8 = {case['rows']}, {tokens}, {case['num_heads']}, {case['head_dim']}, "
            f"torch.float8_{case['kv_dtype']}",
        ],
        inputs=[
            *windows.build(case["window"], case["rows"], tokens, seed),
            "inside = (torch.arange(TOKENS) >= ks[:, None]) & (torch.arange(TOKENS) < ke[:, None])",
            'n, stream, slots = TOKENS, "keys/0", torch.arange(TOKENS)',
            *body,
            "scale = scale.float()",
            *([*reduced.gone(case), "code.view(torch.uint8)[gone], scale[gone] = 0, 1"] if reduced.gone(case) else []),
            *unseen,
            "k, k_scale = code, scale",
            *keys.queries(case, tokens),
            "q, weights = q.to(FP8), weights.float().contiguous()",
        ],
        expected=[
            "want, size = (torch.full((ROWS, TOKENS), fill, dtype=torch.float64) for fill in (-math.inf, 0.0))",
            "for row, (start, end) in enumerate(zip(ks.tolist(), ke.tolist())):",
            "    seen = slice(start, max(start, end))",
            "    query, key, weight = q[row].double(), k[seen].double(), weights[row].double()",
            "    want[row, seen] = weight @ torch.relu(query @ key.T * k_scale[seen].double())",
            "    size[row, seen] = weight.abs() @ (query.abs() @ key.abs().T * k_scale[seen].double())",
            f"tolerance = size * ({share})  # {why}",
        ],
        arguments=("q", "k", "k_scale", "weights", "ks", "ke"),
        keywords={"kv_dtype": repr(case["kv_dtype"])},
        outputs=(Output("logits", "(ROWS, TOKENS)", "float32"),),
        check=[
            "wrong = torch.where(inside, ~((logits - want).abs() <= tolerance), (logits != -math.inf) & (logits != FRESH))",
            'show("logits", wrong, want, logits, lambda row, p:',
            '     f" of the window [{ks[row]}, {ke[row]}), tolerance {tolerance[row, p]:.2g}")',
        ],
    )
