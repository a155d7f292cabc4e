"""The command line: one thin file a command."""

from __future__ import annotations

import typer

from kvcheck.cli import agent, bisect, cases, compare, compile, doctor, list_, report, repro, run, selftest, shrink, threshold, vet, whatis

app = typer.Typer(
    name="kvcheck",
    help="Judges paged KV-cache kernels against a certified reference, and finds where a verdict flips.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("threshold")(threshold.threshold)
app.command("report")(report.report)
app.command("shrink")(shrink.shrink)
app.command("repro")(repro.repro)
app.command("compare")(compare.compare)
app.command("compile")(compile.compile_)
app.command("selftest")(selftest.selftest)
app.command("vet")(vet.vet)
app.command("whatis")(whatis.whatis)
app.command("doctor")(doctor.doctor)
app.command("list")(list_.list_)
app.add_typer(agent.app, name="agent")
app.add_typer(cases.app, name="cases")
app.add_typer(bisect.app, name="bisect")


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    show: bool = typer.Option(False, "--version", help="Prints kvcheck's version."),
) -> None:
    """Judges paged KV-cache kernels against a certified reference, and finds where a verdict flips."""
    if show:
        import kvcheck

        typer.echo(kvcheck.__version__)
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit()


if __name__ == "__main__":
    app()
