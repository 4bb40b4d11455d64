"""Private identities, which never leave their owners, and public identities, which owners send to
the maker of a plan.

An identity has two keys: an Ed25519 key, which signs the messages of a client in a run, and a P-256
key for TLS. The certificate contains both public keys. The signature in the public file proves that
the owner of the signing key agrees to that certificate.
"""

import base64
import os
import re
import ssl
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from fastlloyd.base.files import read_private, write_private
from fastlloyd.base.names import NAME, NAME_RULE
from fastlloyd.base.randomness import length_prefixed
from fastlloyd.base.sealed_toml import changed_on_its_way, from_toml, load_text, to_toml
from fastlloyd.errors import IdentityError, PlanError, RemoteProtocolError
from fastlloyd.federation.identity.certificates import make_certificate, parse_certificate
from fastlloyd.federation.identity.parties import Client, Server
from fastlloyd.federation.secagg.keys import Identity, verify
from fastlloyd.federation.secagg.masks import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

PRIVATE_HEADING = "# A fastlloyd private identity"  # first words of every such file
PUBLIC_HEADING = "# A fastlloyd public identity"
MAX_DAYS = 3650
MIN_PASSPHRASE, MAX_PASSPHRASE = 8, 1000  # characters
MAX_BYTES = 1 << 14

_KEY_BYTES = 32  # length of each private key
_PUBLIC_LABEL = b"fastlloyd/v1/public-identity"
_SEAL_LABEL = b"fastlloyd/v1/private-identity"
_NONCE = bytes(12)  # every file has a salt of its own, so each key is used once

_PRIVATE_TEXT = "PRIVATE: anyone who has this file can act as its owner. Never send it."
_PUBLIC_TEXT = (
    "Send it to the person who makes the plan. Nothing in it is secret. Compare its fingerprint"
    " over a different channel."
)


class PublicIdentity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public part of an identity, for other parties.

    name : name of the owner.
    signing_key : public signing key, 64 hex digits.
    certificate : certificate, base64 of DER.
    expires : last day on which the certificate is valid.
    signature : signature with the signing key on name, key and certificate, as hex digits.

    Raises IdentityError if the fields contradict each other, or the signature is invalid.
    """

    name: str
    signing_key: str
    certificate: str
    expires: date
    signature: str

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise IdentityError(f"name {self.name!r:.80} is not usable; expected {NAME_RULE}")
        found = parse_certificate(self.certificate, self.name)
        if (found.signing_key, found.expires) != (self.signing_key, self.expires):
            raise IdentityError(
                f"the fields 'signing_key' and 'expires' of {self.name!r} differ from the"
                " certificate; get the original"
            )
        try:
            statement = _statement(self.name, self.signing_key, self.certificate)
            verify(bytes.fromhex(self.signing_key), _from_hex(self.signature), statement)
        except RemoteProtocolError:
            raise IdentityError(
                f"{self.name!r} did not sign this: the signature is another's; get the original"
            ) from None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hex digits. It identifies name, both keys and expiry."""
        return parse_certificate(self.certificate, self.name).fingerprint

    def check_valid(self, now: datetime | None = None) -> None:
        """Raise IdentityError unless the identity is valid at `now`. None stands for the time
        of the system's clock.
        """
        parse_certificate(self.certificate, self.name).check_valid(
            datetime.now(UTC) if now is None else now
        )

    def client(self, max_records: int) -> Client:
        """Return the entry of the owner in a plan, as a client that has at most `max_records`
        records or persons.
        """
        return Client(
            name=self.name,
            max_records=max_records,
            signing_key=self.signing_key,
            certificate=self.certificate,
        )

    def server(self, address: str) -> Server:
        """Return the entry of the owner in a plan, as the server.

        address : address of the server, "HOST:PORT".
        """
        return Server(name=self.name, address=address, certificate=self.certificate)

    def to_toml(self) -> str:
        """Return the text of the file `NAME.public.toml`."""
        return to_toml(self, f"{PUBLIC_HEADING[2:]}\n{_PUBLIC_TEXT}")

    @classmethod
    def from_toml(cls, text: str, source: str, now: datetime | None = None) -> "PublicIdentity":
        """Return the public identity in the text of a file.

        source : name of the file, for error messages.
        now : time at which it must be valid, or None for the system's clock.

        Raises IdentityError unless the text is complete, signed and not expired.
        """
        if text.startswith(PRIVATE_HEADING):
            raise IdentityError(
                f"{source} is a private identity, which must not leave its owner; give the public"
                " file that `fastlloyd keygen` made next to it, NAME.public.toml"
            )
        try:
            public = from_toml(text, cls, source)
        except PlanError as error:
            raise of_identity(error) from None
        public.check_valid(now)
        return public

    @classmethod
    def load(cls, path: Path, now: datetime | None = None) -> "PublicIdentity":
        """Return the public identity in the file at `path`.

        Raises IdentityError as `from_toml` does, or if the file cannot be read.
        """
        try:
            text = load_text(path)
        except PlanError as error:
            raise of_identity(error) from None
        return cls.from_toml(text, str(path), now)


