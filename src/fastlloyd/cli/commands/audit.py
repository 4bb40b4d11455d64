"""Command `fastlloyd audit`: export the events of a store as a signed file, or verify one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import PassphraseFile, in_output
from fastlloyd.errors import IdentityError, OutputError, PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastlloyd.federation.audit import Audit
    from fastlloyd.federation.identity.identity import PrivateIdentity

_OF_PROGRAMS = ("number", "time", "event", "encoded", "head", "sha256")
File = Annotated[
    Path,
    typer.Argument(
        help="A store of a client or server to export, or an audit file to verify.",
        metavar="FILE",
        show_default=False,
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(help="Write the audit file of the store FILE to this file.", metavar="OUT"),
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier audit file.")]
Verify = Annotated[
    Path | None,
    typer.Option(
        help="Verify the audit file FILE: it must be signed by the owner of this public file.",
        metavar="PUBLIC",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        help="File of the private identity that signs. Default: the one beside the store.",
        metavar="FILE",
    ),
]
PositionsFile = Annotated[
    Path | None,
    typer.Option(
        help=(
            "With --verify: a file of positions that `fastlloyd ledger positions --out` made at a"
            " server. Check that the audit file contains every event that its owner confirmed to"
            " that server by signature."
        ),
        metavar="FILE",
    ),
]
Json = Annotated[bool, in_output("--json", help="Print what was exported or verified as JSON.")]


def audit(
    *,
    file: File,
    export: Export = None,
    force: Force = False,
    verify: Verify = None,
    key: Key = None,
    positions: PositionsFile = None,
    passphrase_file: PassphraseFile = None,
    json: Json = False,
) -> None:
    """Export what a site agreed to, sent, received and charged as a signed file, or verify such a
    file.
    """
    from fastlloyd.jobs.audits import verified

    if (export is None) is (verify is None):
        raise PlanError("pass one of --export OUT and --verify PUBLIC")
    if verify is not None:
        if key is not None or passphrase_file is not None:
            raise PlanError("--verify needs no private identity; leave out --key")
        if force:
            raise OutputError("--force needs a file to make; name it with --export OUT")
        found, name = verified(file, verify, positions)
        _show(found, name, file, as_json=json)
    elif export is not None:
        if positions is not None:
            raise PlanError("--positions has no effect without --verify PUBLIC; leave it out")
        content, signer = _signed(file, export, key, passphrase_file, force=force)
        _tell(export, content.count(b"\n"), signer, as_json=json)


def _signed(
    named: Path, out: Path, key: Path | None, passphrase_file: Path | None, *, force: bool
) -> tuple[bytes, str]:
    """Write the audit file, and return its content and the name of its signer.

    The file to make is checked first, then the store. The passphrase is asked for last.
    """
    from fastlloyd.base.files import check_file, write_private
    from fastlloyd.cli.network import load_identity
    from fastlloyd.federation.audit import BEGINNING
    from fastlloyd.federation.store import store_path
    from fastlloyd.federation.store.files import IDENTITY_SUFFIX
    from fastlloyd.jobs.audits import exported

    check_file(out, heading=BEGINNING, force=force)
    store = store_path(named)

    def load() -> "PrivateIdentity":
        beside = store.with_name(f"{store.stem}{IDENTITY_SUFFIX}") if key is None else key
        if key is None and not beside.exists():
            raise IdentityError(
                f"there is no identity {beside} beside the store; name the identity that signs"
                " with --key FILE"
            )
        return load_identity(beside, passphrase_file)

    content, signer = exported(store, load)
    write_private(out, content.decode(), replace=force)
    return content, signer


def _tell(out: Path, n_lines: int, signer: str, *, as_json: bool) -> None:
    from fastlloyd.cli import terminal

    if as_json:
        terminal.print_json({"file": str(out), "lines": n_lines, "signed_by": signer})
        return
    typer.echo(f"{out}: {n_lines} lines, signed by {signer!r}.")


def _show(found: "Audit", name: str, path: Path, *, as_json: bool) -> None:
    from fastlloyd.cli import terminal

    if as_json:
        terminal.print_json(
            {
                "valid": True,
                "role": found.role.value,
                "name": name,
                "identity": found.identity.hex(),
                "made": found.made,
                "events": list(found.events),
                "approvals": list(found.approvals),
            }
        )
        return
    typer.echo(
        f"{path} is whole and signed by {name!r}, a {found.role.value}: {len(found.events)} events"
        f" and {len(found.approvals)} approvals, exported {found.made}."
    )
    for event in found.events:
        typer.echo(f"{event['time']}  {event['event']}: {_words(event)}")
    for approval in found.approvals:
        typer.echo(f"approval: {_words(approval)}")
    typer.echo(
        "This proves what the owner of the key recorded and signed, not that nothing else happened."
    )


def _words(fields: "Mapping[str, object]") -> str:
    """Return the fields in one line, without those that only programs need and without terminal
    codes.
    """
    words = ", ".join(
        f"{name} {value}"
        for name, value in fields.items()
        if name not in _OF_PROGRAMS and value not in ("", None)
    )
    return "".join(character if character.isprintable() else "?" for character in words)
