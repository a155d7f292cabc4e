"""Puts a script together: header, sizes, helpers, inputs, what is right, the call, the comparison."""

from __future__ import annotations

import importlib
import pkgutil
import re
import textwrap
from typing import Any

from kvcheck.agent.protocol import parse_provider
from kvcheck.repro import calls, helpers, ops, relations
from kvcheck.repro.parts import WIDTH, NoScript, Parts
from kvcheck.repro.wanted import Called, Wanted

MOST_LINES = 80
SECONDS = 60
"""After which a script whose kernel did not come back gives up."""

TURNS = 20
"""Calls that a script makes of a kernel that does not repeat itself."""

REFUSALS = "(ValueError, AssertionError, NotImplementedError)"
NOT_REPRODUCED = frozenset({"unsupported", "invalid_case", "harness_error"})
MODULES = ("contextlib", "faulthandler", "hashlib", "importlib.util", "inspect", "math", "os", "runpy", "sys", "types")
TITLES = {"inputs": "Inputs", "expected": "What is right", "kernel": "The kernel", "check": "Comparison"}


def text(wanted: Wanted) -> str:
    """The script of a row.

    Raises:
        NoScript: why there is none.
    """
    if wanted.verdict in NOT_REPRODUCED:
        raise NoScript(f"the verdict is {wanted.verdict}, which says nothing of the kernel")
    if wanted.verdict == "metamorphic" and wanted.relation != "repeat" and not relations.moved(wanted):
        raise NoScript(f"one call is right: what fails is the relation {wanted.relation} between two, which `kvcheck run` shows")
    if wanted.params.get("launch") == "graph":
        raise NoScript("the kernel was captured in a graph, which a short script does not do")
    if wanted.op not in _names(ops):
        raise NoScript(f"there is no script for {wanted.op}")
    parts = importlib.import_module(f"{ops.__name__}.{wanted.op}").build(wanted.params, wanted.precision, wanted.seed)
    called = caller(wanted.provider).build(wanted, parts)
    if called.withheld:
        parts.expected = parts.facts.get("without", {}).get(min(called.withheld), parts.expected)
    body = _body(wanted, parts, called)
    for space in (2, 1, 0):
        lines = _assembled(wanted, parts, called, body, space)
        if len(lines) <= MOST_LINES:
            return "\n".join(lines) + "\n"
    raise NoScript(f"it would take {len(lines)} lines, more than {MOST_LINES}; shrink the case first: kvcheck shrink")


def caller(provider: str) -> Any:
    """The module that knows how a provider is called."""
    name = parse_provider(provider)[0]
    return importlib.import_module(f"{calls.__name__}.{name if name in _names(calls) else 'own'}")


def _names(package: Any) -> set[str]:
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


def _assembled(wanted: Wanted, parts: Parts, called: Called, body: dict[str, list[str]], space: int) -> list[str]:
    """The lines of a script: with empty lines and titles, without the first, without either."""
    whole = "\n".join(line for lines in body.values() for line in lines)
    names = helpers.used(whole)
    constants = [line for name in names for line in helpers.BEFORE.get(name, ())]
    constants += _first(wanted.seed, "bits" in names, "FRESH" in whole)
    least = "-6" if "float8_e4m3fnuz" in "".join(parts.constants) else "-5"  # exponent of the smallest normal number
    defined = [helpers.HELPERS[name].replace("LEAST", least) for name in names]
    everything = "\n".join([whole, *defined, *parts.constants])
    modules = {name for name in MODULES if re.search(rf"(?<![\w.]){re.escape(name)}\.", everything)}
    packages = "torch, triton" if "triton.runtime" in whole else "torch"
    before = []
    if wanted.device == "cpu":
        modules.add("os")
        before = ['os.environ.setdefault("TRITON_INTERPRET", "1")  # the run was on a CPU; before triton is imported']
    lines = [
        *_header(wanted, parts, called, 2 if space else 1),
        "import " + ", ".join(sorted(modules)),
        "",
        *before,
        f"import {packages}",
        "",
    ]
    if wanted.device == "cuda":
        lines += ['torch.set_default_device("cuda")']
    if wanted.verdict == "timeout":
        lines += [f"faulthandler.dump_traceback_later({SECONDS}, exit=True)  # the kernel of the run did not come back"]
    lines += [*constants, *parts.constants, ""]
    for function in defined:
        lines += [*function.splitlines(), ""]
    for name, title in TITLES.items():
        if body[name]:
            lines += [*([f"# {title}"] if space else []), *body[name], ""]
    return lines[:-1] if space > 1 else [line for line in lines if line]


def _first(seed: int, drawn: bool, fresh: bool) -> list[str]:
    if drawn and fresh:
        return [f"SEED, FRESH = {seed}, -12345  # of the inputs; what outputs hold before the call"]
    return [f"SEED = {seed}"] if drawn else ["FRESH = -12345  # what outputs hold before the call"] if fresh else []


