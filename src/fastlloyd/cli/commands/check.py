"""Command `fastlloyd check`: look for faults of this machine and of the user's files, and say what
to do about them.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.network_options import StoreFile
from fastlloyd.cli.options import LedgerFile, PassphraseFile, in_output

if TYPE_CHECKING:
    from fastlloyd.jobs.machine import Finding

PlanFile = Annotated[
    Path | None, typer.Argument(help="File of a plan.", metavar="PLAN", show_default=False)
]
Key = Annotated[Path | None, typer.Option(help="File of your private identity.", metavar="FILE")]
Connect = Annotated[
    str | None,
    typer.Option(
        help="Address to connect to. Default: the server of the plan, if there is a plan.",
        metavar="HOST:PORT",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Connect to nothing.")]
LockFile = Annotated[
    Path | None,
    typer.Option(
        help="File of locked versions, as pip reads it, to compare installed packages with.",
        metavar="FILE",
    ),
]
Json = Annotated[bool, in_output("--json", help="Print the findings as JSON.")]

_MARK = {"fine": "ok", "note": "note", "fault": "FAULT"}
_WIDTH, _INDENT = 100, 9


def check(
    *,
    plan: PlanFile = None,
    key: Key = None,
    store: StoreFile = None,
    ledger: LedgerFile = None,
    connect: Connect = None,
    offline: Offline = False,
    passphrase_file: PassphraseFile = None,
    lock: LockFile = None,
    json: Json = False,
) -> None:
    """Look for faults of this machine, and of the files and the server that you name. The exit code
    is 0 if there is none, otherwise 2.
    """
    from fastlloyd.cli import network, terminal
    from fastlloyd.cli.failures import REFUSED
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.federation.holder import place
    from fastlloyd.federation.identity.parties import check_address
    from fastlloyd.federation.store import store_path
    from fastlloyd.jobs.machine import Level
    from fastlloyd.jobs.site_check import SiteCheck

    if connect is not None:
        check_address(connect, "--connect")
    findings = SiteCheck(
        ledger=place(ledger),
        read_plan=read_plan,
        unlocked=lambda path: network.load_identity(path, passphrase_file),
        plan=plan,
        key=key,
        store=None if store is None else store_path(store),
        address=connect,
        is_offline=offline,
        lock=lock,
    ).findings()
    n_faults = sum(one.level is Level.FAULT for one in findings)
    if json:
        named = [{**one._asdict(), "level": one.level.value} for one in findings]
        terminal.print_json({"sound": not n_faults, "findings": named})
    else:
        for one in sorted(findings, key=lambda one: one.level is Level.FAULT):
            _say(one)
        found = "1 fault" if n_faults == 1 else f"{n_faults or 'No'} faults"
        typer.echo(f"{found} found.")
    if n_faults:
        raise typer.Exit(REFUSED)


def _say(one: "Finding") -> None:
    """Print one finding, and below it what to do."""
    mark = _MARK[one.level.value]
    code = "" if mark == "ok" else f" [{one.code}]"
    lines = [f"{mark:<{_INDENT}}{one.said}{code}", *([f"do: {one.remedy}"] if one.remedy else [])]
    for number, line in enumerate(lines):
        typer.echo(
            textwrap.fill(
                line,
                _WIDTH,
                initial_indent=" " * _INDENT * bool(number),
                subsequent_indent=" " * _INDENT,
                break_long_words=False,
                break_on_hyphens=False,
                drop_whitespace=True,
            )
        )
