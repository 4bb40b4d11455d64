"""TLS certificates of those who take part, known by their SHA-256: self-signed, all of one form, or issued as was requested.

A certificate names its owner and holds the owner's signing key beside the key of the channel, so that its fingerprint stands
for the whole identity. None can sign another: whoever is trusted is in the plan, whoever signed the certificate.
"""

import base64
import binascii
import functools
import hashlib
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from fastlloyd.errors import IdentityError
from fastlloyd.federation.identity.authority import flaw, is_p256, issuer

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

LAST_SECOND = time(23, 59, 59)
DOMAIN = "fastlloyd.internal"  # a name of no machine: addresses stand in the plan
MAX_BYTES = 4096  # of DER; those made here have fewer than 700, those of authorities seldom 2000
LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
SIGNING_KEY = "fastlloyd:ed25519:"

_KEY_URI = SIGNING_KEY + "[0-9a-f]{64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a certificate says. signing_key : 64 hex digits. tls_key : the P-256 point, 65 bytes. begins, ends : in UTC."""

    name: str
    signing_key: str
    tls_key: bytes
    begins: datetime
    ends: datetime
    fingerprint: str

    @property
    def expires(self) -> date:
        """The last day, in UTC."""
        return self.ends.date()

    def check_valid(self, now: datetime) -> None:
        """Raise IdentityError unless the certificate can be used at this time (which knows its time zone)."""
        if now < self.begins:
            raise IdentityError(
                f"the certificate of {self.name!r} is not valid before {self.begins:%Y-%m-%d %H:%M} UTC, and by this machine's "
                f"clock it is {now.astimezone(UTC):%Y-%m-%d %H:%M}; check the clock"
            )
        if now.replace(microsecond=0) > self.ends:
            raise IdentityError(
                f"the certificate of {self.name!r} expired on {self.expires}, and by this machine's clock it is "
                f"{now:%Y-%m-%d}; unless the clock is wrong its owner makes a new one with `fastlloyd keygen`"
            )


def host_name(name: str) -> str:
    """What the peer of that name is called in TLS."""
    return f"{name}.{DOMAIN}"


