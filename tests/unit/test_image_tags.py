"""Tags of images taken apart, on the forms that real repositories use."""

from __future__ import annotations

from datetime import date

import pytest

from kvcheck.targets import tags
from kvcheck.targets.base import RangeError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TODAY = date(2026, 11, 30)


@pytest.mark.parametrize(
    ("template", "tag", "day", "commit", "version", "variant"),
    [
        ("nightly-{commit}", f"nightly-{COMMIT}", None, COMMIT, None, ""),
        ("nightly-rocm{rocm}-{commit}", f"nightly-rocm100-{COMMIT}", None, COMMIT, None, "rocm100"),
        (
            "v{version}-rocm{rocm}-{card}-{date}",
            "v0.5.18-rocm720-mi35x-20260825",
            date(2026, 8, 25),
            None,
            "0.5.18",
            "rocm720 mi35x",
        ),
        (
            "v{version}-rocm{rocm}-{card}-{date}",
            "v0.5.18.post2-rocm7.2-gfx950-20260825",
            date(2026, 8, 25),
            None,
            "0.5.18.post2",
            "rocm7.2 gfx950",
        ),
        ("nightly_{date:%m%d}", "nightly_0403", date(2026, 4, 3), None, None, ""),
        ("{date}", "2026-04-03", date(2026, 4, 3), None, None, ""),
        ("*-{date}-*", "anything-20260403-at-all", date(2026, 4, 3), None, None, ""),
        ("x-{variant}-{date:%y%m%d}", "x-ubi9-260403", date(2026, 4, 3), None, None, "ubi9"),
    ],
)
def test_a_tag_has_its_parts(template, tag, day, commit, version, variant):
    assert tags.Template(template, TODAY).match(tag) == tags.Tag(tag, day, commit, version, variant)


@pytest.mark.parametrize(
    ("template", "tag"),
    [
        ("nightly-{commit}", "nightly"),
        ("nightly-{commit}", f"nightly-rocm100-{COMMIT}"),
        ("nightly-{commit}", f"base-nightly-{COMMIT}"),
        ("v{version}-rocm{rocm}-{card}-{date}", "v0.5.18-rocm720-mi35x"),
        ("v{version}-rocm{rocm}-{card}-{date}", "v0.5.18-rocm720-mi35x-20260231"),
        ("nightly_{date:%m%d}", "nightly_0403_test"),
        ("nightly_{date:%m%d}", "nightly_1503"),
        ("{date}", "2026.04-03"),
        ("a.b-{date}", "axb-20260403"),
    ],
)
def test_an_odd_member_does_not_fit(template, tag):
    assert tags.Template(template, TODAY).match(tag) is None


def test_a_day_without_its_year_is_the_last_one_that_has_been():
    template = tags.Template("nightly_{date:%m%d}", date(2026, 1, 15))
    assert template.match("nightly_0103").date == date(2026, 1, 3)
    assert template.match("nightly_1224").date == date(2025, 12, 24)
    assert template.match("nightly_0229").date == date(2024, 2, 29)


def test_days_are_counted_across_a_month():
    made = list(tags.Template("nightly_{date:%m%d}").expand(date(2024, 2, 28), date(2024, 3, 1)))
    assert [tag.text for tag in made] == ["nightly_0228", "nightly_0229", "nightly_0301"]
    assert [tag.text for tag in tags.Template("n-{date}").expand(date(2026, 4, 3), date(2026, 4, 3))] == ["n-20260403"]
    assert not list(tags.Template("n-{date}").expand(date(2026, 4, 3), date(2026, 4, 2)))


@pytest.mark.parametrize("template", ["n-*-{date}", "n-{commit}", "n-{date}-{card}"])
def test_a_day_alone_makes_no_tag_of_other_parts(template):
    with pytest.raises(RangeError, match="only part"):
        list(tags.Template(template).expand(TODAY, TODAY))


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("n-{dat}", "got '{dat}'"),
        ("n-{date:%H}", "expected a date of"),
        ("n-{date:%m}", "expected a date of"),
        ("n-{commit:7}", "takes no format"),
        ("n-{date}-{date}", "twice"),
        ("n-{date", "got '{'"),
    ],
)
def test_a_template_that_cannot_be_is_refused_with_what_it_may_hold(template, said):
    with pytest.raises(RangeError) as caught:
        tags.Template(template)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("tag", "template"),
    [
        (f"nightly-{COMMIT}", "nightly-{commit}"),
        (f"nightly-rocm100-{COMMIT}", "nightly-rocm{rocm}-{commit}"),
        ("v0.5.18-rocm720-mi35x-20260825", "v{version}-rocm{rocm}-{card}-{date}"),
        ("nightly_0403", "nightly_{date:%m%d}"),
        ("nightly-2026-04-03-rocm7.2", "nightly-{date}-rocm{rocm}"),
        ("nightly", "nightly"),
        ("deadbee", "deadbee"),
        ("latest", "latest"),
    ],
)
def test_the_template_of_a_tag_is_guessed_and_fits_it(tag, template):
    assert tags.guess(tag) == template
    assert tags.Template(template).match(tag)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("rocm/vllm-dev:nightly_0403", ("rocm/vllm-dev", "nightly_0403", None)),
        ("127.0.0.1:5000/a/b", ("127.0.0.1:5000/a/b", None, None)),
        ("127.0.0.1:5000/a/b:n-{date:%m%d}", ("127.0.0.1:5000/a/b", "n-{date:%m%d}", None)),
        ("a@sha256:" + "0" * 64, ("a", None, "sha256:" + "0" * 64)),
        ("a:b@sha256:" + "0" * 64, ("a", "b", "sha256:" + "0" * 64)),
        ("a", ("a", None, None)),
    ],
)
def test_references_are_split(reference, parts):
    assert tags.split(reference) == parts


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("rocm/vllm-dev", "docker.io/rocm/vllm-dev", True),
        ("nightly", "localhost/nightly", True),
        ("nightly", "docker.io/library/nightly", True),
        ("rocm/vllm", "docker.io/rocm/vllm-dev", False),
        ("127.0.0.1:5000/a", "localhost/a", False),
        ("127.0.0.1:5000/a", "127.0.0.1:5000/a", True),
    ],
)
def test_one_repository_has_several_spellings(first, second, same):
    assert tags.same_repository(first, second) is same


def test_days():
    assert tags.day("2026-04-03") == date(2026, 4, 3)
    assert tags.day("nightly") is None
    with pytest.raises(RangeError, match="2026-02-31"):
        tags.day("2026-02-31")
