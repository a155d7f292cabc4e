"""The terminal: a table through rich where somebody looks, plain lines where the output is piped."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import Counter
from typing import Any

from kvcheck.agent.protocol import failed
from kvcheck.report.words import choose, emulated, error_text, findings, images, known, rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, number, some

ALL_ROWS = 60
"""Up to so many cases are shown one by one."""

TELLING_ROWS = 20
ERRORS = 6
MATCH = "set match (chance)"
WIDE = 110
"""Columns from which a case's evidence stands in columns of its own."""


def render(run: dict[str, Any], *, terminal: bool | None = None, width: int | None = None, colour: bool | None = None) -> str:
    """The run for a terminal.

    Args:
        run: run.json.
        terminal: boxes and columns; None: when stdout is a terminal. Otherwise one line a case, never cut.
        width: columns of the terminal; None: what it says.
        colour: None: on a terminal, unless NO_COLOR is set or TERM is dumb.

    Returns:
        text: ends in a line break.
    """
    terminal = sys.stdout.isatty() if terminal is None else terminal
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = width or (shutil.get_terminal_size((120, 24)).columns if terminal else None)
    shown = run["cases"] if len(run["cases"]) <= ALL_ROWS else choose.most_telling(run["cases"], TELLING_ROWS)
    hidden = len(run["cases"]) - len(shown)
    note = f"{some(hidden, 'more case')} not shown here; run.json and results.csv hold every one." if hidden else None
    if not terminal:
        return _lines(run, shown, note)
    return _drawn(run, shown, note, max(width or 0, 20), colour)


def _lines(run: dict[str, Any], shown: list[dict[str, Any]], note: str | None) -> str:
    text = [_line(row) for row in shown] + ([note] if note else [])
    if note:
        text = [f"{name}: {_counts(counts)}" for name, counts in _by_provider(run["cases"]).items()] + ["", *text]
    text += _image_lines(run)
    errors, more = _errors(run["cases"])
    for error in [*errors, more] if more else errors:
        text += ["", error]
    return "\n".join([*text, "", *findings(run)]) + "\n"


def _image_lines(run: dict[str, Any]) -> list[str]:
    """Verdicts by image, in columns."""
    found = images.columns(run["cases"])
    if not found:
        return []
    heads, lines, note = found
    widths = [max(len(cells[at]) for cells in [heads, *lines]) for at in range(len(heads))]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in [heads, *lines]]
    return ["", *drawn, *([note] if note else [])]


def _line(row: dict[str, Any]) -> str:
    parts = [f"{rows.verdict(row).upper():<12}", line(row.get("provider")), line(row.get("id"), 400), *_evidence(row)]
    if known.tag(row):
        parts.append(known.tag(row))
    ending = f"first bad {rows.place(row)}" if rows.place(row) else _ending(row, 200)
    if ending:
        parts.append(ending)
    return "  ".join(parts)


def _drawn(run: dict[str, Any], shown: list[dict[str, Any]], note: str | None, width: int, colour: bool) -> str:
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, color_system="standard" if colour else None,
        legacy_windows=False, highlight=False, markup=False, emoji=False,
    )  # fmt: skip
    if note:
        console.print(_summary(run["cases"]))
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in shown:
        name, axes = rows.axes(row)
        groups.setdefault((name, *axes), []).append(row)
    for (name, *axes), members in groups.items():
        console.print(_cases(name, axes, members, width >= WIDE))
    if note:
        console.print(Text(note, style="yellow"))
    for drawn in _images(run):
        console.print(drawn)
    errors, more = _errors(run["cases"])
    for error in errors:
        head, *rest = error.split("\n")
        console.print()
        # Not wrapped: the last line is a command to copy.
        console.print(Text(head, style="bold red"), soft_wrap=True)
        console.print(Text("\n".join(rest)), soft_wrap=True)
    if more:
        console.print()
        console.print(Text(more))
    console.print()
    for index, paragraph in enumerate(findings(run)):
        console.print(Text(paragraph, style="bold" if index == 0 else ""))
    return "\n".join(text.rstrip() for text in out.getvalue().split("\n"))


def _table(title: str) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    style = box.SIMPLE_HEAD if encoding.startswith("utf") else box.ASCII2
    return Table(title=Text(title), title_justify="left", title_style="bold", box=style, pad_edge=False)


