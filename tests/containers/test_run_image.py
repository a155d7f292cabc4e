"""`kvcheck run --image` on a real engine: images made here, the Python and the torch of the tests mounted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvcheck.execute.containers.engine import ImageMissing
from kvcheck.execute.containers.owner import LABEL, identity, is_dead

CASE = """schema: 1
name: small
op: topk_per_row
why: small enough for a container on two cores
providers: [/opt/nightly/kernel.py]
fixed: {batch: 2, context_len: 40}
axes:
  topk: [4, 8]
"""

KERNEL = '''"""A kernel as an image brings it."""

import os
import time

import torch


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    """Positions of the largest logits."""
    for row in range(out.shape[0]):
        length = int(context_lens[row // next_n])
        out[row] = -1
        out[row, :topk] = logits[row, :length].topk(topk).indices.int()
    # planted
'''
CPU = ("--device", "cpu", "--jobs", "1")
PLACE = "/opt/nightly/kernel.py"

pytestmark = pytest.mark.timeout(400)  # torch is imported in each container: a minute on two busy cores


def kernel(planted: str = "") -> dict[str, str]:
    """An image's files: the kernel, with something planted at its end."""
    return {PLACE: KERNEL.replace("    # planted\n", "".join(f"    {line}\n" for line in planted.splitlines()))}


@pytest.fixture
def case(tmp_path):
    """The case file's name, in the folder that commands run in."""
    (tmp_path / "small.yaml").write_text(CASE)
    return "small.yaml"


def containers(podman) -> list[str]:
    """Names of every container there is."""
    return podman.call("ps", "--all", "--format", "{{.Names}}").stdout.split()


def test_one_command_and_one_column_an_image(kvcheck, images, podman, mount_words, case):
    good = images.nightly("localhost/nightly:good", kernel(), entrypoint=["/bin/false"])
    images.nightly("localhost/nightly:bad", kernel("out[:, 0] = out[:, 1]"))
    done = kvcheck(
        "run", case, *CPU, "--image", "localhost/nightly:good", "--image", "localhost/nightly:bad", *mount_words,
        "--out", "o", "--no-diagnosis",
    )  # fmt: skip
    assert done.code == 1, done.err
    rows = done.run["cases"]
    assert [row["verdict"] for row in rows] == ["pass", "pass", "wrong_topk", "wrong_topk"]
    assert len({(row["id"], row["provider"]) for row in rows}) == 4
    assert rows[0]["provider"] == f"{PLACE} in nightly:good"
    assert rows[0]["image"]["reference"] == "localhost/nightly:good" and rows[0]["image"]["id"] == good
    table = [line.split() for line in done.out.splitlines()]
    assert ["case", "nightly:good", "nightly:bad"] in table and ["small[topk=4]", "pass", "wrong_topk"] in table, done.out
    environment = done.run["environment"]
    facts = environment["images"]["localhost/nightly:good"]
    assert facts["container"]["image"] == "localhost/nightly:good" and facts["container"]["digest"] == facts["digest"]
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    # The exact command is shown before it runs.
    shown = re.search(r"agents are started by: (.*podman run .*)", done.err).group(1)
    assert "--network=none" in shown and "--entrypoint /bin/sh" in shown and "--workdir=/" in shown
    assert "--image localhost/nightly@sha256:" in rows[0]["repro"] and "--mount /usr" in rows[0]["repro"]
    assert containers(podman) == []


