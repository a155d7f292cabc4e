"""What a registry has, asked through skopeo: tags, and of each image its id, digest, layers, labels and when it was built."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from kvcheck.targets.found import Found

ASK_TIMEOUT = 120.0
AT_ONCE = 4
"""Questions at once: registries count them."""

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
MISSING = ("manifest unknown", "name unknown", "404 (Not Found)", "404 Not Found")


class RegistryError(Exception):
    """A registry that was not reached, or did not answer with what was asked for; the text is for the user.

    Attributes:
        missing: whether the registry answered that there is no such thing.
    """

    def __init__(self, text: str, missing: bool = False) -> None:
        super().__init__(text)
        self.missing = missing


class Registry:
    """A registry, as far as `skopeo` tells.

    Args:
        tls_verify: whether its certificate is looked at; False also allows plain HTTP.
        skopeo: the program.
        timeout: seconds a question may take.
    """

    def __init__(self, tls_verify: bool = True, skopeo: str = "skopeo", timeout: float = ASK_TIMEOUT) -> None:
        self._verify = f"--tls-verify={str(tls_verify).lower()}"
        self._skopeo = skopeo
        self._timeout = timeout

    def tags(self, repository: str) -> list[str]:
        """Every tag of a repository, in no order.

        Raises:
            RegistryError: it could not be asked, or there is no such repository.
        """
        return list(self._json("list-tags", f"docker://{repository}").get("Tags") or [])

    def look(self, image: Found) -> Found:
        """An image with what its manifest says: id, digest and layers; a manifest list is followed to this machine's kind.

        Raises:
            RegistryError: it could not be asked, or the image is not there.
        """
        raw = self._ask("inspect", "--raw", f"docker://{image.reference}")
        manifest = _read(raw, image.reference)
        if "manifests" in manifest:
            repository = _repository(image.reference)
            one = _mine(manifest["manifests"], image.reference)
            raw = self._ask("inspect", "--raw", f"docker://{repository}@{one}")
            manifest = _read(raw, image.reference)
        if "config" not in manifest:
            raise RegistryError(
                f"{image.reference}: its manifest is of a form without an image id (schema {manifest.get('schemaVersion')})"
            )
        layers = tuple((str(layer["digest"]), int(layer.get("size", 0))) for layer in manifest.get("layers", []))
        return replace(image, id=manifest["config"]["digest"], digest="sha256:" + hashlib.sha256(raw).hexdigest(), layers=layers)

    def date(self, image: Found) -> Found:
        """An image with what its configuration says: when it was built, and its labels.

        Raises:
            RegistryError: it could not be asked, or the image is not there.
        """
        config = _read(self._ask("inspect", "--config", f"docker://{image.reference}"), image.reference)
        return replace(image, created=config.get("created"), labels=(config.get("config") or {}).get("Labels") or {})

    def look_at_all(self, images: Sequence[Found], dates: bool = False) -> list[Found]:
        """`look`, and with dates `date`, for many images at once, in their order.

        Returns:
            images: one that the registry does not have is left out; one that could not be asked for has a `problem`.

        Raises:
            RegistryError: skopeo is not there.
        """
        self._program()

        def one(image: Found) -> Found | None:
            try:
                looked = self.look(image)
                return self.date(looked) if dates else looked
            except RegistryError as error:
                return None if error.missing else replace(image, problem=str(error))

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [found for found in pool.map(one, images) if found]

    def _program(self) -> str:
        found = shutil.which(self._skopeo)
        if not found:
            raise RegistryError(
                f"a registry is asked through {self._skopeo}, which is not on PATH: install it, "
                "or name images with --candidates, or use those that are here with --from local"
            )
        return found

    def _json(self, *words: str) -> dict[str, Any]:
        return _read(self._ask(*words), words[-1])

    def _ask(self, question: str, *words: str) -> bytes:
        command = [self._program(), question, self._verify, *words]
        what = words[-1].removeprefix("docker://")
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired:
            raise RegistryError(f"{what}: the registry did not answer within {self._timeout:.0f} s") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"skopeo ended with status {done.returncode}"]
            text = said[-1].partition("msg=")[2].strip('"').replace('\\"', '"') or said[-1]
            raise RegistryError(f"{what}: {text}", missing=any(word in text for word in MISSING))
        return done.stdout


def _read(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RegistryError(f"{what}: the registry's answer is not JSON")
    return value


def _mine(manifests: list[dict[str, Any]], what: str) -> str:
    wanted = MACHINES.get(platform.machine(), platform.machine())
    for manifest in manifests:
        kind = manifest.get("platform") or {}
        if kind.get("os") == "linux" and kind.get("architecture") == wanted:
            return manifest["digest"]
    raise RegistryError(f"{what}: has no image for linux/{wanted}", missing=True)


def _repository(reference: str) -> str:
    folder, slash, last = reference.partition("@")[0].rpartition("/")
    return folder + slash + last.partition(":")[0]
