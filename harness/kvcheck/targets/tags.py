"""Names of images taken apart: repositories, tags with a date, a commit, a ROCm version or a card in them, and templates of such tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from kvcheck.targets.base import RangeError

PARTS = {
    "commit": r"[0-9a-f]{7,64}",
    "rocm": r"[0-9]+(?:\.[0-9]+)*",
    "card": r"(?:mi|gfx|MI)[0-9][0-9a-zA-Z]*",
    "version": r"[0-9]+(?:\.[0-9]+)*(?:[.+]?[a-zA-Z]+[0-9.]*)*",
    "variant": r"[0-9A-Za-z.]+",
}
"""Parts of a template that are not dates, and what each may be in a tag."""

KEPT = ("rocm", "card", "variant")
"""Parts that must not change along a range."""

DIRECTIVES = {"%Y": r"20[0-9]{2}", "%y": r"[0-9]{2}", "%m": r"(?:0[1-9]|1[0-2])", "%d": r"(?:0[1-9]|[12][0-9]|3[01])"}
USUAL = ("%Y%m%d", "%Y-%m-%d", "%Y_%m_%d", "%Y.%m.%d")
"""How `{date}` without a format may be written."""

_PART = re.compile(r"\{([a-z]+)(?::([^{}]*))?\}|(\*)|([{}])")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DAY = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Tag:
    """A tag that fits a template, and its parts.

    Args:
        text: the tag.
        date: the day in it, or None.
        commit: the commit in it, or None.
        version: the version in it, or None.
        variant: what must not change along a range, such as "rocm720 mi35x"; "" where the tag says nothing.
    """

    text: str
    date: date | None = None
    commit: str | None = None
    version: str | None = None
    variant: str = ""


class Template:
    """A tag with named parts: `nightly-{commit}`, `v{version}-rocm{rocm}-{card}-{date}`, `nightly_{date:%m%d}`; `*` is any text.

    Args:
        text: as the user wrote it.
        today: the last day that a date without its year may be.

    Attributes:
        text: as it was written.
        parts: names of its parts.

    Raises:
        RangeError: a part without that name, twice, or a date that names no day.
    """

    def __init__(self, text: str, today: date | None = None) -> None:
        self.text = text
        self.parts: list[str] = []
        self._today = today or date.today()
        self._format: str | None = None
        self._literal = True
        pattern, at = "", 0
        for found in _PART.finditer(text):
            pattern += re.escape(text[at : found.start()]) + self._piece(found)
            at = found.end()
        self._pattern = re.compile(pattern + re.escape(text[at:]))

    def match(self, tag: str) -> Tag | None:
        """The parts of a tag, or None where it does not fit, a date that no calendar has included."""
        found = self._pattern.fullmatch(tag)
        if not found:
            return None
        parts = found.groupdict()
        day = None
        if "date" in self.parts:
            day = self._day(parts["date"])
            if day is None:
                return None
        kept = [_shown(name, parts[name]) for name in KEPT if name in parts]
        return Tag(tag, day, parts.get("commit"), parts.get("version"), " ".join(kept))

    @property
    def expandable(self) -> bool:
        """Whether a day alone makes a tag of it."""
        return self._literal and self.parts == ["date"]

    def expand(self, first: date, last: date) -> Iterator[Tag]:
        """Tags of every day from one to another, both included.

        Raises:
            RangeError: a day alone does not make a tag of this.
        """
        if not self.expandable:
            raise RangeError(f"--image: expected a template with {{date}} as its only part to count days with, got {self.text!r}")
        for number in range((last - first).days + 1):
            day = first + timedelta(number)
            yield Tag(_PART.sub(lambda _, day=day: day.strftime(self._format or USUAL[0]), self.text), day)

    def _piece(self, found: re.Match) -> str:
        name, form, star, brace = found.groups()
        if star:
            self._literal = False
            return "(?:.*)"
        known = ["date", *PARTS]
        if brace or name not in known:
            raise RangeError(f"--image: expected {', '.join(f'{{{part}}}' for part in known)} or *, got {found[0]!r} in {self.text!r}")
        if name in self.parts:
            raise RangeError(f"--image: {{{name}}} is in {self.text!r} twice")
        self.parts.append(name)
        if name != "date":
            if form is not None:
                raise RangeError(f"--image: {{{name}}} takes no format, got {found[0]!r} in {self.text!r}")
            return f"(?P<{name}>{PARTS[name]})"
        if form:
            self._format = form
            if not {"%m", "%d"} <= set(re.findall("%.", form)) <= set(DIRECTIVES):
                raise RangeError(f"--image: expected a date of %Y or %y, %m and %d, got {found[0]!r} in {self.text!r}")
        return f"(?P<date>{'|'.join(map(_date_pattern, [form] if form else USUAL))})"

    def _day(self, text: str) -> date | None:
        for form in [self._format] if self._format else USUAL:
            yearless = "%Y" not in form and "%y" not in form
            for year in range(self._today.year, self._today.year - 5, -1) if yearless else [None]:
                try:
                    day = datetime.strptime(f"{year} {text}" if year else text, f"%Y {form}" if year else form).date()
                except ValueError:
                    continue
                if not yearless or day <= self._today:
                    return day
        return None


def guess(tag: str) -> str:
    """The template that a tag seems to be made by; the tag itself where nothing in it looks like a part."""
    named: set[str] = set()

    def part(name: str, form: str = "") -> str:
        named.add(name)
        return f"{{{name}{form}}}"

    def word(text: str) -> str:
        if "date" not in named:
            if re.fullmatch(_date_pattern(USUAL[0]), text):
                return part("date")
            if re.fullmatch(_date_pattern("%m%d"), text):
                return part("date", ":%m%d")
        if "rocm" not in named and re.fullmatch("rocm" + PARTS["rocm"], text):
            return "rocm" + part("rocm")
        if "card" not in named and re.fullmatch(PARTS["card"], text):
            return part("card")
        if "commit" not in named and re.fullmatch("[0-9a-f]{7,64}", text) and not text.isalpha():
            return part("commit")
        if "version" not in named and re.fullmatch(f"v?{PARTS['version']}", text) and "." in text:
            return text[: text.startswith("v")] + part("version")
        return text

    dashed = re.search("|".join(map(_date_pattern, USUAL[1:3])), tag)
    if dashed:
        named.add("date")
        return "".join(
            [*map(word, re.split("([-_])", tag[: dashed.start()])), "{date}", *map(word, re.split("([-_])", tag[dashed.end() :]))]
        )
    return "".join(map(word, re.split("([-_])", tag)))


def day(text: str) -> date | None:
    """YYYY-MM-DD as a day, or None where the text is something else.

    Raises:
        RangeError: a date that no calendar has.
    """
    if not _DAY.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise RangeError(f"expected a day that there is, got {text!r}: {error}") from None


def split(reference: str) -> tuple[str, str | None, str | None]:
    """Repository, tag and digest of a reference; a tag may be a template, and an image's id is a digest alone."""
    if is_digest(reference):
        return "", None, reference
    rest, _, digest = reference.partition("@")
    folder, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    return folder + slash + name, tag or None, digest or None


def is_digest(text: str) -> bool:
    """Whether this is a whole sha256 digest, `sha256:` included."""
    return _DIGEST.fullmatch(text) is not None


def same_repository(first: str, second: str) -> bool:
    """Whether two spellings mean one repository: engines write `docker.io/library/` and `localhost/` where people do not."""
    return bool(_spellings(first) & _spellings(second))


def _spellings(repository: str) -> set[str]:
    host, slash, _ = repository.partition("/")
    if slash and ("." in host or ":" in host or host == "localhost"):
        return {repository}
    return {f"docker.io/{repository}" if slash else f"docker.io/library/{repository}", f"localhost/{repository}"}


def _date_pattern(form: str) -> str:
    return re.sub("%.", lambda found: DIRECTIVES.get(found[0], "(?!)"), re.sub(r"\.", r"\\.", form))


def _shown(name: str, text: str) -> str:
    return f"rocm{text}" if name == "rocm" else text
