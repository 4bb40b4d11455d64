"""A certificate is of one form, names its owner and both keys, opens a channel with whoever trusts
it, vouches for nobody.
"""

import base64
import functools
import hashlib
import ssl
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fastlloyd.errors import IdentityError
from fastlloyd.federation.identity.certificates import (
    fingerprint,
    make_certificate,
    parse_certificate,
)
from fastlloyd.federation.identity.x509 import host_name

SIGNING_KEY = bytes(range(32))
KEY, OTHER_KEY = (ec.derive_private_key(n, ec.SECP256R1()) for n in (12345, 54321))
EXPIRES = datetime.now(UTC).date() + timedelta(days=30)
NAMES = x509.SubjectAlternativeName(
    [
        x509.DNSName("clinic-a.fastlloyd.internal"),
        x509.DNSName("server.fastlloyd.internal"),
        x509.UniformResourceIdentifier(f"fastlloyd:ed25519:{SIGNING_KEY.hex()}"),
    ]
)


def to_pem(text: str) -> bytes:
    return ssl.DER_cert_to_PEM_cert(base64.b64decode(text)).encode()


@functools.cache
def good() -> str:
    return make_certificate("clinic-a", SIGNING_KEY, KEY, EXPIRES)


def der(text: str) -> bytes:
    return base64.b64decode(text)


def text(certificate: x509.Certificate) -> str:
    return base64.b64encode(certificate.public_bytes(Encoding.DER)).decode()


