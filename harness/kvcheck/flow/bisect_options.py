"""What a bisect was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from kvcheck.cases.overrides import Overrides
from kvcheck.flow.options import Options

FORMATS = ("markdown", "json")


@dataclass(frozen=True)
class BisectOptions:
    """Options that every target has.

    Attributes:
        run: what every step does, as `kvcheck run` has it; `out`, `resume`, `quiet` and `words` are the bisect's own.
        find: "regression" or "fix".
        runs: runs in fresh processes that a good answer takes.
        unknown_limit: most candidates without an answer between two with one before the search gives up.
        every: whether candidates of the same package content are tried each.
        dry_run: whether the plan is shown and nothing run.
        deep: whether the first command that looks inside the difference is run afterwards.
        formats: what is printed: markdown, json.
    """

    run: Options
    find: str = "regression"
    runs: int = 1
    unknown_limit: int = 16
    every: bool = False
    dry_run: bool = False
    deep: bool = False
    formats: tuple[str, ...] = ("markdown",)

    def overrides(self, providers: tuple[str, ...]) -> Overrides:
        """What the options change in the case files, with these providers."""
        run = self.run
        return Overrides(run.sets, providers, run.coverage, run.seed, run.repeat, run.fresh, run.precision)
