"""`fastlloyd pem`: the certificate and the key of the channel, for a monitor that asks the server after its health."""

from pathlib import Path
from typing import Annotated

import typer

from fastlloyd.cli.options import OUTPUT, PassphraseFile

Key = Annotated[Path, typer.Option(help="Your private identity.", metavar="FILE", show_default=False)]
Folder = Annotated[
    Path, typer.Option(help="Folder for NAME.pem and NAME.key; made if it is not there.", metavar="DIR", rich_help_panel=OUTPUT)
]


def pem(*, key: Key, out: Folder = Path(), passphrase_file: PassphraseFile = None) -> None:
    """Write certificate and TLS key of an identity as PEM, for a monitor on this machine. The key is not encrypted."""
    from fastlloyd.base.files import write_private
    from fastlloyd.cli.passphrase import given_passphrase
    from fastlloyd.errors import OutputError
    from fastlloyd.federation.identity.identity import PrivateIdentity
    from fastlloyd.reports import outputs

    identity = PrivateIdentity.load(key, ask_passphrase=lambda: given_passphrase(passphrase_file))
    certificate, secret = out / f"{identity.name}.pem", out / f"{identity.name}.key"
    for path in (certificate, secret):
        if path.exists() or path.is_symlink():
            raise OutputError(f"{path} exists already; choose another folder with --out, or remove it")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out} cannot be made ({error.strerror})") from None
    write_private(secret, identity.tls_key_pem().decode())
    try:
        outputs.write_file(certificate, identity.certificate_pem.decode())
    except BaseException:
        secret.unlink(missing_ok=True)
        raise
    typer.echo(f"Certificate: {certificate}. It holds nothing secret.")
    typer.echo(f"Key: {secret}, not encrypted; whoever has it can speak to the others as {identity.name}, but signs nothing.")
