"""Why a mutant that no check catches is no fault: committed, and printed with each survivor."""

from __future__ import annotations

from kvcheck.agent.mutations import Mutation

BATCH = "a batch of up to 1024 requests is one tile"
CHUNK = "splits may begin anywhere: together they hold the same tokens"
EMPTY = "a length of 0, of -1 or of an empty request's last page leaves nothing to do alike"
IDENTITY = "a row of k positions is the identity by either way"
INSIDE = "lanes that are masked out take page 0, which exists, and are not stored"
LOWER = "the digit below is taken and none of it wanted: the set is the same"
MODULO = "a byte: minus 128 and plus 128 are the same"
NEGATIVE = "windows that begin below 0 begin at the first column either way"
NEVER_LIVE = "no live token holds a NaN code: the premise of every case"
ONE_TILE = "one tile of heads under the interpreter: program_id(1) is 0, and so is program_id(0) % 1"
PADDED = "an extra lane on one side meets a masked lane, a 0, on the other"
PAST = "bins from 256 on are cut off, and counts there are 0"
REPLACED = "rows that saw nothing are replaced by the empty row afterwards"
SAME = "both branches are the same there"
SHIFT = "a shift by 32 leaves the sign under the interpreter, as one by 31 does"
SIGN = "the sign bit is extended, so that bit 16 is the sign as well"
SKIPS = "only decides whether a tile is entered that `live` leaves empty"
SOME = "one bin at least fulfils the condition"
TIES = "a tie, or what lies a bit beside it, is rounded to the other side: as near, and inside the certified bound"
TRUNCATED = "P stays in fp32 and the store truncates out: 2u|out| at most, and a bf16 P and out are granted u sum(p|v|) + u|out|, no less"
ULP = "no bf16 over 448, 240 or 224 lies one bit above a power of two"
UNUSED = "a lane that is masked out meets a 0 in the product, or is not stored"