def _body(wanted: Wanted, parts: Parts, called: Called) -> dict[str, list[str]]:
    sections = {"inputs": parts.inputs, "expected": parts.expected}
    if parts.facts.get("refused"):
        return {**sections, "kernel": [*called.load, ""], "check": _refusal(parts, called)}
    call, check = list(called.call), _checks(parts, called)
    if wanted.verdict == "metamorphic" and (moved := relations.moved(wanted)):
        return {**sections, "expected": [], "kernel": [*called.load, "", *call], "check": _twice(parts, called, moved)}
    if wanted.verdict == "input_mutated":
        kept = ", ".join(f"{name}={name}" for name in parts.arguments)
        call = [f"given = dict({kept})", "kept = {name: tensor.clone() for name, tensor in given.items()}", *call]
        check = [
            "for name, tensor in given.items():",
            "    now, then = (each.contiguous().view(torch.uint8) for each in (tensor, kept[name]))",
            '    show(f"input {name}, byte", now != then, then, now)',
            *check,
        ]
    if wanted.turns or wanted.verdict == "nondeterministic" or wanted.relation == "repeat":
        check += _turns(parts, called)
    if wanted.guards:
        beside = [
            "for number, memory in enumerate(memories):",
            "    edge = torch.cat((memory[:GUARD], memory[-GUARD:]))",
            '    note = lambda at: f" ({at - GUARD} bytes past its end)" if at >= GUARD else f" ({GUARD - at} before its start)"',
            '    show(f"memory beside tensor {number}", edge != 0x5A, torch.full_like(edge, 0x5A), edge, note)',
        ]
        check = beside + check if wanted.verdict == "out_of_bounds_write" else check + beside
    return {**sections, "kernel": [*called.load, "", *call], "check": [*check, 'print("RIGHT: every element is what it must be")']}


def _checks(parts: Parts, called: Called) -> list[str]:
    """The comparison, without the outputs that this kernel does not make."""
    compared = parts.facts.get("compared")
    if compared:
        kept = ", ".join(each for name, each in compared.items() if name not in called.withheld)
        return [line.replace("%s", kept if kept.count('"') > 2 else kept + ",") for line in parts.check]
    return [line for line in parts.check if not any(f'show("{name}"' in line for name in called.withheld)]


def _turns(parts: Parts, called: Called) -> list[str]:
    """Calls again and again, until one gives other bits."""
    names = [each.name for each in parts.outputs if each.name not in called.withheld]
    every = f"({', '.join(names)},)"
    return [
        f"first = [each.clone() for each in {every}]",
        f"for turn in range(2, {TURNS}):",
        *("    " + line for line in called.call),
        f"    for name, then, now in zip({names}, first, {every}):",
        '        show(f"{name} of call {turn}", ~((now == then) | (now.isnan() & then.isnan())), then, now)',
    ]


def _twice(parts: Parts, called: Called, moved: list[str]) -> list[str]:
    """The call once more, on the same data laid out otherwise: not a bit may change."""
    names = [each.name for each in parts.outputs if each.name not in called.withheld]
    every = f"({', '.join(names)},)"
    return [
        f"first = [each.clone() for each in {every}]",
        *moved,
        *called.call,
        f"for name, then, now in zip({names}, first, {every}):",
        f"    show(name, ~((now == then) | (now.isnan() & then.isnan())){' & keep' if moved[0].startswith('keep') else ''}, then, now)",
        'print("RIGHT: both calls give the same bits")',
    ]


def _refusal(parts: Parts, called: Called) -> list[str]:
    return [
        f"reason = {parts.facts['refused']!r}",
        "try:",
        *("    " + line for line in called.call),
        f"except {REFUSALS} as error:",
        '    print(f"RIGHT: refused, as it must be: {error}")',
        "    sys.exit(0)",
        'print(f"WRONG slots: answered what must be refused ({reason}): {slots[:5].tolist()}")',
        "sys.exit(1)",
    ]


def _header(wanted: Wanted, parts: Parts, called: Called, most: int) -> list[str]:
    where = f" (stage of {wanted.stage_of})" if wanted.stage_of else ""
    title = "passes" if wanted.verdict == "pass" else wanted.verdict.upper()
    data = parts.substituted or "those of the run, byte for byte"
    if wanted.stage_of:
        data = "a case of this op alone, with the sizes of the run"
    items = [
        _cut(f"{wanted.op} by {wanted.provider}{where}: {title}{f': {wanted.message}' if wanted.message else ''}", most),
        f"Needs torch and {called.needs}. Exits with 1 at the first wrong element, with 0 where the kernel is right.",
        _cut(f"Seen with {wanted.seen_with}.", 2),
        f"Inputs: {data}. Made by: {wanted.made_by}",
    ]
    lines = [line for item in items for line in textwrap.wrap(_quoted(item), WIDTH, break_on_hyphens=False)]
    lines[-1] += ' """' if lines[-1].endswith('"') else '"""'
    return ['"""' + lines[0], *lines[1:], ""]


def _cut(words: str, lines: int) -> str:
    most = lines * (WIDTH - 10)
    return words if len(words) <= most else words[: most - 3].rstrip() + "..."


def _quoted(words: str) -> str:
    """Words as they can stand in a docstring."""
    return words.replace("\\", "\\\\").replace('"""', "'''").rstrip('"')
