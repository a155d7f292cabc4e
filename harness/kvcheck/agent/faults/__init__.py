"""Planted faults, one a file: `plant(function, op, value)` returns the kernel with the fault in it."""

from __future__ import annotations

from typing import Any, Callable, Iterator


def rows(arguments: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Rows of a call of either op.

    Args:
        arguments: the op's keyword arguments.

    Yields:
        row, context_len of its sequence (the longest per-row length), promised length of the row.
    """
    lens = arguments["context_lens"]
    next_n = arguments["q"].shape[1] if "q" in arguments else arguments["next_n"]
    for request, entry in enumerate(lens.tolist()):
        for j in range(next_n):
            length = entry[j] if isinstance(entry, list) else entry - next_n + 1 + j
            yield request * next_n + j, max(entry) if isinstance(entry, list) else entry, max(length, 0)


def spoil(function: Callable[..., Any], chosen: Callable[[int], bool]) -> Callable[..., Any]:
    """A kernel that is wrong, everywhere and by a lot, in the rows of sequences whose context_len is chosen."""

    def kernel(**arguments: Any) -> Any:
        result = function(**arguments)
        out = arguments["out"] if result is None else result
        for row, context_len, length in rows(arguments):
            if length and chosen(context_len):
                if out.dtype.is_floating_point:
                    line = out[row, :length]
                    out[row, :length] = -2 * line.abs().max() - 1 - line
                else:
                    out[row, :1] = length
        return result

    return kernel
