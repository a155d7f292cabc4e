"""Compiles what a provider launches, for a chip that is not there: one row a case, with every kernel that the case led to."""

from __future__ import annotations

import gc
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from kvcheck.agent import assemble, specs
from kvcheck.agent.emulator import cubin
from kvcheck.agent.emulator import inspect as amdgcn
from kvcheck.agent.emulator.compile_only import Compiled, CompileOnly
from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.protocol import is_unsupported

PREFIX = "compile:"
"""What the agent's --device begins with where nothing is to be run: compile:gfx950."""

OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack", "maxnreg")
ATTRIBUTES = {"divisible_by_16": "tt.divisibility", "within_2_gib": "tt.pointer_range"}
"""What Triton assumes of an argument because it held at the launch."""

FIGURES = (
    *("vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch_bytes", "lds_bytes", "occupancy"),
    *("code_bytes", "instructions", "matrix"),
)
DIAGNOSTIC = re.compile(r"^(?:(\S+):(\d+):\d+: )?error: (?!Failures have been detected while processing)(.*)$", re.M)


class Runner:
    """Answers cases by compiling. Providers are loaded once, and a specialisation is compiled once.

    Args:
        arch: name of a chip: gfx942, gfx950, sm_90.

    Raises:
        ValueError: Triton compiles nothing for it.
    """

    def __init__(self, arch: str) -> None:
        import torch

        os.environ["TRITON_ALWAYS_COMPILE"] = "1"  # or the times would be those of Triton's cache
        self.arch = arch
        self._torch_device = torch.device("cpu")
        self._providers: dict[str, assemble.Provider] = {}
        self._phase: Callable[[str], None] = lambda name: None
        self._device = CompileOnly(arch, self._around)
        self._device.__enter__()
        importlib.import_module("kvcheck.agent.kernels.nothing").check(arch)

    def facts(self) -> dict[str, Any]:
        """The device part of the environment."""
        chip = self._device.chip
        return {"type": "compile", "name": f"{self.arch}, compiled for only ({chip.card})", "arch": self.arch, "interpreted": False}

    def run_case(self, request: dict[str, Any], phase: Callable[[str], None]) -> dict[str, Any]:
        """Compiles what one case launches.

        Args:
            request: a `case` message: op, provider, params, seed.
            phase: told the phase that begins.

        Returns:
            row: verdict (pass, crash where a kernel does not compile, unsupported, or harness_error), message, and `kernels`: one
                dict a specialisation (see `kernel_row`).
        """
        if request.get("premise_only"):
            return {"verdict": "harness_error", "message": "", "premise": "holds"}
        self._phase = phase
        kernels: list[dict[str, Any]] = []
        try:
            problems = specs.check_params(request["op"], request["params"])
            if problems:
                raise ValueError("the case does not fit the op: " + "; ".join(map(str, problems)))
            kernels = self.compile_case(request["provider"], request["op"], request["params"], request["seed"])
            verdict, message = "pass", ""
            if not kernels:
                verdict, message = "unsupported", "no Triton or Gluon kernel was launched"
        except Failed as failure:
            kernels, verdict, message = failure.kernels, "crash", failure.kernels[-1]["message"]
        except Exception as error:
            verdict = "unsupported" if is_unsupported(error) else "harness_error"
            message = str(error) if is_unsupported(error) else f"the launch code ended before the launch: {type(error).__name__}: {error}"
            kernels = [kernel_row(compiled, self.arch) for compiled in self._device.launched]
        return {"verdict": verdict, "message": message, "kernels": kernels, "params": self._resolve(request["params"]), "premise": "holds"}

    def compile_case(self, provider_name: str, op: str, params: dict[str, Any], seed: int) -> list[dict[str, Any]]:
        """The kernels that a provider launches for one case.

        Args:
            provider_name: as the user wrote it.
            op: name of the op.
            params: resolved params; `auto` is what the chip uses.
            seed: of the inputs.

        Raises:
            Failed: a kernel did not compile, and the provider did not catch that.
        """
        self._device.launched.clear()
        self._phase("load")
        if provider_name not in self._providers:
            self._providers[provider_name] = assemble.provider(provider_name, self._torch_device)
        provider = self._providers[provider_name]
        self._phase("inputs")
        inputs = importlib.import_module(f"kvcheck.agent.ops.{op}").make_inputs(self._resolve(params), Generator(seed))
        arena = Arena(self._torch_device)
        outputs = {name: arena.output(name, shape, dtype, inputs.initial.get(name)) for name, (shape, dtype) in inputs.outputs.items()}
        given = {"out": next(iter(outputs.values()))} if len(outputs) == 1 else outputs
        self._phase("kernel")
        try:
            provider.function(op)(**inputs.tensors, **inputs.scalars, **given, alloc=arena.alloc)
        except Exception as error:
            behind = list(_chain(error))
            stopped = [compiled for compiled in self._device.launched if any(compiled.error is one for one in behind)]
            if not stopped:
                raise
            stopped[0].escaped = True
            kernels = [kernel_row(compiled, self.arch) for compiled in self._device.launched if compiled is not stopped[0]]
            raise Failed([*kernels, kernel_row(stopped[0], self.arch)]) from error
        return [kernel_row(compiled, self.arch) for compiled in self._device.launched]

    def _resolve(self, params: dict[str, Any]) -> dict[str, Any]:
        params = dict(params)
        if params.get("kv_dtype") == "auto":
            params["kv_dtype"] = "e4m3fnuz" if self.arch.startswith("gfx94") else "e4m3fn"
        if params.get("poison") == "auto":
            params["poison"] = "nan"
        return params

    def _around(self, begins: bool, src: Any) -> None:
        self._phase("compile" if begins else "kernel")
        if begins:  # the last word of a compiler that takes the process with it
            file, line = definition(src.fn)
            print(f"compiling {src.fn.fn.__name__} ({file}:{line}) for {self.arch}", file=sys.stderr, flush=True)


