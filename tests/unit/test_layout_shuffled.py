"""The shuffled cache: our byte map against an independent walk over the bytes, and what a reader that takes it for flat sees."""

from __future__ import annotations

import pytest
import torch

from kvcheck.agent.layouts import block_flat, shuffled
from kvcheck_references import paged_mqa_logits_naive as naive

SHAPES = [(16, 16), (16, 128), (32, 48), (48, 64), (64, 128), (128, 32)]


def cache_of(block_size: int, head_dim: int) -> torch.Tensor:
    cache = torch.randint(0, 256, (3, block_size, 1, head_dim + 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(block_size))
    block_flat.scales(cache).copy_(torch.rand(3, block_size, generator=torch.Generator().manual_seed(7)) + 0.5)
    return cache


@pytest.mark.parametrize(("block_size", "head_dim"), SHAPES)
def test_the_map_agrees_with_a_walk_over_the_bytes(block_size, head_dim):
    cache = cache_of(block_size, head_dim)
    pages = [bytes(page.flatten().tolist()) for page in shuffled.write(cache)]
    codes, scales = block_flat.values(cache), block_flat.scales(cache)
    for page, block in enumerate(pages):
        for token in range(block_size):
            key, scale = naive.shuffled_token(block, token, block_size, head_dim)
            assert key == bytes(codes[page, token].tolist())
            assert scale == scales[page, token].item()


@pytest.mark.parametrize(("block_size", "head_dim"), SHAPES)
def test_reading_undoes_writing_and_neither_touches_its_argument(block_size, head_dim):
    cache = cache_of(block_size, head_dim)
    before, there = cache.clone(), shuffled.write(cache)
    back = shuffled.read(there)
    assert torch.equal(back, before) and torch.equal(cache, before)
    assert torch.equal(shuffled.write(back), there)


def test_the_bytes_of_the_formula():
    cache = cache_of(32, 48)
    page, flat = shuffled.write(cache)[1].flatten(), cache[1].flatten()
    for token, dim, offset in ((0, 0, 0), (1, 0, 16), (0, 16, 256), (15, 15, 255), (16, 0, 768), (17, 33, 768 + 512 + 16 + 1)):
        assert page[offset] == flat[token * 48 + dim], (token, dim)
    assert torch.equal(page[32 * 48 :], flat[32 * 48 :]), "scales stay"


def test_taken_for_flat_scales_are_right_and_keys_are_not():
    cache = cache_of(64, 128)
    taken = shuffled.write(cache)
    assert torch.equal(block_flat.scales(taken), block_flat.scales(cache))
    assert not torch.equal(block_flat.values(taken), block_flat.values(cache))


def test_a_page_of_16_by_16_is_the_same_in_both():
    cache = cache_of(16, 16)
    assert torch.equal(shuffled.write(cache), cache)


@pytest.mark.parametrize("shape", [(1, 128), (8, 128), (16, 24)])
def test_what_does_not_divide_into_tiles_is_refused(shape):
    block_size, head_dim = shape
    assert not shuffled.fits(block_size, head_dim)
    with pytest.raises(ValueError, match="tiles of 16 by 16"):
        shuffled.write(torch.zeros(1, block_size, 1, head_dim + 4, dtype=torch.uint8))
