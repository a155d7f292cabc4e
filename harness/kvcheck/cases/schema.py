"""The keys of a case file and the shape of each: what pydantic can tell without knowing the op.

`shape` never stops at the first fault: it gives every fault back, and the keys that are sound.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kvcheck.agent.specs import nearest
from kvcheck.cases import values
from kvcheck.cases.errors import Fault, quote
from kvcheck.cases.text import Document, dotted

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
_SAMPLE = re.compile(r"^sample[ :=]+(\S+)$")
COVERAGE = "full, pairwise or sample: N"
MAX_REPEAT = 100_000
MAX_FRESH = 1000
MAX_SEED = 2**63 - 1


def _written(value: Any) -> Any:
    """A whole number that was written as text, such as `2k`."""
    found = values.number(value) if isinstance(value, str) else value
    return value if found is None else found


def _one(value: Any) -> Any:
    if isinstance(value, bool) or value != 1:
        raise ValueError("schema")
    return 1


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _groups(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


def read_coverage(value: Any) -> tuple[str, int | None]:
    """A coverage as the file or `--coverage` writes it: ("full", None), ("pairwise", None) or ("sample", N).

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2:
        value = {value[0]: value[1]} if value[0] == "sample" else value[0]
    if isinstance(value, str):
        match = _SAMPLE.match(value.strip())
        value = {"sample": match[1]} if match else value.strip()
    if value in ("full", "pairwise"):
        return str(value), None
    if isinstance(value, dict) and list(value) == ["sample"]:
        count = _written(value["sample"])
        if isinstance(count, int) and not isinstance(count, bool) and count > 0:
            return "sample", count
    raise ValueError(COVERAGE)


class ThresholdShape(BaseModel):
    """Where `kvcheck threshold` looks."""

    model_config = ConfigDict(extra="forbid", strict=True)

    axis: Annotated[str, Field(description="the name of an ordered axis")]
    range: Annotated[list[Any], Field(min_length=2, max_length=2, description="[lowest, highest] of the axis")]
    at: Annotated[dict[str, Any], Field(description="one value for each of the other axes")] = {}


class CaseFileShape(BaseModel):
    """The keys of a case file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: Annotated[int, BeforeValidator(_one), Field(alias="schema", description="1, the version of this format")]
    name: Annotated[str, Field(pattern=_NAME, max_length=80, description="a name of letters, digits, `_`, `-` and `.`")]
    op: Annotated[str, Field(description="the name of an op")]
    why: Annotated[str, Field(description="a sentence: what these cases are for")] = ""
    providers: Annotated[list[str], Field(min_length=1, description="a list of providers")] = ["triton"]
    fixed: Annotated[dict[str, Any], Field(description="one value for each axis named")] = {}
    axes: Annotated[dict[str, list[Any]], Field(description="a list of values for each axis named")] = {}
    zip: Annotated[
        list[dict[str, list[Any]]],
        BeforeValidator(_groups),
        Field(description="axes with lists of equal length (or a list of such groups)"),
    ] = []
    include: Annotated[list[dict[str, Any]], Field(description="a list of points, each axis: value")] = []
    exclude: Annotated[list[dict[str, Any]], Field(description="a list of rules, each axis: value or values")] = []
    coverage: Annotated[tuple[str, int | None], BeforeValidator(read_coverage), Field(description=COVERAGE)] = ("full", None)
    sample: Annotated[int, BeforeValidator(_written), Field(ge=1, description="how many points to draw")] = 0
    inputs: Annotated[dict[str, Any], Field(description="one value for each input axis named (values, scale, poison)")] = {}
    threshold: Annotated[ThresholdShape | None, Field(description="axis, range and at")] = None
    run_unsupported: Annotated[bool, Field(description="true or false")] = False
    precision: Annotated[str | None, Field(description="the name of a precision model")] = None
    seed: Annotated[int, BeforeValidator(_written), Field(ge=0, le=MAX_SEED, description=f"a whole number from 0 to {MAX_SEED}")] = 0
    repeat: Annotated[int, BeforeValidator(_written), Field(ge=1, le=MAX_REPEAT, description=f"a whole number from 1 to {MAX_REPEAT}")] = 1
    fresh: Annotated[int, BeforeValidator(_written), Field(ge=1, le=MAX_FRESH, description=f"a whole number from 1 to {MAX_FRESH}")] = 1
    relations: Annotated[list[str], BeforeValidator(_listed), Field(description="all, or a list of relations of the op")] = []
    env: Annotated[dict[str, Any], Field(description="a value or a list of values for each variable named")] = {}


KEYS = tuple(field.alias or name for name, field in CaseFileShape.model_fields.items())
_INSIDE = {
    "axes": "a list of values",
    "zip": "a list of values",
    "providers": "the name of a provider",
    "relations": "the name of a relation",
}
_EMPTY: dict[str, Any] = {"include": {}, "exclude": {}, "zip": {}, "providers": "", "relations": ""}
_POINTS = {"include": "a point: axis: value", "exclude": "a rule: axis: value or values", "zip": "a group: axis: list of values"}


def shape(document: Document) -> tuple[CaseFileShape, list[Fault]]:
    """The sound keys of a document (the others at their defaults), and a fault for each key that is not sound."""
    data = dict(document.data)
    try:
        return CaseFileShape.model_validate(data), []
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    faults: dict[tuple[Any, ...], Fault] = {}
    for item in found:
        location = tuple(item["loc"])
        faults.setdefault(location, _fault(document, location, item["type"]))
        _drop(data, location)
    data = {"schema": 1, "name": "unnamed", "op": "", **{key: value for key, value in data.items() if key in KEYS}}
    return CaseFileShape.model_validate(data), list(faults.values())


def _drop(data: dict[str, Any], location: tuple[Any, ...]) -> None:
    """Takes the unsound part out: one axis of a section, one entry of a list (its place stays), else the whole key."""
    key, section = location[0], data.get(location[0])
    inner = location[1] if len(location) > 1 else None
    if isinstance(section, dict) and (
        key in ("axes", "fixed", "inputs", "env") or (key == "threshold" and inner not in ThresholdShape.model_fields)
    ):
        data[key] = {axis: value for axis, value in section.items() if axis != inner}
    elif isinstance(section, list) and key in _EMPTY and isinstance(inner, int):
        data[key] = [_EMPTY[key] if i == inner else item for i, item in enumerate(section)]
    else:
        data.pop(key, None)


def _fault(document: Document, location: tuple[Any, ...], kind: str) -> Fault:
    value: Any = document.data
    for part in location:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            continue
    line, key = document.line_of(*location), dotted(location)
    fields = ThresholdShape.model_fields if location[0] == "threshold" and len(location) > 1 else CaseFileShape.model_fields
    name = str(location[1] if fields is ThresholdShape.model_fields else location[0])
    if kind == "extra_forbidden":
        known = KEYS if fields is CaseFileShape.model_fields else tuple(fields)
        return Fault(document.file, line, key, "one of " + ", ".join(known), name, nearest(name, known))
    described = next(field.description for key_, field in fields.items() if (field.alias or key_) == name)
    if kind == "missing":
        return Fault(document.file, line, key, str(described), "no such key")
    if len(location) > 1 and fields is CaseFileShape.model_fields:
        described = _POINTS[name] if name in _POINTS and isinstance(location[-1], int) else _INSIDE.get(name, described)
    near = nearest(value, ("full", "pairwise", "sample: N")) if name == "coverage" else None
    return Fault(document.file, line, key, str(described), quote(value), near)
