"""The decode kernel's rows against the same provider's prefill kernel on the same keys, gathered: equal within both bounds."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.layouts import block_flat
from kvcheck.agent.relations import Variant, promised

SPEC = {"name": "decode_against_prefill", "demand": "bound", "doc": "rows of mqa_logits on the gathered keys of each request"}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """One prefill call over the keys of all requests; none where no request has a token."""
    import torch

    q, table, lens = (inputs.tensors[name] for name in ("q", "block_table", "context_lens"))
    batch, next_n, heads, dim = q.shape
    size, cache = inputs.scalars["block_size"], inputs.tensors["kv_cache"].contiguous()
    slots = []
    for request, length in enumerate(lens.view(batch, -1).amax(1).tolist()):
        position = torch.arange(length)
        slots.append(table[request].long()[position // size] * size + position % size)
    first = torch.tensor([0] + [len(each) for each in slots]).cumsum(0)
    total = int(first[-1])
    if not total:
        return []
    codes, scales = block_flat.gather(cache, torch.cat(slots))
    ks = first[:-1].repeat_interleave(next_n)
    ke = ks + inputs.row_lengths
    column = torch.arange(total)
    inside = (column >= ks[:, None]) & (column < ke[:, None])
    changed = Inputs(
        tensors={
            "q": q.reshape(batch * next_n, heads, dim),
            "k": codes.contiguous().view(q.dtype),
            "k_scale": scales.contiguous(),
            "weights": inputs.tensors["weights"],
            "ks": ks.to(torch.int32),
            "ke": ke.to(torch.int32),
        },
        scalars={"kv_dtype": inputs.scalars["kv_dtype"]},
        outputs={"logits": ((batch * next_n, total), torch.float32)},
        exact=inputs.exact,
        inside={"logits": inside},
    )
    mask = promised(inputs, "logits")

    def back(outputs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        given = outputs["logits"].cpu()
        value = torch.full(mask.shape, -torch.inf, dtype=given.dtype)
        value[mask] = given[inside]
        return {"logits": (value, mask)}

    params = {"rows": batch * next_n, "tokens": total, "num_heads": heads, "head_dim": dim}
    return [Variant(f"mqa_logits over the {total} gathered keys", changed, back, True, "mqa_logits", params)]
