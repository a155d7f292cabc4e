"""What can stop an emulated launch.

EmulatorError
├── NotEmulated        the text holds something this emulator does not know: never a verdict about the kernel
├── MemoryFault        a lane left the tensor its address belongs to
└── Deadlock           waves wait for a barrier that others never reach, or the instruction budget ran out
"""

from __future__ import annotations


class EmulatorError(Exception):
    """Anything that ends an emulated launch early."""


class NotEmulated(EmulatorError):
    """An unknown mnemonic, operand form or modifier; the launch layer turns it into `unsupported: not emulated (...)`."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(f"not emulated ({what}, line {line})")
        self.what = what
        self.line = line


class MemoryFault(EmulatorError):
    """An access outside every tensor; `finding` holds lanes, tensor, offset and source line."""

    def __init__(self, finding: object) -> None:
        super().__init__(str(finding))
        self.finding = finding


class Deadlock(EmulatorError):
    """Waves that can never go on."""
