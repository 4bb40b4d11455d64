"""Fuzzed documents: plans, identities and certificates, whose meaning is changed and then sealed
and signed anew.

Anyone can seal a document, and anyone can sign with a key of their own; so a stranger's file comes
past both checks.
"""

import base64
import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import IdentityError
from fastlloyd.federation.identity import identity
from fastlloyd.federation.identity.certificates import make_certificate, parse_certificate
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.identity.x509 import extensions, host_names, hosts, subject
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.mechanisms.lloyd.algorithm import GLLOYD, SULLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import make_plan
from fuzz_mutation import Chance, in_meaning

NAME = "clinic-a"
KEY = ec.derive_private_key(12345, ec.SECP256R1())
SIGNING = Identity.from_private_bytes(bytes(range(32)))
SECRET = SIGNING.private_bytes() + KEY.private_numbers().private_value.to_bytes(32, "big")
NOW = datetime.now(UTC)
EXPIRES = date(NOW.year + 1, 6, 30)
PASSPHRASE = "correct horse battery staple"  # noqa: S105 - of no identity but this


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _sealed(content: dict[str, Any], heading: str) -> bytes:
    return (
        heading + "\n" + tomli_w.dumps(content | {"seal": {"digest": _digest(content)}})
    ).encode()


def _is_sealed(text: str, again: str) -> bool:
    """Whether a text says what the text that is written `again` says, 0 for 0.0 too, and both have
    the digest of the second.
    """
    content, written = tomllib.loads(text), tomllib.loads(again)
    seals = {found.pop("seal")["digest"] for found in (content, written)}
    return content == written and seals == {_digest(written)}


def document(
    data: bytes, chance: Chance, sign: Callable[[dict[str, Any]], None] | None = None
) -> bytes:
    """A document with other content, as a rule signed and sealed."""
    text = data.decode()
    content = tomllib.loads(text)
    content.pop("seal", None)
    content = in_meaning(content, chance)
    if not isinstance(content, dict):
        return data
    if sign is not None and chance.rng.random() < 7 / 8:
        sign(content)
    return _sealed(content, text.partition("\n")[0])


# Plans


def plans() -> list[Plan]:
    """Both trust modes, all private algorithms, with and without a loss; one for a network."""
    public = whole_identity().public
    networked = make_plan(2, names=["clinic-b", "clinic-c"])
    return [
        make_plan(3, estimate_loss=True),
        make_plan(2, trust=TrustMode.SERVER_NOISE, algorithm=SULLOYD, ring_bits=64),
        make_plan(4, trust=TrustMode.CLIENT_NOISE, algorithm=GLLOYD, max_dropouts=1),
        make_plan(3, algorithm=MOMENTLLOYD, n_clusters=2, n_features=1, estimate_loss=True),
        make_plan(3, algorithm=MOMENTLLOYD, n_clusters=2, n_features=5),
        Plan(
            **{f: getattr(networked, f) for f in networked.__struct_fields__}
            | {"server": public.server("sums.example.org:8443")}
        ),
    ]


def read_plan(data: bytes) -> None:
    path = Path("plan.toml")
    path.write_bytes(data)
    text = load_text(path)
    plan = Plan.from_toml(text)
    assert _is_sealed(text, plan.to_toml()), "a plan whose digest is another's was accepted"
    assert Plan.from_toml(plan.to_toml()) == plan


# Identities


def whole_identity() -> PrivateIdentity:
    certificate = make_certificate(NAME, SIGNING.public, KEY, EXPIRES)
    public = {"name": NAME, "signing_key": SIGNING.public.hex(), "certificate": certificate}
    sign_public(public)
    return PrivateIdentity(PublicIdentity(**public, expires=EXPIRES), SIGNING, KEY)


def sign_public(content: dict[str, Any]) -> None:
    """The owner's word for name, key and certificate, whatever they are."""
    statement = identity._statement(content["name"], content["signing_key"], content["certificate"])
    content["signature"] = SIGNING.sign(statement).hex()


def sign_private(content: dict[str, Any]) -> None:
    sign_public(content["public"])


def read_public(data: bytes) -> None:
    path = Path("clinic-a.public.toml")
    path.write_bytes(data)
    public = PublicIdentity.load(path, NOW)
    assert _is_sealed(data.decode(), public.to_toml()), (
        "a public file whose digest is another's was accepted"
    )
    assert PublicIdentity.from_toml(public.to_toml(), "again", NOW) == public
    statement = identity._statement(public.name, public.signing_key, public.certificate)
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public.signing_key)).verify(
        bytes.fromhex(public.signature), statement
    )
    check_certificate(public.certificate, public.name)


