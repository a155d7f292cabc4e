"""What names a person or a machine is taken out of a run, what a kernel is called is not, and commands still work."""

from __future__ import annotations

import copy
import json
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.report.words.masking import Here, Masker, masked

HERE = Here("/Users/alice", "alice", "node-17.hpc.example")
RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())
SAMPLE = json.loads((Path(__file__).parents[2] / "reports" / "sample" / "run.json").read_text())
A_TOKEN = "hf_" + "aB3dE6gH9" * 4

SECRETS = [
    (f"401 for {A_TOKEN}", A_TOKEN),
    ("ghp_" + "x9" * 18, "x9x9x9x9"),
    ("github_pat_" + "A1b2" * 10, "A1b2A1b2"),
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("Authorization: Bearer abc.def-ghi123", "abc.def-ghi123"),
    ("authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
    ("https://me:hunter2@registry.example/v2/", "hunter2"),
    ("https://x.example/a?X-Amz-Signature=deadbeef01&b=1", "deadbeef01"),
    ("HF_TOKEN=verysecretvalue", "verysecretvalue"),
    ("{'AWS_SECRET_ACCESS_KEY': 'wJalrXUtnFEMI'}", "wJalrXUtnFEMI"),
    ("password: hunter22", "hunter22"),
    ("sk-proj-abcdefghijklmnop1234", "abcdefghijklmnop"),
    ("xoxb-123456789012-abcdefghijkl", "123456789012-abc"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcDEF123", "eyJzdWIiOiIxMjM0"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("CUDA_VISIBLE_DEVICES=GPU-5a1b2c3d-1111-2222-3333-444455556666", "5a1b2c3d"),
    ('  File "/Users/alice/kernels/mla.py", line 3, in f', "alice"),
    ("/Users/bob/aiter/x.py", "bob"),
    ("/Users/carol/x", "carol"),
    ("/data/users/dave/x", "dave"),
    ("/scratch/alice/x.so: undefined symbol", "alice"),
    ("alice@node-17: refused", "alice"),
    ("connect to node-17.hpc.example failed", "node-17"),
    ("node-17: out of memory", "node-17"),
    ("mail me at eve.smith@company.example", "eve.smith"),
    ("gpu-42.cluster.local is down", "gpu-42"),
    ("tcp 10.1.2.3:5000 refused", "10.1.2.3"),
]
HARMLESS = [
    "HEADS=32, HEAD_TILES=1, DIM=128, TOKENS=16, native FP8, Triton's interpreter",
    "_deepgemm_fp8_paged_mqa_logits_stage1 (aiter/ops/triton/_triton_kernels/pa_mqa_logits.py:204, blob 86c2aa88a7)",
    "max_bound_ratio 3.1e4 (pass is <= 1)",
    "2 of 32768 elements, first at [row 0, position 1] block 1 offset 0: expected -inf, got 0.0, bound 9.1e-5",
    "e4m3fnuz gfx942 sm_90 mi300x h200 3.7.1.0 570.124.06 0x7f3a",
    "keys: 64, key=7, next_token=5, token 3 of request 2, tokens_per_page=16, secret_handshake",
    "aiter@../aiter: 0123456789abcdef0123456789abcdef01234567",
    "aiter@my.checkout is no aiter checkout",
    "rocm/vllm-dev@sha256:0123abcd, git@github.com:ROCm/aiter.git, https://github.com/ROCm/aiter/issues/12?a=1",
    "torch.internal.x threading.local /opt/rocm/lib/libamdhip64.so.6 /tmp/kvcheck-1/agent.zip/kvcheck/agent/main.py",
    "127.0.0.1:8000 http://127.0.0.1/ x@y a@b",
    "hf_quantizationconfig _BASIC_BLOCK basic block, bearer of news, AutoKey",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_gone_from_texts(text, secret):
    for public in (False, True):
        out = Masker(HERE, public).text(f"before {text} after")
        assert secret not in out
        assert out.startswith("before ") and (out.endswith(" after") or "PRIVATE KEY" in text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_kernels_say_stays(text):
    for public in (False, True):
        assert Masker(HERE, public).text(text) == text


@pytest.mark.parametrize("run", [RUN, SAMPLE], ids=["golden", "sample"])
def test_a_real_run_is_left_as_it_is(run):
    assert masked(run, here=HERE) == run
    # Golden texts name a host's folder; nothing else may change for other readers.
    assert masked(SAMPLE, here=HERE, public=True) == SAMPLE


@pytest.mark.parametrize("host", ["mi300x", "gfx942", "h200", "triton", "aiter", "localhost", "a", "", "gpu"])
@pytest.mark.parametrize("user", ["root", "triton", "aiter", "test", "a", "", "ubuntu"])
def test_machines_and_users_called_like_software_take_nothing_away(host, user):
    assert masked(SAMPLE, here=Here("/root", user, host), public=True) == SAMPLE


def test_paths_are_shortened():
    text = Masker(HERE).text
    assert text("/Users/alice/k.py:3") == "~/k.py:3"
    assert text("/Users/alicette/k.py") == "/Users/***/k.py"
    assert text('File "/opt/conda/lib/python3.12/site-packages/triton/jit.py", line 3') == 'File "site-packages/triton/jit.py", line 3'
    assert text("<prefix>/lib/python3.11/site-packages/torch") == "<prefix>/lib/python3.11/site-packages/torch"
    assert text("~/.cache/x") == "~/.cache/x"
    super_user, homes = "/" + "root", "/" + "home"
    assert Masker(Here(super_user, "root", "x")).text(f"/rootfs/a {super_user}/b /mnt/root/c") == "/rootfs/a ~/b /mnt/root/c"
    assert text(f"{homes}/bob/aiter {homes}/carol") == f"{homes}/***/aiter {homes}/***"
    assert Masker(Here("/", "root", "x")).text("/a/b") == "/a/b"


COMMANDS = [
    "kvcheck run /Users/alice/cases/x.yaml --only 'x[a=1,b=2]' --provider /Users/alice/k.py",
    "kvcheck run '/Users/alice/my cases/x.yaml' --provider aiter@/Users/alice/aiter --out=/Users/alice/out",
    "kvcheck run smoke --provider 'fault:a=1+b' --set 'values=a,b' --python /Users/alice/venv/bin/python",
    "kvcheck run paged_mqa",
    "kvcheck run /Users/alicette/x.yaml",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_means_the_same_to_a_shell(command):
    shown = Masker(HERE).command(command)
    assert "/Users/alice/" not in shown
    done = subprocess.run(
        ["bash", "-c", f"for word in {shown}; do printf '%s\\0' \"$word\"; done"],
        env={"HOME": HERE.home}, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    words = done.stdout.split("\0")[:-1]
    wanted = [part for word in shlex.split(command) for part in (word.split("=") if word.startswith("--out=") else [word])]
    # kvcheck expands `~` behind NAME@ itself: a shell does so at the head of a word only.
    assert [word.replace("@~/", f"@{HERE.home}/") for word in words] == wanted


def test_names_in_commands_go_where_others_read():
    command = "kvcheck run /data/alice/x.yaml --exec 'ssh -p 22 alice@gpu-box --' --provider /Users/bob/k.py"
    assert Masker(HERE).command(command) == command
    shown = Masker(HERE, public=True).command(command)
    assert "alice" not in shown and "bob" not in shown and "gpu-box" not in shown
    assert shown.startswith("kvcheck run /data/***/x.yaml --exec 'ssh -p 22 *** --'")
    token = f"kvcheck run x --set env.HF_TOKEN={A_TOKEN}"
    assert A_TOKEN not in Masker(HERE).command(token)


def test_a_whole_run_is_masked_by_key_and_twice_is_once():
    run = copy.deepcopy(RUN)
    run["run"].update(command=COMMANDS[0], case_files=["/Users/alice/cases/x.yaml"])
    run["environment"].update(executable="/Users/alice/venv/bin/python", modules={"~/x.so": "ab"}, variables={"X": f"a {A_TOKEN}"})
    row = run["cases"][0]
    row.update(provider="aiter@/Users/alice/aiter", case_file="/Users/alice/cases/x.yaml", repro=COMMANDS[0])
    row.update(message=f"Traceback:\n  File /Users/alice/k.py on node-17, token {A_TOKEN}", dispatch="/Users/alice/k.py:3 f")
    run["environment"]["git"] = {"aiter@/Users/alice/aiter": "0123"}
    row["diagnosis"] = [{"fault": None, "sentence": "see /Users/alice/x"}]
    kept = copy.deepcopy(run)
    once = masked(run, here=HERE)
    assert run == kept
    assert masked(once, here=HERE) == once
    public = masked(once, here=HERE, public=True)
    assert masked(public, here=HERE, public=True) == public
    text = json.dumps(once)
    for secret in ("alice", "node-17", A_TOKEN):
        assert secret not in text
    assert once["cases"][0]["provider"] == "aiter@~/aiter"
    assert once["cases"][0]["case_file"] == once["run"]["case_files"][0] == "~/cases/x.yaml"
    assert once["cases"][0]["metrics"] is row["metrics"]
    assert once["cases"][1:] == run["cases"][1:]


PIECES = ["/Users/alice", "/", "alice", "@", "node-17", "=", "~", "'", '"', " ", "a", "site-packages", "://", A_TOKEN, "HF_TOKEN"]
WORDS = [
    "/Users/alice/a b",
    "https://alice:pw@node-17/x",
    f"HF_TOKEN={A_TOKEN}",
    "--out=/Users/alice/o",
    "aiter@/Users/alice/x",
    "'",
    '"a b"',
    "*",
    "~",
]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(PIECES)), st.lists(st.sampled_from(WORDS)))
def test_masking_leaks_no_token_and_twice_changes_nothing_more(pieces, words):
    for public in (False, True):
        masker = Masker(HERE, public)
        assert A_TOKEN not in masker.text("".join(pieces))
        assert A_TOKEN not in masker.command("".join(pieces))
        for way in (masker.text, masker.name, masker.key, masker.command):
            once = way(" ".join(words))
            assert way(once) == once


def test_twenty_thousand_rows_are_masked_in_seconds():
    rows = [{**row, "id": f"{row['id']}{turn}", "repro": f"{row['repro']} --seed {turn}"} for turn in range(110) for row in SAMPLE["cases"]]
    assert len(rows) > 20_000
    start = time.process_time()
    masked({**SAMPLE, "cases": rows}, here=HERE, public=True)
    assert time.process_time() - start < 20
