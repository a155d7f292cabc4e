"""A range of published versions of one package, each laid over the environment that has everything else."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from kvcheck.execute.errors import ExecuteError
from kvcheck.execute.launch import agent_environment
from kvcheck.targets import contents
from kvcheck.targets.base import Candidate, Place, RangeError, Unavailable
from kvcheck.targets.indexes import Pip, PipError, Release
from kvcheck.targets.versions import Wanted, chosen, key_of, variant_of

DONE = "kvcheck-installed"
"""File in the folder of a version that was installed to its end."""

SITES = "import site, sys; print('\\n'.join([*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]))"


class WheelsTarget:
    """The versions of a range.

    Args:
        wanted: the range.
        pip: of the interpreter that the cases run in.
        cache: folder where versions are kept from one bisect to the next; None keeps them in the bisect's own.
    """

    kind = "wheels"

    def __init__(self, wanted: Wanted, pip: Pip, cache: Path | None = None) -> None:
        self._wanted = wanted
        self._pip = pip
        self._cache = cache
        self._notes: list[str] = []
        self._releases: dict[str, Release] = {}
        self._made: dict[str, Future[Path]] = {}
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="kvcheck-wheels")

    def open(self, folder: Path) -> None:
        """Takes the bisect's folder, and clears up what a killed kvcheck left half done."""
        self._cache = self._cache or folder / "wheels"
        for left in self._cache.glob(".new-*-*"):
            if not os.path.exists(f"/proc/{left.name.split('-')[1]}"):
                shutil.rmtree(left, ignore_errors=True)

    def candidates(self) -> Sequence[Candidate]:
        """Every version from one end to the other, the oldest first.

        Raises:
            RangeError: an end is not there, the ends are builds for different stacks, or in the wrong order.
        """
        try:
            releases = self._pip.releases(self._wanted.package)
        except PipError as error:
            raise RangeError(str(error)) from None
        found, self._notes = chosen(releases, self._wanted)
        self._releases = {key_of(release): release for release in found}
        return [Candidate(key_of(release), str(release.version), variant=variant_of(release.version)) for release in found]

    def restore(self, candidates: Sequence[Candidate]) -> None:
        """Takes the candidates of a bisect that is gone on with."""
        self._releases = {candidate.key: Release(Version(candidate.label)) for candidate in candidates}

    def notes(self) -> Sequence[str]:
        """Versions that are left out, and why."""
        return self._notes

    @contextlib.contextmanager
    def place(self, candidate: Candidate) -> Iterator[Place]:
        """The environment with this version in it.

        Raises:
            Unavailable: there is no wheel of it for this Python, it cannot be installed, or not be found where it was installed.
        """
        folder = self._ready(candidate)
        yield Place(python=self._python(folder), variables=self._variables(folder), facts=self._facts(candidate, folder))

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """Installs the next ones while the current one runs."""
        for candidate in candidates:
            self._begin(candidate)

    def contents(self, candidate: Candidate) -> Mapping[str, str]:
        """What an import finds with this version in place."""
        folder = self._ready(candidate)
        return contents.summary(self._look(folder, only=False))

    def deeper(self, good: Candidate, bad: Candidate) -> Sequence[Sequence[str]]:
        """A bisect of the commits between two versions; without a clone, or where a commit is not known, with places to fill in."""
        module, commits = self._wanted.module or self._wanted.package, []
        for candidate in (good, bad):
            found = None
            with contextlib.suppress(Unavailable, ExecuteError):
                folder = self._ready(candidate)
                module = self._module(folder)
                commit = self._look(folder)["packages"][module]["commit"]
                found = commit["commit"] or (commit["first"] if commit["sure"] == "candidates" else None)
            commits.append(found or f"<commit of {candidate.label}>")
        clone = str(self._wanted.repository) if self._wanted.repository else f"<clone of {self._wanted.package}>"
        find = ["--find", self._wanted.find] if self._wanted.find != "regression" else []
        return [["bisect", "git", clone, "--good", commits[0], "--bad", commits[1], *find, *self._wanted.again]]

    def plan(self) -> Mapping[str, Any]:
        """How many versions have a wheel for this Python."""
        usable = sum(bool(release.files) for release in self._releases.values())
        return {"versions": len(self._releases), "with a wheel for this Python": usable, "python": self._pip.python}

    def close(self) -> None:
        """Ends what is being installed. What was installed stays in its folder."""
        self._pip.close()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def _begin(self, candidate: Candidate) -> Future[Path]:
        with self._lock:
            if candidate.key not in self._made:
                self._made[candidate.key] = self._workers.submit(self._install, candidate)
            return self._made[candidate.key]

    def _ready(self, candidate: Candidate) -> Path:
        try:
            return self._begin(candidate).result()
        except PipError as error:
            raise Unavailable(str(error)) from None

    def _install(self, candidate: Candidate) -> Path:
        """The folder of a version, installed now or before."""
        assert self._cache is not None, "open comes first"
        release = self._releases[candidate.key]
        mode = "env" if self._wanted.with_deps else "files"
        tag = hashlib.sha256(f"{self._pip.python} {candidate.key} {mode}".encode()).hexdigest()[:12]
        folder = self._cache / f"{canonicalize_name(self._wanted.package)}-{candidate.label}-{tag}"
        if (folder / DONE).exists():
            return folder
        if not release.files and release.refused:
            raise PipError(f"{self._wanted.package} {release.version} has no wheel for this Python: {'; '.join(release.refused)[:600]}")
        shutil.rmtree(folder, ignore_errors=True)
        self._cache.mkdir(parents=True, exist_ok=True)
        if self._wanted.with_deps:  # an environment cannot be moved
            self._pip.install_with_dependencies(self._wanted.package, release.version, self._environment(folder))
            (folder / DONE).touch()
            return folder
        # Beside its place first: the pip of a kvcheck that was killed may still be writing, and another bisect may share the folder.
        with tempfile.TemporaryDirectory(prefix=f".new-{os.getpid()}-", dir=self._cache, ignore_cleanup_errors=True) as made:
            self._pip.install(self._wanted.package, release.version, Path(made) / "files")
            (Path(made) / "files" / DONE).touch()
            try:
                os.rename(Path(made) / "files", folder)
            except OSError:
                if not (folder / DONE).exists():  # another one was first
                    raise
        return folder

    def _environment(self, folder: Path) -> str:
        """An environment of its own that sees the packages of the base one; its interpreter."""
        base = self._pip.python
        for command in ([base, "-m", "venv", "--without-pip", str(folder)], [base, "-c", SITES]):
            done = subprocess.run(
                command, env=agent_environment(dict(os.environ), 1), cwd=os.sep, capture_output=True, text=True, timeout=300, check=False
            )
            if done.returncode:
                raise PipError(f"no environment could be made from {base}: {done.stderr.strip()[-500:]}")
        sites = [line for line in done.stdout.splitlines() if os.path.isdir(line)]
        lines = [f"import site; site.addsitedir({site!r})" for site in sites]
        own = next(folder.glob("lib/python3*/site-packages"))
        (own / "kvcheck_base.pth").write_text("\n".join(lines) + "\n")
        return str(folder / "bin" / "python")

    def _python(self, folder: Path) -> str:
        return str(folder / "bin" / "python") if self._wanted.with_deps else self._pip.python

    def _variables(self, folder: Path) -> dict[str, str]:
        if self._wanted.with_deps:
            return {}
        return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

    def _module(self, folder: Path) -> str:
        """The name that the package is imported under.

        Raises:
            Unavailable: its files say nothing of the kind.
        """
        if self._wanted.module:
            return self._wanted.module
        root = next(folder.glob("lib/python3*/site-packages"), folder) if self._wanted.with_deps else folder
        tops = modules(root, self._wanted.package)
        if not tops:
            raise Unavailable(f"{self._wanted.package} was installed, and no module of it was found; name one with --import")
        wanted = canonicalize_name(self._wanted.package)
        return min(tops, key=lambda top: (canonicalize_name(top) != wanted, canonicalize_name(top) not in wanted.split("-"), top))

    def _look(self, folder: Path, only: bool = True) -> dict[str, Any]:
        module = self._module(folder)
        found = contents.ask_python(self._python(folder), [module], self._variables(folder), only)
        contents.settle(found, {module: self._wanted.repository} if self._wanted.repository else {})
        return found

    def _facts(self, candidate: Candidate, folder: Path) -> dict[str, str]:
        """What is really in place: an editable install or a path of the user's may come before what was installed here.

        Raises:
            Unavailable: it is not what an import takes.
        """
        try:
            module = self._module(folder)
            package = self._look(folder)["packages"].get(module)
        except ExecuteError as error:
            raise Unavailable(str(error)) from None
        if not package or not package["file"]:
            why = "; ".join(package["problems"]) if package else "it has no such module"
            raise Unavailable(f"{self._wanted.package} {candidate.label} was installed, but {module} cannot be imported: {why}")
        if not os.path.realpath(package["file"]).startswith(os.path.realpath(folder) + os.sep):
            raise Unavailable(f"an import of {module} takes {package['file']}, not the version that was installed in {folder}")
        facts = {"module": f"{module} {package['version'] or ''}".strip(), "content": package["digest"][:12]}
        if package["commit"]["commit"]:
            facts["commit"] = f"{package['commit']['commit'][:10]} ({package['commit']['sure']})"
        return facts


def modules(root: Path, package: str) -> list[str]:
    """Top-level modules that a distribution brought into a folder, by its own list of files."""
    found = set()
    for info in root.glob("*.dist-info"):
        if canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) == canonicalize_name(package):
            for line in (info / "RECORD").read_text(errors="replace").splitlines() if (info / "RECORD").exists() else ():
                match = re.match(r'"?([A-Za-z_]\w*)(?:/__init__\.py|\.py|\.[\w-]+\.so)[",]', line)
                found |= {match.group(1)} if match else set()
    return sorted(found)
