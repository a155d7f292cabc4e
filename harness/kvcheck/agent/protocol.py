"""What the front and the agent say to each other: verdicts, phases, JSON lines, and the one exception a provider may raise.

Standard library only: the front reads this file too, and the agent runs where nothing but torch is installed.
"""

from __future__ import annotations

import json
import math
from typing import Any

PROTOCOL = 1

VERDICTS = (
    "pass",
    "mismatch",
    "wrong_topk",
    "nonfinite",
    "unwritten",
    "out_of_bounds_write",
    "input_mutated",
    "wrong_shape",
    "nondeterministic",
    "metamorphic",
    "crash",
    "timeout",
    "unsupported",
    "invalid_case",
    "harness_error",
)

NOT_JUDGED = frozenset({"unsupported", "invalid_case", "harness_error"})
"""Verdicts that say nothing about the kernel: they neither pass nor fail."""

PHASES = ("load", "inputs", "kernel", "compile", "reference", "judge")

OFF_THE_CLOCK = frozenset({"load", "compile"})
"""Phases that the start-up limit covers instead of the case's timeout."""


SANITIZER = (
    "out_of_bounds_read",
    "out_of_bounds_write",
    "race",
    "uninitialised_read",
    "uninitialised_register",
    "missing_wait",
    "input_write",
    "clamped_access",
)
"""Kinds of findings of an emulated device; all but the last blame the kernel."""


def failed(verdict: str) -> bool:
    """Whether a verdict blames the kernel."""
    return verdict != "pass" and verdict not in NOT_JUDGED


class Unsupported(Exception):
    """Raised by a provider that cannot serve a case; the text is the reason shown to the user.

    A user's own FILE.py may raise any exception class of this name.
    """


def is_unsupported(error: BaseException) -> bool:
    """Whether an exception is a provider's refusal, whoever defined its class."""
    return any(cls.__name__ == "Unsupported" for cls in type(error).__mro__)


def plain(value: Any) -> Any:
    """A copy that strict JSON can hold: non-finite floats become "nan", "inf", "-inf"; tuples become lists.

    Raises:
        TypeError: a value JSON has no form for.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    raise TypeError(f"{type(value).__name__} has no place in a message")


def encode(message: dict[str, Any]) -> bytes:
    """One message as one line of strict JSON."""
    return json.dumps(plain(message), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The message in one line.

    Raises:
        ValueError: not a JSON object with a `type`.
    """
    message = json.loads(line)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ValueError("not a message")
    return message


def parse_provider(text: str) -> tuple[str, str | None, str | None]:
    """Splits NAME[:VARIANT][@DIR] into name, variant, directory; FILE.py and fault:... stay whole as the name."""
    if text.startswith("fault:") or text.endswith(".py"):
        return text, None, None
    head, at, directory = text.partition("@")
    name, colon, variant = head.partition(":")
    return name, (variant if colon else None), (directory if at else None)


def parse_fault(text: str) -> tuple[str, int | tuple[int, int] | None]:
    """Splits NAME, NAME=V or NAME=A-B into the name and its value.

    Raises:
        ValueError: the value is neither a number nor a range.
    """
    name, equals, value = text.partition("=")
    if not equals:
        return name, None
    low, dash, high = value.partition("-")
    if not low.isdigit() or (dash and not high.isdigit()):
        raise ValueError(f"fault {name}: expected {name}=V or {name}=A-B, got {text!r}")
    return name, (int(low), int(high)) if dash else int(low)
