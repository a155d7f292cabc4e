"""report.html: sound HTML, the same bytes for the same run, nothing of a kernel's text alive, readable colours, small at 20,000 cases."""

from __future__ import annotations

import base64
import copy
import hashlib
import html as escaping
import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kvcheck.report import html
from kvcheck.report._html import palette, spread
from kvcheck.report._html.markup import quote
from kvcheck.report._html.pairs import pairs

GOLDEN = Path(__file__).parent / "golden"
VOID = {"meta", "link", "input", "br", "hr", "img"}
EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\x02</q>&lt;\u202e @someone"


def sample():
    """The golden run, its failing cases with the places that are wrong."""
    run = json.loads((GOLDEN / "run.json").read_text())
    place = {
        "output": "logits", "axes": ["row", "position"], "shape": [8, 4096],
        "rows": [{"rows": "0-2", "wrong": "64-127", "inside": "0-2047"}, {"rows": "5", "wrong": "3 70-90/5", "inside": "0-99"}],
        "more_rows": 2, "block_size": 64, "pool": 70, "blocks": "3 9-11", "used": "0-40/20 50",
    }  # fmt: skip
    for row in run["cases"]:
        if row["verdict"] in ("mismatch", "nonfinite"):
            row["wrong"] = copy.deepcopy(place)
    return run


RUN = sample()


class Tree(HTMLParser):
    """Elements as they open, and whether they close in order."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), (tag, attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> while {self.open[-3:]} are open, line {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def all(self, tag):
        """Attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


PAGE = html.render(RUN)
TREE = Tree(PAGE)


def test_every_element_is_closed_and_every_id_is_its_own():
    assert not TREE.open
    ids = [attributes["id"] for _, attributes in TREE.elements if attributes.get("id")]
    assert len(ids) == len(set(ids)) > 20
    named = set(ids)
    for tag, attributes in TREE.elements:
        for key in ("aria-labelledby", "aria-describedby", "for", "data-copy"):
            assert set((attributes.get(key) or "").split()) <= named, (tag, key, attributes)
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in named, attributes
    assert {option["value"] for option in TREE.all("option") if re.fullmatch(r"\w+-\d+", option["value"])} <= named


def test_pictures_are_sound_xml_with_a_title_and_a_description():
    pictures = re.findall(r"<svg.*?</svg>", PAGE, re.S)
    assert len(pictures) > 6
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("role") == "img" and root[0].tag == "title" and root[1].tag == "desc" and len(root[1].text) > 10
        assert [element.text for element in root.iter("text") if element.text], "text is text, not outlines"
        assert not re.search(r"#0f\w\wf0|#000000|#ffffff|DejaVu", picture), "every colour is one of the page's"
        known = {element.get("id") for element in root.iter()}
        assert set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", picture)) <= known


