"""MLA decode: attention over latents that are read through a list of pages."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import latents, parts, reduced, tables, tolerances
from kvcheck.repro.counted import Generator
from kvcheck.repro.parts import Output, Parts, literal

EMPTY = {
    "zero_inf": ("0.0", "math.inf"),
    "zero_minus_1e30": ("0.0", "float(torch.tensor(-1e30))"),
    "nan": ("math.nan", "math.nan"),
    "zero": ("0.0", "0.0"),
}
NO_LSE = frozenset({"nan", "zero"})


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: the row's precision model.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    form, size, kind = case["kv_format"], case["page_size"], case["values"]
    substituted = None
    if kind in latents.CODED:
        substituted, kind = f"normal numbers in the place of the run's {kind}", "gaussian"
    case = {**case, "values": kind}
    count = [-(-n // size) for n in parts.longest(case)]
    num_pages = case["num_pages"] or tables.pool_size(case["block_table"], count)
    scaled = form in ("e4m3fn", "e4m3fnuz")
    scale = float(case["kv_scale"]) if scaled else 1.0
    softmax = "192**-0.5" if case["softmax_scale"] is None else repr(float(case["softmax_scale"]))
    dtype = "float16" if form == "fp16" else "bfloat16"
    return Parts(
        constants=[
            f"BATCH, NEXT_N, HEADS, DIM, DIM_V, PAGE_SIZE = {case['batch']}, {case['next_n']}, {case['num_heads']}, "
            f"{case['head_dim']}, {case['head_dim_v']}, {size}",
            *parts.context(case)[0],
            f"NUM_BLOCKS, SOFTMAX_SCALE, KV_SCALE = {num_pages}, {softmax}, {scale}",
        ],
        inputs=[
            *_lists(case, count, num_pages, seed),
            *_cache(case),
            *_queries(kind, dtype),
        ],
        expected=_expected(case, precision, form),
        arguments=("q", "kv_cache", "kv_indptr", "kv_indices", "last_page_len"),
        keywords={
            "page_size": "PAGE_SIZE",
            "head_dim_v": "DIM_V",
            "softmax_scale": "SOFTMAX_SCALE",
            "kv_format": repr(form),
            "kv_scale": "KV_SCALE",
            "num_splits": str(case["num_splits"]),
            "empty_row": repr(case["empty_row"]),
        },
        outputs=(
            Output("out", "(BATCH, NEXT_N, HEADS, DIM_V)", dtype),
            Output("lse", "(BATCH, NEXT_N, HEADS)", "float32"),
        ),
        check=[
            "for name, got, want, tolerance in (%s):",
            "    right = ((got - want).abs() <= tolerance) | (got == want) | (got.isnan() & want.isnan())",
            "    show(name, ~right, want, got, lambda *at: f' [request, token, head, dim], tolerance {tolerance[at]:.2g}')",
        ],
        substituted=substituted,
        facts={
            "without": {"lse": _expected(case, precision, form, False)},
            "compared": {"out": '("out", out, want_out, of_out)', "lse": '("lse", lse, want_lse, of_lse)'},
        },
    )


def _cache(case: dict[str, Any]) -> list[str]:
    """Lines that make `kv_cache`."""
    row, spare = latents.BYTES[case["kv_format"]], case["poison"] == "none"
    lines = [f"pool = torch.zeros(NUM_BLOCKS * PAGE_SIZE, {row}, dtype=torch.uint8)"]
    if not spare and case["poison"] != "zero":
        poison = latents.poison(case["poison"], case["kv_format"])
        lines = f"nobody = {poison}".splitlines()
        lines += ["pool = nobody.repeat(NUM_BLOCKS * PAGE_SIZE, 1)"]
    own = "lists[b]"
    if case["selection"] != "dense":
        own = "block_table[b, torch.arange(n) // PAGE_SIZE].long() * PAGE_SIZE + torch.arange(n) % PAGE_SIZE"
    numbers, gone = latents.numbers(case["values"]), reduced.gone(case, "PAGE_SIZE")
    if gone:
        gone += ["octets[gone] = 0"]
        gone += ["octets[gone, 512:528] = torch.ones(4).view(torch.uint8)"] if case["kv_format"] == "fp8_656" else []
    turns, body = (
        "reversed(range(BATCH))",
        ['n, stream = CONTEXT[b], f"latent/{b}"', *numbers, *latents.encode(case), *gone, f"pool[{own}] = octets"],
    )
    if spare:  # spare slots hold tokens like any others, drawn from position 1 on
        turns = '("spare", *reversed(range(BATCH)))'
        body = [
            'n, stream = NUM_BLOCKS * PAGE_SIZE + 1 if b == "spare" else CONTEXT[b], f"latent/{b}"',
            *numbers,
            'latent, n = (latent[1:], n - 1) if b == "spare" else (latent, n)',
            *latents.encode(case),
            f'pool[torch.arange(n) if b == "spare" else {own}] = octets',
        ]
    return [*lines, f"for b in {turns}:", *("    " + line for line in body), "kv_cache = pool.view(NUM_BLOCKS, PAGE_SIZE, 1, -1)"]


def _lists(case: dict[str, Any], count: list[int], num_pages: int, seed: int) -> list[str]:
    """Lines that make kv_indptr, kv_indices, last_page_len, `lists` (the slots of each request) and, for sparse rows, block_table."""
    tokens, kind, dense, generator = parts.longest(case), case["block_table"], case["selection"] == "dense", Generator(seed)
    padding = [tables.PADDING.get(kind, 0)] * (tables.EXTRA_COLUMNS if kind.startswith("wide_") else 1)
    table = tables.build(case, count, num_pages, seed, "PAGE_SIZE")
    small = sum(count) + len(padding) <= tables.MOST if dense else min(case["topk"], max(tokens)) * case["batch"] <= tables.MOST
    if small:
        rows = reduced.ids(case, tables.own(kind, count, num_pages, seed))
        if not dense:
            rows = [
                [row[position] for position in _chosen(case, n, b, generator)] for b, (row, n) in enumerate(zip(rows, tokens, strict=True))
            ]
        ends = [sum(map(len, rows[:b])) for b in range(len(rows) + 1)]
        lines = [
            *([] if dense else table),
            *literal("kv_indptr = torch.tensor(", ends, ", dtype=torch.int32)"),
            *literal("kv_indices = torch.tensor(", [*(number for row in rows for number in row), *padding], ", dtype=torch.int32)"),
        ]
    else:
        lines = [*table, *_code(case, dense)]
        lines += ["kv_indptr = torch.tensor([0, *map(len, lists)]).cumsum(0).int()"]
        lines += [f"kv_indices = torch.cat([*lists, torch.tensor({padding})]).int()"]
    last = "[(n - 1) % PAGE_SIZE + 1 for n in CONTEXT]" if dense else "[1] * BATCH"
    return [
        *lines,
        f"last_page_len = torch.tensor({last}, dtype=torch.int32)",
        *(_slots() if dense else ["lists = [kv_indices[a:b].long() for a, b in zip(kv_indptr, kv_indptr[1:])]"]),
    ]


def _slots() -> list[str]:
    """Lines that make `lists` out of pages."""
    return [
        "ends = zip(kv_indptr, kv_indptr[1:], CONTEXT)",
        "lists = [(kv_indices[a:b, None].long() * PAGE_SIZE + torch.arange(PAGE_SIZE)).flatten()[:n] for a, b, n in ends]",
    ]


def _chosen(case: dict[str, Any], length: int, request: int, generator: Generator) -> list[int]:
    """Positions that a sparse row attends to, in the order of its list."""
    order, kept = generator.permutation(f"selection/{request}", length), min(case["topk"], length)
    if case["selection"] == "topk":
        return order[:kept]
    return [order[place] for place in generator.integers(f"selection/{request}/repeated", kept, 0, max(length, 1))]


def _code(case: dict[str, Any], dense: bool) -> list[str]:
    """Lines that make `lists`, ids of each request."""
    if dense:
        return ["lists = [row[: -(-n // PAGE_SIZE)] for row, n in zip(block_table, CONTEXT)]"]
    lines = ["lists = []", "for b, n in enumerate(CONTEXT):", '    order = permutation(f"selection/{b}", n)']
    if case["selection"] == "repeated":
        draw = f'integers(f"selection/{{b}}/repeated", min({case["topk"]}, n), 0, max(n, 1))'
        lines += [f"    order = order[{draw}] if n else order"]
    return [*lines, f"    lists.append(block_table[b, order[: {case['topk']}]])"]


def _queries(kind: str, dtype: str) -> list[str]:
    """Lines that make `q`."""
    lines = [f'q = normal("q", BATCH, NEXT_N, HEADS, DIM).to(torch.{dtype})']
    if kind == "flat":
        lines += ["q[..., 1:] = 0"]
    elif kind == "sink":
        lines += ["q[..., 0] = 16"]
    return lines


def _expected(case: dict[str, Any], precision: str | None, form: str, with_lse: bool = True) -> list[str]:
    """Plain attention in float64, row by row."""
    unit, eta = tolerances.attention(precision, form == "fp16")
    of_p = f" + {eta!r} * value.abs().sum(0)" if eta else ""
    empty, held = EMPTY[case["empty_row"]], "math.inf" if case["empty_row"] in NO_LSE else "0.0"
    lines = [
        f"want_out = torch.full((BATCH, NEXT_N, HEADS, DIM_V), {empty[0]}, dtype=torch.float64)  # what an empty row holds",
        f"want_lse = torch.full((BATCH, NEXT_N, HEADS), {empty[1]}, dtype=torch.float64)",
        f"of_out, of_lse = torch.zeros_like(want_out), torch.full_like(want_lse, {held})  # tolerances",
        "for b, j in [(b, j) for b in range(BATCH) for j in range(NEXT_N)]:",
        "    octets = pool[lists[b]]",
        *("    " + line for line in latents.decode(form)),
        "    key = key[: max(len(key) - NEXT_N + 1 + j, 0)]",
        "    if len(key):",
        "        query, value = q[b, j].double(), key[:, :DIM_V]",
        "        score = query @ key.T * SOFTMAX_SCALE",
        "        weight = score.softmax(1)",
        "        want_out[b, j] = weight @ value",
        "        error = 4 * DIM * 2**-24 * SOFTMAX_SCALE * (query.abs() @ key.abs().T).amax(1)",
        f"        of_out[b, j] = ({unit + 2.0**-16:.3g} + 2 * error[:, None]) * (weight @ value.abs()) + 2**-24{of_p}",
        "        want_lse[b, j], of_lse[b, j] = score.logsumexp(1), error + 2**-16",
    ]
    if with_lse:
        return lines
    of_out = "of_out = torch.zeros_like(want_out)  # tolerance"
    return [of_out if line.startswith("of_out, of_lse") else line for line in lines if not line.strip().startswith("want_lse")]
