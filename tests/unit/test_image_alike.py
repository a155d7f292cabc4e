"""What an image is to the cases: the packages that providers reach, what two images are alike in, what four exchanged runs convict."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kvcheck.execute.containers.engine import Image
from kvcheck.targets import alike
from kvcheck.targets.alike import Look, Packages, below, imports
from kvcheck.targets.swapped import convict

IMAGE = Image("a:1", "sha256:" + "0" * 64, env={"PATH": "/usr/bin"})


def contents(**changes):
    """What an image holds, in the form that the agent's look gives it."""

    def package(name, digest):
        return {
            "version": "1",
            "digest": changes.get(name, digest),
            "distribution": name,
            "commit": {"commit": None, "sure": "none", "sentence": ""},
        }

    return {
        "python": {"version": changes.get("python", "3.12.1"), "executable": "/usr/bin/python3", "prefix": "/usr"},
        "rocm": {"version": changes.get("rocm", "7.2.0")},
        "cuda": {"version": None},
        "packages": {"torch": package("torch", "t"), "aiter": package("aiter", "a"), "vllm": package("vllm", "v")},
        "distributions": {"torch": "1", "aiter": "1", "vllm": changes.get("vllm_version", "1"), "numpy": changes.get("numpy", "2")},
    }


@pytest.fixture
def look(monkeypatch):
    """Asks a made-up image: `look(providers, **changes)` is its Packages."""

    def call(providers, image=IMAGE, **changes):
        monkeypatch.setattr(
            alike, "looked", SimpleNamespace(
                ask_image=lambda *_: contents(**changes), settle=lambda *_: None,
                brief=lambda found: {name: {"commit": None} for name in found["packages"]}, summary=lambda _: {},
            ),
        )  # fmt: skip
        return Look(providers)(None, image)

    return call


@pytest.mark.parametrize("change", [{"aiter": "b"}, {"torch": "b"}, {"python": "3.12.2"}, {"rocm": "7.2.3"}, {"numpy": "3"}])
def test_whatever_an_aiter_kernel_reaches_makes_images_unlike(look, change):
    assert look(["aiter:stage1"]).key != look(["aiter:stage1"], **change).key


def test_a_server_that_changes_every_night_does_not(look):
    same = look(["aiter"]).key
    assert same == look(["aiter"], vllm="w", vllm_version="2").key
    assert look(["vllm"]).key != look(["vllm"], vllm="w", vllm_version="2").key


def test_a_variable_of_the_image_does(look):
    assert look(["aiter"]).key != look(["aiter"], image=Image("a:2", "sha256:" + "1" * 64, env={"PATH": "/usr/bin", "X": "1"})).key


def test_a_package_without_a_hash_is_alike_to_nothing(look):
    assert look(["aiter"], aiter="").key is None


def test_what_a_provider_takes_from_an_image(tmp_path):
    assert imports("aiter:stage1") == {"aiter"} and imports("triton") == imports("torch_eager") == set()
    assert imports("fault:wrong_block") == set() and imports(f"aiter@{tmp_path}") == set()
    file = tmp_path / "mine.py"
    file.write_text("import os\nimport torch\nfrom my_kernels.sub import f\n\ndef g():\n    import other\n")
    assert imports(str(file)) == {"torch", "my_kernels", "other"}
    file.write_text("import importlib\nf = importlib.import_module(name)\n")
    assert imports(str(file)) is None, "what it imports is decided when it runs"
    assert imports("/opt/only/in/the/image.py") is None and not Look(["/opt/only/in/the/image.py"]).keys


def test_commands_that_look_below(tmp_path):
    good = Packages({"aiter": "0.1.7 a1", "torch": "2"}, {"aiter": "a" * 40})
    bad = Packages({"aiter": "0.1.8", "torch": "2"}, {})
    words = below(good, bad, ("n1", "n2"), cases=["c.yaml"], providers=["aiter:stage1", "mine.py", "triton"], clones={"aiter": tmp_path})
    assert words == [
        [
            "bisect",
            "git",
            str(tmp_path),
            "--good",
            "a" * 40,
            "--bad",
            "<commit of aiter in n2>",
            "c.yaml",
            "--provider",
            "aiter:stage1@{tree}",
        ]
    ]
    more = below(good, bad, ("n1", "n2"), cases=["c.yaml"], providers=["aiter"], clones={}, more=["--device", "cpu"])
    assert more[0][-4:] == ["--provider", "aiter@{tree}", "--device", "cpu"]
    assert below(good, good, ("n1", "n2"), cases=["c.yaml"], providers=["aiter"], clones={}) == []
    assert below(good, bad, ("n1", "n2"), cases=["c.yaml"], providers=["aiter"], clones={})[0][2] == "<clone of aiter>"


@pytest.mark.parametrize(
    ("with_bad", "with_good", "said"),
    [
        ("bad", "good", "p is convicted"),
        ("good", "bad", "The image is convicted, not p"),
        ("bad", "bad", "is enough to break the good image"),
        ("good", "good", "needs the bad image's p and the bad image around it"),
        ("bad", "unknown", "p of the bad image breaks the good image; the reverse gave no answer"),
        ("unknown", "unknown", "neither exchange gave an answer"),
    ],
)
def test_four_answers_convict_the_package_the_image_or_neither_alone(with_bad, with_good, said):
    assert said in convict("p", ["good", "bad", with_bad, with_good])
    assert "no longer answer" in convict("p", ["good", "good", with_bad, with_good])
