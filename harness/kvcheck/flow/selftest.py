"""What `kvcheck selftest` does: faults, mutants and honest kernels through the same agents and checks as any other case."""

from __future__ import annotations

import contextlib
import datetime
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kvcheck
from kvcheck.agent import mutations, specs
from kvcheck.agent.protocol import failed
from kvcheck.cases.model import Case
from kvcheck.execute.executor import Executor
from kvcheck.execute.launch import choose_python
from kvcheck.flow.equivalent import reason
from kvcheck.flow.options import EMULATED, UsageError, check_device
from kvcheck.flow.outcome import FAILED, PASSED
from kvcheck.flow.selftest_cases import CASES, HONEST_ONLY, VALUES
from kvcheck.report.progress import Progress

SCHEMA = "kvcheck.selftest/1"
FORMATS = ("table", "json")
QUICK = 80
"""Mutants of a quick run."""

TIMEOUT = 20.0
"""Seconds a case may take; none here is long."""

EMULATED_TIMEOUT = 120.0

PARALLEL_ON = "gfx950-emulated"
"""Where faults that need programs side by side run when the device is a CPU, on which one program follows the other."""

THREADS = 8


@dataclass(frozen=True)
class Request:
    """The options of `kvcheck selftest`.

    Attributes:
        quick: a seeded sample of the mutants.
        device: where the cases run; mutants run where Triton does.
        python: interpreter of the agents, or None.
        jobs: agents at once, or None.
        seed: of the sample and of the inputs.
        only: faults and files of mutants to keep; none: all.
        out: folder that gets selftest.json, or None.
        form: table or json.
        quiet: no progress.
    """

    quick: bool = False
    device: str = "cpu"
    python: str | None = None
    jobs: int | None = None
    seed: int = 0
    only: tuple[str, ...] = ()
    out: Path | None = None
    form: str = "table"
    quiet: bool = False


@dataclass(frozen=True)
class Probe(Case):
    """A case of the selftest: with what the agent is asked besides."""

    besides: dict[str, Any] = field(default_factory=dict)

    def request(self) -> dict[str, Any]:
        """The message that asks an agent to run the case."""
        return {**super().request(), "diagnose": False, **self.besides}


def selftest(request: Request) -> tuple[dict[str, Any], int]:
    """Runs it.

    Returns:
        report: of schema kvcheck.selftest/1: CONTRACT's totals, and faults, mutants and honest, the rows behind them.
        code: 0 when every fault and mutant is caught or explained and nobody honest is blamed, else 1.

    Raises:
        UsageError: the command line cannot be followed.
    """
    if request.form not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {request.form!r}; nearest: {specs.nearest(request.form, FORMATS)}")
    check_device(request.device)
    faults, honest = _faults(request), _honest(request)
    chosen = mutants(request.quick, request.seed, request.only)
    started, begun = datetime.datetime.now(), time.monotonic()
    cases = sum(len(cases) for _, cases in faults) + len(honest) + len(chosen)
    python = choose_python(request.python)
    executor = Executor(request.device, python, request.jobs, EMULATED_TIMEOUT if request.device in EMULATED else TIMEOUT)
    with contextlib.ExitStack() as stack:
        stack.enter_context(executor)
        progress = stack.enter_context(Progress(cases, quiet=request.quiet))
        pool = stack.enter_context(ThreadPoolExecutor(THREADS))
        try:
            executor.wait_ready()
            beside = executor
            if request.device == "cpu" and any(entry["parallel"] for entry, _ in faults):
                beside = stack.enter_context(Executor(PARALLEL_ON, python, 1, EMULATED_TIMEOUT, spare=False))
            waiting = [(entry, [(beside if entry["parallel"] else executor).submit(case) for case in cases]) for entry, cases in faults]
            judged = [(case, executor.submit(case)) for case in honest]
            hunted = [pool.submit(_hunt, executor, number, mutation, request.seed, progress) for number, mutation in chosen]
            fault_rows = [_fault_row(entry, [_noted(future.result(), progress) for future in futures]) for entry, futures in waiting]
            honest_rows = [_honest_row(_noted(future.result(), progress)) for _, future in judged]
            mutant_rows = [future.result() for future in hunted]
            unseen = [row for row in mutant_rows if not (row["caught_by"] or row["equivalent"] or row["message"])]
            if request.device != "cpu" and unseen:
                held = stack.enter_context(Executor("cpu", python, 1, TIMEOUT, spare=False))
                _look_for_strays(held, unseen, request.seed)
        except BaseException:
            executor.close()
            raise
        environment = {**executor.environment, "kvcheck": kvcheck.__version__}
    report = compose(fault_rows, mutant_rows, honest_rows)
    report["run"] = {
        "started": started.astimezone().isoformat(timespec="seconds"),
        "wall_s": round(time.monotonic() - begun, 1),
        "device": request.device,
        "quick": request.quick,
        "seed": request.seed,
        "mutants_of": sum(len(mutations.of(file)) for file in mutations.files()),
    }
    report["environment"] = environment
    if request.out:
        request.out.mkdir(parents=True, exist_ok=True)
        (request.out / "selftest.json").write_text(json.dumps(report, indent=1, allow_nan=False), encoding="utf-8")
    return report, PASSED if sound(report) else FAILED


