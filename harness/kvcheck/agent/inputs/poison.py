"""What lies in every slot that no token owns: unused pages, the tail of last pages, columns past a row."""

from __future__ import annotations

SPEC = {
    "choices": {
        "none": {"doc": "bytes of the same distribution as real tokens: a stray read is plausible, and wrong"},
        "zero": {"doc": "zero bytes, scale zero"},
        "nan": {"doc": "FP8 NaN codes and a NaN scale; invisible under Triton's interpreter, which decodes them to numbers"},
        "inf": {"doc": "code 1.0 with scale +Inf"},
        "large": {"doc": "the largest FP8 code with scale 1e4"},
        "finite_beacon": {"doc": "a finite key of alternating sign with a scale far above any real token's"},
        "auto": {"doc": "finite_beacon under the interpreter and on a CPU, nan on a GPU; params say which it was"},
    }
}