def test_what_an_agent_finds_inside(kvcheck, images, mount_words, case):
    planted = """
assert os.getcwd() == "/", os.getcwd()
assert os.environ["NIGHTLY"] == "2026-04-08", "the image's own variables are kept"
assert "KVCHECK_USERS" not in os.environ, "the user's are not"
assert os.path.expanduser("~") == "/kvcheck/home" and os.access("/kvcheck/home", os.W_OK)
assert sorted(os.listdir("/sys/class/net")) == ["lo"], "the network is off"
assert not os.access("/kvcheck/in/boot.py", os.W_OK), "what kvcheck brings is read-only"
open("/kvcheck/home/cache", "a").write("x")
""".strip()
    images.nightly("localhost/facts:1", kernel(planted), env={"NIGHTLY": "2026-04-08"}, user="2000")
    words = ("run", case, *CPU, "--image", "localhost/facts:1", *mount_words, "--no-diagnosis", "--out")
    done = kvcheck(*words, "o", KVCHECK_USERS="1")
    assert done.code == 0, done.run["cases"][0]["message"] if done.run else done.err
    row = done.run["cases"][0]
    assert row["provider"] == PLACE and row["image"]["reference"] == "localhost/facts:1"
    again = kvcheck(*words, "o", "--resume")
    assert again.code == 0 and again.run["cases"] == done.run["cases"]


def test_an_image_that_is_not_to_be_had_costs_its_own_rows_alone(kvcheck, images, mount_words, case):
    images.nightly("localhost/nightly:good", kernel())
    missing = "127.0.0.1:1/nightly:gone"
    done = kvcheck("run", case, *CPU, "--image", missing, "--image", "localhost/nightly:good", *mount_words, "--out", "o")
    assert done.code == 3, done.err
    rows = done.run["cases"]
    assert [row["verdict"] for row in rows] == ["harness_error", "harness_error", "pass", "pass"]
    assert "could not fetch 127.0.0.1:1/nightly:gone" in rows[0]["message"] and "connection refused" in rows[0]["message"]
    assert rows[0]["image"] == {"reference": missing, "digest": None, "id": None, "created": None, "label": "nightly:gone"}
    alone = kvcheck("run", case, *CPU, "--image", missing, "--out", "p")
    assert alone.code == 3 and "could not fetch" in alone.err and not alone.run


def test_a_threshold_in_each_image(kvcheck, images, mount_words, case):
    images.nightly("localhost/nightly:past", kernel("out[context_lens.repeat_interleave(next_n) > 100, 0] = 0"))
    words = ("--axis", "context_len", "--range", "90", "120", "--set", "topk=4", "--no-diagnosis", "--out", "o")
    pair = ("--image", "localhost/nightly:past", "--image", "127.0.0.1:1/nightly:gone")
    done = kvcheck("threshold", case, *CPU, *pair, *mount_words, *words)
    assert done.code == 1, done.err
    (entry,) = done.run["thresholds"]
    assert entry["provider"] == f"{PLACE} in nightly:past" and entry["image"]["label"] == "nightly:past"
    assert [(flip["last_pass"], flip["first_fail"]) for flip in entry["flips"]] == [(100, 101)], done.out
    assert [row["verdict"] for row in done.run["cases"] if row["image"]["label"] == "nightly:gone"] == ["harness_error"]


def test_an_image_without_torch_says_what_was_tried(kvcheck, images, case):
    done = kvcheck("run", case, *CPU, "--image", images.base(), "--out", "o")
    assert done.code == 3
    assert "no Python there imports torch" in done.err and "/usr/bin/python3: ModuleNotFoundError: it has no torch" in done.err


def test_an_older_python_is_refused_with_its_version(kvcheck, images, case):
    old = next(iter(sorted(Path.home().glob(".pyenv/versions/3.[6789]*/bin/python3"))), None)
    if old is None:
        pytest.skip("no Python older than 3.10 on this machine to mount")
    image = images.empty("localhost/old:1", path=f"{old.parent}:/usr/local/bin:/bin")
    mounts = ("--mount", old.parents[1], "--mount", "/usr:/usr")
    done = kvcheck("run", case, *CPU, "--image", image, *mounts, "--out", "o")
    assert done.code == 3
    assert re.search(rf"{old}: AssertionError: Python 3\.[6789] is older than 3\.10", done.err), done.err


