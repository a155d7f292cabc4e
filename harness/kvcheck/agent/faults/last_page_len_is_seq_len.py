"""The length of the last page is taken to be the length of the sequence (BUGS 5): pages past the request's are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "last_page_len_is_seq_len",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode", "mla_metadata"],
    "sentence": "takes last_page_len for the sequence length: (pages - 1) * page_size + context_len tokens are read",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        if op == "mla_metadata":
            function(**arguments)
            lens = arguments["context_lens"]
            arguments["last_page_len"].copy_(lens.clamp(min=1))
            return
        pages = (arguments["kv_indptr"][1:] - arguments["kv_indptr"][:-1]).tolist()

        def listed(request: int, token: int, seen: int) -> Any:
            extra = (pages[request] - 1) * arguments["page_size"] if seen else 0
            return faults.mla_slots(arguments, request, extra + seen)

        out, lse = faults.mla_rows(function, arguments, listed)
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
