"""A range that is written down, and `kvcheck bisect` over it with agents that a double plays."""

from __future__ import annotations

import functools
import importlib.util
import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

DOUBLE = Path(__file__).parents[1] / "planted" / "bisect_double.py"
CASE = """
schema: 1
name: top
op: topk_per_row
providers: [torch_eager]
fixed: {batch: 1, topk: 8}
axes: {context_len: [64, 128]}
"""
THRESHOLD = CASE + "threshold: {axis: context_len, range: [1, 128]}\n"
WRONG = ["load", "inputs", "kernel", "verdict:mismatch"]
OTHER = ["kernel", "verdict:nonfinite"]


class Range:
    """A range in a file, and `kvcheck bisect double` over it."""

    def __init__(self, folder, patch, capture):
        self.folder, self.file, self.patch, self.capture = folder, folder / "range.json", patch, capture
        (folder / "case.yaml").write_text(CASE)

    def write(self, text, **special):
        """g and b by letter; `special` replaces entries by label."""
        entries = [{"label": f"n{i:02d}", "act": WRONG if letter == "b" else []} for i, letter in enumerate(text)]
        self.entries = [{**entry, **special.get(entry["label"], {})} for entry in entries]
        self.file.write_text(json.dumps(self.entries))
        return self

    def words(self, *more, out="o", good=None, bad=None):
        ends = ["--good", good or self.entries[0]["label"], "--bad", bad or self.entries[-1]["label"]]
        return [sys.executable, str(DOUBLE), "bisect", "double", "range.json", "case.yaml", *ends, "--out", out, "--timeout", "20", *more]

    def run(self, *more, code=0, **options):
        """The command in this process: what a process takes to start is more than the bisect itself."""
        words = self.words(*more, **options)[2:]
        self.patch.chdir(self.folder)
        self.patch.setattr(sys, "argv", ["kvcheck", *words])
        self.capture.readouterr()
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ended = double_module().main.app(words, standalone_mode=False)
        finally:
            signal.signal(signal.SIGTERM, handler)
        out, err = self.capture.readouterr()
        assert (ended or 0) == code, (out, err)
        return self.result(SimpleNamespace(stdout=out, stderr=err), options.get("out", "o"))

    def result(self, done, out="o"):
        state = self.folder / out / "bisect.json"
        data = json.loads(state.read_text()) if state.is_file() else None
        found = (data or {}).get("result") or {}
        return SimpleNamespace(out=done.stdout, err=done.stderr, data=data, found=found, steps=(data or {}).get("steps", []))

    def log(self, word):
        return [line.split()[1] for line in Path(f"{self.file}.log").read_text().splitlines() if line.startswith(word + " ")]


@functools.cache
def double_module():
    """`kvcheck` with the command that walks a written range."""
    spec = importlib.util.spec_from_file_location("bisect_double", DOUBLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(done):
    return [(step["label"], step["why"], step["kind"]) for step in done.steps]
