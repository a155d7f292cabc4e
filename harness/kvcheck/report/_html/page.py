"""The page: sections in order, style and script inside, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from kvcheck.report._html import palette, svg
from kvcheck.report._html.cases import cases
from kvcheck.report._html.charts import charts
from kvcheck.report._html.heat import heat
from kvcheck.report._html.machine import machine
from kvcheck.report._html.markup import section, text
from kvcheck.report._html.summary import head, summary
from kvcheck.report._html.wrong import wrong
from kvcheck.report.words.findings import headline

LINKS = (
    ("found", "Found"),
    ("heat", "Two axes"),
    ("swept", "Along an axis"),
    ("wrong", "What is wrong"),
    ("cases", "Cases"),
    ("machine", "Environment"),
)


def page(run: dict[str, Any]) -> str:
    """The whole document."""
    with svg.settings():
        drawn, pictures = charts(run), wrong(run)
    along = section("swept", "Along the swept axis", drawn) if drawn else ""
    parts = [summary(run), heat(run), along, pictures, cases(run), machine(run)]
    script = _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    links = "".join(f'<li><a href="#{name}">{label}</a></li>' for (name, label), part in zip(LINKS, parts, strict=True) if part)
    version = text((run.get("environment") or {}).get("kvcheck") or "", 40)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>kvcheck: {headline(run)}</title>
<link rel="icon" href="data:,">
<style>
{palette.style()}
{_file("style.css")}</style>
<noscript><style>.panel[hidden]{{display:block!important}}.pick,[data-copy]{{display:none}}</style></noscript>
</head>
<body>
<a class="skip" href="#main">Skip to the findings</a>
<header>
{head(run)}
<nav aria-label="Sections"><ul>{links}</ul><button type="button" id="theme" hidden>Theme: as the system</button></nav>
</header>
<main id="main" tabindex="-1">
{"".join(parts)}</main>
<footer><p>Made by kvcheck {version}. This one file holds everything that it shows and asks no network for anything.</p></footer>
<script>{script}</script>
</body>
</html>
"""


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
