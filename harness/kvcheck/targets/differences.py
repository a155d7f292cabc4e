"""What differs between two environments: packages by version, commit and content, everything else by version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTHING = "not there"


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the second has otherwise than the first.

    Args:
        one: contents, settled.
        other: contents, settled.

    Returns:
        rows: {name, before, after, files: paths whose content differs, note}. First the stack, then the packages that
            kernels come from, then all other distributions.
    """
    rows = [_row("python", one["python"]["version"], other["python"]["version"])]
    for stack in ("rocm", "cuda"):
        for key in ("version", "hip_runtime", f"torch_{'hip' if stack == 'rocm' else 'cuda'}"):
            rows.append(_row(f"{stack} {key}".removesuffix(" version"), one[stack].get(key), other[stack].get(key)))
    packages = list(dict.fromkeys([*one["packages"], *other["packages"]]))
    rows += [_package(name, one["packages"].get(name), other["packages"].get(name)) for name in packages]
    known = {entry["distribution"] for side in (one, other) for entry in side["packages"].values()}
    for name in sorted({*one["distributions"], *other["distributions"]} - known, key=str.lower):
        rows.append(_row(name, one["distributions"].get(name), other["distributions"].get(name)))
    return [row for row in rows if row["before"] != row["after"] or row["files"] or row["note"]]


def changed_files(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Paths of a package whose content is not the same on both sides, compiled files included."""
    found = set()
    for kind in ("files", "binaries"):
        paths = {*one[kind], *other[kind]}
        found |= {path for path in paths if one[kind].get(path) != other[kind].get(path) and path != "RECORD"}
    for folder in {*one["beside"], *other["beside"]}:
        mine, yours = one["beside"].get(folder, {}), other["beside"].get(folder, {})
        found |= {f"{folder}/{path}" for path in {*mine, *yours} if mine.get(path) != yours.get(path)}
    return sorted(found)


def _row(name: str, before: Any, after: Any, files: list[str] | None = None, note: str = "") -> dict[str, Any]:
    return {"name": name, "before": before or NOTHING, "after": after or NOTHING, "files": files or [], "note": note}


def _package(name: str, one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> dict[str, Any]:
    if one is None or other is None:
        return _row(name, _words(one), _words(other))
    files = changed_files(one, other)
    note = ""
    if not files and one["digest"] != other["digest"]:
        note = "installed from another build; the same Python files"
    elif not files and one["digest"] and _words(one) != _words(other):
        note = "the same content under another name"
    elif files and _words(one) == _words(other):
        note = "other content under the same name"
    return _row(name, _words(one), _words(other), files, note)


def _words(package: Mapping[str, Any] | None) -> str | None:
    if package is None:
        return None
    commit = package["commit"]
    at = f" at {commit['commit'][:10]} ({commit['sure']})" if commit["commit"] else ""
    broken = "" if package["file"] else ", cannot be imported"
    return f"{package['version'] or 'no version'}{at}{broken}"
