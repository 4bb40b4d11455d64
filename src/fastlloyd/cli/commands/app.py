"""Command `fastlloyd app`: a fit, step by step, as pages in the browser, for this user of this
machine.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fastlloyd.cli.options import LedgerFile, in_network, in_output

Port = Annotated[
    int,
    in_network(
        "--port",
        min=0,
        max=65535,
        help="Port of this machine. Default: a free one.",
        metavar="PORT",
    ),
]
NoBrowser = Annotated[bool, in_output("--no-browser", help="Only print the address and the code.")]


def app(port: Port = 0, no_browser: NoBrowser = False, ledger: LedgerFile = None) -> None:
    """Find groups step by step, with pages in the browser of this machine.

    Only this user of this machine can use it. Nothing is spent before you confirm.
    """
    from fastlloyd.base.extras import command as installing
    from fastlloyd.base.extras import is_installed
    from fastlloyd.errors import FastLloydError

    if not is_installed("app"):
        raise FastLloydError(f"the app needs packages that are not installed: {installing('app')}")
    from fastlloyd.app.server import serve
    from fastlloyd.cli.network import ask_passphrase

    serve(
        port,
        None if ledger is None else Path(ledger).absolute(),
        typer.echo,
        ask_passphrase if sys.stdin.isatty() else None,
        with_browser=not no_browser,
    )
