"""Posts a report to a GitHub issue or pull request through the `gh` command line, after showing it and asking."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from kvcheck.flow.options import NothingJudged, UsageError
from kvcheck.report.words.clean import line

SHORT = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]+)#(?P<number>[1-9]\d{0,9})")
ADDRESS = re.compile(r"https?://(?P<host>[\w.-]+)/(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]+)/(?:issues|pull)/(?P<number>[1-9]\d{0,9})/?(?:#.*)?")
MARKER = re.compile(r"<!-- kvcheck report ([\w.,-]+) -->")
LIMIT_S = 120.0
"""Seconds that gh may take."""


@dataclass(frozen=True)
class Place:
    """An issue or a pull request.

    Args:
        repo: OWNER/REPO, with the host in front where it is not github.com.
        number: of the issue.
    """

    repo: str
    number: str


def parse(text: str) -> Place:
    """OWNER/REPO#N, or the address of an issue or a pull request.

    Raises:
        UsageError: neither.
    """
    match = SHORT.fullmatch(text) or ADDRESS.fullmatch(text)
    if not match:
        raise UsageError(f"--post: expected OWNER/REPO#N or the address of an issue or pull request, got {text!r}; nearest: ROCm/aiter#123")
    host = match.groupdict().get("host")
    return Place(match["repo"] if host in (None, "github.com") else f"{host}/{match['repo']}", match["number"])


def post(text: str, place: Place, yes: bool) -> None:
    """Shows a comment, asks, and posts it; a report of the same cases that is the user's last comment there is edited in place.

    Args:
        text: the comment.
        place: where to.
        yes: do not ask.

    Raises:
        UsageError: there is no gh, or nobody to ask.
        NothingJudged: gh failed; its words are in the message.
    """
    gh = shutil.which("gh")
    if not gh:
        raise UsageError(
            "--post: expected the gh command line on PATH, got none. Install it (https://cli.github.com), `gh auth login`, and run this "
            f"again; or write the comment with --format github --out comment.md and, where gh is: {by_hand(place)}"
        )
    if not yes and not sys.stdin.isatty():
        raise UsageError("--post: expected a terminal to ask on, got none; post without being asked: --yes")
    edits, why = _how(gh, place, text)
    sys.stdout.write(text)
    sys.stdout.write(f"\n{len(text):,} characters, for {place.repo}#{place.number}: {why}\n")
    sys.stdout.flush()
    if not yes and not _agreed():
        sys.stdout.write("not posted\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "comment.md")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
        done = _call(gh, ["issue", "comment", place.number, "--repo", place.repo, "--body-file", file, *edits])
    if done.returncode:
        said = line(done.stderr or done.stdout, 1000) or "it said nothing"
        raise NothingJudged(f"gh could not post it (exit status {done.returncode}): {said}")
    sys.stdout.write(f"posted: {line(done.stdout) or f'{place.repo}#{place.number}'}\n")


def by_hand(place: Place) -> str:
    """The command that posts a file."""
    return f"gh issue comment {place.number} --repo {place.repo} --body-file comment.md"


def _how(gh: str, place: Place, text: str) -> tuple[list[str], str]:
    """Options that edit a comment in place, and what will happen in words. Only a report of the same cases is ever overwritten."""
    said = _call(gh, ["issue", "comment", "--help"]).stdout
    if "--edit-last" not in said:
        return [], "a new comment (this gh has no --edit-last; delete the earlier report by hand)"
    mine = _last_of_mine(gh, place)
    if mine is None:
        return [], "a new comment"
    before, now = MARKER.search(mine), MARKER.search(text)
    if not before or not now or before[1] != now[1]:
        return [], "a new comment (your last one there is no report of these cases and stays as it is)"
    more = ["--create-if-none"] if "--create-if-none" in said else []
    return ["--edit-last", *more], "in place of your last comment there, an earlier report of these cases"


def _last_of_mine(gh: str, place: Place) -> str | None:
    """The body of the user's last comment there; None where there is none, or where gh does not tell."""
    done = _call(gh, ["issue", "view", place.number, "--repo", place.repo, "--json", "comments"])
    try:
        comments = json.loads(done.stdout)["comments"] if done.returncode == 0 else []
        mine = [comment["body"] for comment in comments if comment.get("viewerDidAuthor")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return mine[-1] if mine else None


def _agreed() -> bool:
    sys.stdout.write("Post it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _call(gh: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """gh with these words; it never asks, and never takes longer than it may."""
    environment = {**os.environ, "GH_PROMPT_DISABLED": "1", "NO_COLOR": "1"}
    try:
        return subprocess.run(
            [gh, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NothingJudged(f"gh could not be used: {error}") from error
