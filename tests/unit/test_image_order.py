"""Images in order: by day, by ancestry in a repository made here, by the time they were built."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from kvcheck.targets import order
from kvcheck.targets.base import RangeError
from kvcheck.targets.found import Found
from kvcheck.targets.tags import Template

DATED = Template("v{version}-{date}")
NAMED = Template("nightly-{commit}")


def dated(tag, created=None):
    return Found(f"a/b:{tag}", tag=DATED.match(tag), created=created)


def named(commit):
    return Found(f"a/b:nightly-{commit}", tag=NAMED.match(f"nightly-{commit}"))


def built(name, created):
    return Found(f"a/b:{name}", created=created)


def test_by_day_then_by_when_they_were_built_then_by_version():
    images = [
        dated("v0.10-20260403"),
        dated("v0.9-20260403"),
        dated("v0.8-20260402", "2026-04-02T23:00:00Z"),
        dated("v0.9-20260402", "2026-04-02T21:00:00Z"),
    ]
    assert [image.label for image in order.by_day(images)] == ["v0.9-20260402", "v0.8-20260402", "v0.9-20260403", "v0.10-20260403"]


def test_by_when_they_were_built_in_every_form_that_engines_write():
    images = [
        built("d", "2026-04-03T10:00:00.123456789Z"),
        built("b", "2026-04-03T11:30:00+02:00"),
        built("c", "2026-04-03T09:45:00.5Z"),
        built("a", "2026-04-02T23:59:59.9+00:00"),
    ]
    assert [image.label for image in order.by_created(images)] == ["b:a", "b:b", "b:c", "b:d"]


def test_images_that_do_not_say_when_they_were_built_are_not_put_in_some_order():
    with pytest.raises(RangeError, match="b:b does not say"):
        order.by_created([built("a", "2026-04-03T10:00:00Z"), built("b", None)])
    with pytest.raises(RangeError, match="all of them say"):
        order.by_created([built("a", "1970-01-01T00:00:00Z"), built("b", "1970-01-01T00:00:00Z")])


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A repository: main 0 to 5, a side branch off 1, and one commit of another root."""
    if not shutil.which("git"):
        pytest.skip("git is not on PATH")
    folder = tmp_path_factory.mktemp("history")

    def git(*words):
        who = {f"GIT_{role}_{what}": "a@b.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environ = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environ).stdout.strip()

    def commit(message):
        git("commit", "--quiet", "--allow-empty", "-m", message)
        return git("rev-parse", "HEAD")

    git("init", "--quiet", "-b", "main")
    main = [commit(f"main {number}") for number in range(6)]
    git("checkout", "--quiet", "-b", "side", main[1])
    side = commit("side")
    git("checkout", "--quiet", "--orphan", "other")
    return folder, main, side, commit("other")


def test_commits_are_in_the_repository_s_order_and_others_are_counted(history):
    folder, main, side, other = history
    images = [named(commit) for commit in (main[4], side, main[2][:10], other, main[3], "0" * 40, main[0])] + [Found("a/b:odd")]
    ordered, notes = order.by_commit(images, folder, named(main[1]), named(main[4]))
    assert [order.commit_of(image)[:10] for image in ordered] == [commit[:10] for commit in main[1:5]]
    assert notes[0] == "3 images of commits that are not between the ends left out"
    assert notes[1].startswith("1 image left out, since") and "000000000000" in notes[1]
    assert notes[2] == "1 image without a commit in the tag left out"


def test_a_commit_in_the_labels_will_do(history):
    folder, main, _, _ = history
    labelled = Found("a/b:odd", labels={order.REVISION: main[2]})
    ordered, notes = order.by_commit([labelled], folder, named(main[1]), named(main[3]))
    assert ordered[1] == labelled and not notes


def test_ends_that_do_not_lead_to_each_other_are_refused_with_why(history):
    folder, main, side, other = history
    for good, bad, why in [
        (main[3], main[1], "it comes after it (for the change that mended it: --find fix)"),
        (main[3], side, f"they parted at {main[1][:12]}"),
        (main[3], other, "they share no history"),
        ("0" * 40, main[1], "of the good end is not there"),
        (main[1], "f" * 12, "of the bad end is not there"),
    ]:
        with pytest.raises(RangeError) as caught:
            order.by_commit([], folder, named(good), named(bad))
        assert why in str(caught.value)
    with pytest.raises(RangeError, match="good end b:odd has no commit"):
        order.by_commit([], folder, Found("a/b:odd"), named(main[1]))
    with pytest.raises(RangeError, match="expected a git repository"):
        order.by_commit([], folder / "nowhere", named(main[0]), named(main[1]))
