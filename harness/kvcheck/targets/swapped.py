"""One package of an image laid over another image's own: four runs tell whether the package or what is around it is to blame."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kvcheck.execute.containers.engine import Engine, Image, Mount, said
from kvcheck.execute.containers.run_in import find_python, run_in
from kvcheck.execute.errors import ExecuteError
from kvcheck.targets.base import Unavailable

TIMEOUT = 1800.0
COPIED = "/kvcheck/copied"
FIND = r"""
import importlib.util, json, os, shutil, sys
name, to = sys.argv[1:]
spec = importlib.util.find_spec(name)
if spec is None:
    print(json.dumps(None)); sys.exit()
folders = list(spec.submodule_search_locations or ())
path = os.path.realpath(folders[0] if folders else spec.origin)
if os.path.isdir(path):
    shutil.copytree(path, os.path.join(to, "package"), symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
else:
    shutil.copyfile(path, os.path.join(to, "package"))
for folder, names, files in os.walk(to):
    for one in names + files:
        if not os.path.islink(os.path.join(folder, one)):
            os.chmod(os.path.join(folder, one), os.stat(os.path.join(folder, one)).st_mode | 0o444 | (0o111 if one in names else 0))
print(json.dumps(path))
"""


class Swap:
    """Copies a package out of images and lays it over others'.

    Args:
        engine: that has the images.
        package: import name.
        mounts: what containers see of this machine.
    """

    def __init__(self, engine: Engine, package: str, mounts: Sequence[Mount] = ()) -> None:
        self.package = package
        self._engine = engine
        self._mounts = mounts
        self._folder: Path | None = None
        self._taken: dict[str, tuple[Path, str]] = {}

    def mount(self, base: Image, giver: Image) -> Mount:
        """The package of one image, where another one has its own; read-only.

        Raises:
            Unavailable: one of them has no such package, or it could not be copied.
        """
        _, target = self._take(base)
        source, _ = self._take(giver)
        return Mount(source, target)

    def close(self) -> None:
        """Removes the copies."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, image: Image) -> tuple[Path, str]:
        """A copy of an image's package, and where it lies in the image."""
        if image.id in self._taken:
            return self._taken[image.id]
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="kvcheck-swap-"))
        to = self._folder / str(len(list(self._folder.iterdir())))
        to.mkdir()
        to.chmod(0o1777)
        try:
            python = find_python(self._engine, image.id, mounts=self._mounts)
            argv = [python, "-c", FIND, self.package, COPIED]
            done = run_in(self._engine, image.id, argv, mounts=[*self._mounts, Mount(to, COPIED, True)], timeout=TIMEOUT)
            if done.returncode:
                raise Unavailable(f"{self.package} could not be taken from {image.reference}: {said(done)}")
            path = json.loads(done.stdout.decode().strip().splitlines()[-1])
        except (ExecuteError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            raise Unavailable(f"{self.package} could not be looked for in {image.reference}: {error}") from None
        if path is None:
            raise Unavailable(f"{image.reference} has no package {self.package}")
        self._taken[image.id] = to / "package", path
        return self._taken[image.id]


def convict(package: str, answers: Sequence[str]) -> str:
    """What four answers say.

    Args:
        package: that was exchanged.
        answers: good, bad or unknown, of the good image, the bad one, the good one with the bad one's package, and the reverse.
    """
    good, bad, with_bad, with_good = answers
    if (good, bad) != ("good", "bad"):
        return f"Nothing is said of {package}: the two images themselves no longer answer good and bad."
    told = {
        ("bad", "good"): f"{package} is convicted: the fault goes where the package goes.",
        ("good", "bad"): f"The image is convicted, not {package}: the fault stays where it was when the package is exchanged.",
        ("bad", "bad"): f"Neither alone is convicted: the bad image's {package} is enough to break the good image, "
        "and the bad image stays broken with the good one's.",
        ("good", "good"): f"Neither alone is convicted: the fault needs the bad image's {package} and the bad image around it.",
        (
            "bad",
            "unknown",
        ): f"{package} of the bad image breaks the good image; the reverse gave no answer, so the image may be to blame as well.",
        ("unknown", "good"): f"The good image's {package} mends the bad image; the reverse gave no answer.",
        ("good", "unknown"): f"{package} of the bad image alone does not break the good image; the reverse gave no answer.",
        ("unknown", "bad"): f"The good image's {package} does not mend the bad image; the reverse gave no answer.",
    }
    return told.get((with_bad, with_good), f"Nothing is said of {package}: neither exchange gave an answer.")
