"""Progress on a terminal, in a pipe, and kept quiet."""

from __future__ import annotations

import io
import subprocess
import sys
import threading

import pytest

from kvcheck.report.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_pipe_gets_a_line_now_and_then_with_time_left():
    stream, clock = io.StringIO(), Clock()
    with Progress(40, stream=stream, interval=10, clock=clock) as progress:
        for index in range(20):
            clock.now += 2
            progress.done({"verdict": "mismatch" if index == 3 else "pass"})
    lines = stream.getvalue().splitlines()
    assert lines[0] == "5 of 40 cases: 4 pass, 1 mismatch, about 1 min 10 s left"
    assert lines[-1] == "20 of 40 cases: 19 pass, 1 mismatch, about 40 s left"
    assert len(lines) == 5


def test_a_finished_run_says_so_once_and_has_no_time_left():
    stream, clock = io.StringIO(), Clock()
    with Progress(1, stream=stream, clock=clock) as progress:
        progress.done({"verdict": "pass"})
    assert stream.getvalue() == "1 of 1 cases: 1 pass\n"


def test_more_cases_than_planned():
    stream = io.StringIO()
    with Progress(1, stream=stream) as progress:
        progress.add(2)
        for _ in range(5):
            progress.done({"verdict": "pass"})
    assert stream.getvalue() == "5 of 5 cases: 5 pass\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_is_silent(stream):
    with Progress(3, quiet=True, stream=stream, interval=0) as progress:
        progress.note("searching")
        progress.done({"verdict": "pass"})
    assert stream.getvalue() == ""


def test_notes_are_cleaned():
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        progress.note("\x1b[31msearching [bold]\n")
    assert stream.getvalue() == "searching [bold]\n"


def test_a_terminal_gets_a_bar_with_counts(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with Progress(4, stream=stream) as progress:
        progress.note("[bold]next\x1b[2J")
        progress.done({"verdict": "pass"})
        progress.done({"verdict": "crash"})
    text = stream.getvalue()
    assert "2/4" in text
    assert "1 pass, 1 crash" in text
    assert "left" in text
    assert "[bold]next" in text
    assert "\x1b[2J" not in text


def test_threads_may_report_at_once():
    stream = io.StringIO()
    with Progress(800, stream=stream, interval=1000) as progress:
        workers = [threading.Thread(target=lambda: [progress.done({"verdict": "pass"}) for _ in range(100)]) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert stream.getvalue() == "800 of 800 cases: 800 pass\n"


def test_formats_import_neither_pandas_nor_rich_nor_torch_until_used():
    script = (
        "import sys, kvcheck.report.csv, kvcheck.report.json, kvcheck.report.markdown, kvcheck.report.progress, kvcheck.report.table, "
        "kvcheck.search.threshold, kvcheck.search.combinations; "
        "print([name for name in ('pandas', 'rich', 'torch', 'numpy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip() == "[]"
