"""Pulls against a real registry: what is needed, two ahead, a budget of disk, and nothing removed that others put here."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from kvcheck.targets.base import Unavailable
from kvcheck.targets.found import Found
from kvcheck.targets.pulls import Pulls
from kvcheck.targets.registry import Registry

pytestmark = pytest.mark.xdist_group("bisect-images")
"""One worker for all: images are made and pushed once."""

SIZE = 1 << 20


@pytest.fixture(scope="module")
def nights(registry):
    """Five images of 1 MiB, in the registry and not here."""
    for number in range(5):
        registry.put("p", f"night{number}", size=SIZE)
    asked = Registry(tls_verify=False)
    return [asked.look(Found(f"{registry.host}/p:night{number}")) for number in range(5)]


@pytest.fixture
def here(registry, nights):
    """Numbers of the nights that are on this machine."""

    def numbers():
        ids = {image.id for image in registry.engine.images()}
        return {number for number, night in enumerate(nights) if night.id in ids}

    return numbers


@contextlib.contextmanager
def pulls(registry, folder=None, **options):
    made = Pulls(registry.engine, **options)
    if folder:
        made.open(folder)
    try:
        yield made
    finally:
        made.close()


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def test_an_image_is_pulled_by_digest_and_is_the_one_that_was_meant(registry, nights, here):
    said = []
    with pulls(registry, say=said.append) as made, made.use(nights[1]) as image:
        assert image.id == nights[1].id and here() == {1}
    assert said == ["pulling p:night1, 1.0 MiB to fetch"]
    with pulls(registry, say=said.append) as made, made.use(nights[1]):
        assert len(said) == 1, "what is here is not pulled"


def test_two_are_pulled_ahead_while_the_current_one_is_used(registry, nights, here):
    with pulls(registry) as made, made.use(nights[2]):
        made.ahead([nights[1], nights[3], nights[4]])
        until(lambda: here() == {1, 2, 3})
        with made.use(nights[3]):
            pass
        assert set(made.mine) == {nights[number].id for number in (1, 2, 3)}


def test_the_least_recently_used_goes_first_and_what_was_here_before_stays(registry, nights, here):
    assert registry.engine.pull(nights[0].reference).id == nights[0].id
    with pulls(registry, budget=int(3.5 * SIZE)) as made:
        with made.use(nights[0]):
            pass
        for number in (1, 2, 3):
            with made.use(nights[number]):
                pass
        with made.use(nights[1]):
            pass
        with made.use(nights[4]):
            assert here() == {0, 1, 3, 4}, "2 was used the longest time ago; 0 is somebody else's"


def test_what_is_in_use_or_near_it_is_not_removed_for_what_may_come(registry, nights, here):
    near = {nights[2].id: {nights[1].id}}
    with pulls(registry, budget=int(2.5 * SIZE), near=lambda key: near.get(key, set())) as made:
        with made.use(nights[1]):
            pass
        with made.use(nights[2]):
            made.ahead([nights[3]])
            time.sleep(0.5)
            assert here() == {1, 2}, "nothing is removed for a guess"
            with made.use(nights[3]):
                assert here() == {2, 3}, "for what is needed the near one goes, the one in use does not"
            with made.use(nights[4]):
                assert here() == {2, 4}


def test_an_image_beyond_the_budget_is_unavailable_and_said(registry, nights, here):
    said = pytest.raises(Unavailable, match=r"night1 takes about 1.0 MiB on disk, and --disk allows 0.5 MiB")
    with pulls(registry, budget=SIZE // 2) as made, said, made.use(nights[1]):
        pass
    assert here() == set()


def test_a_pull_that_fails_is_unavailable_with_what_was_said(registry, nights):
    gone = Found(f"{registry.host}/p:gone", problem=None)
    with pulls(registry) as made:
        for _ in range(2):
            with pytest.raises(Unavailable, match="manifest unknown"), made.use(gone):
                pass
        with pytest.raises(Unavailable, match="was not asked"), made.use(Found(f"{registry.host}/p:x", problem="was not asked")):
            pass
        assert not made.mine


def test_what_a_killed_kvcheck_was_pulling_is_known_as_its_own(registry, nights, here, tmp_path):
    class Killed(Exception):
        pass

    def killed(reference, report=None, stop=None):
        entries = json.loads((tmp_path / "pulled.json").read_text())["images"]
        assert entries[nights[1].id]["here"] is False, "written before the pull begins"
        raise Killed

    with pulls(registry, tmp_path) as made:
        made._engine = type("Engine", (), {"inspect": registry.engine.inspect, "pull": staticmethod(killed)})()
        ended = []
        hook, threading.excepthook = threading.excepthook, lambda caught: ended.append(caught.exc_type)
        try:
            made.ahead([nights[1]])
            until(lambda: ended)
        finally:
            threading.excepthook = hook
        made._running.clear()
    assert ended == [Killed]
    registry.engine.pull(f"{registry.host}/p@{nights[1].digest}")  # what went on when its client was killed
    with pulls(registry, tmp_path, budget=int(1.5 * SIZE)) as made:
        assert set(made.mine) == {nights[1].id}
        with made.use(nights[2]):
            assert here() == {2}, "so it may be removed"


def test_pulls_that_still_run_are_given_up_at_the_end(registry):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pulls(registry) as made:
            made.ahead([Found(f"127.0.0.1:{silent.getsockname()[1]}/n:x", id="sha256:" + "0" * 64)])
            until(lambda: made._running)
            began = time.monotonic()
        assert time.monotonic() - began < 5.0 and not made._running
