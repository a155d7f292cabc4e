"""Sends `device="cuda"` to the CPU while a device is emulated: launch code of real kernels allocates its scratch tensors on the card."""

from __future__ import annotations

from typing import Any


def make_mode() -> Any:
    """A torch function mode that replaces a cuda device by the CPU, in factories, `.to(...)` and `.cuda()`."""
    import torch
    from torch.overrides import TorchFunctionMode

    def here(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "cuda" else value
        return "cpu" if isinstance(value, str) and value.partition(":")[0] == "cuda" else value

    class EmulatedCuda(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
            kwargs = dict(kwargs or {})
            if getattr(function, "__name__", "") == "cuda":
                return args[0]
            if "device" in kwargs:
                kwargs["device"] = here(kwargs["device"])
            if getattr(function, "__name__", "") == "to":
                args = (args[0], *(here(a) for a in args[1:]))
            return function(*args, **kwargs)

    return EmulatedCuda()
