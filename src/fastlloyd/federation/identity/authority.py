"""Certificates that an organisation's own authority issued: what it may add to what was requested, and the authority of a plan.

They are trusted as all others are: because their SHA-256 is in the plan. The authority that a plan may name lets nobody in; it
keeps those out whose certificates it did not issue.
"""

import base64
import functools
import hashlib
import re
import ssl
import warnings
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from fastlloyd.errors import IdentityError

if TYPE_CHECKING:
    from cryptography import x509

    Extension = TypeVar("Extension", bound=x509.ExtensionType)


MAX_BYTES = 8192  # of DER


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Whoever issues the certificates of a plan. name : the subject, as RFC 4514 writes it. fingerprint : SHA-256, hex."""

    name: str
    begins: datetime
    ends: datetime
    fingerprint: str
    certificate: "x509.Certificate"

    def check_valid(self, now: datetime) -> None:
        """Raise IdentityError unless its certificate can be used at this time (which knows its time zone)."""
        if not self.begins <= now.replace(microsecond=0) <= self.ends:
            raise IdentityError(
                f"the certificate of the plan's authority {self.name!r:.200} is valid from {self.begins:%Y-%m-%d} to "
                f"{self.ends:%Y-%m-%d} only; name its present one with `fastlloyd plan renew PLAN --authority FILE`"
            )

    def check_issued(self, text: str, name: str) -> None:
        """Raise IdentityError unless it signed this certificate (base64 of DER) of `name` itself."""
        from cryptography.x509 import load_der_x509_certificate

        certificate = load_der_x509_certificate(base64.b64decode(text))
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except Exception:  # noqa: BLE001 - another name, another key, a kind of key it does not know: they have no common class
            raise IdentityError(
                f"the certificate of {name!r} was not issued by the plan's authority {self.name!r:.200} but by "
                f"{issuer(certificate)!r:.200}; everyone in this plan needs one that this authority issued directly"
            ) from None


def _decode(text: str) -> bytes:
    der = base64.b64decode(text, validate=True)
    if len(der) > MAX_BYTES or base64.b64encode(der).decode() != text:
        raise ValueError(text)  # one certificate, one spelling
    return der


@functools.lru_cache(maxsize=8)
def parse_authority(text: str) -> Authority:
    """Read the certificate (base64 of DER) of an authority; IdentityError for what is not one."""
    from cryptography import x509

    try:
        der = _decode(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old roots have odd serial numbers
            certificate = x509.load_der_x509_certificate(der)
            constraints, usage = _find(certificate, x509.BasicConstraints), _find(certificate, x509.KeyUsage)
        found = Authority(
            name=certificate.subject.rfc4514_string(),
            begins=certificate.not_valid_before_utc,
            ends=certificate.not_valid_after_utc,
            fingerprint=hashlib.sha256(der).hexdigest(),
            certificate=certificate,
        )
    except Exception:  # noqa: BLE001 - what the parser raises has no common class, and a stranger chose the bytes
        raise IdentityError("the certificate of the plan's authority cannot be read; expected X.509 in PEM or DER") from None
    if constraints is None or not constraints.ca or (usage is not None and not usage.key_cert_sign):
        raise IdentityError(
            f"the certificate of {found.name!r:.200} is not an authority's (CA:TRUE, for signing certificates); name the one "
            "that issued the parties' certificates"
        )
    return found


def issuer(certificate: "x509.Certificate") -> str:
    """Who issued it, as RFC 4514 writes names. Nobody has checked that."""
    return certificate.issuer.rfc4514_string()


def flaw(certificate: "x509.Certificate", name: str, host: str, key: str) -> str:
    """What keeps a certificate that an authority issued from being the one that was requested for `name`; nothing if it is.

    host : its DNS name. key : the pattern of its URI. The authority chooses issuer, serial number, times and what else it adds
    that is not critical.
    """
    return _whose(certificate, name, host, key) or _for_what(certificate) or _by_whom(certificate) or _for_tls(certificate)


def _whose(certificate: "x509.Certificate", name: str, host: str, key: str) -> str:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    common = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if common != [name]:
        return f"its common name is {', '.join(common)!r:.80}; expected {name!r}"
    if not is_p256(certificate):
        return "its key is not the P-256 key of the request"
    if certificate.version != x509.Version.v3:
        return "it is not of version 3, which alone has extensions"
    names = _find(certificate, x509.SubjectAlternativeName)
    expected = f"expected the host {host} and the URI of the request, which holds the signing key, and no others"
    if names is None:
        return f"it has no subject alternative names; {expected}"
    hosts, keys = (names.get_values_for_type(kind) for kind in (x509.DNSName, x509.UniformResourceIdentifier))
    if hosts != [host] or len(keys) != 1 or not re.fullmatch(key, keys[0]) or len(list(names)) != 2:
        return f"its subject alternative names are {[str(one.value) for one in names]!r:.300}; {expected}"
    return ""


def _for_what(certificate: "x509.Certificate") -> str:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    constraints, usage = _find(certificate, x509.BasicConstraints), _find(certificate, x509.KeyUsage)
    if constraints is not None and constraints.ca:
        return "it is an authority's (CA:TRUE); expected CA:FALSE"
    if usage is None or not usage.digital_signature:
        return "its key usage is not for digital signatures"
    if usage.key_cert_sign or usage.crl_sign:  # nor is one without these ever tried as the issuer of another in the plan
        return "its key usage is for signing certificates or lists of revoked ones"
    purposes = list(_find(certificate, x509.ExtendedKeyUsage) or ())
    for purpose, said in ((ExtendedKeyUsageOID.CLIENT_AUTH, "clientAuth"), (ExtendedKeyUsageOID.SERVER_AUTH, "serverAuth")):
        if purpose not in purposes:
            return f"its extended key usage lacks {said}; expected clientAuth and serverAuth"
    known = (x509.SubjectAlternativeName, x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage)
    for extension in certificate.extensions:
        if extension.critical and not isinstance(extension.value, known):
            return f"its extension {extension.oid.dotted_string} is critical and was not requested"
    return ""


def _by_whom(certificate: "x509.Certificate") -> str:
    """Whether the signature is one of the authority's, only the authority's certificate can tell."""
    from cryptography import x509

    if not _well_signed(certificate):
        return (
            f"it is signed with the algorithm {certificate.signature_algorithm_oid.dotted_string}; expected ECDSA or RSA with "
            "SHA-256, SHA-384 or SHA-512, or Ed25519 or Ed448"
        )
    identifier = _find(certificate, x509.AuthorityKeyIdentifier)
    if identifier is None or not identifier.key_identifier:  # what tells it from a changed self-signed one
        return "it has no authority key identifier, which every certificate of an authority has (RFC 5280)"
    return ""


def _for_tls(certificate: "x509.Certificate") -> str:
    """A server cannot listen if its TLS library stumbles over one certificate that ours reads, such as over dates in names."""
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        _reader().load_verify_locations(cadata=certificate.public_bytes(Encoding.DER))
    except (ssl.SSLError, ValueError):
        return "OpenSSL cannot read it"
    return ""


@functools.cache  # making one takes longer than reading many certificates; no connection is ever made with it
def _reader() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_p256(certificate: "x509.Certificate") -> bool:
    """Whether the key it certifies is one of ours in kind."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

    key = certificate.public_key()
    return isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)


def _well_signed(certificate: "x509.Certificate") -> bool:
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
    from cryptography.x509.oid import SignatureAlgorithmOID as Oid

    if certificate.signature_algorithm_oid in (Oid.ED25519, Oid.ED448):
        return True
    return certificate.signature_algorithm_oid in (
        Oid.ECDSA_WITH_SHA256, Oid.ECDSA_WITH_SHA384, Oid.ECDSA_WITH_SHA512,
        Oid.RSA_WITH_SHA256, Oid.RSA_WITH_SHA384, Oid.RSA_WITH_SHA512, Oid.RSASSA_PSS,
    ) and isinstance(certificate.signature_hash_algorithm, SHA256 | SHA384 | SHA512)  # fmt: skip


def _find(certificate: "x509.Certificate", kind: "type[Extension]") -> "Extension | None":
    from cryptography.x509 import ExtensionNotFound

    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except ExtensionNotFound:
        return None
