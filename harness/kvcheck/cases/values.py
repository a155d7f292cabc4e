"""Values of axes: how a file or an option writes them, and how a case id does."""

from __future__ import annotations

import re
from typing import Any

from kvcheck.agent.specs import Axis

_SUFFIXED = re.compile(r"^([-+]?[0-9][0-9_]{0,20})(?:([kKmMgG])i?)?$")
_SHIFTED = re.compile(r"^([0-9]{1,18}) *<< *([0-9]{1,2})$")
_POWER = {"k": 10, "m": 20, "g": 30}
_DECIMAL = re.compile(r"^[-+]?[0-9]{0,20}\.?[0-9]{0,20}(?:[eE][-+]?[0-9]{1,3})?$")


def number(text: str) -> int | float | None:
    """The number that a text writes, or None: `2k` is 2048, `64Ki` is 65536, `1<<20` is 1048576."""
    text = text.strip()
    if match := _SUFFIXED.match(text):
        return int(match[1].replace("_", "")) << _POWER.get((match[2] or "").lower(), 0)
    if match := _SHIFTED.match(text):
        return int(match[1]) << int(match[2])
    if _DECIMAL.match(text):
        try:
            return float(text)
        except ValueError:
            return None
    return None


def coerce(axis: Axis, value: Any) -> Any:
    """A value of a file with its written numbers read; what cannot be read stays as it is, for the check to name."""
    if axis.type == "env" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if axis.type == "positions" and value is not None:
        items = value if isinstance(value, list) else [value]
        return [found if isinstance(item, str) and (found := number(item)) is not None else item for item in items]
    if axis.type not in ("int", "number", "lengths"):
        return value
    if isinstance(value, str):
        found = number(value)
        return value if found is None else found
    return [coerce(axis, item) for item in value] if isinstance(value, list) else value


def parse(axis: Axis, text: str) -> Any:
    """A value as an option or a case id writes it: `4096/0/1/33` a request each, `5+6` a query token each, `-` no position, `null`."""
    text = text.strip()
    if text.lower() in ("null", "none") or (axis.optional and text.lower() == "auto"):
        return None
    if axis.type == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if axis.type == "positions":
        return coerce(axis, [] if text == "-" else text.split("/"))
    if axis.type == "lengths" and ("/" in text or "+" in text[1:]):
        parts: list[Any] = [part.split("+") if "+" in part[1:] else part for part in text.split("/")]
        return coerce(axis, parts)
    return coerce(axis, text)


def spell(value: Any) -> str:
    """A value as a case id writes it; `parse` reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "-" if not value else "/".join("+".join(map(str, item)) if isinstance(item, (list, tuple)) else str(item) for item in value)
    return str(value)


def case_id(name: str, swept: dict[str, Any]) -> str:
    """`NAME[axis=value,...]`, in the order given."""
    return f"{name}[{','.join(f'{axis}={spell(value)}' for axis, value in swept.items())}]"
