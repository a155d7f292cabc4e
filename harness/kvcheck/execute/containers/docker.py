"""docker and podman: two programs with one command line, and where they differ."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kvcheck.execute.containers.engine import PULL_TIMEOUT, Engine, Image, ImageMissing, Mount, PullFailed, repository, said
from kvcheck.execute.containers.owner import LABEL, is_dead
from kvcheck.execute.errors import StartError

USABLE_TIMEOUT = 30.0
"""Seconds an engine gets to say that it is there."""

NOT_HERE = ("no such image", "image not known", "no such object", "not found")


class Docker(Engine):
    """The docker command line, with whatever daemon it is set to talk to."""

    name = "docker"

    def problem(self) -> str | None:
        """Why no daemon answers; None when one does."""
        answer = self.call("version", "--format", "{{.Server.Version}}", timeout=USABLE_TIMEOUT)
        return None if answer.returncode == 0 and answer.stdout.strip() else said(answer)

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
        """As `Engine.command`."""
        words = [self.path, "run", "--rm", *(["--interactive"] if stdin else []), "--network=none", "--workdir=/", *self._log_words()]
        words += ["--name", name] if name else []
        words += [word for key, value in labels.items() for word in ("--label", f"{key}={value}")]
        words += [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
        words += [word for mount in mounts for word in ("--volume", str(mount))]
        words += self._security_words() + list(devices)
        return [*words, "--entrypoint", argv[0], image.removeprefix("sha256:"), *argv[1:]]

    def inspect(self, image: str) -> Image:
        """What is known of a local image."""
        answer = self.call("image", "inspect", image)
        if answer.returncode != 0:
            reason = said(answer)
            if any(text in reason.lower() for text in NOT_HERE):
                raise ImageMissing(f"{self.name} has no image {image} on this machine: {reason}")
            raise StartError(f"{self.name} cannot look at the image {image}: {reason}", final=True)
        return read_image(image, json.loads(answer.stdout)[0])

    def images(self) -> list[Image]:
        """The images on this machine, the newest first."""
        answer = self.call("images", "--quiet", "--no-trunc")
        ids = list(dict.fromkeys(answer.stdout.split()))
        if answer.returncode != 0 or not ids:
            return []
        answer = self.call("image", "inspect", *ids)
        found = [read_image("", data) for data in json.loads(answer.stdout or "[]")]
        return sorted(found, key=lambda image: image.created or "", reverse=True)

    def pull(self, reference: str, report: Callable[[str], None] | None = None, stop: threading.Event | None = None) -> Image:
        """Fetches an image."""
        if report:
            report(f"fetching {reference}: {self.path} pull --quiet {reference}")
        answer = self.call_until(stop or threading.Event(), "pull", "--quiet", reference, timeout=PULL_TIMEOUT)
        if answer.returncode != 0:
            raise PullFailed(f"{self.name} could not fetch {reference}: {said(answer)}")
        return self.inspect(reference)

    def remove(self, image_id: str) -> None:
        """Removes an image that no container uses."""
        answer = self.call("rmi", image_id.removeprefix("sha256:"))
        if answer.returncode != 0:
            raise StartError(f"{self.name} did not remove the image {image_id}: {said(answer)}")

    def remove_container(self, name: str) -> None:
        """Ends and removes a container."""
        self.call("rm", "--force", "--volumes", *self._at_once(), name)

    def remove_own(self, owner: str) -> None:
        """Ends and removes every container of an identity."""
        names = self.call("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={owner}").stdout.split()
        if names:
            self.call("rm", "--force", "--volumes", *self._at_once(), *names)

    def remove_leftovers(self) -> list[str]:
        """Ends and removes the containers of dead kvchecks."""
        ids = self.call("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}").stdout.split()
        if not ids:
            return []
        answer = self.call("inspect", "--type", "container", "--format", '{{.Name}} {{index .Config.Labels "' + LABEL + '"}}', *ids)
        pairs = [line.partition(" ") for line in answer.stdout.splitlines()]
        dead = [name.strip("/") for name, _, owner in pairs if is_dead(owner.strip())]
        if dead:
            self.call("rm", "--force", "--volumes", *self._at_once(), *dead)
        return dead

    def _at_once(self) -> list[str]:
        return []

    def _log_words(self) -> list[str]:
        return ["--log-driver=none"]  # a kernel may print gigabytes, and the client has it all already

    def _security_words(self) -> list[str]:
        """On SELinux a container sees no folder of the host's; its labels are not changed, since the folders are the user's."""
        return ["--security-opt=label=disable"] if os.path.exists("/sys/fs/selinux/enforce") else []


class Podman(Docker):
    """podman, with root or without."""

    name = "podman"

    def problem(self) -> str | None:
        """Why podman cannot use its store; None when it can."""
        answer = self.call("info", "--format", "{{.Store.GraphRoot}}", timeout=USABLE_TIMEOUT)
        return None if answer.returncode == 0 else said(answer)

    def _at_once(self) -> list[str]:
        return ["--time", "0"]


def read_image(reference: str, data: Mapping[str, Any]) -> Image:
    """An image from what `image inspect` says of it.

    Args:
        reference: as it was asked for; "" takes its first tag, else its id.
        data: one entry of the engine's answer.
    """
    config = data.get("Config") or {}
    identifier = "sha256:" + str(data["Id"]).removeprefix("sha256:")
    tags = tuple(data.get("RepoTags") or ())
    reference = reference or (tags[0] if tags else identifier)
    pairs = [text.partition("=") for text in config.get("Env") or ()]
    return Image(
        reference=reference,
        id=identifier,
        digest=_digest(reference, data.get("RepoDigests") or ()),
        tags=tags,
        created=data.get("Created"),
        labels=dict(config.get("Labels") or data.get("Labels") or {}),
        env={key: value for key, _, value in pairs},
        size=data.get("Size"),
    )


def _digest(reference: str, known: Sequence[str]) -> str | None:
    """The digest that the image has in the repository it was asked for by, else in any."""
    asked = reference.partition("@")[2]
    if asked:
        return asked
    name = repository(reference)
    same = [text for text in known if repository(text) == name or repository(text).endswith("/" + name)]
    return next((text.partition("@")[2] for text in [*same, *known]), None)


def is_podman(path: str) -> bool:
    """Whether a program called docker is podman under that name."""
    if Path(os.path.realpath(path)).name == "podman":
        return True
    return "podman" in Docker(path).call("--version", timeout=USABLE_TIMEOUT).stdout.lower()
