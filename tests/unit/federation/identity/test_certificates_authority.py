"""What an authority issued as it was requested is as good as what one signs oneself; a plan may ask
for one authority only.
"""

import base64
import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID, NameOID

from authorities import NOW, SHA256, Extensions, Issuer, pem, subject, text
from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.base.sealed_toml import canonical
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import IdentityError, PlanError
from fastlloyd.federation.identity.certificates import (
    MAX_BYTES,
    certificates_in,
    parse_authority,
    parse_certificate,
)
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

LAST_DAY = NOW.date() + timedelta(days=100)
A, B, C, SUMS = (
    PrivateIdentity.make(name, LAST_DAY) for name in ("clinic-a", "clinic-b", "clinic-c", "sums")
)
CA = Issuer()
RSA_KEY = rsa.generate_private_key(65537, 2048)
HOST = x509.DNSName("clinic-a.fastlloyd.internal")
KEY_URI = x509.UniformResourceIdentifier(f"fastlloyd:ed25519:{A.public.signing_key}")

AUTHORITIES: dict[str, dict[str, Any]] = {
    "ECDSA with SHA-256": {},
    "ECDSA with SHA-384": {
        "key": ec.generate_private_key(ec.SECP384R1()),
        "algorithm": hashes.SHA384(),
    },
    "ECDSA with SHA-512": {
        "key": ec.generate_private_key(ec.SECP521R1()),
        "algorithm": hashes.SHA512(),
    },
    "RSA with SHA-256": {"key": RSA_KEY},
    "RSA with SHA-512": {"key": RSA_KEY, "algorithm": hashes.SHA512()},
    "RSA-PSS": {"key": RSA_KEY, "rsa_padding": padding.PSS(padding.MGF1(SHA256), 32)},
    "Ed25519": {"key": ed25519.Ed25519PrivateKey.generate(), "algorithm": None},
    "Ed448": {"key": ed448.Ed448PrivateKey.generate(), "algorithm": None},
}


def asked() -> Extensions:
    """The extensions of A's request: basic constraints, key usage, extended key usage, alternative
    names.
    """
    return [(e.value, e.critical) for e in x509.load_pem_x509_csr(A.request().encode()).extensions]


def issued(
    *instead: tuple[x509.ExtensionType, bool], without: type | None = None, **changed: Any
) -> str:
    """A's certificate with these extensions in the place of those of their kind, or beside all."""
    kinds = {type(value) for value, _ in instead} | ({without} if without else set())
    kept = [
        (value, critical) for value, critical in (*asked(), *CA.added()) if type(value) not in kinds
    ]
    return text(CA.issue(A.request(), **{"extensions": [*kept, *instead], **changed}))


def usage(**true: bool) -> tuple[x509.KeyUsage, bool]:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign",
        "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**(dict.fromkeys(names, False) | true)), True


# The form


@pytest.mark.parametrize("kind", AUTHORITIES)
def test_a_request_that_is_signed_as_it_is_makes_an_identity_that_comes_back_from_its_files(
    kind: str, tmp_path: Path
) -> None:
    authority = Issuer(**AUTHORITIES[kind])
    certificate = text(authority.issue(A.request()))
    certified = A.certified([certificate])
    found, own = (
        parse_certificate(certificate, "clinic-a"),
        parse_certificate(A.public.certificate, "clinic-a"),
    )
    assert (found.name, found.signing_key, found.tls_key) == (
        own.name,
        own.signing_key,
        own.tls_key,
    )
    assert found.fingerprint == certified.public.fingerprint != own.fingerprint
    assert certified.tls_key_pem() == A.tls_key_pem()
    assert certified.signing.public == A.signing.public
    certified.save(tmp_path / "a")
    assert PrivateIdentity.load(tmp_path / "a").public == certified.public
    assert PublicIdentity.from_toml(certified.public.to_toml(), "a") == certified.public
    parse_authority(authority.text).check_issued(certificate, "clinic-a")


def test_a_request_asks_for_what_a_self_signed_certificate_says() -> None:
    request = x509.load_pem_x509_csr(A.request().encode())
    own = x509.load_pem_x509_certificate(A.certificate_pem)
    assert request.is_signature_valid
    assert (request.subject, request.public_key(), list(request.extensions)) == (
        own.subject, own.public_key(), list(own.extensions))  # fmt: skip


