"""TLS certificates of the parties. Either a party signed its certificate itself, in one fixed form,
or an authority issued it on request. The SHA-256 of a certificate (fingerprint) identifies it.

A certificate contains the owner's name, signing key and TLS key, so the fingerprint identifies all
three. No party's certificate signs the certificate of another party. A party is trusted because the
plan names it, not because of its issuer. If the plan names an authority, certificates that the
authority did not issue are refused as well.
"""

import base64
import functools
import hashlib
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from fastlloyd.errors import IdentityError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

MAX_BYTES = 4096  # of DER; certificates made here have under 700, those of authorities seldom 2000
MAX_AUTHORITY_BYTES = 8192
LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Content of a certificate.

    name : name of the owner.
    signing_key : public signing key, 64 hex digits.
    tls_key : public TLS key, a point on P-256, 65 bytes.
    begins, ends : first and last moment at which the certificate is valid, UTC.
    fingerprint : SHA-256 of the certificate, 64 hex digits.
    """

    name: str
    signing_key: str
    tls_key: bytes
    begins: datetime
    ends: datetime
    fingerprint: str

    @property
    def expires(self) -> date:
        """Last day on which the certificate is valid, UTC."""
        return self.ends.date()

    def check_valid(self, now: datetime) -> None:
        """Raise IdentityError unless the certificate is valid at `now`, a time with a time zone."""
        if now < self.begins:
            raise IdentityError(
                f"the certificate of {self.name!r} is not valid before {self.begins:%Y-%m-%d %H:%M}"
                f" UTC, and by this machine's clock it is {now.astimezone(UTC):%Y-%m-%d %H:%M};"
                " check the clock"
            )
        if now.replace(microsecond=0) > self.ends:
            raise IdentityError(
                f"the certificate of {self.name!r} expired on {self.expires}, and by this"
                f" machine's clock it is {now:%Y-%m-%d}; unless the clock is wrong, its owner has"
                " to make a new one with `fastlloyd keygen`"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Authority that issues the certificates of a plan.

    name : subject of its certificate, written as in RFC 4514.
    begins, ends : first and last moment at which its certificate is valid, UTC.
    fingerprint : SHA-256 of its certificate, 64 hex digits.
    certificate : its certificate.
    """

    name: str
    begins: datetime
    ends: datetime
    fingerprint: str
    certificate: "x509.Certificate"

    def check_valid(self, now: datetime) -> None:
        """Raise IdentityError unless the authority's own certificate is valid at `now`, a time with
        a time zone.
        """
        if not self.begins <= now.replace(microsecond=0) <= self.ends:
            raise IdentityError(
                f"the certificate of the plan's authority {self.name!r:.200} is valid only from"
                f" {self.begins:%Y-%m-%d} to {self.ends:%Y-%m-%d}; put the authority's present"
                " certificate into the plan with `fastlloyd plan renew PLAN --authority FILE`"
            )

    def check_issued(self, text: str, name: str) -> None:
        """Raise IdentityError unless the authority directly signed the certificate of party `name`.

        text : certificate of the party, base64 of DER.
        """
        from fastlloyd.federation.identity import x509

        certificate = x509.load(base64.b64decode(text))
        try:
            certificate.verify_directly_issued_by(self.certificate)
        # the library's errors have no common class: another name, another key, an unknown kind of
        # key
        except Exception:  # noqa: BLE001
            issuer = certificate.issuer.rfc4514_string()
            raise IdentityError(
                f"the certificate of {name!r} was not issued by the plan's authority"
                f" {self.name!r:.200} but by {issuer!r:.200}; every party of this plan needs a"
                " certificate that this authority issued directly"
            ) from None


def make_certificate(
    name: str, signing_key: bytes, tls_key: "EllipticCurvePrivateKey", expires: date
) -> str:
    """Return a self-signed certificate, base64 of DER. It is valid from yesterday to the end of the
    day `expires`.

    name : name of the owner.
    signing_key : public signing key of the owner, 32 bytes.
    tls_key : private TLS key of the owner.

    Raises IdentityError if the name cannot be part of a host name.
    """
    from fastlloyd.federation.identity import x509

    if not all(LABEL.fullmatch(label) for label in name.split(".")):
        raise IdentityError(
            f"name {name!r:.80} cannot be part of a host name; choose a name without a dot at its"
            " end and without two dots in a row"
        )
    # other machines' clocks may be behind
    begins = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    ends = datetime.combine(expires, x509.LAST_SECOND, UTC)
    return base64.b64encode(x509.make(name, signing_key.hex(), tls_key, begins, ends)).decode()


