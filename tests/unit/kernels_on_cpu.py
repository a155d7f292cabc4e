"""Run by test_kernels_on_cpu.py in a process of its own, with the agent's zip on the path: our Triton kernels, interpreted.

Prints one JSON object: where the kernels came from, and the traceback of each check that failed.
"""

from __future__ import annotations

import json
import os
import random
import traceback

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton

import torch

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.kernels import paged_mqa_logits as logits_kernel
from kvcheck.agent.ops import paged_mqa_logits, topk_per_row
from kvcheck.agent.providers import triton as provider
from kvcheck_references.paged_mqa_logits import paged_mqa_logits as reference_logits
from kvcheck_references.topk_per_row import topk_per_row as reference_topk

LOGITS = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
TOPK = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}
SENTINEL = 12345


def guarded(shape, dtype):
    """An output inside a larger buffer: rows are wider apart than they are long, and guard rows stand on both sides."""
    rows, width = shape
    whole = torch.full((rows + 2, width + 5), SENTINEL, dtype=dtype)
    return whole, whole[1:-1, 2 : 2 + width]


def run(op, make_inputs, case, seed):
    """The output, and the inputs; raises if anything beside the output was written."""
    inputs = make_inputs(case, Generator(seed))
    before = inputs.fingerprint()
    ((shape, dtype),) = inputs.outputs.values()
    whole, out = guarded(shape, dtype)
    getattr(provider, op)(**inputs.tensors, **inputs.scalars, out=out, alloc=None)
    assert inputs.fingerprint() == before
    result = out.clone()
    out.fill_(SENTINEL)
    assert (whole == SENTINEL).all(), "written outside the rows"
    return result, inputs


def lengths(draw, longest):
    batch, next_n = draw.randint(1, 3), draw.randint(1, 3)
    one = lambda: draw.choice([0, 1, draw.randint(0, longest), longest])  # noqa: E731
    per_row = draw.random() < 0.3
    lens = [[one() for _ in range(next_n)] if per_row else one() for _ in range(batch)]
    return {"batch": batch, "next_n": next_n, "context_len": lens}


def check_exact_logits_are_the_references_bits_and_nothing_else_is_written():
    draw = random.Random(5)
    for seed in range(50):
        case = {
            **LOGITS,
            **lengths(draw, draw.choice([7, 90, 300])),
            "num_heads": draw.choice([1, 2, 16, 17, 32, 48, 70]),
            "head_dim": draw.choice([16, 48, 128, 144]),
            "block_size": draw.choice([1, 2, 3, 7, 16, 64, 100]),
            "kv_dtype": draw.choice(["e4m3fn", "e4m3fnuz"]),
            "block_table": draw.choice(["shuffled", "wide_garbage", "wide_minus_one", "high_ids", "fragmented"]),
            "values": "exact_int",
            "scale": "ue8m0",
            "poison": "finite_beacon",
        }
        actual, inputs = run("paged_mqa_logits", paged_mqa_logits.make_inputs, case, seed)
        expected = reference_logits(**inputs.tensors, **inputs.scalars, out=None, alloc=None).float()
        inside = torch.arange(actual.shape[1]) < inputs.row_lengths[:, None]
        assert torch.equal(actual[inside], expected[inside]), case
        assert (actual[~inside] == SENTINEL).all(), case


def check_rows_of_several_programs():
    case = {**LOGITS, "batch": 3, "next_n": 2, "context_len": [4500, 0, 2049], "num_heads": 33, "block_size": 16}
    for kv_dtype in ("e4m3fn", "e4m3fnuz"):
        assert logits_kernel.tiles(33, 128, 4500, True)["TOKENS"] < 4500
        actual, inputs = run("paged_mqa_logits", paged_mqa_logits.make_inputs, {**case, "kv_dtype": kv_dtype, "poison": "zero"}, 1)
        expected = reference_logits(**inputs.tensors, **inputs.scalars, out=None, alloc=None)
        inside = torch.arange(actual.shape[1]) < inputs.row_lengths[:, None]
        assert inside.sum() == 4499 + 4500 + 2048 + 2049 and (actual[~inside] == SENTINEL).all()
        worst = (actual[inside] - expected[inside]).abs().max() / expected[inside].abs().max()
        assert worst < 1e-6, worst


def check_every_fp8_code_is_read_as_its_number():
    """Key t holds code t in one lane; heads of +1 and -1 with weights of +1 and -1 undo relu."""
    code = torch.arange(256, dtype=torch.uint8)
    for kv_dtype, one, minus_one, from_bytes in (
        ("e4m3fn", 0x38, 0xB8, False),
        ("e4m3fn", 0x38, 0xB8, True),
        ("e4m3fnuz", 0x40, 0xC0, True),
    ):
        fp8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
        cache = torch.zeros(256, 1, 1, 20, dtype=torch.uint8)
        cache[:, 0, 0, 3] = code
        cache.view(256, 20)[:, 16:] = torch.ones(256, 1).view(torch.uint8)
        q = torch.zeros(1, 1, 2, 16, dtype=torch.uint8)
        q[0, 0, :, 3] = torch.tensor([one, minus_one], dtype=torch.uint8)
        out = torch.empty(1, 256)
        logits_kernel.paged_mqa_logits(
            q.view(fp8),
            cache,
            torch.tensor([[1.0, -1.0]]),
            torch.tensor([256], dtype=torch.int32),
            torch.arange(256, dtype=torch.int32)[None],
            max_model_len=256,
            block_size=1,
            kv_dtype=kv_dtype,
            out=out,
            from_bytes=from_bytes,
        )
        numbers = code.view(fp8).float()
        known = ~numbers.isnan()  # NaN codes are numbers to the interpreter, which the kernel's docstring says
        assert known.sum() == {"e4m3fn": 254, "e4m3fnuz": 255}[kv_dtype]
        assert torch.equal(out[0, known], numbers[known]), (kv_dtype, from_bytes)


