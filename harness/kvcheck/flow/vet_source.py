"""What a reporter's script says of itself without being run: its top-k, its comparisons, its inputs, by line."""

from __future__ import annotations

import ast
from typing import Any


def examine(text: str) -> dict[str, list[int]]:
    """Lines by what is on them.

    Args:
        text: the script.

    Returns:
        lines: {topk_of_min, sorted_lists, random_bytes, float8_literal, finite_filler, overlap, chance, asserts, equal_nan: line
            numbers}; kinds that are not there are left out.

    Raises:
        SyntaxError, ValueError: not Python.
    """
    reader = _Reader()
    reader.visit(ast.parse(text))
    found = reader.found
    if not reader.topk:
        found.pop("topk_of_min", None)
    return {kind: sorted(set(lines)) for kind, lines in found.items()}


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: dict[str, list[int]] = {}
        self.lists: set[str] = set()
        self.sets: set[str] = set()
        self.topk = False

    def _note(self, kind: str, node: Any) -> None:
        self.found.setdefault(kind, []).append(node.lineno)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Names that hold sorted index lists, and k."""
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        calls = _calls(node.value)
        if "set" in calls:
            self.sets |= {name for target in node.targets for name in _names(target)}
        if "sort" in calls and ("topk" in calls or any(name in self.lists for name in _names(node.value))):
            self.lists |= set(names)
        if isinstance(node.value, ast.Call) and _name(node.value.func) == "min" and len(node.value.args) > 1:
            self._note("topk_of_min", node)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Two sorted lists, entry by entry."""
        sides = [node.left, *node.comparators]
        if isinstance(node.ops[0], (ast.Eq, ast.NotEq)) and len(sides) == 2 and all(_names(side) & self.lists for side in sides):
            self._note("sorted_lists", node)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Intersections of sets."""
        if isinstance(node.op, ast.BitAnd) and ("set" in _calls(node) or _names(node) & self.sets):
            self._note("overlap", node)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """That there is an assertion at all."""
        self._note("asserts", node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """FP8 dtypes by name."""
        if node.attr.startswith("float8_e4m3"):
            self._note("float8_literal", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Random bytes, fillers, tolerances that take NaN for equal."""
        name = _name(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name == "topk":
            self.topk = True
            for value in (*node.args, *keywords.values()):
                if isinstance(value, ast.Call) and _name(value.func) == "min":
                    self._note("topk_of_min", value)
        if name == "randint" and "dtype" in keywords and _name(keywords["dtype"]) in ("uint8", "int8"):
            self._note("random_bytes", node)
        if name in ("intersection", "isin", "intersect1d"):
            self._note("overlap", node)
        if name in ("full_like", "full", "masked_fill", "masked_fill_", "where", "nan_to_num") and any(map(_is_low, ast.walk(node))):
            self._note("finite_filler", node)
        if isinstance(keywords.get("equal_nan"), ast.Constant) and keywords["equal_nan"].value is True:
            self._note("equal_nan", node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """A chance level, by its name."""
        if "chance" in node.id.lower() or "baseline" in node.id.lower():
            self._note("chance", node)


def _name(node: Any) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _calls(node: ast.AST) -> set[str]:
    return {_name(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_low(node: ast.AST) -> bool:
    """A finite constant of -1e3 or less, as a filler is written: ast has the minus outside of the number."""
    if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)):
        return False
    value = node.operand.value
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 1e3 <= value < float("inf")