MAY_DIFFER: dict[str, Callable[[], str]] = {
    "the subject has more than the name": lambda: issued(
        subject=x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Clinic A"), x509.NameAttribute(NameOID.COMMON_NAME, "clinic-a")]
        )
    ),
    "the name is in another type of string": lambda: issued(
        subject=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clinic-a", x509.name._ASN1Type.PrintableString)])
    ),
    "the alternative names are in another order": lambda: issued((x509.SubjectAlternativeName([KEY_URI, HOST]), True)),
    "it does not say that it is no authority": lambda: issued(without=x509.BasicConstraints),
    "its key may do more": lambda: issued(usage(digital_signature=True, key_encipherment=True, key_agreement=True)),
    "it is for more": lambda: issued(
        (x509.ExtendedKeyUsage(
            [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.EMAIL_PROTECTION]), True)),
    "it has what authorities add": lambda: issued(
        (x509.SubjectKeyIdentifier(bytes(20)), False),
        (x509.CRLDistributionPoints(
            [x509.DistributionPoint([x509.UniformResourceIdentifier("http://pki.example/crl")], None, None, None)]), False),
        (x509.AuthorityInformationAccess(
            [x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier("http://pki.example"))]),
         False),
        (x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.2.3.4"), None)]), False),
        (x509.MSCertificateTemplate(x509.ObjectIdentifier("1.3.6.1.4.1.311.21.8.1"), 100, 2), False),
        (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), False),
    ),
    "it ends at any second": lambda: issued(ends=(NOW + timedelta(days=30)).replace(hour=12, minute=34, second=56)),
    "it never ends": lambda: issued(ends=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
}  # fmt: skip


@pytest.mark.parametrize("case", MAY_DIFFER)
def test_an_authority_may_choose_all_that_says_nothing_about_whose_keys_they_are(case: str) -> None:
    assert A.certified([MAY_DIFFER[case]()]).public.signing_key == A.public.signing_key


MUST_NOT_DIFFER: dict[str, tuple[Callable[[], str], str]] = {
    "the name": (lambda: issued(subject=subject("clinic-b")), "its common name is 'clinic-b'; expected 'clinic-a'"),
    "no name": (lambda: issued(subject=x509.Name([])), "its common name is ''; expected 'clinic-a'"),
    "two names": (
        lambda: issued(subject=x509.Name([*subject("clinic-a"), *subject("clinic-a")])),
        "its common name is 'clinic-a, clinic-a'; expected 'clinic-a'",
    ),
    "the kind of key": (lambda: issued(key=RSA_KEY.public_key()), "its key is not the P-256 key of the request"),
    "the curve": (
        lambda: issued(key=ec.generate_private_key(ec.SECP384R1()).public_key()), "its key is not the P-256 key of the"),
    "a weak signature": (
        lambda: issued(algorithm=hashes.SHA224()), "it is signed with the algorithm 1.2.840.10045.4.3.1; expected ECDSA or"),
    "no alternative names": (
        lambda: issued(without=x509.SubjectAlternativeName),
        "it has no subject alternative names; expected exactly these names: the hosts clinic-a.fastlloyd.internal and server.fastlloyd.internal, and the URI of the request"),
    "no host": (lambda: issued((x509.SubjectAlternativeName([KEY_URI]), False)), "alternative names are ['fastlloyd:"),
    "no signing key": (
        lambda: issued((x509.SubjectAlternativeName([HOST]), False)),
        "its subject alternative names are ['clinic-a.fastlloyd.internal']; expected exactly these names"),
    "another host": (
        lambda: issued((x509.SubjectAlternativeName([x509.DNSName("clinic-b.fastlloyd.internal"), KEY_URI]), False)),
        "its subject alternative names are ['clinic-b."),
    "one host more": (
        lambda: issued((x509.SubjectAlternativeName([HOST, x509.DNSName("clinic-a"), KEY_URI]), False)), "expected exactly these names"),
    "a mailbox more": (
        lambda: issued((x509.SubjectAlternativeName([HOST, KEY_URI, x509.RFC822Name("a@b.example")]), False)), "expected exactly these names"),
    "no key in the URI": (
        lambda: issued((x509.SubjectAlternativeName([HOST, x509.UniformResourceIdentifier("fastlloyd:ed25519:AB")]), False)),
        "its subject alternative names are"),
    "an authority of its own": (
        lambda: issued((x509.BasicConstraints(ca=True, path_length=0), True)), "it is an authority's (CA:TRUE)"),
    "no key usage": (lambda: issued(without=x509.KeyUsage), "its key usage is not for digital signatures"),
    "a key for something else": (
        lambda: issued(usage(key_encipherment=True)), "its key usage is not for digital signatures"),
    "a key that signs certificates": (
        lambda: issued(usage(digital_signature=True, key_cert_sign=True)), "its key usage is for signing certificates"),
    "no purpose": (lambda: issued(without=x509.ExtendedKeyUsage), "its extended key usage lacks clientAuth"),
    "for servers only": (
        lambda: issued((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)), "lacks clientAuth; expected"),
    "for clients only": (
        lambda: issued((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)), "lacks serverAuth; expected"),
    "nobody's key identifier": (
        lambda: issued(without=x509.AuthorityKeyIdentifier), "it has no authority key identifier"),
    "something critical": (
        lambda: issued((x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True)),
        "its extension 1.2.3.4 is critical and was not requested"),
}  # fmt: skip