class PrivateIdentity(Secret):
    """Private identity of a party: both private keys, which it never shows, and the public part.

    public : public part.
    signing : private signing key.
    """

    __slots__ = ("_tls_key", "public", "signing")

    def __init__(
        self, public: PublicIdentity, signing: Identity, tls_key: "EllipticCurvePrivateKey"
    ) -> None:
        self.public, self.signing, self._tls_key = public, signing, tls_key

    @classmethod
    def make(cls, name: str, expires: date) -> Self:
        """Return a new identity. Both keys come from the system's randomness.

        name : name of the owner.
        expires : last day on which it is valid.

        Raises IdentityError if the name or the day is invalid.
        """
        from fastlloyd.federation.identity import x509

        if not NAME.fullmatch(name):
            raise IdentityError(f"name {name!r:.80} is not usable; expected {NAME_RULE}")
        today = datetime.now(UTC).date()
        if not today <= expires <= today + timedelta(days=MAX_DAYS):
            raise IdentityError(
                f"'expires' is {expires}; expected a day from today on, within {MAX_DAYS} days"
            )
        signing, tls_key = Identity.generate(), x509.private_key()
        certificate = make_certificate(name, signing.public, tls_key, expires)
        return cls(_public(name, signing, certificate, expires), signing, tls_key)

    @property
    def name(self) -> str:
        """Name of the owner, as in the plan."""
        return self.public.name

    def request(self) -> str:
        """Return a request to an authority for a certificate of these keys: PKCS #10, as PEM,
        without secrets.
        """
        from fastlloyd.federation.identity import x509

        return x509.request(self.name, self.signing.public.hex(), self._tls_key)

    def certified(self, issued: Sequence[str]) -> Self:
        """Return the identity with the certificate that an authority issued for its keys.

        issued : certificates (base64 of DER). One of them must be the one for these keys.

        Raises IdentityError if it is not among them, differs from the request, or is not valid now.
        """
        own = parse_certificate(self.public.certificate, self.name)
        text = next((one for one in issued if own.tls_key in _bytes(one)), None)
        if text is None:
            raise IdentityError(
                f"the file has no certificate (as PEM or DER) for the keys of {self.name!r}; pass"
                " the certificate that was issued for its own request"
            )
        found = parse_certificate(text, self.name)
        if (found.signing_key, found.tls_key) != (own.signing_key, own.tls_key):
            raise IdentityError(
                f"the certificate for {self.name!r} contains another signing key than its private"
                " identity; have a new one issued from its own request"
            )
        found.check_valid(datetime.now(UTC))
        return type(self)(
            _public(self.name, self.signing, text, found.expires), self.signing, self._tls_key
        )

    @property
    def certificate_pem(self) -> bytes:
        """Certificate as PEM, for a TLS library."""
        return ssl.DER_cert_to_PEM_cert(base64.b64decode(self.public.certificate)).encode()

    def tls_key_pem(self) -> bytes:
        """Return the private TLS key as PEM, for a TLS library. SECRET: only `fastlloyd pem` writes
        it to a file, for a program that monitors the server.
        """
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._tls_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def save(self, path: Path, *, passphrase: str | None = None, replace: bool = False) -> None:
        """Write the file `NAME.identity.toml`, mode 0600.

        passphrase : passphrase under which the keys are encrypted, or None to store them
            unencrypted.
        replace : whether an existing file may be replaced.

        Raises OutputError if the file exists and may not be replaced, and IdentityError if the
        passphrase is too short or too long.
        """
        secret = (
            self.signing.private_bytes()
            + self._tls_key.private_numbers().private_value.to_bytes(_KEY_BYTES, "big")
        )
        if passphrase is None:
            stored = _Stored(public=self.public, private_keys=secret.hex())
        else:
            salt = os.urandom(16)
            box = _cipher(check_passphrase(passphrase), salt).encrypt(_NONCE, secret, _SEAL_LABEL)
            stored = _Stored(public=self.public, under_passphrase=box.hex(), salt=salt.hex())
        write_private(
            path, to_toml(stored, f"{PRIVATE_HEADING[2:]}\n{_PRIVATE_TEXT}"), replace=replace
        )

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        ask_passphrase: Callable[[], str] | None = None,
        now: datetime | None = None,
    ) -> Self:
        """Return the private identity in a file `NAME.identity.toml`.

        ask_passphrase : function that returns the passphrase, called only if the file is encrypted.
            None if no one can be asked.
        now : time at which the identity must be valid, or None for the system's clock.

        Raises IdentityError if others can read the file, if it is damaged or expired, or if the
        passphrase is missing or wrong. The error shows nothing of the content.
        """
        from fastlloyd.federation.identity import x509

        stored = _stored(path)
        stored.public.check_valid(now)
        secret = _from_hex(stored.private_keys)
        if stored.under_passphrase:
            if ask_passphrase is None:
                raise IdentityError(
                    f"{path} is encrypted; pass --passphrase-file FILE, or run the command in a"
                    " terminal, which asks for the passphrase"
                )
            secret = _open(stored, ask_passphrase(), path)
        if len(secret) != 2 * _KEY_BYTES:
            raise _damaged(path)
        signing = Identity.from_private_bytes(secret[:_KEY_BYTES])
        try:
            tls_key = x509.private_key(int.from_bytes(secret[_KEY_BYTES:], "big"))
        except ValueError:
            raise _damaged(path) from None
        certified = parse_certificate(stored.public.certificate, stored.public.name)
        if (signing.public.hex(), x509.tls_key(tls_key)) != (
            certified.signing_key,
            certified.tls_key,
        ):
            raise _damaged(path)
        return cls(stored.public, signing, tls_key)

    @staticmethod
    def is_under_passphrase(path: Path) -> bool:
        """Return whether the file is encrypted. If it is, `load` needs a passphrase.

        Raises IdentityError if the file cannot be used.
        """
        return bool(_stored(path).under_passphrase)

    @staticmethod
    def public_of(path: Path) -> PublicIdentity:
        """Return the public part of the identity in a file, even if the file is encrypted or
        expired.

        Raises IdentityError if the file cannot be used.
        """
        return _stored(path).public


