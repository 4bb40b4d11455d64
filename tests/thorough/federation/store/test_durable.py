"""A step is durable as a whole or not at all, in one order, by one process, and what a run's end
wipes is gone.
"""

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clone import SUPPORT
from fastlloyd.errors import StateError
from fastlloyd.federation.store import LogPosition, Role, Store, read
from fastlloyd.federation.store import files as layout
from fastlloyd.federation.store.events import (
    MAX_SECONDS,
    Event,
    ExchangeCharged,
    LimitSet,
    Outcome,
    PeerSeen,
    encode,
    first_head,
)
from fastlloyd.federation.store.head_file import head_path
from fastlloyd.federation.store.key_file import keys_path
from fastlloyd.federation.store.lock import InUseError
from fastlloyd.federation.store.sealed import Sealed
from stores import OWNER, copy_store, new_store, reserved, run_id, seen, upload

A, B = run_id(1), run_id(2)
LIMIT = LimitSet(dataset="patients", epsilon=1.0, delta=1e-6)
KEY = b"a private key of thirty-two byte"


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def occurs(secret: bytes, folder: Path) -> bool:
    return any(secret in path.read_bytes() for path in files_of(folder))


# What comes back is what was made durable


@settings(max_examples=30)
@given(st.data())
def test_after_any_sequence_of_steps_and_openings_the_store_holds_exactly_these_steps(
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        store = opened.enter_context(new_store(Path(folder)))
        events: list[Event] = []
        messages: dict[bytes, list[bytes]] = {run_id(n): [] for n in range(3)}
        secrets: dict[tuple[bytes, str], bytes] = {}
        for _ in range(data.draw(st.integers(0, 12))):
            if data.draw(st.integers(0, 3)) == 0:
                store.close()
                store = opened.enter_context(
                    Store.open(store.path, role=Role.CLIENT, identity=OWNER)
                )
            step, sent, kept = _any_step(store, data)
            store.append(step, messages=sent, secrets=kept)
            events += step
            secrets |= kept
            for run, known in store.history.runs.items():
                messages[run] += (
                    sent if any(getattr(event, "run_id", b"") == run for event in step) else []
                )
                if known.ended is not None:
                    messages[run] = []
                    secrets = {name: secret for name, secret in secrets.items() if name[0] != run}
        for _ in range(2):
            assert list(store.events()) == events == read(store.path)[1]
            assert all(store.messages(run) == messages[run] for run in messages)
            assert all(
                store.secrets(run)
                == {name: kept for (of, name), kept in secrets.items() if of == run}
                for run in messages
            )
            assert [store.head_at(length) for length in range(len(events) + 1)] == _heads(
                store, events
            )
            assert store.position == LogPosition(len(events), _heads(store, events)[-1])
            store.close()
            store = opened.enter_context(Store.open(store.path))


def _any_step(
    store: Store, data: st.DataObject
) -> tuple[list[Event], list[bytes], dict[tuple[bytes, str], bytes]]:
    """A step that may follow: of one of three runs, or a limit."""
    run = run_id(data.draw(st.integers(0, 2)))
    known = store.history.runs.get(run)
    if known is None:
        return [reserved(run)], [], {(run, "key"): data.draw(st.binary(min_size=1, max_size=64))}
    if known.ended is not None:
        return [LIMIT], [], {}
    number = data.draw(st.integers(1, 4))
    if number in known.uncharged:
        event, message = upload(run, number, data.draw(st.binary(max_size=6000)))
        return [event, ExchangeCharged(run_id=run, number=number)], [message], {}
    return [known.end(Outcome.ABORTED, "a test")], [], {}


def _heads(store: Store, events: list[Event]) -> list[bytes]:
    """The chain by its definition."""
    with closing(sqlite3.connect(store.path)) as connection:
        ((salt,),) = connection.execute("SELECT salt FROM store").fetchall()
        times = connection.execute("SELECT seconds FROM events ORDER BY number").fetchall()
    heads = [hashlib.sha256(b"fastlloyd/v1/storeclient\0" + OWNER + salt).digest()]
    for event, (seconds,) in zip(events, times, strict=True):
        text = heads[-1] + seconds.to_bytes(8, "big") + encode(event)
        heads.append(hashlib.sha256(b"fastlloyd/v2/event" + text).digest())
    return heads


def test_no_two_stores_have_a_head_in_common(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with new_store(tmp_path / "one") as one, new_store(tmp_path / "two") as two:
        for store in (one, two):
            store.append([LIMIT])
        assert {one.head_at(0), one.head_at(1)}.isdisjoint({two.head_at(0), two.head_at(1)})
    assert len({first_head(role, OWNER, bytes(16)) for role in Role}) == len(Role)


# Before or after, never between


def _torn(
    folder: Path, position: LogPosition, before: int, lengths: range, head: bytes
) -> set[int]:
    """Open a copy whose write-ahead log ends after each of these falling lengths; which numbers of
    events were found.

    head : the head file as it was before the step that was cut off.
    """
    original, log, _, _, _ = layout.files(folder / "clinic-a.store")
    copy, copied_log, index, copied_head, _ = layout.files(folder / "copy" / "clinic-a.store")
    copy.parent.mkdir()
    copied_head.write_bytes(head)
    shutil.copyfile(original, copy)
    copy.chmod(0o600)
    shutil.copyfile(log, copied_log)
    found = set()
    for length in lengths:
        os.truncate(copied_log, length)
        index.unlink(missing_ok=True)
        contents, events = read(copy)
        assert len(events) == contents.position.length
        assert contents.position.length in (before, position.length)
        assert (contents.position == position) == (contents.position.length == position.length)
        found.add(contents.position.length)
    return found


def test_a_log_cut_off_at_any_byte_of_the_last_step_holds_the_state_before_or_after(
    tmp_path: Path,
) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        start, head = layout.files(store.path)[1].stat().st_size, head_path(store.path).read_bytes()
        store.append([LIMIT])
        end = layout.files(store.path)[1].stat().st_size
        assert end > start
        assert _torn(tmp_path, store.position, 1, range(end, start - 1, -1), head) == {1, 2}


def test_a_step_of_events_messages_and_secrets_is_never_there_in_part(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        start, head = layout.files(store.path)[1].stat().st_size, head_path(store.path).read_bytes()
        event, message = upload(A, 1, bytes(9000))
        store.append(
            [reserved(A), event, ExchangeCharged(run_id=A, number=1)],
            messages=[message],
            secrets={(A, "key"): KEY},
        )
        end = layout.files(store.path)[1].stat().st_size
        assert _torn(tmp_path, store.position, 1, range(end, start - 1, -97), head) == {1, 4}


def test_a_wipe_that_was_cut_off_is_before_or_after_too(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        event, message = upload(A, 1, bytes(9000))
        store.append(
            [reserved(A), event, ExchangeCharged(run_id=A, number=1)],
            messages=[message],
            secrets={(A, "key"): KEY},
        )
        start, head = layout.files(store.path)[1].stat().st_size, head_path(store.path).read_bytes()
        with closing(sqlite3.connect(store.path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM events").fetchall()  # keeps the log from being cut off
            store._connection.execute("PRAGMA busy_timeout = 1")
            store.append([store.history.runs[A].end(Outcome.FINISHED)])
        end = layout.files(store.path)[1].stat().st_size
        assert _torn(tmp_path, store.position, 3, range(end, start - 1, -97), head) == {3, 4}


def test_a_process_that_is_killed_leaves_the_steps_it_had_committed(tmp_path: Path) -> None:
    with _other_process(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Store.open(tmp_path / "clinic-a.store") as store:
        assert list(store.events()) == [LIMIT]


@pytest.mark.parametrize("n_told", [1, 4, 9])
def test_a_process_that_is_killed_while_it_commits_leaves_all_it_said_was_durable(
    tmp_path: Path, n_told: int
) -> None:
    """Wherever the kill falls: between two steps, in one, or between a run's end and the
    destruction of its key.
    """
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\nfrom stores import"
        " new_store, reserved, run_id\nfrom fastlloyd.federation.store.events import Outcome\nstore"
        " = new_store(Path(sys.argv[2]))\nfor number in range(250):\n    run = run_id(number)\n   "
        " store.append([reserved(run)], secrets={(run, 'key'): b'secret of run ' +"
        " str(number).encode() * 9})\n   "
        " store.append([store.history.runs[run].end(Outcome.ABORTED)])\n   "
        " print(store.position.length, flush=True)\n"
    )
    tests = str(SUPPORT)
    command = [sys.executable, "-c", program, tests, str(tmp_path)]
    # our own program
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(n_told)]
        process.kill()
    with Store.open(tmp_path / "clinic-a.store") as store:
        assert told == list(range(2, 2 * n_told + 1, 2))
        assert store.position.length >= told[-1]
        n_open = sum(run.ended is None for run in store.history.runs.values())
        assert n_open == store.position.length % 2
        assert not occurs(b"secret of run ", tmp_path)
        assert any(keys_path(store.path).read_bytes()) == (n_open > 0)


# One process


class _other_process:  # noqa: N801 - reads as a function
    """Another process that makes a store, appends LIMIT to it and holds it until it is told to
    end.
    """

    def __init__(self, folder: Path) -> None:
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path\n"
            "from stores import new_store\n"
            "from fastlloyd.federation.store.events import LimitSet\n"
            "store = new_store(Path(sys.argv[2]))\n"
            "store.append([LimitSet(dataset='patients', epsilon=1.0, delta=1e-6)])\n"
            "print('ready', flush=True)\n"
            "sys.stdin.read()\n"
        )
        tests = str(SUPPORT)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, tests, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> "subprocess.Popen[bytes]":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_second_process_is_refused_and_let_in_when_the_first_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "clinic-a.store"
    with _other_process(tmp_path) as process:
        with pytest.raises(InUseError):
            Store.open(path)
        assert read(path)[1] == [LIMIT]  # who only reads is let in
        process.kill()
        process.wait()
        with Store.open(path) as store:
            store.append([LIMIT])


def test_a_store_is_open_once_in_a_process_too(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        with pytest.raises(InUseError):
            Store.open(store.path)
        with pytest.raises(InUseError):
            new_store(tmp_path)
    Store.open(store.path).close()


def test_reading_sees_each_step_of_the_process_that_writes(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        for length in range(4):
            contents, events = read(store.path)
            assert contents.position == store.position
            assert events == [LIMIT] * length
            store.append([LIMIT])


# What is wiped is gone


def test_what_a_run_kept_and_recorded_is_in_no_file_before_its_end_or_after(tmp_path: Path) -> None:
    others_key, payload = b"the key of a run that still goes", os.urandom(9000)
    with new_store(tmp_path) as store:
        event, message = upload(A, 1, payload)
        store.append(
            [reserved(A), event, ExchangeCharged(run_id=A, number=1)],
            messages=[message],
            secrets={(A, "key"): KEY},
        )
        store.append([reserved(B)], secrets={(B, "key"): others_key})
        assert store.messages(A) == [message]
        assert store.secrets(A) == {"key": KEY}
        assert not any(
            occurs(secret, tmp_path) for secret in (KEY, others_key, payload[:64], payload[-64:])
        )
        store.append([store.history.runs[A].end(Outcome.FINISHED)])
        _only_the_other_run_is_left(store, payload, others_key)
    with Store.open(store.path) as store:
        _only_the_other_run_is_left(store, payload, others_key)


def _only_the_other_run_is_left(store: Store, payload: bytes, others_key: bytes) -> None:
    assert store.secrets(A) == {}
    assert store.messages(A) == []
    assert store.secrets(B) == {"key": others_key}
    assert not any(
        occurs(secret, store.path.parent)
        for secret in (KEY, payload[:64], payload[-64:], payload[4000:4064])
    )


def test_a_step_that_records_and_ends_leaves_nothing_either(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([reserved(A)], secrets={(A, "key"): KEY})
        event, message = upload(A, 1, b"0123456789abcdef" * 8)
        store.append([event, store.history.runs[A].end(Outcome.ABORTED, "x")], messages=[message])
        assert not occurs(message, tmp_path)
        assert not occurs(KEY, tmp_path)


# Failures


def test_when_the_disk_is_full_the_step_is_not_taken_and_no_other_after_it(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        position = store.position
        event, message = upload(A, 1, bytes(100_000))
        with pytest.raises(StateError, match="disk is full"):
            store.append([reserved(A), event], messages=[message], secrets={(A, "key"): KEY})
        with pytest.raises(StateError, match="no further step"):
            store.append([LIMIT])
        assert store.position == position
        assert A not in store.history.runs
        assert list(store.events()) == [LIMIT]
    with Store.open(store.path) as store:
        assert store.position == position
        assert store.secrets(A) == {}
        store.append([LIMIT])


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are POSIX")
def test_when_the_file_system_refuses_a_write_the_step_is_not_taken(tmp_path: Path) -> None:
    """The limit on the size of files stands for a disk that ends in the middle of a write to the
    log.
    """
    program = (
        "import resource, sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\nfrom"
        " stores import new_store, reserved, run_id, upload\nfrom fastlloyd.errors import"
        " StateError\nfrom fastlloyd.federation.store.events import LimitSet\nstore ="
        " new_store(Path(sys.argv[2]))\nlimit = LimitSet(dataset='patients', epsilon=1.0,"
        " delta=1e-6)\nstore.append([limit])\nfile = store._sealed._file\nfile._open(64)\nlog = Path(sys.argv[2]) /"
        " 'clinic-a.store-wal'\nresource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size +"
        " 5000, resource.RLIM_INFINITY))\nevent, message = upload(run_id(1), 1,"
        " bytes(100_000))\nfor step in ([reserved(run_id(1)), event], [message]), ([limit], []):\n "
        "   try:\n        store.append(step[0], messages=step[1])\n    except StateError as"
        " error:\n        print(error)\nprint(store.position.length, len(list(store.events())))\n"
    )
    tests = str(SUPPORT)
    done = subprocess.run(
        [sys.executable, "-c", program, tests, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    refused, stopped, counts = done.stdout.splitlines()
    assert "the disk" in refused
    assert "no further step after a failure" in stopped
    assert counts == "1 1"
    with Store.open(tmp_path / "clinic-a.store") as store:
        assert list(store.events()) == [LIMIT]


def test_an_interruption_in_a_commit_ends_the_use_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Sealed, "of_secrets", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                store.append([reserved(A)], secrets={(A, "key"): KEY})
        with pytest.raises(StateError, match="no further step"):
            store.append([LIMIT])
    with Store.open(store.path) as store:
        assert list(store.events()) == []


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="whoever may write anywhere cannot be refused"
)
def test_a_folder_that_may_not_be_written_is_named_and_can_still_be_read(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StateError, match="check the permissions"):
            Store.open(store.path)
        assert read(store.path)[1] == [LIMIT]
    finally:
        tmp_path.chmod(0o700)


def test_a_step_that_may_not_follow_changes_nothing_and_the_store_goes_on(tmp_path: Path) -> None:
    event, message = upload(A, 1)
    wrong: list[tuple[list[Event], list[bytes], dict[tuple[bytes, str], bytes]]] = [
        ([LIMIT, ExchangeCharged(run_id=B, number=1)], [], {}),
        ([LIMIT, event], [], {}),
        ([LIMIT, event], [message + b"!"], {}),
        ([LIMIT], [message], {}),
        ([LIMIT], [], {(B, "key"): KEY}),
        ([LimitSet(dataset="a name with spaces", epsilon=1.0, delta=0.0)], [], {}),
        ([LimitSet(dataset="x", epsilon=float("nan"), delta=0.0)], [], {}),
        ([PeerSeen(name="c", position=LogPosition(1, bytes(32)))], [], {}),
        # what a caller may get wrong
        ([ExchangeCharged(run_id=A, number="one")], [], {}),  # type: ignore[arg-type]
    ]
    with new_store(tmp_path) as store:
        store.append([reserved(A)])
        for events, messages, secrets in wrong:
            with pytest.raises(StateError):
                store.append(events, messages=messages, secrets=secrets)
            assert store.position.length == 1
        store.append([event], messages=[message])
        assert store.messages(A) == [message]


def test_a_closed_store_takes_no_step_and_closes_twice(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StateError, match="closed"):
        store.append([LIMIT])


# Old copies


def test_an_old_copy_is_known_by_whoever_remembers_more_of_it(tmp_path: Path) -> None:
    with new_store(tmp_path) as store:
        store.append([LIMIT])
        backup = copy_store(store.path, tmp_path / "backup")
        store.append([LIMIT])
        remembered = store.position
        store.check_remembered(remembered, "the server")
        store.check_remembered(LogPosition(0, bytes(32)), "the server")
    copy_store(backup, tmp_path)
    with Store.open(store.path) as store:
        with pytest.raises(StateError, match=r"1 event.*remembers 2"):
            store.check_remembered(remembered, "the server")
        store.append([LimitSet(dataset="patients", epsilon=2.0, delta=1e-6)])
        for _ in range(2):  # also when it has become longer
            with pytest.raises(StateError, match=r"events differ.*2 that"):
                store.check_remembered(remembered, "the server")
            store.append([LIMIT])


def test_a_server_remembers_how_far_it_saw_each_client_and_refuses_less(tmp_path: Path) -> None:
    far, farther, other = (
        LogPosition(5, bytes(32)),
        LogPosition(9, b"h" * 32),
        LogPosition(9, b"i" * 32),
    )
    with new_store(tmp_path, Role.SERVER) as store:
        assert store.history.peers.get("clinic-a") is None
        store.append([seen("clinic-a", far)])
        store.append([seen("clinic-a", farther)])
        assert store.position.length == 2
        for old in (far, other):
            with pytest.raises(StateError, match=r"'clinic-a'.*old copy"):
                store.append([seen("clinic-a", old)])
    with Store.open(store.path, role=Role.SERVER, identity=OWNER) as store:
        assert store.history.peers.get("clinic-a") == farther


# Times of events


def test_every_event_has_the_time_of_its_step_and_a_clock_that_jumps_back_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = (1_700_000_000.9, 5.0, -3.0, 1e300)
    with new_store(tmp_path) as store:
        for now in times:
            monkeypatch.setattr(time, "time", lambda now=now: now)
            store.append([LIMIT])
    contents, _ = read(store.path)
    assert contents.seconds == (1_700_000_000, 5, 0, MAX_SECONDS)
    with Store.open(store.path) as again:
        assert again.position == contents.position