TABLE: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "block_table": (
        ("request = tl.load(request_ptr + lane, mask=live, other=-1)", ("56 1 -> 0", "56 1 -> 2",), UNUSED),
        ("position = tl.load(position_ptr + lane, mask=live, other=0)", ("57 0 -> (-1)", "57 0 -> 1",), UNUSED),
        ("manager = tl.load(entry, mask=asked, other=0).to(tl.int64)", ("43 0 -> (-1)", "43 0 -> 1",), UNUSED),
        ("if KERNEL >= STORAGE:", ("10 >= -> >",), SAME),
    ),
    "index_k_cache_gather": (
        ("if start < length:", ("9 < -> <=",), SKIPS),
        ("page = tl.load(table_ptr + request.to(tl.int64) * table_stri", ("106 0 -> (-1)", "106 0 -> 1",), UNUSED),
        ("code = tl.load(byte_ptr + page[:, None] * (page_words * 4) +", ("82 0 -> (-1)", "82 0 -> 1",), UNUSED),
        ("scale = tl.load(word_ptr + page * page_words + block_size *", ("82 mask=live, other=0 dropped",), INSIDE),
        ("scale = tl.load(word_ptr + page * page_words + block_size *", ("101 0 -> (-1)", "101 0 -> 1",), UNUSED),
    ),
    "index_k_cache_write": (
        ("code = tl.where(size < 2.0 ** (1 - BIAS), small, normal)", ("21 < -> <=", "31 1 -> 2",), SAME),
        ("return code + negative * 128", ("12 + -> -",), MODULO),
        ("return tl.where(code > 0, code + negative * 128, code)", ("31 + -> -",), MODULO),
        ("slot = tl.load(slots_ptr + token, mask=token < tokens, other", ("62 1 -> 2",), UNUSED),
        ("sign = (key.to(tl.int16, bitcast=True).to(tl.int32) >> 15) &", ("55 15 -> 16",), SIGN),
        ("scale = (((scale.to(tl.int32, bitcast=True) + 0x7FFFFF) >> 2", ("46 0x7FFFFF -> 8388606",), ULP),
    ),
    "latents": (
        ("return tl.where(code == 128 if FNUZ else (code & 127) == 127", ("24 128 -> 129", "49 127 -> 126",
            "49 127 -> 128", "57 127 -> 128"), NEVER_LIVE),
        ("rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536", ("18 0x7FFF -> 32766", "18 0x7FFF -> 32768", "25 + -> -", "37 16 -> 15",
            "37 16 -> 17", "43 1 -> 0", "43 1 -> 2", "50 65536 -> 65535"), TIES),
        ("return tl.where(x == x, rounded, bits).to(tl.float32, bitcas", ("18 == -> !=",), TRUNCATED),
        ("number = tl.load(half_ptr + row * (ROW // 2) + dim, mask=mas", ("69 0.0 -> (-1.0)", "69 0.0 -> 1.0",), UNUSED),
        ("number = tl.load(half_ptr + row * 328 + 264 + dim, mask=mask", ("49 mask=mask, other=0.0 dropped",), PADDED),
        ("number = tl.load(half_ptr + row * 328 + 264 + dim, mask=mask", ("68 0.0 -> (-1.0)", "68 0.0 -> 1.0",), UNUSED),
        ("code = tl.load(byte_ptr + row * 656 + dim, mask=mask, other=", ("60 0 -> 1",), UNUSED),
        ("scale = tl.load(word_ptr + row * 164 + 128 + dim // 128, mas", ("74 0.0 -> 1.0", "74 0.0 -> (-1.0)",), UNUSED),
        ("code = tl.load(byte_ptr + row * ROW + dim, mask=mask, other=", ("60 0 -> 1",), UNUSED),
    ),
    "mla_decode": (
        ("tile = tl.program_id(0) % HEAD_TILES", ("21 0 -> 1",), ONE_TILE),
        ("length = tl.where(pages > 0, length, 0)", ("24 > -> >=", "26 0 -> (-1)", "37 0 -> (-1)",), EMPTY),
        ("chunk = tl.maximum((length + SPLITS - 1) // SPLITS, 1)", ("36 - -> +", "38 1 -> 0", "52 1 -> 0", "52 1 -> 2",), CHUNK),
        ("query = tl.load(q_ptr + query_at + lane[None, :], mask=(head", ("116 0.0 -> (-1.0)", "116 0.0 -> 1.0",), UNUSED),
        ("turned = tl.load(q_ptr + query_at + DIM_V + turn[None, :], m", ("83 0.0 -> (-1.0)", "83 0.0 -> 1.0",), UNUSED),
        ("page = tl.load(indices_ptr + first + position // page_size,", ("77 0 -> (-1)", "77 0 -> 1",), UNUSED),
        ("if DIM > DIM_V:", ("7 > -> >=",), PADDED),
        ("top = tl.where(seen, top, 0.0)", ("26 0.0 -> (-1.0)", "26 0.0 -> 1.0",), REPLACED),
        ("total += tl.load(total_ptr + row * SPLITS + nth, mask=here,", ("66 0.0 -> (-1.0)", "66 0.0 -> 1.0",), UNUSED),
        ("sums += tl.load(sum_ptr + (row * SPLITS + nth)[:, None] * DI", ("98 0.0 -> (-1.0)", "98 0.0 -> 1.0",), UNUSED),
        ("total = tl.where(seen, total, 1.0)", ("30 1.0 -> 0.0", "30 1.0 -> 2.0",), REPLACED),
    ),
    "mla_metadata": (
        ("length = tl.load(lens_ptr + start + lane, mask=start + lane", ("26 + -> -",), BATCH),
        ("block = tl.load(table_ptr + request.to(tl.int64) * table_str", ("112 0 -> (-1)", "112 0 -> 1",), UNUSED),
    ),
    "mqa_logits": (
        ("first = tl.maximum(tl.load(ks_ptr + row, mask=row < rows, ot", ("64 0 -> (-1)", "64 0 -> 1",), UNUSED),
        ("first = tl.maximum(tl.load(ks_ptr + row, mask=row < rows, ot", ("68 0 -> (-1)",), NEGATIVE),
        ("end = tl.minimum(tl.load(ke_ptr + row, mask=row < rows, othe", ("62 0 -> (-1)",), UNUSED),
        ("if tl.max(((first < end) & (start < end) & (start + TOKENS >", ("34 < -> <=", "18 < -> <=", "59 > -> >=",
            "91 > -> >=", "93 0 -> (-1)"), SKIPS),
        ("scale = tl.load(scale_ptr + column, mask=seen, other=0.0)", ("53 0.0 -> (-1.0)", "53 0.0 -> 1.0",), UNUSED),
        ("keys = _from_bytes(tl.load(k_ptr + key_at[None, :] + lane[:,", ("89 0 -> (-1)", "89 0 -> 1",), UNUSED),
        ("keys = tl.load(k_ptr + key_at[None, :] + lane[:, None], mask", ("77 0.0 -> (-1.0)", "77 0.0 -> 1.0",), UNUSED),
        ("query = _from_bytes(tl.load(q_ptr + query_at, mask=query_mas", ("69 0 -> (-1)", "69 0 -> 1",), UNUSED),
        ("query = tl.load(q_ptr + query_at, mask=query_mask, other=0.0", ("57 0.0 -> (-1.0)", "57 0.0 -> 1.0",), UNUSED),
        ("weight = tl.load(weights_ptr + query_row.to(tl.int64) * num_", ("93 0.0 -> (-1.0)", "93 0.0 -> 1.0",), UNUSED),
    ),
    "paged_mqa_logits": (
        ("if start < length:", ("9 < -> <=",), SKIPS),
        ("page = tl.load(table_ptr + request.to(tl.int64) * table_stri", ("106 0 -> (-1)", "106 0 -> 1",), UNUSED),
        ("key_mask = (lane < head_dim)[:, None] & live[None, :]", ("17 < -> <=",), PADDED),
        ("scale = tl.load(scale_ptr + scale_at, mask=live, other=0.0)", ("36 mask=live, other=0.0 dropped",), INSIDE),
        ("scale = tl.load(scale_ptr + scale_at, mask=live, other=0.0)", ("55 0.0 -> (-1.0)", "55 0.0 -> 1.0",), UNUSED),
        ("keys = _from_bytes(tl.load(cache_ptr + key_at[None, :] + lan", ("70 mask=key_mask, other=0 dropped",), INSIDE),
        ("keys = _from_bytes(tl.load(cache_ptr + key_at[None, :] + lan", ("93 0 -> (-1)", "93 0 -> 1",), UNUSED),
        ("keys = tl.load(cache_ptr + key_at[None, :] + lane[:, None],", ("58 mask=key_mask, other=0.0 dropped",), INSIDE),
        ("keys = tl.load(cache_ptr + key_at[None, :] + lane[:, None],", ("81 0.0 -> (-1.0)", "81 0.0 -> 1.0",), UNUSED),
        ("query = _from_bytes(tl.load(q_ptr + query_at, mask=query_mas", ("69 0 -> (-1)", "69 0 -> 1",), UNUSED),
        ("query = tl.load(q_ptr + query_at, mask=query_mask, other=0.0", ("57 0.0 -> (-1.0)", "57 0.0 -> 1.0",), UNUSED),
        ("weight = tl.load(weights_ptr + row.to(tl.int64) * num_heads", ("97 0.0 -> (-1.0)", "97 0.0 -> 1.0",), UNUSED),
    ),
    "topk_per_row": (
        ("return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.uint32, bi", ("25 31 -> 32",), SHIFT),
        ("counts += tl.histogram(tl.where(live, ((key >> SHIFT) & 255)", ("75 256 -> 257",), PAST),
        ("chosen = tl.max(tl.where((at_least >= wanted) & (bins < 256)", ("35 >= -> >",), LOWER),
        ("chosen = tl.max(tl.where((at_least >= wanted) & (bins < 256)", ("54 < -> <=", "56 256 -> 257",), PAST),
        ("chosen = tl.max(tl.where((at_least >= wanted) & (bins < 256)", ("68 0 -> (-1)",), SOME),
        ("length = tl.maximum(length, 0)", ("28 0 -> (-1)",), EMPTY),
        ("if length <= topk:", ("10 <= -> <",), IDENTITY),
        ("key = _ordered(tl.load(line + position, mask=live, other=0.0", ("57 0.0 -> (-1.0)", "57 0.0 -> 1.0",), UNUSED),
    ),
    "topk_slots": (
        ("position = tl.load(positions_ptr + row.to(tl.int64) * positi", ("108 1 -> 0", "108 1 -> 2",), UNUSED),
        ("entry = tl.load(table_ptr + request * table_stride + page, m", ("77 0 -> (-1)", "77 0 -> 1",), UNUSED),
    ),
}  # fmt: skip
"""By file: how a line begins, its changes with their columns, and the reason."""


def reason(mutation: Mutation) -> str | None:
    """Why a mutant is equivalent, or None where nobody has said so."""
    change = f"{mutation.column} {mutation.change}"
    return next((why for text, changes, why in TABLE.get(mutation.file, ()) if mutation.text.startswith(text) and change in changes), None)
