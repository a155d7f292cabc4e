"""A package that is laid out as aiter is, its history, and what is said of it."""

from __future__ import annotations

from kvcheck.targets.contents import ask_python, settle

INIT = {"aiter/__init__.py": "", "aiter/ops/mha.py": "a = 1\n", "aiter/configs/tuned.csv": "1\n"}


def asked(environment, clone=None, **variables):
    """The settled contents of an environment."""
    contents = ask_python(environment.python, variables=variables)
    settle(contents, {"aiter": clone.folder} if clone else {})
    return contents


def commit_of(environment, clone=None, **variables):
    """What is said of aiter's commit."""
    return asked(environment, clone, **variables)["packages"]["aiter"]["commit"]
