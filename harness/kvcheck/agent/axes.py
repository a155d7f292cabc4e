"""What an axis of an op is, and the axes of an op by name: those its SPEC lists, and those that a case has only when it names them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Axis:
    """One axis of an op: what a case may put there."""

    name: str
    type: str
    default: Any = None
    min: float | None = None
    max: float | None = None
    multiple_of: int | None = None
    optional: bool = False
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    doc: str = ""
    unit: str = ""

    def expected(self) -> str:
        """What the axis takes, in words for an error message."""
        if self.type == "choice":
            return "one of " + ", ".join(self.choices)
        text = {"int": "an integer", "number": "a number", "bool": "true or false", "env": "a text"}.get(self.type)
        if self.type == "lengths":
            text = "an integer, or a list of one entry a request (an integer, or next_n integers)"
        if self.type == "positions":
            text = "whole numbers, each once, ascending"
        if self.min is not None and self.max is not None:
            text += f" from {self.min} to {self.max}"
        elif self.min is not None:
            text += f" of at least {self.min}"
        if self.multiple_of:
            text += f", a multiple of {self.multiple_of}"
        return text + (", or null" if self.optional else "")


ENV = re.compile(r"env\.[A-Za-z_][A-Za-z0-9_]*")
"""Names of axes that are variables of the environment an agent is started in; every op has them."""

COMMON = {
    "launch": {
        "type": "choice",
        "choices": {
            "eager": {"doc": "the kernel is called"},
            "graph": {"doc": "the call is captured with other lengths and another table, these are changed in place, and it is replayed"},
        },
        "default": "eager",
        "doc": "how the kernel is launched",
    }
}
"""Axes that every op has."""


class Axes(dict[str, Axis]):
    """The axes of an op by name; `env.NAME` is one too, without being listed.

    Attributes:
        unlisted: axes that a case has only where it names them: they take something away from its data.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unlisted: dict[str, Axis] = {}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.unlisted or (isinstance(name, str) and bool(ENV.fullmatch(name)))

    def __missing__(self, name: str) -> Axis:
        if name in self.unlisted:
            return self.unlisted[name]
        if ENV.fullmatch(name):
            return Axis(name, "env", None, optional=True, doc="a variable of the agent's environment; null leaves it unset")
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The axis, or a default."""
        try:
            return self[name]
        except KeyError:
            return default
