"""Option `--request` of `fit`: a file that is the whole request, written by another program.

`requested_fit.py` carries it out.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from fastlloyd.cli.options import in_output
from fastlloyd.cli.usage import BEFORE, UsageError

_UNUSED: Final = {"data": "-", "n_clusters": 1}
"""Values of required options, which the file replaces."""


def _take_over(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the other options needless, and carry the request out in place of the command."""
    if path is not None:
        ctx.default_map = dict(_UNUSED)
        ctx.meta[BEFORE] = lambda: _carry_out(ctx, path)
    return path


def _carry_out(ctx: typer.Context, path: Path) -> None:
    from fastlloyd.cli import requested_fit

    _check_alone(ctx)
    requested_fit.carry_out(path)
    raise typer.Exit


def _check_alone(ctx: typer.Context) -> None:
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name != "request_file" and source is not None and source.name == "COMMANDLINE":
            raise UsageError(
                f"--request names a file with the whole request; leave out {option.name}"
            )


RequestFile = Annotated[
    Path | None,
    in_output(
        "--request",
        is_eager=True,
        callback=_take_over,
        help=(
            "File with the whole request, as `fastlloyd app` writes it. It is the only option, and"
            " the progress is printed as JSON, one object a line."
        ),
        metavar="FILE",
    ),
]
