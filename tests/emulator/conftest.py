"""A test with a `mnemonic` parameter must run that instruction; test_opcodes_complete.py counts on it."""

from __future__ import annotations

import pytest

from . import asm


@pytest.fixture(autouse=True)
def _runs_its_mnemonic(request):
    """Fails a test that is parametrised with a mnemonic and did not execute it."""
    asm.EXECUTED.clear()
    yield
    call = getattr(request.node, "callspec", None)
    if call is not None and "mnemonic" in call.params:
        assert call.params["mnemonic"] in asm.EXECUTED, f"{call.params['mnemonic']} was not executed, only {sorted(asm.EXECUTED)}"
