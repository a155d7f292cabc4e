"""Images made here, without a registry and without a network: from files of this machine, a few kilobytes to 40 MB each."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kvcheck.execute.containers.engine import Engine, Mount
from kvcheck.execute.containers.run_in import run_in

FOLDERS = ("etc", "proc", "sys", "dev", "run", "root", "opt", "var", "var/tmp", "usr")
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
"""Debian's links from / into /usr."""

ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nserver:x:2000:2000:server:/opt:/bin/sh\n",
    "etc/group": "root:x:0:\nserver:x:2000:\n",
}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM_PYTHON = Path("/usr/bin/python3")
SKIPPED = re.compile(r"(^|/)(__pycache__|test|tests|idlelib|tkinter|lib2to3|ensurepip|turtledemo|pydoc_data|dist-packages)(/|$)")


def torch_mounts() -> list[Mount]:
    """What an otherwise empty image has to see to run the Python of the tests, with torch: /usr and the environment, read-only."""
    spec = importlib.util.find_spec("torch")
    torch = Path(spec.submodule_search_locations[0]).parent if spec else None
    folders = [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), *([torch] if torch else [])]
    kept: list[Path] = []
    for folder in folders:
        if not any(folder.is_relative_to(other) for other in kept):
            kept.append(folder)
    return [Mount(folder, str(folder)) for folder in kept]


def mount_words() -> list[str]:
    """The same for kvcheck's command line."""
    return [word for mount in torch_mounts() for word in ("--mount", str(mount.source))]


class Images:
    """Makes images in an engine's store.

    Args:
        engine: podman.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._made: dict[str, str] = {}
        self._built: dict[str, str] = {}

    def problem(self) -> str | None:
        """Why no container starts; None when one does."""
        done = run_in(self.engine, self.empty(), ["/usr/bin/true"], mounts=[Mount(Path("/usr"), "/usr")], timeout=60)
        return None if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-300:]

    def empty(self, tag: str = "localhost/kvcheck/empty:1", path: str | None = None, env: Mapping[str, str] | None = None) -> str:
        """An image of 8 kB that runs the tests' own Python once `torch_mounts` are there.

        Args:
            tag: its name.
            path: PATH inside; None begins with the environment of the tests.
            env: further variables.

        Returns:
            tag: its name.
        """
        path = path or f"{Path(sys.executable).parent}:{SYSTEM_PATH}"
        return self._import(tag, skeleton(MERGED), {"PATH": path, **(env or {})})

    def base(self, tag: str = "localhost/kvcheck/python:1", env: Mapping[str, str] | None = None) -> str:
        """Debian's Python with its standard library and a shell, 38 MB, without torch; skips where there is no Debian Python."""
        if not SYSTEM_PYTHON.exists() or not shutil.which("busybox"):
            import pytest

            pytest.skip("needs /usr/bin/python3 and a static busybox, to copy")
        return self._import(tag, python_root(), {"PATH": SYSTEM_PATH, **(env or {})})

    def nightly(
        self,
        tag: str,
        files: Mapping[str, str],
        *,
        labels: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        created: int | None = None,
        parent: str | None = None,
        entrypoint: list[str] | None = None,
        user: str | None = None,
    ) -> str:
        """An image that differs from its parent in some files.

        Args:
            tag: its name.
            files: text by absolute path; one that starts with `#!` is executable.
            labels: of it.
            env: of it.
            created: seconds since 1970; None is now.
            parent: image; None is `empty`.
            entrypoint: of it.
            user: that its processes run as.

        Returns:
            id: sha256:...
        """
        parent = parent or self.empty()
        wanted = json.dumps([tag, parent, dict(files), labels, env, created, entrypoint, user])
        if wanted in self._built and self.engine.call("image", "exists", tag).returncode == 0:
            return self._built[wanted]
        with tempfile.TemporaryDirectory(prefix="kvcheck-build-") as folder:
            for name, text in files.items():
                target = Path(folder, "root", name.lstrip("/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
                target.chmod(0o755 if text.startswith("#!") else 0o644)
            Path(folder, "root").mkdir(exist_ok=True)
            lines = [f"FROM {parent}", "COPY root/ /"]
            lines += [f"LABEL {key}={json.dumps(value)}" for key, value in (labels or {}).items()]
            lines += [f"ENV {key}={json.dumps(value)}" for key, value in (env or {}).items()]
            lines += [f"ENTRYPOINT {json.dumps(entrypoint)}"] if entrypoint else []
            lines += [f"USER {user}"] if user else []
            Path(folder, "Containerfile").write_text("\n".join(lines) + "\n")
            # Without --no-cache podman 4.3 gives images that differ in labels alone one id.
            words = ["build", "--quiet", "--no-cache", "--network=none", "--tag", tag]
            words += [f"--timestamp={created}"] if created is not None else []
            done = self.engine.call(*words, "--file", f"{folder}/Containerfile", folder)
        assert done.returncode == 0, done.stderr
        self._built = {key: value for key, value in self._built.items() if json.loads(key)[0] != tag}
        self._built[wanted] = "sha256:" + done.stdout.strip().splitlines()[-1].removeprefix("sha256:")
        return self._built[wanted]

    def _import(self, tag: str, tar: bytes, env: Mapping[str, str]) -> str:
        if tag not in self._made:
            with tempfile.NamedTemporaryFile(suffix=".tar") as file:
                file.write(tar)
                file.flush()
                changes = [word for key, value in env.items() for word in ("--change", f"ENV {key}={value}")]
                done = self.engine.call("import", "--quiet", *changes, file.name, tag)
            assert done.returncode == 0, done.stderr
            self._made[tag] = done.stdout.strip()
        return tag


def skeleton(links: Mapping[str, str], files: Mapping[str, Path] | None = None) -> bytes:
    """A tar of a root folder: empty folders, accounts, links, and files by their name in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in (*FOLDERS, "tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name in ("tmp", "var/tmp") else 0o755
            tar.addfile(entry)
        for name, text in ACCOUNTS.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, source in (files or {}).items():
            entry = tar.gettarinfo(os.path.realpath(source), name)
            entry.uid = entry.gid = 0
            with open(source, "rb") as file:
                tar.addfile(entry, file)
    return buffer.getvalue()


def python_root() -> bytes:
    """A root folder with Debian's Python, its standard library, the shared objects that these need, and busybox for a shell."""
    interpreter = Path(os.path.realpath(SYSTEM_PYTHON))
    words = [str(interpreter), "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    library = Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())
    files = {"usr/bin/" + interpreter.name: interpreter, "usr/bin/busybox": Path(shutil.which("busybox"))}
    for path in sorted(library.rglob("*")):
        if path.is_file() and not SKIPPED.search(str(path.relative_to(library))):
            files[str(path).lstrip("/")] = path
    objects = [interpreter, *(path for path in files.values() if path.suffix == ".so")]
    for path in objects:
        for found in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout):
            # Below /usr under its own name: / has only links into it.
            name = found if found.startswith("/usr/") else f"/usr{found}"
            files.setdefault(name.lstrip("/"), Path(found))
    tools = ("sh", "cat", "ls", "env", "true", "sleep", "rm", "id", "find", "tail", "head", "test")
    links = {**MERGED, **{f"usr/bin/{tool}": "busybox" for tool in tools}, "usr/bin/python3": interpreter.name}
    return skeleton(links, files)
