"""What a store keeps of a run is sealed under a key of the run, which is durable before and gone
after; where it is lost, nothing is made up.
"""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.cli.failures import run as run_command
from fastlloyd.errors import StateError
from fastlloyd.federation.store import Role, Store, head_file, key_file, read
from fastlloyd.federation.store.events import ClientJoined, Event, ExchangeCharged, Outcome
from fastlloyd.federation.store.head_file import SPACING
from fastlloyd.federation.store.key_file import N_SLOTS, SLOT_BYTES, keys_path
from stores import copy_store, new_store, reserved, run_id, upload

A, B = run_id(1), run_id(2)
SECRET = b"a private key of thirty-two byte"


def begin(store: Store, run: bytes = A, secret: bytes = SECRET) -> bytes:
    """Begin a run with a message and a secret; the message."""
    event, message = upload(run, 1)
    step: list[Event] = [event, ExchangeCharged(run_id=run, number=1)]
    if store.role is Role.CLIENT:
        store.append([reserved(run), *step], messages=[message], secrets={(run, "key"): secret})
    else:
        store.append([event], messages=[message])
    return message


def end(store: Store, run: bytes = A) -> None:
    store.append([store.history.runs[run].end(Outcome.FINISHED)])


def slots(path: Path) -> list[bytes]:
    content = keys_path(path).read_bytes()
    assert len(content) % SPACING == 0
    return [content[at : at + SLOT_BYTES] for at in range(0, len(content), SPACING)]


def n_keys(path: Path) -> int:
    return sum(any(slot) for slot in slots(path))


# One key for each open run


