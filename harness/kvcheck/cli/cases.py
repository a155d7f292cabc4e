"""`kvcheck cases`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli.common import command, print_text

app = typer.Typer(help="Writes case files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """Writes case files."""


@app.command("from-config")
@command
def from_config(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.json", help="config.json of a Hugging Face model.")],
    tp: Annotated[int, typer.Option("--tp", metavar="N", help="Ranks that the attention heads are split over.")] = 1,
    kv_cache_dtype: Annotated[
        str, typer.Option("--kv-cache-dtype", metavar="NAME", help="Latent cache: auto, bfloat16, float16, fp8, fp8_e4m3 or fp8_ds_mla.")
    ] = "auto",
    block_size: Annotated[int, typer.Option("--block-size", metavar="N", help="Tokens a page.")] = 64,
    scale: Annotated[int, typer.Option("--scale", metavar="N", help="Divides contexts and top-k, never heads and widths.")] = 1,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Prefix of the case names; the model's without it.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write the case file; printed without it.")] = None,
) -> None:
    """Writes a case file with the shapes of a model."""
    from kvcheck.flow import from_config as flow

    text = flow.render(config, tp, kv_cache_dtype, block_size, scale, name)
    if out is None:
        print_text(text)
        return
    flow.write(out, text)
    typer.echo(f"{out}: run it with: kvcheck run {out if '/' in str(out) else f'./{out}'}")