@pytest.mark.parametrize("case", MUST_NOT_DIFFER)
def test_what_is_not_as_it_was_requested_is_refused_by_its_name(case: str) -> None:
    make, fragment = MUST_NOT_DIFFER[case]
    with pytest.raises(IdentityError) as caught:
        parse_certificate(make(), "clinic-a")
    said = str(caught.value)
    assert said.startswith("the certificate of 'clinic-a' is issued by 'CN=Clinic CA', but ")
    assert fragment in said
    assert said.endswith("; have it issued with the names and extensions of the request")
    assert "\n" not in said


def test_what_a_tls_library_cannot_read_is_refused_before_a_server_stumbles_over_it() -> None:
    """A string in the subject is said to be a date: the X.509 library that everything else is read
    with takes no notice.
    """
    named = x509.Name([*subject("clinic-a"), x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c")])
    whole = base64.b64decode(issued(subject=named))
    assert whole.count(b"\x16\x05a@b.c") == 1
    with pytest.raises(IdentityError, match=r"'CN=Clinic CA'.*OpenSSL cannot"):
        parse_certificate(
            base64.b64encode(whole.replace(b"\x16\x05a@b.c", b"\x17\x05a@b.c")).decode(), "clinic-a"
        )
    assert parse_certificate(base64.b64encode(whole).decode(), "clinic-a").name == "clinic-a"


def test_an_issuer_cannot_write_on_the_terminal() -> None:
    rude = Issuer("\x1b[31mx")
    with pytest.raises(IdentityError, match=r"issued by 'CN=\\x1b\[31mx") as caught:
        parse_certificate(text(rude.issue(A.request(), extensions=[])), "clinic-a")
    assert "\x1b" not in str(caught.value)


def test_a_certificate_that_is_far_too_long_is_not_looked_into() -> None:
    long = issued(
        (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), bytes(MAX_BYTES)), False)
    )
    with pytest.raises(IdentityError, match="'clinic-a' was changed"):
        parse_certificate(long, "clinic-a")


def test_it_is_valid_in_its_first_and_its_last_second_and_not_outside() -> None:
    found = parse_certificate(issued(begins=NOW, ends=NOW + timedelta(seconds=90)), "clinic-a")
    for valid in (NOW, NOW + timedelta(seconds=90, microseconds=999_999)):
        found.check_valid(valid)
    with pytest.raises(IdentityError, match="'clinic-a' expired on"):
        found.check_valid(NOW + timedelta(seconds=91))
    with pytest.raises(IdentityError, match=r"'clinic-a'.*valid before"):
        found.check_valid(NOW - timedelta(microseconds=1))


# Whose it is


def test_the_certificate_is_found_in_any_file_an_authority_sends() -> None:
    leaf = CA.issue(A.request())
    for content in (
        pem(leaf),
        pem(CA.certificate, leaf),
        pem(leaf, CA.certificate),
        leaf.public_bytes(Encoding.DER),
    ):
        assert A.certified(certificates_in(content)).public.certificate == text(leaf)
    assert A.certified(
        certificates_in(pem(leaf).replace(b"\n", b"\r\n"))
    ).public.certificate == text(leaf)


