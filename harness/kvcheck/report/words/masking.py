"""What names a person or a machine, taken out of a run before others see it: paths, user and host names, tokens.

run.json stays usable: in commands, providers and case files only the user's own folder changes, to `~`, which a shell expands and
kvcheck expands too. What is made for others to read (`public`) loses user and host names in those as well.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MASK = "***"
COMMANDS = frozenset({"repro", "command"})
PLACES = frozenset({"provider", "case_file", "case_files", "providers"})
NAMES = frozenset({"id", "case", "at"})
"""Keys by which rows are found again: tokens alone are taken out."""

LEFT = frozenset({"schema", "verdict", "also_failed", "input_fingerprint", "metrics", "trivial", "timing", "flips", "masked", "started"})

COMMON = re.compile(
    "root|users?|ubuntu|admin|runner|jenkins|nobody|home|tests?|work|src|build|data|opt|usr|tmp|var|lib|bin|app|dev|share|main|cases|"
    "localhost|python|torch|triton|aiter|vllm|sglang|kvcheck|rocm|cuda|reports|site-packages",
    re.IGNORECASE,
)
"""Names that are no secret as part of a path, or that stand for software there."""

PARTS = re.compile(r"(gfx|sm_?|mi|[hab])\d+[a-z]{0,2}", re.IGNORECASE)
"""Names of processors: a machine called after its GPU must not take the GPU's name out of a report."""

TOKENS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", MASK),
        (r"(?<=://)[^/@\s'\"]+(?=@)", MASK),
        (r"(?:hf_(?=[A-Za-z0-9]{30})|\bhf_)(?=[A-Za-z0-9]*[A-Z0-9])[A-Za-z0-9]{16,}", f"hf_{MASK}"),
        (r"(gh[pousr]_)[A-Za-z0-9]{30,}", rf"\1{MASK}"),
        (r"\b(gh[pousr]_|github_pat_|glpat-|npm_|pypi-|dckr_pat_|nvapi-|xox[abeoprs]-)[A-Za-z0-9_-]{12,}", rf"\1{MASK}"),
        (r"\bsk-[A-Za-z0-9_-]{16,}", f"sk-{MASK}"),
        (r"\b(AKIA|ASIA)[0-9A-Z]{16}\b", rf"\1{MASK}"),
        (r"\bAIza[0-9A-Za-z_-]{30,}", f"AIza{MASK}"),
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", MASK),
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", rf"\1 {MASK}"),
        (r"(?i)([?&](?:token|access_token|sig|signature|key|api_key|x-amz-[a-z-]+)=)[^&\s'\"]+", rf"\1{MASK}"),
        (
            r"\b([A-Z0-9_]*(?:_TOKEN|_SECRET|_PASSWORD|_PASSWD|_API_KEY|_ACCESS_KEY|_ACCESS_KEY_ID|_PRIVATE_KEY|_CREDENTIALS?))"
            r"(\s*[=:]\s*|'?\"?\s*:\s*)(['\"]?)(?![\d.]+\b)[^\s'\",;]{4,}",
            rf"\1\2\3{MASK}",
        ),
        (
            r"(?i)\b(password|passwd|api[_-]?key|access[_-]?token|auth[_-]?token|secret[_-]?key|client[_-]?secret)"
            r"(['\"]?\s*[=:]\s*)(['\"]?)(?![\d.]+\b)[^\s'\",;]{4,}",
            rf"\1\2\3{MASK}",
        ),
        (r"\bGPU-[0-9a-f]{8}-[0-9a-f-]{20,}", f"GPU-{MASK}"),
    )
)

HINTS = (
    *("-----begin", "://", "?", "&", "_token", "_secret", "_passw", "_access_key", "_private_key", "_credential", "api_key", "api-key"),
    *(
        "apikey",
        "passw",
        "access",
        "auth",
        "secret",
        "bearer",
        "basic",
        "hf_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat",
        "glpat",
    ),
    *("npm_", "pypi-", "dckr_", "nvapi", "xox", "sk-", "akia", "asia", "aiza", "eyj", "gpu-"),
)
"""What every token has: most texts have none of it and are left at once."""

PLACES_IN_TEXT: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(/(?:home|Users|users)/)[^/\s'\":,;)\]]+", rf"\1{MASK}"),
        (r"(?<![\w.>*-])~?(?:/[^\s'\":,()/]+)+/((?:site|dist)-packages/)", r"\1"),
        (
            r"(?<![\w.+-])(?!git@|(?:aiter|vllm|sglang|triton|torch\w*|flashinfer|deep_gemm|flash_mla)@)[\w.+-]+@(?=[\w-]+(?:\.[\w-]+)+\b)[\w.-]+",
            f"{MASK}@{MASK}",
        ),
        (r"(?<![\w.-])(?=[\w-]*[\d-])[\w-]+(?:\.[\w-]+)*\.(?:internal|corp|lan|intranet|localdomain|cluster\.local)\b", MASK),
        (r"(?<![\d.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?=:\d{2,5}\b)", MASK),
        (r"(?<=://)(?!127\.)\d{1,3}(?:\.\d{1,3}){3}\b", MASK),
    )
)

SSH = re.compile(r"\b(ssh|scp|sftp)((?:\s+-[A-Za-z](?:\s+[^\s-]\S*)?)*?)(\s+)(?!-)(?:[\w.-]+@)?[\w.-]+")


