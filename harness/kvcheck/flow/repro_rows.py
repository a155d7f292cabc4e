"""What a script depends on of a row of run.json, and which row a name means."""

from __future__ import annotations

import shlex
from typing import Any

from kvcheck.agent import specs
from kvcheck.execute.launch import absolute_provider
from kvcheck.flow.options import UsageError
from kvcheck.report.words.clean import line
from kvcheck.report.words.rows import is_failure
from kvcheck.repro.parts import NoScript
from kvcheck.repro.wanted import Wanted

SHOWN = ("python", "torch", "triton")
PACKAGES = ("aiter", "vllm")


def find_row(run: dict[str, Any], name: str) -> dict[str, Any]:
    """The row that CASE_ID or CASE_ID@PROVIDER names: of several the one that failed.

    Raises:
        UsageError: there is none, or several fail.
    """
    rows = [row for row in run["cases"] if name in (row["id"], f"{row['id']}@{row['provider']}")]
    if not rows:
        near = specs.nearest(name, [row["id"] for row in run["cases"]])
        raise UsageError(f"CASE_ID: expected a case of the run, got {name!r}; nearest: {near}")
    rows = [row for row in rows if is_failure(row)] or rows
    if len(rows) > 1:
        names = ", ".join(f"{row['id']}@{row['provider']}" for row in rows)
        raise UsageError(f"CASE_ID: expected one row, got {name!r} of {len(rows)} providers; name one of {names}")
    return rows[0]


def wanted(run: dict[str, Any], row: dict[str, Any], made_by: str | None = None) -> Wanted:
    """What a script depends on of a row, its shrunk case where the row has one.

    Args:
        run: content of run.json.
        row: one of its cases.
        made_by: the command line, or None for the one that would write it.

    Raises:
        NoScript: a pipeline whose first wrong stage is not known, or params that are none of the op's.
    """
    environment = run.get("environment") or {}
    device = environment.get("device") or {}
    smaller = ((row.get("shrunk") or {}).get("smallest") or {}) if is_failure(row) else {}
    told = {**row, **(smaller.get("row") or {})}
    op, params, precision, stage_of = row["op"], smaller.get("params") or row["params"], row.get("precision"), None
    if op not in specs.names("ops"):
        raise NoScript(f"there is no op {line(op, 80)}")
    if "stages" in specs.load("ops", op).data:
        stage_of, op = op, row.get("first_wrong_stage")
        params, precision = _stage(stage_of, op, params), None
    cpu = device.get("type", "cpu") == "cpu"
    where = first_bad(told)
    name = f"{row['id']}@{row['provider']}"
    also = (row.get("verdict"), *(row.get("also_failed") or ()))
    return Wanted(
        op=op,
        provider=absolute_provider(str(row["provider"])),
        params=_resolved(op, params, device),
        seed=int(row.get("seed") or 0),
        verdict=str(row["verdict"]),
        output=told.get("output") or where.get("output"),
        message=line(told.get("message") or "", 600),
        precision=precision,
        dispatch=row.get("dispatch"),
        device="cpu" if cpu else "cuda",
        case=name,
        seen_with=line(_seen_with(environment, device), 300),
        made_by=made_by or shlex.join(["kvcheck", "repro", str((run.get("run") or {}).get("id") or "RUN"), name]),
        arch=str(device.get("arch") or ""),
        relation=_relation(row),
        stage_of=stage_of,
        guards="out_of_bounds_write" in also,
    )


def first_bad(row: dict[str, Any]) -> dict[str, Any]:
    """Where the first wrong element is; empty where the row does not say."""
    return row.get("first_bad") or {}


def _stage(pipeline: str, op: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """Params of the op that is the first wrong stage of a pipeline: its defaults, with the sizes of the pipeline.

    Raises:
        NoScript: no stage is wrong alone.
    """
    if not op:
        raise NoScript("every stage of the pipeline is right alone: there is no kernel to show in a short script")
    known = {name: axis.default for name, axis in specs.axes(op).items() if name in specs.load("ops", op).data["axes"]}
    given = {name: params[name] for name in known if name in params}
    if op in ("paged_mqa_logits", "index_k_cache_write"):
        given["head_dim"] = params["index_head_dim"]
    if op == "paged_mqa_logits":
        given["num_heads"] = params["index_heads"]
    rows = params["batch"] * params["next_n"]
    sizes = dict.fromkeys(("manager_block_size", "kernel_block_size", "storage_block_size"), params["block_size"])
    lens = params["context_len"]
    tokens = lens * params["batch"] if isinstance(lens, int) else sum(max(n) if isinstance(n, list) else n for n in lens)
    own = {
        "block_table": {**sizes, "tokens_per_state": 1, "mapping": "write"},
        "index_k_cache_write": {"tokens": max(tokens, 1), "divisor": 240 if params["kv_dtype"] == "e4m3fnuz" else 448},
        "topk_slots": {"rows": rows},
        "mla_decode": {"page_size": 1, "next_n": 1, "selection": "topk"},
    }
    return {**known, **given, **own.get(op, {})}


def _resolved(op: str, params: dict[str, Any], device: dict[str, Any]) -> dict[str, Any]:
    """Params of a row whose agent died before it resolved them, or of a run from before an axis was there."""
    axes = specs.axes(op)
    found = {**{name: axis.default for name, axis in axes.items()}, **{name: params[name] for name in params if name in axes}}
    if found.get("kv_dtype") == "auto":
        found["kv_dtype"] = "e4m3fnuz" if str(device.get("arch", "")).startswith("gfx94") else "e4m3fn"
    if found.get("poison") == "auto":
        found["poison"] = "finite_beacon" if device.get("interpreted", True) else "nan"
    problems = specs.check_params(op, found)  # what stands in a run.json is written into a script that is run
    if problems:
        raise NoScript("the case does not fit the op: " + line("; ".join(map(str, problems)), 300))
    return found


def _relation(row: dict[str, Any]) -> str | None:
    """The relation that does not hold, for a metamorphic row."""
    if row.get("verdict") != "metamorphic":
        return None
    broken = [
        each.get("name") for each in row.get("relations") or () if each.get("verdict", each.get("holds")) not in (True, "pass", "holds")
    ]
    return str((broken or [row.get("check")])[0])


def _seen_with(environment: dict[str, Any], device: dict[str, Any]) -> str:
    """Versions and device of a run."""
    names = [*SHOWN, *(name for name in PACKAGES if environment.get(name)), "kvcheck"]
    versions = ", ".join(f"{name} {environment[name]}" for name in names if environment.get(name))
    return f"{versions} on {device.get('type', 'cpu')} ({device.get('name') or 'unknown'})"