def test_headings_landmarks_and_labels():
    levels = [int(tag[1]) for tag, _ in TREE.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    tags = [tag for tag, _ in TREE.elements]
    for landmark in ("header", "nav", "main", "footer"):
        assert tags.count(landmark) == 1
    assert TREE.all("html") == [{"lang": "en"}] and len(TREE.all("title")) > 1
    labelled = {attributes["for"] for attributes in TREE.all("label")}
    for tag in ("input", "select"):
        assert {attributes["id"] for attributes in TREE.all(tag)} <= labelled
    assert all(attributes.get("aria-label") for attributes in TREE.all("div") if attributes.get("role") == "region")
    assert all(attributes.get("scope") in ("col", "row") for attributes in TREE.all("th"))
    assert len(TREE.all("caption")) == len(TREE.all("table"))


def test_nothing_is_fetched_and_one_script_may_run():
    policy = next(attributes["content"] for attributes in TREE.all("meta") if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none';") and "unsafe-inline" not in policy.partition("script-src")[2]
    (script,) = re.findall(r"<script>(.*?)</script>", PAGE, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    for tag, attributes in TREE.elements:
        assert not attributes.get("src") and tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert not re.search(r"https?://|@import|url\((?!#)", PAGE)


def test_the_same_run_is_the_same_bytes_in_another_process():
    program = "import json, sys; from kvcheck.report import html; sys.stdout.write(html.render(json.load(sys.stdin)))"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(RUN).encode(), capture_output=True, env=environment, check=False
    )
    assert made.returncode == 0, made.stderr.decode()
    assert made.stdout.decode() == html.render(copy.deepcopy(RUN)) == PAGE


def test_golden():
    """The page without the pictures, which follow the version of matplotlib, and without style and script."""
    page = re.sub(r"<(svg|style|script)\b.*?</\1>", r"<\1></\1>", PAGE, flags=re.S)
    page = re.sub(r"script-src '[^']*'", "script-src", page).replace("<tr", "\n<tr").replace("<p", "\n<p")
    if os.environ.get("KVCHECK_WRITE_GOLDEN"):
        (GOLDEN / "report.html").write_text(page)
    assert page == (GOLDEN / "report.html").read_text()


def evil(value):
    """A value with hostile text for every text in it, and hostile keys beside the known ones."""
    if isinstance(value, dict):
        return {**{key: evil(item) for key, item in value.items()}, EVIL: EVIL}
    if isinstance(value, list):
        return [evil(item) for item in value] + ([EVIL] if value and isinstance(value[0], str) else [])
    return value + EVIL if isinstance(value, str) else value


def test_text_of_kernels_stays_text():
    run = copy.deepcopy(RUN)
    for row in run["cases"]:
        verdict = row["verdict"]
        for key in (
            "id",
            "message",
            "dispatch",
            "provider",
            "provider_version",
            "precision",
            "first_bad",
            "diagnosis",
            "repro",
            "wrong",
            "op",
        ):
            if row.get(key) is not None:
                row[key] = evil(row[key])
        row["params"] = {**row["params"], EVIL: EVIL + verdict, "kv_dtype": EVIL + verdict}
    run["environment"], run["run"]["command"], run["run"]["id"] = evil(run["environment"]), EVIL, EVIL
    page = html.render(run)
    tree = Tree(page)
    assert not tree.open
    assert len(tree.all("script")) == 1 and not tree.all("img")
    assert {tag for tag, _ in tree.elements} <= {tag for tag, _ in TREE.elements} | {"q"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    assert "alert(1)" in "".join(tree.text)
    assert not [name for _, attributes in tree.elements for name in attributes if name.startswith("on")]


def test_quoted_text_cannot_leave_its_quotes():
    from kvcheck.report._html.markup import prose

    assert prose(f"a {quote('b<c>')} & d") == "a <code>b&lt;c&gt;</code> &amp; d"
    assert prose("\x02<i>\x03 x \x03") == "<code>&lt;i&gt;</code> x "
    long = "a sentence that a kernel says, which is rather too long for code"
    assert prose(quote(long)) == f"<q>{long}</q>"


@pytest.mark.parametrize(
    "broken",
    [None, 7, "x", [], {}, {"axes": ["row"]}, {"axes": ["a", "b"], "shape": [1, 2], "rows": [{"rows": "0", "wrong": "9-1", "inside": ""}]}],
)
def test_a_picture_that_cannot_be_read_is_left_out(broken):
    assert spread.read(broken) is None
    row = next(row for row in RUN["cases"] if row["verdict"] == "mismatch")
    page = html.render({**RUN, "cases": [{**row, "wrong": broken}], "thresholds": []})
    assert "No picture" in page and "<svg" not in page


def test_runs_are_read_as_the_agent_writes_them():
    assert spread.told(spread.runs("3 8-15 64-127/20")) == "3, 8 to 15, 64 to 127 (20 of them)"
    for wrong in ("x", "3-", "5-3", "1-3/9", "1-3/0", "9" * 20):
        with pytest.raises(ValueError, match=".*"):
            spread.runs(wrong)


def test_what_is_wrong_is_drawn_and_said():
    text = " ".join("".join(TREE.text).split())
    assert "rows 0–2: 64 to 127; row 5: 3, 70 to 90 (5 of them)." in text
    assert "4 pages with something wrong: 3, 9 to 11; 21 of the pool's 70 pages are used." in text
    assert "2 more wrong rows not kept in run.json." in text


def test_a_run_without_cases_thresholds_or_environment():
    page = html.render({"schema": "kvcheck.run/1", "run": {}, "environment": {}, "cases": [], "thresholds": []})
    assert "<h1>No case was run</h1>" in page and not Tree(page).open
    only = {**RUN, "cases": [{"verdict": "crash", "message": "SIGSEGV", "id": "a[x=1]", "provider": "p"}], "thresholds": []}
    page = html.render(only)
    assert "SIGSEGV" in page and not Tree(page).open


def many(times):
    """The run with its cases repeated under new context lengths."""
    rows = []
    for turn in range(times):
        for row in RUN["cases"]:
            params = {**row["params"], "context_len": 1 + turn * 7 % 16000, "head_dim": 64 + turn % 3}
            rows.append({**row, "id": re.sub(r"context_len=\d+", f"context_len={params['context_len']}", row["id"]), "params": params})
    return {**RUN, "cases": rows}


def test_twenty_thousand_cases_are_quick_and_small():
    run = many(-(-20_000 // len(RUN["cases"])))
    assert len(run["cases"]) >= 20_000
    start = time.process_time()  # the machine may be busy with other tests
    page = html.render(run)
    assert time.process_time() - start < 15
    assert len(page.encode()) < 3_000_000
    assert re.search(r"1,200 of 20,0\d\d cases: [\d,]+ of the [\d,]+ that fail, each way of failing in turn", page)
    assert page.count("<tr class=") == 1200


def test_all_failing_cases_are_kept_where_they_fit():
    run = many(1)
    passing = next(row for row in run["cases"] if row["verdict"] == "pass")
    run["cases"] = [dict(passing) for _ in range(3000)] + [row for row in run["cases"] if row["verdict"] == "mismatch"]
    page = html.render(run)
    assert "all that fail, and of the others those nearest to failing" in page
    assert page.count('<tr class="fail"') == sum(row["verdict"] == "mismatch" for row in run["cases"])


def heat_cells(page, first, second):
    """Words of the heat map's cells by what they search for."""
    at = next(
        n for n, label in enumerate(re.findall(r'<option value="axes-\d+">(.*?)</option>', page)) if label.endswith(f"{first} and {second}")
    )
    panel = page.partition(f'id="axes-{at}"')[2].partition('<div class="panel"')[0]
    return {escaping.unescape(find): said for find, said in re.findall(r'data-find="([^"]*)" title="([^"]*)"', panel)}


def test_the_heat_map_counts_what_the_rows_say():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")

    def case(length, table, verdict, provider="p"):
        axes = f"a[context_len={length},block_table={table}]"
        return {**base, "id": axes, "provider": provider, "verdict": verdict, "params": {"context_len": length, "block_table": table}}

    rows = [case(64, "shuffled", "pass"), case(64, "shuffled", "mismatch"), case(64, "reversed", "crash"), case(65, "reversed", "pass")]
    rows += [case(65, "shuffled", "unsupported"), case(64, "shuffled", "nonfinite", "other"), case(65, "reversed", "pass", "other")]
    page = html.render({**RUN, "cases": rows, "thresholds": []})
    cells = heat_cells(page, "context_len", "block_table")
    assert cells["context_len=64 block_table=shuffled provider=p"] == "1 of 2 fails: mismatch"
    assert cells["context_len=64 block_table=reversed provider=p"] == "1 of 1 fails: crash"
    assert cells["context_len=65 block_table=shuffled provider=p"] == "1 case not judged"
    assert cells["context_len=65 block_table=reversed provider=other"] == "the one passes"
    assert len(cells) == 6


def test_the_pair_of_axes_that_decides_comes_first():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")
    rows = []
    for number in range(128):
        params = {
            "num_heads": 16 << number % 2,
            "block_size": 1 << number // 2 % 4,
            "next_n": 1 + number // 8 % 2,
            "batch": 1 + number // 16 % 2,
        }
        bad = params["num_heads"] == 32 and params["block_size"] == 8
        rows.append({**base, "params": params, "verdict": "mismatch" if bad else "pass", "id": f"a[{number}]"})
    best = pairs(rows)[0]
    assert {best.first, best.second} == {"num_heads", "block_size"}


def test_flips_and_chance_are_in_the_picture():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")
    threshold = {
        "axis": "context_len", "provider": "p", "at": {}, "flips": [{"last_pass": 300, "first_fail": 301, "direction": "pass_to_fail"}],
        "period": None, "monotonic": True, "evaluations": 9, "widest_gap": 9, "trivial_below": 100, "range": [1, 4000],
    }  # fmt: skip
    rows = []
    for length in (1, 100, 200, 300, 301, 1000, 4000):
        metrics = {"max_bound_ratio": 0.5 if length < 301 else 7.0}
        if length > 100:
            metrics |= {"topk_set_match": 1.0 if length < 301 else 0.6, "topk_set_match_chance": 100 / length}
        params = {"context_len": length}
        rows.append(
            {
                **base,
                "provider": "p",
                "params": params,
                "metrics": metrics,
                "trivial": [],
                "verdict": "pass" if length < 301 else "mismatch",
            }
        )
    page = html.render({**RUN, "cases": rows, "thresholds": [threshold]})
    picture = re.search(r"<svg.*?</svg>", page, re.S)[0]
    words = [element.text for element in ElementTree.fromstring(picture).iter("text")]
    assert {
        "300 | 301",
        "set match of the top-k (dashed: chance)",
        "worst ratio to the bound (line: the bound)",
        "cannot fail here",
    } <= set(words)
    assert "stroke-dasharray" in picture and "s-link" in picture
    assert "The verdict flips between 300 and 301." in picture
    assert "passes up to context_len 300, fails from 301" in page


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_text_can_be_read_on_its_ground(theme):
    colours = getattr(palette, theme)
    for front, back in palette.READ_ON:
        assert palette.contrast(colours[front], colours[back]) >= 4.5, (front, back, palette.contrast(colours[front], colours[back]))
    for front, back in palette.SEEN_ON:
        assert palette.contrast(colours[front], colours[back]) >= 3, (front, back, palette.contrast(colours[front], colours[back]))


def test_contrast_is_that_of_the_standard():
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


# Machado, Oliveira, Fernandes 2009, severity 1: linear RGB as seen without red, green or blue cones.
BLIND = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def oklab(colour, seen):
    """A colour as somebody sees it, in a space where distances are those of the eye (Ottosson 2020)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    r, g, b = [min(max(sum(m * p for m, p in zip(row, linear, strict=True)), 0), 1) for row in seen]
    cones = (
        0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
        0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
        0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
    )
    long, middle, short = (cone ** (1 / 3) for cone in cones)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
@pytest.mark.parametrize("sight", BLIND)
def test_verdicts_stay_apart_for_colour_blind_readers(theme, sight):
    colours = getattr(palette, theme)
    for one, other in (("pass", "fail"), ("pass", "broken"), ("fail", "broken"), ("used", "fail")):
        sides = [oklab(colours[name], BLIND[sight]) for name in (one, other)]
        distance = sum((a - b) ** 2 for a, b in zip(*sides, strict=True)) ** 0.5
        assert distance > 0.08, (one, other, distance)


def test_no_drawing_library_is_loaded_before_there_is_something_to_draw():
    program = "import sys, kvcheck.cli.main, kvcheck.report.html; print(sorted(m for m in ('matplotlib', 'numpy') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_user_s_own_settings_of_the_library_change_nothing():
    import matplotlib

    with matplotlib.rc_context(
        {"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9, "axes.facecolor": "red", "text.usetex": False}
    ):
        assert html.render(RUN) == PAGE


def test_a_run_whose_pictures_cannot_be_drawn_is_not_lost(tmp_path, monkeypatch, capsys):
    from kvcheck.flow import record

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert record.write(RUN, tmp_path) == ["run.json", "results.csv", "report.md"]
    assert record.write_page(RUN, tmp_path) == []
    assert "report.html was not written: import of matplotlib halted" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.md", "results.csv", "run.json"]
    monkeypatch.undo()
    assert record.write_page(RUN, tmp_path) == ["report.html"]
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