@dataclass(frozen=True)
class Here:
    """What names the machine that kvcheck runs on, and its user.

    Args:
        home: the user's folder.
        user: their name.
        host: the machine's name, with or without a domain.
    """

    home: str = ""
    user: str = ""
    host: str = ""

    @classmethod
    def found(cls) -> Here:
        """This machine and this user; what cannot be told is empty."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError, ImportError):
            user = ""
        return cls(os.path.expanduser("~").rstrip("/"), user, socket.gethostname())


class Masker:
    """Masks texts, commands and names.

    Args:
        here: this machine and user.
        public: whether user and host names go from commands and names too.
    """

    def __init__(self, here: Here, public: bool = False) -> None:
        self._public = public
        self._known: dict[tuple[str, str], str] = {}
        usable = here.home.startswith("/") and len(here.home) > 2
        self._home_path = here.home if usable else None
        self._home = re.compile(rf"(?<![\w.~-]){re.escape(here.home)}(?![\w.-])") if usable else None
        self._own: list[tuple[re.Pattern[str], str]] = []
        if len(here.user) > 2 and not COMMON.fullmatch(here.user):
            user = re.escape(here.user)
            self._own.append((re.compile(rf"(?<=/){user}(?=[/\s'\":,;)]|$)|(?<![\w.-]){user}(?=@)"), MASK))
        short = here.host.partition(".")[0]
        telling = len(short) > 3 and re.search(r"[\d-]", short) and not PARTS.fullmatch(short)
        if telling and not COMMON.fullmatch(short):
            self._own.append((re.compile(rf"(?<![\w.-]){re.escape(short)}(?:\.[A-Za-z][\w-]*)*(?![\w-])"), MASK))
        elif len(short) > 2 and short != "localhost":
            self._own.append((re.compile(rf"(?<=@){re.escape(short)}(?![\w-])"), MASK))

    def text(self, text: str) -> str:
        """A message, a dispatch, a value of the environment."""
        return self._remembered("text", text, self._text)

    def name(self, text: str) -> str:
        """A provider or a case file: `aiter@~/aiter`."""
        return self._remembered("name", text, self._name)

    def key(self, text: str) -> str:
        """An id: tokens alone."""
        return self._remembered("key", text, _tokens)

    def command(self, text: str) -> str:
        """A command line, quoted for a shell; `~` stands where a shell expands it, or where kvcheck does."""
        return self._remembered("command", text, self._command)

    def _remembered(self, kind: str, text: str, work: Callable[[str], str]) -> str:
        known = self._known.get((kind, text))
        if known is None:
            known = self._known[(kind, text)] = work(text)
        return known

    def _text(self, text: str) -> str:
        text = self._at_home(_tokens(text))
        for pattern, replacement in (*self._own, *PLACES_IN_TEXT) if re.search("[/@.]", text) else self._own:
            text = pattern.sub(replacement, text)
        return text

    def _name(self, text: str) -> str:
        text = self._at_home(_tokens(text))
        for pattern, replacement in (*PLACES_IN_TEXT[:1], *self._own) if self._public else ():
            text = pattern.sub(replacement, text)
        return text

    def _at_home(self, text: str) -> str:
        return self._home.sub("~", text) if self._home else text

    def _command(self, text: str) -> str:
        text = _tokens(text)
        if self._home_path and self._home_path in text:
            try:
                words = shlex.split(text)
            except ValueError:
                return self._text(text)
            shown = [each for word in words for each in self._word(word)]
            text = text if shown == words else " ".join(map(_quoted, shown))
        if self._public:
            text = SSH.sub(rf"\1\2\3{MASK}", text)
            for pattern, replacement in (*self._own, *PLACES_IN_TEXT[:1], *PLACES_IN_TEXT[2:]):
                text = pattern.sub(replacement, text)
        return text

    def _word(self, word: str) -> list[str]:
        option, equals, value = word.partition("=")
        if equals and re.fullmatch(r"--[\w-]+", option) and value.startswith(f"{self._home_path}/"):
            return [option, self._at_home(value)]  # a shell expands `~` at the head of a word
        return [self._at_home(word)]


def masked(run: dict[str, Any], *, public: bool = False, here: Here | None = None) -> dict[str, Any]:
    """A run without what names its user, its machine, or lets somebody in. Doing it twice changes nothing more.

    Args:
        run: run.json.
        public: for others to read; user and host names go from commands, providers and case files too.
        here: None: this machine and user.

    Returns:
        run: a copy; values that are not text are the same objects.
    """
    masker = Masker(here or Here.found(), public)

    def walk(value: Any, key: str) -> Any:
        if isinstance(value, str):
            if key in COMMANDS:
                return masker.command(value)
            if key in PLACES:
                return masker.name(value)
            return masker.key(value) if key in NAMES else masker.text(value)
        if isinstance(value, dict):
            named = {masker.name(name) if "/" in str(name) else name: item for name, item in value.items()}  # a provider may be a key
            return {name: item if name in LEFT else walk(item, key if key in NAMES else name) for name, item in named.items()}
        return [walk(item, key) for item in value] if isinstance(value, (list, tuple)) else value

    return walk(run, "")


def _tokens(text: str) -> str:
    lower = text.lower()
    if not any(hint in lower for hint in HINTS):
        return text
    for pattern, replacement in TOKENS:
        text = pattern.sub(replacement, text)
    return text


def _quoted(word: str) -> str:
    if word.startswith("~/"):
        return "~/" + shlex.quote(word[2:]) if word[2:] else "~/"
    return shlex.quote(word)
