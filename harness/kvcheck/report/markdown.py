"""report.md: reads well pasted into an issue, and nothing in it comes alive there.

Text from kernels and machines stands in code spans and fences only, where mentions, references, links and HTML are inert.
"""

from __future__ import annotations

from typing import Any

from kvcheck.report.words import findings, sections, threshold_sentence
from kvcheck.report.words.clean import code, fence
from kvcheck.report.words.findings import headline


def render(run: dict[str, Any]) -> str:
    """The run as GitHub Markdown: verdict, environment, flips, the cases around them, errors, the exact command."""
    cases, thresholds = run["cases"], run.get("thresholds") or []
    flips = [threshold_sentence(threshold, code) for threshold in thresholds]
    parts = [f"## kvcheck: {headline(run)}"]
    parts += [paragraph for paragraph in findings(run, code)[1:] if paragraph not in flips]
    if flips:
        parts += ["### The flip", "\n".join(f"- {sentence}" for sentence in flips)]
    parts += sections.case_tables(cases, thresholds)
    parts += sections.image_table(cases)
    errors = sections.errors(cases)
    parts += ["### What failed", *errors] if errors else []
    parts += ["### Environment", sections.environment(run), "### The exact command", fence(sections.command(run), 4000)]
    return "\n\n".join(parts) + "\n"
