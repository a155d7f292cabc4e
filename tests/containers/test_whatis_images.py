"""`kvcheck whatis` looks into images: whatever Python they have, with torch or without, and nothing of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.execute.errors import StartError
from kvcheck.targets.contents import ask_image, of_image

SITE = "/usr/lib/python3/dist-packages"
INIT = {f"{SITE}/aiter/__init__.py": "", f"{SITE}/aiter/ops.py": "a = 1\n"}
METADATA = {f"{SITE}/amd_aiter-0.1.7.dist-info/METADATA": "Metadata-Version: 2.1\nName: amd-aiter\nVersion: 0.1.7\n"}


def whatis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    command = [sys.executable, "-m", "kvcheck.cli.main", "whatis", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)


@pytest.fixture(scope="module")
def nightlies(images) -> dict[str, str]:
    """Images without torch by name: a package, one file of it changed, and the trap of a folder without an __init__.py."""
    base = images.base()
    revision = {"org.opencontainers.image.revision": "ab" * 20}
    made = {
        "good": images.nightly("localhost/kvcheck/whatis:good", {**INIT, **METADATA}, labels=revision, parent=base),
        "bad": images.nightly("localhost/kvcheck/whatis:bad", {**INIT, **METADATA, f"{SITE}/aiter/ops.py": "a = 2\n"}, parent=base),
    }
    trap = {f"{SITE}/amd_aiter-0.1.7.dist-info/METADATA": METADATA[f"{SITE}/amd_aiter-0.1.7.dist-info/METADATA"], "/app/aiter/README": ""}
    made["trap"] = images.nightly("localhost/kvcheck/whatis:trap", trap, env={"PYTHONPATH": "/app"}, parent=base, entrypoint=["/bin/false"])
    return made


def test_an_image_without_torch_says_what_it_has(podman, nightlies):
    done = whatis("localhost/kvcheck/whatis:good", "--engine", "podman")
    assert done.returncode == 0, done.stderr
    assert nightlies["good"].removeprefix("sha256:") in done.stdout
    assert "label org.opencontainers.image.revision: " + "ab" * 20 + " (a hint)" in done.stdout
    assert "ROCm none" in done.stdout and "0.1.7" in done.stdout


def test_two_nightlies_differ_by_one_file(podman, nightlies):
    done = whatis(nightlies["good"], nightlies["bad"], "--engine", "podman", "--format", "json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["differences"]
    assert [(row["name"], row["files"], row["note"]) for row in rows] == [("aiter", ["ops.py"], "other content under the same name")]


def test_the_namespace_trap_and_an_entry_point_that_ends_everything(podman, nightlies):
    contents = ask_image(podman, nightlies["trap"])
    assert contents["packages"]["aiter"]["namespace"]
    assert any("aiter.__file__ is None" in problem for problem in contents["problems"])


def test_the_brief_of_an_image_names_contents_and_commits(podman, nightlies, tmp_path):
    good, bad = (of_image(podman, nightlies[name])["aiter"] for name in ("good", "bad"))
    assert good["version"] == bad["version"] == "0.1.7"
    assert good["digest"] and good["digest"] != bad["digest"]
    assert of_image(podman, "localhost/kvcheck/whatis:good")["aiter"] == good


def test_the_tests_own_python_mounted_into_an_image_has_torch(podman, images, torch_mounts, mount_words):
    tag = images.empty()
    contents = ask_image(podman, tag, mounts=torch_mounts)
    assert Path(contents["python"]["executable"]).parent == Path(sys.executable).parent
    assert contents["packages"]["torch"]["version"]
    done = whatis(tag, "--engine", "podman", *mount_words)
    assert done.returncode == 0 and "torch" in done.stdout, done.stderr


def test_an_image_without_a_python_and_one_that_is_not_there(podman, images):
    with pytest.raises(StartError):
        ask_image(podman, images.nightly("localhost/kvcheck/whatis:nothing", {"/x": ""}))
    done = whatis("localhost/kvcheck/whatis:never", "--engine", "podman")
    assert done.returncode == 3
    assert "whatis:never" in done.stderr and "Traceback" not in done.stderr
