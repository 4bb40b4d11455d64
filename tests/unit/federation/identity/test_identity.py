"""An identity comes back from its file whole or not at all, shows its keys to nobody, and its
public file is its own word.
"""

import copy
import hashlib
import json
import os
import pickle
import stat
import tempfile
import tomllib
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fastlloyd.errors import CHANGED_FILE, WRONG_FILE, IdentityError, OutputError
from fastlloyd.federation.identity.certificates import parse_certificate
from fastlloyd.federation.identity.identity import (
    MAX_DAYS,
    PrivateIdentity,
    PublicIdentity,
    check_passphrase,
)
from fastlloyd.federation.plan.plan import Client, Server
from fastlloyd.federation.secagg.keys import verify

TODAY = datetime.now(UTC).date()
LATER = datetime.now(UTC) + timedelta(days=400)
PASSPHRASE = "correct horse battery staple"  # noqa: S105 - of no identity but these

A, B = (
    PrivateIdentity.make(name, TODAY + timedelta(days=365)) for name in ("clinic-a", "clinic-b")
)


def secrets_of(identity: PrivateIdentity) -> list[str]:
    key = load_pem_private_key(identity.tls_key_pem(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    scalar = key.private_numbers().private_value.to_bytes(32, "big")
    return [
        identity.signing.private_bytes().hex(),
        scalar.hex(),
        str(identity.signing.private_bytes()),
    ]


def same(a: PrivateIdentity, b: PrivateIdentity) -> bool:
    return a.public == b.public and secrets_of(a) == secrets_of(b)


def saved(folder: Path, **options: Any) -> Path:
    path = folder / "clinic-a.identity.toml"
    A.save(path, **options)
    return path


def protected(folder: Path) -> Path:
    """The same under the passphrase, which takes as long to stretch as it should: once for all
    tests.
    """
    path = folder / "clinic-a.identity.toml"
    path.touch(0o600)
    path.write_text(_protected_text())
    return path


@cache
def _protected_text() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return saved(Path(folder), passphrase=PASSPHRASE).read_text()


def reseal(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Change a file and seal it again, as anyone can, keeping its first line."""
    content = tomllib.loads(text)
    del content["seal"]
    change(content)
    digest = hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
    return text.partition("\n")[0] + "\n" + tomli_w.dumps(content | {"seal": {"digest": digest}})


# The private file


@pytest.mark.parametrize("passphrase", [None, PASSPHRASE])
def test_an_identity_comes_back_as_it_was_saved_from_a_file_of_mode_0600(
    tmp_path: Path, passphrase: str | None
) -> None:
    path = saved(tmp_path, passphrase=passphrase)
    assert os.name != "posix" or stat.S_IMODE(path.stat().st_mode) == 0o600
    again = PrivateIdentity.load(
        path, ask_passphrase=None if passphrase is None else lambda: PASSPHRASE
    )
    assert same(again, A)
    verify(bytes.fromhex(again.public.signing_key), again.signing.sign(b"x"), b"x")


def test_the_key_of_the_channel_is_the_one_in_the_certificate() -> None:
    key = load_pem_private_key(A.tls_key_pem(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    assert isinstance(key.curve, SECP256R1)
    numbers = key.public_key().public_numbers()
    certified = parse_certificate(A.public.certificate, "clinic-a").tls_key
    assert certified == b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def test_under_a_passphrase_the_file_holds_no_secret_and_two_of_them_nothing_alike(
    tmp_path: Path,
) -> None:
    text = protected(tmp_path).read_text()
    A.save(tmp_path / "again.toml", passphrase=PASSPHRASE)
    again = (tmp_path / "again.toml").read_text()
    assert not any(secret in text for secret in [*secrets_of(A), PASSPHRASE])
    one, two = tomllib.loads(text), tomllib.loads(again)
    assert one["salt"] != two["salt"]
    assert one["under_passphrase"] != two["under_passphrase"]
    assert "private_keys" not in one


def test_the_passphrase_is_stretched_by_scrypt_as_is_written(tmp_path: Path) -> None:
    """A second implementation opens the file: scrypt with 128 MiB, then ChaCha20-Poly1305, then the
    two keys.
    """
    stored = tomllib.loads(protected(tmp_path).read_text())
    key = Scrypt(bytes.fromhex(stored["salt"]), 32, n=2**17, r=8, p=1).derive(PASSPHRASE.encode())
    opened = ChaCha20Poly1305(key).decrypt(
        bytes(12), bytes.fromhex(stored["under_passphrase"]), b"fastlloyd/v1/private-identity"
    )
    assert [opened[:32].hex(), opened[32:].hex()] == secrets_of(A)[:2]


def test_a_passphrase_is_the_same_however_the_keyboard_composes_it(tmp_path: Path) -> None:
    composed = "Gr\u00fc\u00dfe aus \u00c5rhus"
    path = saved(tmp_path, passphrase=composed)
    decomposed = unicodedata.normalize("NFD", composed)
    assert decomposed != composed
    assert same(PrivateIdentity.load(path, ask_passphrase=lambda: decomposed), A)


def test_a_wrong_or_missing_passphrase_is_a_sentence_that_does_not_repeat_it(
    tmp_path: Path,
) -> None:
    path = protected(tmp_path)
    with pytest.raises(
        IdentityError, match=r"passphrase.*clinic-a.identity.toml is wrong"
    ) as caught:
        PrivateIdentity.load(path, ask_passphrase=lambda: "my other passphrase")
    assert "my other" not in str(caught.value)
    with pytest.raises(IdentityError, match="is encrypted; pass"):
        PrivateIdentity.load(path)


@pytest.mark.parametrize("passphrase", ["", "seven.7", "x" * 1001])
def test_a_passphrase_that_keeps_nobody_out_is_refused_unquoted_and_nothing_is_written(
    tmp_path: Path, passphrase: str
) -> None:
    with pytest.raises(IdentityError, match=f"has {len(passphrase)} characters") as caught:
        saved(tmp_path, passphrase=passphrase)
    assert not passphrase or passphrase not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert check_passphrase("eight..8") == "eight..8"


def test_nobody_is_asked_for_a_passphrase_that_is_not_needed(tmp_path: Path) -> None:
    def ask() -> str:
        raise AssertionError

    assert same(PrivateIdentity.load(saved(tmp_path), ask_passphrase=ask), A)


def test_an_identity_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(OutputError, match="exists already"):
        B.save(path)
    assert same(PrivateIdentity.load(path), A)
    B.save(path, replace=True)
    assert same(PrivateIdentity.load(path), B)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        PrivateIdentity.load(path)


def test_a_public_file_in_the_place_of_the_private_one_is_called_what_it_is_whoever_can_read_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "clinic-a.public.toml"
    path.write_text(A.public.to_toml())
    for mode in (0o600, 0o644):
        path.chmod(mode)
        with pytest.raises(IdentityError, match=r"public.*no keys"):
            PrivateIdentity.load(path)


def test_an_expired_identity_is_refused_before_the_passphrase_is_asked_for(tmp_path: Path) -> None:
    for path in (saved(tmp_path), protected(tmp_path)):
        with pytest.raises(IdentityError, match=f"'clinic-a' expired.*{A.public.expires}"):
            PrivateIdentity.load(path, now=LATER)


def test_any_changed_character_of_the_content_is_refused_without_a_word_of_it(
    tmp_path: Path,
) -> None:
    path = saved(tmp_path)
    text = path.read_text()
    secrets = secrets_of(A)
    start = text.index("private_keys")
    for position in range(start, len(text), 7):
        if text[position] in " \n":
            continue
        path.write_text(
            text[:position] + ("1" if text[position] == "0" else "0") + text[position + 1 :]
        )
        with pytest.raises(IdentityError) as caught:
            PrivateIdentity.load(path)
        assert "identity.toml" in str(caught.value)
        assert not any(
            secret[i : i + 8] in str(caught.value)
            for secret in secrets[:2]
            for i in range(0, 56, 8)
        )


DAMAGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no keys": lambda c: c.pop("private_keys"),
    "half a key": lambda c: c.update(private_keys=c["private_keys"][:64]),
    "keys in capitals": lambda c: c.update(private_keys=c["private_keys"].upper()),
    "keys of someone else": lambda c: c.update(private_keys="".join(secrets_of(B)[:2])),
    "a signing key of someone else": lambda c: c.update(
        private_keys=secrets_of(B)[0] + secrets_of(A)[1]
    ),
    "a channel's key of someone else": lambda c: c.update(
        private_keys=secrets_of(A)[0] + secrets_of(B)[1]
    ),
    "a channel's key of zero": lambda c: c.update(private_keys=secrets_of(A)[0] + "0" * 64),
    "a channel's key too large": lambda c: c.update(private_keys=secrets_of(A)[0] + "f" * 64),
    "keys as a number": lambda c: c.update(private_keys=5),
    "something more": lambda c: c.update(more="x"),
    "no public part": lambda c: c.pop("public"),
    "someone else's public part": lambda c: c.update(public=msgspec.to_builtins(B.public)),
    "another name": lambda c: c["public"].update(name="clinic-b"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_private_file_that_does_not_fit_together_is_refused_however_it_is_sealed(
    tmp_path: Path, case: str
) -> None:
    path = saved(tmp_path)
    path.write_text(reseal(path.read_text(), DAMAGED[case]))
    with pytest.raises(IdentityError, match="changed; bring back") as caught:
        PrivateIdentity.load(path)
    assert not any(secret in str(caught.value) for secret in secrets_of(A))


def test_a_box_that_is_none_opens_to_nothing(tmp_path: Path) -> None:
    path = protected(tmp_path)
    for box in ("ab", "0" * 160, "not hex"):
        # default
        path.write_text(reseal(path.read_text(), lambda c, box=box: c.update(under_passphrase=box)))  # type: ignore[misc]
        with pytest.raises(IdentityError, match=r"passphrase.*is wrong"):
            PrivateIdentity.load(path, ask_passphrase=lambda: PASSPHRASE)


@pytest.mark.parametrize("content", ["", "# something else\n", "# A fastlloyd plan\nx = 1\n"])
def test_another_file_is_no_private_identity(tmp_path: Path, content: str) -> None:
    path = saved(tmp_path)
    path.write_text(content)
    with pytest.raises(IdentityError, match="not a private"):
        PrivateIdentity.load(path)


def test_private_and_public_files_are_not_taken_for_each_other(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(
        IdentityError,
        match=r"private identity.*public file",
    ):
        PublicIdentity.load(path)
    path.write_text(A.public.to_toml())
    with pytest.raises(IdentityError, match=r"public.*no keys"):
        PrivateIdentity.load(path)


def test_an_identity_shows_nothing_and_is_not_copied(tmp_path: Path) -> None:
    shown = f"{A} {A!r} {[A]}"
    assert shown.count("PrivateIdentity(<secret>)") == 3
    assert not any(secret in shown for secret in secrets_of(A))
    for copying in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="is secret"):
            copying(A)
    with pytest.raises(TypeError):
        msgspec.json.encode(A)


def test_two_identities_have_nothing_in_common() -> None:
    again = PrivateIdentity.make("clinic-a", A.public.expires)
    assert not set(secrets_of(A)) & set(secrets_of(again))
    assert again.public.fingerprint != A.public.fingerprint


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "a..b", "a.", "x" * 65, "x" * 64, "-a", "\u00e4"]
)
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(IdentityError, match=r"name '.*(usable|host name)"):
        PrivateIdentity.make(name, TODAY + timedelta(days=2))  # TODAY may be yesterday by now


@pytest.mark.parametrize(
    "expires", [TODAY - timedelta(days=2), TODAY + timedelta(days=MAX_DAYS + 2), date(9999, 12, 31)]
)
def test_a_last_day_that_cannot_be_is_refused(expires: date) -> None:
    with pytest.raises(IdentityError, match="day from today"):
        PrivateIdentity.make("a", expires)


# The public file


def test_a_public_file_is_read_back_and_goes_into_a_plan_as_it_is() -> None:
    public = PublicIdentity.from_toml(A.public.to_toml(), "clinic-a.public.toml")
    assert public == A.public
    expected: dict[str, Any] = {
        "signing_key": A.signing.public.hex(),
        "certificate": public.certificate,
    }
    assert public.client(500) == Client(name="clinic-a", max_records=500, **expected)
    assert public.server("h:1") == Server(
        name="clinic-a", address="h:1", certificate=public.certificate
    )
    assert public.fingerprint == public.client(1).fingerprint == public.server("h:1").fingerprint


def test_a_public_file_holds_nothing_secret() -> None:
    assert not any(secret in A.public.to_toml() for secret in secrets_of(A))


def with_public(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content.update(changes)


def swapped_with_a_new_signature(content: dict[str, Any]) -> None:
    """What a thief of the mail can do: its own certificate and signature, under the owner's signing
    key.
    """
    other = PrivateIdentity.make("clinic-a", A.public.expires).public
    content.update(certificate=other.certificate, signature=other.signature)


TAMPERED = {
    "another's certificate": (
        with_public(certificate=B.public.certificate),
        "is for 'clinic-b'",
    ),
    "another certificate of that name": (
        swapped_with_a_new_signature,
        "differ from the certificate",
    ),
    "another signing key": (
        with_public(signing_key=B.public.signing_key),
        "differ from the certificate",
    ),
    "another last day": (
        with_public(expires=str(A.public.expires + timedelta(days=1))),
        "differ from the certificate",
    ),
    "another's signature": (
        with_public(signature=B.public.signature),
        "'clinic-a' did not sign this",
    ),
    "no signature": (with_public(signature=""), "did not sign this"),
    "a signature that is none": (with_public(signature="z" * 128), "did not sign this"),
    "another name": (with_public(name="clinic-b"), "is for 'clinic-a'"),
    "a name that cannot be": (with_public(name="../x"), "name '../x' is not usable"),
    "no day": (with_public(expires="soon"), r"expires"),
    "something more": (with_public(more=1), "unknown field `more`"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_tampered_public_file_is_refused_however_it_is_sealed(case: str) -> None:
    change, message = TAMPERED[case]
    with pytest.raises(IdentityError, match=f"clinic-a.public.toml: .*{message}"):
        PublicIdentity.from_toml(reseal(A.public.to_toml(), change), "clinic-a.public.toml")


def test_a_certificate_made_under_anothers_signing_key_is_noticed() -> None:
    """A thief can certify the owner's public signing key for a channel of the thief's own, but
    cannot sign for it.
    """
    from fastlloyd.federation.identity.certificates import make_certificate

    thief = load_pem_private_key(B.tls_key_pem(), None)
    assert isinstance(thief, EllipticCurvePrivateKey)
    certificate = make_certificate(
        "clinic-a", bytes.fromhex(A.public.signing_key), thief, A.public.expires
    )
    for signature in (A.public.signature, Ed25519PrivateKey.generate().sign(b"anything").hex()):
        changed = reseal(
            A.public.to_toml(), with_public(certificate=certificate, signature=signature)
        )
        with pytest.raises(IdentityError, match=r"'clinic-a'.*another's"):
            PublicIdentity.from_toml(changed, "a")


def test_a_public_file_changed_by_accident_is_refused() -> None:
    text = A.public.to_toml()
    start = text.index("name =")
    for position in (i for i in range(start, len(text), 5) if text[i] not in ' \n"'):
        other = "1" if text[position] == "0" else "0"
        with pytest.raises(IdentityError, match=r"^a was changed|get the original") as refused:
            PublicIdentity.from_toml(text[:position] + other + text[position + 1 :], "a")
        assert refused.value.code in (CHANGED_FILE, WRONG_FILE)


def test_an_expired_public_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(A.public.to_toml())
    assert PublicIdentity.load(path) == A.public
    with pytest.raises(IdentityError, match="expired on"):
        PublicIdentity.load(path, LATER)


def test_no_public_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match="cannot be read"):
        PublicIdentity.load(tmp_path / "none.toml")
    (tmp_path / "plan.toml").write_text("# A fastlloyd plan\n[seal]\ndigest = 'x'\n")
    with pytest.raises(IdentityError, match=r"plan\.toml"):
        PublicIdentity.load(tmp_path / "plan.toml")
