"""Case files with the shapes of a model, from its Hugging Face config: what each rank's kernels are called with, as plain numbers."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.cases.errors import CaseFileError, Fault, quote
from kvcheck.flow.options import UsageError

CACHE_FORMATS = {
    "auto": ("bf16", "bf16, as the model's own dtype"),
    "bfloat16": ("bf16", "bf16"),
    "float16": ("fp16", "fp16"),
    "fp8": ("e4m3fn", "FP8 with one scale a tensor; on gfx942 the format is e4m3fnuz: --set kv_format=e4m3fnuz"),
    "fp8_e4m3": ("e4m3fn", "FP8 with one scale a tensor"),
    "fp8_ds_mla": ("fp8_656", "the 656-byte token: FP8 latent, four scales, bf16 rope"),
}
"""What --kv-cache-dtype takes: the format of the latent cache, and a comment."""

LONGEST = 65536
"""Tokens of the longest context that is written: shapes, not capacity, are what a model brings."""


@dataclass(frozen=True)
class Model:
    """What a config says of the decode path.

    Attributes:
        kind: model_type.
        heads: query heads of all ranks.
        head_dim, head_dim_v: QK and V width of the latent.
        softmax_scale: of the attention, without YaRN's factor.
        longest: max_position_embeddings.
        index_heads, index_head_dim: of the indexer; 0 where there is none.
        topk: entries that the indexer selects, in states.
        selected: entries that attention reads.
        per_state: tokens that share one state of the indexer's cache.
    """

    kind: str
    heads: int
    head_dim: int
    head_dim_v: int
    softmax_scale: float
    longest: int
    index_heads: int = 0
    index_head_dim: int = 0
    topk: int = 0
    selected: int = 0
    per_state: int = 1


class _Config:
    """The keys of a config.json, each checked as it is read; every fault is kept."""

    def __init__(self, file: str, data: dict[str, Any]):
        self.file, self.faults = file, []
        inner = data.get("text_config")
        self.data = {**data, **inner} if isinstance(inner, dict) else data

    def whole(self, key: str, least: int = 1) -> int:
        """A whole number that must be there; `least` where it is not, and a fault."""
        value = self.data.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        got = quote(value) if key in self.data else "no such key"
        near = None if key in self.data else nearest(key, self.data)
        self.faults.append(Fault(self.file, None, key, f"a whole number of at least {least}", got, near))
        return max(least, 1)


def read(path: Path) -> Model:
    """The model of a config.json.

    Raises:
        CaseFileError: not a JSON object, or keys that are missing or no numbers: all of them, with the file.
    """
    file = str(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError([Fault(file, None, "", "a readable config.json", getattr(error, "strerror", None) or str(error))]) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise CaseFileError([Fault(file, getattr(error, "lineno", None), "", "JSON", getattr(error, "msg", "too many brackets"))]) from None
    if not isinstance(data, dict):
        raise CaseFileError([Fault(file, None, "", "a JSON object, as config.json of a Hugging Face model is", quote(data))])
    config = _Config(file, data)
    model = _model(config)
    if config.faults:
        raise CaseFileError(config.faults)
    return model


def _model(config: _Config) -> Model:
    has = config.data.keys()
    heads, longest = config.whole("num_attention_heads"), config.whole("max_position_embeddings")
    rope = config.whole("qk_rope_head_dim", 0)
    if "kv_lora_rank" not in has and "compress_ratios" in has:  # DeepSeek-V4: keys and values are one vector of head_dim
        latent = value = query = config.whole("head_dim")
    else:
        value = config.whole("kv_lora_rank")
        latent, query = value + rope, config.whole("qk_nope_head_dim") + rope
    kind = config.data.get("model_type")
    base = dict(kind=str(kind) if kind else "a model", heads=heads, longest=longest, head_dim=latent, head_dim_v=value)
    base["softmax_scale"] = query**-0.5
    indexer = [key for key in ("index_n_heads", "index_head_dim", "index_topk") if config.data.get(key) is not None]
    if not indexer:
        return Model(**base)
    index_heads, index_dim, topk = (config.whole(key) for key in ("index_n_heads", "index_head_dim", "index_topk"))
    pool = config.whole("index_kpool") if config.data.get("index_kpool") is not None else 1
    ratios = [ratio for ratio in config.data.get("compress_ratios") or () if isinstance(ratio, int) and ratio > 1]
    if topk % pool:
        config.faults.append(Fault(config.file, None, "index_topk", f"a multiple of index_kpool ({pool})", quote(topk)))
    per_state = pool if pool > 1 else min(ratios, default=1)
    return Model(**base, index_heads=index_heads, index_head_dim=index_dim, topk=max(topk // pool, 1), selected=topk, per_state=per_state)


def render(path: Path, tp: int, kv_cache_dtype: str, block_size: int, scale: int, name: str | None) -> str:
    """The case file of a config.

    Args:
        path: config.json.
        tp: ranks that the attention heads are split over; the indexer is whole on each.
        kv_cache_dtype: of the latent cache, as vLLM names it.
        block_size: tokens a page.
        scale: contexts and top-k are divided by it; heads and widths never.
        name: of the cases; the file's stem, or the model's type where that is `config`.

    Raises:
        CaseFileError: the config.
        UsageError: options that do not fit it.
    """
    model = read(path)
    if kv_cache_dtype not in CACHE_FORMATS:
        known = ", ".join(CACHE_FORMATS)
        near = nearest(kv_cache_dtype, CACHE_FORMATS)
        raise UsageError(f"--kv-cache-dtype: expected one of {known}, got {kv_cache_dtype!r}; nearest: {near}")
    for option, value in (("--tp", tp), ("--block-size", block_size), ("--scale", scale)):
        if value < 1:
            raise UsageError(f"{option}: expected a whole number of at least 1, got {value}")
    if model.heads % tp:
        raise UsageError(f"--tp: expected a divisor of num_attention_heads ({model.heads}), got {tp}")
    if block_size % model.per_state:
        raise UsageError(f"--block-size: expected a multiple of {model.per_state} (tokens a state of the indexer), got {block_size}")
    if kv_cache_dtype == "fp8_ds_mla" and (model.head_dim, model.head_dim_v) != (576, 512):
        raise UsageError(f"--kv-cache-dtype: fp8_ds_mla is a token of 512 + 64 numbers, the model's has {model.head_dim}; use fp8")
    stem = path.stem if path.stem != "config" else model.kind
    name = name or re.sub(r"[^A-Za-z0-9_.-]+", "_", stem).strip("_.-")[:60] or "model"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}", name):
        raise UsageError(f"--name: expected letters, digits, `_`, `-` and `.`, at most 60, got {name!r}")
    command = f"kvcheck cases from-config {path.name} --tp {tp} --kv-cache-dtype {kv_cache_dtype} --block-size {block_size} --scale {scale}"
    return _Writer(model, name, tp, kv_cache_dtype, block_size, scale).text(f"{command} --name {name}")


def write(out: Path, text: str) -> None:
    """Writes the file.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror}") from None


