"""Package indexes as pip sees them: which versions there are, which of them this Python can use, and how one is installed.

pip is asked, never an index itself: addresses, logins, certificates, folders and constraints stay the user's own configuration.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from kvcheck.execute.errors import UsageError
from kvcheck.execute.launch import agent_environment

# An interpreter without pip gets ours; -c puts the current folder on the path, where anything may shadow a module of pip.
START = """
import sys
sys.path[:] = [entry for entry in sys.path if entry]
fallback = sys.argv.pop(1)
try:
    import pip
except ImportError:
    sys.path.append(fallback)
from pip._internal.cli.main import main
"""
RUN = START + "sys.argv[0] = 'pip'\nsys.exit(main())"

# `pip index versions` prints versions alone; what it prints them from has files, hashes and what was withdrawn.
LIST = (
    START
    + """
import hashlib, json
from pip._internal.index.package_finder import PackageFinder
where = sys.argv.pop(1)
files, refused = {}, {}
every, skipped = PackageFinder.find_all_candidates, getattr(PackageFinder, "_log_skipped_link", None)
def withdrawn(link):
    return getattr(link, "yanked_reason", None)
def sha(link):
    if link.is_file:
        with open(link.file_path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    return link.hash if link.hash_name == "sha256" else None
def found(self, *words):
    candidates = every(self, *words)
    for link, version in ((each.link, str(each.version)) for each in candidates):
        files[link.filename] = {"file": link.filename, "version": version, "sha256": sha(link), "yanked": withdrawn(link)}
    return candidates
def skip(self, link, *words):
    refused[link.filename] = {"file": link.filename, "reason": str(words[-1]), "yanked": withdrawn(link), "sha256": sha(link)}
    return skipped(self, link, *words)
PackageFinder.find_all_candidates = found
if skipped:
    PackageFinder._log_skipped_link = skip
sys.argv[0] = "pip"
code = main()
with open(where, "w") as file:
    json.dump({"files": list(files.values()), "refused": list(refused.values())}, file)
sys.exit(code)
"""
)
TIMEOUT = 1800.0
LIST_TIMEOUT = 300.0
SOURCE = "a source distribution, which only --build makes a wheel of"


class PipError(Exception):
    """What pip said when it could not do what it was asked; the text is for the user."""


@dataclass(frozen=True)
class Release:
    """One published version.

    Args:
        version: it.
        files: names of those that this Python can use; none where there is none.
        sha256: of them, in that order; None where the index does not say.
        yanked: why it was withdrawn ("" without a reason), or None.
        refused: why its other files cannot be used.
    """

    version: Version
    files: tuple[str, ...] = ()
    sha256: tuple[str | None, ...] = ()
    yanked: str | None = None
    refused: tuple[str, ...] = ()


class Pip:
    """pip of one interpreter.

    Args:
        python: whose pip is used, and whose versions and platforms count.
        words: options on where packages come from, as pip has them.
        build: whether a source distribution may be built.
    """

    def __init__(self, python: str, words: Sequence[str] = (), build: bool = False) -> None:
        self.python = python
        self._words = list(words)
        self._build = build
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def releases(self, package: str) -> list[Release]:
        """Every version there is, the oldest first, also those that this Python cannot use.

        Args:
            package: its name.

        Raises:
            PipError: pip found none, or could not be asked.
        """
        with tempfile.TemporaryDirectory(prefix="kvcheck-pip-") as folder:
            said = Path(folder) / "said.json"
            words = ["index", "versions", package, "--pre", *self._only(package), *self._words]
            done = self._call(LIST, [str(said), *words], folder, LIST_TIMEOUT)
            if not said.exists():
                raise PipError(f"pip of {self.python} could not list the versions of {package}: {last(done.stderr)}")
            data = json.loads(said.read_text())
        found = collect(package, data["files"], data["refused"], self._build)
        if not found:
            raise PipError(f"pip of {self.python} finds no version of {package}: {last(done.stderr)}")
        return found

    def install(self, package: str, version: Version, folder: Path) -> None:
        """Puts one version, without what it depends on, into a folder.

        Args:
            package: its name.
            version: it, and no other build of it.
            folder: new.

        Raises:
            PipError: what pip said.
        """
        # Arbitrary equality: == would take a local version such as 1.0+rocm7.2 for 1.0.
        words = ["install", "--quiet", "--no-compile", "--no-deps", "--target", str(folder), *self._only(package), *self._words]
        self._install([*words, f"{package}==={version}"], f"{package} {version}")

    def install_with_dependencies(self, package: str, version: Version, python: str) -> None:
        """Installs one version and what it depends on into an environment.

        Args:
            package: its name.
            version: it, and no other build of it.
            python: interpreter of the environment.

        Raises:
            PipError: what pip said.
        """
        words = ["install", "--quiet", "--no-compile", *self._only(package), *self._words, f"{package}==={version}"]
        self._install(words, f"{package} {version}", python)

    def close(self) -> None:
        """Ends what runs; nothing more is begun."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            _end(process)

    def _only(self, package: str) -> list[str]:
        return ["--disable-pip-version-check", "--no-input", *([] if self._build else ["--only-binary", package])]

    def _install(self, words: Sequence[str], what: str, python: str | None = None) -> None:
        with tempfile.TemporaryDirectory(prefix="kvcheck-pip-") as folder:
            done = self._call(RUN, words, folder, TIMEOUT, python)
        if done.returncode and os.strerror(errno.ENOSPC) in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # this says nothing of the version
        if done.returncode:
            raise PipError(f"pip did not install {what}: {last(done.stderr or done.stdout)}")

    def _call(
        self, code: str, words: Sequence[str], folder: str, timeout: float, python: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = agent_environment(dict(os.environ), 1)
        environment.pop("PYTHONPATH", None)  # an overlay is not what an installation is to build on
        command = [python or self.python, "-c", code, fallback(Path(folder)), *words]
        with self._lock:
            if self._closed:
                raise PipError("the bisect ended")
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                env=environment, start_new_session=True,
            )  # fmt: skip
            self._running.add(process)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise PipError(f"pip was not done within {timeout:g} s") from None
        finally:
            if process.poll() is None:
                _end(process)
            with self._lock:
                self._running.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def collect(package: str, files: Sequence[dict], refused: Sequence[dict], build: bool = False) -> list[Release]:
    """Releases from what pip found and what it left aside.

    Args:
        package: name that the files must have.
        files: {file, version, sha256, yanked} each.
        refused: {file, reason, sha256, yanked} each; files of other packages in the same folder are among them.
        build: whether a source distribution is as good as a wheel.
    """
    found: dict[Version, dict[str, list]] = {}
    for row in sorted(files, key=lambda row: row["file"]):
        entry = found.setdefault(Version(row["version"]), {"files": [], "refused": []})
        if build or row["file"].endswith(".whl"):
            entry["files"].append(row)
        else:
            entry["refused"].append({**row, "reason": SOURCE})
    for row in sorted(refused, key=lambda row: row["file"]):
        version = _version_of(package, row["file"])
        if version is not None and not any(row["file"] == each["file"] for each in found.get(version, {}).get("files", ())):
            found.setdefault(version, {"files": [], "refused": []})["refused"].append(row)
    return [_release(version, found[version]) for version in sorted(found)]


def fallback(folder: Path) -> str:
    """A folder in which kvcheck's own pip can be imported, and nothing else of its environment."""
    spec = importlib.util.find_spec("pip")
    if spec and spec.submodule_search_locations:
        (folder / "ours").mkdir(exist_ok=True)
        (folder / "ours" / "pip").symlink_to(list(spec.submodule_search_locations)[0])
    return str(folder / "ours")


def last(text: str) -> str:
    """What pip ends on: its last line with ERROR, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"error\b", line, re.IGNORECASE)]
    return (errors or lines or ["it said nothing"])[-1][:600]


def _release(version: Version, entry: dict[str, list]) -> Release:
    # pip lists withdrawn files among those that it leaves aside.
    withdrawn = [row for row in entry["refused"] if row["yanked"] is not None]
    files = entry["files"] or withdrawn
    return Release(
        version,
        tuple(row["file"] for row in files),
        tuple(row["sha256"] for row in files),
        withdrawn[0]["yanked"] if withdrawn and not entry["files"] else None,
        tuple(f"{row['file']}: {row['reason']}" for row in entry["refused"] if row not in files),
    )


def _version_of(package: str, file: str) -> Version | None:
    """The version of a file of this package; None for a file of another one, or of a form that is no longer used."""
    try:
        name, version = parse_wheel_filename(file)[:2] if file.endswith(".whl") else parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return version if name == canonicalize_name(package) else None


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def source_words(index: str | None, more: Sequence[str], links: Sequence[str], no_index: bool) -> list[str]:
    """Options on where packages come from, in pip's words; folders by their absolute path.

    Raises:
        UsageError: a folder of links is not there.
    """
    words = ["--index-url", index] if index else []
    words += [word for url in more for word in ("--extra-index-url", url)]
    for link in links:
        if "://" not in link:
            if not os.path.exists(os.path.expanduser(link)):
                raise UsageError(f"--find-links: expected a folder, a page or an address, got {link!r}, which is not there")
            link = os.path.abspath(os.path.expanduser(link))
        words += ["--find-links", link]
    return [*words, "--no-index"] if no_index else words
