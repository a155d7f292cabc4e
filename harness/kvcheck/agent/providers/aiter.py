"""AMD's aiter: paged MQA logits (Triton, Gluon) and top-k, from the installed package or a source checkout of any commit.

Origin: ROCm/aiter, aiter/ops/triton/[attention/]pa_mqa_logits.py since d36601a9d0 (2025-10-14); aiter/ops/topk.py.
Hardware: AMD gfx942, gfx950 and others with the package's own dispatch; without ROCm its plain Triton kernel files, unmodified,
under Triton's interpreter on a CPU or compiled by Triton on CUDA. `_aiter/` says how. The AMD path has only been read, never run.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import Unsupported

SPEC = {
    "name": "aiter",
    "summary": "AMD's aiter: its production entry on ROCm, its plain Triton kernels elsewhere",
    "ops": ["paged_mqa_logits", "topk_per_row"],
    "variants": {
        "stage1": "deepgemm_fp8_paged_mqa_logits_stage1 as vLLM calls it: ChunkQ = num_heads, then a sum over heads",
        "stage1_defaults": "the same with the wrapper's own defaults",
        "fused": "deepgemm_fp8_paged_mqa_logits as vLLM calls it: ChunkK 256, writes the logits itself",
        "ragged": "deepgemm_fp8_paged_mqa_logits_ragged_k: block_size 1, token slots of all requests in one list",
        "ragged_stage1": "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k: the same, one score a head, then a sum over heads",
    },
    "process": "own",
    "origin": "ROCm/aiter, aiter/ops/triton/attention/pa_mqa_logits.py and aiter/ops/topk.py",
    "hardware": "AMD (own dispatch); CPU by Triton's interpreter and CUDA for the plain Triton kernels of paged_mqa_logits",
    "remedy": "pip install --no-deps amd-aiter==0.1.7.post2.dev18, or name a checkout: --provider aiter@DIR",
}


def bind(variant: str | None, directory: str | None, device: Any) -> Any:
    """Loads one aiter, once a process.

    Args:
        variant: a name of SPEC's variants, or None: the production entry on ROCm, `stage1` elsewhere.
        directory: the root of a source checkout, or None for the installed package.
        device: the torch device (or its name) that cases run on.

    Raises:
        Unsupported: no such variant, no aiter there, no Triton, or one that does not load on this machine.
    """
    if variant is not None and variant not in SPEC["variants"]:
        raise Unsupported(f"aiter has no variant {variant!r}; there are {', '.join(SPEC['variants'])}")
    from kvcheck.agent.providers._aiter import source

    found = source.find(directory)
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise Unsupported("aiter's kernels need triton: pip install triton") from error
    import torch

    from kvcheck.agent.providers._aiter import calls, machine, shim

    place = torch.device(device)
    answers = machine.ask(place)
    if answers.rocm and directory is None:
        module, dtypes = machine.import_installed(found)
    else:
        module, dtypes = shim.load(found, answers)
    return calls.Aiter(found, variant, module, dtypes, place, answers)
