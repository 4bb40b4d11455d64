"""X.509 certificates: the form of certificates made here, and the checks of certificates that an
authority issued. An authority may choose some parts differently from the request.

This module is imported late, because `cryptography` is slow to import. The errors that
`cryptography` raises for malformed bytes have no common base class.
"""

import functools
import re
import ssl
from collections.abc import Sequence
from datetime import datetime, time
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.oid import SignatureAlgorithmOID as Oid

load = x509.load_der_x509_certificate
Extension = TypeVar("Extension", bound=x509.ExtensionType)

LAST_SECOND = time(23, 59, 59)
DOMAIN = "fastlloyd.internal"  # not the name of a machine; the plan has the addresses
SERVER_HOST = f"server.{DOMAIN}"  # every client asks for this host, so it reveals no server's name
_KEY_URI = "fastlloyd:ed25519:"
_PURPOSES = {
    ExtendedKeyUsageOID.CLIENT_AUTH: "clientAuth",
    ExtendedKeyUsageOID.SERVER_AUTH: "serverAuth",
}
_WITH_SHA2 = (
    Oid.ECDSA_WITH_SHA256, Oid.ECDSA_WITH_SHA384, Oid.ECDSA_WITH_SHA512,
    Oid.RSA_WITH_SHA256, Oid.RSA_WITH_SHA384, Oid.RSA_WITH_SHA512, Oid.RSASSA_PSS,
)  # fmt: skip


def host_name(name: str) -> str:
    """Return the host name that identifies the party `name` in TLS."""
    return f"{name}.{DOMAIN}"


def host_names(name: str) -> list[str]:
    """Return the hosts in a new certificate of the party `name`: its own host, and the host that
    all servers share.

    A client sends the host in clear text when it connects. So it asks for the host that all servers
    share.
    """
    return list(dict.fromkeys((host_name(name), SERVER_HOST)))


def hosts(certificate: x509.Certificate) -> list[str]:
    """Return the hosts among the alternative names of a certificate, in order."""
    names = _find(certificate, x509.SubjectAlternativeName)
    return [] if names is None else names.get_values_for_type(x509.DNSName)


def make(
    name: str,
    signing_key: str,
    tls_key: ec.EllipticCurvePrivateKey,
    begins: datetime,
    ends: datetime,
) -> bytes:
    """Return a self-signed certificate, DER.

    name : name of the owner.
    signing_key : public signing key of the owner, 64 hex digits.
    tls_key : private TLS key of the owner, which signs the certificate.
    begins, ends : first and last moment at which it is valid, UTC.
    """
    serial_number = x509.random_serial_number()
    builder = _builder(
        name,
        extensions(host_names(name), signing_key),
        tls_key.public_key(),
        serial_number=serial_number,
        begins=begins,
        ends=ends,
    )
    return builder.sign(tls_key, SHA256()).public_bytes(Encoding.DER)


def request(name: str, signing_key: str, tls_key: ec.EllipticCurvePrivateKey) -> str:
    """Return a request that an authority issue a certificate: PKCS #10, as PEM. It asks for the
    same names and signing key as in a certificate from `make`.
    """
    builder = x509.CertificateSigningRequestBuilder(subject_name=subject(name))
    for extension in extensions(host_names(name), signing_key):
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(tls_key, SHA256()).public_bytes(Encoding.PEM).decode()


def common_names(certificate: x509.Certificate) -> list[str]:
    """Return the common names of the certificate's owner."""
    return [
        str(attribute.value)
        for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]


def signing_keys(certificate: x509.Certificate) -> list[str]:
    """Return the signing key in each URI among the alternative names of a certificate: 64 hex
    digits, or "" for a URI of another form.
    """
    names = _find(certificate, x509.SubjectAlternativeName)
    uris = [] if names is None else names.get_values_for_type(x509.UniformResourceIdentifier)
    return [
        uri.removeprefix(_KEY_URI) if re.fullmatch(_KEY_URI + "[0-9a-f]{64}", uri) else ""
        for uri in uris
    ]


