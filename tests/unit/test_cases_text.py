"""YAML to plain values: positions, duplicate keys, bounds, and the parser's own errors in one form."""

from __future__ import annotations

import math

import pytest

from kvcheck.cases import values
from kvcheck.cases.errors import Fault, clean
from kvcheck.cases.text import MAX_BYTES, MAX_VALUES, parse


def read(text: str | bytes):
    raw = text if isinstance(text, bytes) else text.encode()
    documents, faults = parse(raw, "f.yaml")
    return [document.data for document in documents], [str(fault) for fault in faults]


def test_every_value_knows_its_line():
    documents, faults = parse(b"a: 1\nb:\n  - x\n  -\n    c: 2\n", "f.yaml")
    assert faults == []
    document = documents[0]
    assert document.line_of("a") == 1
    assert document.line_of("b") == 2
    assert document.line_of("b", 0) == 3
    assert document.line_of("b", 1, "c") == 5
    assert document.line_of("b", 1, "unknown") == 5, "the deepest known part"


def test_scalars_follow_the_core_schema():
    data, faults = read("a: [on, no, 1:30, 2024-01-02, 010, 0x10, 1_000, 1e3, .5, true, ~, '2', 1.5]")
    assert faults == []
    assert data[0]["a"] == ["on", "no", "1:30", "2024-01-02", 10, 16, 1000, 1000.0, 0.5, True, None, "2", 1.5]


def test_infinities_and_nan_are_floats():
    data, _ = read("a: [.inf, -.INF, .NaN]")
    assert data[0]["a"][:2] == [math.inf, -math.inf]
    assert math.isnan(data[0]["a"][2])


def test_a_number_too_long_to_mean_anything_stays_text():
    digits = "9" * 5000
    data, faults = read(f"a: {digits}\nb: 0x{'f' * 5000}")
    assert faults == []
    assert data[0]["a"] == digits
    assert isinstance(data[0]["b"], str)


def test_a_duplicate_key_names_both_lines():
    _, faults = read("a: 1\nb: 2\na: 3\n")
    assert faults == ["f.yaml:3: a: expected each key once (first on line 1), got a again on line 3"]


def test_all_duplicates_are_found_at_once():
    _, faults = read("a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert len(faults) == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 'x\n", 2),
        ("a: b: c\n", 1),
        ("\tx: 1\n", 1),
        ("a: *nowhere\n", 1),
        ("a: %\n", 1),
        ("- x\ny: 1\n", 2),
        ("{a: 1}}\n", 1),
    ],
)
def test_the_parsers_own_errors_are_one_line_with_a_position(text, line):
    _, faults = read(text)
    assert len(faults) == 1
    assert faults[0].startswith(f"f.yaml:{line}: expected YAML, got ")
    assert "\n" not in faults[0]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"a: \xff\n", "UTF-8 text, got byte 0xff"),
        (b"a: 1\nb: \x00\n", "f.yaml:2: expected printable text"),
        (b"", "an empty file"),
        (b"# only a comment\n", "an empty file"),
        (b"- 1\n- 2\n", "keys and values, got 'sequence'"),
        (b"just text\n", "keys and values, got 'just text'"),
        (b"a: 1\n---\n", "an empty document"),
        (b"1: 2\n", "a key that is text, got '1'"),
        (b"? [a]\n: 2\n", "a key that is text, got a sequence"),
        (b"a: !!python/object/apply:os.system [ls]\n", "the tag tag:yaml.org,2002:python/object/apply:os.system"),
        (b"a: !!set {x}\n", "the tag tag:yaml.org,2002:set"),
        (b"a: !mine 3\n", "the tag !mine"),
    ],
)
def test_what_is_not_a_case_file_says_so(raw, words):
    _, faults = read(raw)
    assert any(words in fault for fault in faults), faults


def test_aliases_are_bounded_where_they_are_used():
    bomb = "a: &a [" + ", ".join("x" * 10) + "]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=False):
        bomb += f"{after}: &{after} [" + ", ".join([f"*{before}"] * 10) + "]\n"
    _, faults = read(bomb)
    assert len(faults) == 1
    assert f"at most {MAX_VALUES} values" in faults[0]


def test_an_alias_that_holds_itself_ends():
    _, faults = read("a: &a [*a]\n")
    assert "nested at most" in faults[0]


def test_deep_nesting_ends():
    _, faults = read("a: " + "[" * 600 + "]" * 600)
    assert "nested at most" in faults[0]


def test_a_large_file_is_not_parsed():
    _, faults = read(b"a: 1\n" * (MAX_BYTES // 5 + 1))
    assert f"at most {MAX_BYTES} bytes" in faults[0]


def test_honest_aliases_work():
    data, faults = read("a: &sizes [1, 16]\nb: *sizes\n")
    assert faults == []
    assert data[0]["b"] == [1, 16]


def test_several_documents_keep_their_lines():
    documents, faults = parse(b"a: 1\n---\nb: 2\n", "f.yaml")
    assert faults == []
    assert [document.line for document in documents] == [1, 3]
    assert documents[1].line_of("b") == 3


def test_messages_carry_no_control_characters():
    fault = str(Fault("f\x1b[2J.yaml", 1, "a\nb", "x", "\x1b]0;title\x07", "\u202egnp"))
    assert fault.isprintable()
    assert clean("a\tb") == "a\\tb"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2k", 2048),
        ("2K", 2048),
        ("64Ki", 65536),
        ("1M", 1 << 20),
        ("1g", 1 << 30),
        ("1<<20", 1 << 20),
        ("3 << 4", 48),
        ("1_000", 1000),
        ("-5", -5),
        ("0.5", 0.5),
        ("1e3", 1000.0),
    ],
)
def test_written_numbers(text, number):
    assert values.number(text) == number


@pytest.mark.parametrize(
    "text", ["", "k", "2kk", "1<<", "1<<200", "1<<-1", "nan", "inf", "2k+1", "9" * 50, "0x", "--1", ".", "e5", "1e9999"]
)
def test_what_is_no_number(text):
    found = values.number(text)
    assert found is None or found == math.inf