def check_a_page_past_two_gibibytes():
    """A pool of 2**31 bytes and more that is never touched but for its first and its last page."""
    block_size, head_dim = 64, 128
    page_bytes = block_size * (head_dim + 4)
    blocks = 2**31 // page_bytes + 10
    cache = torch.empty(blocks, block_size, 1, head_dim + 4, dtype=torch.uint8)
    small = torch.randint(0, 0x70, (2, page_bytes), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    small[:, block_size * head_dim :] = torch.rand(2, block_size, generator=torch.Generator().manual_seed(2)).view(torch.uint8)
    cache.view(blocks, -1)[0], cache.view(blocks, -1)[-1] = small[0], small[1]
    q = torch.randint(0, 0x70, (1, 1, 16, head_dim), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    rest = {"max_model_len": 128, "block_size": block_size, "kv_dtype": "e4m3fn", "alloc": None}
    outs = [torch.zeros(1, 128), torch.zeros(1, 128)]
    tables = [[0, blocks - 1], [0, 1]]
    for pool, table, out in zip((cache, small.view(2, block_size, 1, -1)), tables, outs, strict=True):
        lens, ids = torch.tensor([128], dtype=torch.int32), torch.tensor([table], dtype=torch.int32)
        provider.paged_mqa_logits(q.view(torch.float8_e4m3fn), pool, torch.ones(1, 16), lens, ids, out=out, **rest)
    assert torch.equal(*outs) and (outs[0] > 0).all()


def same_positions(actual, expected):
    """Rows of k positions in ascending order: the kernel's order where a row is longer than k, and the identity's."""
    largest = torch.iinfo(torch.int32).max
    wanted = torch.where(expected < 0, largest, expected).sort(dim=1).values
    return torch.equal(torch.where(actual < 0, largest, actual), wanted)


def check_topk_is_the_references_set_with_ties_to_the_lowest():
    draw = random.Random(7)
    for seed in range(60):
        case = {**TOPK, **lengths(draw, draw.choice([5, 60, 1000])), "topk": draw.choice([1, 2, 3, 31, 64, 100, 999, 1000, 1001])}
        case["values"] = draw.choice(sorted(specs.axes("topk_per_row")["values"].choices))
        case["poison"] = draw.choice(["nan", "inf", "large"])
        actual, inputs = run("topk_per_row", topk_per_row.make_inputs, case, seed)
        assert same_positions(actual, reference_topk(**inputs.tensors, **inputs.scalars, out=None, alloc=None)), case


def check_topk_orders_zeros_infinities_and_subnormals():
    inf, nan = float("inf"), float("nan")
    row = torch.tensor([[-0.0, -inf, 0.0, 1e-45, -1e-45, inf, -inf, 3e38, -0.0, 0.0, -3e38, inf, nan, inf, 1e38]])
    for length in (12, 5):
        lens = torch.tensor([length], dtype=torch.int32)
        for k in range(1, length + 3):
            out = torch.full((1, k), SENTINEL, dtype=torch.int32)
            provider.topk_per_row(row, lens, topk=k, next_n=1, out=out, alloc=None)
            assert same_positions(out, reference_topk(row, lens, topk=k, next_n=1, out=None, alloc=None)), (length, k)


def check_topk_of_rows_longer_than_one_tile():
    bits = torch.randint(0, 1 << 10, (2, 300_001), dtype=torch.int32, generator=torch.Generator().manual_seed(4)) + 0x3F900000
    rows = bits.view(torch.float32)
    rows[1] *= -1
    lens = torch.tensor([300_000, 270_000], dtype=torch.int32)
    rows[0, 300_000:], rows[1, 270_000:] = float("nan"), float("inf")
    for k in (2048, 100_000):
        out = torch.full((2, k), SENTINEL, dtype=torch.int32)
        provider.topk_per_row(rows, lens, topk=k, next_n=1, out=out, alloc=None)
        assert same_positions(out, reference_topk(rows, lens, topk=k, next_n=1, out=None, alloc=None)), k


if __name__ == "__main__":
    torch.set_num_threads(1)
    failed = {}
    for name, check in [item for item in globals().items() if item[0].startswith("check_")]:
        try:
            check()
        except Exception:
            failed[name] = traceback.format_exc()
    print(json.dumps({"kernels": logits_kernel.__file__, "failed": failed}))