def tls_key(certified: x509.Certificate | ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public key of a certificate or private key: a point on P-256, 65 bytes. Return no
    bytes for a key of another kind.
    """
    key = certified.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        return b""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def private_key(number: int | None = None) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key with this secret number, or a new key from the system's randomness if
    `number` is None.

    Raises ValueError if no key has this number.
    """
    return (
        ec.generate_private_key(ec.SECP256R1())
        if number is None
        else ec.derive_private_key(number, ec.SECP256R1())
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate, 64 hex digits."""
    return certificate.fingerprint(SHA256()).hex()


def signs_certificates(certificate: x509.Certificate) -> bool:
    """Return whether the certificate belongs to an authority, which may issue other
    certificates.
    """
    constraints, usage = (
        _find(certificate, x509.BasicConstraints),
        _find(certificate, x509.KeyUsage),
    )
    return constraints is not None and constraints.ca and (usage is None or usage.key_cert_sign)


def _builder(
    name: str,
    stated: Sequence[x509.Extension[x509.ExtensionType]],
    key: CertificatePublicKeyTypes,
    *,
    serial_number: int,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    """Return a certificate in this project's form, not yet signed.

    name : name of the owner.
    stated : extensions of the certificate.
    key : public TLS key.
    begins, ends : first and last moment at which it is valid, UTC.
    """
    builder = x509.CertificateBuilder(
        issuer_name=subject(name),
        subject_name=subject(name),
        public_key=key,
        serial_number=serial_number,
        not_valid_before=begins,
        not_valid_after=ends,
    )
    for extension in stated:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder


def subject(name: str) -> x509.Name:
    """Return a certificate's subject: an X.509 name with `name` as its common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def extensions(hosts: Sequence[str], signing_key: str) -> list[x509.Extension[x509.ExtensionType]]:
    """Return the extensions of a certificate in this project's form. They name hosts and signing
    key, and allow servers and clients to use the certificate for TLS. They also state that the
    certificate is not an authority's.
    """
    no = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
        ),
        False,
    )
    key = x509.UniformResourceIdentifier(_KEY_URI + signing_key)
    values: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (
            x509.KeyUsage(digital_signature=True, **no, encipher_only=False, decipher_only=False),
            True,
        ),
        (x509.ExtendedKeyUsage(_PURPOSES), False),
        (x509.SubjectAlternativeName([*map(x509.DNSName, hosts), key]), False),
    ]
    return [x509.Extension(value.oid, critical, value) for value, critical in values]


def is_ours(certificate: x509.Certificate, name: str, signing_key: str) -> bool:
    """Return whether the certificate equals, byte for byte, one that `make` returns. Older
    certificates with only one host also count.

    Errors of the library pass through.
    """
    if not tls_key(certificate) or certificate.not_valid_after_utc.time() != LAST_SECOND:
        return False
    if hosts(certificate) not in (host_names(name), [host_name(name)]):
        return False
    builder = _builder(
        name,
        extensions(hosts(certificate), signing_key),
        certificate.public_key(),
        serial_number=certificate.serial_number,
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
    )
    # The signed bytes do not depend on the signing key. Comparing their meaning would not be
    # enough, because one meaning has several encodings.
    again = builder.sign(private_key(1), SHA256())
    if certificate.tbs_certificate_bytes != again.tbs_certificate_bytes:
        return False
    # the byte before the signature is the number of its unused bits, which must be 0
    if not certificate.public_bytes(Encoding.DER).endswith(b"\0" + certificate.signature):
        return False
    certificate.verify_directly_issued_by(certificate)
    return True


def flaw(certificate: x509.Certificate, name: str) -> str:
    """Return the difference between a certificate that an authority issued and the request for
    party `name`, as words, or "" if it is as requested.

    The authority may choose issuer, serial number and times, and add extensions that are not
    critical.
    """
    return (
        _whose(certificate, name)
        or _for_what(certificate)
        or _by_whom(certificate)
        or _for_tls(certificate)
    )


