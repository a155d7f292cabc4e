"""JUnit XML as CI systems read it: suites, test cases, properties, and the elements that say how a case ended.

The form is that of Maven Surefire, which Jenkins, GitLab, GitHub actions and Azure read: `failure`, `error`, `skipped`, and for cases
that ran several times `rerunFailure`, `rerunError` (every run failed), `flakyFailure`, `flakyError` (some did).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvcheck.report.words.clean import clean, line

MESSAGE = 400
"""Characters of an attribute; CI pages show it in a table."""

BODY = 4000
HEADER = '<?xml version="1.0" encoding="utf-8"?>\n'


@dataclass(frozen=True)
class End:
    """How a case ended.

    Args:
        tag: failure, error, skipped, or one of the rerun elements.
        kind: the `type`.
        message: one line.
        body: the whole text.
    """

    tag: str
    kind: str
    message: str
    body: str = ""


@dataclass(frozen=True)
class Test:
    """A test case.

    Args:
        group, name: together they name it.
        seconds: how long it took.
        ends: empty for a pass.
        properties: name and value.
    """

    group: str
    name: str
    seconds: float = 0.0
    ends: tuple[End, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()

    def has(self, tag: str) -> bool:
        """Whether it ended so."""
        return any(end.tag == tag for end in self.ends)


@dataclass
class Suite:
    """Test cases of one provider.

    Args:
        name: of the suite.
        tests: in order.
        properties: name and value.
        started: ISO 8601, or empty.
    """

    name: str
    tests: list[Test] = field(default_factory=list)
    properties: tuple[tuple[str, str], ...] = ()
    started: str = ""


def document(name: str, suites: Iterable[Suite]) -> str:
    """The whole file.

    Args:
        name: of all suites together.
        suites: in order; text in them is taken as hostile: what XML 1.0 has no place for is left out.
    """
    suites = list(suites)
    root = ElementTree.Element("testsuites", {"name": line(name), **_counts([test for suite in suites for test in suite.tests])})
    for suite in suites:
        root.append(_suite(suite))
    ElementTree.indent(root, " ")
    return HEADER + ElementTree.tostring(root, encoding="unicode") + "\n"


def seconds(milliseconds: Any) -> float:
    """Milliseconds as seconds; 0 where there is no number."""
    return round(milliseconds / 1e3, 6) if isinstance(milliseconds, (int, float)) and milliseconds == milliseconds else 0.0


def _counts(tests: list[Test]) -> dict[str, str]:
    found = {tag + "s" if tag != "skipped" else tag: str(sum(test.has(tag) for test in tests)) for tag in ("failure", "error", "skipped")}
    return {"tests": str(len(tests)), **found, "time": f"{sum(test.seconds for test in tests):.6f}"}


def _suite(suite: Suite) -> ElementTree.Element:
    element = ElementTree.Element("testsuite", {"name": line(suite.name), **_counts(suite.tests)})
    if suite.started:
        element.set("timestamp", line(suite.started, 40))
    _properties(element, suite.properties)
    for test in suite.tests:
        attributes = {"classname": line(test.group), "name": line(test.name, 1000), "time": f"{test.seconds:.6f}"}
        case = ElementTree.SubElement(element, "testcase", attributes)
        _properties(case, test.properties)
        for end in test.ends:
            part = ElementTree.SubElement(case, end.tag, {"message": line(end.message, MESSAGE), "type": line(end.kind, 80)})
            part.text = _body(end.body) or None
    return element


def _properties(element: ElementTree.Element, properties: tuple[tuple[str, str], ...]) -> None:
    if properties:
        holder = ElementTree.SubElement(element, "properties")
        for name, value in properties:
            ElementTree.SubElement(holder, "property", {"name": line(name, 120), "value": line(value, 1000)})


def _body(text: str) -> str:
    text = clean(text)
    return text if len(text) <= BODY else text[:BODY] + "\n..."
