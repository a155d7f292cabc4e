"""What `kvcheck vet` prints: the answer, what was found by part, one line a call, and the well-formed version of the same calls."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.clean import clean, line
from kvcheck.report.words.numbers import number, share

PARTS = {"inputs": "Inputs", "metric": "Metric", "conclusion": "Conclusion"}
SIGNS = {"void": "-", "note": "~", "good": "+"}
SHOWN = 24
"""Lines of a table."""


def render(report: dict[str, Any]) -> str:
    """The report as text.

    Args:
        report: of schema kvcheck.vet/1.
    """
    lines = [_answer(report)]
    for part, title in PARTS.items():
        mine = [entry for entry in report["findings"] if entry["part"] == part]
        lines += ["", f"{title}:"] + ([_finding(entry) for entry in mine] or ["  nothing found"])
    if report["points"]:
        lines += ["", *_points(report)]
    lines += _well_formed(report)
    lines += (
        ["", "It printed:", *[f"  {clean(text)[:200]}" for text in report["printed"].splitlines()[-SHOWN:]]] if report["printed"] else []
    )
    return "\n".join(lines)


def _answer(report: dict[str, Any]) -> str:
    name = line(report["script"], 200)
    if report["exit_code"] == 3:
        return f"{name}: could not be run to an answer: {line(report['error'], 1200)}"
    if report["exit_code"] == 1:
        more = f" It also stopped: {line(report['error'], 600)}" if report["error"] else ""
        return f"{name}: cannot prove what it says.{more}"
    return f"{name}: nothing was found that keeps it from proving what it says."


def _finding(entry: dict[str, Any]) -> str:
    where = f" (line {', '.join(str(number) for number in entry['lines'][:4])})" if entry["lines"] else ""
    return f"  {SIGNS[entry['level']]} {line(entry['sentence'], 600)}{where}"


def _points(report: dict[str, Any]) -> list[str]:
    own = "the installed kernels" if report["kernels"] == "installed" else "stand-ins that compute the plain formula exactly"
    shown = report["points"][:SHOWN]
    lines = [f"Calls, answered by {own}:"]
    lines.append(f"  {'context_len':>11} {'k':>6} {'NaN tokens':>10} {'finite':>8} {'positional':>10} {'overlap':>8} {'chance':>8}  says")
    for row in shown:
        cells = [number(row["k"]), _percent(row["nan_tokens"]), _percent(row["reference_finite"])]
        cells += ["-" if row[name] is None else share(row[name]) for name in ("positional", "overlap", "chance")]
        widths = (6, 10, 8, 10, 8, 8)
        text = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f"  {row['context_len']:>11} {text}  {_says(row)}")
    if len(report["points"]) > len(shown):
        lines.append(f"  and {len(report['points']) - len(shown)} more")
    return lines


def _says(row: dict[str, Any]) -> str:
    if row["nan_tokens"] or row["reference_finite"] < 1:
        return "nothing: no answer is defined"
    if row["trivial"]:
        return "nothing of top-k: every position is selected"
    if row["k"] is None:
        return "no top-k was taken"
    return "something: k is less than the row"


def _well_formed(report: dict[str, Any]) -> list[str]:
    found = report["well_formed"]
    if not found["rows"]:
        return ["", f"Well formed: not judged: {line(found['why'], 600)}"]
    lines = ["", "The same shapes well formed (quantised gaussian keys, scales of amax / 448, shuffled pages), judged by kvcheck:"]
    for row in found["rows"]:
        match, chance = row["topk_set_match"], row["chance"]
        top = (
            "set match trivial" if match == "trivial" else f"set match {share(match)} (chance {share(chance)})" if match is not None else ""
        )
        why = f"  {line(row['message'], 160)}" if row["verdict"] != "pass" and row["message"] else ""
        ratio = f"ratio to bound {number(row['max_bound_ratio'], 3)}" if row["max_bound_ratio"] is not None else ""
        version = str(row["provider_version"] or "")
        name = version if version.startswith(row["provider"]) else f"{row['provider']} {version}"
        cells = [f"{line(name, 60)} context_len {row['context_len']}", line(row["verdict"], 20), ratio, top]
        lines.append("  " + ", ".join(cell for cell in cells if cell) + why)
    return lines


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"