def _whose(certificate: x509.Certificate, name: str) -> str:
    common = common_names(certificate)
    if common != [name]:
        return f"its common name is {', '.join(common)!r:.80}; expected {name!r}"
    if not tls_key(certificate):
        return "its key is not the P-256 key of the request"
    if certificate.version != x509.Version.v3:
        return "it is not of version 3, which alone has extensions"
    names = _find(certificate, x509.SubjectAlternativeName)
    expected = (
        f"expected exactly these names: the hosts {' and '.join(host_names(name))}, and the URI of"
        " the request (it holds the signing key)"
    )
    if names is None:
        return f"it has no subject alternative names; {expected}"
    found, keys = hosts(certificate), signing_keys(certificate)
    is_named = sorted(found) in (sorted(host_names(name)), [host_name(name)])
    is_named = is_named and len(list(names)) == len(found) + 1
    if not is_named or len(keys) != 1 or not keys[0]:
        return (
            f"its subject alternative names are {[str(one.value) for one in names]!r:.300};"
            f" {expected}"
        )
    return ""


def _for_what(certificate: x509.Certificate) -> str:
    constraints, usage = (
        _find(certificate, x509.BasicConstraints),
        _find(certificate, x509.KeyUsage),
    )
    if constraints is not None and constraints.ca:
        return "it is an authority's (CA:TRUE); expected CA:FALSE"
    if usage is None or not usage.digital_signature:
        return "its key usage is not for digital signatures"
    if usage.key_cert_sign or usage.crl_sign:
        # TLS never tries a certificate without these uses as the issuer of another one in the plan
        return "its key usage is for signing certificates or revocation lists"
    purposes = list(_find(certificate, x509.ExtendedKeyUsage) or ())
    for purpose, said in _PURPOSES.items():
        if purpose not in purposes:
            return f"its extended key usage lacks {said}; expected clientAuth and serverAuth"
    known = (
        x509.SubjectAlternativeName,
        x509.BasicConstraints,
        x509.KeyUsage,
        x509.ExtendedKeyUsage,
    )
    for extension in certificate.extensions:
        if extension.critical and not isinstance(extension.value, known):
            return f"its extension {extension.oid.dotted_string} is critical and was not requested"
    return ""


def _by_whom(certificate: x509.Certificate) -> str:
    """Return words for a fault in the kind of the certificate's signature, or in the identifier of
    its issuer's key. Return "" if there is no fault.

    Only the authority's certificate can show whether the authority made the signature.
    """
    algorithm = certificate.signature_algorithm_oid
    has_sha2 = algorithm in _WITH_SHA2 and isinstance(
        certificate.signature_hash_algorithm, SHA256 | SHA384 | SHA512
    )
    if algorithm not in (Oid.ED25519, Oid.ED448) and not has_sha2:
        return (
            f"it is signed with the algorithm {algorithm.dotted_string}; expected ECDSA or RSA with"
            " SHA-256, SHA-384 or SHA-512, or Ed25519 or Ed448"
        )
    identifier = _find(certificate, x509.AuthorityKeyIdentifier)
    if identifier is None or not identifier.key_identifier:
        # this field distinguishes it from a self-signed certificate that was changed
        return (
            "it has no authority key identifier, which every certificate of an authority has (RFC"
            " 5280)"
        )
    return ""


def _for_tls(certificate: x509.Certificate) -> str:
    """Return words for the fault if OpenSSL cannot read the certificate, or "" if it can.

    OpenSSL rejects some certificates that the parser here reads, for example names that contain a
    date value. A server with one such certificate could not listen.
    """
    try:
        _reader().load_verify_locations(cadata=certificate.public_bytes(Encoding.DER))
    except (ssl.SSLError, ValueError):
        return "OpenSSL cannot read it"
    return ""


# Cached, because making a context takes longer than reading many certificates. No connection is
# ever made with it.
@functools.cache
def _reader() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _find(certificate: x509.Certificate, kind: type[Extension]) -> Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
