"""What `kvcheck doctor` finds: the environment of the agent, and each provider's state in it."""

from __future__ import annotations

import sys
from typing import Any

from kvcheck.flow.options import Options, UsageError, check_device
from kvcheck.flow.sites import only_site
from kvcheck.flow.where import HERE, Where
from kvcheck.report.words.clean import line


def examine(device: str, python: str | None, where: Where = HERE) -> dict[str, Any]:
    """Asks an agent.

    Returns:
        report: {environment, providers: [{name, available, reason, remedy, ops, version, problems}]}.

    Raises:
        UsageError: no such device, or more than one image.
        StartError: no agent can be started there.
    """
    check_device(device)
    if len(where.images) > 1:
        raise UsageError(f"--image: expected one, as doctor looks at one place, got {len(where.images)}")
    site = only_site(Options(cases=(), device=device, python=python, where=where), _tell)
    with site.executor(jobs=1) as executor:
        providers = executor.doctor()
        return {"environment": executor.environment, "providers": providers}


def _tell(text: str, limit: int = 300) -> None:
    sys.stderr.write(line(text, limit) + "\n")


def text(report: dict[str, Any]) -> str:
    """The report for people."""
    environment = report["environment"]
    device = environment.get("device") or {}
    lines = [f"python {environment.get('python')}, torch {environment.get('torch')}, triton {environment.get('triton')}"]
    lines += [f"device {device.get('name')} ({device.get('arch')})", ""]
    for row in report["providers"]:
        state = "can run" if row["available"] and not row["problems"] else "cannot run"
        version = f" {row['version']}" if row.get("version") else ""
        lines.append(f"{row['name']}{version}: {state}; ops {', '.join(row['ops'])}")
        if row["reason"]:
            lines.append(f"  why: {row['reason']}")
        lines += [f"  signature: {problem}" for problem in row["problems"]]
        if not row["available"] and row.get("remedy"):
            lines.append(f"  what would change it: {row['remedy']}")
    return "\n".join(line(text, 1000) for text in lines)


def exit_code(report: dict[str, Any]) -> int:
    """0 when any provider can run, else 3."""
    return 0 if any(row["available"] for row in report["providers"]) else 3