def common_name(*names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


def crafted(
    *,
    subject: x509.Name | None = None,
    issuer: x509.Name | None = None,
    key: Any = KEY,
    signer: Any = None,
    last: time = time(23, 59, 59),
    extensions: list[tuple[x509.ExtensionType, bool]] | None = None,
    algorithm: hashes.SHA256 | hashes.SHA384 | None = None,
) -> str:
    """A certificate as ours, but for what is given."""
    subject = common_name("clinic-a") if subject is None else subject
    builder = x509.CertificateBuilder(
        issuer_name=subject if issuer is None else issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=7,
        not_valid_before=datetime.now(UTC) - timedelta(days=1),
        not_valid_after=datetime.combine(EXPIRES, last, UTC),
    )
    for value, critical in ours() if extensions is None else extensions:
        builder = builder.add_extension(value, critical)
    return text(
        builder.sign(
            key if signer is None else signer, hashes.SHA256() if algorithm is None else algorithm
        )
    )


def ours() -> list[tuple[x509.ExtensionType, bool]]:
    return [(e.value, e.critical) for e in x509.load_der_x509_certificate(der(good())).extensions]


def without(
    position: int, *instead: tuple[x509.ExtensionType, bool]
) -> list[tuple[x509.ExtensionType, bool]]:
    return [*ours()[:position], *instead, *ours()[position + 1 :]]


def other_spelling() -> str:
    """The same bytes of a good certificate with one of the bits set that base64 leaves unused
    before one "=".
    """
    while True:  # one in three has such a length; that a thousand have not never happens
        text = make_certificate("clinic-a", SIGNING_KEY, KEY, EXPIRES)
        if text.endswith("=") and not text.endswith("=="):
            alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            spelled = text[:-2] + alphabet[alphabet.index(text[-2]) + 1] + "="
            assert der(spelled) == der(text)
            return spelled


def test_a_certificate_says_whose_it_is_and_both_keys() -> None:
    found = parse_certificate(good(), "clinic-a")
    assert (found.name, found.signing_key, found.expires) == (
        "clinic-a",
        SIGNING_KEY.hex(),
        EXPIRES,
    )
    numbers = KEY.public_key().public_numbers()
    assert found.tls_key == b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def test_the_fingerprint_is_the_one_every_other_tool_shows() -> None:
    certificate = x509.load_pem_x509_certificate(to_pem(good()))
    assert (
        fingerprint(good())
        == parse_certificate(good(), "clinic-a").fingerprint
        == certificate.fingerprint(hashes.SHA256()).hex()
    )
    assert (
        fingerprint(good())
        == hashlib.sha256(ssl.PEM_cert_to_DER_cert(to_pem(good()).decode())).hexdigest()
    )
    assert fingerprint("") == ""


def test_it_is_valid_from_yesterday_to_the_last_second_of_its_last_day() -> None:
    found, now = parse_certificate(good(), "clinic-a"), datetime.now(UTC)
    for valid in (now - timedelta(hours=23), now, datetime.combine(EXPIRES, time(23, 59, 59), UTC)):
        found.check_valid(valid)
    with pytest.raises(
        IdentityError,
        match=f"'clinic-a' expired.*{EXPIRES}",
    ):
        found.check_valid(datetime.combine(EXPIRES + timedelta(days=1), time(), UTC))
    with pytest.raises(
        IdentityError,
        match=r"valid before.*check.*clock",
    ):
        found.check_valid(now - timedelta(days=2))


@pytest.mark.parametrize("name", ["a", "Clinic_A", "a.b-c", "x" * 63, "0"])
def test_a_name_that_a_host_could_have_gets_a_certificate(name: str) -> None:
    assert parse_certificate(make_certificate(name, SIGNING_KEY, KEY, EXPIRES), name).name == name
    assert host_name(name) == f"{name}.fastlloyd.internal"


@pytest.mark.parametrize("name", ["", "a.", ".a", "a..b", "x" * 64, "a b", "\u00e4", "a\n"])
def test_a_name_that_no_host_could_have_gets_none(name: str) -> None:
    with pytest.raises(IdentityError, match=r"part.*host name"):
        make_certificate(name, SIGNING_KEY, KEY, EXPIRES)


def test_a_certificate_is_not_anothers() -> None:
    with pytest.raises(IdentityError, match=r"certificate.*'clinic-b'.*for 'clinic-a'"):
        parse_certificate(good(), "clinic-b")


def test_no_bit_of_it_can_change() -> None:
    whole = der(good())
    for position in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            with pytest.raises(IdentityError, match="certificate of 'clinic-a'"):
                parse_certificate(base64.b64encode(changed).decode(), "clinic-a")


def with_fewer_bits() -> str:
    """A good certificate that says one bit of its signature does not count, where that bit is zero;
    parsers read it.
    """
    while True:  # one in two ends so; that a thousand do not never happens
        whole = bytearray(der(make_certificate("clinic-a", SIGNING_KEY, KEY, EXPIRES)))
        signature = x509.load_der_x509_certificate(bytes(whole)).signature
        if signature[-1] % 2 == 0:
            whole[-len(signature) - 1] = 1
            assert x509.load_der_x509_certificate(bytes(whole)).signature == signature
            return base64.b64encode(whole).decode()


def with_a_serial_below_zero() -> str:
    """Signed anew over a serial number whose first bit is set; the parser only warns."""
    certificate = x509.load_der_x509_certificate(der(crafted()))
    body = certificate.tbs_certificate_bytes.replace(b"\x02\x01\x07", b"\x02\x01\x87", 1)
    assert body != certificate.tbs_certificate_bytes
    signature = KEY.sign(body, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    content = body + algorithm + b"\x03" + bytes([len(signature) + 1, 0]) + signature
    return base64.b64encode(b"\x30\x82" + len(content).to_bytes(2, "big") + content).decode()


FORGED: dict[str, Callable[[], str]] = {
    "nothing": lambda: "",
    "no base64": lambda: "?" + good()[1:],
    "a line break": lambda: good() + "\n",
    "cut off": lambda: good()[:-4],
    "longer": lambda: base64.b64encode(der(good()) + b"\0").decode(),
    "too long": lambda: base64.b64encode(b"\x30\x82\x40\x00" + bytes(0x4000)).decode(),
    "not ASCII": lambda: "\u00e4" * 8,
    "another spelling of its base64": other_spelling,
    "PEM": lambda: base64.b64encode(to_pem(good())).decode(),
    "an authority": lambda: crafted(extensions=without(0, (x509.BasicConstraints(ca=True, path_length=None), True))),
    "silent on whether it is an authority": lambda: crafted(extensions=without(0)),
    "for any use": lambda: crafted(extensions=without(1)),
    "of no party": lambda: crafted(extensions=without(3)),
    "of two names": lambda: crafted(subject=common_name("clinic-a", "clinic-b")),
    "of no name": lambda: crafted(subject=x509.Name([])),
    "of another host": lambda: crafted(
        extensions=without(3, (x509.SubjectAlternativeName([x509.DNSName("sums.fastlloyd.internal"), *list(NAMES)[1:]]), False))
    ),
    "of two hosts": lambda: crafted(
        extensions=without(3, (x509.SubjectAlternativeName([x509.DNSName("x.fastlloyd.internal"), *NAMES]), False))
    ),
    "with something of its own": lambda: crafted(extensions=[*ours(), (x509.SubjectKeyIdentifier(b"x" * 20), False)]),
    "on another curve": lambda: crafted(key=ec.derive_private_key(5, ec.SECP384R1())),
    "of another kind of key": lambda: crafted(key=rsa.generate_private_key(65537, 2048)),
    "under another hash": lambda: crafted(algorithm=hashes.SHA384()),
    "signed by another": lambda: crafted(signer=OTHER_KEY),
    "with bits of its signature that do not count": with_fewer_bits,
    "with a serial number below zero": with_a_serial_below_zero,
    "up to noon": lambda: crafted(last=time(12)),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_whatever_is_not_of_the_one_form_is_refused(case: str) -> None:
    with pytest.raises(
        IdentityError,
        match=r"certificate.*'clinic-a' was changed",
    ):
        parse_certificate(FORGED[case](), "clinic-a")


@pytest.mark.filterwarnings("default")
def test_a_serial_number_below_zero_is_refused_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with pytest.raises(IdentityError, match="was changed"):
        parse_certificate(with_a_serial_below_zero(), "clinic-a")
    assert not recwarn.list


def test_the_forger_of_these_tests_can_make_a_good_one() -> None:
    assert parse_certificate(crafted(), "clinic-a").signing_key == SIGNING_KEY.hex()


# The channel


def context(
    side: int, folder: Path, certificate: str, key: ec.EllipticCurvePrivateKey, trusted: list[str]
) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    pem = folder / f"{fingerprint(certificate)[:16]}-{side}.pem"
    pem.write_bytes(
        to_pem(certificate) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    context.load_cert_chain(pem)
    context.load_verify_locations(cadata="".join(to_pem(one).decode() for one in trusted))
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[str, str]:
    """Who each side saw (server's view, client's view) by fingerprint; ssl.SSLError if one refuses
    the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host_name(name)),
    ]
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    a, b = (end.getpeercert(binary_form=True) for end in ends)
    assert a
    assert b
    return hashlib.sha256(a).hexdigest(), hashlib.sha256(b).hexdigest()


def test_two_who_trust_each_others_certificates_and_no_authority_open_a_channel(
    tmp_path: Path,
) -> None:
    server_key, client_key, rogue_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    server = make_certificate("sums", SIGNING_KEY, server_key, EXPIRES)
    client = make_certificate("clinic-a", SIGNING_KEY, client_key, EXPIRES)
    rogue = make_certificate("sums", SIGNING_KEY, rogue_key, EXPIRES)
    asks = functools.partial(context, ssl.PROTOCOL_TLS_CLIENT, tmp_path)
    answers = functools.partial(context, ssl.PROTOCOL_TLS_SERVER, tmp_path)
    serving, joining = answers(server, server_key, [client]), asks(client, client_key, [server])
    assert handshake(serving, joining, "sums") == (fingerprint(client), fingerprint(server))
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        handshake(serving, joining, "clinic-b")
    with pytest.raises(
        ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"
    ):  # of the same name, but not the one in the plan
        handshake(answers(rogue, rogue_key, [client]), joining, "sums")
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(serving, asks(rogue, rogue_key, [server]), "sums")


def test_no_party_can_vouch_for_another(tmp_path: Path) -> None:
    """A certificate that clinic-a, who is trusted, signs for someone is not accepted by those who
    trust clinic-a.
    """
    server_key, client_key, puppet_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    server = make_certificate("sums", SIGNING_KEY, server_key, EXPIRES)
    client = make_certificate("clinic-a", SIGNING_KEY, client_key, EXPIRES)
    puppet = crafted(
        subject=common_name("puppet"),
        issuer=common_name("clinic-a"),
        key=puppet_key,
        signer=client_key,
    )
    joining = context(ssl.PROTOCOL_TLS_CLIENT, tmp_path, puppet, puppet_key, [server])
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        handshake(
            context(ssl.PROTOCOL_TLS_SERVER, tmp_path, server, server_key, [client]),
            joining,
            "sums",
        )


def test_the_last_day_may_be_today() -> None:
    today: date = datetime.now(UTC).date()
    assert parse_certificate(make_certificate("a", SIGNING_KEY, KEY, today), "a").expires == today


def signed_again(changed: bytes) -> str:
    """A certificate that holds this and is signed by its own key."""
    signature = KEY.sign(changed, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    body = changed + algorithm + b"\x03" + bytes([len(signature) + 1]) + b"\0" + signature
    return base64.b64encode(b"\x30\x82" + len(body).to_bytes(2, "big") + body).decode()


def test_a_certificate_without_a_version_is_refused_however_well_it_is_signed() -> None:
    certificate = x509.load_der_x509_certificate(der(good()))
    version = bytes.fromhex("a003020102")
    content = certificate.tbs_certificate_bytes
    assert content[4:9] == version
    assert parse_certificate(signed_again(content), "clinic-a").name == "clinic-a"
    with pytest.raises(IdentityError, match=r"certificate.*'clinic-a' was changed"):
        parse_certificate(
            signed_again(b"\x30\x82" + (len(content) - 9).to_bytes(2, "big") + content[9:]),
            "clinic-a",
        )


def test_another_spelling_of_the_same_content_is_refused_however_well_it_is_signed() -> None:
    """The key usage with three bits that do not count, where ours has seven, means the same."""
    content = x509.load_der_x509_certificate(der(good())).tbs_certificate_bytes
    usage, same = bytes.fromhex("040403020780"), bytes.fromhex("040403020380")
    assert content.count(usage) == 1
    with pytest.raises(IdentityError, match=r"certificate.*'clinic-a' was changed"):
        parse_certificate(signed_again(content.replace(usage, same)), "clinic-a")


def test_a_certificate_of_one_host_is_read_as_before() -> None:
    alone = x509.SubjectAlternativeName(list(NAMES)[::2])
    found = parse_certificate(crafted(extensions=without(3, (alone, False))), "clinic-a")
    assert found.signing_key == SIGNING_KEY.hex()
