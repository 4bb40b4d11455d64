"""TLS certificates of those who take part: self-signed, all of one form, known by their SHA-256. There is no authority.

A certificate names its owner and holds the owner's signing key beside the key of the channel, so that its fingerprint stands
for the whole identity. None can sign another: whoever is trusted is in the plan.
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

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LAST_SECOND = time(23, 59, 59)
DOMAIN = "fastlloyd.internal"  # a name of no machine: addresses stand in the plan
MAX_BYTES = 2048  # of DER; those made here have fewer than 700
LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
SIGNING_KEY = "fastlloyd:ed25519:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a certificate says. signing_key : 64 hex digits. tls_key : the P-256 point, 65 bytes. Both days are in UTC."""

    name: str
    signing_key: str
    tls_key: bytes
    begins: datetime
    expires: date
    fingerprint: str

    def check_valid(self, now: datetime) -> None:
        """Raise IdentityError unless the certificate can be used at this time (which knows its time zone)."""
        if now < self.begins:
            raise IdentityError(f"the certificate of {self.name!r} is not valid before {self.begins:%Y-%m-%d}; check the clock")
        if now.astimezone(UTC).date() > self.expires:
            raise IdentityError(
                f"the certificate of {self.name!r} expired on {self.expires}; its owner makes a new one with `fastlloyd keygen`"
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
    subject = _subject(name)
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=tls_key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=datetime.now(UTC).replace(microsecond=0) - timedelta(days=1),  # clocks differ
        not_valid_after=datetime.combine(expires, LAST_SECOND, UTC),
    )
    for extension in _extensions(name, signing_key.hex()):
        builder = builder.add_extension(extension.value, extension.critical)
    return base64.b64encode(builder.sign(tls_key, hashes.SHA256()).public_bytes(Encoding.DER)).decode()


@functools.lru_cache(maxsize=2048)  # nearly a millisecond each; plans of up to a thousand clients are checked several times
def parse_certificate(text: str, name: str) -> Certificate:
    """Read the certificate of `name`; whatever `make_certificate` does not make is refused with IdentityError."""
    from cryptography.x509 import load_der_x509_certificate

    der = _decode(text, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what the parser only frowns on, as a serial number below zero, is not ours
            found = _read(load_der_x509_certificate(der))
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
        f"the certificate of {name!r} is not one that `fastlloyd keygen` makes, or was changed; use the public file its owner "
        "sent"
    )


def _read(certificate: "x509.Certificate") -> Certificate | None:
    """What a certificate says that has the form of ours and is signed by itself, or None."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509.oid import NameOID, SignatureAlgorithmOID

    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        return None
    if certificate.signature_algorithm_oid != SignatureAlgorithmOID.ECDSA_WITH_SHA256:
        return None
    if certificate.version != x509.Version.v3 or certificate.not_valid_after_utc.time() != LAST_SECOND:
        return None
    der, signature = certificate.public_bytes(Encoding.DER), certificate.signature
    if not der.endswith(b"\0" + signature):  # before its signature stands how many of its bits do not count: none
        return None
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    keys = alternative.get_values_for_type(x509.UniformResourceIdentifier)
    if len(names) != 1 or len(keys) != 1 or not re.fullmatch(SIGNING_KEY + "[0-9a-f]{64}", keys[0]):
        return None
    name, signing_key = str(names[0].value), keys[0].removeprefix(SIGNING_KEY)
    if {certificate.subject.public_bytes(), certificate.issuer.public_bytes()} != {_subject(name).public_bytes()}:
        return None  # compared as bytes: equal names have several spellings
    if list(certificate.extensions) != _extensions(name, signing_key):
        return None
    certificate.verify_directly_issued_by(certificate)
    return Certificate(
        name=name,
        signing_key=signing_key,
        tls_key=key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        begins=certificate.not_valid_before_utc,
        expires=certificate.not_valid_after_utc.date(),
        fingerprint=hashlib.sha256(der).hexdigest(),
    )


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
