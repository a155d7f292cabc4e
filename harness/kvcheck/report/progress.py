"""How far a run is: a bar on a terminal, a line now and then where the output is piped, nothing when quiet."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TextIO

from kvcheck.report.words import rows
from kvcheck.report.words.clean import line


class Progress:
    """Counts judged cases by verdict. Any thread may tell it of a case.

    Args:
        total: cases planned; `add` plans more.
        quiet: say nothing.
        stream: where to write; stderr, so that stdout holds the report alone.
        interval: seconds between two plain lines.
        clock: seconds; for tests.
    """

    def __init__(
        self,
        total: int = 0,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        interval: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.judged, self.counts = total, 0, Counter()
        self._quiet, self._stream, self._interval, self._clock = quiet, stream or sys.stderr, interval, clock
        self._lock = threading.Lock()
        self._started = self._said = clock()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        self._started = self._said = self._clock()
        if not self._quiet and self._stream.isatty():
            self._draw()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._bar:
                self._bar.stop()
                self._bar = None
            elif not self._quiet and self.judged:
                self._say()

    def add(self, cases: int) -> None:
        """Plans more cases: a threshold search does not know beforehand how many it will need."""
        with self._lock:
            self.total += cases
            self._show()

    def done(self, row: dict[str, Any]) -> None:
        """Counts one judged case, a row of run.json."""
        with self._lock:
            self.judged += 1
            self.total = max(self.total, self.judged)
            self.counts[rows.verdict(row)] += 1
            self._show()
            if not self._quiet and not self._bar and self._clock() - self._said >= self._interval:
                self._say()

    def note(self, text: str, limit: int = 300) -> None:
        """One line of its own, such as what is searched next; cut at a limit."""
        with self._lock:
            if self._quiet:
                return
            if self._bar:
                from rich.text import Text

                self._bar.console.print(Text(line(text, limit)), soft_wrap=True)
            else:
                self._stream.write(line(text, limit) + "\n")
                self._stream.flush()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.fields[counts]}", markup=False))
        self._bar = Bar(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console, transient=True)
        self._task = self._bar.add_task("", total=self.total or None, counts="")
        self._bar.start()

    def _show(self) -> None:
        if self._bar:
            self._bar.update(self._task, total=self.total, completed=self.judged, counts=self._counted())

    def _say(self) -> None:
        now = self._clock()
        self._said = now
        left = self.total - self.judged
        time_left = f", about {_duration((now - self._started) / self.judged * left)} left" if left and self.judged else ""
        self._stream.write(f"{self.judged} of {self.total} cases: {self._counted()}{time_left}\n")
        self._stream.flush()

    def _counted(self) -> str:
        return ", ".join(f"{count} {verdict}" for verdict, count in self.counts.most_common())


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