def compose(faults: list[dict[str, Any]], mutants_: list[dict[str, Any]], honest: list[dict[str, Any]]) -> dict[str, Any]:
    """The totals of CONTRACT, and the rows behind them."""
    by_fault: dict[str, list[dict[str, Any]]] = {}
    for row in faults:
        by_fault.setdefault(row["fault"], []).append(row)
    return {
        "schema": SCHEMA,
        "faults_total": len(by_fault),
        "faults_caught": sum(all(row["caught_by"] for row in rows) for rows in by_fault.values()),
        "mutants_total": len(mutants_),
        "mutants_caught": sum(row["caught_by"] is not None for row in mutants_),
        "mutants_equivalent": sum(row["caught_by"] is None and row["equivalent"] is not None for row in mutants_),
        "honest_total": len(honest),
        "honest_blamed": sum(row["verdict"] != "pass" for row in honest),
        "faults": faults,
        "mutants": mutants_,
        "honest": honest,
    }


def sound(report: dict[str, Any]) -> bool:
    """Whether everything wrong was noticed or is explained, and nobody honest was blamed."""
    explained = report["mutants_caught"] + report["mutants_equivalent"] == report["mutants_total"]
    return report["faults_caught"] == report["faults_total"] and explained and not report["honest_blamed"]


def mutants(quick: bool, seed: int = 0, only: tuple[str, ...] = ()) -> list[tuple[int, mutations.Mutation]]:
    """The mutants of a run, by file and place, each with its number in its file."""
    every = [pair for file in mutations.files() if not only or file in only for pair in enumerate(mutations.of(file))]
    if not quick or len(every) <= QUICK:
        return every
    drawn = random.Random(seed).sample(range(len(every)), QUICK)
    return [every[place] for place in sorted(drawn)]


def probes(op: str, provider: str, seed: int, cases: tuple[dict[str, Any], ...], **besides: Any) -> list[Probe]:
    """The cases of an op for one provider, smallest first."""
    known = {each: axis.default for each, axis in specs.axes(op).items()}
    return [
        Probe(id=name(op, case), case_file="selftest", op=op, provider=provider, params={**known, **case}, seed=seed, besides=besides)
        for case in cases
    ]


def name(op: str, case: dict[str, Any]) -> str:
    """`op[axis=value,...]`: what a case has beside the defaults."""
    return f"{op}[" + ",".join(f"{axis}={json.dumps(value) if isinstance(value, list) else value}" for axis, value in case.items()) + "]"


