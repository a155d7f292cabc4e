"""Inputs: the same bytes everywhere, tables that are permutations, values that are what their names say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs import index_cache, keys, pitch, tables
from kvcheck.agent.inputs.arena import GUARD_WORDS, Arena, is_sentinel
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.layouts import block_flat, fp8
from kvcheck.agent.ops import paged_mqa_logits, topk_per_row

LOGITS = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
LOGITS.update(kv_dtype="e4m3fn", poison="finite_beacon", context_len=[300, 0, 1, 77], batch=4, next_n=2, num_heads=32, block_size=16)
TOPK = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}
TABLES = sorted(specs.axes("paged_mqa_logits")["block_table"].choices)


def make(**changes):
    return paged_mqa_logits.make_inputs({**LOGITS, **changes}, Generator(42))


def test_fingerprints_are_pinned():
    """The same case is the same bytes on every machine: these were made on one x86-64 CPU and hold on any other."""
    assert make().fingerprint() == "e22ffba6f8a5e3aa"
    assert make(values="heavy_tail", scale="decades", kv_dtype="e4m3fnuz").fingerprint() == "d2331cac1c02bd4a"
    assert make(values="random_bytes").fingerprint() == "39b86de6dd01efe2"
    assert topk_per_row.make_inputs({**TOPK, "poison": "nan"}, Generator(7)).fingerprint() == "ceeea58bb98cd6de"


def test_seed_and_thread_count():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = make().fingerprint()
        torch.set_num_threads(2)
        assert make().fingerprint() == one
    finally:
        torch.set_num_threads(before)
    assert paged_mqa_logits.make_inputs(LOGITS, Generator(43)).fingerprint() != one


def test_longer_context_begins_with_the_shorter_ones_keys():
    short, long = (index_cache.build({**LOGITS, "block_size": 1, "block_table": "contiguous"}, [n], Generator(1))[0] for n in (50, 90))
    assert torch.equal(short[:50], long[:50])


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(0, 50))
def test_streams_can_be_entered_anywhere(seed, count, start):
    generator = Generator(seed)
    assert torch.equal(generator.bits("a", count, start), generator.bits("a", count + start)[start:])
    assert torch.equal(generator.normal("a", count, start), generator.normal("a", count + start)[start:])


def test_normal_is_normal_enough():
    draw = Generator(3).normal("x", 200_000).double()
    assert abs(draw.mean()) < 1.5 and abs(draw.std() - 147.8) < 1
    assert draw.abs().max() <= 510


@pytest.mark.parametrize("kind", TABLES)
@given(pages=st.lists(st.integers(0, 9), min_size=2, max_size=5), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_tables_own_every_page_once(kind, pages, seed):
    size = tables.pool_size(kind, pages)
    table = tables.build(kind, pages, size, Generator(seed))
    rows = [row[:count].tolist() for row, count in zip(table, pages, strict=True)]
    assert all(0 <= page < size for row in rows for page in row)
    assert all(len(set(row)) == len(row) for row in rows)
    if kind != "shared_prefix":
        every = [page for row in rows for page in row]
        assert len(set(every)) == len(every)
    pad = tables.PADDING.get(kind, 0)
    assert all(int(v) == pad for row, count in zip(table, pages, strict=True) for v in row[count:])


def test_table_kinds_are_what_they_say():
    build = lambda kind, pages: tables.build(kind, pages, tables.pool_size(kind, pages), Generator(5))  # noqa: E731
    assert build("contiguous", [3, 2]).tolist() == [[0, 1, 2], [3, 4, 0]]
    assert build("reversed", [3, 2]).tolist() == [[4, 3, 2], [1, 0, 0]]
    assert build("interleaved", [3, 2]).tolist() == [[0, 2, 4], [1, 3, 0]]
    high = build("high_ids", [20, 12])
    assert int(high[0].min()) >= tables.pool_size("high_ids", [20, 12]) // 2
    shared = build("shared_prefix", [20, 12])
    assert torch.equal(shared[0, :9], shared[1, :9]) and not set(shared[0].tolist()) & set(shared[1, 9:12].tolist())
    assert build("wide_garbage", [2]).shape[1] == 2 + tables.EXTRA_COLUMNS
    with pytest.raises(ValueError, match="need 5 pages"):
        tables.build("shuffled", [3, 2], 4, Generator(1))


@pytest.mark.parametrize("kv_dtype", sorted(fp8.MAXIMUM))
def test_fp8_tables_agree_with_torch(kv_dtype):
    codes = torch.arange(256, dtype=torch.uint8)
    theirs, ours = codes.view(fp8.torch_dtype(kv_dtype)).double(), fp8.decode(codes, kv_dtype)
    assert torch.equal(theirs.isnan(), ours.isnan()) and torch.equal(theirs.nan_to_num(), ours.nan_to_num())
    edges = torch.tensor(sorted({v for v in fp8.values(kv_dtype) if v == v}), dtype=torch.float64)
    middles = (edges[1:] + edges[:-1]) / 2
    numbers = torch.cat([edges, middles, middles * (1 + 2**-20), middles * (1 - 2**-20), torch.tensor([0.0, 1e-9])]).float()
    wanted = numbers.to(fp8.torch_dtype(kv_dtype)).double() + 0.0
    assert torch.equal(fp8.decode(fp8.encode(numbers.double(), kv_dtype), kv_dtype), wanted)


@pytest.mark.parametrize("block_size", [1, 2, 16])
def test_block_flat_is_the_documented_byte_map(block_size):
    cache = torch.zeros(5, block_size, 1, 20, dtype=torch.uint8)
    slots = Generator(1).permutation("s", 5 * block_size)
    codes = Generator(1).bits("c", len(slots) * 2).view(torch.uint8).view(len(slots), 16)
    scales = torch.arange(len(slots)).float() + 0.5
    block_flat.scatter(cache, slots, codes, scales)
    flat = cache.view(5, -1)
    for slot, code, scale in zip(slots.tolist(), codes, scales, strict=True):
        page, offset = divmod(slot, block_size)
        assert torch.equal(flat[page, offset * 16 : offset * 16 + 16], code)
        octets = flat[page, block_size * 16 + 4 * offset : block_size * 16 + 4 * offset + 4]
        assert octets.clone().view(torch.float32).item() == scale
    got = block_flat.gather(cache, slots)
    assert torch.equal(got[0], codes) and torch.equal(got[1], scales)


def read(inputs, request, position):
    """One token's key and scale, by the table."""
    size = inputs.scalars["block_size"]
    slot = int(inputs.tensors["block_table"][request, position // size]) * size + position % size
    codes, scale = block_flat.gather(inputs.tensors["kv_cache"], torch.tensor([slot]))
    return slot, fp8.decode(codes, "e4m3fn")[0], float(scale)


def test_slot_beacon_says_its_slot():
    inputs = make(values="beacon_slot", context_len=300, batch=2)
    q, w = fp8.decode(inputs.tensors["q"].view(torch.uint8), "e4m3fn"), inputs.tensors["weights"].double()
    for position in (0, 17, 299):
        slot, key, scale = read(inputs, 1, position)
        assert float((w[2] * torch.relu(q[1, 0] @ key * scale)).sum()) == slot


def test_amax_scale_uses_the_whole_range():
    _, key, scale = read(make(), 0, 5)
    assert key.abs().max() == 448 and 1e-4 < scale < 0.1
    _, _, power = read(make(scale="ue8m0"), 0, 5)
    assert scale <= power < 2 * scale and torch.frexp(torch.tensor(power)).mantissa == 0.5


def test_poison_lies_in_every_slot_without_owner():
    inputs = make(poison="nan")
    cache = inputs.tensors["kv_cache"]
    owned = {read(inputs, b, p)[0] for b, n in enumerate([300, 0, 1, 77]) for p in range(n)}
    spare = torch.tensor(sorted(set(range(cache.shape[0] * 16)) - owned))
    codes, scales = block_flat.gather(cache, spare)
    assert len(spare) > 0 and (codes == 0x7F).all() and scales.isnan().all()
    assert not block_flat.gather(cache, torch.tensor(sorted(owned)))[1].isnan().any()


def test_exact_values_are_exact():
    for kind in keys.EXACT:
        inputs = make(values=kind)
        q = fp8.decode(inputs.tensors["q"].view(torch.uint8), "e4m3fn")
        assert inputs.exact and (q == q.round()).all() and q.abs().max() <= 16


def test_row_lengths():
    assert make().row_lengths.tolist() == [299, 300, 0, 0, 0, 1, 76, 77]
    per_row = make(context_len=[[5, 9], [0, 3], [1, 1], [2, 8]])
    assert per_row.row_lengths.tolist() == [5, 9, 0, 3, 1, 1, 2, 8]
    assert per_row.tensors["context_lens"].shape == (4, 2)


def test_arena_sees_writes_outside_and_what_was_not_written():
    arena = Arena("cpu")
    out = arena.output("logits", (2, 5), torch.float32)
    scratch = arena.alloc((3,), torch.bfloat16, 0)
    assert is_sentinel(out).all() and arena.guard_hits() == []
    out[0, 0] = float("nan")
    assert int(is_sentinel(out).sum()) == 9
    out.as_strided((11,), (1,), out.storage_offset())[10] = -1.0
    scratch.as_strided((1,), (1,), scratch.storage_offset() - 1)[0] = 1.0
    assert arena.guard_hits() == [("logits", 1, 0), ("scratch 1", 1, -1)]
    assert GUARD_WORDS >= 4096


@pytest.mark.parametrize("kind", ["pitched", "strided"])
def test_a_view_holds_the_same_cache_and_its_copy_keeps_what_lies_between(kind):
    plain, view = make().tensors["kv_cache"], make(cache=kind).tensors["kv_cache"]
    page = plain[0].numel()
    assert torch.equal(plain, view) and not view.is_contiguous() and view.stride(0) == {"pitched": page + 64, "strided": 2 * page}[kind]
    copy = pitch.copied(view, "cpu")
    assert copy.stride() == view.stride() and torch.equal(pitch.span(copy), pitch.span(view))
    copy.as_strided((1,), (1,), page)[0] += 1  # a byte that no page holds
    assert torch.equal(copy, view) and not torch.equal(pitch.octets(copy), pitch.octets(view))
    assert make(cache=kind).fingerprint() != make().fingerprint()


def test_an_output_that_is_a_view_has_guards_around_all_of_it():
    view = make(cache="pitched").tensors["kv_cache"]
    arena = Arena("cpu")
    out = arena.output("kv_cache", view.shape, torch.uint8, view)
    assert out.stride() == view.stride() and torch.equal(pitch.span(out), pitch.span(view))
    end = pitch.span(out)
    end.as_strided((4,), (1,), end.storage_offset() + -(-len(end) // 4) * 4)[0] = 1
    assert arena.guard_hits() == [("kv_cache", 1, 0)]


def test_a_wider_table_is_the_same_table():
    plain, view = make().tensors["block_table"], make(table_stride="wider").tensors["block_table"]
    assert torch.equal(plain, view) and view.stride(0) > view.shape[1]
