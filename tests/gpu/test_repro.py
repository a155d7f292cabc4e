"""Scripts of rows on a GPU: what they make and compare lies there, our kernels are compiled, and faults fail as on a CPU."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kvcheck.agent import specs
from kvcheck.flow.repro import confirm, text_for
from kvcheck.flow.selftest_cases import CASES

pytestmark = pytest.mark.gpu

DEVICE = {"type": "cuda", "name": "GPU", "arch": "sm_90", "interpreted": False}
FAULTS = {
    "block_table": "slot_not_compressed",
    "index_k_cache_gather": "tokens_unwritten",
    "index_k_cache_write": "tokens_unwritten",
    "mla_decode": "lse_base_2",
    "mla_metadata": "last_page_len_is_seq_len",
    "mqa_logits": "window_start_ignored",
    "paged_mqa_logits": "mask_off_by_one",
    "topk_per_row": "duplicate_index",
    "topk_slots": "padding_mapped",
}
AT_ONCE = 4


def row(op, provider, number, verdict, precision=None):
    """A row of a run on a GPU."""
    params = {name: axis.default for name, axis in specs.axes(op).items()} | {"kv_dtype": "e4m3fn", "poison": "nan"} | CASES[op][number]
    params = {name: value for name, value in params.items() if name in specs.axes(op)}
    made = {"id": op, "op": op, "provider": provider, "params": params, "seed": 0, "verdict": verdict, "precision": precision}
    return {**made, "message": "", "also_failed": []}


def test_scripts_fail_on_faults_and_pass_on_our_kernels(tmp_path):
    rows = []
    for op, fault in FAULTS.items():
        rows += [row(op, f"fault:{fault}", 1, "mismatch"), row(op, "triton", 0, "pass"), row(op, "triton", 2, "pass")]
    rows += [row("paged_mqa_logits", "triton", 4, "pass", "hopper_wgmma_fp8 (declared)"), row("mla_decode", "triton", 5, "pass")]
    files = []
    for number, each in enumerate(rows):
        script = text_for({"environment": {"device": DEVICE}, "run": {"id": "a-run"}}, each)
        if script is not None:
            assert 'set_default_device("cuda")' in script
            files.append((tmp_path / f"{number}.py", each))
            files[-1][0].write_text(script)
    assert len(files) >= len(rows) - 2  # two cases take more than 80 lines
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(lambda pair: confirm(pair[0], pair[1], sys.executable), files))
    wrong = [(each["op"], each["provider"], each["params"], outcome.said[-800:]) for (_, each), outcome in zip(files, done, strict=True)
             if not outcome.confirmed]  # fmt: skip
    assert not wrong
