"""Text that comes from kernels cannot draw on the terminal, mark itself up, mention anybody or start a formula."""

from __future__ import annotations

import copy
import csv as csv_reader
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.flow.compare import compare
from kvcheck.report import compared, csv, github, junit, markdown, table
from kvcheck.report import json as json_format
from kvcheck.report.words import error_text
from kvcheck.report.words.clean import clean, code, fence, line

RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())

HOSTILE = [
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31mC1\x9d52;c;aGk=\x9c",
    "\x1bPdevice\x1b\\ \x1b(0 \x1bc",
    "[bold red]markup[/] [/nope] :smile:",
    "```\n# escaped\n```\n````\n@octocat #123 <img src=x onerror=alert(1)>",
    "`` ` ``` |cell| \\| [a](javascript:alert(1)) ~~~",
    "bell\x07 back\x08\x08\x08 null\x00 del\x7f tab\t return\roverwritten",
    "\u202egnp.exe\u2066 \u200bzero \ufeff \u2028line\u2029para \ud800lone",
    '=HYPERLINK("http://evil")',
    "MISMATCH\n  again: rm -rf /\nPASS",
]


def poisoned(text):
    """The sample run with the text in every place that a kernel, a path or a machine can reach."""
    run = copy.deepcopy(RUN)
    for row in run["cases"]:
        row.update(message=text, dispatch=text, provider_version=text, precision=text, repro=text)
        row.update(known={"state": "known", "verdict": text, "reason": text, "link": text}, repro_script=text)
        row.update(diagnosis=[{"fault": text, "explains": 1, "elements": 1, "sentence": text}])
        row["id"] = f"paged_mqa[context_len={text}]"
        if row["first_bad"]:
            row["first_bad"].update(output=text, expected=text, actual=text, row=text)
        if row.get("output"):
            row["output"] = text
        row["metrics"]["max_bound_ratio"] = text
        row["params"]["values"] = text
        row["also_failed"] = [text]
    for entry in (*run["cases"], *run["thresholds"]):
        entry["provider"] = text
    run["thresholds"][0]["incomplete"] = text
    run["environment"]["device"]["name"] = text
    run["environment"][text] = {text: text}
    run["run"]["command"] = text
    return run


def control_characters(text):
    return set(re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]", text))


def outside_code(text):
    """Markdown without its fences and code spans, the way CommonMark pairs backticks."""
    text = re.sub(r"^(`{3,})\w+\n.*?\n\1$", "", text, flags=re.M | re.S)
    return re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_terminal_gets_no_escape_and_no_markup(text):
    run = poisoned(text)
    for rendered in (table.render(run, terminal=False), table.render(run, terminal=True, width=120, colour=False)):
        assert not control_characters(rendered)
    coloured = table.render(run, terminal=True, width=120, colour=True)
    assert not control_characters(re.sub(r"\x1b\[[\d;]*m", "", coloured))
    assert "\x1b[2J" not in coloured
    if text.startswith("[bold"):
        assert "[/nope] :smile:" in table.render(run, terminal=True, width=160, colour=False)


def changed(text):
    """A comparison in which every entry that can hold foreign text does."""
    before, after = poisoned(text), poisoned(text)
    for run in (before, after):
        for number, row in enumerate(run["cases"]):
            row["id"] = f"{text}[{number}]"
    for row in after["cases"]:
        row.update(verdict="pass" if row["verdict"] != "pass" else "mismatch", input_fingerprint=text, known=None)
    return compare(before, after)


MARKDOWN = {
    "markdown": lambda text: markdown.render(poisoned(text)),
    "github": lambda text: github.render(poisoned(text)),
    "compare": lambda text: compared.render(changed(text), "markdown"),
    "compare for github": lambda text: compared.render(changed(text), "github"),
}
OWN = ("<details>", "</details>", "<summary>", "</summary>", "<!-- kvcheck report ", " -->")


@pytest.mark.parametrize("form", MARKDOWN)
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_keeps_foreign_text_in_code(text, form):
    rendered = MARKDOWN[form](text)
    assert not control_characters(rendered)
    rest = outside_code(rendered)
    for alive in ("@", "#123", "<img", "`", "](", "HYPERLINK", "[bold", "octocat", "evil", "rm -rf", "gnp"):
        assert alive not in rest, alive
    assert all(heading.startswith(("## kvcheck", "### ")) for heading in re.findall(r"^#.*", rest, re.M))
    for mine in OWN:
        rest = rest.replace(mine, "")
    assert "<" not in rest and "-->" not in rest


