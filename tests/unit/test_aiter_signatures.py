"""Every signature that aiter's entry points have had, as vLLM's calls fill them in.

The parameter names and defaults below are facts read off the sources; `tests/real/test_aiter_history.py` holds them against a clone
of ROCm/aiter. For top_k_per_row_decode this is all that is tested: it has never run.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kvcheck.agent.providers._aiter import binding

FACTS = Path(__file__).parents[1] / "real/standin/signatures.py"


def facts():
    spec = importlib.util.spec_from_file_location("standin_signatures", FACTS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SIGNATURES


ENTRIES = [
    (name, commits, text) for name, by_commit in facts().items() if name != "top_k_per_row_decode" for commits, text in by_commit.items()
]


def function(name: str, text: str):
    scope = {"get_gfx": lambda: "gfx950"}
    exec(f"def {name}({text}): pass", scope)
    return scope[name]


@pytest.mark.parametrize(("name", "commits", "text"), ENTRIES, ids=[f"{name}-{commits[0]}" for name, commits, _ in ENTRIES])
def test_every_signature_is_filled_in(name, commits, text):
    entry = function(name, text)
    values = {meaning: meaning for meaning in binding.NAMES}
    bound = binding.arguments(entry, values)
    given = set(bound.values())
    assert given >= set(binding.REQUIRED)
    optional = {"ChunkQ": "chunk_q", "ChunkK": "chunk_k", "KVBlockSize": "block_size", "Preshuffle": "preshuffle", "WavePerEU": "waves"}
    optional["VarCtxSchedule"] = "schedule"
    for parameter, meaning in optional.items():
        assert (parameter in text) == (bound.get(parameter) == meaning)
    assert ("TotalCuCount" in text) == ("cu_count" in given)


def test_what_a_default_is_tells_the_age():
    stage1 = facts()["deepgemm_fp8_paged_mqa_logits_stage1"]
    ages = [binding.default(function("stage1", text), "cu_count") for text in stage1.values()]
    assert ages == [None, 80, None]
    assert [binding.default(function("stage1", text), "chunk_q") for text in stage1.values()] == [None, 64, 64]
