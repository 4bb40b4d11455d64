"""Files that editors and mail programs changed: what can be read is read, and what cannot is named
by what happened to it.
"""

import quopri
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from command_line import Command
from fastlloyd.base.files import MARK
from fastlloyd.base.sealed_toml import changed_on_its_way, load_text
from fastlloyd.cli.network import given_passphrase
from fastlloyd.cli.settings import read_plan
from fastlloyd.errors import FastLloydError, IdentityError, PlanError
from fastlloyd.federation.identity.identity import PrivateIdentity, PublicIdentity
from fastlloyd.federation.positions import KnownStore, KnownStoreOf, Positions, SignedPosition

KINDS = ("plan", "public", "identity", "positions")
LOADERS: dict[str, Callable[[Path], object]] = {
    "plan": lambda path: read_plan(path).digest,
    "public": PublicIdentity.load,
    "identity": lambda path: PrivateIdentity.load(path).signing.public,
    "positions": Positions.load,
}


@pytest.fixture
def files(fastlloyd: Command, here: Path) -> dict[str, Path]:
    """One of each kind, of which every text is longer than a line of mail."""
    identity = PrivateIdentity.make("a", datetime.now(UTC).date() + timedelta(days=9))
    paths = {kind: here / f"{kind}.toml" for kind in KINDS}
    identity.save(paths["identity"])
    paths["public"].write_text(identity.public.to_toml())
    signed = SignedPosition.of(3, bytes(32), identity.signing)
    known = KnownStoreOf(
        name="a", signing_key=identity.public.signing_key, store=KnownStore.of(signed)
    )
    paths["positions"].write_text(Positions(clients=(known,)).to_toml())
    server = PrivateIdentity.make("s", datetime.now(UTC).date() + timedelta(days=9))
    (here / "s.public.toml").write_text(server.public.to_toml())
    options = "-k 2 --features age,dose --bounds age=0:9,dose=0:9 --trust server-noise"
    code, _, err = fastlloyd(
        "plan", "new", "--member", "public.toml:500", "--server", "s.public.toml",
        "--address", "s.example:8443", *options.split(), "--out", "plan.toml",
    )  # fmt: skip
    assert code == 0, err
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_of_byte_order_and_windows_ends_of_lines_change_nothing(
    files: dict[str, Path], kind: str
) -> None:
    load, path = LOADERS[kind], files[kind]
    before, content = load(path), path.read_bytes()
    path.write_bytes(MARK + content.replace(b"\n", b"\r\n"))
    assert load(path) == before
    path.write_bytes(MARK + MARK + content)
    with pytest.raises(FastLloydError):
        load(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(files: dict[str, Path], kind: str, encoding: str) -> None:
    path = files[kind]
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(FastLloydError, match=r"as UTF-16.*save this"):
        LOADERS[kind](path)


def _wrapped(text: str) -> str:
    return "\n".join(
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, 72, break_long_words=True) or [""]
    )


MAILS: dict[str, Callable[[str], str]] = {
    "a line was broken in two": _wrapped,
    "its lines begin with >": lambda text: textwrap.indent(text, "> "),
    "codes such as =3D, which some mail programs put in (quoted-printable)": lambda text: (
        quopri.encodestring(text.encode()).decode()
    ),
    "curly ones": lambda text: text.replace('= "', "= \u201e"),
    "a formatted page": lambda text: f"<html><body>{text}</body></html>",
}


@pytest.mark.parametrize("kind", ["plan", "public"])
@pytest.mark.parametrize("how", MAILS)
def test_what_a_mail_program_did_is_named_and_what_to_do(
    files: dict[str, Path], kind: str, how: str
) -> None:
    path = files[kind]
    path.write_text(MAILS[how](path.read_text()))
    with pytest.raises((PlanError, IdentityError)) as raised:
        LOADERS[kind](path)
    assert how in str(raised.value)
    assert "have the file sent as an attachment" in str(raised.value)


def test_a_wrapped_identity_is_named_without_a_word_of_it(files: dict[str, Path]) -> None:
    path = files["identity"]
    text = path.read_text()
    path.write_text(_wrapped(text))
    with pytest.raises(IdentityError, match="line was broken") as raised:
        PrivateIdentity.load(path)
    secret = text.split('private_keys = "')[1][:128]
    assert not any(secret[i : i + 8] in str(raised.value) for i in range(120))


def test_an_identity_behind_a_mark_that_others_can_read_is_refused(files: dict[str, Path]) -> None:
    path = files["identity"]
    path.write_bytes(MARK + path.read_bytes())
    path.chmod(0o644)
    with pytest.raises(IdentityError, match="read or changed"):
        PrivateIdentity.load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_mail_where_no_line_was_touched(
    files: dict[str, Path], kind: str
) -> None:
    assert changed_on_its_way(load_text(files[kind]), kind) == ""


def test_a_passphrase_behind_a_mark_is_the_same_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(MARK + "fünf Wörter\r\n".encode())
    assert given_passphrase(path) == "fünf Wörter"
    path.write_bytes("fünf Wörter\r\n".encode("utf-16"))
    with pytest.raises(IdentityError, match="saved as UTF-16"):
        given_passphrase(path)
