"""apptainer and singularity: no daemon, no root, the image a file; what a container runs is an ordinary child of its client.

Built after its documentation (apptainer 1.0 to 1.4, `apptainer exec`); it was not run by us.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvcheck.execute.containers.engine import Engine, Image, ImageMissing, Mount, PullFailed, said

USABLE_TIMEOUT = 30.0
"""Seconds the program gets to say its version."""

FORCED = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""Variables of the host's that would reach into the image: an apptainer container gets the host's environment."""


class Apptainer(Engine):
    """The apptainer command line. An image is a .sif file, a sandbox folder, or a name with `docker://` before it."""

    name = "apptainer"
    keeps_containers = False

    def problem(self) -> str | None:
        """Why the program does not run; None when it does."""
        answer = self.call("--version", timeout=USABLE_TIMEOUT)
        return None if answer.returncode == 0 else said(answer)

    def command(
        self,
        image: str,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] = {},
        name: str | None = None,
        labels: Mapping[str, str] = {},
        devices: Sequence[str] = (),
        stdin: bool = True,
    ) -> list[str]:
        """As `Engine.command`. It has neither names nor labels: what it runs ends with its client's process group."""
        words = [self.path, "--quiet", "exec", "--no-home", "--writable-tmpfs", "--net", "--network=none", "--pwd", "/", *devices]
        words += [word for mount in mounts for word in ("--bind", str(mount))]
        words += [word for key, value in variables.items() if key != "HOME" for word in ("--env", f"{key}={value}")]
        return [*words, image_name(image), *argv]

    def environment(self) -> dict[str, str]:
        """The host's variables without those that would shadow what the image has."""
        return {**{name: value for name, value in os.environ.items() if name not in FORCED}, "PYTHONNOUSERSITE": "1"}

    def inspect(self, image: str) -> Image:
        """What is known of an image file; its id is a hash of name, size and time, since reading 20 GB takes minutes."""
        name = image_name(image)
        if "://" in name:
            return Image(image, id=name, digest=image.partition("@")[2] or None)
        path = Path(name)
        if not path.exists():
            raise ImageMissing(f"{self.name}: there is no image file {image}")
        facts = path.stat()
        mark = hashlib.sha256(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode()).hexdigest()
        return Image(name, id=f"file:{mark}", tags=(name,), labels=self._labels(name), size=facts.st_size if path.is_file() else None)

    def images(self) -> list[Image]:
        """None: image files are wherever their owner put them."""
        return []

    def pull(self, reference: str, report: Callable[[str], None] | None = None, stop: threading.Event | None = None) -> Image:
        """Checks a name: apptainer fetches when it runs the image, into its own cache."""
        if "://" not in image_name(reference):
            raise PullFailed(f"{self.name}: there is no image file {reference}")
        return self.inspect(reference)

    def remove(self, image_id: str) -> None:
        """Does nothing: image files are their owner's."""

    def _labels(self, name: str) -> dict[str, str]:
        answer = self.call("inspect", "--json", "--labels", name)
        try:
            return dict(json.loads(answer.stdout)["data"]["attributes"]["labels"])
        except (ValueError, KeyError, TypeError):
            return {}


class Singularity(Apptainer):
    """singularity, which apptainer was called before, and whose command line it kept."""

    name = "singularity"


def image_name(image: str) -> str:
    """An image as apptainer takes it: a file or folder as it is, a registry's name with docker:// before it."""
    if "://" in image or image.endswith((".sif", ".img", ".sqsh")) or os.path.exists(os.path.expanduser(image)):
        return os.path.abspath(os.path.expanduser(image)) if "://" not in image else image
    return f"docker://{image}"
