"""Commands `fastlloyd keygen` and `fastlloyd pem`: make identities, and PEM files of their keys.

An identity has a private file to keep, and a public file to send. A certificate may be requested
from an authority.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.files import check_file, write_file, write_private
from fastlloyd.cli.options import PassphraseFile, in_output
from fastlloyd.cli.terminal import print_json
from fastlloyd.errors import IdentityError, OutputError

if TYPE_CHECKING:
    from fastlloyd.federation.identity.identity import PrivateIdentity

REQUEST_HEADING = "-----BEGIN CERTIFICATE REQUEST-----"
DAYS = 365

Name = Annotated[str, typer.Option(help="Name of the client or server in plans.", metavar="NAME")]
Folder = Annotated[
    Path,
    in_output(
        help="Folder for NAME.identity.toml and NAME.public.toml, made if it does not exist.",
        metavar="DIR",
    ),
]
Passphrase = Annotated[
    bool,
    typer.Option(
        "--passphrase", help="Encrypt the private keys with a passphrase, which is asked for twice."
    ),
]
Expires = Annotated[
    int | None,
    typer.Option(
        help=f"Number of days from today until the identity expires. Default: {DAYS}.",
        metavar="DAYS",
    ),
]
Request = Annotated[
    bool,
    typer.Option(
        "--request",
        help=(
            "Make only NAME.csr.pem, a request that your own authority signs. The public file"
            " follows with --issued. Works for an earlier identity too."
        ),
    ),
]
Issued = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Certificate that was issued for the request, PEM or DER. It is put into the identity,"
            " and the public file is made."
        ),
        metavar="FILE",
    ),
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier public file or request.")]
ReplaceIdentity = Annotated[
    bool,
    in_output(
        "--replace-identity",
        help=(
            "Replace an earlier private identity too. Its keys are lost, and plans that name it"
            " cannot be run any more."
        ),
    ),
]
Json = Annotated[bool, in_output("--json", help="Print files, fingerprint and last day as JSON.")]


def keygen(
    *,
    name: Name,
    out: Folder = Path(),
    passphrase: Passphrase = False,
    passphrase_file: PassphraseFile = None,
    expires: Expires = None,
    request: Request = False,
    issued: Issued = None,
    force: Force = False,
    replace_identity: ReplaceIdentity = False,
    json: Json = False,
) -> None:
    """Make the keys of a client or server: a private file to keep, and a public file for the
    plan.
    """
    from fastlloyd.cli.network import new_passphrase
    from fastlloyd.cli.settings import load_certificates
    from fastlloyd.federation.identity.identity import (
        MAX_DAYS,
        PUBLIC_HEADING,
        PrivateIdentity,
        check_passphrase,
    )

    if expires is not None and not 1 <= expires <= MAX_DAYS:
        raise IdentityError(f"--expires is {expires} days; expected 1 to {MAX_DAYS}")
    private, public, asking = (
        out / f"{name}.{ending}" for ending in ("identity.toml", "public.toml", "csr.pem")
    )
    made, heading = (asking, REQUEST_HEADING) if request else (public, PUBLIC_HEADING)
    if issued is not None or (request and private.exists() and not replace_identity):
        if (
            passphrase
            or expires is not None
            or replace_identity
            or (request and issued is not None)
        ):
            raise IdentityError(
                "--request and --issued do not change the keys, the passphrase and the last day of"
                f" {private}; pass one of the two, without --passphrase, --expires and"
                " --replace-identity"
            )
        identity, secret = _load(private, passphrase_file)
        if identity.name != name:
            raise IdentityError(
                f"{private} is the identity of {identity.name!r}; pass --name {identity.name}, or"
                f" choose the folder of {name!r} with --out"
            )
        check_file(made, heading=heading, force=force)
        if issued is not None:
            identity = identity.certified(load_certificates(issued))
            identity.save(private.resolve(), passphrase=secret, replace=True)
        write_file(made, identity.request() if request else identity.public.to_toml())
    else:
        identity = PrivateIdentity.make(
            name, datetime.now(UTC).date() + timedelta(days=expires or DAYS)
        )
        _check_identity(private, force=force, replace=replace_identity)
        if out.exists():  # otherwise it is made
            check_file(made, heading=heading, force=force or replace_identity)
        protected = passphrase or passphrase_file is not None
        secret = check_passphrase(new_passphrase(passphrase_file)) if protected else None
        text = identity.request() if request else identity.public.to_toml()
        save = partial(identity.save, private, passphrase=secret, replace=replace_identity)
        _write_pair(private, save, made, text, replace=replace_identity)
    _report(identity, private, made, request=request, protected=secret is not None, json=json)


def _load(path: Path, passphrase_file: Path | None) -> "tuple[PrivateIdentity, str | None]":
    """Return the identity in a file, and its passphrase if it has one."""
    from fastlloyd.cli.network import given_passphrase
    from fastlloyd.federation.identity.identity import PrivateIdentity

    given: list[str] = []

    def ask() -> str:
        given.append(given_passphrase(passphrase_file))
        return given[0]

    return PrivateIdentity.load(path, ask_passphrase=ask), (given[0] if given else None)


def _check_identity(path: Path, *, force: bool, replace: bool) -> None:
    from fastlloyd.federation.identity.identity import PRIVATE_HEADING

    if replace and path.exists():
        check_file(path, heading=PRIVATE_HEADING, force=True)
    elif path.exists() or path.is_symlink():
        raise OutputError(
            f"{path} exists already, and --force does not replace an identity: the file may be the"
            " only copy of its keys. Choose another folder with --out, or replace the file with"
            " --replace-identity if it is no longer needed"
            if force
            else f"{path} exists already: the file may be the only copy of its keys. Choose another"
            " folder with --out, or replace the file with --replace-identity if it is no longer"
            " needed"
        )


def _write_pair(
    secret: Path, save: Callable[[], None], public: Path, text: str, *, replace: bool = False
) -> None:
    """Write the secret file and the public file of an identity, and make their folder.

    Unless `replace` is set, both files are written or neither.

    secret : path of the secret file.
    save : function that writes the secret file.
    public : path of the public file.
    text : content of the public file.
    replace : whether existing files are replaced.
    """
    try:
        secret.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{secret.parent} cannot be made ({error.strerror})") from None
    save()
    try:
        write_file(public, text)
    except BaseException:
        if not replace:
            secret.unlink(missing_ok=True)
        raise


def _report(
    identity: "PrivateIdentity",
    private: Path,
    made: Path,
    *,
    request: bool,
    protected: bool,
    json: bool,
) -> None:
    from fastlloyd.base.sealed_toml import in_groups

    known = identity.public
    if json:
        said = {
            "name": known.name,
            "private_file": str(private),
            "request_file" if request else "public_file": str(made),
            "signing_key": known.signing_key,
            "under_passphrase": protected,
        }
        certified = (
            {}
            if request
            else {"fingerprint": known.fingerprint, "expires": known.expires.isoformat()}
        )
        print_json(said | certified)
        return
    how = "encrypted with the passphrase" if protected else "not encrypted"
    typer.echo(
        f"Keep: {private}. It contains the private keys, {how}. Anyone who has them can act as"
        f" {known.name}."
    )
    if request:
        typer.echo(f"Send: {made} to your authority, to be signed as it is. It contains no secret.")
        typer.echo(
            f"Then: run `fastlloyd keygen --name {known.name} --issued FILE` by {known.expires}."
            " FILE is the certificate from your authority; the command makes the public file."
        )
        return
    typer.echo(f"Send: {made} to the person who makes the plan. It contains no secret.")
    typer.echo(f"Fingerprint: {in_groups(known.fingerprint)}")
    typer.echo(
        "Tell the others the fingerprint over a different channel, such as the telephone: it must"
        " be the one in the plan."
    )
    typer.echo(f"The identity can be used up to {known.expires}.")


Key = Annotated[Path, typer.Option(help="Your private identity.", metavar="FILE")]
PemFolder = Annotated[
    Path,
    in_output(help="Folder for NAME.pem and NAME.key, made if it does not exist.", metavar="DIR"),
]


def pem(*, key: Key, out: PemFolder = Path(), passphrase_file: PassphraseFile = None) -> None:
    """Write the certificate and the TLS key of an identity as PEM files, for a program on this
    machine that monitors the server. The key is not encrypted.
    """
    identity, _ = _load(key, passphrase_file)
    certificate, secret = out / f"{identity.name}.pem", out / f"{identity.name}.key"
    for path in (certificate, secret):
        if path.exists() or path.is_symlink():
            raise OutputError(
                f"{path} exists already; choose another folder with --out, or remove it"
            )
    save = partial(write_private, secret, identity.tls_key_pem().decode())
    _write_pair(secret, save, certificate, identity.certificate_pem.decode())
    typer.echo(f"Certificate: {certificate}. It contains no secret.")
    typer.echo(
        f"Key: {secret}, not encrypted. Anyone who has it can connect as {identity.name}, but"
        " cannot sign."
    )
