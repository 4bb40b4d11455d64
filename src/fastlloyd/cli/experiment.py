"""`fastlloyd experiment`: run what a specification asks for, and look at what came out. NOT PRIVATE."""

import typer

from fastlloyd.cli import experiment_pictures
from fastlloyd.cli.usage import Command, Group

experiment_app = typer.Typer(
    cls=Group, help="Run experiments on public records and draw them: NOT PRIVATE.", no_args_is_help=True
)
experiment_app.command(cls=Command)(experiment_pictures.plot)
experiment_app.command(cls=Command)(experiment_pictures.table)
experiment_app.command(cls=Command)(experiment_pictures.report)
