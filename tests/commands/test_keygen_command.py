"""`keygen`, and plans that name those who take part: what is made, shown and refused, and that no
secret is ever shown.
"""

import getpass
import hashlib
import json
import os
import re
import ssl
import stat
import tomllib
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf import scrypt
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from authorities import Issuer, pem
from command_line import Command, Outcome, refused
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.cli.failures import run
from fastlloyd.federation.identity import identity
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.plan import plan as plan_module
from fastlloyd.federation.plan.plan import Plan

SHA256 = hashes.SHA256()
PASSPHRASE = "correct horse battery staple"  # noqa: S105 - of no identity but these
MECHANISM = (
    "--features",
    "age,dose",
    "--bounds",
    "age=0:100,dose=0:5",
    "-k",
    "2",
    "--algorithm",
    "fastlloyd",
    "--iterations",
    "2",
)
MEMBERS = tuple(part for name in "abc" for part in ("--member", f"keys/{name}.public.toml:50"))
SERVER, ADDRESS = ("--server", "keys/sums.public.toml"), ("--address", "sums.example.org:8443")
NETWORK = (*SERVER, *ADDRESS)
UNSERVED = ("plan", "new", *MEMBERS, *MECHANISM)
NEW = (*UNSERVED, *NETWORK)


@pytest.fixture
def fastlloyd(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("FASTLLOYD_PASSPHRASE_FILE", raising=False)

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        return Outcome(run(arguments), *capsys.readouterr())

    return command


@pytest.fixture(autouse=True)
def _quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretched as briefly as scrypt can; how long it takes by itself is asked where identities are
    tested.
    """
    monkeypatch.setattr(
        scrypt, "Scrypt", lambda salt, length, **cost: Scrypt(salt, length, **cost | {"n": 2})
    )


@pytest.fixture
def parties(fastlloyd: Command) -> Command:
    """Three clients and a server have made their keys, and a plan of all."""
    for name in ("a", "b", "c", "sums"):
        assert fastlloyd("keygen", "--name", name, "--out", "keys").code == 0
    assert fastlloyd(*NEW).code == 0
    return fastlloyd


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the person at the terminal will type; nothing of it is shown."""
    typed: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda _: typed.pop(0))
    return typed


def tree() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


# keygen


def test_keygen_says_what_to_keep_and_what_to_send_and_shows_the_fingerprint_and_no_secret(
    fastlloyd: Command,
) -> None:
    done = fastlloyd("keygen", "--name", "clinic-a")
    assert (done.code, done.err) == (0, "")
    public = PublicIdentity.load(Path("clinic-a.public.toml"))
    assert in_groups(public.fingerprint) in done.out
    assert "Keep: clinic-a.identity.toml" in done.out
    assert "Send: clinic-a.public.toml" in done.out
    assert str(public.expires) in done.out
    assert PrivateIdentity.load(Path("clinic-a.identity.toml")).public == public
    assert sorted(tree()) == ["clinic-a.identity.toml", "clinic-a.public.toml"]
    if os.name == "posix":
        assert mode("clinic-a.identity.toml") == 0o600
    keys = tomllib.loads(Path("clinic-a.identity.toml").read_text())["private_keys"]
    for shown in (done.out, Path("clinic-a.public.toml").read_text()):
        assert not any(keys[i : i + 16] in shown for i in range(0, 128, 16))


def test_keygen_says_the_same_to_scripts(fastlloyd: Command) -> None:
    said = json.loads(
        fastlloyd("keygen", "--name", "a", "--out", "x/y", "--expires", "10", "--json").out
    )
    public = PublicIdentity.load(Path("x/y/a.public.toml"))
    assert said == {
        "name": "a",
        "private_file": "x/y/a.identity.toml",
        "public_file": "x/y/a.public.toml",
        "fingerprint": public.fingerprint,
        "signing_key": public.signing_key,
        "expires": public.expires.isoformat(),
        "under_passphrase": False,
    }


