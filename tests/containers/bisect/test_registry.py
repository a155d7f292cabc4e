"""A real registry on 127.0.0.1, asked through skopeo."""

from __future__ import annotations

import subprocess
from datetime import date

import pytest

from kvcheck.targets import order, ranges
from kvcheck.targets.found import Found
from kvcheck.targets.listing import Wanted
from kvcheck.targets.registry import Registry, RegistryError

pytestmark = pytest.mark.xdist_group("bisect-images")
"""One worker for all: images are made and pushed once."""

DAY = 86400
APRIL = 1775174400
"""2026-04-03 00:00 UTC."""


@pytest.fixture(scope="module")
def nightlies(registry):
    """Ids of n:nightly_0403 to 0406; the last one has two tags."""
    commits = "abc"
    made = [
        registry.put("n", f"nightly_040{3 + number}", created=APRIL + number * DAY, labels={order.REVISION: letter * 40}, size=2000)
        for number, letter in enumerate(commits)
    ]
    made.append(registry.put("n", "nightly_0406", "nightly_0407", created=APRIL + 3 * DAY))
    registry.put("n", "latest", created=APRIL)
    return made


def test_tags_are_listed_and_an_image_is_known_without_pulling_it(registry, nightlies):
    asked = Registry(tls_verify=False)
    assert set(asked.tags(f"{registry.host}/n")) == {"latest", *(f"nightly_040{day}" for day in (3, 4, 5, 6, 7))}
    found = asked.date(asked.look(Found(f"{registry.host}/n:nightly_0404")))
    assert found.id == nightlies[1], "the id is the one that the image has on the machine that built it"
    shown = ["skopeo", "inspect", "--tls-verify=false", "--format", "{{.Digest}}", f"docker://{found.reference}"]
    assert found.digest == subprocess.run(shown, check=True, capture_output=True, text=True).stdout.strip()
    assert found.created.startswith("2026-04-04T00:00:00")
    assert found.labels[order.REVISION] == "b" * 40
    assert sum(size for _, size in found.layers) > 1500
    assert not [image for image in registry.engine.images() if image.id == nightlies[1]]


def test_what_is_not_there_is_told_apart_from_what_cannot_be_asked(registry):
    asked = Registry(tls_verify=False)
    with pytest.raises(RegistryError) as caught:
        asked.look(Found(f"{registry.host}/n:nothing"))
    assert caught.value.missing and "manifest unknown" in str(caught.value)
    with pytest.raises(RegistryError) as caught:
        asked.tags(f"{registry.host}/nothing")
    assert caught.value.missing
    with pytest.raises(RegistryError) as caught:
        asked.tags("127.0.0.1:1/n")
    assert not caught.value.missing and "connection refused" in str(caught.value)
    with pytest.raises(RegistryError, match=r"(?i)https|tls|certificate"):
        Registry(tls_verify=True).tags(f"{registry.host}/n")


def test_without_skopeo_the_message_says_what_to_install():
    with pytest.raises(RegistryError, match="asked through no-such-skopeo, which is not on PATH: install it"):
        Registry(skopeo="no-such-skopeo").tags("127.0.0.1:1/n")


def test_a_list_of_images_for_several_machines_is_followed_to_ours(registry, nightlies):
    name = f"{registry.host}/n:several"
    registry.call("manifest", "create", name)
    registry.call("manifest", "add", "--tls-verify=false", "--arch", "s390x", name, f"docker://{registry.host}/n:nightly_0403")
    registry.call("manifest", "add", "--tls-verify=false", name, f"docker://{registry.host}/n:nightly_0405")
    registry.call("manifest", "push", "--all", "--tls-verify=false", name, f"docker://{name}")
    registry.call("rmi", name)
    assert Registry(tls_verify=False).look(Found(name)).id == nightlies[2]


def test_a_range_of_a_registry_s_tags(registry, nightlies):
    wanted = Wanted("2026-04-03", "nightly_0407", template=f"{registry.host}/n:nightly_{{date:%m%d}}")
    steps, notes = ranges.build(wanted, registry.engine, Registry(tls_verify=False), date(2026, 11, 30))
    assert [(image.label, image.id) for image, _ in steps] == [(f"nightly_040{3 + n}", made) for n, made in enumerate(nightlies)]
    assert steps[3][1] == ("nightly_0407",), "two tags with one digest"
    assert any("latest" in note for note in notes)
    wanted = Wanted("nightly_0403", nightlies[3], template=f"{registry.host}/n", order="created")
    steps, _ = ranges.build(wanted, registry.engine, Registry(tls_verify=False), date(2026, 11, 30))
    assert [image.id for image, _ in steps][-3:] == nightlies[1:], (
        "an end by an id that only the registry has, in the order they were built"
    )
