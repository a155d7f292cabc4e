"""A gap of Triton's interpreter, closed: 3.7.1 decodes e4m3fnuz but cannot name its type."""

from __future__ import annotations

import inspect
from typing import Any


def knows_fnuz() -> bool:
    """Teaches Triton's interpreter the name of e4m3fnuz where it lacks it; True when e4m3fnuz kernels can run.

    The interpreter's builder has the type and its conversions are right; only the table from type names to builder calls, which it
    puts in place at each launch, leaves `fp8e4b8` out.
    """
    try:
        from triton.runtime import interpreter

        table = interpreter._patch_lang_core
        if "fp8e4b8" in inspect.getsource(table):
            return True
        has_type = hasattr(interpreter.InterpreterBuilder, "get_fp8e4b8_ty")
    except (ImportError, AttributeError, OSError):
        return False
    if not has_type:
        return False

    def patched(lang: Any, *scope: Any) -> None:
        table(lang, *scope)
        known = lang.dtype.to_ir

        def to_ir(self: Any, builder: Any) -> Any:
            return builder.get_fp8e4b8_ty() if self.name == "fp8e4b8" else known(self, builder)

        lang.dtype.to_ir = to_ir

    interpreter._patch_lang_core = patched
    return True
