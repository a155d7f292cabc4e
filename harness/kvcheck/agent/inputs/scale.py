"""How the fp32 scale of a token's key is chosen."""

from __future__ import annotations

SPEC = {
    "choices": {
        "amax": {"doc": "largest magnitude of the token's key over the FP8 maximum, as the cache writers do"},
        "ue8m0": {"doc": "the amax scale rounded up to a power of two (scale_fmt ue8m0)"},
        "decades": {"doc": "the amax scale times 2**j, j in -10..10 drawn per token: about six decades"},
    }
}