class _Stored(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Content of the private file. Exactly one of `private_keys` and `under_passphrase` is not
    empty.

    public : public part.
    private_keys : Ed25519 key, then P-256 key, as hex digits.
    under_passphrase : the same keys, encrypted, as hex digits.
    salt : salt for the passphrase, as hex digits.
    """

    public: PublicIdentity
    private_keys: str = ""
    under_passphrase: str = ""
    salt: str = ""

    __repr__ = Secret.__repr__


def _stored(path: Path) -> _Stored:
    text = read_private(path, MAX_BYTES, secret_if=PRIVATE_HEADING)
    if text.startswith(PUBLIC_HEADING):
        raise IdentityError(
            f"{path} is a public file, which has no keys; name the private identity"
            " NAME.identity.toml"
        )
    if not text.startswith(PRIVATE_HEADING):
        raise IdentityError(
            f"{path} is not a private identity; pass a file that `fastlloyd keygen` made"
        )
    try:
        return from_toml(text, _Stored, "")
    except PlanError:  # its text could quote a secret
        if sentence := changed_on_its_way(text, path):
            raise IdentityError(sentence) from None
        raise _damaged(path) from None


def of_identity(error: PlanError) -> IdentityError:
    """Return the error about a file of an identity for an error about its text, with the code of
    the text's fault.
    """
    return IdentityError(str(error), code=None if error.code == PlanError.kind else error.code)


def check_passphrase(passphrase: str) -> str:
    """Return the passphrase. Raises IdentityError if it is too short to withstand guessing, or too
    long.
    """
    if not MIN_PASSPHRASE <= len(passphrase) <= MAX_PASSPHRASE:
        raise IdentityError(
            f"the passphrase has {len(passphrase)} characters; expected {MIN_PASSPHRASE} to"
            f" {MAX_PASSPHRASE}, such as five words picked by dice"
        )
    return passphrase


def _cipher(passphrase: str, salt: bytes) -> "ChaCha20Poly1305":
    """Return the cipher for a passphrase. Its key comes from Scrypt.

    The library's PKCS #8 has only 2048 iterations of PBKDF2, too few against guessing.
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    # keyboards encode the same letter differently
    typed = unicodedata.normalize("NFC", passphrase).encode(errors="surrogatepass")
    # 128 MiB for each guess
    return ChaCha20Poly1305(Scrypt(salt, 32, n=1 << 17, r=8, p=1).derive(typed))


def _open(stored: _Stored, passphrase: str, path: Path) -> bytes:
    from cryptography.exceptions import InvalidTag

    salt, box = _from_hex(stored.salt), _from_hex(stored.under_passphrase)
    try:
        return _cipher(passphrase, salt).decrypt(_NONCE, box, _SEAL_LABEL)
    except InvalidTag:  # the file is not damaged: its digest was checked
        raise IdentityError(
            f"the passphrase of {path} is wrong; try again, or make a new identity if the"
            " passphrase is lost"
        ) from None


def _public(name: str, signing: Identity, certificate: str, expires: date) -> PublicIdentity:
    signing_key = signing.public.hex()
    signature = signing.sign(_statement(name, signing_key, certificate)).hex()
    return PublicIdentity(
        name=name,
        signing_key=signing_key,
        certificate=certificate,
        expires=expires,
        signature=signature,
    )


def _statement(name: str, signing_key: str, certificate: str) -> bytes:
    return length_prefixed(
        _PUBLIC_LABEL, name.encode(), bytes.fromhex(signing_key), certificate.encode()
    )


def _bytes(base64_text: str) -> bytes:
    """Return the bytes of a base64 text, or no bytes if it is invalid. The parser that later reads
    the bytes is stricter.
    """
    with suppress(ValueError):
        return base64.b64decode(base64_text)
    return b""


def _from_hex(text: str) -> bytes:
    """Return the bytes that these hex digits encode, or no bytes if the text is invalid. A key of
    too few bytes is refused later.
    """
    return bytes.fromhex(text) if re.fullmatch(r"(?:[0-9a-f]{2})*", text) else b""


def _damaged(path: Path) -> IdentityError:
    return IdentityError(
        f"{path} is damaged or was changed; bring back your copy of the file, or make a new"
        " identity"
    )
