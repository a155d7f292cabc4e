"""FP8 paged MQA logits: the decode indexer's score of every cached token."""

from __future__ import annotations

SPEC = {
    "op": "paged_mqa_logits",
    "summary": "decode indexer logits: sum over heads of weight * relu(q . k * scale), keys read through a block table",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "num_heads": {"type": "int", "min": 1, "max": 1024, "default": 64, "unit": "heads", "doc": "indexer heads"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "QK width"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 4096,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page"},
        "num_blocks": {"type": "int", "min": 1, "max": 2147483647, "optional": True, "default": None, "doc": "pages in the pool; null: what is needed, and spares"},
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
        "max_model_len": {
            "type": "int",
            "min": 1,
            "max": 16777216,
            "optional": True,
            "default": None,
            "unit": "tokens",
            "doc": "row width of the logits; null: the longest context rounded up to 256",
        },
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 2048, "doc": "k of the selection that is judged on the logits"},
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of q and the keys",
        },
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution"},
        "scale": {"type": "choice", "choices_from": "scale", "default": "amax", "doc": "how key scales are chosen"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of slots no token owns"},
    },
    "constraints": [
        {"rule": "le", "axis": "context_len", "other": "max_model_len", "why": "a row of logits is max_model_len wide"},
    ],
    "boundaries": {"context_len": ["topk", "block_size", 64, 256]},
}