def start(tmp_path, mount_words, image, out):
    """kvcheck in the background, its scratch folders below tmp_path/OUT.tmp."""
    words = ["run", "small.yaml", *CPU, "--set", "topk=4", "--image", image, *mount_words, "--no-diagnosis", "--out", out]
    scratch = tmp_path / f"{out}.tmp"
    scratch.mkdir()
    with open(tmp_path / f"{out}.log", "w") as log:
        command = [sys.executable, "-m", "kvcheck.cli.main", *words]
        environ = {**os.environ, "TMPDIR": str(scratch)}
        return subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True, env=environ)


def wait_for(condition, what, limit=90):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def clients(pid) -> list[int]:
    """The processes that a process started."""
    return [int(text) for file in Path(f"/proc/{pid}/task").glob("*/children") for text in file.read_text().split()]


@pytest.fixture
def hanging(images, podman, mount_words, case, tmp_path):
    """Starts kvcheck on a kernel that hangs; gives it once the kernel was called, and ends it."""
    images.nightly("localhost/hangs:1", kernel("open('/kvcheck/out/reached', 'a').write('x'); time.sleep(600)"))
    begun = []

    def begin(out):
        process = start(tmp_path, mount_words, "localhost/hangs:1", out)
        begun.append(process)
        log = tmp_path / f"{out}.log"
        wait_for(
            lambda: process.poll() is not None or any(tmp_path.glob(f"{out}.tmp/*/containers/out/reached")), "the kernel was not called"
        )
        assert process.poll() is None, log.read_text()
        return process, log

    yield begin
    for process in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    for name in containers(podman):
        podman.remove_container(name)


def test_an_interrupted_kvcheck_leaves_no_container(hanging, podman):
    process, log = hanging("b")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, log.read_text()
    assert containers(podman) == []


def test_a_killed_kvcheck_leaves_no_container_for_long(hanging, podman):
    process, _ = hanging("c")
    left = containers(podman)
    assert left
    for pid in [process.pid, *clients(process.pid)]:
        os.kill(pid, signal.SIGKILL)
    process.wait(10)
    podman.remove_leftovers()
    assert containers(podman) == []


def test_leftovers_of_a_dead_kvcheck_are_removed_and_a_live_ones_are_not(kvcheck, images, podman, mount_words, case):
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead, mine = identity(gone.pid), identity()
    gone.communicate()
    assert is_dead(dead) and not is_dead(mine) and not is_dead("another/machine") and not is_dead(mine.replace("/", "x/", 1))
    usr = ["--volume", "/usr:/usr:ro", "--entrypoint", "/usr/bin/sleep", images.empty(), "600"]
    for name, owner in (("left", dead), ("live", mine)):
        done = podman.call("run", "--detach", "--network=none", "--name", name, "--label", f"{LABEL}={owner}", *usr)
        assert done.returncode == 0, done.stderr
    done = podman.call("run", "--detach", "--network=none", "--name", "foreign", *usr)
    try:
        images.nightly("localhost/nightly:good", kernel())
        done = kvcheck("doctor", "--device", "cpu", "--image", "localhost/nightly:good", *mount_words)
        assert done.code == 0 and "removed left, a container that a killed kvcheck had left" in done.err, done.err
        assert "torch_eager" in done.out
        assert sorted(containers(podman)) == ["foreign", "live"]
    finally:
        podman.remove_own(mine)
        podman.remove_container("foreign")
    assert containers(podman) == []


def test_an_image_is_looked_at_and_missed(images, podman):
    images.nightly("localhost/look:1", kernel(), labels={"night": "1"}, env={"A": "b=c"}, created=1_700_000_000)
    image = podman.inspect("localhost/look:1")
    assert image.labels["night"] == "1" and image.env["A"] == "b=c" and image.created.startswith("2023-11-14T22:13:20")
    assert podman.inspect(image.id).id == image.id and image.size > 0
    assert any("localhost/look:1" in other.tags for other in podman.images())
    with pytest.raises(ImageMissing, match="has no image localhost/look:2"):
        podman.inspect("localhost/look:2")
    podman.remove(image.id)
    with pytest.raises(ImageMissing):
        podman.inspect("localhost/look:1")
