"""A bisect of images that a registry has: tags listed, images pulled by digest, two ahead, within a budget of disk."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from kvcheck.targets.found import Found
from kvcheck.targets.registry import Registry

pytestmark = pytest.mark.xdist_group("bisect-images")
"""One worker for all: images are made and pushed once."""

KINDS = ("right", "right", "right", "wrong", "wrong", "wrong")
CASE = """schema: 1
name: small
op: topk_per_row
why: small enough for a container on two cores
providers: [provider.py]
fixed: {batch: 2, context_len: 40}
axes:
  topk: [8]
"""


@pytest.fixture
def nights(registry, parent, planted):
    """Ids of v1-rocm720-mi35x-20260403 to 0408, and of one of another ROCm."""
    made = {}
    for number, kind in enumerate(KINDS):
        tag = f"v1-rocm720-mi35x-2026040{3 + number}"
        made[tag] = registry.put("bisect/n", tag, size=200_000, parent=parent, files=planted(kind, tag))
    registry.put("bisect/n", "v1-rocm700-mi35x-20260405", parent=parent, files=planted("wrong"))
    return made


def test_tags_are_listed_pulled_by_digest_and_kept_within_the_budget(kvcheck, registry, nights, tmp_path):
    (tmp_path / "small.yaml").write_text(CASE)
    (tmp_path / "provider.py").write_text('"""From the image."""\n\nfrom nightly_kernel import topk_per_row\n')
    _break(registry, "v1-rocm720-mi35x-20260405")
    words = ("--good", "2026-04-03", "--bad", "2026-04-08", "--image", f"{registry.host}/bisect/n:v{{version}}-rocm720-{{card}}-{{date}}")
    words += ("--no-tls-verify", "small.yaml", "--device", "cpu", "--every")
    plan = kvcheck("bisect", "images", *words, "--dry-run")
    assert plan.code == 0, plan.err
    assert "6 images" in plan.out and "`here already`: `0`" in plan.out and "bytes to pull" in plan.out
    tags = list(nights)
    before = {image.id for image in registry.engine.images()}
    budget = (_size(registry, tags[0]) + 2 * 250_000) / 2**30
    done = kvcheck("bisect", "images", *words, "--disk", f"{budget:.5f}", "--out", "o")
    assert done.code == 3, done.out + done.err
    state = json.loads((tmp_path / "o/bisect.json").read_text())
    assert [candidate["key"] for candidate in state["candidates"]] == [nights[tag] for tag in tags]
    kinds = {int(index): answer["kind"] for index, answer in state["result"]["answers"].items()}
    assert kinds[2] == "unknown" and "could not fetch" in state["result"]["answers"]["2"]["reason"], "a pull that failed is not bad"
    assert (state["result"]["good"], state["result"]["bad"], state["result"]["between"]) == (1, 3, [2])
    assert "rocm700" not in done.out.partition("Steps")[2]
    assert "pulling v1-rocm720-mi35x-20260408" in done.err and "to make room" in done.err
    here = {image.id for image in registry.engine.images()}
    assert before <= here and 1 <= len(here - before) <= 3, "what was pulled is within the budget, what was here is still here"
    assert set(json.loads((tmp_path / "o/pulled.json").read_text())["images"]) == here - before


def _size(registry, tag: str) -> int:
    """Bytes of an image unpacked, as far as its layers tell before it is pulled: the budget is for what is fetched until one is here."""
    image = Registry(tls_verify=False).look(Found(f"{registry.host}/bisect/n:{tag}"))
    shown = registry.engine.inspect("localhost/double:1").size
    return max(shown, sum(dict(image.layers).values()))


def _break(registry, tag: str) -> None:
    """Takes a layer's bytes away from the registry, which still names the image."""
    image = Registry(tls_verify=False).look(Found(f"{registry.host}/bisect/n:{tag}"))
    digest = image.layers[-1][0].removeprefix("sha256:")
    blob = Path(registry.folder, "docker/registry/v2/blobs/sha256", digest[:2], digest)
    assert blob.is_dir() and hashlib.sha256((blob / "data").read_bytes()).hexdigest() == digest
    shutil.rmtree(blob)
