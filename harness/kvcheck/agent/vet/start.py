"""One run of a script under watch."""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvcheck.agent import protocol
from kvcheck.agent.vet import standins
from kvcheck.agent.vet.entries import ENTRIES, PACKAGES, Call, bind

MOST_CALLS = 200
"""Calls whose tensors are looked at; later ones are counted."""


class Diary:
    """Events, each on its line as soon as it is known: a script that is ended by a signal leaves what it did."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - open until the process ends

    def tell(self, event: dict[str, Any]) -> None:
        """Writes one event."""
        self._file.write(protocol.encode(event))


class Recorder:
    """What a script's calls go through.

    Args:
        tell: takes one event.
        watch: the mode that follows the answers.
        wrong: whether the stand-ins answer at mirrored positions.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], None], watch: Any, wrong: bool) -> None:
        self._tell, self._watch, self._wrong = tell, watch, wrong
        self._calls = 0

    def wrap(self, name: str, real: Callable[..., Any] | None) -> Callable[..., Any]:
        """The entry point under watch; the plain formula where there is no real one."""
        order = standins.order_of(real)

        @functools.wraps(real or self.wrap)
        def called(*args: Any, **kwargs: Any) -> Any:
            if ENTRIES[name]["form"] == "metadata":
                return real(*args, **kwargs) if real else None
            bound = bind(name, order, args, kwargs)
            call = self._record(name, bound)
            if real is not None:
                result = real(*args, **kwargs)
            else:
                if call is None:
                    raise RuntimeError(f"kvcheck vet cannot stand in for this call of {name}: see its notes")
                result = self._answer(call, bound)
            self._mark(name, bound.get("out") if bound.get("out") is not None else result)
            return result

        called.__name__ = name
        return called

    def _record(self, name: str, bound: dict[str, Any]) -> Call | None:
        import torch

        number, self._calls = self._calls, self._calls + 1
        if number >= MOST_CALLS and not self._standing_in(bound):
            return None
        self._watch.quiet = True
        try:
            here = {key: _cpu(value) for key, value in bound.items()}
            call = Call(name, here)
            facts = call.facts()
        except Exception as error:
            self._tell({"type": "unread", "call": number, "entry": name, "why": f"{type(error).__name__}: {error}"[:500]})
            return None
        finally:
            self._watch.quiet = False
        if not ENTRIES[name].get("reference"):
            self._watch.call, self._watch.longest = number, facts["longest"]
        if number < MOST_CALLS:
            self._tell({"type": "call", "call": number, "torch": torch.__version__, **facts})
        return call

    def _standing_in(self, bound: dict[str, Any]) -> bool:
        return all(not getattr(value, "is_cuda", False) for value in bound.values())

    def _answer(self, call: Call, bound: dict[str, Any]) -> Any:
        import torch

        self._watch.quiet = True
        try:
            rows = call.q.shape[0] * call.q.shape[1]
            out = bound.get("out")
            given = out if out is not None else torch.full((rows, call.width), float("-inf"))
            call.write(given, self._wrong and not ENTRIES[call.name].get("reference"))
            return None if out is not None else given
        finally:
            self._watch.quiet = False

    def _mark(self, name: str, answer: Any) -> None:
        from kvcheck.agent.vet.watch import Mark, set_mark

        if answer is not None and not ENTRIES[name].get("reference"):
            set_mark(answer, Mark(frozenset([self._watch.call])))


def main() -> None:
    """Runs the script that the command line names; ends with its exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--diary", required=True)
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    diary = Diary(options.diary)
    try:
        import torch
    except ImportError as error:
        diary.tell({"type": "end", "error": f"this interpreter has no torch: {error}", "place": "", "code": None})
        raise SystemExit(3) from None
    from kvcheck.agent.vet.watch import Watch

    torch.set_num_threads(options.threads)
    text = Path(options.script).read_text(errors="replace")
    named = [package for package in PACKAGES if re.search(rf"^\s*(import|from)\s+{package}\b", text, re.MULTILINE)]
    real = torch.cuda.is_available() and all(importlib.util.find_spec(package) for package in named) and not options.wrong
    diary.tell({"type": "start", "real": real, "torch": torch.__version__, "python": sys.version.split()[0]})
    watch = Watch(diary.tell, redirect=not real)
    recorder = Recorder(diary.tell, watch, options.wrong)
    _patch(torch, watch, redirect=not real)
    sys.meta_path.insert(0, standins.Finder(recorder.wrap, real))
    sys.argv = [options.script, *options.rest]
    sys.path[0] = os.path.dirname(options.script)
    code, error, place = 0, None, ""
    try:
        with watch:
            runpy.run_path(options.script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException as raised:
        traceback.print_exc()
        frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == options.script]
        code, error = 1, f"{type(raised).__name__}: {str(raised).strip()[:1000]}"
        place = str(frames[-1].lineno) if frames else ""
    diary.tell(
        {"type": "end", "code": code, "error": error, "place": place, "assertion": bool(error and error.startswith("AssertionError"))}
    )
    raise SystemExit(code)


def _patch(torch: Any, watch: Any, redirect: bool) -> None:
    """Replaces what no function mode sees: assert_close, and what a script asks of a GPU that is not there."""
    import torch.testing

    close = torch.testing.assert_close

    @functools.wraps(close)
    def assert_close(actual: Any, expected: Any, *args: Any, rtol: float | None = None, atol: float | None = None, **more: Any) -> None:
        if isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor) and actual.is_floating_point():
            defaults = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7), "bfloat16": (1.6e-2, 1e-5)}
            given = defaults.get(str(actual.dtype).removeprefix("torch."), (1e-3, 1e-5))
            wide = [value if value is not None else usual for value, usual in zip((rtol, atol), given, strict=True)]
            watch.close(actual, expected, *wide, bool(more.get("equal_nan")), "assert_close")
        before, watch.quiet = watch.quiet, True
        try:
            close(actual, expected, *args, rtol=rtol, atol=atol, **more)
        finally:
            watch.quiet = before

    torch.testing.assert_close = assert_close
    if not redirect:
        return
    for name, answer in (("is_available", True), ("device_count", 1), ("current_device", 0), ("get_device_name", "a GPU (kvcheck vet)")):
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    for name in ("synchronize", "set_device", "empty_cache", "init", "reset_peak_memory_stats"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.set_default_device = lambda *_: None
    plain = torch.Generator

    class Generator(plain):
        def __new__(cls, device: Any = "cpu") -> Any:
            return plain.__new__(plain, device="cpu")

    torch.Generator = Generator


def _cpu(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return tuple(_cpu(item) for item in value)
    return value.detach().cpu() if hasattr(value, "detach") else value