NOT_MINE: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "no certificate (as PEM or DER) for the keys of 'clinic-a'"),
    "the authority's": (lambda: pem(CA.certificate), "for the keys of 'clinic-a'; pass the certificate"),
    "another's": (lambda: pem(CA.issue(B.request())), "the file has no certificate"),
    "the request": (lambda: A.request().encode(), "the file has no certificate"),
    "with another's signing key": (
        lambda: pem(CA.issue(A.request(), extensions=[
            *asked()[:3],
            (x509.SubjectAlternativeName(
                [HOST, x509.UniformResourceIdentifier(f"fastlloyd:ed25519:{B.public.signing_key}")]), False),
            *CA.added()])),
        "'clinic-a' contains another"),
    "expired": (
        lambda: pem(CA.issue(A.request(), begins=NOW - timedelta(days=9), ends=NOW - timedelta(days=2))), "expired on"),
    "not begun": (lambda: pem(CA.issue(A.request(), begins=NOW + timedelta(days=2))), "is not valid before"),
    "cut off": (lambda: CA.issue(A.request()).public_bytes(Encoding.DER)[:-9], "'clinic-a' was changed"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_MINE)
def test_keys_are_certified_only_by_their_own_certificate_that_is_valid_now(case: str) -> None:
    make, fragment = NOT_MINE[case]
    with pytest.raises(IdentityError) as caught:
        A.certified(certificates_in(make()))
    assert fragment in str(caught.value)


# The authority of a plan


@functools.cache
def certified(identity: PrivateIdentity, issuer: Issuer = CA) -> PublicIdentity:
    return identity.certified([text(issuer.issue(identity.request()))]).public


def plan(
    clients: tuple[PublicIdentity, ...], authority: str | None, server: PublicIdentity | None = None
) -> Plan:
    return design_plan(
        FASTLLOYD,
        Domain(features=("x",), lower=(0.0,), upper=(1.0,), fraction_bits=16),
        clients=tuple(client.client(400) for client in clients),
        server=(certified(SUMS) if server is None else server).server("sums.example.org:8443"),
        authority=authority,
        run_id=bytes(range(16)),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=2,
    )


def everyone() -> tuple[PublicIdentity, ...]:
    return certified(A), certified(B), certified(C)


def test_a_plan_may_ask_that_one_authority_issued_every_certificate_and_its_digest_says_so() -> (
    None
):
    asks, does_not = plan(everyone(), CA.text), plan(everyone(), None)
    for each in (asks, does_not):
        assert Plan.from_toml(each.to_toml()) == each
        each.check_networked(NOW)
    assert asks.digest != does_not.digest != plan(everyone(), Issuer(key=CA.key).text).digest
    assert asks.issuer is not None
    assert (asks.issuer.name, asks.issuer.fingerprint) == (
        "CN=Clinic CA",
        CA.certificate.fingerprint(SHA256).hex(),
    )
    assert does_not.issuer is None


def test_a_plan_without_an_authority_is_the_same_document_as_before_there_was_one() -> None:
    assert b"authority" not in canonical(plan(everyone(), None))


def test_without_an_authority_in_the_plan_issued_and_self_signed_certificates_stand_side_by_side() -> (
    None
):
    mixed = plan((certified(A), B.public, certified(C, Issuer("Another CA"))), None, SUMS.public)
    assert Plan.from_toml(mixed.to_toml()) == mixed
    mixed.check_networked(NOW)


