"""Reads YAML into plain values and remembers the line of every one of them.

Nodes are walked here instead of constructed by PyYAML: positions survive, no tag can build an object, a duplicate key is a
fault that names both lines, and aliases are bounded. Scalars follow YAML 1.2's core schema: `on`, `no` and `1:30` are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from kvcheck.cases.errors import Fault, quote

MAX_BYTES = 1 << 20
MAX_VALUES = 100_000
MAX_DEPTH = 20
MAX_DIGITS = 40
"""Longer numbers stay text: none is meant, and Python itself refuses to print the longest."""

Path = tuple[Any, ...]
TAG = "tag:yaml.org,2002:"


@dataclass
class Document:
    """One YAML document: its plain values, and for every path the lines of its key and of its value."""

    file: str
    line: int
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, *path: Any) -> int:
        """The line of the deepest known part of a path."""
        known: Path = ()
        for part in path:
            if (*known, part) in self.lines:
                known = (*known, part)
        return self.lines.get(known, self.line)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}


for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F]+)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
):
    _Loader.add_implicit_resolver(TAG + _tag, re.compile(_pattern), list(_first))


def parse(raw: bytes, file: str, what: str = "a case file", listed: bool = False) -> tuple[list[Document], list[Fault]]:
    """The documents of a YAML file and everything that is wrong with them as YAML.

    Args:
        raw: content of the file.
        file: its name in messages.
        what: what it is, in messages.
        listed: whether a document is a list, which becomes `entries`, and not keys and values.
    """
    if len(raw) > MAX_BYTES:
        return [], [Fault(file, None, "", f"{what} of at most {MAX_BYTES} bytes", f"{len(raw)} bytes")]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        return [], [Fault(file, line, "", "UTF-8 text", f"byte 0x{raw[error.start]:02x}")]
    documents: list[Document] = []
    faults: list[Fault] = []
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            _read(node, file, documents, faults, what, listed)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        faults.append(Fault(file, mark.line + 1 if mark else None, "", "YAML", said))
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        faults.append(Fault(file, line, "", "printable text", quote(text[error.position : error.position + 1])))
    except RecursionError:
        faults.append(Fault(file, None, "", f"values nested at most {MAX_DEPTH} deep", "deeper nesting"))
    if not documents and not faults:
        faults.append(Fault(file, 1, "", what, "an empty file", None if listed else "_template.yaml explains every key"))
    return documents, faults


def _read(node: Any, file: str, documents: list[Document], faults: list[Fault], what: str, listed: bool) -> None:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.SequenceNode if listed else yaml.MappingNode):
        said = "an empty document" if node.tag == TAG + "null" else quote(getattr(node, "value", None) if node.id == "scalar" else node.id)
        faults.append(Fault(file, line, "", f"{what}: {'a list' if listed else 'keys and values'}", said))
        return
    document = Document(file, line)
    try:
        content = _Walk(document, faults).value(node, ("entries",) if listed else ())
        document.data = {"entries": content} if listed else content
    except _TooMuch as error:
        faults.append(Fault(file, error.line, "", error.expected, "more, aliases counted where they are used"))
        return
    documents.append(document)


class _TooMuch(Exception):
    def __init__(self, line: int, expected: str) -> None:
        super().__init__(expected)
        self.line, self.expected = line, expected


class _Walk:
    """Builds the values of one document."""

    def __init__(self, document: Document, faults: list[Fault]) -> None:
        self.document, self.faults, self.count = document, faults, 0

    def value(self, node: Any, path: Path) -> Any:
        self.count += 1
        line = node.start_mark.line + 1
        self.document.lines.setdefault(path, line)
        if self.count > MAX_VALUES:
            raise _TooMuch(line, f"at most {MAX_VALUES} values")
        if len(path) > MAX_DEPTH:
            raise _TooMuch(line, f"values nested at most {MAX_DEPTH} deep")
        kind = node.tag[len(TAG) :] if node.tag.startswith(TAG) else node.tag
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in ("str", "null", "bool", "int", "float"):
            return self._scalar(node, kind, path)
        self.fault(line, path, "plain text, numbers, lists and mappings", f"the tag {node.tag}")
        return None

    def fault(self, line: int, path: Path, expected: str, got: str) -> None:
        self.faults.append(Fault(self.document.file, line, dotted(path), expected, got))

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != TAG + "str":
                shown = quote(key_node.value) if isinstance(key_node, yaml.ScalarNode) else f"a {key_node.id}"
                self.fault(line, path, "a key that is text", shown)
                continue
            key = key_node.value
            if key in first:
                self.fault(line, (*path, key), f"each key once (first on line {first[key]})", f"{key} again on line {line}")
                continue
            first[key] = line
            self.document.lines[(*path, key)] = line
            found[key] = self.value(value_node, (*path, key))
        return found

    def _scalar(self, node: Any, kind: str, path: Path) -> Any:
        text = node.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            if len(text) <= MAX_DIGITS:
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan")) if kind == "float" else _integer(text)
        except ValueError:
            pass  # an explicit tag on other text
        return text  # no number that a case file means: the key's own check says what it expects


def _integer(text: str) -> int:
    plain = text.replace("_", "")
    return int(plain, 16) if "x" in plain else int(plain, 10)


def dotted(path: Path) -> str:
    """A path as a message names it: `axes.context_len[2]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