def test_a_passphrase_that_is_typed_twice_the_same_protects_the_keys(
    fastlloyd: Command, typing: list[str]
) -> None:
    typing += [PASSPHRASE, PASSPHRASE]
    done = fastlloyd("keygen", "--name", "a", "--passphrase")
    assert done.code == 0
    assert "with the passphrase" in done.out
    assert PASSPHRASE not in done.out + done.err + Path("a.identity.toml").read_text()
    assert (
        PrivateIdentity.load(Path("a.identity.toml"), ask_passphrase=lambda: PASSPHRASE).name == "a"
    )


def test_two_different_passphrases_make_nothing(fastlloyd: Command, typing: list[str]) -> None:
    typing += [PASSPHRASE, "something else"]
    refused(
        fastlloyd("keygen", "--name", "a", "--passphrase", "--out", "keys"),
        "the two passphrases differ",
    )
    typing += ["short", "short"]
    refused(
        fastlloyd("keygen", "--name", "a", "--passphrase", "--out", "keys"),
        "the passphrase has 5 characters",
    )
    assert not Path("keys").exists()


def test_a_passphrase_is_not_typed_where_it_would_be_seen(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def would_echo(_: str) -> str:
        warnings.warn("Can not control echo on the terminal.", getpass.GetPassWarning, stacklevel=2)
        raise AssertionError

    monkeypatch.setattr(getpass, "getpass", would_echo)
    refused(
        fastlloyd("keygen", "--name", "a", "--passphrase"),
        "no terminal to ask",
        "--passphrase-file",
    )
    assert tree() == {}


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\nsecond line\n"])
def test_scripts_give_the_passphrase_in_a_file_or_name_the_file_in_the_environment(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    Path("pw").write_bytes((PASSPHRASE + ending).encode())
    assert fastlloyd("keygen", "--name", "a", "--passphrase-file", "pw").code == 0
    monkeypatch.setenv("FASTLLOYD_PASSPHRASE_FILE", "pw")
    assert fastlloyd("keygen", "--name", "b").code == 0
    for name in "ab":
        assert (
            PrivateIdentity.load(
                Path(f"{name}.identity.toml"), ask_passphrase=lambda: PASSPHRASE
            ).name
            == name
        )


@pytest.mark.skipif(os.name != "posix", reason="/dev/fd is POSIX's")
def test_scripts_give_the_passphrase_on_a_file_descriptor(fastlloyd: Command) -> None:
    reading, writing = os.pipe()
    os.write(writing, PASSPHRASE.encode() + b"\n")
    os.close(writing)
    assert fastlloyd("keygen", "--name", "a", "--passphrase-file", f"/dev/fd/{reading}").code == 0
    os.close(reading)
    assert (
        PrivateIdentity.load(Path("a.identity.toml"), ask_passphrase=lambda: PASSPHRASE).name == "a"
    )


def test_keygen_never_writes_over_an_identity_unless_told_so_in_full(fastlloyd: Command) -> None:
    fastlloyd("keygen", "--name", "a")
    before = tree()
    refused(
        fastlloyd("keygen", "--name", "a"), "a.identity.toml exists already", "--replace-identity"
    )
    refused(fastlloyd("keygen", "--name", "a", "--force"), "--force does not replace")
    assert tree() == before
    assert fastlloyd("keygen", "--name", "a", "--replace-identity").code == 0
    assert all(tree()[path] != before[path] for path in before)
    assert mode("a.identity.toml") == 0o600 or os.name != "posix"
    Path("a.identity.toml").unlink()
    refused(fastlloyd("keygen", "--name", "a"), "a.public.toml exists already")
    assert not Path("a.identity.toml").exists()
    assert fastlloyd("keygen", "--name", "a", "--force").code == 0


def test_keygen_leaves_other_files_alone_whatever_it_is_told(fastlloyd: Command) -> None:
    for name in ("a.identity.toml", "a.public.toml"):
        Path(name).write_text("mine")
        refused(
            fastlloyd("keygen", "--name", "a", "--replace-identity", "--force"),
            name,
            "not replaced",
        )
        assert tree() == {name: b"mine"}
        Path(name).unlink()


def test_keygen_makes_both_files_or_none(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastlloyd.cli.commands import keygen
    from fastlloyd.errors import OutputError

    def fails(path: Path, _: str) -> None:
        raise OutputError(f"{path} cannot be written (No space left on device)")

    monkeypatch.setattr(keygen, "write_file", fails)
    refused(fastlloyd("keygen", "--name", "a"), "a.public.toml cannot be written")
    assert tree() == {}


REFUSED_KEYGEN = {
    "no name": ((), "--name"),
    "an odd name": (("--name", "a b"), "name 'a b' is not usable"),
    "a path for a name": (("--name", "../a"), "name '../a' is not usable"),
    "a name no host has": (("--name", "a..b"), "cannot be part of a host name"),
    "no days": (("--name", "a", "--expires", "0"), "expires is 0 days; expected 1 to 3650"),
    "days in the past": (("--name", "a", "--expires", "-3"), "--expires is '-3'"),
    "too many days": (("--name", "a", "--expires", "999999999999"), "expected 1 to 3650"),
    "days in words": (("--name", "a", "--expires", "soon"), "--expires"),
    "no file with the passphrase": (
        ("--name", "a", "--passphrase-file", "none"),
        "cannot be read from none",
    ),
    "an empty passphrase": (
        ("--name", "a", "--passphrase-file", os.devnull),
        f"the first line of {os.devnull} is empty; expected the passphrase there",
    ),
    "a passphrase in bytes": (("--name", "a", "--passphrase-file", "bytes"), "is not a text file"),
    "a file for a folder": (("--name", "a", "--out", "bytes"), "bytes"),
    "a folder in a file": (("--name", "a", "--out", "bytes/keys"), "bytes/keys"),
}


@pytest.mark.parametrize("case", REFUSED_KEYGEN)
def test_keygen_refuses_nonsense_in_a_sentence_and_writes_nothing(
    fastlloyd: Command, case: str
) -> None:
    Path("bytes").write_bytes(b"\x80\x81")
    arguments, fragment = REFUSED_KEYGEN[case]
    refused(fastlloyd("keygen", *arguments), fragment)
    assert tree() == {"bytes": b"\x80\x81"}


# An authority of one's own


def requested(fastlloyd: Command, name: str, *more: str) -> str:
    """Make an identity and its request, which is what comes back."""
    assert fastlloyd("keygen", "--name", name, "--request", "--out", "keys", *more).code == 0
    return Path(f"keys/{name}.csr.pem").read_text()


def certified(fastlloyd: Command, authority: Issuer, *names: str) -> None:
    for name in names:
        Path(f"{name}.crt.pem").write_bytes(pem(authority.issue(requested(fastlloyd, name))))
        assert (
            fastlloyd("keygen", "--name", name, "--issued", f"{name}.crt.pem", "--out", "keys").code
            == 0
        )
    Path("ca.pem").write_bytes(pem(authority.certificate))


def test_a_request_goes_to_the_authority_and_what_comes_back_makes_the_public_file(
    fastlloyd: Command,
) -> None:
    authority = Issuer()
    done = fastlloyd("keygen", "--name", "a", "--request", "--out", "keys")
    assert (done.code, done.err) == (0, "")
    assert sorted(tree()) == ["keys/a.csr.pem", "keys/a.identity.toml"]
    assert mode("keys/a.identity.toml") == 0o600 or os.name != "posix"
    assert "Send: keys/a.csr.pem to your authority" in done.out
    keys = tomllib.loads(Path("keys/a.identity.toml").read_text())["private_keys"]
    assert not any(
        keys[i : i + 16] in done.out + Path("keys/a.csr.pem").read_text() for i in range(0, 128, 16)
    )
    issued = authority.issue(Path("keys/a.csr.pem").read_text())
    Path("a.crt.pem").write_bytes(pem(issued, authority.certificate))
    done = fastlloyd("keygen", "--name", "a", "--issued", "a.crt.pem", "--out", "keys")
    assert (done.code, done.err) == (0, "")
    public = PublicIdentity.load(Path("keys/a.public.toml"))
    assert public.fingerprint == issued.fingerprint(SHA256).hex()
    assert in_groups(public.fingerprint) in done.out
    private = PrivateIdentity.load(Path("keys/a.identity.toml"))
    assert private.public == public
    assert tomllib.loads(Path("keys/a.identity.toml").read_text())["private_keys"] == keys
    assert mode("keys/a.identity.toml") == 0o600 or os.name != "posix"


def test_the_passphrase_of_an_identity_stays_when_its_certificate_comes(
    fastlloyd: Command, typing: list[str]
) -> None:
    typing += [PASSPHRASE, PASSPHRASE, "something else", PASSPHRASE]
    request = requested(fastlloyd, "a", "--passphrase")
    Path("a.crt.pem").write_bytes(pem(Issuer().issue(request)))
    before = tree()
    refused(
        fastlloyd("keygen", "--name", "a", "--issued", "a.crt.pem", "--out", "keys"),
        "is wrong; try again",
    )
    assert tree() == before
    done = fastlloyd("keygen", "--name", "a", "--issued", "a.crt.pem", "--out", "keys")
    assert "with the passphrase" in done.out
    again = PrivateIdentity.load(Path("keys/a.identity.toml"), ask_passphrase=lambda: PASSPHRASE)
    assert again.public == PublicIdentity.load(Path("keys/a.public.toml"))
    assert typing == []


def test_requests_and_what_comes_of_them_are_said_to_scripts_too(fastlloyd: Command) -> None:
    said = json.loads(fastlloyd("keygen", "--name", "a", "--request", "--json").out)
    private = PrivateIdentity.load(Path("a.identity.toml"))
    assert said == {
        "name": "a",
        "private_file": "a.identity.toml",
        "request_file": "a.csr.pem",
        "signing_key": private.public.signing_key,
        "under_passphrase": False,
    }
    Path("a.crt.pem").write_bytes(pem(Issuer().issue(Path("a.csr.pem").read_text())))
    said = json.loads(fastlloyd("keygen", "--name", "a", "--issued", "a.crt.pem", "--json").out)
    public = PublicIdentity.load(Path("a.public.toml"))
    assert (said["public_file"], said["fingerprint"]) == ("a.public.toml", public.fingerprint)
    assert said["expires"] == public.expires.isoformat()


def test_an_earlier_identity_keeps_its_keys_when_its_certificate_is_requested_and_issued_anew(
    fastlloyd: Command,
) -> None:
    fastlloyd("keygen", "--name", "a", "--out", "keys")
    first = PrivateIdentity.load(Path("keys/a.identity.toml"))
    before = tree()
    request = requested(fastlloyd, "a")
    assert tree() == before | {"keys/a.csr.pem": request.encode()}
    refused(
        fastlloyd("keygen", "--name", "a", "--request", "--out", "keys"), "a.csr.pem exists already"
    )
    Path("a.crt.pem").write_bytes(pem(Issuer().issue(request)))
    before = tree()
    issued = ("keygen", "--name", "a", "--issued", "a.crt.pem", "--out", "keys")
    refused(fastlloyd(*issued), "a.public.toml exists already")
    assert tree() == before
    for _ in range(2):  # whoever is interrupted does it again
        assert fastlloyd(*issued, "--force").code == 0
    again = PrivateIdentity.load(Path("keys/a.identity.toml"))
    assert (again.signing.public, again.tls_key_pem()) == (
        first.signing.public,
        first.tls_key_pem(),
    )
    assert again.public.fingerprint != first.public.fingerprint


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
def test_an_identity_that_lies_elsewhere_is_changed_where_it_lies(fastlloyd: Command) -> None:
    Path("a.crt.pem").write_bytes(pem(Issuer().issue(requested(fastlloyd, "a"))))
    Path("link").mkdir()
    Path("link/a.identity.toml").symlink_to(Path("keys/a.identity.toml").resolve())
    assert fastlloyd("keygen", "--name", "a", "--issued", "a.crt.pem", "--out", "link").code == 0
    assert Path("link/a.identity.toml").is_symlink()
    assert PrivateIdentity.load(Path("keys/a.identity.toml")).public == PublicIdentity.load(
        Path("link/a.public.toml")
    )


REFUSED_ISSUED = {
    "both at once": (("--request", "--issued", "a.crt.pem"), "one of the two"),
    "a new last day": (
        ("--issued", "a.crt.pem", "--expires", "9"),
        "without --passphrase, --expires and --replace-identity",
    ),
    "a new passphrase": (
        ("--issued", "a.crt.pem", "--passphrase"),
        "do not change",
    ),
    "other keys": (("--issued", "a.crt.pem", "--replace-identity"), "do not change"),
    "a request of it with a new passphrase": (
        ("--request", "--force", "--passphrase"),
        "do not change",
    ),
    "no file": (("--issued", "none.pem"), "none.pem cannot be read"),
    "no certificate": (
        ("--issued", "keys/a.csr.pem"),
        "no certificate (as PEM or DER) for the keys of 'a'",
    ),
    "another's certificate": (
        ("--issued", "b.crt.pem"),
        "for the keys of 'a'; pass the certificate",
    ),
    "a certificate without names": (
        ("--issued", "bare.pem"),
        "issued by 'CN=Clinic CA', but it has no subject alternative",
    ),
    "no identity": (
        ("--issued", "a.crt.pem", "--out", "elsewhere"),
        "elsewhere/a.identity.toml cannot be read",
    ),
    "another name": (
        ("--issued", "a.crt.pem", "--name", "../keys/a"),
        "is the identity of 'a'; pass --name a",
    ),
}


@pytest.mark.parametrize("case", REFUSED_ISSUED)
def test_what_an_authority_did_not_issue_for_these_keys_changes_nothing(
    fastlloyd: Command, case: str
) -> None:
    authority, request = Issuer(), requested(fastlloyd, "a")
    Path("a.crt.pem").write_bytes(pem(authority.issue(request)))
    Path("b.crt.pem").write_bytes(pem(authority.issue(requested(fastlloyd, "b"))))
    Path("bare.pem").write_bytes(pem(authority.issue(request, extensions=authority.added())))
    before = tree()
    arguments, fragment = REFUSED_ISSUED[case]
    given = [
        part
        for pair in (("--name", "a"), ("--out", "keys"))
        if pair[0] not in arguments
        for part in pair
    ]
    refused(fastlloyd("keygen", *given, *arguments), fragment)
    assert tree() == before


def test_a_plan_that_names_an_authority_says_so_everywhere_and_keeps_others_out(
    fastlloyd: Command,
) -> None:
    authority = Issuer()
    certified(fastlloyd, authority, "a", "b", "c", "sums")
    assert fastlloyd(*NEW, "--authority", "ca.pem").code == 0
    plan = Plan.from_toml(Path("plan.toml").read_text())
    plan.check_networked()
    sha256 = authority.certificate.fingerprint(SHA256).hex()
    shown, explained = (
        fastlloyd("plan", "show", "plan.toml").out,
        fastlloyd("plan", "explain", "plan.toml").out,
    )
    assert f"'CN=Clinic CA': {sha256}, until" in shown
    assert "The authority 'CN=Clinic CA' issued every certificate" in explained
    assert in_groups(sha256) in explained
    said = json.loads(fastlloyd("plan", "show", "plan.toml", "--json").out)["authority"]
    assert said == {
        "name": "CN=Clinic CA",
        "fingerprint": sha256,
        "expires": authority.certificate.not_valid_after_utc.date().isoformat(),
    }
    fastlloyd("plan", "digest", "plan.toml", "--page", "page.txt")
    assert in_groups(sha256) in " ".join(Path("page.txt").read_text().split())
    fastlloyd("keygen", "--name", "a", "--out", "new")
    Path("other.pem").write_bytes(pem(Issuer("Another CA").certificate))
    Path("two.pem").write_bytes(Path("ca.pem").read_bytes() + Path("other.pem").read_bytes())
    before, renewing = tree(), ("plan", "renew", "plan.toml")
    refused(
        fastlloyd(*renewing, "--member", "new/a.public.toml"),
        "'a' was not issued by the plan's authority 'CN=Clinic CA'",
    )
    refused(
        fastlloyd(*renewing, "--authority", "other.pem"),
        "'sums' was not issued by the plan's authority 'CN=Another CA'",
    )
    refused(fastlloyd(*renewing, "--authority", "two.pem"), "two.pem has 2")
    refused(
        fastlloyd(*renewing, "--authority", "a.crt.pem"),
        "the certificate of 'CN=a' is not an authority's",
    )
    refused(
        fastlloyd(*renewing, "--authority", "keys/a.csr.pem"),
        "cannot be read; expected X.509 in PEM or DER",
    )
    refused(fastlloyd(*renewing, "--authority", "none.pem"), "none.pem cannot be read")
    assert tree() == before


def test_a_plan_that_names_no_authority_says_none(parties: Command) -> None:
    assert json.loads(parties("plan", "show", "plan.toml", "--json").out)["authority"] is None
    assert "authority" not in parties("plan", "explain", "plan.toml").out
    assert "authority" not in Path("plan.toml").read_text()


# Plans


def test_pem_writes_certificate_and_key_for_a_monitor_and_the_key_for_its_owner_only(
    fastlloyd: Command, typing: list[str]
) -> None:
    typing += [PASSPHRASE] * 3
    assert fastlloyd("keygen", "--name", "sums", "--passphrase").code == 0
    done = fastlloyd("pem", "--key", "sums.identity.toml", "--out", "monitor")
    assert (done.code, done.err) == (0, "")
    folder = Path("monitor")
    assert sorted(path.name for path in folder.iterdir()) == ["sums.key", "sums.pem"]
    assert stat.S_IMODE((folder / "sums.key").stat().st_mode) == 0o600
    public = PublicIdentity.load(Path("sums.public.toml"))
    certificate = ssl.PEM_cert_to_DER_cert((folder / "sums.pem").read_text())
    assert hashlib.sha256(certificate).hexdigest() == public.fingerprint
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        folder / "sums.pem", folder / "sums.key"
    )  # they belong together
    assert public.signing_key not in (folder / "sums.key").read_text()
    assert "BEGIN" not in done.out


@pytest.mark.parametrize("taken", ["sums.pem", "sums.key"])
def test_pem_writes_both_files_or_none_and_over_nothing(fastlloyd: Command, taken: str) -> None:
    assert fastlloyd("keygen", "--name", "sums").code == 0
    Path(taken).write_text("mine")
    refused(fastlloyd("pem", "--key", "sums.identity.toml"), f"{taken} exists already")
    assert sorted(path.name for path in Path().iterdir()) == sorted(
        [taken, "sums.identity.toml", "sums.public.toml"]
    )
    assert Path(taken).read_text() == "mine"
    refused(fastlloyd("pem", "--key", "sums.public.toml", "--out", "x"), "sums.public.toml")
    refused(
        fastlloyd("pem", "--key", "sums.identity.toml", "--out", f"{taken}/x"), "cannot be made"
    )


def test_a_plan_of_public_files_can_run_over_a_network_and_says_who_takes_part(
    parties: Command,
) -> None:
    plan = Plan.from_toml(Path("plan.toml").read_text())
    plan.check_networked()
    publics = {
        name: PublicIdentity.load(Path(f"keys/{name}.public.toml"))
        for name in ("a", "b", "c", "sums")
    }
    assert plan.clients == tuple(publics[name].client(50) for name in "abc")
    assert plan.server == publics["sums"].server("sums.example.org:8443")
    shown, explained = parties("plan", "show", "plan.toml"), parties("plan", "explain", "plan.toml")
    for public in publics.values():
        assert public.fingerprint in shown.out
        assert in_groups(public.fingerprint) in explained.out
    for outcome in (shown, explained):
        assert "sums.example.org:8443" in outcome.out
    assert "joining 3600 s" in shown.out
    assert "A run waits 1 hour for everyone to join" in explained.out
    machine = json.loads(parties("plan", "show", "plan.toml", "--json").out)
    assert [c["fingerprint"] for c in machine["clients"]] == [
        publics[name].fingerprint for name in "abc"
    ]
    assert (machine["digest"], machine["lacking"]) == (plan.digest.hex(), None)
    assert machine["server"]["expires"] == publics["sums"].expires.isoformat()
    assert machine["timeouts"] == {
        "joining": 3600,
        "dealing": 60,
        "round": 86400,
        "confirming": 86400,
    }


def test_timeouts_are_options(parties: Command) -> None:
    times = (
        "--joining-timeout",
        "5",
        "--dealing-timeout",
        "6",
        "--round-timeout",
        "7",
        "--confirming-timeout",
        "8",
    )
    assert parties(*NEW, *times, "--force").code == 0
    machine = json.loads(parties("plan", "show", "plan.toml", "--json").out)
    assert machine["timeouts"] == {"joining": 5, "dealing": 6, "round": 7, "confirming": 8}


def test_a_plan_of_names_is_for_simulations_and_says_what_a_network_needs(
    fastlloyd: Command,
) -> None:
    made = fastlloyd(
        "plan", "new", "--simulation", "--client", "a:5", "--client", "b:5", *MECHANISM
    )
    assert made.code == 0
    assert "For simulations only: the plan has no certificate of the server" in made.out
    for command in ("show", "explain"):
        assert re.search(
            "for simulations only", fastlloyd("plan", command, "plan.toml").out, re.IGNORECASE
        )
    machine = json.loads(fastlloyd("plan", "show", "plan.toml", "--json").out)
    assert machine["lacking"].startswith("the plan has no certificate")
    assert machine["server"] == {
        "name": "server",
        "address": None,
        "fingerprint": None,
        "expires": None,
    }


def test_the_digest_alone_is_on_stdout_with_a_page_or_without(parties: Command) -> None:
    digest = Plan.from_toml(Path("plan.toml").read_text()).digest.hex()
    assert parties("plan", "digest", "plan.toml") == Outcome(0, digest + "\n", "")
    done = parties("plan", "digest", "plan.toml", "--page", "page.txt")
    assert (done.code, done.out) == (0, digest + "\n")
    assert "page.txt" in done.err
    assert in_groups(digest) in " ".join(Path("page.txt").read_text().split())
    refused(parties("plan", "digest", "plan.toml", "--page", "page.txt"), "page.txt exists already")
    assert parties("plan", "digest", "plan.toml", "--page", "page.txt", "--force").code == 0
    refused(
        parties("plan", "digest", "plan.toml", "--page", "plan.toml", "--force"), "not replaced"
    )
    refused(parties("plan", "digest", "plan.toml", "--force"), "--page")


def test_renewing_puts_new_public_files_in_the_place_of_old_ones(parties: Command) -> None:
    parties("keygen", "--name", "b", "--out", "new")
    done = parties(
        "plan", "renew", "plan.toml", "--member", "new/b.public.toml", "--round-timeout", "9"
    )
    assert done.code == 0
    old, new = (Plan.from_toml(Path(name).read_text()) for name in ("plan.toml", "renewed.toml"))
    assert new.digest.hex() in done.out
    assert "spends its epsilon again" in done.out
    assert new.run_id != old.run_id
    assert new.clients[1] == PublicIdentity.load(Path("new/b.public.toml")).client(50)
    assert (new.clients[0], new.clients[2], new.server, new.mechanism) == (
        old.clients[0], old.clients[2], old.server, old.mechanism)  # fmt: skip
    assert (new.timeouts.round, new.timeouts.joining) == (9, 3600)
    new.check_networked()


def test_renewing_leaves_clients_out(parties: Command) -> None:
    assert parties("plan", "renew", "plan.toml", "--leave-out", "a", "--out", "two.toml").code == 0
    assert Plan.from_toml(Path("two.toml").read_text()).names == ("b", "c")


def test_a_plan_in_which_someone_has_expired_meanwhile_says_so_when_it_is_renewed(
    parties: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(UTC) + timedelta(days=400)
    for name in ("a", "b", "sums"):  # c does nothing
        parties("keygen", "--name", name, "--out", "new", "--expires", "500")
    monkeypatch.setattr(identity, "datetime", SimpleNamespace(now=lambda _: later))
    monkeypatch.setattr(plan_module, "datetime", SimpleNamespace(now=lambda _: later))
    renewing = (
        "plan",
        "renew",
        "plan.toml",
        "--server",
        "new/sums.public.toml",
        "--member",
        "new/a.public.toml",
    )
    done = parties(*renewing, "--member", "new/b.public.toml")
    assert done.code == 0
    assert "For simulations only: the certificate of 'c' expired on" in done.out
    refused(
        parties("plan", "renew", "plan.toml", "--member", "keys/a.public.toml", "--out", "x"),
        "'a' expired on",
    )
    refused(parties(*NEW, "--out", "x"), "expired on")


@pytest.fixture
def spoiled(parties: Command) -> Command:
    """Beside good files one that was changed and one that was cut off."""
    text = Path("keys/a.public.toml").read_text()
    Path("changed.toml").write_text(text.replace('name = "a"', 'name = "x"'))
    Path("cut.toml").write_text(text[:200])
    return parties


REFUSED = {
    "no clients": (("plan", "new", *MECHANISM), "a plan needs clients"),
    "a member without a cap": ((*NEW, "--member", "keys/a.public.toml"), "FILE:CAP"),
    "a member with an odd cap": ((*NEW, "--member", "keys/a.public.toml:-5"), "FILE:CAP"),
    "a member that is not there": ((*NEW, "--member", "none.toml:5"), "none.toml cannot be read"),
    "a member twice": ((*NEW, "--member", "keys/a.public.toml:5"), "two clients have the name 'a'"),
    "a member that is private": ((*NEW, "--member", "keys/a.identity.toml:5"), "must not leave its owner; give"),
    "a member that was changed": ((*NEW, "--member", "changed.toml:5"), "changed.toml"),
    "a member that was cut off": ((*NEW, "--member", "cut.toml:5"), "cut.toml"),
    "a plan for a member": ((*NEW, "--member", "plan.toml:5"), "plan.toml"),
    "a server that is private": ((*UNSERVED, "--server", "keys/sums.identity.toml", *ADDRESS), "is a private identity"),
    "a server that is a client": ((*UNSERVED, "--server", "keys/a.public.toml", *ADDRESS), "are both called 'a'"),
    "no address": ((*UNSERVED, *SERVER, "--address", "here"), "server address 'here' is not HOST:PORT"),
    "no server": (UNSERVED, "a plan needs --server"),
    "no address for clients": ((*UNSERVED, *SERVER), "a plan needs --address HOST:PORT"),
    "a client by its name": ((*NEW, "--client", "d:5"), "client 'd' needs its public file, --member FILE:CAP"),
    "a simulation with a server": ((*NEW, "--simulation"), "leave out --simulation, or --server"),
    "half the clients are enough": (
        ("plan", "new", "--simulation", *(f"--client={name}:5" for name in "abcd"), *MECHANISM, "--max-dropouts", "2",
         "--masks", "pairwise"),
        "max_dropouts is 2 of 4 clients; expected at most 1"),
    "no time at all": ((*NEW, "--round-timeout", "0"), "the timeout of round is 0 s; expected 1 to 604800"),
    "too much time": ((*NEW, "--joining-timeout", "604801"), "the timeout of joining is 604801 s"),
    "time in words": ((*NEW, "--joining-timeout", "soon"), "--joining-timeout"),
    "renewing no plan": (("plan", "renew", "none.toml"), "none.toml"),
    "renewing in place": (("plan", "renew", "plan.toml", "--out", "plan.toml"), "plan.toml exists already"),
    "renewing over keys": (("plan", "renew", "plan.toml", "--out", "keys/a.identity.toml", "--force"), "not replaced"),
    "renewing with a stranger": (("plan", "renew", "plan.toml", "--member", "keys/sums.public.toml"), "'sums' is unknown"),
    "leaving out a stranger": (("plan", "renew", "plan.toml", "--leave-out", "d"), "client 'd' is unknown"),
    "leaving out too many": (
        ("plan", "renew", "plan.toml", "--leave-out", "a", "--leave-out", "b"), "no share of noise is left"),
    "a digest of no plan": (("plan", "digest", "keys/a.public.toml"), "keys/a.public.toml"),
    "a page nowhere": (("plan", "digest", "plan.toml", "--page", "none/page.txt"), "none/page.txt"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_nonsense_about_parties_is_refused_in_a_sentence_and_nothing_is_written(
    spoiled: Command, case: str
) -> None:
    arguments, fragment = REFUSED[case]
    if arguments[:2] == ("plan", "new"):
        arguments = (*arguments, "--out", "other.toml")
    before = tree()
    refused(spoiled(*arguments), fragment)
    assert tree() == before
