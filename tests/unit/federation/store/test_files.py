"""A store that was changed, swapped, or is none is found out when it is opened, and other programs'
files stay as they are.
"""

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fastlloyd.errors import NO_STORE, StateError
from fastlloyd.federation.store import Role, Store, read, store_path
from fastlloyd.federation.store.events import Event, ExchangeCharged, LimitSet, Outcome, encode
from refusals import raises_code
from stores import OWNER, new_store, reserved, run_id, unguarded, upload

A, B = run_id(1), run_id(2)
LIMIT = LimitSet(dataset="patients", epsilon=1.0, delta=1e-6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one run that has ended, and one that has not and has a message and a key."""
    with new_store(tmp_path) as store:
        store.append([reserved(A), ExchangeCharged(run_id=A, number=2)])
        store.append([store.history.runs[A].end(Outcome.ABORTED, "nobody came")])
        event, message = upload(B, 1)
        step: list[Event] = [reserved(B), event, ExchangeCharged(run_id=B, number=1), LIMIT]
        store.append(
            step, messages=[message], secrets={(B, "key"): b"a key of thirty-two bytes, or so"}
        )
    return store.path


# Tampering


def test_any_changed_byte_of_an_event_is_found(path: Path) -> None:
    content = path.read_bytes()
    for event in read(path)[1]:
        body = encode(event)
        start = content.index(body)
        assert content.count(body) == 1
        for at in range(start, start + len(body)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(StateError, match="is damaged"):
                read(path)
    path.write_bytes(content)
    assert read(path)[0].position.length == 7


def test_a_definition_that_is_no_text_is_found(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE messages", b"CREATE TABLE \x83essages"))
    with pytest.raises(StateError, match=r"damaged|changed by another"):
        read(path)


def test_a_changed_byte_anywhere_in_the_file_is_found_or_changes_nothing(path: Path) -> None:
    content, whole = path.read_bytes(), read(path)
    found = 0
    for at in range(0, len(content), 37):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            again = read(path)
        except StateError:
            found += 1
        else:
            assert (again[0].position, again[0].identity, again[1]) == (
                whole[0].position,
                whole[0].identity,
                whole[1],
            )
    assert found > 0


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE events SET body = (SELECT body FROM events WHERE number = 7) WHERE number = 3",
            "breaks at event 3",
        ),
        ("UPDATE events SET head = zeroblob(32) WHERE number = 7", "breaks at event 7"),
        ("UPDATE events SET body = 'text' WHERE number = 1", "damaged"),
        ("UPDATE secrets SET name = x'00' WHERE name = 'key'", "damaged"),
        ("DELETE FROM events WHERE number = 1", "breaks at event 1"),
        (
            "INSERT INTO events SELECT number + 1, seconds, body, head FROM events WHERE number = 7",
            "breaks at event 8",
        ),
        ("UPDATE store SET salt = zeroblob(16)", "breaks at event 1"),
        ("UPDATE store SET identity = zeroblob(32)", "breaks at event 1"),
        ("UPDATE store SET role = 'server'", "breaks at event 1"),
        ("UPDATE store SET role = 'pope'", "its owner cannot be read"),
        ("DELETE FROM store", "one owner"),
        ("DELETE FROM messages", "the message of event 5 is missing"),
        ("UPDATE messages SET bytes = zeroblob(9)", "the message of event 5 is not"),
        ("UPDATE messages SET run_id = zeroblob(16)", "the message of event 5 is not"),
        (
            "INSERT INTO messages SELECT 1, run_id, bytes, digest FROM messages",
            "a message of event 1",
        ),
        (
            "INSERT INTO messages SELECT 99, run_id, bytes, digest FROM messages",
            "has no event",
        ),
        (
            "UPDATE secrets SET bytes = zeroblob(32) WHERE name = 'key'",
            "a secret is not",
        ),
        ("UPDATE secrets SET run_id = zeroblob(15) WHERE name = 'key'", "a run that is not open"),
        ("CREATE TABLE more (x)", "changed by another program"),
        ("DROP TABLE secrets", "changed by another program"),
        ("PRAGMA user_version = 2", "has format 2"),
        ("PRAGMA user_version = 4", "has format 4"),
        ("UPDATE events SET seconds = seconds + 1 WHERE number = 7", "breaks at event 7"),
        ("UPDATE events SET seconds = -1 WHERE number = 7", "an impossible time"),
        ("UPDATE events SET seconds = 'soon' WHERE number = 7", "damaged"),
        ("PRAGMA application_id = 3", "not a store"),
    ],
)
def test_whatever_does_not_fit_together_is_refused_by_name(
    path: Path, statement: str, said: str
) -> None:
    with unguarded(path) as connection:
        connection.execute(statement)
    with pytest.raises(StateError, match=said):
        Store.open(path)
    with pytest.raises(StateError, match=said):
        read(path)


def test_a_store_without_its_guards_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER events_UPDATE")
    with pytest.raises(StateError, match="changed by another"):
        Store.open(path)


@pytest.mark.parametrize("table", ["events", "store"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET rowid = 9"])
def test_events_and_owner_are_refused_a_change(path: Path, table: str, statement: str) -> None:
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="never change"),
    ):
        connection.execute(statement.format(table))


def test_events_of_another_order_are_another_chain(path: Path, tmp_path: Path) -> None:
    def twin(name: str, *datasets: str) -> bytes:
        (tmp_path / name).mkdir()
        with new_store(tmp_path / name) as store:
            store.append(
                [LimitSet(dataset=dataset, epsilon=1.0, delta=0.0) for dataset in datasets]
            )
            return store.position.head

    assert twin("one", "a", "b") != twin("two", "b", "a")


def test_ten_thousand_events_are_verified(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        for _ in range(10):
            store.append([LIMIT] * 1000)
        position = store.position
    assert position.length == 10_000
    with Store.open(store.path) as store:
        assert store.position == position


# Owners, permissions, other files


def test_a_store_serves_its_owner_only(path: Path) -> None:
    with pytest.raises(StateError, match=r"client; expected.*server"):
        Store.open(path, role=Role.SERVER)
    with pytest.raises(StateError, match=r"belongs.*signing key"):
        Store.open(path, identity=bytes(32))
    Store.open(path, role=Role.CLIENT, identity=OWNER).close()


@pytest.mark.skipif(os.name != "posix", reason="Windows has access lists in place of modes")
def test_nobody_else_may_read_any_file_of_a_store(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        store.append([LIMIT])
        assert {file.name for file in tmp_path.iterdir()} == {
            f"clinic-a.store{end}" for end in ("", "-wal", "-shm", "-head", "-keys", "-lock")
        }
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in tmp_path.iterdir())
    path.chmod(0o640)
    for attempt in (Store.open, read):
        with pytest.raises(StateError, match=r"others \(mode 640\)"):
            attempt(path)


@pytest.mark.skipif(os.name != "posix", reason="links need no privilege on POSIX only")
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_store_with_a_second_name_is_refused_for_it_would_have_a_second_lock(
    path: Path, link: Callable[[Path, Path], None]
) -> None:
    other = path.with_name("other.store")
    link(other, path)
    for attempt in (Store.open, read):
        with pytest.raises(StateError, match="remove the links"):
            attempt(other)


@pytest.mark.parametrize("attempt", [Store.open, read])
def test_where_there_is_no_store_the_sentence_says_why_and_what_to_do(
    tmp_path: Path, attempt: Callable[[Path], object]
) -> None:
    path = tmp_path / "clinic-a.store"

    def said() -> str:
        with pytest.raises(StateError) as refused:
            attempt(path)
        return str(refused.value).removeprefix(f"there is no store {path}")

    assert (
        said()
        == " and no clinic-a.identity.toml beside it: correct the path; the first run with --new-dataset makes a ledger, and so does"
        " `fastlloyd ledger limit --new`. The first use of an identity makes its store"
    )
    (tmp_path / "clinic-a.identity.toml").touch()
    beside = tmp_path / "clinic-a.identity.toml"
    assert (
        said()
        == f" yet: the first use of {beside} makes it, for example `fastlloyd join` or `fastlloyd"
        " serve`"
    )
    path.mkdir()
    assert said() == ", which is a folder; name a file in it, such as clinic-a.store"
    path.rmdir()
    if os.name == "posix":
        os.mkfifo(path)
        assert said() == ", which is not a file; name a file such as clinic-a.store"
        path.unlink()
        path.symlink_to("elsewhere.store")
        assert said() == ", which is a link to something else; name the store itself"


@pytest.mark.parametrize("attempt", [Store.open, read])
@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_a_folder_without_a_name_is_no_store(
    folder: str, attempt: Callable[[Path], object]
) -> None:
    with pytest.raises(StateError, match="a folder; name"):
        attempt(Path(folder))


def test_a_store_is_never_made_over_another(path: Path) -> None:
    content = path.read_bytes()
    with pytest.raises(StateError, match="exists already"):
        new_store(path.parent)
    assert path.read_bytes() == content


def test_what_an_interrupted_making_left_is_replaced(tmp_path: Path) -> None:
    for left in ("clinic-a.store-new", "clinic-a.store-head-new"):
        (tmp_path / left).write_bytes(b"half a file")
    new_store(tmp_path).close()
    assert {file.name for file in tmp_path.iterdir()} == {
        f"clinic-a.store{end}" for end in ("", "-head", "-lock")
    }


@pytest.mark.parametrize("attempt", [Store.open, read])
def test_other_files_are_refused_and_not_touched(
    tmp_path: Path, attempt: Callable[[Path], object]
) -> None:
    with closing(sqlite3.connect(tmp_path / "places.sqlite")) as connection:
        connection.execute("CREATE TABLE places (name)")
        connection.commit()
    (tmp_path / "notes.txt").write_text("not a database " * 100)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    for file, said in [
        ("places.sqlite", "not a store"),
        ("notes.txt", "not a store"),
        ("empty", "not a store"),
    ]:
        (tmp_path / file).chmod(0o600)
        content = (tmp_path / file).read_bytes()
        with pytest.raises(StateError, match=said):
            attempt(tmp_path / file)
        assert (tmp_path / file).read_bytes() == content
    for file in (
        "notes.txt",
        "empty",
    ):  # before anything else is said of it: to change its mode would not help
        (tmp_path / file).chmod(0o644)
        with pytest.raises(StateError, match=r"not a store,.*such.*clinic-a\.store") as caught:
            attempt(tmp_path / file)
        assert "chmod" not in str(caught.value)
    for missing in ("folder", "nothing"):
        with raises_code(StateError, NO_STORE):
            attempt(tmp_path / missing)


def test_an_owner_is_a_public_key_of_32_bytes(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="bytes, got 5"):
        Store.create(tmp_path / "x.store", role=Role.CLIENT, identity=b"short")
    with pytest.raises(StateError, match="is no folder"):
        Store.create(tmp_path / "nowhere" / "x.store", role=Role.CLIENT, identity=OWNER)


def test_a_file_whose_name_needs_quoting_is_opened_under_that_name(tmp_path: Path) -> None:
    odd = tmp_path / "50% of us? #1 & more.store"
    Store.create(odd, role=Role.CLIENT, identity=OWNER).close()
    Store.open(odd).close()
    assert read(odd)[1] == []
    assert {file.name for file in tmp_path.iterdir()} >= {odd.name}


def test_the_store_of_an_identity_lies_beside_it() -> None:
    assert store_path(Path("keys/clinic-a.identity.toml")) == Path("keys/clinic-a.store")
    assert store_path(Path("keys/clinic-a.store")) == Path("keys/clinic-a.store")
