"""What a script is put together from: an op's sections, and the reasons for which none can be written."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WIDTH = 116
"""Columns that a line of a script may take, near enough: nothing that wraps here is wider."""


class NoScript(Exception):
    """No script can be written of a case; the text is the reason shown to the user."""


@dataclass(frozen=True)
class Output:
    """One output of an op, as the script makes room for it.

    Attributes:
        name: variable that holds it.
        shape: expression of its sizes.
        dtype: of torch, without "torch.".
        content: what it holds before the call, as an expression; None: a value that no kernel means.
        view: expression of what the kernel is given, of `whole`, which is looked at; None: the tensor itself.
    """

    name: str
    shape: str
    dtype: str
    content: str | None = None
    view: str | None = None


@dataclass
class Parts:
    """The sections of one op's script, each a list of lines.

    Attributes:
        constants: sizes of the case.
        inputs: lines that make the tensors, under the names that the op's function gives them.
        expected: lines that compute what is right, before the kernel is called.
        arguments: names of the tensors, in the op's order.
        keywords: the op's other arguments, as written in a call.
        outputs: what the kernel writes.
        check: lines that call `show` for what is wrong.
            substituted: what the inputs have in the place of the run's values, for the header.
        facts: what a call may have to know of the case beside its params.
    """

    constants: list[str]
    inputs: list[str]
    expected: list[str]
    arguments: tuple[str, ...]
    keywords: dict[str, str]
    outputs: tuple[Output, ...]
    check: list[str]
    substituted: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def literal(before: str, value: Any, after: str = "") -> list[str]:
    """A value written out between two texts, over as many lines as it takes."""
    text = f"{before}{value!r}{after}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def invoke(function: str, arguments: Iterable[str], keywords: dict[str, str] | None = None, before: str = "") -> list[str]:
    """A call, over as many lines as it takes."""
    text = ", ".join([*arguments, *(f"{name}={value}" for name, value in (keywords or {}).items())])
    if len(before + function + text) + 2 <= WIDTH:
        return [f"{before}{function}({text})"]
    wrapped = textwrap.wrap(text, WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [f"{before}{function}(", *("    " + line for line in wrapped), ")"]


def lengths(case: dict[str, Any]) -> list[Any]:
    """`context_len` of every request: a number, or a list where each row has its own."""
    value = case["context_len"]
    return [value] * case["batch"] if isinstance(value, int) else value


def longest(case: dict[str, Any]) -> list[int]:
    """Tokens of every request."""
    return [max(each) if isinstance(each, list) else each for each in lengths(case)]


def context(case: dict[str, Any], rows: bool = False) -> tuple[list[str], list[str]]:
    """Constants and inputs that say how long the requests are.

    Args:
        case: resolved params.
        rows: whether LENGTHS, the positions of each row, is wanted.

    Returns:
        constants: CONTEXT, tokens of each request, and LENGTHS.
        inputs: context_lens as the kernels take it.
    """
    every, tokens = lengths(case), longest(case)
    same = len(set(tokens)) == 1 and len(tokens) > 4
    constants = [f"CONTEXT = [{tokens[0]}] * BATCH"] if same else literal("CONTEXT = ", tokens)
    nested = any(isinstance(each, list) for each in every)
    if rows and nested:
        constants += literal("LENGTHS = ", [max(n, 0) for each in every for n in each])
    elif rows and case["next_n"] == 1:
        constants[0] = constants[0].replace("CONTEXT", "CONTEXT = LENGTHS", 1)
    elif rows:
        constants += ["LENGTHS = [max(n - NEXT_N + 1 + j, 0) for n in CONTEXT for j in range(NEXT_N)]  # of each row"]
    if nested:
        return constants, literal("context_lens = torch.tensor(", every, ", dtype=torch.int32)")
    return constants, ["context_lens = torch.tensor(CONTEXT, dtype=torch.int32)"]


def row_width(case: dict[str, Any]) -> int:
    """Columns of the logits of a paged op."""
    return case["max_model_len"] or max(-(-max(longest(case)) // 256), 1) * 256