def private_files() -> list[bytes]:
    """One with its keys as they are, one with them under a passphrase, whose slow derivation is
    left out.
    """
    identity._cipher = lambda passphrase, salt: ChaCha20Poly1305(
        hashlib.sha256(salt + passphrase.encode()).digest()
    )
    files = []
    for passphrase in (None, PASSPHRASE):
        whole_identity().save(Path("made.toml"), passphrase=passphrase, replace=True)
        files.append(Path("made.toml").read_bytes())
    return files


def check_secrecy(sentence: str) -> None:
    digits = SECRET.hex()
    assert not any(digits[i : i + 8] in sentence for i in range(len(digits) - 7)), (
        "a refusal shows the keys"
    )


def read_private(data: bytes) -> None:
    path = Path("clinic-a.identity.toml")
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        loaded = PrivateIdentity.load(path, ask_passphrase=lambda: PASSPHRASE, now=NOW)
    except IdentityError as error:
        check_secrecy(str(error))
        raise
    certified = parse_certificate(loaded.public.certificate, loaded.name)
    assert loaded.signing.public.hex() == certified.signing_key
    assert (
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), certified.tls_key)
        == loaded._tls_key.public_key()
    )


# Certificates


def check_certificate(text: str, name: str) -> None:
    """What was accepted is signed by its own key, and what `make_certificate` would sign again,
    byte for byte.
    """
    certificate = x509.load_der_x509_certificate(base64.b64decode(text, validate=True))
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    if (
        certificate.issuer != certificate.subject
    ):  # an authority signed it, with a key that is not known here
        assert certificate.extensions.get_extension_for_class(
            x509.AuthorityKeyIdentifier
        ).value.key_identifier
        return
    key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))
    found = parse_certificate(text, name)
    builder = x509.CertificateBuilder(
        issuer_name=subject(name),
        subject_name=subject(name),
        public_key=key,
        serial_number=certificate.serial_number,
        not_valid_before=found.begins,
        not_valid_after=datetime.combine(found.expires, time(23, 59, 59), UTC),
    )
    named = hosts(certificate)
    assert named in ([f"{name}.fastlloyd.internal"], host_names(name))
    for extension in extensions(named, found.signing_key):
        builder = builder.add_extension(extension.value, extension.critical)
    again = builder.sign(KEY, hashes.SHA256())
    assert again.tbs_certificate_bytes == certificate.tbs_certificate_bytes, (
        "another form of certificate was accepted"
    )


def read_certificate(data: bytes) -> None:
    text = data.decode(errors="replace")
    parse_certificate(text, NAME)
    check_certificate(text, NAME)


def certificate(data: bytes, chance: Chance) -> bytes:
    """A certificate of other content, with right lengths, signed again by the one key."""
    whole = base64.b64decode(data, validate=True)
    (_, (to_be_signed, algorithm, _)), _ = _taken_apart(whole)
    changed = _put_together(in_meaning(to_be_signed, chance))
    signature = KEY.sign(changed, ec.ECDSA(hashes.SHA256()))
    body = changed + _put_together(algorithm) + _with_header(3, b"\0" + signature)
    return base64.b64encode(_with_header(0x30, body))


CONSTRUCTED, OCTETS, CONTEXT = 0x20, 0x04, 0x80


def _taken_apart(der: bytes) -> tuple[list[Any], bytes]:
    """[tag, content], the content a list of such where it is made of parts; and the bytes behind.
    ValueError or IndexError.
    """
    tag, length, start = der[0], der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    content, behind = der[start : start + length], der[start + length :]
    if len(content) != length:
        raise ValueError("cut off")
    if not (tag & CONSTRUCTED or tag == OCTETS):
        return [tag, content], behind
    parts, rest = [], content
    try:
        while rest:
            part, rest = _taken_apart(rest)
            parts.append(part)
    except (ValueError, IndexError):
        return [tag, content], behind
    return [tag, parts], behind


def _put_together(tree: Any) -> bytes:
    tag, content = tree
    return _with_header(
        int(tag) & 0xFF,
        content if isinstance(content, bytes) else b"".join(map(_put_together, content)),
    )


def _with_header(tag: int, content: bytes) -> bytes:
    n = len(content)
    if n < 0x80:
        return bytes([tag, n]) + content
    size = (n.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + n.to_bytes(size, "big") + content


def certificates() -> list[bytes]:
    return [make_certificate(NAME, SIGNING.public, KEY, EXPIRES).encode()]
