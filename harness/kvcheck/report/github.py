"""A comment for a GitHub issue: what a maintainer reads first stands first, the rest is folded, and it always fits.

Text from kernels and machines stands in code spans and fences only, where mentions, references, links and HTML are inert.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.report.words import choose, cleared, diagnosis, known, rows, sections, threshold_sentence
from kvcheck.report.words.clean import clean, code, fence, line
from kvcheck.report.words.findings import headline, providers, remarks
from kvcheck.report.words.numbers import count, listed, some

LIMIT = 65_536
"""Characters that GitHub takes."""

BUDGET = 60_000
"""Characters used: room is left for a sentence above the report."""

FLIPS = 12
PROVIDERS = 8
SCRIPT = 24_000
"""Characters of a script that stands inline; a longer one is named and left out."""

Version = Callable[[], str]


class Section:
    """A part of the comment.

    Args:
        name: what is said to be cut.
        versions: from the whole to the least; made when wanted.
    """

    def __init__(self, name: str, *versions: Version) -> None:
        self.name, self._versions, self.level = name, versions, 0
        self._made: dict[int, str] = {}

    @property
    def text(self) -> str:
        """The part at its present size; empty where there is nothing to say."""
        if self.level not in self._made:
            self._made[self.level] = self._versions[self.level]()
        return self._made[self.level]

    def shrink(self) -> bool:
        """Goes to the next smaller version that is smaller; False where there is none."""
        before = _size(self.text)
        while self.level + 1 < len(self._versions):
            self.level += 1
            if _size(self.text) < before:
                return True
        return False


def render(run: dict[str, Any]) -> str:
    """The run as a comment of fewer than 65,536 characters.

    Returns:
        text: title, verdict, flip, diagnosis, the cases around the flip, the reproducer, the command, what failed, remarks,
            environment; what was cut is said at the end.
    """
    cases, thresholds = run["cases"], run.get("thresholds") or []
    worst = choose.first(run)
    title = Section("title", lambda: _title(run))
    verdict = Section("verdicts", *(lambda most=most: _verdict(run, worst, most) for most in (PROVIDERS, 2, 0)))
    flip = Section("flips", *(lambda most=most: _flips(thresholds, most) for most in (FLIPS, 2)))
    cause = Section("diagnosis", lambda: _cause(cases, worst))
    tables = Section("tables of cases", *(lambda most=most: "\n\n".join(sections.case_tables(cases, thresholds, most)) for most in (4, 1)))
    script = Section("the script", lambda: _script(worst, SCRIPT), lambda: _script(worst, 0))
    command = Section("command", lambda: "### The exact command\n\n" + fence(sections.command(run), 2000))
    failed = Section("what failed", *(lambda most=most: _failed(cases, most) for most in (sections.ERRORS, 1, 0)))
    caveats = Section("remarks", lambda: _folded("What the numbers do and do not show", "\n\n".join(remarks(run, code))), str)
    params = Section("the axes of the case", lambda: _axes(worst), str)
    everything = _environment(run, sections.facts(run))
    environment = Section("the environment", lambda: everything, lambda: _environment(run, sections.first_facts(run)))
    shown = [title, verdict, flip, cause, tables, script, command, failed, caveats, params, environment]
    _fit(shown, [params, caveats, environment, failed, tables, flip, script, verdict])
    cut = [section.name for section in shown if section.level]
    last = _marker(run) + (f"\n\nCut to fit GitHub's limit: {listed(cut, 12)}. run.json holds everything." if cut else "")
    return "\n\n".join(text for section in shown if (text := section.text)) + f"\n\n{last}\n"


def _fit(shown: list[Section], giving: list[Section]) -> None:
    """Shrinks sections, the least important first, each as far as it goes before the next."""
    for section in giving:
        while sum(_size(each.text) + 2 for each in shown) > BUDGET:
            if not section.shrink():
                break


def _size(text: str) -> int:
    """Length as GitHub may count it: characters outside the first plane twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def _title(run: dict[str, Any]) -> str:
    ops = dict.fromkeys(line(row.get("op"), 60) for row in run["cases"])
    names = dict.fromkeys(rows.provider(row) for row in run["cases"] if rows.is_failure(row)) or dict.fromkeys(
        rows.provider(row) for row in run["cases"]
    )
    about = ", ".join(part for part in (listed(list(map(code, ops)), 2), listed([code(name, 80) for name in names], 3)) if part)
    return f"## kvcheck: {headline(run)}" + (f" ({about})" if about else "")