class _Writer:
    """The documents of one model."""

    def __init__(self, model: Model, name: str, tp: int, kv_cache_dtype: str, block_size: int, scale: int):
        self.model, self.name, self.tp, self.block_size, self.scale = model, name, tp, block_size, scale
        self.kv_format, self.format_comment = CACHE_FORMATS[kv_cache_dtype]
        self.longest = max(min(model.longest, LONGEST) // scale, 2)

    def text(self, command: str) -> str:
        """The whole file."""
        model, tokens = self.model, self.longest
        parts = [self._head(command)]
        topk, selected = (max(count // self.scale, 1) for count in (model.topk, model.selected))
        if model.index_heads:
            states = self._lengths(topk, max(tokens // model.per_state, 2), self.block_size // model.per_state)
            parts += [self._logits(topk, states), self._topk(topk, states)]
        lengths = self._lengths(selected, tokens, self.block_size)
        if model.index_heads:
            parts.append(self._slots(selected, lengths))
        if model.per_state > 1:
            parts.append(self._table(lengths))
        return "---\n".join([*parts, self._attention(selected, lengths), self._metadata(lengths)])

    def _head(self, command: str) -> str:
        model = self.model
        indexer = "no indexer: dense attention"
        if model.index_heads:
            indexer = f"indexer {model.index_heads} x {model.index_head_dim} on every rank, top {model.topk}"
        if model.per_state > 1:
            indexer += f" of states of {model.per_state} tokens"
        return (
            f"# The shapes of {model.kind}, tensor parallel {self.tp}: {model.heads // self.tp} of {model.heads} heads a rank,\n"
            f"# latent {model.head_dim} (V {model.head_dim_v}); {indexer}.\n"
            f"# Written by: {command}\n"
            f"# Contexts (up to {min(model.longest, LONGEST)} tokens) and top-k are divided by --scale, heads and widths are the model's:\n"
            f"# here by {self.scale}. On a GPU write the file again with --scale 1, or --set context_len=65536 for one length.\n"
        )

    def _document(self, part: str, op: str, why: str, fixed: dict[str, str], axes: dict[str, str], comment: str) -> str:
        """One document; every value is YAML text already."""
        lines = [f"# {comment}", "schema: 1", f"name: {self.name}_{part}", f"op: {op}", f"why: {why}", "providers: [triton]", "fixed:"]
        lines += [f"  {axis}: {value}" for axis, value in fixed.items()]
        lines += ["axes:"] + [f"  {axis}: {value}" for axis, value in axes.items()] + ["coverage: pairwise"]
        return "\n".join(lines) + "\n"

    def _logits(self, topk: int, lengths: list[int]) -> str:
        unit = "" if self.model.per_state == 1 else f" Lengths are in states of {self.model.per_state} tokens."
        fixed = {
            "batch": "2",
            "num_heads": f"{self.model.index_heads}  # every rank holds the whole indexer",
            "head_dim": str(self.model.index_head_dim),
            "topk": str(topk),
            "block_size": str(max(self.block_size // self.model.per_state, 1)),
        }
        axes = {"context_len": str(lengths), "next_n": "[1, 2]", "block_table": "[shuffled, interleaved]"}
        comment = f"Decode indexer logits; the selection can only be wrong from topk + 1 = {topk + 1} on.{unit}"
        return self._document("logits", "paged_mqa_logits", "the decode indexer of the model", fixed, axes, comment)

    def _topk(self, topk: int, lengths: list[int]) -> str:
        axes = {"context_len": str(lengths), "values": "[gaussian, ties, certified_topk]"}
        return self._document("topk", "topk_per_row", "the model's top-k", {"batch": "2", "topk": str(topk)}, axes, "The selection alone.")

    def _slots(self, selected: int, lengths: list[int]) -> str:
        fixed = {"rows": "4", "batch": "2", "topk": str(selected), "block_size": str(self.block_size)}
        axes = {"context_len": str(lengths), "positions": "[full, holes, past_table]"}
        return self._document(
            "slots", "topk_slots", "positions to slots", fixed, axes, "Selected positions to the slots that attention reads."
        )

    def _table(self, lengths: list[int]) -> str:
        size = str(self.block_size)
        fixed = {
            "batch": "2",
            "manager_block_size": f"{size}  # set what the allocator has; hybrid models have 640 to 4352",
            "kernel_block_size": size,
            "storage_block_size": size,
            "tokens_per_state": str(self.model.per_state),
        }
        axes = {"context_len": str(lengths), "mapping": "[read, write]", "block_table": "[shuffled, wide_garbage]"}
        comment = f"Slots of states of {self.model.per_state} tokens."
        return self._document("table", "block_table", "slots of the indexer's states", fixed, axes, comment)

    def _attention(self, selected: int, lengths: list[int]) -> str:
        model = self.model
        fixed = {
            "batch": "2",
            "num_heads": f"{model.heads // self.tp}  # {model.heads} over {self.tp} ranks",
            "head_dim": str(model.head_dim),
            "head_dim_v": str(model.head_dim_v),
            "softmax_scale": f"{model.softmax_scale:.10g}  # without YaRN's factor",
            "kv_format": f"{self.kv_format}  # {self.format_comment}",
        }
        if model.index_heads:
            fixed |= {"selection": "topk", "topk": str(selected), "page_size": "1  # the lists hold token slots"}
            comment = "Sparse attention over the selected tokens: every query token is a request of its own."
        else:
            fixed |= {"selection": "dense", "page_size": str(self.block_size)}
            comment = "Dense attention over the whole context."
        axes = {"context_len": str(lengths), "num_splits": "[1, 8]", "values": "[gaussian, coded_attention]"}
        return self._document("attention", "mla_decode", "the model's latent attention", fixed, axes, comment)

    def _metadata(self, lengths: list[int]) -> str:
        fixed = {"batch": "2", "block_size": str(self.block_size)}
        axes = {"context_len": str(lengths), "page_size": f"[1, {self.block_size}]" if self.block_size > 1 else "[1]"}
        return self._document(
            "metadata", "mla_metadata", "page lists and last pages", fixed, axes, "What the attention is told of its pages."
        )

    def _lengths(self, topk: int, longest: int, block_size: int) -> list[int]:
        """Both sides of a page and of the selection, and the longest."""
        wanted = {1, block_size, block_size + 1, topk, topk + 1, 2 * topk, math.isqrt(longest * max(topk, block_size)), longest}
        return sorted(length for length in wanted if 0 < length <= longest)
