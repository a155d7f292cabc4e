"""report.html: sound HTML, the same bytes for the same run, and nothing of a kernel's text alive."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

from kvcheck.report import html
from kvcheck.report._html.markup import prose, quote

from .html_pages import GOLDEN, RUN, Tree, golden_page, golden_tree

EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\x02</q>&lt;\u202e @someone"


def test_every_element_is_closed_and_every_id_is_its_own():
    assert not golden_tree().open
    ids = [attributes["id"] for _, attributes in golden_tree().elements if attributes.get("id")]
    assert len(ids) == len(set(ids)) > 20
    named = set(ids)
    for tag, attributes in golden_tree().elements:
        for key in ("aria-labelledby", "aria-describedby", "for", "data-copy"):
            assert set((attributes.get(key) or "").split()) <= named, (tag, key, attributes)
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in named, attributes
    assert {option["value"] for option in golden_tree().all("option") if re.fullmatch(r"\w+-\d+", option["value"])} <= named


def test_pictures_are_sound_xml_with_a_title_and_a_description():
    pictures = re.findall(r"<svg.*?</svg>", golden_page(), re.S)
    assert len(pictures) > 6
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("role") == "img" and root[0].tag == "title" and root[1].tag == "desc" and len(root[1].text) > 10
        assert [element.text for element in root.iter("text") if element.text], "text is text, not outlines"
        assert not re.search(r"#0f\w\wf0|#000000|#ffffff|DejaVu", picture), "every colour is one of the page's"
        known = {element.get("id") for element in root.iter()}
        assert set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", picture)) <= known


def test_headings_landmarks_and_labels():
    levels = [int(tag[1]) for tag, _ in golden_tree().elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    tags = [tag for tag, _ in golden_tree().elements]
    for landmark in ("header", "nav", "main", "footer"):
        assert tags.count(landmark) == 1
    assert golden_tree().all("html") == [{"lang": "en"}] and len(golden_tree().all("title")) > 1
    labelled = {attributes["for"] for attributes in golden_tree().all("label")}
    for tag in ("input", "select"):
        assert {attributes["id"] for attributes in golden_tree().all(tag)} <= labelled
    assert all(attributes.get("aria-label") for attributes in golden_tree().all("div") if attributes.get("role") == "region")
    assert all(attributes.get("scope") in ("col", "row") for attributes in golden_tree().all("th"))
    assert len(golden_tree().all("caption")) == len(golden_tree().all("table"))


def test_nothing_is_fetched_and_one_script_may_run():
    policy = next(attributes["content"] for attributes in golden_tree().all("meta") if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none';") and "unsafe-inline" not in policy.partition("script-src")[2]
    (script,) = re.findall(r"<script>(.*?)</script>", golden_page(), re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    for tag, attributes in golden_tree().elements:
        assert not attributes.get("src") and tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert not re.search(r"https?://|@import|url\((?!#)", golden_page())


def test_the_same_run_is_the_same_bytes_in_another_process():
    program = "import json, sys; from kvcheck.report import html; sys.stdout.write(html.render(json.load(sys.stdin)))"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}
    made = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(RUN).encode(), capture_output=True, env=environment, check=False
    )
    assert made.returncode == 0, made.stderr.decode()
    assert made.stdout.decode() == html.render(copy.deepcopy(RUN)) == golden_page()


def test_golden():
    """The page without the pictures, which follow the version of matplotlib, and without style and script."""
    page = re.sub(r"<(svg|style|script)\b.*?</\1>", r"<\1></\1>", golden_page(), flags=re.S)
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
    assert {tag for tag, _ in tree.elements} <= {tag for tag, _ in golden_tree().elements} | {"q"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    assert "alert(1)" in "".join(tree.text)
    assert not [name for _, attributes in tree.elements for name in attributes if name.startswith("on")]


def test_quoted_text_cannot_leave_its_quotes():
    assert prose(f"a {quote('b<c>')} & d") == "a <code>b&lt;c&gt;</code> &amp; d"
    assert prose("\x02<i>\x03 x \x03") == "<code>&lt;i&gt;</code> x "
    long = "a sentence that a kernel says, which is rather too long for code"
    assert prose(quote(long)) == f"<q>{long}</q>"


def test_a_run_without_cases_thresholds_or_environment():
    page = html.render({"schema": "kvcheck.run/1", "run": {}, "environment": {}, "cases": [], "thresholds": []})
    assert "<h1>No case was run</h1>" in page and not Tree(page).open
    only = {**RUN, "cases": [{"verdict": "crash", "message": "SIGSEGV", "id": "a[x=1]", "provider": "p"}], "thresholds": []}
    page = html.render(only)
    assert "SIGSEGV" in page and not Tree(page).open


def test_no_drawing_library_is_loaded_before_there_is_something_to_draw():
    program = "import sys, kvcheck.cli.main, kvcheck.report.html; print(sorted(m for m in ('matplotlib', 'numpy') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_user_s_own_settings_of_the_library_change_nothing():
    import matplotlib

    with matplotlib.rc_context(
        {"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9, "axes.facecolor": "red", "text.usetex": False}
    ):
        assert html.render(RUN) == golden_page()


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