class Failed(Exception):
    """A kernel did not compile.

    Attributes:
        kernels: rows of the case's kernels, the one that failed last.
    """

    def __init__(self, kernels: list[dict[str, Any]]) -> None:
        super().__init__(kernels[-1]["message"])
        self.kernels = kernels


def kernel_row(compiled: Compiled, arch: str) -> dict[str, Any]:
    """What became of one specialisation.

    Returns:
        row: key, kernel, file, line (of its definition), verdict, stage, message, error_file, error_line, constants, types,
            divisible_by_16, within_2_gib, options, compile_s, and the figures of `inspect.summary`, None where they are not known.
    """
    src, error = compiled.src, compiled.error
    file, line = definition(src.fn)
    row = {"kernel": src.fn.fn.__name__, "file": file, "line": line, "target": arch, **specialisation(compiled)}
    row["key"] = hashlib.sha256(repr([row["kernel"], specialisation(compiled)]).encode()).hexdigest()[:12]
    row.update(verdict="pass", stage=None, message="", error_file=None, error_line=None, compile_s=round(compiled.seconds, 3))
    row.update(dict.fromkeys(FIGURES))
    if error is None:
        row.update({key: value for key, value in figures(compiled.kernel).items() if key in FIGURES})
        return row
    what, where = explain(error, compiled.printed)
    row["error_file"], row["error_line"] = where or (file, line)
    place = f"{row['error_file']}:{row['error_line']}"
    row.update(verdict="crash", stage="compile", message=f"{row['kernel']} does not compile for {arch}: {what}, at {place}")
    if not compiled.escaped:
        row.update(verdict="unsupported", message=f"{row['message']}; the provider passes over it")
    return row


def specialisation(compiled: Compiled) -> dict[str, Any]:
    """What Triton compiled for: constants and types by argument, arguments that are multiples of 16, launch options."""
    src = compiled.src
    names = list(src.fn.arg_names)

    def name(path: Any) -> str:
        first, *rest = path if isinstance(path, tuple) else (path,)
        return ".".join([names[first] if isinstance(first, int) else str(first), *map(str, rest)])

    constants = {name(path): _plain(value) for path, value in src.constants.items()}
    types = {arg: str(kind) for arg, kind in src.signature.items() if arg not in constants and str(kind) != "constexpr"}
    attributes = getattr(src, "attrs", None)
    attributes = {name(path): str(values) for path, values in attributes.items()} if isinstance(attributes, dict) else {}
    told = {what: [arg for arg, values in attributes.items() if mark in values] for what, mark in ATTRIBUTES.items()}
    options = {key: compiled.options[key] for key in OPTIONS if compiled.options.get(key) not in (None, 0)}
    return {"constants": constants, "types": types, **told, "options": options}


def figures(kernel: Any) -> dict[str, Any]:
    """Registers and so on of a compiled kernel."""
    if "amdgcn" in kernel.asm:
        return amdgcn.summary(kernel.asm["amdgcn"], kernel.metadata.num_warps, kernel.metadata.shared)
    return cubin.summary(kernel.asm["cubin"], kernel.asm["ptx"], kernel.metadata.shared)


def explain(error: BaseException, printed: str) -> tuple[str, tuple[str, int] | None]:
    """What a compiler says in a sentence, and the place in the kernel's source, None where it names none."""
    if not hasattr(error, "node"):
        found = DIAGNOSTIC.search(printed)
        file, line, text = found.groups() if found else (None, None, _sentence(error))
        return text, (short(file), int(line)) if file else None
    while hasattr(error.__cause__, "node"):  # the innermost of the functions that the kernel calls
        error = error.__cause__
    said = error.error_message or (str(error.__cause__) if error.__cause__ else "") or str(error).strip().split("\n")[-1]
    line = getattr(error.node, "lineno", None)
    if line is None or not error.src:
        return _one_line(said), None
    code = error.src.split("\n")[line - 1].strip()
    function = next(
        (one for one in gc.get_objects() if getattr(type(one), "__name__", "").endswith("JITFunction") and one.src == error.src), None
    )
    where = None
    if function is not None:
        file, first = definition(function)
        where = (file, first + line - 1)
    return f"{_one_line(said)} in `{code}`", where


def definition(function: Any) -> tuple[str, int]:
    """File and line of a JIT function's `def`."""
    body = function.fn
    first = body.__code__.co_firstlineno
    try:
        lines, first = inspect.getsourcelines(body)
        first += next((index for index, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    except (OSError, TypeError):
        pass  # no source: the first line of the code object
    return short(body.__code__.co_filename), first


def short(file: str) -> str:
    """A file of our own zip by its name in it, any other by its path."""
    return re.sub(r"^.*\.zip/", "", file)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those it was raised from or while handling."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(str(error))}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:1000]
