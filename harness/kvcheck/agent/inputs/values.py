"""Value distributions of the keys, queries and weights: which faults can show themselves.

Keys are drawn as integers; `kvcheck.agent.inputs.index_cache` quantises them. Every choice below is a named one in YAML.
"""

from __future__ import annotations

SPEC = {
    "choices": {
        "gaussian": {"doc": "normal keys, queries and weights (sums of four random bytes): the realistic run"},
        "heavy_tail": {"doc": "normal values times 2**g, g geometric: a few tokens and channels dominate"},
        "relu_sparse": {"doc": "about two thirds of the tokens have no positive head: logits of exactly 0, a plateau of ties"},
        "ties": {"doc": "blocks of seven tokens share key and scale: exact ties around the k-th value"},
        "narrow_band": {"doc": "all logits within 1 % of each other: near ties everywhere"},
        "low_bits": {"doc": "logits that differ only in the low ten bits of the fp32 scale: ties to rounding"},
        "halves": {"doc": "-2, -1.5, ... 2: ties on both sides of 0 and of 1", "ops": ["topk_per_row"]},
        "low_bits_below_zero": {"doc": "low_bits with a minus: numbers that sort against their bits", "ops": ["topk_per_row"]},
        "beacon_slot": {
            "doc": "logit = physical slot id, exactly: a wrong logit is the address that was read",
            "needs": {"num_heads": 5, "head_dim": 16},
            "ops": ["paged_mqa_logits", "mqa_logits", "index_k_cache_gather"],
        },
        "beacon_scale": {
            "doc": "logit = id of the slot whose scale was read, plus 1",
            "ops": ["paged_mqa_logits", "mqa_logits", "index_k_cache_gather"],
        },
        "beacon_head": {
            "doc": "logit = bit mask of the heads that were summed (24 heads a token group)",
            "ops": ["paged_mqa_logits", "mqa_logits"],
        },
        "exact_int": {"doc": "small integers and power-of-two scales: every fp32 order gives the same bits, verdicts are bitwise"},
        "certified_topk": {
            "doc": "logit = a random permutation's rank, exactly: the true top-k set is unique, with a gap wider than the bound",
            "needs": {"num_heads": 5, "head_dim": 16},
        },
        "signed_zero": {
            "doc": "gaussian, and one number in eight of a key is -0: code 0x80 in e4m3fn, which is NaN to whoever reads e4m3fnuz",
            "ops": ["paged_mqa_logits", "mqa_logits", "index_k_cache_gather"],
        },
        "random_bytes": {
            "doc": "uniform bytes as keys and scales, as quick reproducers do: no well-formed cache; logits of it end in invalid_case",
            "ops": ["paged_mqa_logits", "index_k_cache_gather"],
        },
    }
}
