"""`fastlloyd keygen`: a private identity to keep and a public file to send."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import OUTPUT, PassphraseFile

if TYPE_CHECKING:
    from fastlloyd.identity import PrivateIdentity

Name = Annotated[str, typer.Option(help="Name of the client, or of the server, in plans.", metavar="NAME", show_default=False)]
Folder = Annotated[
    Path,
    typer.Option(
        help="Folder for NAME.identity.toml and NAME.public.toml; made if it is not there.",
        metavar="DIR",
        rich_help_panel=OUTPUT,
    ),
]
Passphrase = Annotated[bool, typer.Option("--passphrase", help="Put the private keys under a passphrase; asks for it twice.")]
Expires = Annotated[int, typer.Option(help="Last day of the identity, counted from today.", metavar="DAYS")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier public file.", rich_help_panel=OUTPUT)]
ReplaceIdentity = Annotated[
    bool,
    typer.Option(
        "--replace-identity",
        help="Replace an earlier private identity too. Its keys are lost, and plans that name it cannot be run any more.",
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print files, fingerprint and last day as JSON.", rich_help_panel=OUTPUT)]


def keygen(
    *,
    name: Name,
    out: Folder = Path(),
    passphrase: Passphrase = False,
    passphrase_file: PassphraseFile = None,
    expires: Expires = 365,
    force: Force = False,
    replace_identity: ReplaceIdentity = False,
    json: Json = False,
) -> None:
    """Make the keys of a client or server: a private file to keep, and a public file for whoever makes the plan."""
    from datetime import UTC, datetime, timedelta

    from fastlloyd import outputs
    from fastlloyd.cli.passphrase import new_passphrase
    from fastlloyd.errors import IdentityError
    from fastlloyd.identity import MAX_DAYS, PUBLIC_HEADING, PrivateIdentity, check_passphrase

    if not 1 <= expires <= MAX_DAYS:
        raise IdentityError(f"expires is {expires} days; expected 1 to {MAX_DAYS}")
    identity = PrivateIdentity.make(name, datetime.now(UTC).date() + timedelta(days=expires))
    private, public = out / f"{name}.identity.toml", out / f"{name}.public.toml"
    _check_identity(private, force=force, replace=replace_identity)
    outputs.check_file(public, heading=PUBLIC_HEADING, force=force or replace_identity)
    protected = passphrase or passphrase_file is not None
    secret = check_passphrase(new_passphrase(passphrase_file)) if protected else None
    _write(identity, private, public, secret, replace=replace_identity)
    _report(identity, private, public, protected=protected, json=json)


def _check_identity(path: Path, *, force: bool, replace: bool) -> None:
    from fastlloyd import outputs
    from fastlloyd.errors import OutputError
    from fastlloyd.identity import PRIVATE_HEADING

    if replace:
        outputs.check_file(path, heading=PRIVATE_HEADING, force=True)
    elif path.exists() or path.is_symlink():
        hint = ", which --force does not touch" if force else ""
        raise OutputError(
            f"{path} exists already{hint}: it may be the only copy of its keys. Choose another folder with --out, or, if "
            "nobody needs it any more, --replace-identity"
        )


def _write(identity: "PrivateIdentity", private: Path, public: Path, passphrase: str | None, *, replace: bool) -> None:
    """Both files or, unless an identity is replaced, none."""
    from fastlloyd import outputs
    from fastlloyd.errors import OutputError

    try:
        private.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{private.parent} cannot be made ({error.strerror})") from None
    identity.save(private, passphrase=passphrase, replace=replace)
    try:
        outputs.write_file(public, identity.public.to_toml())
    except BaseException:
        if not replace:
            private.unlink(missing_ok=True)
        raise


def _report(identity: "PrivateIdentity", private: Path, public: Path, *, protected: bool, json: bool) -> None:
    from fastlloyd import outputs
    from fastlloyd.documents import in_groups

    known = identity.public
    if json:
        said = {
            "name": known.name,
            "private_file": str(private),
            "public_file": str(public),
            "fingerprint": known.fingerprint,
            "signing_key": known.signing_key,
            "expires": known.expires.isoformat(),
            "under_passphrase": protected,
        }
        typer.echo(outputs.to_json(said), nl=False)
        return
    how = "under the passphrase" if protected else "not under a passphrase"
    typer.echo(f"Keep: {private}. Private keys, {how}; whoever has them can take the place of {known.name}.")
    typer.echo(f"Send: {public} to whoever makes the plan. It holds nothing secret.")
    typer.echo(f"Fingerprint: {in_groups(known.fingerprint)}")
    typer.echo("Say the fingerprint to the others on a separate way, such as the telephone: it must be the one in the plan.")
    typer.echo(f"The identity can be used up to {known.expires}.")
