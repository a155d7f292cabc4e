"""What a case file says once it is understood, and one case of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent import specs
from kvcheck.cases.values import case_id


@dataclass(frozen=True)
class Factor:
    """One dimension of the sweep: a single axis, or several that are zipped.

    Args:
        axes: names, in file order.
        values: one tuple an entry, one value an axis.
        lines: the line of every entry.
    """

    axes: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    lines: tuple[int | None, ...]

    @property
    def zipped(self) -> bool:
        """Whether several axes go together here."""
        return len(self.axes) > 1


@dataclass(frozen=True)
class Rule:
    """A point of `include` (one value an axis) or a rule of `exclude` (a tuple of values an axis)."""

    entries: dict[str, Any]
    line: int | None
    key: str


@dataclass(frozen=True)
class Threshold:
    """Where the file says the flip is looked for; both ends included."""

    axis: str
    low: int
    high: int
    at: dict[str, Any]
    line: int | None


@dataclass(frozen=True)
class CaseFile:
    """One case file (one YAML document), its names and single values checked against the op's SPEC.

    Args:
        ref: what names it on the command line: the built-in's name, or the path as given.
        path: the file it was read from.
        fixed: the one value of every axis named in `fixed` or `inputs`.
        places: for every axis the file names, the key that holds it, such as `axes.context_len`.
        lines: for every axis the file names, the line.
        replaced: axes that `--set` replaced.
    """

    ref: str
    path: str
    line: int
    name: str
    op: str
    why: str
    providers: tuple[str, ...]
    fixed: dict[str, Any]
    factors: tuple[Factor, ...]
    include: tuple[Rule, ...] = ()
    exclude: tuple[Rule, ...] = ()
    coverage: tuple[str, int | None] = ("full", None)
    threshold: Threshold | None = None
    run_unsupported: bool = False
    precision: str | None = None
    seed: int = 0
    repeat: int = 1
    fresh: int = 1
    relations: tuple[str, ...] = ()
    places: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int | None] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()

    @property
    def swept(self) -> tuple[str, ...]:
        """The swept axes, in file order."""
        return tuple(axis for factor in self.factors for axis in factor.axes)

    def base(self) -> dict[str, Any]:
        """Every axis of the op: its default, or what the file fixes."""
        return {**{name: axis.default for name, axis in specs.axes(self.op).items()}, **self.fixed}

    def values_of(self, axis: str) -> tuple[Any, ...]:
        """Every value that the sweep gives an axis."""
        for factor in self.factors:
            if axis in factor.axes:
                return tuple(entry[factor.axes.index(axis)] for entry in factor.values)
        return (self.base().get(axis),)

    def case(self, point: dict[str, Any], provider: str) -> Case:
        """One case: the point's axes over the file's; the id names the swept axes and whatever else the point holds."""
        first = {axis: self.values_of(axis)[0] for axis in self.swept if axis not in point}
        swept = {axis: {**first, **point}[axis] for axis in self.swept}
        return Case(
            id=case_id(self.name, {**swept, **point}),
            case_file=self.ref,
            op=self.op,
            provider=provider,
            params={**self.base(), **first, **point},
            seed=self.seed,
            run_unsupported=self.run_unsupported,
            precision=self.precision,
            repeat=self.repeat,
            fresh=self.fresh,
            relations=self.relations,
        )


@dataclass(frozen=True)
class Case:
    """One point of a sweep for one provider.

    Args:
        id: `NAME[axis=value,...]`, the swept axes in file order.
        params: a value for every axis of the op's SPEC; `auto` and null are left to the agent.
        repeat: how often the kernel is called in one process.
        fresh: in how many new processes.
        diagnose: whether the fault behind a failure is looked for.
        relations: checks without an oracle, of those that the op has.
    """

    id: str
    case_file: str
    op: str
    provider: str
    params: dict[str, Any]
    seed: int = 0
    run_unsupported: bool = False
    precision: str | None = None
    repeat: int = 1
    fresh: int = 1
    relations: tuple[str, ...] = ()
    diagnose: bool = False

    @property
    def variables(self) -> dict[str, str | None]:
        """Variables of the environment its agent is started in; None takes one away."""
        return {axis.removeprefix("env."): value for axis, value in self.params.items() if axis.startswith("env.")}

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked for beside params and seed, as far as it is not the default."""
        plain = {"run_unsupported": False, "precision": None, "repeat": 1, "fresh": 1, "relations": ()}
        given = {name: getattr(self, name) for name, default in plain.items() if getattr(self, name) != default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    @property
    def row(self) -> str:
        """`CASE_ID@PROVIDER`, which names one row of a run."""
        return f"{self.id}@{self.provider}"

    def request(self) -> dict[str, Any]:
        """The message that asks an agent to run the case."""
        return {
            "type": "case",
            "id": self.id,
            "case_file": self.case_file,
            "op": self.op,
            "provider": self.provider,
            "params": dict(self.params),
            "seed": self.seed,
            "run_unsupported": self.run_unsupported,
            "precision": self.precision,
            "repeat": self.repeat,
            "fresh": self.fresh,
            "relations": list(self.relations),
            "diagnose": self.diagnose,
        }
