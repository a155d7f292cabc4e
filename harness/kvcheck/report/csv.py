"""results.csv: one row a case, for a spreadsheet or a data frame."""

from __future__ import annotations

import json
from typing import Any

from kvcheck.agent.protocol import plain
from kvcheck.report.words.clean import line

LEADING = ("id", "case_file", "op", "provider", "provider_version", "verdict", "also_failed", "message", "precision", "dispatch", "seed")
GROUPS = {"known": "known", "first_bad": "first_bad", "metrics": "metric", "params": "param", "timing": "timing"}
NO_COLUMN = frozenset({"wrong"})
"""Keys whose content is a picture; run.json has it."""

NUMBERS = frozenset({"nan", "inf", "-inf"})
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(run: dict[str, Any]) -> str:
    """The cases as CSV, in run.json's order.

    Columns: the row's own keys, then `known.*`, `first_bad.*`, `metric.*`, `param.*`, `timing.*`. Lists are JSON text, an absent value is
    empty, non-finite numbers are nan, inf, -inf. Text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    import pandas

    records = [_flat(row) for row in run["cases"]]
    names = dict.fromkeys(name for record in records for name in record)
    groups = tuple(GROUPS.values())
    plain_names = [name for name in names if name.partition(".")[0] not in groups]
    columns = [name for name in LEADING if name in names or not records]
    columns += [name for name in plain_names if name not in LEADING]
    columns += [name for group in groups for name in names if name.startswith(group + ".")]
    # Columns of objects: pandas would make floats of integers beside an absent value.
    cells = [[record.get(name) for name in columns] for record in records]
    return pandas.DataFrame(cells, columns=columns, dtype=object).to_csv(index=False, lineterminator="\n")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for key, value in plain(row).items():
        if key in GROUPS:
            record.update({line(f"{GROUPS[key]}.{name}", 120): _cell(item) for name, item in (value or {}).items()})
        elif key not in NO_COLUMN:
            record[line(key, 120)] = _cell(value)
    return record


def _cell(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        value = " ".join(map(str, value)) if value and all(isinstance(item, str) for item in value) else json.dumps(value) if value else ""
    if not isinstance(value, str) or value in NUMBERS:
        return value
    text = line(value, 4000)
    return "'" + text if text.startswith(FORMULA) else text