@pytest.mark.parametrize("form", MARKDOWN)
@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_tables_keep_their_columns(text, form):
    rendered = MARKDOWN[form](text)
    rendered = re.sub(r"^(`{3,})\w+\n.*?\n\1$", "", rendered, flags=re.M | re.S)
    width = None
    for row in rendered.split("\n"):
        if not row.startswith("|"):
            width = None
            continue
        bars = len(re.findall(r"(?<!\\)\|", row))
        width = width or bars
        assert bars == width


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comparison_on_a_terminal_has_no_escape(text):
    assert not control_characters(compared.render(changed(text), "table"))


@pytest.mark.parametrize("text", HOSTILE)
def test_xml_is_well_formed_and_holds_no_markup_of_others(text):
    for rendered in (junit.render(poisoned(text)), compared.render(changed(text), "junit")):
        assert not control_characters(rendered)
        root = ElementTree.fromstring(rendered)
        assert {element.tag for element in root.iter()} <= {
            "testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped",
        }  # fmt: skip
        assert len(list(root.iter("testcase"))) >= len(RUN["cases"])


CSV = {"csv": lambda text: csv.render(poisoned(text)), "compare": lambda text: compared.render(changed(text), "csv")}


@pytest.mark.parametrize("form", CSV)
@pytest.mark.parametrize("text", HOSTILE)
def test_csv_is_one_harmless_row_a_case(text, form):
    rendered = CSV[form](text)
    assert not control_characters(rendered)
    read = list(csv_reader.reader(io.StringIO(rendered)))
    if form == "csv":
        assert len(read) == len(RUN["cases"]) + 1
    assert {len(row) for row in read} == {len(read[0])}
    cells = {cell for row in read for cell in row}
    assert not [
        cell for cell in cells if cell.startswith(("=", "+", "@")) or (cell.startswith("-") and not re.match(r"-(inf|[\d.]|$)", cell))
    ]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1+2", "@sum(a1)", "\t=1", "\r=1", " =1", "＝1", "\x1b[0m=1"])
def test_csv_neutralises_formulas(formula):
    run = copy.deepcopy(RUN)
    run["cases"] = run["cases"][:1]
    run["cases"][0]["message"] = formula
    row = next(csv_reader.DictReader(io.StringIO(csv.render(run))))
    assert row["message"].startswith("'")


@pytest.mark.parametrize("text", HOSTILE)
def test_json_keeps_the_text_as_it_was_in_ascii(text):
    run = poisoned(text)
    rendered = json_format.render(run)
    assert rendered.isascii()
    assert not control_characters(rendered)
    assert json.loads(rendered)["cases"][0]["message"] == text


@pytest.mark.parametrize("text", HOSTILE)
def test_an_error_has_five_lines_whatever_it_says(text):
    for row in poisoned(text)["cases"]:
        lines = error_text(row).split("\n")
        assert len(lines) == 5
        assert lines[0].startswith(row["verdict"].upper() + " ")
        assert [rest[:2] for rest in lines[1:]] == ["  "] * 4
        assert lines[2].startswith("  explained by fault:")
        assert lines[3].startswith("  case ")
        assert lines[4].startswith("  again: ")


def test_escape_sequences_go_with_what_belongs_to_them():
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07text\x9b1m") == "red text"
    assert line("a\r\nb\tc\x00\u202e") == "a b c"
    assert clean("naïve 注意 λ") == "naïve 注意 λ"


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("`|\\ \n\x1b[]ab@#")))
def test_code_spans_and_fences_cannot_be_ended_from_inside(text):
    span = code(text)
    assert outside_code(span) == ""
    assert "\n" not in span
    assert not re.search(r"(?<!\\)\|", code(text, table=True))
    ticks, *body, last = fence(text).split("\n")
    assert ticks == last + "text"
    assert all(last not in each for each in body)


@settings(deadline=None)
@given(st.text())
def test_clean_leaves_nothing_that_moves_a_cursor(text):
    assert not control_characters(clean(text))
    assert clean(clean(text)) == clean(text)
