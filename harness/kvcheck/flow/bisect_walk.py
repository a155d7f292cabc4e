"""Answers the questions of a bisect: from what is on disk already, else by running the candidate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kvcheck.flow import bisect_state, bisect_steps
from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.bisect_state import State, evidence
from kvcheck.flow.options import UsageError
from kvcheck.report import bisect as words
from kvcheck.report.words.bisected import told
from kvcheck.search.bisect_evidence import BAD, FAIL, UNKNOWN, Answer, Evidence, Sought, failures, says_nothing, silent, weigh
from kvcheck.search.bisect_found import AGAIN, Question
from kvcheck.targets.base import Place, Target

EXTRA = "extra"
"""Why a place is tried that is not of the range."""

VERSIONS = ("python", "torch", "triton", "aiter", "vllm", "kvcheck")


class Walk:
    """One bisect under way.

    Args:
        target: the range.
        options: what is run in each step.
        state: on disk.
        say: told a line at a time how it goes.
    """

    def __init__(self, target: Target, options: BisectOptions, state: State, say: Callable[[str], None]) -> None:
        self._target, self._options, self._state, self._say = target, options, state, say
        self._asked = bisect_steps.asked(options)
        self._candidates = state.candidates

    def ask(self, question: Question) -> Sequence[Evidence]:
        """The runs of a candidate."""
        candidate = self._candidates[question.index]
        known = self._state.answered(candidate.key, self._asked, question.why == AGAIN)
        if known:
            return evidence(known)
        self._say(words.progress(question.number, question.left, self._seconds_a_step(), candidate.label, candidate.key))
        step = self._blank(candidate.key, candidate.label, question.why, question.index)

        def ahead() -> None:
            if question.ahead:
                self._target.ahead([self._candidates[index] for index in question.ahead])

        return self._run(step, lambda: self._target.place(candidate), question.enough, question.weigh, ahead)

    def ask_extra(self, label: str, place: AbstractContextManager[Place], sought: Sought) -> Answer:
        """What a place that is not of the range says of the fault."""
        known = self._state.answered(f"{EXTRA}: {label}", self._asked, False)
        if known:
            return weigh(evidence(known), sought, self._options.runs)
        self._say(f"and {label}")
        step = self._blank(f"{EXTRA}: {label}", label, EXTRA, None)
        runs = self._run(
            step, lambda: place, lambda done: sought.shows(done[-1]), lambda done: weigh(done, sought, self._options.runs), lambda: None
        )
        return weigh(runs, sought, self._options.runs)

    def _run(
        self,
        step: dict[str, Any],
        enter: Callable[[], AbstractContextManager[Place]],
        enough: Callable[[Sequence[Evidence]], bool],
        weighed: Callable[[Sequence[Evidence]], Answer] | None,
        ahead: Callable[[], None],
    ) -> Sequence[Evidence]:
        """Runs a candidate as often as it takes, and notes the step on disk before and after."""
        self._state.begin(step)
        begun = time.monotonic()
        runs: list[Evidence] = []
        try:
            with enter() as place:
                step["facts"] = dict(place.facts)
                ahead()
                same = self._same(step)
                if same:
                    step["note"], runs = f"same package content as {same['label']}", evidence(same)
                while len(runs) < self._options.runs and not same:
                    ran = bisect_steps.run_once(place, self._options, self._state.data["device"])
                    runs.append(ran.evidence)
                    self._keep(step, ran, len(runs))
                    if enough(runs):
                        break
                if step["why"] == AGAIN and weighed and weighed(runs).kind == BAD:
                    self._flips(step, place, runs[-1])
        except bisect_steps.Failure as error:
            runs.append(silent(str(error)))
        except OSError as error:
            if error.errno in bisect_state.FULL:
                raise
            runs.append(silent(f"{type(error).__name__}: {error}"))
        step["wall_s"] = round(time.monotonic() - begun, 3)
        step["runs"] = bisect_state.stored(runs)
        answer = weighed(runs) if weighed else None
        if answer:
            step.update(kind=answer.kind, reason=answer.reason)
        elif all(map(says_nothing, runs)):
            step.update(kind=UNKNOWN, reason=next((r.reason for run in runs for r in run.values() if r.reason), ""))
        self._state.finish(step)
        self._say(words.answered(step, [told(how) for _, how in failures(runs)]))
        return runs

    def _keep(self, step: dict[str, Any], ran: bisect_steps.Ran, number: int) -> None:
        """Leaves the run's folder and what a report needs of it."""
        folder = self._state.folder / step["folder"]
        if self._options.runs > 1:
            folder = folder / f"run-{number}"
        bisect_steps.write(ran, self._options, folder)
        step["environment"] = {name: ran.environment[name] for name in VERSIONS if ran.environment.get(name)}
        faults = {row["diagnosis"][0].get("fault") for row in ran.rows.values() if row["diagnosis"]}
        step["explained"] = sorted(fault.partition("=")[0] for fault in faults if fault)
        if self._state.data["device"] is None and not says_nothing(ran.evidence):
            self._state.data["device"] = bisect_steps.device_of(ran.environment)

    def _flips(self, step: dict[str, Any], place: Place, run: Evidence) -> None:
        """Where the verdict flips at the first bad candidate; what goes wrong here takes nothing from the answer."""
        failing = [probe for probe, result in run.items() if result.kind == FAIL]
        try:
            step["thresholds"] = bisect_steps.flips(place, self._options, failing)
        except (*bisect_steps.Failure, UsageError) as error:
            step["thresholds_error"] = str(error)

    def _same(self, step: dict[str, Any]) -> dict[str, Any] | None:
        """The step that tried the same packages under another key, unless every candidate is to be tried."""
        contents = step["facts"].get("contents_key")
        if not contents or self._options.every or step["why"] in (AGAIN, EXTRA):
            return None
        return self._state.same_contents(str(contents), self._asked)

    def _blank(self, key: str, label: str, why: str, index: int | None) -> dict[str, Any]:
        number = 1 + max((step["number"] for step in self._state.data["steps"]), default=0)
        return {
            "number": number,
            "key": key,
            "label": label,
            "index": index,
            "why": why,
            "asked": self._asked,
            "started": bisect_state.now(),
            "wall_s": None,
            "folder": f"steps/{bisect_state.place_of_step(number, label)}",
            "facts": {},
            "environment": {},
            "note": None,
            "runs": [],
            "kind": None,
            "reason": "",
        }

    def _seconds_a_step(self) -> float | None:
        spent = [step["wall_s"] for step in self._state.data["steps"] if step["wall_s"] and not step["note"]]
        return sum(spent) / len(spent) if spent else None
