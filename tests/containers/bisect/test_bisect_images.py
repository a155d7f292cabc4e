"""`kvcheck bisect images` on a real engine: twelve nightlies that differ by one kernel file.

The first one runs real kernels, with the tests' own torch mounted. In the others the agents in the images are the double's, which
answers by the kernel file without torch: what is tested there is what happens to images.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CASE = """schema: 1
name: small
op: topk_per_row
why: small enough for a container on two cores
providers: [provider.py]
fixed: {batch: 2, context_len: 40}
axes:
  topk: [8]
"""
PROVIDER = '''"""The kernel package that the image has."""

from nightly_kernel import topk_per_row
'''
pytestmark = pytest.mark.xdist_group("bisect-images")
"""One worker for all: images are made and pushed once."""

KINDS = dict(
    zip(
        (f"nightly_04{day:02d}" for day in (3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15)),
        ("right", "right", "wrong", "wrong", "lacks", "no start", "hangs", "wrong", "wrong", "wrong", "wrong", "wrong"),
        strict=True,
    )
)
"""Twelve nights, and one that is missing: the fault comes in with 0405, and three in a row give no answer."""

BY_DAY = ("--good", "2026-04-03", "--bad", "2026-04-15", "--image", "localhost/nights:nightly_{date:%m%d}")


@pytest.fixture
def folder(tmp_path):
    """Where commands run: a case file and the provider beside it."""
    (tmp_path / "small.yaml").write_text(CASE)
    (tmp_path / "provider.py").write_text(PROVIDER)
    return tmp_path


@pytest.fixture(scope="module")
def nights(make):
    """Ids of the twelve nightlies by tag."""
    return make("nights", KINDS)


@pytest.fixture
def bisect(kvcheck, folder):
    """Runs a bisect of images; its state is `state`."""

    def call(*words, out="o", timeout=170):
        done = kvcheck("bisect", "images", "--timeout", "2", *words, "small.yaml", "--device", "cpu", "--out", out, timeout=timeout)
        file = folder / out / "bisect.json"
        done.state = json.loads(file.read_text()) if file.is_file() else None
        return done

    return call


def tried(state):
    """Tags and answers of the steps of the range, in the order they were run; those of the two neighbours run again left out."""
    answers = {int(index): answer["kind"] for index, answer in state["result"]["answers"].items()}
    return [(step["label"], answers[step["index"]]) for step in state["steps"] if step["why"] not in ("again", "extra")]


def neighbours(state):
    """Labels of the last good and the first bad candidate."""
    return tuple(state["candidates"][state["result"][end]]["label"] for end in ("good", "bad"))


@pytest.mark.timeout(900)
def test_twelve_nights_by_day(bisect, nights, folder, mount_words):
    done = bisect(*BY_DAY, *mount_words, "--python", sys.executable, "--every", "--no-diagnosis", "--timeout", "10", timeout=800)
    assert done.code == 0, done.out + done.err
    assert neighbours(done.state) == ("nightly_0404", "nightly_0405")
    answers = tried(done.state)
    assert answers[:2] == [("nightly_0415", "bad"), ("nightly_0403", "good")], "both ends first"
    assert len(answers) == 9, answers
    reasons = {step["label"]: step["reason"] for step in done.state["steps"] if step["label"] in ("nightly_0407", "nightly_0408")}
    assert "no Python there imports torch" in reasons["nightly_0408"], "the image that does not start"
    assert "No module named 'nightly_kernel'" in reasons["nightly_0407"], "the image that lacks the package"
    assert {label for label, kind in answers if kind == "unknown"} == {"nightly_0407", "nightly_0408", "nightly_0410"}
    again = [(step["label"], step["kind"]) for step in done.state["steps"] if step["why"] == "again"]
    assert sorted(again) == [("nightly_0404", "good"), ("nightly_0405", "bad")]
    evidence = done.state["result"]["evidence"]
    assert (evidence["verdict"], evidence["output"]) == ("wrong_topk", "topk_positions")
    assert "1 of 13 days have no image: 2026-04-09" in done.out
    assert "nightly_kernel" in [entry["package"] for entry in done.state["result"]["differences"]]
    assert nights["nightly_0405"] in done.out and "`timeout` in" in done.out
    assert "kvcheck bisect images --timeout 2 --good 2026-04-03" in done.out
    assert (folder / "o/report.md").read_text() in done.out


def test_ends_that_are_not_what_they_are_said_to_be(bisect, nights):
    done = bisect("--good", "nights:nightly_0414", "--bad", "nights:nightly_0415", "--every")
    assert done.code == 3 and "The good end is bad: `nightly_0414`" in done.out
    done = bisect("--good", nights["nightly_0403"][7:19], "--bad", nights["nightly_0404"], "--every", out="o2")
    assert done.code == 3 and "The bad end is good: no case fails at `nightly_0404`" in done.out
    assert len(done.state["steps"]) <= 2


def test_a_kill_in_the_middle_and_resume(bisect, nights, folder, kvcheck, podman):
    tags = ("nightly_0403", "nightly_0410", "nightly_0404", "nightly_0405")
    words = [word for tag in tags for word in ("--candidates", f"localhost/nights:{tag}")]
    words += ["--good", "localhost/nights:nightly_0403", "--bad", "localhost/nights:nightly_0405", "small.yaml", "--device", "cpu"]
    command = [sys.executable, "-m", "kvcheck.cli.main", "bisect", "images", *words, "--timeout", "60", "--every", "--quiet", "--out", "o"]
    client = subprocess.Popen(command, cwd=folder)
    try:
        state = until(folder / "o" / "bisect.json", lambda state: (state["running"] or {}).get("label") == "nights:nightly_0410")
        until_running(podman)
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait(10)
    before = [step["number"] for step in state["steps"]]
    text = (folder / "o" / "bisect.json").read_text().replace('"60"', '"2"')  # the hang need not take its minute now
    (folder / "o" / "bisect.json").write_text(text)
    done = kvcheck("bisect", "resume", "o")
    assert done.code == 0, done.err
    after = json.loads((folder / "o" / "bisect.json").read_text())
    assert neighbours(after) == ("nights:nightly_0404", "nights:nightly_0405")
    assert [step["number"] for step in after["steps"]][: len(before)] == before == [1, 2]
    assert [step["label"] for step in after["steps"]].count("nights:nightly_0410") == 1, "the step that was running is run again"
    assert not podman.call("ps", "--all", "--quiet", "--filter", "label=kvcheck.owner").stdout.strip()


def until(file: Path, condition, seconds=120.0):
    """The state on disk, once it is as wanted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if file.is_file() and condition(state := json.loads(file.read_text())):
            return state
        time.sleep(0.02)
    raise AssertionError(f"{file} did not come to it")


