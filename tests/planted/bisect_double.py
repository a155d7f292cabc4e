"""`kvcheck` with one more bisect: a range written down in a JSON file, its candidates answered by `agent_double`, in milliseconds.

The file is a list of candidates: `label`, `key` (the label's without one), and what happens: `act` and `start` as in `agent_double`,
`device`, `unavailable` (the text of it), `turns` (a list of acts, one for each agent that is started, over and over), `contents`,
`providers` (real ones, run by the real agent), `facts`. What was asked of the target goes to FILE.log, a line each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import bisect, main
from kvcheck.cli import options as o
from kvcheck.cli.bisect_options import Bad, Common, Good, bisect_command
from kvcheck.targets.base import Candidate, Place, RangeError, Unavailable

DOUBLE = Path(__file__).with_name("agent_double.py")
File = Annotated[Path, typer.Argument(metavar="FILE")]
Swap = Annotated[bool, typer.Option("--swap")]


class Launcher:
    """Starts the double instead of an agent."""

    def __init__(self, variables):
        self.variables = variables

    def launch(self, arguments, mark, variables):
        given = {**os.environ, **self.variables, **{k: v for k, v in variables.items() if v is not None}, "KVCHECK_AGENT": mark}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-S", str(DOUBLE)], stdin=pipe, stdout=pipe, stderr=pipe, env=given, start_new_session=True, bufsize=0
        )

    def end(self, mark):
        pass

    def close(self):
        pass


class Target:
    """The range in a file."""

    kind = "double"
    extra_title = "Swapped package *double*"

    def __init__(self, file, good, bad, swap):
        self.file, self.ends, self.swap = file, (good, bad), swap
        self.listed = json.loads(file.read_text())
        self.entries = {entry.get("key", entry["label"]): entry for entry in self.listed}

    def log(self, *words):
        with open(f"{self.file}.log", "a") as log:
            log.write(" ".join(map(str, words)) + "\n")

    def open(self, folder):
        (folder / "double.json").write_text("{}")
        self.log("open")

    def candidates(self):
        self.log("candidates")
        labels = [entry["label"] for entry in self.listed]
        for end in self.ends:
            if end not in labels:
                raise RangeError(f"--good or --bad: expected one of {', '.join(labels)}, got {end!r}")
        found = [
            Candidate(entry.get("key", entry["label"]), entry["label"], entry.get("date")) for entry in json.loads(self.file.read_text())
        ]
        return found

    def notes(self):
        return ("2 nights have no image, which is usual",)

    @contextmanager
    def place(self, candidate):
        self.log("place", candidate.label)
        yield self._place(candidate.key, self.entries[candidate.key])

    def _place(self, key, entry):
        if "raises" in entry:
            raise OSError(entry["raises"], os.strerror(entry["raises"]))
        if "unavailable" in entry:
            raise Unavailable(entry["unavailable"])
        time.sleep(entry.get("sleep", 0))
        facts = {**entry.get("facts", {}), **({"contents_key": entry["contents"]} if "contents" in entry else {})}
        if "providers" in entry:
            return Place(providers=tuple(entry["providers"]), facts=facts)
        act = entry.get("act", [])
        if "turns" in entry:
            count = Path(f"{self.file}.{key}.turn")
            turn = int(count.read_text()) if count.exists() else 0
            variables = {}

            def launcher(folder):
                nonlocal turn
                variables["DOUBLE_ACT"] = json.dumps(entry["turns"][turn % len(entry["turns"])])
                turn += 1
                count.write_text(str(turn))
                return Launcher(dict(variables))

            return Place(launcher, facts=facts)
        return Place(
            lambda folder: Launcher({"DOUBLE_START": entry.get("start", ""), "DOUBLE_DEVICE": entry.get("device", "cpu")}),
            variables={"DOUBLE_ACT": json.dumps(act)},
            facts=facts,
        )

    def ahead(self, candidates):
        self.log("ahead", *(candidate.label for candidate in candidates))

    def contents(self, candidate):
        return self.entries[candidate.key].get("packages", {"double": f"1.{candidate.label}", "torch": "2.9"})

    def deeper(self, good, bad):
        return [("bisect", "double", str(self.file), "smoke", "--good", good.label, "--bad", bad.label), ("list", "ops")]

    def extra(self, good, bad):
        return [(f"{good.label} with {bad.label}'s package", self.place(bad))] if self.swap else []

    def conclude(self, answers):
        return f"The package is the culprit: {sorted(answers.values())}."

    def plan(self):
        return {"bytes to pull": 3 << 30, "here already": "1 of 2"}

    def close(self):
        self.log("close")


@bisect_command
def double(file: File, cases: o.Cases, good: Good, bad: Bad, swap: Swap = False, *, common: Common) -> int:
    """Walks a range that is written down."""
    from kvcheck.flow.bisect import bisect as flow

    return flow(Target(file, good, bad, swap), common(cases))


bisect.app.command("double")(double)
if __name__ == "__main__":
    main.app()