def _verdict(run: dict[str, Any], worst: dict[str, Any] | None, most: int) -> str:
    paragraphs = []
    if worst:
        what = code(worst.get("output") or (worst.get("first_bad") or {}).get("output") or worst.get("op"), 60)
        place = f" at {code(rows.place(worst), 120)}" if rows.place(worst) else ""
        message = code(clean(worst.get("message") or "no message").strip().split("\n")[0], 300)
        paragraphs.append(f"**{code(rows.shown(worst), 80)}** of {what}{place}: {message}")
    paragraphs += [*known.sentences(run, code), *([text] if (text := cleared.sentence(run, code)) else [])]
    told = providers(run, code)
    paragraphs += told[:most]
    if len(told) > most > 0:
        paragraphs.append(f"{some(len(told) - most, 'more provider')} in report.md.")
    return "\n\n".join(paragraphs)


def _flips(thresholds: list[dict[str, Any]], most: int) -> str:
    if not thresholds:
        return ""
    found = sorted(thresholds, key=lambda threshold: not threshold.get("flips"))
    lines = [f"- {threshold_sentence(threshold, code)}" for threshold in found[:most]]
    if len(found) > most:
        lines.append(f"- {some(len(found) - most, 'more threshold')} in run.json.")
    return "### The flip\n\n" + "\n".join(lines)


def _cause(cases: list[dict[str, Any]], worst: dict[str, Any] | None) -> str:
    closing = diagnosis.closing([row for row in cases if rows.is_failure(row)], code)
    own = diagnosis.explained(worst) if worst else None
    if not closing and not own:
        return ""
    if own and sum(bool(row.get("diagnosis")) for row in cases) == 1:
        closing = None  # it would say the same of the one case
    return "### Diagnosis\n\n" + "\n\n".join(text for text in (closing, own and code(own, 1000)) if text)


def _script(worst: dict[str, Any] | None, most: int) -> str:
    """The reproducer of the worst case; where it cannot stand here, the command that shows the case again."""
    if not worst:
        return ""
    script = clean(worst.get("repro_script") or "").strip()
    again = f"### Again\n\n{fence(rows.again(worst), 3000)}"
    if not script:
        return again
    if len(script) > most:
        return f"{again}\n\nA script of {count(len(script.splitlines()))} lines that needs no kvcheck: `kvcheck repro RUN CASE_ID`."
    lead = "Needs torch and the kernel's own package; exits with 1 while the kernel is wrong."
    return f"### Reproducer\n\n{lead}\n\n{fence(script, most, 'python')}\n\nThe same with kvcheck:\n\n{fence(rows.again(worst), 3000)}"


def _failed(cases: list[dict[str, Any]], most: int) -> str:
    parts = sections.errors(cases, most) if most else []
    return _folded("What failed, one case of each kind", "\n\n".join(parts)) if parts else ""


def _axes(worst: dict[str, Any] | None) -> str:
    params = (worst or {}).get("params") or {}
    if not params:
        return ""
    text = "\n".join(f"{line(axis, 60)}: {'null' if value is None else line(value, 200)}" for axis, value in params.items())
    return _folded("All axes of the first failing case", fence(text, 4000, "yaml"))


def _environment(run: dict[str, Any], facts: list[tuple[str, str]]) -> str:
    left = len(facts) - sections.FACTS * 2
    table = sections.environment(run, facts, sections.FACTS * 2)
    return _folded("Environment", table + (f"\n\n{some(left, 'more fact')} in run.json." if left > 0 else ""))


def _folded(summary: str, text: str) -> str:
    """A folded part; its summary is kvcheck's own words. The empty lines make GitHub read Markdown inside."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>" if text else ""


def _marker(run: dict[str, Any]) -> str:
    """A comment that nobody sees: by it a later report of the same cases finds this one and takes its place."""
    names = dict.fromkeys(str(row.get("id", "")).partition("[")[0] for row in run["cases"])
    return f"<!-- kvcheck report {marker_names(list(names))} -->"


def marker_names(names: list[str]) -> str:
    """Names of case files as a marker has them: what could end an HTML comment is left out."""
    kept = ["".join(char for char in name if char.isascii() and (char.isalnum() or char in "_.")) for name in names[:20]]
    return ",".join(name[:80] for name in kept if name) or "of-nothing"
