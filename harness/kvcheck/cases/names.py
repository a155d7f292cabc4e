"""Checks names that SPECs do not hold in axes: precision models, and providers.

A provider is NAME, NAME:VARIANT, NAME@DIR, NAME:VARIANT@DIR, FILE.py or fault:NAME=VALUE+NAME2.
"""

from __future__ import annotations

import re

from kvcheck.agent import precision, specs
from kvcheck.agent.protocol import parse_provider
from kvcheck.cases.errors import Fault, quote

_WHOLE = re.compile(r"^[0-9]+$")
_FROM_TO = re.compile(r"^([0-9]+)-([0-9]+)$")
_FORM = {"int": "a whole number", "range": "A-B with A not above B"}


def check(provider: str, file: str, line: int | None, key: str) -> list[Fault]:
    """Everything that is wrong with one provider string. What a plug-in file or a folder holds is for the agent to find out."""

    def fault(expected: str, got: str, near: str | None = None) -> Fault:
        return Fault(file, line, key, expected, got, near)

    if not provider.strip() or provider != provider.strip() or not provider.isprintable():
        return [fault("the name of a provider", quote(provider), provider.strip() or None)]
    if provider.startswith("fault:"):
        return [fault(*wrong) for part in provider[len("fault:") :].split("+") if (wrong := _fault(part))]
    name, variant, directory = parse_provider(provider)
    if name.endswith(".py"):
        return []
    known = specs.names("providers")
    if name not in known:
        return [fault(f"one of {', '.join(known)}, FILE.py or fault:NAME", quote(name), specs.nearest(name, known))]
    faults = []
    variants = specs.load("providers", name).data.get("variants", {})
    if variant is not None and variant not in variants:
        expected = f"a variant of {name}: {', '.join(variants)}" if variants else f"{name} without a variant"
        near = specs.nearest(variant, variants)
        faults.append(fault(expected, quote(variant), f"{name}:{near}" if near else None))
    if directory == "":
        faults.append(fault("a folder after @", quote(provider), name))
    return faults


def _fault(part: str) -> tuple[str, str, str | None] | None:
    name, equals, value = part.partition("=")
    known = specs.names("faults")
    if name not in known:
        return f"one of the faults {', '.join(known)}", quote(name), specs.nearest(name, known)
    form = specs.load("faults", name).data.get("value")
    if form is None:
        return (f"{name} without a value", quote(part), name) if equals else None
    if form == "int" and _WHOLE.match(value):
        return None
    if form == "range" and (match := _FROM_TO.match(value)) and int(match[1][:18]) <= int(match[2][:18]):
        return None
    return f"{name}= and {_FORM.get(form, form)}", quote(part), None


def check_precision(text: str, file: str, line: int | None, key: str) -> list[Fault]:
    """What is wrong with the name of a precision model."""
    if text == precision.PROBE:
        return []
    try:
        precision.parse(text)
    except ValueError as error:
        head = text.partition("+")[0]
        near = head if head in precision.MODELS else specs.nearest(head, precision.MODELS)
        attention = ", ".join(f"+{modifier}=" for modifier in precision.MODIFIERS["attention"])
        models = ", ".join(precision.MODELS)
        expected = f"{precision.PROBE}, or one of {models}, with +u_k=, +u_s= or +u_out=; mla takes {attention}"
        return [Fault(file, line, key, expected, quote(text), near, str(error) if head in precision.MODELS else None)]
    return []
