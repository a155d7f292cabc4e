"""What `kvcheck agent build` does."""

from __future__ import annotations

from pathlib import Path

from kvcheck.execute import zipapp
from kvcheck.flow.options import UsageError


def build(out: Path) -> str:
    """Writes the agent's zip.

    Returns:
        text: what was written.

    Raises:
        UsageError: it cannot be written there.
    """
    try:
        data = zipapp.pack(zipapp.sources())
        out.write_bytes(data)
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror}") from error
    return f"{out} ({len(data)} bytes): PYTHON {out} --help"