def until_running(podman, seconds=60.0):
    """Waits for a container of kvcheck's."""
    end = time.monotonic() + seconds
    while not podman.call("ps", "--quiet", "--filter", "label=kvcheck.owner").stdout.strip():
        assert time.monotonic() < end


def test_a_flaky_fault_and_another_bug_on_the_way(bisect, make):
    made = make("flaky", dict(zip("abcd", ("right", "other", "right", "flaky"), strict=True)))
    words = [word for tag in made for word in ("--candidates", f"localhost/flaky:{tag}")]
    done = bisect("--good", "localhost/flaky:a", "--bad", "localhost/flaky:d", *words, "--runs", "4", "--every")
    assert done.code == 0, done.out + done.err
    assert neighbours(done.state) == ("flaky:c", "flaky:d")
    assert done.state["result"]["rate"]["confidence"] > 0.8
    assert "RuntimeError" in str(done.state["result"]["others"]), "the other bug is told and not taken for this one"


def test_commits_in_tags_by_ancestry_and_ends_by_id(bisect, make, history, images):
    repository, commits = history
    shuffled = {3: "wrong", 0: "right", 4: "wrong", 1: "right", 2: "wrong"}
    made = make("commits", {f"nightly-{commits[number]}": kind for number, kind in shuffled.items()})
    images.engine.call("tag", made[f"nightly-{commits[1]}"].removeprefix("sha256:"), f"localhost/commits:nightly-{'0' * 40}")
    ends = ("--good", made[f"nightly-{commits[0]}"][7:19], "--bad", made[f"nightly-{commits[4]}"])
    done = bisect(*ends, "--image", "localhost/commits:nightly-{commit}", "--order-by-git", repository, "--every")
    assert done.code == 0, done.out + done.err
    assert [candidate["label"] for candidate in done.state["candidates"]] == [f"nightly-{commit}" for commit in commits]
    assert neighbours(done.state) == (f"nightly-{commits[1]}", f"nightly-{commits[2]}")
    assert "does not have their commits" in done.out
    assert len(tried(done.state)) == 4


