"""From the options of `kvcheck bisect images` to its target."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass

from kvcheck.cases.plan import load_all
from kvcheck.execute.containers.find import find_engine
from kvcheck.execute.containers.launcher import provider_mounts
from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.options import UsageError
from kvcheck.flow.whatis import repositories
from kvcheck.flow.where import HERE, Where
from kvcheck.targets import listing, ranges
from kvcheck.targets.alike import Look, below
from kvcheck.targets.images import ImagesTarget, Inside
from kvcheck.targets.listing import Wanted
from kvcheck.targets.registry import Registry


@dataclass(frozen=True)
class Request:
    """What only images have, as typed.

    Args:
        wanted: the range.
        where: engine, its options, and what containers see of this machine.
        tls_verify: whether a registry's certificate is looked at.
        disk: GiB that pulled images may take, or None.
        swap: package to exchange between the neighbours, or None.
        repositories: PACKAGE=DIR.
    """

    wanted: Wanted
    where: Where = HERE
    tls_verify: bool = True
    disk: float | None = None
    swap: str | None = None
    repositories: tuple[str, ...] = ()


def target(request: Request, options: BisectOptions) -> ImagesTarget:
    """The target of a bisect of images.

    Raises:
        UsageError: an option cannot be followed.
        StartError: there is no container engine here.
    """
    wanted = request.wanted
    if wanted.source not in listing.SOURCES:
        raise UsageError(f"--from: expected one of {', '.join(listing.SOURCES)}, got {wanted.source!r}")
    if wanted.order not in (None, *ranges.ORDERS):
        raise UsageError(f"--order: expected one of {', '.join(ranges.ORDERS)}, got {wanted.order!r}")
    clones = {package: folder.resolve() for package, folder in repositories(request.repositories).items()}
    files = load_all(options.run.cases, options.overrides(options.run.providers))
    providers = list(dict.fromkeys(provider for file in files for provider in file.providers))
    where = request.where
    mounts = [*where.mounted(), *provider_mounts(providers)]
    look = Look(providers, [request.swap] if request.swap else [], clones, mounts)
    say = (lambda _: None) if options.run.quiet else lambda text: print(text, file=sys.stderr, flush=True)
    return ImagesTarget(
        wanted,
        find_engine(where.engine),
        Registry(request.tls_verify),
        Inside(where.engine_options or None, options.run.device, mounts, options.run.python, _once(say), tuple(where.again())),
        budget=None if request.disk is None else int(request.disk * 2**30),
        contents=look,
        collapse=look.keys and not options.every,
        swap=request.swap,
        below=functools.partial(below, cases=options.run.cases, providers=providers, clones=clones, more=_same(options)),
        say=say,
    )


def _same(options: BisectOptions) -> list[str]:
    """Words that make another bisect ask the same of its steps."""
    run = options.run
    words = [word for name, values in (("--set", run.sets), ("--only", run.only)) for value in values for word in (name, value)]
    plain = {"--device": run.device, "--python": run.python, "--seed": run.seed, "--repeat": run.repeat, "--precision": run.precision}
    plain |= {"--timeout": run.timeout, "--runs": options.runs, "--find": options.find}
    usual = {"--device": "auto", "--timeout": 120.0, "--runs": 1, "--find": "regression"}
    return words + [str(word) for name, value in plain.items() if value != usual.get(name) for word in (name, value)]


def _once(say):
    """Tells a text the first time: every step starts agents by the same words but for its image."""
    told: set[str] = set()

    def note(text: str) -> None:
        if not told:
            say(text)
        told.add(text)

    return note
