"""What shows only once a provider has run: the libraries it built and loaded, and the commit of its sources."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from kvcheck.agent.environment.checkouts import described
from kvcheck.agent.environment.files import read, short
from kvcheck.agent.protocol import parse_provider

BUILT = re.compile(r"/(?:\.?aiter|aiter_meta|flashinfer|torch_extensions|deep_gemm|flash_mla|sgl_kernel)(?:/.*)?/[^/]+\.so(?:\.\d+)*$")
"""Libraries that kernel packages compile on the machine: their version says nothing of what is in them."""

OURS = re.compile(r"(torch_eager|triton)\b|fault:|mutant:")
"""Providers that are kvcheck's own sources and load no library."""

DIGITS = 16


class Seen:
    """Tells after each case what has not been told yet."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[str, int, int], str] = {}
        self._told: set[tuple[str, str]] = set()
        self._sources: set[str] = set()

    def news(self, provider: str) -> dict[str, Any]:
        """What is new since the last case.

        Args:
            provider: whose case was the last.

        Returns:
            news: `modules` {path of a loaded library: sha256, its first 16 digits}, `source` (the commit of the provider's files), `file`
                (sha256 of a FILE.py); empty where there is nothing new.
        """
        news: dict[str, Any] = {}
        if OURS.match(provider):
            return news
        place = self._place(provider)
        modules = {short(path): digest for path in loaded(place) if (digest := self._hash(path))}
        fresh = {name: digest for name, digest in modules.items() if (name, digest) not in self._told}
        self._told.update(fresh.items())
        if fresh:
            news["modules"] = fresh
        if place and provider not in self._sources:
            self._sources.add(provider)
            if source := described(place):
                news["source"] = source
            if provider.endswith(".py") and (digest := self._hash(os.path.expanduser(provider))):
                news["file"] = digest
        return news

    def _place(self, provider: str) -> Path | None:
        """The folder of a provider's own files."""
        name, _, directory = parse_provider(provider)
        if name.endswith(".py"):
            return Path(name).expanduser().resolve().parent
        return Path(directory).expanduser().resolve() if directory else None

    def _hash(self, path: str) -> str | None:
        try:
            facts = os.stat(path)
            key = (path, facts.st_mtime_ns, facts.st_size)
            if key not in self._hashes:
                digest = hashlib.sha256()
                with open(path, "rb") as file:
                    while chunk := file.read(1 << 20):
                        digest.update(chunk)
                self._hashes[key] = digest.hexdigest()[:DIGITS]
            return self._hashes[key]
        except OSError:
            return None  # built into a folder that is gone again


def loaded(place: Path | None = None) -> list[str]:
    """Paths of the libraries in this process that a kernel package built, or that lie in a folder; sorted.

    Args:
        place: that folder.
    """
    paths = {line.split(maxsplit=5)[5] for line in read("/proc/self/maps").splitlines() if ".so" in line and line.count(" ") >= 5}
    own = f"{place}{os.sep}" if place else None
    jit = os.environ.get("AITER_JIT_DIR")
    return sorted(
        path for path in paths if BUILT.search(path) or (own and path.startswith(own)) or (jit and path.startswith(os.path.abspath(jit)))
    )
