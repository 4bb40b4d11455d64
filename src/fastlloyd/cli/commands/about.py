"""`fastlloyd help` and `fastlloyd version`: the same as --help and --version."""

from typing import Annotated

import typer

Words = Annotated[
    list[str] | None,
    typer.Argument(
        help="Command, such as fit or plan new. Default: all commands.", metavar="COMMAND"
    ),
]


def help(command: Words = None) -> None:  # noqa: A001 - the name of the command
    """Show the help of a command."""
    from fastlloyd.cli.failures import run

    raise typer.Exit(run([*(command or ()), "--help"]))


def version() -> None:
    """Show the version."""
    from fastlloyd.base.version import __version__

    typer.echo(f"fastlloyd {__version__}")
