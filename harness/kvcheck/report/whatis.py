"""What `kvcheck whatis` prints: one line a package with how sure its commit is, what is wrong with it, and the differences of two."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.clean import line

SURE = {
    "exact": "exact",
    "candidates": "one of several",
    "nearest": "NOT SURE: nearest",
    "hint": "hint only",
    "none": "-",
}
FILES = 8
"""Paths shown of the files that differ."""


def render(report: dict[str, Any]) -> str:
    """The report as text.

    Args:
        report: of schema kvcheck.whatis/1.
    """
    parts = ["\n".join(_subject(subject)) for subject in report["subjects"]]
    if "differences" in report:
        parts.append("\n".join(_differences(report)))
    return "\n\n".join(parts)


def _subject(subject: dict[str, Any]) -> list[str]:
    contents = subject["contents"]
    python = contents["python"]
    lines = [f"{line(subject['subject'], 300)}: Python {line(python['version'], 40)} ({line(python['executable'], 200)})"]
    image = subject["image"]
    if image:
        lines.append(f"  image {line(image['id'], 90)}, digest {line(image['digest'] or 'none', 90)}, created {line(image['created'], 40)}")
        lines += [f"  label {line(name, 80)}: {line(value, 120)} (a hint)" for name, value in image["labels"].items()]
    lines += ["  " + ", ".join(_stack(contents)), ""]
    rows = [("package", "version", "commit", "how sure", "why")]
    for name, package in contents["packages"].items():
        commit = package["commit"]
        sha = commit["commit"][:10] if commit["commit"] else "-"
        rows.append((name, package["version"] or "-", sha, SURE[commit["sure"]], commit["sentence"]))
    cells = [[line(cell, 700 if column == 4 else 40) for column, cell in enumerate(row)] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines += ["  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in cells]
    for name, package in contents["packages"].items():
        if package["commit"]["count"] > 1:
            commit = package["commit"]
            lines.append(f"  {name}: commits {', '.join(line(sha, 60)[:10] for sha in commit['commits'][:12])}{_more(commit['count'], 12)}")
    if contents["problems"]:
        lines += ["", "  Problems:", *(f"    {line(problem, 600)}" for problem in contents["problems"])]
    return lines


def _stack(contents: dict[str, Any]) -> list[str]:
    rocm, cuda = contents["rocm"], contents["cuda"]
    said = [f"ROCm {line(rocm['version'] or 'none', 40)}", f"CUDA {line(cuda['version'] or 'none', 40)}"]
    names = (("HIP runtime", rocm["hip_runtime"]), ("torch built for HIP", rocm["torch_hip"]), ("torch built for CUDA", cuda["torch_cuda"]))
    return said + [f"{name} {line(value, 60)}" for name, value in names if value]


def _differences(report: dict[str, Any]) -> list[str]:
    one, other = (line(subject["subject"], 200) for subject in report["subjects"])
    rows = report["differences"]
    if not rows:
        return [f"{one} and {other} hold the same."]
    lines = [f"From {one} to {other}:"]
    for row in rows:
        same = row["before"] == row["after"]
        change = line(row["before"], 120) if same else f"{line(row['before'], 120)} -> {line(row['after'], 120)}"
        note = f" ({line(row['note'], 120)})" if row["note"] else ""
        lines.append(f"  {line(row['name'], 60)}: {change}{note}")
        if row["files"]:
            shown = ", ".join(line(path, 120) for path in row["files"][:FILES])
            what = "1 file differs" if len(row["files"]) == 1 else f"{len(row['files'])} files differ"
            lines.append(f"    {what}: {shown}{_more(len(row['files']), FILES)}")
    return lines


def _more(count: int, shown: int) -> str:
    return f" and {count - shown} more" if count > shown else ""
