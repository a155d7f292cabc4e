"""What a script is asked for, and what a call comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvcheck.repro.parts import Output


@dataclass(frozen=True)
class Wanted:
    """One row of a run, as far as a script depends on it; every text is one harmless line.

    Attributes:
        op: the op whose kernel is called.
        provider: as the row has it; FILE.py and NAME@DIR with absolute paths.
        params: resolved params.
        seed: of the inputs.
        verdict: the row's.
        output: output at fault, or None.
        message: what the run said.
        precision: the row's precision model.
        dispatch: what ran.
        device: "cpu" or "cuda".
        arch: of the device, such as gfx942 or sm_90.
        case: the row's id.
        seen_with: versions and device of the run.
        made_by: command that wrote the script.
        relation: relation that does not hold, for a metamorphic row.
        stage_of: pipeline of which the op is the first wrong stage, or None.
        guards: whether memory beside the outputs is looked at.
        turns: whether the kernel is called again and again, to give the same bits.
    """

    op: str
    provider: str
    params: dict[str, Any]
    seed: int
    verdict: str
    output: str | None
    message: str
    precision: str | None
    dispatch: str | None
    device: str
    case: str
    seen_with: str
    made_by: str
    arch: str = ""
    relation: str | None = None
    stage_of: str | None = None
    guards: bool = False
    turns: bool = False


@dataclass
class Called:
    """How one provider's kernel is called.

    Attributes:
        load: lines that import the kernel.
        call: lines that make room for the outputs and call it.
        needs: packages beside torch.
        withheld: outputs that this kernel does not make.
    """

    load: list[str]
    call: list[str]
    needs: str
    withheld: frozenset[str] = field(default_factory=frozenset)


def rooms(outputs: tuple[Output, ...], guards: bool) -> list[str]:
    """Lines that make room for the outputs of a call.

    Args:
        outputs: of the op.
        guards: between known bytes.
    """
    lines = []
    for each in outputs:
        name, dtype = ("whole" if each.view else each.name), f"torch.{each.dtype}"
        if guards:
            room = f"guarded({each.shape}, {dtype})" if each.content else f"guarded({each.shape}, {dtype}, FRESH)"
            lines.append(f"{name} = {room}" + (f".copy_({each.content})" if each.content else ""))
        else:
            lines.append(f"{name} = {each.content}.clone()" if each.content else f"{name} = torch.full({each.shape}, FRESH, dtype={dtype})")
        if each.view:
            lines.append(f"{each.name} = {each.view}")
    return lines
