"""Data reduced to what a failure needs: keys that are zero, and pages that are one.

Both stand on axes that a case has only where it names them, so that every other case keeps its bytes.
"""

from __future__ import annotations

from typing import Any

SPEC = {
    "summary": "axes that take data away: what `kvcheck shrink` leaves of a case",
    "axes": {
        "nonzero_keys": {
            "type": "positions",
            "optional": True,
            "unit": "positions",
            "doc": "tokens of each request whose keys keep their values; every other key is zero, with scale 1. null: all keep them",
            "ops": [
                "paged_mqa_logits",
                "mqa_logits",
                "index_k_cache_write",
                "index_k_cache_gather",
                "mla_decode",
                "indexer_mla_decode",
            ],
        },
        "distinct_pages": {
            "type": "positions",
            "optional": True,
            "unit": "columns of the table",
            "doc": "pages of each request that are its own; every other column is the same page of zeros. null: all are their own",
            "ops": ["paged_mqa_logits", "index_k_cache_gather", "mla_decode", "indexer_mla_decode"],
        },
    },
}


def is_reduced(case: dict[str, Any]) -> bool:
    """Whether anything is taken away from the data of a case."""
    return case.get("nonzero_keys") is not None or case.get("distinct_pages") is not None


def kept(case: dict[str, Any], position: Any, page_size: int = 1) -> Any:
    """Which tokens of a request keep their values.

    Args:
        case: resolved params.
        position: [tokens] int64. Positions in the request.
        page_size: tokens a page.

    Returns:
        mask: [tokens] bool.
    """
    import torch

    mask = torch.ones(len(position), dtype=torch.bool)
    if case.get("nonzero_keys") is not None:
        mask &= torch.isin(position.long(), torch.tensor(case["nonzero_keys"], dtype=torch.int64))
    if case.get("distinct_pages") is not None:
        mask &= torch.isin(position.long() // page_size, torch.tensor(case["distinct_pages"], dtype=torch.int64))
    return mask


def table(case: dict[str, Any], block_table: Any, pages: list[int]) -> Any:
    """The block table in which pages that are not distinct are one: the page of the first such column.

    Args:
        case: resolved params.
        block_table: [batch, width] int32. Page ids.
        pages: pages of each request; columns past them are padding, and stay.

    Returns:
        block_table: [batch, width] int32.
    """
    import torch

    if case.get("distinct_pages") is None:
        return block_table
    column = torch.arange(block_table.shape[1])
    shared = (column < torch.tensor(pages)[:, None]) & ~torch.isin(column, torch.tensor(case["distinct_pages"], dtype=torch.int64))
    if not shared.any():
        return block_table
    return torch.where(shared, block_table[shared][0], block_table)


def tokens(case: dict[str, Any], position: Any, page_size: int, quantised: tuple[Any, Any]) -> tuple[Any, Any]:
    """Quantised tokens of a request, those that do not keep their values with codes of zero and a scale of 1.

    Args:
        case: resolved params.
        position: [tokens] int64. Positions in the request.
        page_size: tokens a page.
        quantised: codes [tokens, head_dim] uint8 and scales [tokens] float32.

    Returns:
        codes, scales: of the same shapes.
    """
    import torch

    if not is_reduced(case):
        return quantised
    (codes, scales), mask = quantised, kept(case, position, page_size)
    return torch.where(mask[:, None], codes, torch.zeros_like(codes)), torch.where(mask, scales, torch.ones_like(scales))


def rows(case: dict[str, Any], position: Any, page_size: int, encoded: Any, zero: Any) -> Any:
    """Rows of a latent cache, those of tokens that do not keep their values replaced.

    Args:
        case: resolved params.
        position: [tokens] int64. Positions in the request.
        page_size: tokens a page.
        encoded: [tokens, row_bytes] uint8. Rows of the tokens.
        zero: [row_bytes] uint8. A latent of zeros.

    Returns:
        rows: [tokens, row_bytes] uint8.
    """
    import torch

    return torch.where(kept(case, position, page_size)[:, None], encoded, zero) if is_reduced(case) else encoded