def certificates_in(content: bytes) -> list[str]:
    """Return the certificates in the content of a file, PEM or DER, each as base64 of DER. They are
    not parsed.
    """
    blocks = re.findall(
        rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", content, re.DOTALL
    )
    return [b"".join(block.split()).decode("latin-1") for block in blocks] or [
        base64.b64encode(content).decode()
    ]


# parsing takes nearly a millisecond, and a plan with a thousand clients is checked several times
@functools.lru_cache(maxsize=2048)
def parse_certificate(text: str, name: str) -> Certificate:
    """Return the content of the certificate of party `name`.

    text : the certificate, base64 of DER.

    Raises IdentityError if it is another party's, or if it neither has the form of
    `make_certificate` nor was issued by an authority as requested.
    """
    try:
        with warnings.catch_warnings():
            # certificates made here cause no warning of the parser, such as for a negative serial
            # number
            warnings.simplefilter("error")
            found = _read(_decode(text, MAX_BYTES), name)
    except IdentityError:
        raise
    # errors of the parser have no common class, and a stranger chose the bytes
    except Exception:  # noqa: BLE001
        found = None
    if found is None:
        raise IdentityError(
            f"the certificate of {name!r} was changed, or was neither made by `fastlloyd keygen`"
            " nor issued for its request; use the public file that its owner sent"
        )
    if found.name != name:
        raise IdentityError(
            f"the certificate of {name!r} is for {found.name!r:.80}; use the public file that its"
            " owner sent"
        )
    return found


def _read(der: bytes, expected: str) -> Certificate | None:
    """Return the content of a certificate that is self-signed in the form of `make_certificate`, or
    that an authority issued as requested. Return None for any other certificate.

    der : the certificate, DER.
    expected : name of the party to which an issued certificate must belong.

    Raises IdentityError if an authority issued the certificate, but not as that party requested it.
    """
    from fastlloyd.federation.identity import x509

    certificate = x509.load(der)
    is_issued = certificate.issuer != certificate.subject
    if is_issued and (what := x509.flaw(certificate, expected)):
        issuer = f"{certificate.issuer.rfc4514_string()!r:.200}"
        raise IdentityError(
            f"the certificate of {expected!r} is issued by {issuer}, but {what}; have it issued"
            " with the names and extensions of the request"
        )
    names, keys = x509.common_names(certificate), x509.signing_keys(certificate)
    if len(names) != 1 or len(keys) != 1 or not keys[0]:
        return None
    if not is_issued and not x509.is_ours(certificate, names[0], keys[0]):
        return None
    return Certificate(
        name=names[0],
        signing_key=keys[0],
        tls_key=x509.tls_key(certificate),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        fingerprint=x509.fingerprint(certificate),
    )


@functools.lru_cache(maxsize=8)
def parse_authority(text: str) -> Authority:
    """Return the authority with this certificate (base64 of DER).

    Raises IdentityError if the certificate is unreadable, or not an authority's.
    """
    from fastlloyd.federation.identity import x509

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old root certificates have unusual serial numbers
            certificate = x509.load(_decode(text, MAX_AUTHORITY_BYTES))
            is_authority = x509.signs_certificates(certificate)
        found = Authority(
            name=certificate.subject.rfc4514_string(),
            begins=certificate.not_valid_before_utc,
            ends=certificate.not_valid_after_utc,
            fingerprint=x509.fingerprint(certificate),
            certificate=certificate,
        )
    except Exception:  # noqa: BLE001 - as above
        raise IdentityError(
            "the certificate of the plan's authority cannot be read; expected X.509 in PEM or DER"
        ) from None
    if not is_authority:
        raise IdentityError(
            f"the certificate of {found.name!r} is not an authority's (CA:TRUE, for signing"
            " certificates); pass the certificate of the authority that issued the parties'"
            " certificates"
        )
    return found


def fingerprint(text: str) -> str:
    """Return the SHA-256 of a certificate (base64 of DER), 64 hex digits, or "" for an empty text.
    The certificate is not parsed.
    """
    return hashlib.sha256(base64.b64decode(text)).hexdigest() if text else ""


def _decode(text: str, max_bytes: int) -> bytes:
    """Return the bytes of a base64 text.

    Raises ValueError if there are no bytes or more than `max_bytes`, or if the same bytes would be
    written as another text.
    """
    der = base64.b64decode(text, validate=True)
    if not 0 < len(der) <= max_bytes or base64.b64encode(der).decode() != text:
        raise ValueError(text)
    return der
