"""Which versions a range holds: ends, pre-releases, withdrawn ones, builds for several stacks."""

from __future__ import annotations

import pytest
from packaging.version import Version

from kvcheck.targets.base import RangeError
from kvcheck.targets.indexes import Release, collect, last
from kvcheck.targets.versions import Wanted, chosen, key_of, one_level_deeper, variant_of


def releases(*texts: str) -> list[Release]:
    """Releases with a wheel each; `!` marks one that was withdrawn, `?` one without a wheel."""
    found = []
    for text in texts:
        version = Version(text.strip("!?"))
        files = () if "?" in text else (f"p-{version}-py3-none-any.whl",)
        found.append(
            Release(version, files, tuple("ab" for _ in files), "broken" if "!" in text else None, ("too old",) if "?" in text else ())
        )
    return sorted(found, key=lambda release: release.version)


def walked(known: list[Release], good: str, bad: str, **options) -> tuple[list[str], str]:
    """Versions of the range, and the notes as one text."""
    found, notes = chosen(known, Wanted("p", good, bad, **options))
    return [str(release.version) for release in found], "; ".join(notes)


def test_versions_are_ordered_as_versions_and_both_ends_are_in():
    known = releases("0.10", "0.9", "0.2", "1.0", "0.1")
    assert walked(known, "0.2", "0.10") == (["0.2", "0.9", "0.10"], "")


def test_builds_for_one_stack_are_one_line():
    known = releases("1.0", "1.0+rocm7.1", "1.0+rocm7.2", "1.1+rocm7.1", "1.1+rocm7.2", "1.2+rocm7.2.gitabc", "1.3+rocm7.2")
    found, notes = walked(known, "1.0+rocm7.2", "1.3+rocm7.2")
    assert found == ["1.0+rocm7.2", "1.1+rocm7.2", "1.2+rocm7.2.gitabc", "1.3+rocm7.2"]
    assert "1 version (1.1+rocm7.1) left out: built for another stack" in notes


def test_stacks_are_never_crossed_in_silence():
    known = releases("1.0+rocm7.1", "1.1+rocm7.2", "1.2")
    with pytest.raises(RangeError, match=r"builds for rocm7\.1 and rocm7\.2"):
        walked(known, "1.0+rocm7.1", "1.1+rocm7.2")
    with pytest.raises(RangeError, match="no named stack"):
        walked(known, "1.0+rocm7.1", "1.2")
    found, notes = walked(known, "1.0+rocm7.1", "1.2", any_variant=True)
    assert found == ["1.0+rocm7.1", "1.1+rocm7.2", "1.2"] and "the stack changes along the range" in notes


def test_an_end_without_its_local_part_is_the_only_build_of_it():
    known = releases("1.0+rocm7.2", "1.1+rocm7.1", "1.1+rocm7.2", "1.2+rocm7.2")
    found, notes = walked(known, "1.0", "1.2")
    assert found == ["1.0+rocm7.2", "1.1+rocm7.2", "1.2+rocm7.2"] and "--good 1.0 is taken as 1.0+rocm7.2" in notes
    with pytest.raises(RangeError, match=r"--good 1\.1: expected one of its builds by name, 1\.1\+rocm7\.1, 1\.1\+rocm7\.2"):
        walked(known, "1.1", "1.2")


@pytest.mark.parametrize(
    ("local", "variant"),
    [
        ("rocm7.2", "rocm7.2"),
        ("rocm7.2.git1234", "rocm7.2"),
        ("gabc1234.rocm700", "rocm700"),
        ("cu128", "cu128"),
        ("cpu", "cpu"),
        ("gabc", ""),
    ],
)
def test_the_stack_is_read_from_the_local_part(local: str, variant: str):
    assert variant_of(Version(f"1.0+{local}")) == variant


