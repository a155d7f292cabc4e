"""`kvcheck cases from-config`: every file it writes is a case file with the model's shapes, and what is wrong with a config is said."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcheck.cases import builtin
from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load
from kvcheck.cases.plan import plan
from kvcheck.flow import from_config
from kvcheck.flow.options import UsageError

MODELS = sorted(path.stem for path in (builtin.root() / "models").glob("*.json"))
DSA = {
    "model_type": "deepseek_v32", "num_attention_heads": 128, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "max_position_embeddings": 163840,
}  # fmt: skip


def config(tmp_path: Path, **changes) -> Path:
    data = {key: value for key, value in {**DSA, **changes}.items() if value is not ...}
    (tmp_path / "config.json").write_text(json.dumps(data))
    return tmp_path / "config.json"


def written(tmp_path: Path, tp=1, dtype="auto", block_size=64, scale=1, name=None, **changes):
    """The documents by op."""
    out = tmp_path / "made.yaml"
    out.write_text(from_config.render(config(tmp_path, **changes), tp, dtype, block_size, scale, name))
    found = load(out)
    assert plan([str(out)]).cases
    return {case_file.op: case_file for case_file in found}


def test_shapes_of_a_sparse_model(tmp_path):
    files = written(tmp_path, tp=4, dtype="fp8")
    assert set(files) == {"paged_mqa_logits", "topk_per_row", "topk_slots", "mla_decode", "mla_metadata"}
    logits, attention = files["paged_mqa_logits"].base(), files["mla_decode"].base()
    assert (logits["num_heads"], logits["head_dim"], logits["topk"], logits["block_size"]) == (64, 128, 2048, 64)
    assert (attention["num_heads"], attention["head_dim"], attention["head_dim_v"]) == (32, 576, 512), "heads are split, the indexer is not"
    assert (attention["selection"], attention["page_size"], attention["kv_format"]) == ("topk", 1, "e4m3fn")
    assert attention["softmax_scale"] == pytest.approx(192**-0.5)
    lengths = files["paged_mqa_logits"].values_of("context_len")
    assert {1, 64, 65, 2048, 2049, 65536} <= set(lengths)
    assert files["paged_mqa_logits"].name == "deepseek_v32_logits"


def test_scale_divides_contexts_and_topk_and_nothing_else(tmp_path):
    whole, small = written(tmp_path), written(tmp_path, scale=16)
    assert small["paged_mqa_logits"].base()["topk"] == 128 and max(small["mla_decode"].values_of("context_len")) == 4096
    for op, axes in {"paged_mqa_logits": ("num_heads", "head_dim", "block_size"), "mla_decode": ("num_heads", "head_dim")}.items():
        assert all(small[op].base()[axis] == whole[op].base()[axis] for axis in axes)


def test_a_model_without_an_indexer_is_dense(tmp_path):
    files = written(tmp_path, index_n_heads=..., index_head_dim=..., index_topk=None, num_attention_heads=64, tp=8)
    assert set(files) == {"mla_decode", "mla_metadata"}
    base = files["mla_decode"].base()
    assert (base["selection"], base["page_size"], base["num_heads"]) == ("dense", 64, 8)


def test_pooled_states(tmp_path):
    files = written(tmp_path, index_kpool=4, qk_rope_head_dim=0, block_size=128)
    logits = files["paged_mqa_logits"].base()
    assert (logits["topk"], logits["block_size"]) == (512, 32) and files["mla_decode"].base()["topk"] == 2048
    assert files["mla_decode"].base()["head_dim"] == 512 == files["mla_decode"].base()["head_dim_v"]
    assert files["block_table"].base()["tokens_per_state"] == 4


def test_compressed_states_of_a_model_without_a_latent_rank(tmp_path):
    compressed = dict(kv_lora_rank=..., qk_nope_head_dim=..., head_dim=512, compress_ratios=[0, 0, 4, 128], index_topk=512)
    files = written(tmp_path, block_size=256, **compressed)
    assert files["paged_mqa_logits"].base()["topk"] == 512 and files["paged_mqa_logits"].base()["block_size"] == 64
    assert files["mla_decode"].base()["head_dim"] == 512 and files["mla_decode"].base()["softmax_scale"] == pytest.approx(512**-0.5)


def test_a_text_config_is_looked_into(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "outer", "text_config": DSA}))
    assert from_config.read(tmp_path / "config.json").heads == 128


@pytest.mark.parametrize("model", MODELS)
def test_the_models_that_come_with_kvcheck_are_what_the_command_writes(model):
    text = (builtin.root() / f"models/{model}.yaml").read_text()
    (command,) = re.findall(r"^# Written by: kvcheck cases from-config (.*)$", text, re.MULTILINE)
    words = dict(zip(command.split()[1::2], command.split()[2::2], strict=True))
    tp, block_size, scale = (int(words[option]) for option in ("--tp", "--block-size", "--scale"))
    path = builtin.root() / "models" / command.split()[0]
    assert from_config.render(path, tp, words["--kv-cache-dtype"], block_size, scale, words["--name"]) == text
    assert model == words["--name"]


def test_every_model_has_its_file():
    assert sorted(path.stem for path in (builtin.root() / "models").glob("*.yaml")) == MODELS
    assert {"deepseek_v3_2", "glm_5", "glm_5_2", "glm_5_3_flash", "kimi_k2"} <= set(MODELS)


def run(*arguments: str):
    command = [sys.executable, "-m", "kvcheck.cli.main", "cases", "from-config", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return SimpleNamespace(exit_code=done.returncode, output=done.stdout + done.stderr)


def test_every_missing_key_is_named_with_the_file(tmp_path):
    path = config(tmp_path, num_attention_heads=..., kv_lora_rank=..., index_topk="many", num_attention_head=128)
    done = run(str(path))
    assert done.exit_code == 2
    for line in ("num_attention_heads: expected a whole number of at least 1, got no such key; nearest: num_attention_head",
                 "kv_lora_rank: expected", "index_topk: expected a whole number of at least 1, got 'many'"):  # fmt: skip
        assert f"{path}: {line}" in done.output


@pytest.mark.parametrize("text", ["", "[1]", "{", "nul", "[" * 9999, "\ud800"])
def test_what_is_no_config_is_usage(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(CaseFileError, match="config.json"):
        from_config.read(path)
    assert run(str(path)).exit_code == 2 and run(str(tmp_path / "none.json")).exit_code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(tp=3), "--tp: expected a divisor of num_attention_heads (128), got 3"),
        (dict(tp=0), "--tp: expected"),
        (dict(block_size=0), "--block-size: expected"),
        (dict(scale=0), "--scale: expected"),
        (dict(dtype="fp9"), "nearest: fp8"),
        (dict(name="a b"), "--name: expected"),
        (dict(index_kpool=4, block_size=66), "--block-size: expected a multiple of 4"),
        (dict(dtype="fp8_ds_mla", qk_rope_head_dim=0), "512 + 64 numbers"),
    ],
)
def test_options_that_do_not_fit(tmp_path, options, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        written(tmp_path, **options)


def test_the_command_writes_and_prints(tmp_path):
    path = config(tmp_path)
    printed = run(str(path), "--tp", "4", "--kv-cache-dtype", "fp8", "--block-size", "64")
    assert printed.exit_code == 0 and printed.output.startswith("# The shapes of deepseek_v32, tensor parallel 4: 32 of 128 heads a rank,")
    out = tmp_path / "mine.yaml"
    done = run(str(path), "--tp", "4", "--kv-cache-dtype", "fp8", "--out", str(out))
    assert done.exit_code == 0 and out.read_text() == printed.output
    assert run(str(path), "--out", str(tmp_path / "no" / "folder.yaml")).exit_code == 2
