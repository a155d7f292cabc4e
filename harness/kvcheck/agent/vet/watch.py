"""A torch function mode that follows what a kernel answered through a script: what is selected from it, and how that is compared.

Tensors carry a mark: from which calls they come, and whether they are index lists of a top-k, sorted or not. Where there is no GPU,
`cuda` means the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from kvcheck.agent.vet import metrics

VIEWS = frozenset(
    ("getitem", "to", "int", "long", "cpu", "cuda", "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "clone")
    + ("detach", "get", "transpose", "expand")
)
"""Functions after which an index list is still one."""

DIFFERENCES = frozenset(("sub", "rsub", "subtract"))
COUNTING = frozenset(["float", "double", "to", "int", "long", "sum", "mean", "count_nonzero", "tolist", "numpy"])
"""What makes a share of equal entries out of a comparison."""

LEAVING = frozenset(("tolist", "numpy", "item"))


class Mark(NamedTuple):
    """What is known of a tensor.

    Attributes:
        calls: numbers of the calls that it comes from.
        selected: width of the rows that it indexes; None where it is no index list.
        ordered: whether the list was sorted by position.
    """

    calls: frozenset[int] = frozenset()
    selected: int | None = None
    ordered: bool = False


def mark_of(value: Any) -> Mark | None:
    """The mark of a tensor, None without one."""
    return getattr(value, "_kvcheck_mark", None)


def set_mark(value: Any, mark: Mark) -> None:
    """Marks a tensor."""
    value._kvcheck_mark = mark


class Watch(TorchFunctionMode):
    """Follows marks and tells of selections and comparisons.

    Args:
        tell: takes one event.
        redirect: whether `cuda` is the CPU.

    Attributes:
        call: number of the latest call; -1 before the first.
        longest: positions of the longest row of that call.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None], redirect: bool) -> None:
        super().__init__()
        self._tell, self._redirect = tell, redirect
        self.quiet = False
        self.call, self.longest = -1, 0
        self._names: dict[Any, str] = {}

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Calls the function, its device replaced; marks what comes out."""
        kwargs = kwargs or {}
        if self.quiet:
            return function(*args, **kwargs)
        name = self._names.get(function)
        if name is None:
            name = self._names[function] = getattr(function, "__name__", "").strip("_")
        if self._redirect:
            if name == "cuda":
                return args[0]
            if "device" in kwargs:
                kwargs = {**kwargs, "device": here(kwargs["device"])}
            if name == "to":
                args = (args[0], *(here(a) for a in args[1:]))
        result = function(*args, **kwargs)
        try:
            self._follow(name, args, kwargs, result)
        except Exception as error:  # what cannot be followed must not stop the script
            self.quiet = False
            self._event("unfollowed", frozenset(), function=name, why=f"{type(error).__name__}: {error}"[:300])
        return result

    def _follow(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        marks = _marks(args)
        if kwargs:
            marks += _marks(tuple(kwargs.values()))
        if name in ("topk", "sort", "argsort"):
            self._select(name, args, kwargs, result, marks)
            return
        if not marks:
            return
        calls = frozenset().union(*(mark.calls for mark in marks))
        selected = next((mark for mark in marks if mark.selected is not None), None)
        if len(args) > 1:
            self._compare(name, args, kwargs, calls, result)
        entries = getattr(args[0], "_kvcheck_entries", None) if args else None
        if entries and name in ("all", "any"):
            self._event("equal_lists", calls, k=entries["k"], longest=entries["longest"])
        elif entries and name in COUNTING:
            self._event("positional", calls, **entries)
        if name in LEAVING and calls:
            self._event("left", calls, how=name, list=selected is not None)
        if name == "setitem":
            set_mark(args[0], (mark_of(args[0]) or Mark())._replace(calls=calls))
        kept = selected if name in VIEWS and selected else Mark()
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor):
                set_mark(value, kept._replace(calls=calls))

    def _select(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, marks: list[Mark]) -> None:
        values = args[0] if args else kwargs["input"]
        known = mark_of(values) or Mark()
        calls = frozenset().union(*(mark.calls for mark in marks)) if marks else frozenset()
        indices = result if name == "argsort" else result[1]
        if known.selected is not None:  # sorting an index list
            if name == "sort":
                set_mark(result[0], known._replace(ordered=True))
            return
        set_mark(indices, Mark(calls, values.shape[-1] if values.dim() else 1))
        if name != "argsort":
            set_mark(result[0], Mark(calls))
        if self.call >= 0 and name == "topk" and values.is_floating_point():
            self.quiet = True
            facts = metrics.filler(values.detach())
            self.quiet = False
            self._event("topk", calls, k=indices.shape[-1], longest=self.longest, **facts)

    def _compare(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], calls: frozenset[int], result: Any) -> None:
        left, right = args[0], args[1]
        if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)):
            return
        first, second = mark_of(left) or Mark(), mark_of(right) or Mark()
        lists = first.selected is not None and second.selected is not None
        self.quiet = True
        try:
            if name in ("eq", "ne") and lists and left.shape == right.shape:
                ordered = first.ordered and second.ordered
                facts = {"sorted": ordered, "longest": self.longest, **metrics.lists(left, right, self.longest)}
                result._kvcheck_entries = facts  # what becomes of it tells a share of equal entries from a test for equal lists
            elif name in ("equal", "isin") and lists:
                self._event("equal_lists" if name == "equal" else "overlap", calls, k=left.shape[-1], longest=self.longest)
            elif name in DIFFERENCES and left.is_floating_point() and not lists:
                self._event("difference", calls, both=bool(first.calls and second.calls))
            elif name in ("allclose", "isclose", "equal") and left.is_floating_point():
                tolerances = dict(zip(("rtol", "atol", "equal_nan"), args[2:], strict=False)) | kwargs
                exact = name == "equal"
                rtol, atol = (0.0, 0.0) if exact else (tolerances.get("rtol", 1e-5), tolerances.get("atol", 1e-8))
                self.close(left, right, rtol, atol, bool(tolerances.get("equal_nan")), name)
        finally:
            self.quiet = False

    def close(self, actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool, how: str) -> None:
        """Tells what a tolerance lets through."""
        before, self.quiet = self.quiet, True
        marks = [mark_of(actual) or Mark(), mark_of(expected) or Mark()]
        calls = marks[0].calls | marks[1].calls
        sides = (expected, actual) if marks[1].calls and not marks[0].calls else (actual, expected)
        if calls:
            passes = metrics.lets_through(sides[1].detach(), rtol, atol, equal_nan)
            both = bool(marks[0].calls and marks[1].calls)
            self._event("close", calls, how=how, rtol=rtol, atol=atol, equal_nan=equal_nan, both=both, **passes)
        self.quiet = before

    def _event(self, kind: str, calls: frozenset[int], **facts: Any) -> None:
        self._tell({"type": kind, "call": max(calls, default=self.call), **facts})


def here(value: Any) -> Any:
    """A device that means the GPU, as the CPU; anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


def _marks(values: tuple[Any, ...] | list[Any]) -> list[Mark]:
    found = []
    for value in values:
        if isinstance(value, (tuple, list)):
            found += _marks(value)
        elif (mark := getattr(value, "_kvcheck_mark", None)) is not None:
            found.append(mark)
    return found
