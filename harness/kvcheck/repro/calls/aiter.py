"""Calls of aiter as vLLM and aiter's own tests make them; where there is no ROCm its Triton files run without its `__init__`."""

from __future__ import annotations

from kvcheck.agent.protocol import parse_provider
from kvcheck.repro import parts
from kvcheck.repro.parts import NoScript, Parts
from kvcheck.repro.wanted import Called, Wanted, rooms

ENTRIES = {
    "stage1": "deepgemm_fp8_paged_mqa_logits_stage1",
    "stage1_defaults": "deepgemm_fp8_paged_mqa_logits_stage1",
    **dict.fromkeys(("fused", "fused_plain", "gluon", "gluon_preshuffle"), "deepgemm_fp8_paged_mqa_logits"),
    "ragged": "deepgemm_fp8_paged_mqa_logits_ragged_k",
    "ragged_stage1": "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k",
}
PER_HEAD = ("stage1", "stage1_defaults", "ragged_stage1")
LEAST_PAGE = 16
TRITON = ("paged_mqa_logits", "mqa_logits", "mla_decode")
"""Ops whose kernels are Triton files; the others are built on ROCm."""


def build(wanted: Wanted, sections: Parts) -> Called:
    """How aiter's kernel of an op is loaded and called.

    Args:
        wanted: the row.
        sections: sections of its op.

    Raises:
        NoScript: a variant or a device for which there is no short call.
    """
    _, variant, directory = parse_provider(wanted.provider)
    if wanted.arch.startswith("sm_"):
        raise NoScript("aiter launches its kernels with options that Triton refuses on CUDA; kvcheck drops them")
    op = {
        "paged_mqa_logits": _paged,
        "mqa_logits": _windows,
        "mla_decode": _mla,
        "topk_per_row": _topk,
        "index_k_cache_write": _write,
        "index_k_cache_gather": _gather,
    }.get(wanted.op)
    if op is None:
        raise NoScript(f"aiter has no {wanted.op}")
    load, call, withheld = op(wanted, sections, variant)
    lead = [f"sys.path.insert(0, {directory!r})  # the checkout"] if directory else []
    room = rooms(tuple(each for each in sections.outputs if each.name not in withheld), wanted.guards)
    fp8 = "FP8" if any("FP8 = " in line for line in sections.constants) else "torch.float8_e4m3fn"
    plain = _plain(directory, fp8) if (wanted.device == "cpu" or directory) and wanted.op in TRITON else []
    load = [*lead, *plain, *load]
    return Called(load, [*room, *call], "aiter", frozenset(withheld))


def _plain(directory: str | None, fp8: str) -> list[str]:
    """Lines that let aiter's Triton files be imported where its `__init__` cannot run."""
    alone = "True" if directory else "torch.version.hip is None"
    why = "a checkout has nothing built" if directory else "no ROCm"
    return [
        f"if {alone}:  # {why}: aiter's Triton files as they are, without its __init__",
        '    root = importlib.util.find_spec("aiter").submodule_search_locations[0]',
        '    for part in ("", ".jit", ".jit.utils", ".jit.utils.chip_info", ".ops", ".ops.triton", ".utility", ".dtypes"):',
        '        module = sys.modules["aiter" + part] = types.ModuleType("aiter" + part)',
        f'        module.__path__, module.fp8 = [root + part.replace(".", "/")], {fp8}',
        '        module.get_gfx, module.get_cu_num = lambda: "gfx90a", lambda: 80  # a card without code of its own',
        '    card = types.SimpleNamespace(backend="hip", arch="gfx90a", warp_size=64)',
        "    answers = types.SimpleNamespace(get_current_target=lambda: card, get_current_device=lambda: 0)",
        "    triton.runtime.driver.set_active(answers)",
    ]


def _import(wanted: Wanted, file: str, name: str) -> list[str]:
    """The import of an entry point, from the folder that the run found it in."""
    new, old = (f"from aiter.ops.triton.{folder}{file} import {name} as kernel" for folder in ("attention.", ""))
    said = wanted.dispatch or ""
    if "attention" in said:
        return [new]
    if "aiter/ops/triton" in said or "aiter.ops.triton" in said:
        return [old]
    return ["try:", f"    {new}", "except ImportError:  # where it was until 2026-01", f"    {old}"]


