"""Ranges of images: ends in every form, variants, missing nights, retention, names of one image, order; with stand-ins."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from kvcheck.execute.containers.engine import Image, ImageMissing
from kvcheck.targets import ranges
from kvcheck.targets.base import RangeError
from kvcheck.targets.listing import Wanted
from kvcheck.targets.registry import RegistryError

TODAY = date(2026, 11, 30)


def sha(number):
    return "sha256:" + f"{number:04x}".rjust(4, "0") * 16


def local(tag, number, created="2026-04-01T00:00:00Z", digest=None):
    return Image(tag or sha(number), sha(number), digest, (tag,) if tag else (), created)


class Engine:
    def __init__(self, *images):
        self.have = images

    def images(self):
        return list(self.have)

    def inspect(self, name):
        for image in self.have:
            if name in (image.id, *image.tags):
                return image
        raise ImageMissing(f"no image {name}")


class Registry:
    """Tags of one repository, by number of the image and when it was built."""

    def __init__(self, tags=None, listing=True, asked=None):
        self.have = tags or {}
        self.listing = listing
        self.asked = asked if asked is not None else []

    def tags(self, repository):
        if not self.listing:
            raise RegistryError("no route to the registry")
        return list(self.have)

    def look(self, image):
        name = image.reference.rpartition(":")[2]
        self.asked.append(name)
        if name not in self.have:
            raise RegistryError("manifest unknown", missing=True)
        number, _ = self.have[name]
        return replace(image, id=sha(number), digest=sha(number + 1000), layers=((sha(number + 2000), 10),))

    def date(self, image):
        return replace(image, created=self.have[image.reference.rpartition(":")[2]][1])

    def look_at_all(self, images, dates=False):
        answers = []
        for image in images:
            try:
                answers.append(self.date(self.look(image)) if dates else self.look(image))
            except RegistryError:
                pass
        return answers


def nights(*days, first=1):
    return {f"nightly_04{day:02d}": (first + number, f"2026-04-{day:02d}T02:00:00Z") for number, day in enumerate(days)}


def build(engine=None, registry=None, **wanted):
    steps, notes = ranges.build(Wanted(**wanted), engine or Engine(), registry or Registry(), TODAY)
    return [image.label for image, _ in steps], notes, steps


MONTHLY = "rocm/vllm-dev:nightly_{date:%m%d}"


def test_days_with_missing_nights_and_odd_tags():
    registry = Registry({**nights(3, 4, 6, 7, 8, 9), "latest": (90, None), "nightly_0405_test": (91, None)})
    labels, notes, _ = build(registry=registry, good="2026-04-03", bad="2026-04-08", template=MONTHLY)
    assert labels == ["nightly_0403", "nightly_0404", "nightly_0406", "nightly_0407", "nightly_0408"]
    assert "2 tags in the registry that nightly_{date:%m%d} does not fit left out: latest, nightly_0405_test" in notes
    assert "1 of 6 days have no image: 2026-04-05" in notes
    assert "nightly_0409" not in registry.asked, "only what lies between the ends is asked for"


def test_an_end_on_a_missing_night_is_moved_outwards_and_said():
    registry = Registry(nights(2, 4, 6, 8))
    labels, notes, _ = build(registry=registry, good="2026-04-03", bad="2026-04-07", template=MONTHLY)
    assert labels == ["nightly_0402", "nightly_0404", "nightly_0406", "nightly_0408"]
    assert "--good 2026-04-03: no image of that day; nightly_0402 of 2026-04-02 is the nearest before it" in notes
    assert "--bad 2026-04-07: no image of that day; nightly_0408 of 2026-04-08 is the nearest after it" in notes


def test_an_end_beyond_what_is_kept_is_an_error_that_names_retention():
    with pytest.raises(RangeError) as caught:
        build(registry=Registry(nights(4, 6)), good="2026-01-02", bad="2026-04-06", template=MONTHLY)
    assert "--good 2026-01-02: the oldest image that fits is nightly_0404 of 2026-04-04; older ones are no longer kept" in str(caught.value)
    with pytest.raises(RangeError, match="the newest image that fits is nightly_0406"):
        build(registry=Registry(nights(4, 6)), good="2026-04-04", bad="2026-05-06", template=MONTHLY)


def test_an_old_image_that_somebody_kept_is_an_end_and_the_gap_is_said():
    engine = Engine(local("docker.io/rocm/vllm-dev:nightly_0320", 50))
    labels, notes, steps = build(engine, Registry(nights(4, 6)), good="nightly_0320", bad="2026-04-06", template=MONTHLY)
    assert labels == ["nightly_0320", "nightly_0404", "nightly_0406"]
    assert [image.local for image, _ in steps] == [True, False, False]
    assert any("the registry's oldest after it is nightly_0404: older ones are no longer kept" in note for note in notes)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("nightly_0403", "nightly_0408"),
        ("rocm/vllm-dev:nightly_0403", "docker.io/rocm/vllm-dev:nightly_0408"),
        (sha(1)[7:19], sha(5)[:21]),
        (sha(1), sha(5)),
        (f"rocm/vllm-dev@{sha(901)}", "nightly_0408"),
    ],
)
def test_ends_by_tag_reference_id_and_digest(good, bad):
    names = ["nightly_0403", "nightly_0404", "nightly_0406", "nightly_0407", "nightly_0408"]
    engine = Engine(*(local(f"docker.io/rocm/vllm-dev:{name}", number, digest=sha(900 + number)) for number, name in enumerate(names, 1)))
    for template in (MONTHLY, "rocm/vllm-dev", *([] if good == "nightly_0403" else [None])):
        labels, _, _ = build(engine, Registry(listing=False), good=good, bad=bad, template=template)
        assert labels == names


def test_ends_that_have_ids_alone_go_by_the_names_that_the_ids_have_here():
    engine = Engine(local("localhost/n:v1-20260403", 1), local("localhost/n:v1-20260405", 3), local("localhost/n:v1-20260404", 2))
    labels, notes, _ = build(engine, good=sha(1)[7:15], bad=sha(3)[7:15])
    assert labels == ["v1-20260403", "v1-20260404", "v1-20260405"] and not notes


def test_ids_without_names_need_to_be_told_where_to_look():
    nameless = [local(None, number, f"2026-04-0{number}T00:00:00Z") for number in (1, 2, 3)]
    engine = Engine(*nameless, local("other:x", 9, "2026-05-01T00:00:00Z"))
    with pytest.raises(RangeError, match="say with --image, --candidates or --from local"):
        build(engine, good=sha(1), bad=sha(3))
    labels, notes, _ = build(engine, good=sha(1), bad=sha(3), source="local")
    assert labels == [sha(number)[7:19] for number in (1, 2, 3)]
    assert notes == ["all 4 local images are looked at"]


def test_a_tag_that_moves_is_the_image_that_it_is_now():
    registry = Registry({**nights(3, 4, 5), "latest": (3, None)})
    labels, _, steps = build(registry=registry, good="rocm/vllm-dev:nightly_0403", bad="rocm/vllm-dev:latest")
    assert labels == ["nightly_0403", "nightly_0404", "nightly_0405"]
    assert steps[-1][0].id == sha(3)


def test_an_id_that_is_no_image_s_or_two_images_is_refused():
    engine = Engine(local("a/b:n-20260403", 0x1111), local("a/b:n-20260404", 0x1112))
    with pytest.raises(RangeError) as caught:
        build(engine, Registry(), good="aaaaaa", bad="n-20260404", template="a/b:n-{date}")
    assert "not an image here" in str(caught.value)
    engine = Engine(Image("a:1", "sha256:" + "ab" * 32, None, ("a:1",)), Image("a:2", "sha256:" + "ab" * 31 + "cd", None, ("a:2",)))
    with pytest.raises(RangeError, match="2 images have an id that begins so"):
        build(engine, Registry(), good="abababab", bad="a:2", source="local")


def test_a_name_that_is_not_there_is_answered_with_the_nearest():
    with pytest.raises(RangeError) as caught:
        build(registry=Registry(nights(3, 4)), good="nightly_0403", bad="nightly_0405", template="rocm/vllm-dev")
    text = str(caught.value)
    assert "--bad" in text and "'nightly_0405'" in text and "manifest unknown" in text and "near: nightly_040" in text


def test_one_variant_is_kept_to_and_others_are_counted():
    tags = [
        f"v0.5-rocm{rocm}-{card}-2026040{day}" for day in (3, 4, 5) for rocm, card in (("720", "mi35x"), ("700", "mi35x"), ("720", "mi30x"))
    ]
    registry = Registry({tag: (number, None) for number, tag in enumerate(tags)})
    template = "s/g:v{version}-rocm{rocm}-{card}-{date}"
    labels, notes, steps = build(
        registry=registry, good="v0.5-rocm720-mi35x-20260403", bad="v0.5-rocm720-mi35x-20260405", template=template
    )
    assert labels == [tag for tag in tags if "rocm720-mi35x" in tag]
    assert {image.variant for image, _ in steps} == {"rocm720 mi35x"}
    assert "variant rocm720 mi35x is kept to; left out: 3 of rocm700 mi35x, 3 of rocm720 mi30x" in notes


def test_variants_are_never_crossed_in_silence():
    tags = ["n-rocm700-20260403", "n-rocm720-20260405"]
    with pytest.raises(RangeError, match="ROCm stack or card changed between these two: n-rocm700-20260403 is rocm700"):
        build(
            registry=Registry({tag: (i, None) for i, tag in enumerate(tags)}), good=tags[0], bad=tags[1], template="s/g:n-rocm{rocm}-{date}"
        )
    commits = ["nightly-" + "a1" * 20, "nightly-rocm100-" + "b2" * 20]
    with pytest.raises(RangeError, match="the ends are named in two ways"):
        build(registry=Registry({tag: (i, None) for i, tag in enumerate(commits)}), good=f"s/g:{commits[0]}", bad=f"s/g:{commits[1]}")


def test_a_guessed_template_keeps_the_variant_of_ends_that_are_days():
    registry = Registry({"n-rocm700-20260403": (1, None), "n-rocm720-20260403": (2, None), "n-rocm720-20260405": (3, None)})
    with pytest.raises(RangeError, match="ROCm stack or card changed"):
        build(registry=registry, good="2026-04-03", bad="2026-04-05", template="s/g:n-rocm{rocm}-{date}")
    labels, _, _ = build(registry=registry, good="2026-04-03", bad="2026-04-05", template="s/g:n-rocm720-{date}")
    assert labels == ["n-rocm720-20260403", "n-rocm720-20260405"]


def test_two_tags_of_one_image_are_one_step():
    tags = {"nightly_0403": (1, None), "nightly_0404": (2, None), "nightly_0405": (2, None), "nightly_0406": (3, None)}
    labels, notes, steps = build(registry=Registry(tags), good="2026-04-03", bad="2026-04-06", template=MONTHLY)
    assert labels == ["nightly_0403", "nightly_0404", "nightly_0406"]
    assert steps[1][1] == ("nightly_0405",)
    assert "nightly_0404 and nightly_0405 are one image and one step" in notes
    with pytest.raises(RangeError, match="both ends are one image"):
        build(registry=Registry(tags), good="2026-04-04", bad="2026-04-05", template=MONTHLY)


def test_an_image_that_is_here_under_another_name_is_not_pulled():
    engine = Engine(local(None, 2))
    _, _, steps = build(engine, Registry(nights(3, 4, 5)), good="2026-04-03", bad="2026-04-05", template=MONTHLY)
    assert [image.local for image, _ in steps] == [False, True, False]


def test_ends_the_wrong_way_round_are_told_of_find_fix():
    registry = Registry(nights(3, 4, 5))
    with pytest.raises(RangeError, match="--good 2026-04-05 is newer than --bad 2026-04-03 .*--find fix"):
        build(registry=registry, good="2026-04-05", bad="2026-04-03", template=MONTHLY)
    labels, _, _ = build(registry=registry, good="2026-04-05", bad="2026-04-03", template=MONTHLY, find="fix")
    assert labels == ["nightly_0403", "nightly_0404", "nightly_0405"]
    with pytest.raises(RangeError, match="--bad 2026-04-05 is newer than --good 2026-04-03"):
        build(registry=registry, good="2026-04-03", bad="2026-04-05", template=MONTHLY, find="fix")


def test_commit_tags_are_in_the_order_they_were_built_and_the_better_way_is_named():
    tags = {f"nightly-{letter * 40}": (number, f"2026-04-0{number}T00:00:00Z") for letter, number in (("c", 1), ("a", 2), ("b", 3))}
    labels, notes, _ = build(registry=Registry(tags), good="cccccccc", bad="nightly-" + "b" * 40, template="v/r:nightly-{commit}")
    assert [label[8] for label in labels] == ["c", "a", "b"]
    assert any("--order-by-git" in note for note in notes)


def test_a_registry_that_does_not_list_is_asked_a_day_at_a_time():
    registry = Registry(nights(3, 5), listing=False)
    labels, notes, _ = build(registry=registry, good="2026-04-03", bad="2026-04-05", template=MONTHLY)
    assert labels == ["nightly_0403", "nightly_0405"]
    assert any("one image a day is asked for" in note for note in notes)
    assert "1 of 3 days have no image: 2026-04-04" in notes
    with pytest.raises(RangeError, match="cannot be listed: no route"):
        build(registry=registry, good="2026-04-03", bad="2026-04-05", template=MONTHLY, source="registry")
    labels, _, _ = build(registry=Registry(nights(3, 5)), good="2026-04-03", bad="2026-04-05", template=MONTHLY, source="dates")
    assert labels == ["nightly_0403", "nightly_0405"]


def test_without_a_registry_what_is_here_will_do_and_it_is_said():
    engine = Engine(local("s/g:n-a1b2c3d", 1, "2026-04-01T00:00:00Z"), local("s/g:n-b2c3d4e", 2, "2026-04-02T00:00:00Z"))
    labels, notes, _ = build(engine, Registry(listing=False), good="s/g:n-a1b2c3d", bad="s/g:n-b2c3d4e")
    assert labels == ["n-a1b2c3d", "n-b2c3d4e"]
    assert any("the registry was not asked (no route to the registry)" in note for note in notes)


def test_names_that_are_local_alone_are_not_looked_for_elsewhere():
    engine = Engine(local("localhost/n:d-20260403", 1), local("localhost/n:d-20260404", 2))
    registry = Registry(listing=False)
    labels, notes, _ = build(engine, registry, good="n:d-20260403", bad="n:d-20260404")
    assert labels == ["d-20260403", "d-20260404"] and not notes and not registry.asked


def test_a_list_is_taken_in_its_order_and_a_file_has_comments(tmp_path):
    file = tmp_path / "list"
    file.write_text("# kept by hand\ns/g:one  # the good one\n\ns/g:two\ns/g:three\n")
    registry = Registry({"one": (1, None), "two": (2, None), "three": (3, None)})
    labels, _, _ = build(registry=registry, good="s/g:one", bad="s/g:three", candidates=(str(file),))
    assert labels == ["g:one", "g:two", "g:three"]
    with pytest.raises(RangeError, match="is newer than"):
        build(registry=registry, good="s/g:three", bad="s/g:one", candidates=("s/g:one", "s/g:two", "s/g:three"))
    files = [local(f"{name}.sif", number) for number, name in enumerate("abc")]
    assert build(Engine(*files), good="a.sif", bad="c.sif", candidates=("a.sif", "b.sif", "c.sif"))[0] == ["a.sif", "b.sif", "c.sif"]
    file.write_text("s/g:one s/g:two\n")
    with pytest.raises(RangeError, match=":1: expected one image a line"):
        build(registry=registry, good="s/g:one", bad="s/g:three", candidates=(str(file),))


def test_a_list_with_a_template_goes_by_its_days():
    names = ("s/g:n-20260405", "s/g:n-20260403", "s/g:odd", "s/g:n-20260404")
    registry = Registry({name.rpartition(":")[2]: (number, None) for number, name in enumerate(names)})
    labels, notes, _ = build(registry=registry, good="2026-04-03", bad="2026-04-05", candidates=names, template="s/g:n-{date}")
    assert labels == ["n-20260403", "n-20260404", "n-20260405"]
    assert "1 of 4 in --candidates that n-{date} does not fit left out" in notes


def test_a_tag_that_is_listed_but_gone_is_left_out_and_said():
    class Gone(Registry):
        def tags(self, repository):
            return [*self.have, "nightly_0404"]

    labels, notes, _ = build(registry=Gone(nights(3, 5)), good="2026-04-03", bad="2026-04-05", template=MONTHLY)
    assert labels == ["nightly_0403", "nightly_0405"]
    assert "1 that the registry names but does not have left out: nightly_0404" in notes