def _faults(request: Request) -> list[tuple[dict[str, Any], list[Probe]]]:
    found = []
    for fault in specs.names("faults"):
        data = specs.load("faults", fault).data
        if request.only and fault not in request.only:
            continue
        if request.device in EMULATED and data["base"] != "triton":
            continue  # it is torch's operators that are changed there, and those are not emulated
        for op in data["ops"]:
            if op in CASES:
                asked = {"compare": True, **({"relations": [data["relation"]]} if data.get("relation") else {})}
                cases = probes(op, f"fault:{fault}{VALUES.get(fault, '')}", request.seed, CASES[op], **asked)
                cases += [Probe(**{**vars(case), "id": f"{case.id} twice", "repeat": 2}) for case in cases[1:2]]
                parallel = bool(data.get("parallel"))
                device = PARALLEL_ON if parallel and request.device == "cpu" else request.device
                found.append(({"fault": fault, "op": op, "sentence": data["sentence"], "device": device, "parallel": parallel}, cases))
    return found


def _honest(request: Request) -> list[Probe]:
    cases = []
    for op in specs.names("ops"):
        if request.only and op not in request.only:
            continue
        every = CASES.get(op, ()) + HONEST_ONLY.get(op, ())
        if request.device not in EMULATED:
            cases += probes(op, "torch_eager", request.seed, every, compare=True)
        cases += probes(op, "triton", request.seed, every[:: 2 if request.quick else 1], compare=True)
        if op in mutations.files():
            cases += probes(op, f"mutant:{op}:honest", request.seed, CASES[op][:: 3 if request.quick else 1])
    return cases


def _hunt(executor: Executor, number: int, mutation: mutations.Mutation, seed: int, progress: Progress) -> dict[str, Any]:
    """Runs a mutant's cases until one fails."""
    row = {
        "mutant": mutation.name, "text": mutation.text, "op": mutation.op,
        "provider": f"mutant:{mutation.file}:{number}", "caught_by": None, "case": None, "message": "", "equivalent": None,
    }  # fmt: skip
    _try(executor, row, seed)
    if not row["caught_by"] and not row["message"]:
        row["equivalent"] = reason(mutation)
    fine = row["caught_by"] or row["equivalent"]
    progress.done({"id": row["mutant"], "provider": row["provider"], "verdict": "pass" if fine else "mismatch"})
    return row


def _look_for_strays(executor: Executor, rows: list[dict[str, Any]], seed: int) -> None:
    """Mutants that a card lets pass, once more on the CPU, where every address is held to the launch's tensors: a read that strays, and
    whose value nobody uses, shows nowhere else."""
    for row in rows:
        _try(executor, row, seed)
        if row["caught_by"]:
            row["caught_by"]["device"] = "cpu"


def _try(executor: Executor, row: dict[str, Any], seed: int) -> None:
    for case in probes(row["op"], row["provider"], seed, CASES[row["op"]]):
        judged = executor.submit(case).result()
        if failed(judged["verdict"]):
            row.update(caught_by=_by(judged), case=case.id, message=judged["message"])
            break
        if judged["verdict"] != "pass":
            row["message"] = f"{judged['verdict']}: {judged['message']}"


def _noted(row: dict[str, Any], progress: Progress) -> dict[str, Any]:
    progress.done({**row, "verdict": "pass"})
    return row


def _by(row: dict[str, Any]) -> dict[str, str]:
    return {"verdict": row["verdict"], "check": row.get("check") or row["verdict"]}


def _fault_row(entry: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Which checks caught a fault, with how many cases and the smallest of them; what others' checks say of the same outputs."""
    caught: dict[str, dict[str, Any]] = {}
    others: dict[str, dict[str, Any]] = {}
    for row in rows:
        if failed(row["verdict"]):
            by = caught.setdefault(_by(row)["check"], {**_by(row), "case": row["id"], "cases": 0})
            by["cases"] += 1
        for check, passed in (row.get("compared") or {}).items():
            if passed is not None:
                told = others.setdefault(check, {"judged": 0, "caught": 0})
                told["judged"] += 1
                told["caught"] += not passed
    unjudged = [f"{row['verdict']}: {row['message']}" for row in rows if row["verdict"] in ("harness_error", "invalid_case", "unsupported")]
    return {**entry, "cases": len(rows), "caught_by": list(caught.values()), "others": others, "unjudged": sorted(set(unjudged))}


def _honest_row(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "op", "provider", "verdict", "message", "compared")
    return {key: row.get(key) for key in kept}
