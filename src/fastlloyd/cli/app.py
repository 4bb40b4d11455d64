"""The command `fastlloyd`: its subcommands and the options that stand before them."""

from typing import Annotated

import typer

from fastlloyd._version import __version__
from fastlloyd.cli.advise import advise
from fastlloyd.cli.assign import assign
from fastlloyd.cli.bounds import bounds_app
from fastlloyd.cli.demo import demo
from fastlloyd.cli.fit import fit
from fastlloyd.cli.groups import with_option_groups
from fastlloyd.cli.join import join
from fastlloyd.cli.keygen import keygen
from fastlloyd.cli.ledger import ledger_app
from fastlloyd.cli.pem import pem
from fastlloyd.cli.plan import plan_app
from fastlloyd.cli.serve import serve
from fastlloyd.cli.simulate import simulate
from fastlloyd.cli.status import status
from fastlloyd.cli.usage import Command

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
app.command(cls=Command)(with_option_groups(fit))
app.command(cls=Command)(with_option_groups(simulate))
app.command(cls=Command)(with_option_groups(advise))
app.command(cls=Command)(assign)
app.add_typer(bounds_app, name="bounds")
app.command(cls=Command)(keygen)
app.command(cls=Command)(pem)
app.add_typer(plan_app, name="plan")
app.command(cls=Command)(serve)
app.command(cls=Command)(with_option_groups(join))
app.command(cls=Command)(status)
app.add_typer(ledger_app, name="ledger")
app.command(cls=Command)(with_option_groups(demo))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fastlloyd {__version__}")
        raise typer.Exit


@app.callback()
def fastlloyd(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; they may hold values of the records.")] = False,
) -> None:
    """k-means clustering with differential privacy, of one data holder or of several who may not pool their records."""
