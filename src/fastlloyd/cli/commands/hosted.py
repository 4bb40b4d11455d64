"""The server's process of `fastlloyd join --serve`, which starts it; nobody types this command."""

import os
import sys
import threading
from pathlib import Path

import typer

from fastlloyd.cli.commands import serve


def hosted() -> None:
    """Serve what standard input says, and end when it ends: the process that holds its other end is gone then."""
    from fastlloyd.cli import network
    from fastlloyd.cli.hosting import Orders
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.federation.plan.plan import Plan

    orders = Orders.read(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), name="fastlloyd-end", daemon=True).start()
    plan, key = Plan.from_toml(orders.plan), Path(orders.key)
    identity = PrivateIdentity.load(key, ask_passphrase=lambda: orders.passphrase)
    network.check_server(identity.public, plan, key, Path("the plan"))
    raise typer.Exit(serve.run(plan, identity, key, orders.address, Path(orders.store), as_json=True))


def _end_with(descriptor: int) -> None:
    """End this process at once when nobody holds the other end any more; what is not on disk then never happened."""
    from fastlloyd.cli.network import STOPPED

    while os.read(descriptor, 1024):
        pass
    os._exit(STOPPED)
