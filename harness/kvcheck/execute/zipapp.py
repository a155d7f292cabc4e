"""The agent as one zip file: runnable by any Python from 3.10 on that has torch, with nothing installed there.

What runs a case is always this zip, on this machine too, so that a process here, a container and a foreign interpreter
are one path, and so that sources edited while a run goes on do not change the run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import zipfile
from pathlib import Path

MAIN = """from kvcheck.agent.serve import main

if __name__ == "__main__":
    main()
"""
PACKAGES = (("kvcheck.agent", "kvcheck/agent"), ("kvcheck_references", "kvcheck_references"))
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip can hold: bytes depend on the sources and on nothing else."""


def sources() -> dict[str, bytes]:
    """Every file of the zip by its name in it, from the checkout or the wheel, whichever is imported; torch is not."""
    files = {"__main__.py": MAIN.encode(), "kvcheck/__init__.py": b""}
    for package, folder in PACKAGES:
        root = _folder(package)
        for path in root.rglob("*.py"):
            files[f"{folder}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    return dict(sorted(files.items()))


def pack(files: dict[str, bytes]) -> bytes:
    """A zip of files, the same bytes for the same files on every machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            # Stored, not deflated: how well deflate packs differs between zlib builds, and so would the bytes.
            archive.writestr(entry, data, zipfile.ZIP_STORED)
    return buffer.getvalue()


def build(folder: Path) -> Path:
    """Writes the zip into a folder, named by what it holds.

    Returns:
        path: FOLDER/kvcheck-agent-HASH.zip.
    """
    data = pack(sources())
    path = folder / f"kvcheck-agent-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    path.write_bytes(data)
    return path


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed beside kvcheck")
    return Path(list(spec.submodule_search_locations)[0])