def make_certificate(name: str, signing_key: bytes, tls_key: "EllipticCurvePrivateKey", expires: date) -> str:
    """Make a certificate, valid from yesterday to the end of the day `expires`; base64 of DER. Raises IdentityError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding

    if not all(LABEL.fullmatch(label) for label in name.split(".")):
        raise IdentityError(f"name {name!r:.80} cannot be part of a host name; do without dots at its end or one after another")
    builder = _builder(
        name,
        signing_key.hex(),
        tls_key.public_key(),
        serial_number=x509.random_serial_number(),
        begins=datetime.now(UTC).replace(microsecond=0) - timedelta(days=1),  # clocks differ
        ends=datetime.combine(expires, LAST_SECOND, UTC),
    )
    return base64.b64encode(builder.sign(tls_key, hashes.SHA256()).public_bytes(Encoding.DER)).decode()


def make_request(name: str, signing_key: bytes, tls_key: "EllipticCurvePrivateKey") -> str:
    """Ask an authority for a certificate that says what `make_certificate` would: PKCS #10, as PEM."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import CertificateSigningRequestBuilder

    builder = CertificateSigningRequestBuilder(subject_name=_subject(name))
    for extension in _extensions(name, signing_key.hex()):
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(tls_key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def certificates_in(content: bytes) -> list[str]:
    """The certificates of a file, PEM or DER, each base64 of what may be DER. They are not looked into."""
    blocks = re.findall(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", content, re.DOTALL)
    return [b"".join(block.split()).decode("latin-1") for block in blocks] or [base64.b64encode(content).decode()]


@functools.lru_cache(maxsize=2048)  # nearly a millisecond each; plans of up to a thousand clients are checked several times
def parse_certificate(text: str, name: str) -> Certificate:
    """Read the certificate of `name`; IdentityError for what neither `make_certificate` nor an authority makes."""
    from cryptography.x509 import load_der_x509_certificate

    der = _decode(text, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what the parser only frowns on, as a serial number below zero, is not ours
            found = _read(load_der_x509_certificate(der), name)
    except IdentityError:
        raise
    except Exception:  # noqa: BLE001 - what the parser raises has no common class, and a stranger chose the bytes
        raise _unusable(name) from None
    if found is None:
        raise _unusable(name)
    if found.name != name:
        raise IdentityError(
            f"the certificate of {name!r} is made out to {found.name!r:.80}; use the public file its owner sent"
        )
    return found


def fingerprint(text: str) -> str:
    """SHA-256 of a certificate, 64 hex digits; of none, nothing. It is not looked into."""
    return hashlib.sha256(base64.b64decode(text)).hexdigest() if text else ""


def to_pem(text: str) -> bytes:
    """The certificate as a TLS library reads it."""
    lines = "\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n".encode()


def _decode(text: str, name: str) -> bytes:
    try:
        der = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _unusable(name) from None
    # one certificate, one spelling
    if not 0 < len(der) <= MAX_BYTES or base64.b64encode(der).decode() != text:
        raise _unusable(name)
    return der


def _unusable(name: str) -> IdentityError:
    return IdentityError(
        f"the certificate of {name!r} is not one that `fastlloyd keygen` makes or an authority issued for its request, or was "
        "changed; use the public file its owner sent"
    )


def _read(certificate: "x509.Certificate", expected: str) -> Certificate | None:
    """What a certificate says that is self-signed in our form, or issued to `expected` as requested; None or IdentityError."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509.oid import NameOID

    if certificate.issuer != certificate.subject and (what := flaw(certificate, expected, host_name(expected), _KEY_URI)):
        raise IdentityError(
            f"the certificate of {expected!r} is issued by {issuer(certificate)!r:.200}, but {what}; have it issued with the "
            "names and extensions of the request"
        )
    key = certificate.public_key()
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    keys = alternative.get_values_for_type(x509.UniformResourceIdentifier)
    if not isinstance(key, EllipticCurvePublicKey) or len(names) != 1 or len(keys) != 1 or not re.fullmatch(_KEY_URI, keys[0]):
        return None
    name, signing_key = str(names[0].value), keys[0].removeprefix(SIGNING_KEY)
    if certificate.issuer == certificate.subject and not _is_ours(certificate, name, signing_key):
        return None
    return Certificate(
        name=name,
        signing_key=signing_key,
        tls_key=key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        fingerprint=hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    )


def _is_ours(certificate: "x509.Certificate", name: str, signing_key: str) -> bool:
    """Whether it is, byte for byte, one that `make_certificate` makes. Raises whatever the library does where it cannot be."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    if not is_p256(certificate) or certificate.not_valid_after_utc.time() != LAST_SECOND:
        return False
    builder = _builder(
        name,
        signing_key,
        certificate.public_key(),
        serial_number=certificate.serial_number,
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
    )
    # what is signed does not depend on who signs; to compare what it means is not enough, which has several spellings
    again = builder.sign(ec.derive_private_key(1, ec.SECP256R1()), hashes.SHA256())
    if certificate.tbs_certificate_bytes != again.tbs_certificate_bytes:
        return False
    # before its signature stands how many of its bits do not count: none
    if not certificate.public_bytes(Encoding.DER).endswith(b"\0" + certificate.signature):
        return False
    certificate.verify_directly_issued_by(certificate)
    return True


def _builder(
    name: str, signing_key: str, key: "CertificatePublicKeyTypes", *, serial_number: int, begins: datetime, ends: datetime
) -> "x509.CertificateBuilder":
    """Everything that is signed."""
    from cryptography import x509

    subject = _subject(name)
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key,
        serial_number=serial_number,
        not_valid_before=begins,
        not_valid_after=ends,
    )
    for extension in _extensions(name, signing_key):
        builder = builder.add_extension(extension.value, extension.critical)
    return builder


def _subject(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _extensions(name: str, signing_key: str) -> "list[x509.Extension[x509.ExtensionType]]":
    """Of all certificates: no authority, signs handshakes as client and as server, and whose it is."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    no = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign"), False
    )
    values: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.KeyUsage(digital_signature=True, **no, encipher_only=False, decipher_only=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (
            x509.SubjectAlternativeName(
                [x509.DNSName(host_name(name)), x509.UniformResourceIdentifier(SIGNING_KEY + signing_key)]
            ),
            False,
        ),
    ]
    return [x509.Extension(value.oid, critical, value) for value, critical in values]
