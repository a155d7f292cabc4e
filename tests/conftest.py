"""What every test shares: the `gpu` marker, and one torch thread a process, so that two workers share two cores."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest

# Read by torch when it is first imported, here and in every agent that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests that need a GPU where there is none, with the reason."""
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    reason = _no_gpu() if wanting else None
    for item in wanting:
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _no_gpu() -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "needs a GPU, and torch is not installed"
    import torch

    return None if torch.cuda.is_available() else f"needs a GPU, and torch {torch.__version__} sees none"


def pytest_configure():
    """A shell starts background jobs with Ctrl-C ignored, and everything that tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
