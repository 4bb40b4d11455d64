"""Option `--request` of `fit` and `join`: a file that is the whole request, written by another
program.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from fastlloyd.cli.options import in_output
from fastlloyd.cli.usage import BEFORE, UsageError

HELP = (
    "File with the whole request, as `fastlloyd app` writes it. It is the only option, and the"
    " progress is printed as JSON, one object a line."
)


def request_option(unused: Mapping[str, object], carry_out: Callable[[Path], None]) -> Any:
    """Return the option of a command.

    unused : values to fill in for required options, because the file replaces them.
    carry_out : function that carries out the request in a file, in place of the command.
    """

    def take_over(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is not None:
            ctx.default_map = dict(unused)
            ctx.meta[BEFORE] = lambda: begin(ctx, path)
        return path

    def begin(ctx: typer.Context, path: Path) -> None:
        _check_alone(ctx)
        carry_out(path)
        raise typer.Exit

    return in_output("--request", is_eager=True, callback=take_over, help=HELP, metavar="FILE")


def _check_alone(ctx: typer.Context) -> None:
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name != "request_file" and source is not None and source.name == "COMMANDLINE":
            raise UsageError(
                f"--request names a file with the whole request; leave out {option.name}"
            )
