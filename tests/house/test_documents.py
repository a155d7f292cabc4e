"""Whether the documents tell the truth: commands exist, samples run, and nothing of the builder's machine is left in a file."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

# The command of this environment, whatever PATH says.
KVCHECK = str(Path(sys.executable).parent / "kvcheck")

# Spelt in pieces, so that this file does not find itself.
NOT_TO_BE_NAMED = {
    "a registry host": r"pypi\.(?:org)|pythonhosted\.(?:org)|npmjs\.(?:org)|deb\.debian\.(?:org)|download\.pytorch\.(?:org)",
    "a path of one machine": r"(?<![\w.~/-])/(?:work|root|home)/(?!\w*\$)[\w.]|/tmp/w(?:/)|/opt/(?:wheels)|/opt/(?:pypi)",
    "work left undone": r"\b(?:TO[D]O|FIX[M]E|XX[X])\b",
    "a library of this workplace": r"\.(?:library)/",
}


GROUPS = ("agent", "bisect", "cases")
"""Commands that are followed by another."""


def blocks(path: Path, language: str) -> list[str]:
    """Fenced blocks of one language in a Markdown file."""
    found, inside = [], None
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith("```"):
            if inside is None:
                inside = line[3:].strip()
                found.append((inside, []))
            else:
                inside = None
        elif inside is not None:
            found[-1][1].append(line)
    return ["".join(lines) for name, lines in found if name == language]


def make_targets(root: Path) -> set[str]:
    """Targets of the Makefile."""
    return set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def documents(root: Path) -> list[Path]:
    """What a newcomer reads."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]


def commands(path: Path, program: str) -> list[list[str]]:
    """Commands of one program in the fenced blocks of a document, comments removed."""
    lines = [line for block in blocks(path, "") for line in block.splitlines() if line.startswith(f"{program} ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_every_make_command_exists(documents: list[Path], root: Path):
    named = {words[0] for path in documents for words in commands(path, "make")}
    assert {"run", "test", "setup", "check", "bench", "wheel"} <= named
    assert named <= make_targets(root)


def test_every_kvcheck_command_and_option_exists(documents: list[Path]):
    named = [words for path in documents for words in commands(path, "kvcheck")]
    assert len(named) >= 6
    for words in named:
        path = words[: 2 if words[0] in GROUPS else 1]
        helped = subprocess.run(
            [KVCHECK, *path, "--help"],
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "300", "NO_COLOR": "1"},
            check=False,
        )
        assert helped.returncode == 0, words
        for option in (word.partition("=")[0] for word in words[1:] if word.startswith("--")):
            assert re.search(rf"{option}\b", helped.stdout), f"kvcheck {' '.join(path)} has no {option}"


def test_continuous_integration_runs_the_readme_s_test_command(root: Path):
    script = (root / ".ci/run").read_text()
    assert re.findall(r"^exec make .*\b(\w+) </dev/null$", script, re.MULTILINE) == ["test"]
    assert (root / ".ci/run").stat().st_mode & 0o111
    assert ["test"] in commands(root / "README.md", "make")


def test_linked_files_exist(documents: list[Path]):
    for path in documents:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_folders_that_are_named_exist(documents: list[Path], root: Path):
    made = {"reports", ".venv-front", "dist"}  # by commands
    for path in documents:
        for folder in re.findall(r"`((?:\.|\w)[\w./-]*)/`", path.read_text()):
            assert folder in made or (root / folder).is_dir(), f"{path.name} names {folder}/"


def test_the_readme_stays_readable(root: Path):
    assert len((root / "README.md").read_text().splitlines()) <= 220


def test_the_readme_s_kernel_passes(root: Path, tmp_path: Path):
    (tmp_path / "my_kernel.py").write_text(blocks(root / "README.md", "python")[0])
    command = [KVCHECK, "run", "smoke", "--provider", "./my_kernel.py", "--device", "cpu", "--out", "out"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = json.loads((tmp_path / "out/run.json").read_text())["cases"]
    assert [row["verdict"] for row in rows] == ["pass"] * 10
    assert all("fp32_any" in str(row["precision"]) for row in rows)


def test_the_readme_s_case_file_is_valid(root: Path, tmp_path: Path):
    (tmp_path / "my_sweep.yaml").write_text(blocks(root / "README.md", "yaml")[0])
    # A case that does not exist is refused after the file was read and the sweep was planned.
    command = [KVCHECK, "run", "my_sweep.yaml", "--only", "nothing[x=1]", "--out", "out"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode in (2, 3), result.stdout + result.stderr
    assert "nothing[x=1]" in result.stdout + result.stderr
    assert "my_sweep.yaml:" not in result.stdout + result.stderr


@pytest.mark.parametrize("what", NOT_TO_BE_NAMED)
def test_no_committed_file_names(committed: list[Path], root: Path, what: str):
    found = []
    for path in committed:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(root)}: {match[0]}" for match in re.finditer(NOT_TO_BE_NAMED[what], text)]
    assert not found


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a registry host", "https://" + "pypi." + "org/simple"),
        ("a path of one machine", "see " + "/work" + "/main/x"),
        ("a path of one machine", "'" + "/root" + "/.cache'"),
        ("work left undone", "# TO" + "DO: later"),
    ],
)
def test_what_must_not_be_named_is_recognised(what: str, text: str):
    assert re.search(NOT_TO_BE_NAMED[what], text)