def _summary(cases: list[dict[str, Any]]) -> Any:
    from rich.text import Text

    table = _table(some(len(cases), "case"))
    for heading, style in (("provider", ""), ("pass", "green"), ("fail", "red"), ("not judged", "yellow"), ("what", "")):
        table.add_column(heading, justify="left" if not style else "right", style=style, overflow="fold")
    for name, counts in _by_provider(cases).items():
        passed, failing = counts["pass"], sum(n for verdict, n in counts.items() if failed(verdict))
        numbers = [count(n) if n else "-" for n in (passed, failing, counts.total() - passed - failing)]
        others = ", ".join(f"{count(n)} {verdict}" for verdict, n in counts.most_common() if verdict != "pass")
        table.add_row(Text(name), *numbers, Text(others))
    return table


def _images(run: dict[str, Any]) -> list[Any]:
    from rich.text import Text

    found = images.columns(run["cases"])
    if not found:
        return []
    heads, lines, note = found
    table = _table("verdicts by image")
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for name, *verdicts in lines:
        table.add_row(Text(name), *(Text(verdict, style=rows.COLOURS.get(verdict, "bold red")) for verdict in verdicts))
    return [table, *([Text(note)] if note else [])]


def _cases(name: str, axes: list[str], members: list[dict[str, Any]], wide: bool) -> Any:
    """Cases of one file; axes that are the same in all of them stand in the title."""
    from rich.text import Text

    values = [rows.axes(row)[1] for row in members]
    varied = [axis for axis in axes if len({each[axis] for each in values}) > 1]
    same = [f"{axis}={values[0][axis]}" for axis in axes if axis not in varied]
    table = _table(f"{name}: {', '.join(same)}" if same else name)
    heading = ", ".join(varied) or "case"
    models = {rows.precision(row) for row in members if rows.ratio(row) not in ("-", "trivial")}
    shared = len(models) == 1
    columns = ("verdict", "provider", heading, f"ratio to bound, {models.pop() if shared else 'model'}", MATCH, "first bad")
    for column in columns if wide else ("verdict", f"provider, {heading}", "evidence"):
        table.add_column(Text(column), overflow="fold", no_wrap=wide and column in ("verdict", MATCH))
    for row, own in zip(members, values, strict=True):
        colour = "yellow" if known.state(row) == "known" else "bold red" if known.state(row) else None
        verdict = Text(rows.shown(row), style=colour or rows.COLOURS.get(rows.verdict(row), "bold red"))
        case = ", ".join(own[axis] for axis in varied) or name
        provider, ending = line(row.get("provider"), 60), _ending(row, 100)
        if wide:
            cells = [provider, case, rows.ratio(row, model=not shared), rows.set_match(row), ending]
        else:
            evidence = _evidence(row)
            cells = [f"{provider}\n{case}", "\n".join([*evidence, ending] if ending else evidence)]
        table.add_row(verdict, *(Text(cell) for cell in cells))
    return table


def _evidence(row: dict[str, Any]) -> list[str]:
    """The numbers of a case that was measured; nothing where none were."""
    known = (("ratio", rows.ratio(row)), ("set match", rows.set_match(row)))
    return [f"{name} {value}" for name, value in known if value != "-"]


def _ending(row: dict[str, Any], limit: int) -> str:
    """Where the first bad element is; without one, why there is nothing to show."""
    where = row.get("first_bad")
    if emulated.is_sanitizer(where):
        return emulated.place(where)
    if where:
        return line(f"row {number(where.get('row'))}, position {number(where.get('position'))}", 60)
    return "" if rows.verdict(row) == "pass" else line(row.get("message"), limit)


def _errors(cases: list[dict[str, Any]]) -> tuple[list[str], str | None]:
    """Error texts, one of each kind of failure, and how many more fail."""
    chosen, more = choose.failures(cases, ERRORS)
    note = f"{some(more, 'more failing case')}; all failures by kind: {_kinds(cases)}" if more else None
    return [error_text(row) for row in chosen], note


def _kinds(cases: list[dict[str, Any]]) -> str:
    kinds = Counter((line(row.get("provider"), 60), rows.verdict(row)) for row in cases if rows.is_failure(row))
    return ", ".join(f"{provider} {verdict} {count(n)}" for (provider, verdict), n in kinds.most_common())


def _by_provider(cases: list[dict[str, Any]]) -> dict[str, Counter]:
    found: dict[str, Counter] = {}
    for row in cases:
        found.setdefault(line(row.get("provider"), 60), Counter())[rows.verdict(row)] += 1
    return found


def _counts(counts: Counter) -> str:
    return ", ".join(f"{number(n)} {verdict}" for verdict, n in counts.most_common())
