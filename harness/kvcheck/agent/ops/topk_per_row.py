"""Per-row top-k: the positions of the k largest logits of every row."""

from __future__ import annotations

SPEC = {
    "op": "topk_per_row",
    "summary": "positions of the k largest logits of each row; the identity when the row is not longer than k",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 4096,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "max_model_len": {
            "type": "int",
            "min": 1,
            "max": 16777216,
            "optional": True,
            "default": None,
            "unit": "tokens",
            "doc": "row width of the logits; null: the longest context rounded up to 256",
        },
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 2048, "doc": "k"},
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution of the logits"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of the columns past a row's length"},
    },
    "constraints": [
        {"rule": "le", "axis": "context_len", "other": "max_model_len", "why": "a row of logits is max_model_len wide"},
    ],
    "boundaries": {"context_len": ["topk", 64, 256]},
}