def _paged(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    chosen = variant or ("fused" if "deepgemm_fp8_paged_mqa_logits_stage1" not in (wanted.dispatch or "stage1") else "stage1")
    if chosen not in ENTRIES:
        raise NoScript(f"aiter:{chosen} needs a schedule made beforehand")
    fused = "stage1" not in chosen and "ragged" not in chosen
    seat = "partial" if chosen in PER_HEAD else "logits"
    nested = any(isinstance(each, list) for each in parts.lengths(wanted.params))
    query, table, lens = "q", "block_table", "context_lens"
    call = []
    if nested:
        call += ["# one length a request: every row becomes a request of its own"]
        query = "q.reshape(ROWS, 1, HEADS, DIM)"
        table, lens = "block_table.repeat_interleave(NEXT_N, 0)", "context_lens.reshape(-1)"
    if "ragged" in chosen:
        lens = "torch.tensor([0, *CONTEXT]).cumsum(0).int()"
        table = "torch.cat([row[:n] for row, n in zip(block_table, CONTEXT)])"
    cache = "kv_cache"
    shuffled = "preshuffle" in chosen or (chosen == "fused" and wanted.device == "cuda" and wanted.params["block_size"] > 1)
    if shuffled:
        cache = "shuffled"
        call += [
            "shuffled, tiles = kv_cache.clone().view(NUM_BLOCKS, PAGE), (NUM_BLOCKS, BLOCK_SIZE // 16, 16, DIM // 16, 16)",
            "shuffled[:, : BLOCK_SIZE * DIM] = codes.reshape(tiles).transpose(2, 3).reshape(NUM_BLOCKS, -1)  # Preshuffle",
            "shuffled = shuffled.view(kv_cache.shape)",
        ]
    options = []
    if chosen == "stage1":
        options += ['"ChunkQ": HEADS']
    if fused:
        options += [f'"KVBlockSize": BLOCK_SIZE, "Preshuffle": {shuffled}, "WavePerEU": 2']
    if wanted.device == "cpu" and chosen != "stage1_defaults":
        options += ['"TotalCuCount": 80']
    given = []
    if options:
        call += [
            f"options = {{{', '.join(options)}}}",
            "options = {key: options[key] for key in options if key in inspect.signature(kernel).parameters}  # what it has",
        ]
        given = ["**options"]
    if seat == "partial":
        shape = "(HEADS, ROWS, WIDTH)"
        made = f"guarded({shape}, torch.float32, -math.inf)" if wanted.guards else f"torch.full({shape}, -math.inf)"
        call += [f"partial = {made}  # a score a head"]
    launch = parts.invoke("kernel", [query, cache, "weights", seat, lens, table, "WIDTH", *given])
    if fused and wanted.device == "cpu":
        why = "the interpreter compiles nothing, and the wrapper asks for a hash"
        call += [f"with contextlib.suppress(AttributeError):  # {why}", *("    " + line for line in launch)]
    else:
        call += launch
    if seat == "partial":
        call += ["logits.copy_(partial.sum(0))"]
    return _import(wanted, "pa_mqa_logits", ENTRIES[chosen]), call, ()


def _windows(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    return _import(wanted, "fp8_mqa_logits", "fp8_mqa_logits"), ["logits = kernel(q, k, k_scale, weights, ks, ke)"], ()


def _mla(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    case, dense = wanted.params, wanted.params["page_size"] > 1
    if wanted.output == "lse":
        raise NoScript("aiter's MLA returns no lse: kvcheck puts it together from partial sums")
    if "assembly" in (wanted.dispatch or ""):
        raise NoScript("aiter's assembly MLA takes buffers and a schedule that make no short script")
    form = case["kv_format"]
    if form == "fp8_656":
        raise NoScript("aiter's Triton MLA does not read 656-byte tokens")
    dtype = {"bf16": "bfloat16", "fp16": "float16", "e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz"}[form]
    ids = "kv_indices[a:b] for a, b in zip(kv_indptr, kv_indptr[1:])" if dense else "ids.int() for ids in lists"
    lens = "CONTEXT" if dense else "[len(ids) for ids in lists]"
    call = [
        f"table = torch.nn.utils.rnn.pad_sequence([{ids}], True, {0 if dense else -1})",
        f"lens, starts = torch.tensor({lens}).int(), torch.arange(BATCH + 1, dtype=torch.int32) * NEXT_N",
        "rows, seats = q.view(-1, HEADS, DIM), out.view(-1, HEADS, DIM_V)",
    ]
    if dense:
        scale = "None" if form in ("bf16", "fp16") else "torch.tensor([KV_SCALE])"
        most = "int(lens.max()), table, SOFTMAX_SCALE, DIM_V, DIM - DIM_V, True, None"
        call += parts.invoke("kernel", [f"rows, kv_cache.view(torch.{dtype}), seats, starts, lens", most, scale])
        return ["from aiter.ops.triton.attention.mla import mla_decode_fwd as kernel"], call, ("lse",)
    padded = f"torch.nn.functional.pad(pool, (0, 0, 0, -NUM_BLOCKS % {LEAST_PAGE}))"
    call += [
        f"cache = {padded}.view(torch.{dtype}).view(-1, {LEAST_PAGE}, 1, DIM)",
        "kernel(rows, cache, seats, starts, 1, lens, int(lens.max()), SOFTMAX_SCALE, table, table, DIM_V)",
    ]
    return _import(wanted, "unified_attention_sparse_mla", "unified_attention_sparse_mla"), call, ("lse",)


def _topk(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    nested = any(isinstance(each, list) for each in parts.lengths(wanted.params))
    lens, count = ("context_lens.reshape(-1)", "1") if nested else ("context_lens", "NEXT_N")
    extra = "" if wanted.params["topk"] == 2048 else ", k=TOPK"
    sizes = "len(logits), logits.stride(0), logits.stride(1)"
    return ["from aiter import top_k_per_row_decode as kernel"], [f"kernel(logits, {count}, {lens}, topk_positions, {sizes}{extra})"], ()


def _write(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    form = "ue8m0" if wanted.params["scale_format"] == "ue8m0" else ""
    extra = ", preshuffle=True" if wanted.params["layout"] == "shuffled" else ""
    call = [f'kernel(k, kv_cache.view(NUM_BLOCKS, BLOCK_SIZE, -1), slot_mapping, DIM, "{form}"{extra})']
    return ["from aiter import indexer_k_quant_and_cache as kernel"], call, ()


def _gather(wanted: Wanted, sections: Parts, variant: str | None) -> tuple[list[str], list[str], tuple[str, ...]]:
    extra = ", preshuffle=True" if wanted.params["layout"] == "shuffled" else ""
    cache = "kv_cache.view(NUM_BLOCKS, BLOCK_SIZE, -1)"
    names = [cache, "k.view(FP8)", "k_scale[:, None]", "block_table", "cu_seq_lens" + extra]
    call = parts.invoke("kernel", names)
    return ["from aiter import cp_gather_indexer_k_quant_cache as kernel"], call, ()
