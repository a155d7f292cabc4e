"""aiter's Gluon kernels: whether a commit has them, whether they can run here, and what a failed compilation says.

They came with fe927e8d32 (2025-11-18) for the fused entry; the wrapper takes them on gfx942 and gfx950 with Triton 3.5 and newer, and
compiles them itself. With an older Triton, or with AITER_ENABLE_AOT_GLUON_PA_MQA_LOGITS=1, it loads code objects built beforehand.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any

from kvcheck.agent.layouts import shuffled
from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter import binding
from kvcheck.agent.providers._aiter.shim import Machine
from kvcheck.agent.providers._aiter.source import Source

ARCHS = ("gfx942", "gfx950")
VARIANTS = ("gluon", "gluon_preshuffle", "gluon_varctx")
PRESHUFFLED = ("gluon_preshuffle", "gluon_varctx")
SWITCH = "enable_gluon_pa_mqa_logits"
SCHEDULE = "deepgemm_fp8_paged_mqa_logits_schedule"
HEAD_DIM = 128
"""The preshuffle kernels have the byte stride of 16 tokens of this width written in."""

SERVED = {"ChunkQ": 64, "ChunkK": 256, "HiddenDim": HEAD_DIM, "is_padded_mode": True}
"""A tile that every commit's kernels are written for, with KVBlockSize 64 shuffled and 1 otherwise."""


def taken(module: types.ModuleType, machine: Machine) -> bool:
    """Whether the fused wrapper takes a Gluon kernel here."""
    return machine.backend == "hip" and machine.arch in ARCHS and bool(getattr(module, SWITCH, False))


def refuse(variant: str, source: Source, module: types.ModuleType, entry: Any, machine: Machine) -> None:
    """Refuses a Gluon variant with the reason.

    Raises:
        Unsupported: this commit has no such kernel, or it does not run on this device.
    """
    parameters = binding.parameters(entry)
    if "preshuffle" not in parameters:
        raise Unsupported(f"{source.name()} has no Gluon kernels: they came with fe927e8d32 (2025-11-18)")
    if variant == "gluon_varctx" and not ("schedule" in parameters and hasattr(module, SCHEDULE)):
        raise Unsupported(f"{source.name()} has no VarCtxSchedule: it came with 9715eeccee (2025-12-24)")
    if machine.backend != "hip":
        where = "no interpreter runs them" if machine.backend == "interpreter" else "they do not compile for CUDA"
        raise Unsupported(f"aiter:{variant} is Gluon for AMD cards, {where}: --device gfx950-emulated or gfx942-emulated does")
    if machine.arch not in ARCHS:
        raise Unsupported(f"aiter:{variant} runs on {' and '.join(ARCHS)}, this is {machine.arch}")
    if not taken(module, machine):
        raise Unsupported(f"{source.name()} takes its Gluon kernels with triton {gate(module)} and newer; this is {_triton()}")


def refuse_prebuilt(module: types.ModuleType, machine: Machine) -> None:
    """Refuses code objects built beforehand where torch drives no card.

    Raises:
        Unsupported: the wrapper would load one.
    """
    if not machine.rocm and not getattr(module, "enable_jit_gluon_pa_mqa_logits_kernel", True):
        raise Unsupported(
            "the wrapper loads code objects built beforehand (AITER_ENABLE_AOT_GLUON_PA_MQA_LOGITS=1): they run on a card alone, here "
            "kernels are compiled from source"
        )


def refuse_shape(block_size: int, head_dim: int) -> None:
    """Refuses what the shuffled layout cannot hold, and what the kernels that read it have not.

    Raises:
        Unsupported: pages or heads that do not fit.
    """
    if not (shuffled.fits(block_size, head_dim) and head_dim == HEAD_DIM):
        raise Unsupported(f"Preshuffle takes blocks of multiples of 16 and head_dim {HEAD_DIM}, got {block_size} and {head_dim}")


def schedule(module: types.ModuleType, batch: int, next_n: int, lengths: Any, max_model_len: int) -> Any:
    """Chunks a workgroup takes, [1] int32, from the package's own schedule kernel with the wrapper's own tiles."""
    return getattr(module, SCHEDULE)(batch, next_n, lengths, max_model_len)


def failed(source: Source, machine: Machine) -> Callable[..., None]:
    """What to say when a Gluon kernel does not compile: it is the kernel's fault where the same kernel compiles for a usual tile.

    Raises:
        Unsupported: (by the returned function) it compiles for no tile, so this Triton and this commit do not fit together.
    """

    def judge(error: Exception, compile_kernel: Callable[..., Any], config: dict[str, Any]) -> None:
        usual = config | SERVED | {"KVBlockSize": 64 if config.get("Preshuffle") else 1}
        try:
            if usual != config:
                compile_kernel(**usual)
                return
        except Exception as other:
            error = other
        said = str(error.__cause__ or error).strip().splitlines()
        raise Unsupported(
            f"{_triton()} compiles no tile of this Gluon kernel of {source.name()} ({type(error).__name__}: {said[-1] if said else ''}); "
            f"it needs {needs(source, machine.arch, str(error))}"
        ) from error

    return judge


def needs(source: Source, arch: str, error: str) -> str:
    """Which Triton the Gluon kernels of a commit are written for, from the error and their text."""
    file = source.package / "ops/triton/gluon/pa_mqa_logits.py"
    text = file.read_text() if file.is_file() else ""
    if "instr_shape must follow" in error:
        return "triton 3.5: its MFMA layout names two dimensions, and 3.6 and newer want three"
    if arch == "gfx950" and "CDNA_VERSION" not in text:
        return "a triton older than 3.6, or a commit from 10c87ea152 (2026-03-18) on: its MFMA layout is that of gfx942 on gfx950 too"
    return f"triton {gate_of(source.wrapper().read_text())} or newer by the wrapper's own account"


def gate(module: types.ModuleType) -> str:
    """The Triton version from which the wrapper takes its Gluon kernels."""
    return gate_of(inspect.getsource(module))


def gate_of(text: str) -> str:
    """The same, from the wrapper's text."""
    found = re.search(r'triton_version >= Version\("([\d.]+)"\)', text)
    return found.group(1) if found else "3.5.0"


def _triton() -> str:
    import triton

    return f"triton {triton.__version__}"
