"""report.html in a browser: nothing is asked for, nothing complains, light and dark, a phone, the keyboard, a screen reader's view."""

from __future__ import annotations

import io

import pytest
from PIL import Image

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]

WIDTHS = {"desktop": (1180, 900), "phone": (390, 844)}
RUNS = ("golden", "sample")


def picture(data: bytes) -> Image.Image:
    """A screenshot."""
    return Image.open(io.BytesIO(data)).convert("RGB")


def share(image: Image.Image, light: bool) -> float:
    """The part of an image that is light, or dark."""
    counts = image.convert("L").histogram()
    return sum(counts[200:] if light else counts[:60]) / sum(counts)


@pytest.mark.parametrize("run", RUNS)
def test_a_page_asks_for_nothing_and_complains_of_nothing(browser, page, run):
    browser.open(page(run))
    assert browser.requests() == [page(run).as_uri()]
    assert browser.complaints() == []
    assert browser.value("document.compatMode") == "CSS1Compat"


def test_the_policy_lets_no_other_script_run_and_nothing_be_fetched(browser, page, tmp_path):
    bad = tmp_path / "bad.html"
    evil = '<script>document.title="taken"</script><img src="http://127.0.0.1:9/x.png" onerror="document.title=\'taken\'">'
    bad.write_text(page("golden").read_text().replace("</main>", evil + "</main>"))
    browser.open(bad)
    assert browser.value("document.title").startswith("kvcheck:")
    assert len([text for text in browser.complaints() if "Content Security Policy" in text]) >= 2, "what is refused is told"


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_on_a_desk_and_on_a_phone(browser, page, run, scheme, width):
    browser.open(page(run), *WIDTHS[width], scheme)
    wide = WIDTHS[width][0]
    assert browser.value("document.documentElement.scrollWidth") == wide, "the page is not wider than the screen"
    image = picture(browser.screenshot())
    assert image.width == wide
    assert share(image, light=scheme == "light") > 0.6, "mostly ground"
    assert len(image.getcolors(1 << 24)) > 50, "not blank"


def test_marks_in_pictures_follow_the_theme(browser, page):
    colours = {}
    for scheme in ("light", "dark"):
        browser.open(page("sample"), scheme=scheme)
        colours[scheme] = browser.value(
            "[...new Set([...document.querySelectorAll('svg [class]')].map(e => getComputedStyle(e)).map(s => s.fill + s.stroke))].sort()"
        )
    assert len(colours["light"]) > 3 and not set(colours["light"]) & set(colours["dark"]) - {"nonenone"}


def test_the_theme_can_be_chosen(browser, page):
    browser.open(page("golden"))
    seen = []
    for _ in range(3):
        browser.value("document.getElementById('theme').click()")
        seen.append(browser.value("[getComputedStyle(document.body).backgroundColor, document.getElementById('theme').textContent]"))
    assert [words for _, words in seen] == ["Theme: light", "Theme: dark", "Theme: as the system"]
    assert seen[0][0] == seen[2][0] != seen[1][0]


@pytest.mark.parametrize("run", RUNS)
def test_nothing_lies_over_anything_else_on_a_phone(browser, page, run):
    browser.open(page(run), *WIDTHS["phone"])
    beyond = browser.value(
        "[...document.querySelectorAll('main *, header *')].filter(e => !e.closest('.wide, svg, .sr') && "
        "e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    small = browser.value(
        "[...document.querySelectorAll('svg text')].filter(e => e.closest('.panel') === null || !e.closest('[hidden]'))"
        ".map(e => e.getBoundingClientRect().height).filter(h => h && h < 8).length"
    )
    assert small == 0, "text in pictures can be read"


def column(browser, name):
    """Texts of a column of the table of cases, as shown."""
    return browser.value(
        f"(() => {{ const at = [...document.querySelectorAll('#list thead th')].findIndex(h => h.textContent.trim() === {name!r});"
        "return [...document.querySelectorAll('#list tbody tr')].filter(r => !r.hidden).map(r => r.cells[at].textContent.trim()); })()"
    )


def test_sorting_from_the_keyboard(browser, page):
    browser.open(page("sample"))
    before = column(browser, "context_len")
    browser.value("[...document.querySelectorAll('#list thead button')].find(b => b.textContent === 'context_len').focus()")
    browser.press("Enter")
    assert browser.value("document.querySelector('#list th[aria-sort]').textContent") == "context_len"
    assert column(browser, "context_len") == sorted(before, key=int) != before
    assert "sorted by context_len, ascending" in browser.value("document.getElementById('told').textContent")
    browser.press("Space")
    assert browser.value("document.querySelector('#list th[aria-sort]').getAttribute('aria-sort')") == "descending"
    assert column(browser, "context_len") == sorted(before, key=int, reverse=True)
    assert browser.value("document.activeElement.textContent") == "context_len", "the focus stays"


