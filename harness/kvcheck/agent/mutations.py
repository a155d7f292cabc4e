"""Every small change of a Triton kernel's source, by `ast` alone: what `selftest` runs to learn whether the checks would notice.

Constants one up and one down, comparisons turned, sums and quotients exchanged, masks dropped, strides one wider: in the bodies of
functions under `triton.jit`, where the interpreter comes. The list is the same for everybody who has the same source.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

PACKAGE = "kvcheck.agent.kernels"

OPS_OF = {"latents": "mla_decode"}
"""Ops whose cases a file is held to, where it is not called after its op."""

COMPARISONS = {ast.Lt: ("<=", ">"), ast.LtE: ("<",), ast.Gt: (">=", "<"), ast.GtE: (">",), ast.Eq: ("!=",), ast.NotEq: ("==",)}
SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
OPERATORS = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.FloorDiv: ("//", "%"), ast.Mod: ("%", "//")}
CALLS = {"maximum": "minimum", "minimum": "maximum"}


@dataclass(frozen=True)
class Mutation:
    """One change.

    Attributes:
        file: module of `agent/kernels`.
        line: of the change, 1-based.
        column: in the line without its indentation, 0-based.
        text: that line, without its indentation.
        change: what is replaced by what.
        start: first character that is replaced.
        end: one past the last.
        new: what stands there instead.
    """

    file: str
    line: int
    column: int
    text: str
    change: str
    start: int
    end: int
    new: str

    @property
    def name(self) -> str:
        """`file.py:line:column change`."""
        return f"{self.file}.py:{self.line}:{self.column} {self.change}"

    @property
    def op(self) -> str:
        """The op whose cases it must fail."""
        return OPS_OF.get(self.file, self.file)

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What names it when lines above it come and go."""
        return (self.file, self.text, self.column, self.change)


def files() -> tuple[str, ...]:
    """The files that hold kernels."""
    package = __import__(PACKAGE, fromlist=["__path__"])
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if "@triton.jit" in source(m.name) and m.name != "nothing"))


@lru_cache(maxsize=None)
def source(file: str) -> str:
    """A kernel file's text."""
    return (pkgutil.get_data(PACKAGE, f"{file}.py") or b"").decode()


@lru_cache(maxsize=None)
def of(file: str) -> tuple[Mutation, ...]:
    """Every change of a file, by place."""
    text = source(file)
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutation] = {}
    for function in ast.parse(text).body:
        if not isinstance(function, ast.FunctionDef) or not any(ast.unparse(d) == "triton.jit" for d in function.decorator_list):
            continue
        axes = {id(k.value) for node in ast.walk(function) if isinstance(node, ast.Call) for k in node.keywords if k.arg == "axis"}
        for node in _reached(function.body):
            if id(node) in axes:  # which axis, not how much: -1 is the same one
                continue
            for begin, end, old, new in _changes(node, text, starts):
                line = next(number for number in range(len(lines)) if starts[number] <= begin < starts[number + 1])
                stripped = lines[line].strip()
                column = begin - starts[line] - (len(lines[line]) - len(lines[line].lstrip()))
                change = f"{old} -> {new}" if new else f"{old} dropped"
                found.setdefault((begin, end, new), Mutation(file, line + 1, column, stripped, change, begin, end, new))
    return tuple(found[key] for key in sorted(found))


def mutated(mutation: Mutation) -> str:
    """The source with the change in it."""
    text = source(mutation.file)
    return text[: mutation.start] + mutation.new + text[mutation.end :]


def _reached(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Nodes that run under the interpreter: docstrings, annotations and what is compiled only are left out."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        test = ast.unparse(statement.test) if isinstance(statement, ast.If) else ""
        if test == "INTERPRETED":
            yield from _reached(statement.body)
        elif test != "not INTERPRETED":
            if isinstance(statement, (ast.If, ast.For)):
                yield from ast.walk(statement.test if isinstance(statement, ast.If) else statement.iter)
                yield from _reached([*statement.body, *statement.orelse])
            else:
                yield from ast.walk(statement.value if isinstance(statement, ast.AnnAssign) else statement)


def _changes(node: ast.AST, text: str, starts: list[int]) -> Iterator[tuple[int, int, str, str]]:
    """First, end, old and new text of each change of one node."""

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    def span(part: ast.AST) -> tuple[int, int]:
        return at(part.lineno, part.col_offset), at(part.end_lineno, part.end_col_offset)

    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        begin, end = span(node)
        for step in (1, -1):
            yield begin, end, text[begin:end], f"({node.value + step!r})" if node.value + step < 0 else repr(node.value + step)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        symbol = SYMBOLS[type(node.ops[0])]
        begin = text.index(symbol, span(node.left)[1])
        for new in COMPARISONS[type(node.ops[0])]:
            yield begin, begin + len(symbol), symbol, new
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        symbol, new = OPERATORS[type(node.op)]
        begin = text.index(symbol, span(node.left)[1])
        yield begin, begin + len(symbol), symbol, new
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        begin = text.index("=", span(node.target)[1]) - 1
        yield begin, begin + 1, text[begin], OPERATORS[type(node.op)][1]
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and (node.id.endswith("_stride") or node.id == "page_words"):
        begin, end = span(node)
        yield begin, end, node.id, f"({node.id} + 1)"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in CALLS:
            end = span(node.func)[1]
            yield end - len(node.func.attr), end, node.func.attr, CALLS[node.func.attr]
        masks = [keyword for keyword in node.keywords if keyword.arg == "mask"]
        if masks:
            end = span(node)[1] - 1
            begin = text.rindex(",", 0, masks[0].value.lineno and at(masks[0].lineno, masks[0].col_offset))
            yield begin, end, text[begin + 1 : end].strip(), ""
