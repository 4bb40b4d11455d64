"""Command `fastlloyd app`: a fit, step by step, as pages in the browser, for this user of this
machine.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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

    Only this user of this machine can use the pages. Nothing is spent before you confirm.
    """
    from fastlloyd.base.extras import command as installing
    from fastlloyd.base.extras import is_installed
    from fastlloyd.errors import FastLloydError

    if not is_installed("app"):
        raise FastLloydError(f"the app needs packages that are not installed: {installing('app')}")
    from fastlloyd.app.server import serve
    from fastlloyd.cli.network import ask_passphrase

    with _terminal_as_before():
        serve(
            port,
            None if ledger is None else Path(ledger).absolute(),
            typer.echo,
            ask_passphrase if sys.stdin.isatty() else None,
            with_browser=not no_browser,
        )


@contextmanager
def _terminal_as_before() -> Iterator[None]:
    """Context manager. After its block, the terminal shows again what is typed, even if Ctrl-C
    ended the block while it asked for a passphrase.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, before)