INTERMEDIATE = Issuer("Clinic Issuing CA", above=CA)
FOREIGN: dict[str, tuple[Callable[[], Plan], str]] = {
    "self-signed": (
        lambda: plan((certified(A), B.public, certified(C)), CA.text),
        "the certificate of 'clinic-b' was not issued by the plan's authority 'CN=Clinic CA' but by 'CN=clinic-b'"),
    "of another authority": (
        lambda: plan((certified(A), certified(B), certified(C, Issuer("Another CA"))), CA.text),
        "'clinic-c' was not issued by the plan's authority 'CN=Clinic CA' but by 'CN=Another CA'"),
    "of another authority of the same name": (
        lambda: plan((certified(A, Issuer()), certified(B), certified(C)), CA.text),
        "'clinic-a' was not issued by the plan's authority 'CN=Clinic CA'"),
    "the server's": (lambda: plan(everyone(), CA.text, SUMS.public), "the certificate of 'sums' was not issued by"),
    "under an intermediate authority": (
        lambda: plan((certified(A, INTERMEDIATE), certified(B), certified(C)), CA.text),
        "'clinic-a' was not issued by the plan's authority 'CN=Clinic CA' but by 'CN=Clinic Issuing CA'; every party"),
    "no authority": (
        lambda: plan(everyone(), certified(A).certificate), "the certificate of 'CN=clinic-a' is not an authority's (CA:TRUE"),
    "an authority that may not sign": (
        lambda: plan(everyone(), Issuer(extensions=[
            (x509.BasicConstraints(ca=True, path_length=None), True), usage(digital_signature=True)]).text),
        "is not an authority's"),
    "unreadable": (lambda: plan(everyone(), "AAAA"), "the certificate of the plan's authority cannot be read"),
    "empty": (lambda: plan(everyone(), ""), "the certificate of the plan's authority cannot be read"),
    "in another spelling": (lambda: plan(everyone(), CA.text + "\n"), "the certificate of the plan's authority cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOREIGN)
def test_whoever_has_no_certificate_of_the_authority_is_kept_out_by_name(case: str) -> None:
    make, fragment = FOREIGN[case]
    with pytest.raises(PlanError) as caught:
        make()
    assert fragment in str(caught.value)


def test_an_intermediate_authority_can_be_the_one_that_is_named() -> None:
    clients = tuple(certified(identity, INTERMEDIATE) for identity in (A, B, C))
    plan(clients, INTERMEDIATE.text, certified(SUMS, INTERMEDIATE)).check_networked(NOW)


def test_the_authority_of_a_plan_cannot_be_changed_unnoticed_nor_left_out() -> None:
    sealed = plan(everyone(), CA.text).to_toml()
    line = f'authority = "{CA.text}"\n'
    assert line in sealed
    for instead in ("", f'authority = "{Issuer(key=CA.key).text}"\n'):
        with pytest.raises(PlanError, match="was changed after"):
            Plan.from_toml(sealed.replace(line, instead))
    with pytest.raises(PlanError, match=r"'sums'.*not issued"):
        Plan.from_toml(sealed.replace(line, f'authority = "{Issuer().text}"\n'))


def test_a_plan_whose_authority_has_expired_can_be_read_and_not_run() -> None:
    ends = NOW + timedelta(days=5)
    old = plan(everyone(), Issuer(key=CA.key, ends=ends).text)
    assert Plan.from_toml(old.to_toml()) == old
    old.check_networked(ends)
    with pytest.raises(
        PlanError,
        match=(r"valid only.*--authority FILE"),
    ):
        old.check_networked(ends + timedelta(seconds=1))


def test_a_renewed_plan_keeps_its_authority_or_takes_a_new_one_and_refuses_strangers() -> None:
    before, again = plan(everyone(), CA.text), Issuer(key=CA.key)
    assert renew(before, run_id=bytes(16)).authority == CA.text
    assert renew(before, run_id=bytes(16), authority=again.text).authority == again.text
    assert renew(plan(everyone(), None), run_id=bytes(16), authority=CA.text).authority == CA.text
    with pytest.raises(PlanError, match=r"'clinic-b'.*not issued"):
        renew(before, run_id=bytes(16), members=[B.public])
    with pytest.raises(PlanError, match=r"'clinic-a'.*not issued"):
        msgspec.structs.replace(before, clients=(A.public.client(400), *before.clients[1:]))


def test_an_old_authority_with_an_odd_serial_number_is_read_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    der = CA.certificate.tbs_certificate_bytes
    serial = CA.certificate.serial_number
    body = serial.to_bytes((serial.bit_length() + 8) // 8, "big")
    assert body in der
    changed = CA.certificate.public_bytes(Encoding.DER).replace(body, b"\x80" + body[1:], 1)
    assert parse_authority(base64.b64encode(changed).decode()).name == "CN=Clinic CA"
    assert not recwarn.list