def test_pre_releases_count_as_for_pip():
    known = releases("1.0", "1.1rc1", "1.1", "1.2.dev3", "1.2")
    found, notes = walked(known, "1.0", "1.2")
    assert found == ["1.0", "1.1", "1.2"] and "2 versions (1.1rc1, 1.2.dev3) left out: pre-releases" in notes
    assert walked(known, "1.0", "1.2", pre=True)[0] == ["1.0", "1.1rc1", "1.1", "1.2.dev3", "1.2"]
    assert walked(known, "1.1rc1", "1.2")[0] == ["1.1rc1", "1.1", "1.2.dev3", "1.2"]  # an end that is one asks for them


def test_withdrawn_versions_are_left_out_unless_they_are_an_end():
    known = releases("1.0", "1.1!", "1.2!")
    found, notes = walked(known, "1.0", "1.2")
    assert found == ["1.0", "1.2"]
    assert "1 version (1.1) left out: withdrawn" in notes and "1.2 was withdrawn: broken" in notes


def test_versions_without_a_wheel_stay_in_the_range_and_are_said():
    found, notes = walked(releases("1.0", "1.1?", "1.2"), "1.0", "1.2")
    assert found == ["1.0", "1.1", "1.2"] and "1 version (1.1) without a wheel for this Python" in notes


@pytest.mark.parametrize(
    ("good", "bad", "find", "message"),
    [
        ("1.2", "1.0", "regression", r"--good 1\.2 is newer than --bad 1\.0: expected it to be older.*--find fix"),
        ("1.0", "1.2", "fix", r"--bad 1\.2 is newer than --good 1\.0"),
        ("1.0", "1.0", "regression", "both p 1.0"),
        ("1.0", "1.9", "regression", r"--bad: expected one of 3 published versions from 1\.0 to 1\.2, got '1\.9'; nearest: 1\.\d"),
        ("last week", "1.0", "regression", "--good: expected a version such as"),
    ],
)
def test_ends_that_cannot_be_are_refused(good: str, bad: str, find: str, message: str):
    with pytest.raises(RangeError, match=message):
        walked(releases("1.0", "1.1", "1.2"), good, bad, find=find)


def test_a_fix_is_walked_from_the_bad_end():
    assert walked(releases("1.0", "1.1", "1.2"), "1.2", "1.0", find="fix")[0] == ["1.0", "1.1", "1.2"]


def test_answers_are_kept_by_version_and_file():
    version = Version("1.0")
    one, other = (key_of(Release(version, ("p-1.0-py3-none-any.whl",), (sha,))) for sha in ("a", "b"))
    assert one.startswith("1.0@") and one != other


def test_files_of_other_packages_and_source_distributions_are_told_apart():
    def row(file: str, **more) -> dict:
        return {"file": file, "version": file.split("-")[1], "sha256": None, "yanked": None, "reason": "not for this Python", **more}

    files = [row("p-1.0-py3-none-any.whl"), {**row("p-1.1.tar.gz"), "version": "1.1"}]
    refused = [row("p-1.2-cp27-none-any.whl"), row("other-1.0-py3-none-any.whl"), row("nonsense-0.exe")]
    found = collect("p", files, refused)
    assert [(str(each.version), each.files) for each in found] == [("1.0", ("p-1.0-py3-none-any.whl",)), ("1.1", ()), ("1.2", ())]
    assert "--build" in found[1].refused[0] and "not for this Python" in found[2].refused[0]
    assert collect("p", files, refused, build=True)[1].files == ("p-1.1.tar.gz",)


def test_one_level_deeper_packaged_providers_come_from_the_tree():
    words = one_level_deeper(["smoke"], ["aiter", "./mine.py", "aiter@old"], ["batch=1"], [], "cpu")
    said = "smoke --provider aiter@{tree} --provider ./mine.py --provider aiter@old --set batch=1 --device cpu"
    assert " ".join(words) == said


def test_what_pip_ends_on_is_its_last_error():
    assert last("WARNING: a\nERROR: no\nmore\n") == "ERROR: no"
    assert last("") == "it said nothing"
