"""aiter's Triton MLA as it is called: on stand-ins of our own writing, with its signatures, in torch; one of them carries BUGS 8.

Dense: tables, lengths and the lse from partial sums of base 2, some of which were never written. Sparse: -1 past the end of a list.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="needs triton")

DENSE = """
import torch


def mla_decode_fwd(
    q, kv_buffer, out, cu_seqlens_q, seqused_k, max_seqlen_kv, block_tables, softmax_scale, kv_lora_rank, qk_rope_head_dim, causal,
    q_descale, kv_descale, q_scales=None, out_scale=None, shuffled_kv_cache=False, skip_reduce=False,
):
    segments, size, count = 4, kv_buffer.shape[1], q.shape[0] // len(seqused_k)
    heads = q.shape[1]
    top, total = (torch.full((len(q), heads, segments), float("nan")) for _ in range(2))
    part = torch.full((len(q), heads, segments, kv_lora_rank), float("nan"))
    for row in range(len(q)):
        request, token = divmod(row, count)
        length = int(seqused_k[request])
        pages = -(-length // size)
        rows = kv_buffer[block_tables[request, :pages].long()].reshape(pages * size, -1).float()
        score = q[row].float() @ rows.T * softmax_scale * 1.4426950408889634
        score[:, length - count + 1 + token :] = -torch.inf
        tiles = -(-length // (segments * size))
        for nth in range(-(-length // (tiles * size))):
            span = slice(nth * tiles * size, (nth + 1) * tiles * size)
            high = score[:, span].amax(1)
            top[row, :, nth] = torch.where(high > -torch.inf, high, 0.0)
            weight = torch.exp2(score[:, span] - top[row, :, nth, None])
            total[row, :, nth] = weight.sum(1)
            value = rows[span, :kv_lora_rank]
            part[row, :, nth] = weight @ (value if POISONED else value.nan_to_num())
    if skip_reduce:
        return part, top, total
    live = ~top.isnan()
    share = torch.where(live, torch.exp2(top - torch.where(live, top, -torch.inf).amax(2, keepdim=True)), 0.0)
    value = torch.where(live[..., None], part * share[..., None], 0.0).sum(2)
    out.copy_(value / torch.where(live, total * share, 0.0).sum(2)[..., None])
    return out
"""

SPARSE = """
import torch


def unified_attention_sparse_mla(
    q, kv, out, cu_seqlens_q, max_seqlen_q, seqused_k, max_seqlen_k, softmax_scale, topk_indices, block_table, kv_lora_rank
):
    flat = kv.reshape(-1, kv.shape[-1])
    for row, line in enumerate(topk_indices):
        rows = flat[line[line != -1].long()].float()
        weight = torch.softmax(q[row].float() @ rows.T * softmax_scale, 1)
        out[row] = weight @ rows[:, :kv_lora_rank] if len(rows) else float("nan")
"""

SMALL = {"batch": 2, "num_heads": 16, "page_size": 16, "kv_format": "fp16", "head_dim": 96, "head_dim_v": 32}


@pytest.fixture(scope="module")
def checkout(standin, tmp_path_factory):
    def build(poisoned: bool) -> str:
        root = standin(tmp_path_factory.mktemp("aiter"))
        folder = root / "aiter/ops/triton/attention"
        folder.mkdir(exist_ok=True)
        (folder / "mla.py").write_text(DENSE.replace("POISONED", str(poisoned)))
        (folder / "unified_attention_sparse_mla.py").write_text(SPARSE)
        return f"aiter@{root}"

    return build


def test_dense_mla_and_its_lse(checkout, judge):
    cases = [
        SMALL | {"context_len": [100, 33], "next_n": 2, "values": "coded_attention", "poison": "none"},
        SMALL | {"context_len": [16, 300], "block_table": "wide_garbage"},
        SMALL | {"context_len": [5, 1], "page_size": 64, "num_heads": 8, "poison": "nan"},
    ]
    rows = judge(checkout(False), cases, op="mla_decode")
    assert [row.verdict for row in rows] == ["pass"] * 3, [row.message for row in rows]
    assert "lse from its partial sums" in rows[0].dispatch and rows[0].precision == "mla+u_p=fp16+u_out=fp16 (declared)"


def test_a_tail_that_is_multiplied_by_zero_is_found(checkout, judge):
    cases = [SMALL | {"context_len": [5, 16], "poison": poison} for poison in ("nan", "inf", "large")]
    rows = judge(checkout(True), [*cases, SMALL | {"context_len": [16, 32], "poison": "nan"}], op="mla_decode")
    assert [row.verdict for row in rows] == ["nonfinite", "nonfinite", "pass", "pass"]
    assert rows[0].first_bad["index"]["request"] == 0 and rows[0].bad_count == 16 * 32


def test_token_slots_take_the_sparse_kernel_whose_lse_is_withheld(checkout, judge):
    slots = SMALL | {"page_size": 1, "selection": "repeated", "topk": 40, "poison": "nan"}
    rows = judge(checkout(False), [slots | {"context_len": [70, 0], "empty_row": "nan"}, slots | {"context_len": [70, 3]}], op="mla_decode")
    assert [row.verdict for row in rows] == ["pass"] * 2, [row.message for row in rows]
    assert "it has no lse" in rows[0].dispatch and rows[1].element_count == 2 * 16 * 32


REFUSED = {
    "tile": {"page_size": 8},
    "656-byte": {"kv_format": "fp8_656", "head_dim": 576, "head_dim_v": 512},
    "rotated": {"head_dim": 32},
    "multiplies bf16 wrongly": {"kv_format": "bf16"},
    "see no token": {"context_len": [40, 0]},
    "tiles of 16 heads": {"page_size": 1, "num_heads": 8},
    "leaves NaN": {"page_size": 1, "context_len": [40, 0]},
    "one list a query token": {"page_size": 1, "next_n": 2},
}


def test_what_it_is_not_written_for_is_refused_with_the_reason(checkout, judge):
    rows = judge(checkout(False), [SMALL | {"context_len": [40, 40]} | case for case in REFUSED.values()], op="mla_decode")
    for text, row in zip(REFUSED, rows, strict=True):
        assert row.verdict == "unsupported" and text in row.message, (text, row.verdict, row.message)