def test_each_open_run_has_a_key_of_its_own_which_its_end_destroys(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        runs = [run_id(number) for number in range(N_SLOTS + 2)]
        messages = {run: begin(store, run) for run in runs}
        keys = {slot for slot in slots(store.path) if any(slot)}
        assert len(keys) == len(runs)
        for number, run in enumerate(runs, 1):
            end(store, run)
            assert n_keys(store.path) == len(runs) - number
            assert (store.messages(run), store.secrets(run)) == ([], {})
            for other in runs[number:]:
                assert store.messages(other) == [messages[other]]
                assert store.secrets(other) == {"key": SECRET}
        assert not any(keys_path(store.path).read_bytes())
        begin(store, run_id(99))
        assert n_keys(store.path) == 1
        assert not keys.intersection(slots(store.path))
    with Store.open(store.path) as store:
        assert store.secrets(run_id(99)) == {"key": SECRET}


def test_a_store_without_messages_has_no_file_of_keys(tmp_path: Path) -> None:
    with new_store(tmp_path, Role.HOLDER) as store:
        store.append([reserved(A)])
    Store.open(store.path).close()
    assert not keys_path(store.path).exists()


def test_a_server_draws_a_key_for_its_first_message_and_not_for_who_joined(tmp_path: Path) -> None:
    with new_store(tmp_path, Role.SERVER) as store:
        store.append([ClientJoined(run_id=A, client="c0")])
        assert not keys_path(store.path).exists()
        message = begin(store)
        assert n_keys(store.path) == 1
    with Store.open(store.path) as store:
        assert store.messages(A) == [message]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_nobody_else_may_read_the_keys(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        begin(store)
    keys = keys_path(store.path)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    keys.chmod(0o640)
    with pytest.raises(StateError, match=r"keys.*others \(mode 640\)"):
        Store.open(store.path)
    keys.chmod(0o600)
    keys.rename(tmp_path / "elsewhere")
    keys.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be used"):
        Store.open(store.path)
    keys.unlink()
    keys.hardlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="has hard links"):
        Store.open(store.path)


@pytest.mark.parametrize("role", [Role.CLIENT, Role.SERVER])
def test_a_run_that_begins_again_has_another_key(role: Role, tmp_path: Path) -> None:
    keys = []
    with new_store(tmp_path, role) as store:
        for _ in range(2):
            event, message = upload(A, 1)
            first = [reserved(A)] if role is Role.CLIENT else []
            store.append([*first, event], messages=[message])
            keys += [slot for slot in slots(store.path) if any(slot)]
            if len(keys) == 1:
                store.append([store.history.runs[A].end(Outcome.ABORTED)])
                assert n_keys(store.path) == 0
    assert len(set(keys)) == 2
    with Store.open(store.path) as store:
        assert store.messages(A) == [message]


# What the seal binds


@contextmanager
def tampered(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()


ROW = "UPDATE {0} SET (bytes, digest) = (SELECT bytes, digest FROM {1} WHERE {2}) WHERE {3}"


@pytest.mark.parametrize(
    "statement",
    [
        ROW.format("messages", "messages", "number = 4", "number = 2"),
        ROW.format("messages", "secrets", "name = 'key'", "number = 2"),
        ROW.format("secrets", "secrets", "name = 'other'", "name = 'key'"),
        "UPDATE secrets SET name = 'renamed' WHERE name = 'key'",
    ],
)
def test_no_sealed_row_stands_in_for_another(statement: str, tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        begin(store)
        event, message = upload(A, 2)
        store.append([event], messages=[message], secrets={(A, "other"): SECRET})
    with tampered(store.path) as connection:
        connection.execute(statement)
    with Store.open(store.path) as store, pytest.raises(StateError, match="the wrong key"):
        store.secrets(A)


def test_the_same_content_is_never_sealed_alike(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        event, message = upload(A, 1)
        store.append([reserved(A)])
        for _ in range(50):
            store.append([event], messages=[message])
        rows = store._rows("SELECT bytes FROM messages")
    assert (
        len({sealed[:12] for (sealed,) in rows}) == len({sealed[12:] for (sealed,) in rows}) == 50
    )


def test_events_are_verified_when_the_key_is_gone_and_while_it_is_lost(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        begin(store)
    keys_path(store.path).unlink()
    assert read(store.path)[0].position == store.position
    assert run_command(["ledger", "verify", str(store.path)]) == 0
    with Store.open(store.path) as store:
        end(store)
    assert read(store.path)[0].position == store.position


# A lost key


def _lose(path: Path) -> None:
    keys_path(path).unlink()


def _tear(path: Path) -> None:
    content = bytearray(keys_path(path).read_bytes())
    content[SLOT_BYTES // 2 : SLOT_BYTES] = bytes(SLOT_BYTES - SLOT_BYTES // 2)
    keys_path(path).write_bytes(content)


def _cut(path: Path) -> None:
    keys_path(path).write_bytes(keys_path(path).read_bytes()[: SLOT_BYTES // 2])


def _flip(path: Path) -> None:
    content = bytearray(keys_path(path).read_bytes())
    content[SLOT_BYTES // 2] ^= 1
    keys_path(path).write_bytes(content)


def _empty(path: Path) -> None:
    keys_path(path).write_bytes(b"")


def _foreign(path: Path) -> None:
    (path.parent / "foreign").mkdir()
    with new_store(path.parent / "foreign") as other:
        begin(other)
    keys_path(path).write_bytes(keys_path(other.path).read_bytes())


def _of_another_run(path: Path) -> None:
    (path.parent / "foreign").mkdir()
    with new_store(path.parent / "foreign") as other:
        begin(other, B)
    keys_path(path).write_bytes(keys_path(other.path).read_bytes())


HARM: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (_lose, "has no key"),
    "empty": (_empty, "has no key"),
    "torn": (_tear, "is damaged and has no key"),
    "cut off": (_cut, "is damaged and has no key"),
    "a bit flipped": (_flip, "is damaged and has no key"),
    "of another store": (_foreign, "the wrong key"),
    "of another run": (_of_another_run, "has no key"),
}


@pytest.mark.parametrize("role", [Role.CLIENT, Role.SERVER])
@pytest.mark.parametrize("harm", HARM)
def test_a_lost_key_is_said_never_drawn_anew_and_the_run_can_be_given_up(
    role: Role, harm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_store(tmp_path, role) as store:
        begin(store)
    path, keys = store.path, keys_path(store.path)
    HARM[harm][0](path)
    before = keys.read_bytes() if keys.exists() else b""
    event, message = upload(A, 2)
    with Store.open(path) as store:
        for ask in (
            lambda: store.messages(A),
            lambda: store.secrets(A),
            lambda: store.append([event], messages=[message]),
            lambda: store.append([], secrets={(A, "more"): SECRET}),
        ):
            with pytest.raises(StateError, match=HARM[harm][1]) as refused:
                ask()
            assert f"ledger release {path} --run {A.hex()}" in str(refused.value)
    after = keys.read_bytes() if keys.exists() else b""
    assert after[: len(before)] == before  # nobody writes over what may still be needed
    assert not any(after[len(before) :])
    assert run_command(["ledger", "release", str(path), "--run", A.hex()]) == 0
    assert "is given up" in capsys.readouterr().out
    with Store.open(path) as store:
        assert store.history.runs[A].ended is not None
        assert store.messages(A) == []
        begin(store, B)
    assert not keys.exists() or n_keys(path) == 1


def test_the_key_of_one_run_is_lost_and_another_goes_on(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        begin(store)
        message = begin(store, B)
        begin(store, run_id(3))
    _tear(store.path)
    with Store.open(store.path) as store:
        with pytest.raises(StateError, match=r"damaged.*no key"):
            store.messages(A)
        assert store.messages(B) == [message]
        end(store, B)
        assert n_keys(store.path) == 2  # the torn one is left: it may be what is missing
        end(store, A)
        assert n_keys(store.path) == 1
        assert store.secrets(run_id(3)) == {"key": SECRET}


# Kills at every write


class _Killed(BaseException):
    """The process is gone."""


def _steps(store: Store) -> None:
    begin(store)
    begin(store, B)
    end(store, A)
    event, message = upload(B, 2)
    store.append([event], messages=[message])
    end(store, B)


@contextmanager
def _killed_at(number: int, how: str, store: Store) -> Iterator[list[int]]:
    """Die at the write of this number: of a slot, of the head file, or of a commit."""
    count = [0]
    write, connection = head_file.write_at, store._connection

    def happens(act: Callable[[], Any]) -> Any:
        is_it, count[0] = count[0] == number, count[0] + 1
        if is_it and how == "before":
            raise _Killed
        done = act()
        if is_it:
            raise _Killed
        return done

    def written(descriptor: int, at: int, data: bytes) -> None:
        if count[0] == number and how == "torn":
            write(descriptor, at, data[: len(data) // 2])
            raise _Killed
        happens(lambda: write(descriptor, at, data))

    class Connection:
        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def execute(self, statement: str, *values: Any) -> Any:
            if statement == "COMMIT":
                return happens(lambda: connection.execute(statement))
            return connection.execute(statement, *values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_file, "write_at", written)
        patch.setattr(key_file, "write_at", written)
        patch.setattr(store, "_connection", Connection())
        yield count


@pytest.mark.parametrize("how", ["before", "after", "torn"])
@pytest.mark.parametrize("role", [Role.CLIENT, Role.SERVER])
def test_a_kill_at_any_write_leaves_the_state_before_or_after_and_it_can_be_read(
    role: Role, how: str, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    with new_store(tmp_path / "whole", role) as whole, _killed_at(-1, how, whole) as count:
        _steps(whole)
    assert count[0] == 15  # one makes the file of keys
    lengths = set()
    for number in range(count[0]):
        folder = tmp_path / str(number)
        (folder / "alive").mkdir(parents=True)
        store = new_store(folder / "alive", role)
        with _killed_at(number, how, store), pytest.raises(_Killed):
            _steps(store)
        path = copy_store(store.path, folder)
        with suppress(StateError):
            store.close()
        with Store.open(path) as found:
            lengths.add(found.position.length)
            runs = {run for run, known in found.history.runs.items() if known.is_open}
            for run in runs:
                assert found.messages(run)
                assert role is Role.SERVER or found.secrets(run) == {"key": SECRET}
            assert n_keys(path) == len(runs) if keys_path(path).exists() else not runs
    assert {0, whole.position.length} <= lengths
