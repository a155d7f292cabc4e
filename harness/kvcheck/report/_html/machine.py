"""Where the run happened, and the command that does it again."""

from __future__ import annotations

import shlex
from typing import Any

from kvcheck.report._html.markup import block, section, table, text

FACTS = 80
"""Facts that are listed."""


def machine(run: dict[str, Any]) -> str:
    """The section: environment as a table, command to copy."""
    info = run.get("run") or {}
    command = info.get("command") or ""
    command = shlex.join(map(str, command)) if isinstance(command, list) else command
    facts: list[tuple[str, Any]] = []
    _collect("", run.get("environment") or {}, facts)
    facts += [(f"run {key}", info.get(key)) for key in ("id", "started", "seed", "exit_code") if info.get(key) is not None]
    shown = [[text(name, 60), f"<code>{text(value, 200)}</code>"] for name, value in facts[:FACTS]]
    copied = (
        f'<div class="command"><pre id="again" tabindex="0" aria-label="The exact command">{block(command, 4000)}</pre>'
        '<button type="button" data-copy="again">Copy</button></div>'
    )
    listed = table(["what", "value"], shown, "Environment") if shown else ""
    return section("machine", "Environment and command", copied + f'<div class="environment">{listed}</div>')


def _collect(prefix: str, value: Any, facts: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _collect(f"{prefix} {key}".strip(), item, facts)
    elif value not in (None, "", []):
        facts.append((prefix, value))
