"""Judges cases once each: what an earlier search of this run has is not run again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from kvcheck.cases.model import Case
from kvcheck.execute.seat import CaseExecutor
from kvcheck.flow.options import Options

ROW_KEYS = (
    "id", "case_file", "op", "provider", "provider_version", "dispatch", "precision", "params", "seed", "asked", "input_fingerprint",
    "verdict", "check", "output", "also_failed", "message", "metrics", "trivial", "first_bad", "bad_count", "element_count",
    "wrong", "first_wrong_stage", "stages", "travel", "findings", "repeats", "diagnosis", "relations", "seen", "timing", "repro",
)  # fmt: skip
"""Keys of a row in the order in which run.json has them."""


class Book:
    """Rows by case and provider.

    Args:
        executor: runs what its journal does not have.
        progress: told of every row.
        options: for the command that repeats a row.
        planned: cases of the sweep; a row of another case is repeated with --set.
    """

    def __init__(self, executor: CaseExecutor, progress: Any, options: Options, planned: Sequence[Case]):
        self._executor, self._progress, self._options = executor, progress, options
        self._planned = {case.id for case in planned}
        self._pending: dict[tuple[str, str, bool], Future[dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def judge(self, cases: Sequence[Case]) -> list[dict[str, Any]]:
        """Rows of some cases, in order. Safe from several threads."""
        return [future.result() for future in [self._submit(case) for case in cases]]

    def _submit(self, case: Case) -> Future[dict[str, Any]]:
        with self._lock:
            key = (case.id, case.provider, case.diagnose)
            known = self._pending.get(key) or self._pending.get((case.id, case.provider, True))
            if known:
                return known
            if case.id not in self._planned:
                self._progress.add(1)
            future: Future[dict[str, Any]] = Future()
            self._pending[key] = future
        self._executor.submit(case).add_done_callback(lambda done: self._finish(case, done, future))
        return future

    def _finish(self, case: Case, done: Future[dict[str, Any]], future: Future[dict[str, Any]]) -> None:
        try:
            row = self._row(case, done.result())
            self._progress.done(row)
            future.set_result(row)
        except BaseException as error:
            future.set_exception(error)

    def _row(self, case: Case, judged: dict[str, Any]) -> dict[str, Any]:
        row = {"diagnosis": [], **judged, "repro": self._again(case), **({"asked": case.asked} if case.asked else {})}
        return {key: row[key] for key in ROW_KEYS if key in row}

    def _again(self, case: Case) -> str:
        if case.id in self._planned:
            return self._options.again(case.case_file, case.provider, ["--only", case.id])
        swept = case.id.partition("[")[2].rstrip("]").split(",")
        taken = {text.partition("=")[0] for text in self._options.sets}
        selection = [word for text in swept if text.partition("=")[0] not in taken for word in ("--set", text)]
        return self._options.again(case.case_file, case.provider, [*selection, "--no-threshold"])
