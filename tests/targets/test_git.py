"""Commits as a range: a repository of sixty commits with one culprit, and everything that lies in the way of finding it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.targets.base import RangeError, Unavailable
from kvcheck.targets.git import Build, GitTarget

CULPRIT, NO_BUILD, NO_KERNEL, RENAMED, TAGGED = 37, range(28, 32), range(44, 46), 20, 5

KERNEL = '''"""The plain formula; what picks is built."""
import built


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    for row, length in enumerate(context_lens.tolist()):
        picked = built.pick({argument}=logits[row, :length], k=topk)
        out[row] = -1
        out[row, : len(picked)] = picked.int()
'''
PICK = "def pick({argument}, k):\n    return {argument}.topk(min(k, len({argument})), largest={largest}).indices\n"
CASE = """
schema: 1
name: top
op: topk_per_row
providers: [torch_eager]
fixed: {batch: 1, context_len: 64, topk: 8}
axes: {next_n: [1]}
"""


def git(folder, *words, **options):
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, **options)
    return done.stdout.strip()


def files_at(number):
    """What the commit of a number holds."""
    argument = "scores" if number < RENAMED else "logits"
    files = {"README": f"night {number}\n"}
    if number not in NO_KERNEL:
        files["kernel.py"] = KERNEL.format(argument=argument)
    files["pick.txt"] = PICK.format(argument=argument, largest=number < CULPRIT)
    files["build.sh"] = "echo 'no rule for night' >&2; exit 2\n" if number in NO_BUILD else "cp pick.txt built.py\n"
    return files


def stream(numbers, branch, first=None, say="night"):
    """Commits for git fast-import, one after the other."""
    lines = []
    for number in numbers:
        lines += [f"commit refs/heads/{branch}", f"committer A <a@b> {1750000000 + number * 86400} +0000"]
        text = f"{say} {number}"
        lines += [f"data {len(text)}", text]
        if first:
            lines.append(f"from {first}")
            first = None
        lines.append("deleteall")
        for name, content in files_at(number).items():
            lines += [f"M 100644 inline {name}", f"data {len(content)}", content]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A checkout with something uncommitted in it, and the commits by number."""
    folder = tmp_path_factory.mktemp("git") / "kernels"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    git(folder, "fast-import", "--quiet", input=stream(range(60), "main"))
    git(folder, "fast-import", "--quiet", input=stream([TAGGED], "old", say="written anew"))
    git(folder, "tag", "v1", "old")
    git(folder, "branch", "-q", "-D", "old")
    git(folder, "checkout", "-q", "main")
    (folder / "README").write_text("mine\n")
    return folder, git(folder, "rev-list", "--reverse", "main").split()


def target(folder, good, bad, **options):
    return GitTarget(folder, good, bad, ["{tree}/kernel.py"], **options)


def untouched(folder):
    """Everything that a bisect might have changed in the user's repository."""
    inside = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "index")
    return inside, git(folder, "status", "--porcelain"), git(folder, "worktree", "list"), (folder / ".git" / "HEAD").read_text()


@pytest.mark.timeout(560)
def test_the_culprit_is_found_past_commits_that_do_not_build_and_from_a_tag_on_another_history(nights, tmp_path):
    folder, commits = nights
    before = untouched(folder)
    (tmp_path / "case.yaml").write_text(CASE)
    words = ["bisect", "git", str(folder), "case.yaml", "--good", "v1", "--bad", "main", "--provider", "{tree}/kernel.py"]
    words += ["--build", "sh build.sh", "--python", sys.executable, "--out", "o", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "kvcheck.cli.main", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    state = json.loads((tmp_path / "o" / "bisect.json").read_text())
    assert commits[CULPRIT][:12] in done.stdout and commits[CULPRIT - 1][:12] in done.stdout
    assert f"v1 is not in the history of main; {commits[TAGGED][:12]}, which has the same files, is" in done.stdout
    assert f"night {CULPRIT}" in done.stdout and "written anew" not in done.stdout
    asked = {step["label"] for step in state["steps"]}
    assert len(asked) <= 12, asked
    assert not (tmp_path / "o" / "trees").exists() and not (tmp_path / "o" / "objects.git").exists()
    assert untouched(folder) == before


def test_a_commit_that_does_not_build_or_takes_too_long_is_unavailable(nights):
    folder, commits = nights
    with_build = target(folder, "v1", "main", build=Build("sh build.sh"))
    chosen = {c.key: c for c in with_build.candidates()}
    try:
        with pytest.raises(Unavailable, match="exit status 2.*no rule for night"), with_build.place(chosen[commits[28]]):
            pass
        with with_build.place(chosen[commits[40]]) as place:
            tree = Path(place.providers[0]).parent
            assert "largest=False" in (tree / "built.py").read_text() and place.facts["subject"] == "night 40"
        assert not tree.exists()
    finally:
        with_build.close()
    slow = target(folder, "v1", "main", build=Build("exec sleep 30", timeout=0.2))
    try:
        with pytest.raises(Unavailable, match=r"did not end within 0\.2 s"), slow.place(chosen[commits[40]]):
            pass
    finally:
        slow.close()


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("main", "v1", "comes after|shares no commit|same files"),
        ("main", "main~3", "--good main comes after --bad main~3: expected it before; for the other direction: --find fix"),
        ("mian", "main", "--good: expected a revision of .*, got 'mian'; nearest: main"),
    ],
)
def test_ends_that_cannot_be(nights, good, bad, says):
    folder, _ = nights
    if (good, bad) == ("main", "v1"):  # the newer end on the other history: nothing there has the files of main
        with pytest.raises(RangeError, match="shares no commit"):
            target(folder, good, bad).candidates()
        return
    with pytest.raises(RangeError, match=says):
        target(folder, good, bad).candidates()


def test_a_provider_that_is_the_same_at_every_commit_and_a_folder_without_a_repository(nights, tmp_path):
    with pytest.raises(RangeError, match=r"with \{tree\} in it.*got triton"):
        GitTarget(nights[0], "v1", "main", ["triton"])
    with pytest.raises(RangeError, match="expected a git repository"):
        target(tmp_path, "a", "b")


def test_only_commits_that_touch_a_path_are_tried_and_the_ends_with_them(nights):
    folder, commits = nights
    keys = [c.key for c in target(folder, "main~50", "main", paths=["pick.txt"]).candidates()]
    assert keys == [commits[9], commits[RENAMED], commits[CULPRIT], commits[59]]


def test_a_merge_is_one_step_and_the_next_command_goes_into_its_branch(tmp_path):
    folder = tmp_path / "r"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    git(folder, "fast-import", "--quiet", input=stream(range(3), "main"))
    git(folder, "fast-import", "--quiet", input=stream(range(3, 6), "side", first="refs/heads/main~1"))
    git(folder, "checkout", "-q", "main")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "-X", "theirs", "-m", "merged", "side")
    walked = target(folder, "main~2", "main")
    labels = [c.key for c in walked.candidates()]
    assert labels == git(folder, "rev-list", "--first-parent", "--reverse", "main").split()[-3:]
    (words,) = walked.deeper(*walked.candidates()[-2:])
    assert words[:2] == ["bisect", "git"] and words[-2:] == ["--provider", "{tree}/kernel.py"]
    inside = target(folder, words[words.index("--good") + 1], words[words.index("--bad") + 1])
    parted = git(folder, "merge-base", "main~1", "side")
    assert [c.key for c in inside.candidates()] == [parted, *git(folder, "rev-list", "--reverse", "main~2..side").split()]
    assert "parted at" in inside.notes()[0]
