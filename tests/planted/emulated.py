"""Our own kernel, and beside it a small one with a fault that changes no output: only the emulated device's sanitizer can see it.

PLANTED names the fault. Each small kernel takes the arguments of the real one, so that a finding names a real tensor.
"""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kvcheck.agent.kernels import paged_mqa_logits as honest


@triton.jit
def copies(x, y, first, n, BLOCK: tl.constexpr):
    i = first + tl.arange(0, BLOCK)
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + i, mask=i < n, other=0))


@triton.jit
def stores(y, first, BLOCK: tl.constexpr):
    tl.store(y + first + tl.arange(0, BLOCK), tl.arange(0, BLOCK))


@triton.jit
def stores_its_number(y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.program_id(0) + tl.zeros([BLOCK], tl.int32))


@triton.jit
def stores_back(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i))


@triton.jit
def reads_a_register(y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.inline_asm_elementwise("v_mov_b32 $0, v77", "=v,v", [i], tl.int32, is_pure=False, pack=1))


@triton.jit
def does_not_wait(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    text: tl.constexpr = "global_load_dword $0, $1, off\nv_add_u32_e32 $0, 1, $0\ns_waitcnt vmcnt(0)"
    tl.store(y + i, tl.inline_asm_elementwise(text, "=&v,v", [x + i], tl.int32, is_pure=False, pack=1))


@gluon.jit
def loads_before_the_buffer(x, y, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [64], [4], [0])
    i = gl.arange(0, BLOCK, layout=layout)
    gl.store(y + i, gl.amd.cdna3.buffer_load(x, i - 1))


def out_of_bounds_read(weights, alloc):
    copies[(1,)](alloc((256,), torch.float32, 0), alloc((256,), torch.float32, 0), 8, 512, BLOCK=256)


def out_of_bounds_write(weights, alloc):
    stores[(1,)](alloc((256,), torch.int32, 0), 8, BLOCK=256)


def race(weights, alloc):
    stores_its_number[(2,)](alloc((256,), torch.int32, 0), BLOCK=256)


def uninitialised_read(weights, alloc):
    copies[(1,)](alloc((256,), torch.float32, None), alloc((256,), torch.float32, 0), 0, 256, BLOCK=256)


def uninitialised_register(weights, alloc):
    reads_a_register[(1,)](alloc((256,), torch.int32, 0), BLOCK=256)


def missing_wait(weights, alloc):
    does_not_wait[(1,)](alloc((64,), torch.int32, 0), alloc((64,), torch.int32, 0), BLOCK=64, num_warps=1)


def input_write(weights, alloc):
    stores_back[(1,)](weights, BLOCK=16)


def clamped_access(weights, alloc):
    loads_before_the_buffer[(1,)](alloc((256,), torch.int32, 0), alloc((256,), torch.int32, 0), BLOCK=256)


def paged_mqa_logits(
    q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc
):  # the op's own signature
    sizes = {"max_model_len": max_model_len, "block_size": block_size, "kv_dtype": kv_dtype, "out": out}
    honest.paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, **sizes)
    planted = os.environ.get("PLANTED", "")
    if planted:
        globals()[planted](weights, alloc)
