"""An authority as an organisation has one: it signs requests, as they are or otherwise."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fastlloyd.federation.identity.certificates import make_certificate
from fastlloyd.federation.identity.x509 import request
from fastlloyd.federation.transport.grpc.tls import TlsIdentity

NOW = datetime.now(UTC).replace(microsecond=0)
Extensions = Sequence[tuple[x509.ExtensionType, bool]]
SHA256 = hashes.SHA256()
SIGNS: Extensions = ((x509.BasicConstraints(ca=True, path_length=None), True),)


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def text(certificate: x509.Certificate) -> str:
    """As it stands in plans."""
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def key_pem(key: Any) -> bytes:
    """Any private key, as TLS libraries read it."""
    content: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return content


def self_signed(name: str) -> TlsIdentity:
    """A fresh key of the channel with the certificate that `keygen` makes."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = make_certificate(name, bytes(32), key, NOW.date() + timedelta(days=100))
    return TlsIdentity(certificate=base64.b64decode(certificate), private_key=key_pem(key))


class Issuer:
    """An authority with a key of any kind. above : whoever signed its own certificate; None:
    itself.
    """

    def __init__(
        self,
        name: str = "Clinic CA",
        *,
        key: Any = None,
        algorithm: Any = SHA256,
        above: "Issuer | None" = None,
        extensions: Extensions = SIGNS,
        ends: datetime = NOW + timedelta(days=3000),
        **padding: Any,
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        self.name, self._algorithm, self._padding = subject(name), algorithm, padding
        signer = self if above is None else above
        self.certificate = signer.sign(self.name, self.key.public_key(), extensions, ends=ends)
        self.text = text(self.certificate)

    def sign(
        self,
        subject: x509.Name,
        key: Any,
        extensions: Extensions,
        *,
        begins: datetime = NOW - timedelta(days=1),
        ends: datetime = NOW + timedelta(days=300),
        algorithm: Any = None,
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(
            self.name, subject, key, x509.random_serial_number(), begins, ends
        )
        for value, critical in extensions:
            builder = builder.add_extension(value, critical)
        return builder.sign(self.key, algorithm or self._algorithm, **self._padding)

    def added(self) -> Extensions:
        """What authorities add: here only by whose key it is signed."""
        return [(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)]

    def issue(self, request: str, **changed: Any) -> x509.Certificate:
        """A certificate with everything that is requested (PEM), but for what is given."""
        asked = x509.load_pem_x509_csr(request.encode())
        assert asked.is_signature_valid
        values = {
            "subject": asked.subject,
            "key": asked.public_key(),
            "extensions": [*((e.value, e.critical) for e in asked.extensions), *self.added()],
        }
        return self.sign(**(values | changed))

    def tls_identity(self, name: str) -> TlsIdentity:
        """A fresh key of the channel with a certificate for it."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.issue(request(name, bytes(32).hex(), key))
        return TlsIdentity(
            certificate=certificate.public_bytes(Encoding.DER), private_key=key_pem(key)
        )