def test_words_are_sorted_and_what_has_no_number_comes_last(browser, page):
    browser.open(page("golden"))
    for order in ("ascending", "descending"):
        browser.value("[...document.querySelectorAll('#list thead button')].find(b => b.textContent === 'ratio to bound').click()")
        shown = [text for text in column(browser, "ratio to bound") if text not in ("-", "")]
        numbers = [float(text) for text in shown if text not in ("trivial",)]
        assert len(numbers) > 5 and numbers == sorted(numbers, reverse=order == "descending")
        assert column(browser, "ratio to bound")[-1] in ("-", "")


def test_searching_narrows_the_table_and_says_so(browser, page):
    browser.open(page("sample"))
    whole = len(column(browser, "verdict"))
    browser.value("document.getElementById('find').focus()")
    browser.type("context_len=64 provider=aiter")
    browser.value("new Promise(done => setTimeout(done, 400))")
    assert set(column(browser, "context_len")) == {"64"} and set(column(browser, "provider")) == {"aiter"}
    left = len(column(browser, "verdict"))
    assert 0 < left < whole
    assert browser.value("document.getElementById('told').textContent") == f"{left} of {whole} cases"
    browser.value("(() => { const k = document.getElementById('kind'); k.value = 'fail'; k.dispatchEvent(new Event('change')); })()")
    assert len(column(browser, "verdict")) < left
    assert {text.split()[-1] for text in column(browser, "verdict")} == {"nonfinite"}


def test_a_cell_of_the_heat_map_leads_to_its_cases(browser, page):
    browser.open(page("sample"))
    said = browser.value(
        "(() => { const a = [...document.querySelectorAll('.panel:not([hidden]) .heat .fail a')][0]; a.click(); return a.title; })()"
    )
    shown = [text.split()[-1] for text in column(browser, "verdict")]
    wrong = sum(text in ("nonfinite", "mismatch") for text in shown)
    assert said.startswith(f"{wrong} of "), (said, shown)
    assert browser.value("document.activeElement.id") == "find"
    browser.value("new Promise(done => setTimeout(done, 1500))")  # it scrolls smoothly
    assert browser.value("document.getElementById('cases').getBoundingClientRect().top") < WIDTHS["desktop"][1] / 2


@pytest.mark.parametrize("name", ["axes", "case"])
def test_a_choice_shows_one_panel(browser, page, name):
    browser.open(page("sample"))
    shown = f"[...document.querySelectorAll('#{name} option')].filter(o => !document.getElementById(o.value).hidden).map(o => o.value)"
    first = browser.value(shown)
    assert len(first) == 1
    browser.value(
        f"(() => {{ const s = document.getElementById('{name}'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); }})()"
    )
    second = browser.value(shown)
    assert len(second) == 1 and second != first
    assert browser.value(f"document.getElementById('{second[0]}').getBoundingClientRect().height") > 100


def test_without_scripts_everything_is_there(browser, page):
    browser.open(page("golden"), script=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.value("[...document.querySelectorAll('.panel')].every(p => p.getBoundingClientRect().height > 20)")
    assert browser.value("document.querySelector('.search').hidden") is True
    assert browser.value("getComputedStyle(document.querySelector('.pick')).display") == "none"


def test_the_keyboard_reaches_everything_in_order_and_the_focus_is_seen(browser, page):
    browser.open(page("golden"))
    reached = []
    for _ in range(14):
        browser.press("Tab")
        where = browser.value(
            "(() => { const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.tagName, (e.textContent || '').trim().slice(0, 30), parseFloat(s.outlineWidth), s.outlineStyle,"
            "e.getBoundingClientRect().top + scrollY]; })()"
        )
        assert where[2] >= 2 and where[3] != "none", f"the focus cannot be seen on {where}"
        reached.append(where)
    assert reached[0][1] == "Skip to the findings"
    assert [where[1] for where in reached[1:4]] == ["Found", "Two axes", "Along an axis"]
    tops = [where[4] for where in reached[1:]]
    assert all(after >= before - 60 for before, after in zip(tops, tops[1:], strict=False)), "top to bottom"
    browser.open(page("golden"))
    browser.press("Tab")
    browser.press("Enter")
    assert browser.value("document.activeElement.id") == "main"


def test_what_a_screen_reader_is_told(browser, page):
    browser.open(page("sample"))
    nodes = [node for node in browser.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    named: dict[str, list[str]] = {}
    for node in nodes:
        named.setdefault(node["role"]["value"], []).append((node.get("name") or {}).get("value", ""))
    for role in ("button", "link", "combobox", "searchbox", "region", "image", "table", "columnheader"):
        assert named.get(role), role
        assert all(named[role]), f"a {role} without a name: {named[role]}"
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert len(named[role]) == 1
    assert named["heading"][0].endswith("judged cases fail")
    assert "aiter along context_len" in named["image"]
    assert any("fails" in name or "fail:" in name for name in named["link"]), "cells of the heat map say what they count"
