"""What `kvcheck selftest` prints: the matrix fault x check, survivors with reasons, and what others' checks say of the same outputs."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.clean import line

OTHERS = {
    "allclose": "`torch.allclose`, rtol = atol = 1e-2",
    "calc_diff": "DeepGEMM `calc_diff` < 1e-3",
    "mismatch_5_percent": "at most 5 % mismatched (aiter `checkAllclose`)",
    "positional_match": "sorted indices equal >= 0.99",
    "set_match": "set match >= 0.99",
}
"""What others use, by its name in the rows."""


def render(report: dict[str, Any]) -> str:
    """The report as text.

    Args:
        report: of schema kvcheck.selftest/1.
    """
    blocks = [_matrix(report["faults"])]
    for title, rows in (("Survivors with a reason", _survivors(report, True)), ("SURVIVORS WITHOUT A REASON", _survivors(report, False))):
        if rows:
            blocks.append(f"{title}: {len(rows)}\n" + "\n".join(_survivor(row) for row in rows))
    blamed = [row for row in report["honest"] if row["verdict"] != "pass"]
    if blamed:
        told = (f"  {row['provider']} {line(row['id'])}: {line(row['message'])}" for row in blamed)
        blocks.append("HONEST KERNELS BLAMED\n" + "\n".join(told))
    blocks += [others(report), _summary(report)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def others(report: dict[str, Any]) -> str:
    """The Markdown table of what others' checks catch and blame, of the same outputs as ours."""
    if not report["faults"]:
        return ""
    table = ["| check | faults caught, of those it can be asked about | honest outputs blamed |", "|---|---|---|"]
    ops = len(report["faults"])
    caught = sum(bool(row["caught_by"]) for row in report["faults"])
    table.append(f"| kvcheck | {caught} of {ops} | {report['honest_blamed']} of {report['honest_total']} |")
    for check, words in OTHERS.items():
        told = [row["others"][check] for row in report["faults"] if check in row["others"]]
        honest = [row["compared"][check] for row in report["honest"] if row["compared"] and row["compared"].get(check) is not None]
        table.append(f"| {words} | {sum(bool(each['caught']) for each in told)} of {len(told)} | {honest.count(False)} of {len(honest)} |")
    return "\n".join(table)


def _matrix(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    names = [f"{row['fault']} ({row['op']})" for row in rows]
    width = max(map(len, names))
    lines = []
    for name, row in zip(names, rows, strict=True):
        by = ", ".join(f"{each['check']} {each['cases']}/{row['cases']}" for each in row["caught_by"])
        by += f" on {row['device']}" if by and row.get("parallel") else ""
        where = f" at {row['caught_by'][0]['case']}" if row["caught_by"] else "".join(f"; {text}" for text in row["unjudged"][:1])
        lines.append(f"{'ok ' if by else 'RED'} {name:<{width}}  {line((by or 'NO CHECK CATCHES IT') + where)}")
    return "\n".join(lines)


def _survivors(report: dict[str, Any], explained: bool) -> list[dict[str, Any]]:
    return [row for row in report["mutants"] if row["caught_by"] is None and (row["equivalent"] is not None) == explained]


def _survivor(row: dict[str, Any]) -> str:
    why = row["equivalent"] or row["message"] or "no check catches it, and no reason is given why it would be equivalent"
    return f"  {row['mutant']}\n    {line(row['text'])}\n    {line(why)}"


def _summary(report: dict[str, Any]) -> str:
    return (
        f"faults {report['faults_caught']} of {report['faults_total']} caught;"
        f" mutants {report['mutants_caught']} of {report['mutants_total']} caught, {report['mutants_equivalent']} equivalent;"
        f" honest {report['honest_total']} cases, {report['honest_blamed']} blamed;"
        f" {report['run']['wall_s']} s on {report['run']['device']}"
    )
