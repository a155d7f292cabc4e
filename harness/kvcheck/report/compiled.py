"""What `kvcheck compile` prints: a table a kernel, what failed with its place, and the differences to another side."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import failed, parse_provider
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import some

COLUMNS = (
    *(("s", "compile_s"), ("VGPR", "vgprs"), ("AGPR", "agprs"), ("SGPR", "sgprs"), ("spills", None), ("scratch", "scratch_bytes")),
    *(("LDS", "lds_bytes"), ("waves", "occupancy"), ("code", "code_bytes")),
)
NAMES = {
    **{"vgprs": "VGPRs", "agprs": "AGPRs", "sgprs": "SGPRs", "vgpr_spills": "VGPR spills", "sgpr_spills": "SGPR spills"},
    **{"scratch_bytes": "scratch", "lds_bytes": "LDS", "occupancy": "waves a SIMD", "code_bytes": "code"},
}
KINDS = {
    "newly_fails": "NEWLY FAILS",
    "compiles_again": "compiles again",
    "changed": "changed",
    "new": "new",
    "gone": "gone",
}
SHOWN = 3
"""Cases named of those that led to a difference."""


def render(report: dict[str, Any]) -> str:
    """The report as text.

    Args:
        report: of schema kvcheck.compile/1.
    """
    environment = report["environment"]
    blocks = [f"triton {environment.get('triton')}, python {environment.get('python')}; compiled, not run"]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in report["rows"]:
        if row["kernel"]:
            groups.setdefault((row["provider"], row["kernel"], _place(row)), []).append(row)
    blocks += [_kernel(*names, rows) for names, rows in groups.items()]
    others = [row for row in report["rows"] if not row["kernel"]]
    if others:
        blocks.append("\n".join(_other(row) for row in others))
    if "differences" in report:
        blocks.append(_differences(report))
    return "\n\n".join([*blocks, _summary(report["rows"])]) + "\n"


def _kernel(provider: str, kernel: str, place: str, rows: list[dict[str, Any]]) -> str:
    parts = [_parts(row) for row in rows]
    varying = {
        name
        for target in {row["target"] for row in rows}
        for name in {name for own in parts for name in own}
        if len({own.get(name) for own, row in zip(parts, rows, strict=True) if row["target"] == target}) > 1
    }
    table = [["target", "specialisation", *(heading for heading, _ in COLUMNS), "matrix instructions", "cases"]]
    failures = []
    for row, own in zip(rows, parts, strict=True):
        short = " ".join(value for name, value in own.items() if name in varying) or "-"
        if row["verdict"] == "pass":
            cells = [_spills(row) if key is None else _cell(row[key]) for _, key in COLUMNS]
            table.append([row["target"], short, *cells, _matrix(row["matrix"]), _cases(row["cases"], 1)])
        else:
            cells = [_cell(row["compile_s"]), *["-"] * (len(COLUMNS) - 1)]
            table.append([row["target"], short, *cells, row["verdict"].upper(), _cases(row["cases"], 1)])
            failures.append(f"  {row['verdict'].upper()} {row['target']}: {line(row['message'], 1500)}")
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left = (0, 1, len(table[0]) - 2, len(table[0]) - 1)
    lines = [
        "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(cells, widths, strict=True)))
        for cells in table
    ]
    return "\n".join([f"{provider}: {kernel}  {place}", *(f"  {text.rstrip()}" for text in lines), *failures])


def _place(row: dict[str, Any]) -> str:
    """File and line of a kernel; a file of the provider's checkout by its path in there."""
    folder = parse_provider(row["provider"])[2]
    file = row["file"].removeprefix(folder.rstrip("/") + "/") if folder else row["file"]
    return f"{file}:{row['line']}"


def _parts(row: dict[str, Any]) -> dict[str, str]:
    """What a specialisation consists of, in words that can stand in one cell."""
    found = {name: f"{name}={value}" for part in ("constants", "options") for name, value in (row[part] or {}).items()}
    found.update({f"type of {name}": f"{name}:{kind}" for name, kind in (row["types"] or {}).items() if kind.startswith("*")})
    found.update({f"multiple of {name}": f"{name}%16" for name in row["divisible_by_16"] or []})
    return found


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _spills(row: dict[str, Any]) -> str:
    known = [value for value in (row["vgpr_spills"], row["sgpr_spills"]) if value is not None]
    return str(sum(known)) if known else "-"


def _matrix(counts: dict[str, int] | None) -> str:
    return ", ".join(f"{name} x{count}" for name, count in (counts or {}).items()) or "-"


def _cases(ids: list[str], shown: int) -> str:
    more = f" +{len(ids) - shown}" if len(ids) > shown else ""
    return ", ".join(line(name, 200) for name in ids[:shown]) + more


def _other(row: dict[str, Any]) -> str:
    return f"{row['provider']} {row['target']}: {row['verdict']} in {some(len(row['cases']), 'case')}: {line(row['message'], 1500)}"


def _differences(report: dict[str, Any]) -> str:
    against = report["against"]
    side = " ".join(word for word in (against["provider"], against["python"]) if word)
    title = f"against {side} (triton {against['environment'].get('triton')}):"
    lines = []
    for entry in report["differences"]:
        told = [f"{NAMES[name]} {_cell(old)} -> {_cell(new)}" for name, (old, new) in entry["changes"].items() if name != "matrix"]
        if "matrix" in entry["changes"]:
            old, new = entry["changes"]["matrix"]
            told.append(f"matrix instructions {_matrix(old)} -> {_matrix(new)}")
        told += [f"{name} {_cell(old)} -> {_cell(new)}" for name, (old, new) in entry["specialisation"].items()]
        before = "before, " if entry["kind"] == "compiles_again" else ""
        what = line("; ".join(told) or before + entry["message"], 1500)
        head = f"  {KINDS[entry['kind']]} {entry['target']} {entry['kernel']} ({entry['file']}:{entry['line']})"
        lines.append(f"{head}{': ' + what if what else ''}; in {_cases(entry['cases'], SHOWN)}")
    return "\n".join([title, *(lines or ["  no difference"])])


def _summary(rows: list[dict[str, Any]]) -> str:
    targets: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        targets.setdefault(row["target"], []).append(row)
    lines = []
    for target, members in targets.items():
        passed = sum(row["verdict"] == "pass" for row in members)
        bad = sum(failed(row["verdict"]) for row in members)
        lines.append(f"{target}: {some(passed, 'specialisation')} compiled{f', {bad} FAILED' if bad else ''}")
    return "\n".join(lines)
