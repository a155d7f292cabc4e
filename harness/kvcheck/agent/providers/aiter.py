"""AMD's aiter: MQA logits (Triton, Gluon), the index cache (HIP), top-k and Triton MLA decode, installed or from any commit's checkout.

Origin: ROCm/aiter, aiter/ops/triton/[attention/]pa_mqa_logits.py since d36601a9d0 (2025-10-14); aiter/ops/topk.py, cache.py;
aiter/ops/triton/[attention/]fp8_mqa_logits.py; aiter/ops/triton/attention/mla.py and unified_attention_sparse_mla.py.
Hardware: AMD gfx942, gfx950 and others with the package's own dispatch; its Triton and Gluon kernel files, unmodified, compiled for
gfx942 and gfx950 where those are emulated; its plain Triton kernel files under Triton's interpreter on a CPU or compiled for CUDA.
`_aiter/` says how. On a real AMD card none of it has been run.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import Unsupported

SPEC = {
    "name": "aiter",
    "summary": "AMD's aiter: its production entry for gfx942 and gfx950, its plain Triton kernels elsewhere",
    "ops": ["index_k_cache_gather", "index_k_cache_write", "mla_decode", "mqa_logits", "paged_mqa_logits", "topk_per_row"],
    "variants": {
        "stage1": "deepgemm_fp8_paged_mqa_logits_stage1 as vLLM calls it: ChunkQ = num_heads, then a sum over heads",
        "stage1_defaults": "the same with the wrapper's own defaults",
        "fused": "deepgemm_fp8_paged_mqa_logits as vLLM calls it: ChunkK 256, writes the logits itself; Gluon on gfx942 and gfx950",
        "fused_plain": "the same with its plain Triton kernel, whatever the target",
        "gluon": "the same with its Gluon kernel for block-flat caches (gfx942, gfx950)",
        "gluon_preshuffle": "the same with its Gluon kernel for shuffled caches, Preshuffle=True, block_size a multiple of 16",
        "gluon_varctx": "gluon_preshuffle with VarCtxSchedule, from the package's own schedule kernel",
        "ragged": "deepgemm_fp8_paged_mqa_logits_ragged_k: block_size 1, token slots of all requests in one list",
        "ragged_stage1": "deepgemm_fp8_paged_mqa_logits_stage1_ragged_k: the same, one score a head, then a sum over heads",
    },
    "process": "own",
    "origin": "ROCm/aiter, aiter/ops/triton/attention/pa_mqa_logits.py and aiter/ops/topk.py",
    "hardware": "AMD (own dispatch); gfx942 and gfx950 emulated; CPU by interpreter and CUDA for the plain Triton kernels",
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
    from kvcheck.agent.providers._aiter import shim, source

    shim.forget()  # an aiter loaded earlier would be found in the place of this one
    found = source.find(directory)
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise Unsupported("aiter's kernels need triton: pip install triton") from error
    import torch

    from kvcheck.agent.providers._aiter import calls, indexer, machine, mla

    place = torch.device(device)
    answers = machine.ask(place)
    if answers.rocm and directory is None:
        module, dtypes = machine.import_installed(found)
    else:
        module, dtypes = shim.load(found, answers)
    return indexer.attach(mla.attach(calls.Aiter(found, variant, module, dtypes, place, answers)))
