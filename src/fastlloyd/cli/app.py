"""Command `fastlloyd`, with its subcommands and the options in front of them.

A subcommand is loaded when it is called. Its name and a one-line description are here, so the list
of all subcommands loads none of them. Commands for researchers are in the package fastlloyd_lab.
They are found by its entry points, without importing the package.
"""

import importlib
from collections.abc import Callable
from typing import Annotated, Any

import typer

from fastlloyd.base.version import __version__
from fastlloyd.cli.usage import Command, Group, with_option_groups
from fastlloyd.errors import FastLloydError

COMMANDS = {
    "fit": "Cluster the records of one organisation with differential privacy.",
    "app": "Find groups step by step, with pages in the browser of this machine.",
    "simulate": "Deal records to clients at random and run the clients together in this process.",
    "advise": (
        "Forecast the error bars of a result, its noise, and the bytes that are sent, from"
        " public numbers only."
    ),
    "result": "Make the page of a result from its other files, and name its clusters.",
    "assign": "Label your records by the nearest centroid of a result: NOT PRIVATE.",
    "bounds": "Make files of public bounds.",
    "recipe": "Make, check and explain recipes, which say how columns of a table become features.",
    "keygen": (
        "Make the keys of a client or server: a private file to keep, and a public file for the"
        " plan."
    ),
    "pem": (
        "Write the certificate and the TLS key of an identity as PEM files, for a program on this"
        " machine that monitors the server."
    ),
    "plan": "Make and read plans of federated runs. A plan is public and contains no records.",
    "serve": "Add up masked numbers for the clients of a plan, until the run is over.",
    "join": "Take part in a run with your records, which stay here.",
    "check": "Look for faults of this machine, and of the files and the server that you name.",
    "status": "Show every run of a store, or the run of a fit, and its progress.",
    "audit": (
        "Export what a site agreed to, sent, received and charged as a signed file, or verify such"
        " a file."
    ),
    "ledger": "Show and limit what runs spend on your data sets.",
    "datasets": "List public data sets for experiments, describe them, and fetch them.",
    "experiment": (
        "Repeat the paper's experiments, or run others, on public records, and draw them: NOT"
        " PRIVATE."
    ),
    "demo": (
        "Run three hospitals and a server, as four processes, which cluster public tumour"
        " measurements."
    ),
    "help": "Show the help of a command.",
    "version": "Show the version.",
}
HIDDEN = {"hosted": "Run the server that `fastlloyd join --serve` starts."}
LAB = ("datasets", "experiment")  # commands of the package fastlloyd-lab
FILES = {  # of commands whose file has another name
    "pem": "keygen",
    "hosted": "serve",
    "help": "about",
    "version": "about",
}


class Commands(Group):
    """Group of subcommands that loads only the subcommand that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the name and the subcommand for the first of `args`, and the other arguments."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, found if name is None else subcommand(name), rest

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the subcommands that are installed."""
        missing = {*LAB} - {*_entry_points()}
        return [name for name in super().list_commands(ctx) if name not in missing]


def subcommand(name: str) -> Any:
    """Return the click command for this name.

    It is the function with that name in the command's file, or the file's `GROUP`.

    Raises FastLloydError if the command belongs to fastlloyd_lab, and that package is not
    installed.
    """
    module = _module(name)
    group: dict[str, Callable[..., None]] | None = getattr(module, "GROUP", None)
    if group is None:
        made = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    else:
        made = typer.Typer(cls=Group, help=COMMANDS[name], no_args_is_help=True)
    for command, function in (group or {name: getattr(module, name)}).items():
        made.command(command, cls=Command)(with_option_groups(function))
    return typer.main.get_command(made) if group is None else typer.main.get_group(made)


def _module(name: str) -> Any:
    if name not in LAB:
        return importlib.import_module(f"fastlloyd.cli.commands.{FILES.get(name, name)}")
    if (found := _entry_points().get(name)) is None:
        raise FastLloydError(
            f"{name} is a command of fastlloyd-lab, which is not installed; in a clone of fastlloyd"
            f" {__version__} run: python -m pip install ./lab"
        )
    return found.load()


def _entry_points() -> dict[str, Any]:
    """Return the entry points that installed packages offer as commands, by name."""
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group="fastlloyd.commands")}


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fastlloyd {__version__}")
        raise typer.Exit


def _not_loaded() -> None:
    """Do nothing. This function represents a subcommand until it is called."""


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _line in COMMANDS.items():
    app.command(_name, help=_line)(_not_loaded)
for _name, _line in HIDDEN.items():
    app.command(_name, help=_line, hidden=True)(_not_loaded)


@app.callback()
def fastlloyd(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show tracebacks. Tracebacks may contain values of the records."
        ),
    ] = False,
) -> None:
    """k-means clustering with differential privacy, of one data holder or of several who may not
    pool their records.
    """