def test_two_tags_of_one_image_are_one_step_and_what_is_alike_is_run_once(bisect, make, images):
    made = make("alike", {"a": "right", "b": "right", "c": "wrong", "d": "wrong"}, note="the same")
    images.engine.call("tag", "localhost/alike:c", "localhost/alike:c2")
    assert len(set(made.values())) == 4
    words = [word for tag in ("a", "b", "c", "c2", "d") for word in ("--candidates", f"localhost/alike:{tag}")]
    done = bisect("--good", "localhost/alike:a", "--bad", "localhost/alike:d", *words)
    assert done.code == 0, done.out + done.err
    assert neighbours(done.state) == ("alike:b", "alike:c")
    assert "alike:c and alike:c2 are one image and one step" in done.out
    assert len(done.state["candidates"]) == 4
    notes = {step["label"]: step["note"] for step in done.state["steps"] if step["why"] != "again"}
    assert notes == {
        "alike:d": None,
        "alike:a": None,
        "alike:b": "same package content as alike:a",
        "alike:c": "same package content as alike:d",
    }


def test_one_package_is_exchanged(bisect, make):
    make("swapped", {"a": "right", "b": "wrong"})
    done = bisect("--good", "localhost/swapped:a", "--bad", "localhost/swapped:b", "--swap", "nightly_kernel", "--every")
    assert done.code == 0, done.out + done.err
    assert "nightly_kernel is convicted: the fault goes where the package goes" in done.out
    extra = {step["label"]: step["facts"]["laid over"] for step in done.state["steps"] if step["why"] == "extra"}
    assert extra == {
        "swapped:a with nightly_kernel of swapped:b": "/opt/nightly/nightly_kernel of swapped:b",
        "swapped:b with nightly_kernel of swapped:a": "/opt/nightly/nightly_kernel of swapped:a",
    }


def test_the_plan_is_shown_and_nothing_run(bisect, nights, folder):
    done = bisect(*BY_DAY, "--dry-run")
    assert done.code == 0 and done.state is None and not (folder / "o").exists()
    assert "12 images, about 8 steps" in done.out and nights["nightly_0403"][:19] in done.out
    done = bisect("--good", "2026-04-15", "--bad", "2026-04-03", *BY_DAY[4:])
    assert done.code == 2 and "--find fix" in done.err and not (folder / "o").exists()


def test_the_same_images_with_run_and_whatis(kvcheck, nights, folder):
    done = kvcheck(
        "run", "small.yaml", "--device", "cpu", "--image", nights["nightly_0404"], "--image", "localhost/nights:nightly_0405", "--out", "r"
    )
    assert done.code == 1 and [row["verdict"] for row in done.run["cases"]] == ["pass", "wrong_topk"], done.err
    done = kvcheck("whatis", "localhost/nights:nightly_0404", "localhost/nights:nightly_0405", "--package", "nightly_kernel")
    assert done.code == 0 and "nightly_kernel" in done.out and "__init__.py" in done.out, done.err
