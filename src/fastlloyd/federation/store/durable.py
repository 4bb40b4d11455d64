"""`Store`: the file in which one party makes a step durable, in one transaction, before anything is
sent.

A committed step survives a power cut, and a step that was not committed never happened. After a
failed commit it is not known which of the two holds. So the object takes no further step, and the
next opening finds the state before or after, never one in between.
"""

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Self

from fastlloyd.errors import OldStoreError, StateError
from fastlloyd.federation.store import files
from fastlloyd.federation.store.contents import Contents, verified
from fastlloyd.federation.store.events import (
    Event,
    LogPosition,
    MessageRecorded,
    Role,
    RunEnded,
    checked,
    decode,
    next_head,
    seconds_now,
)
from fastlloyd.federation.store.files import FINGERPRINT_KEY, FOR_EVER
from fastlloyd.federation.store.head_file import HeadFile
from fastlloyd.federation.store.history import History
from fastlloyd.federation.store.lock import Lock
from fastlloyd.federation.store.sealed import Sealed, Secrets, Text

Row = tuple[int, int, bytes, bytes]
"""Number, seconds, bytes and head of an event."""


class Store:
    """Store of one identity, open in one process. `create` or `open` makes it, `close` or a context
    closes it.

    Its methods may be called from any thread, one after another.

    role, identity : of the owner. The identity is its public signing key, 32 bytes.
    position : number of events, and head of the chain. Head 0 of an empty store is unique too.
    history : fold of the events. Do not change it.
    """

    def __init__(
        self,
        path: Path,
        lock: Lock,
        role: Role | None = None,
        identity: bytes | None = None,
        *,
        whole: bool = True,
    ) -> None:
        self._lock: Lock | None
        self.path, self._lock = path, lock
        self._failure, self._owes_destroying = "", False
        self._one_at_a_time = threading.RLock()
        with ExitStack() as undo:
            undo.callback(lock.release)
            with files.sentences(path):
                self._connection = files.connect(path)
            undo.callback(self._connection.close)
            with verified(self._connection, path, whole=whole) as (self._contents, known):
                self.role, self.identity = self._contents.role, self._contents.identity
                self.check_owner(role, identity)
            with files.sentences(path):
                self._head = HeadFile.of(path, known, self._contents.position)
                undo.callback(self._head.close)
                # destroys the keys that a process left that was killed after the end of a run
                self._sealed = Sealed(path, self._connection, self._contents.history)
            undo.pop_all()
        self._position, self._history = self._contents.position, self._contents.history

    @classmethod
    def create(cls, path: Path, *, role: Role, identity: bytes, patience: float = 0.0) -> Self:
        """Make the store of the party with this public signing key (32 bytes) and open it.

        patience : seconds to wait for another process that has it open.

        Raises StateError if the file exists.
        """
        lock = Lock(path, patience)
        try:
            files.create(path, role=role, identity=identity)
        except BaseException:
            lock.release()
            raise
        return cls(path, lock)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        role: Role | None = None,
        identity: bytes | None = None,
        patience: float = 0.0,
        whole: bool = True,
    ) -> Self:
        """Open a store, verify all of it, and check its role and identity, unless these are None.

        whole : False to verify and read only the part of a ledger after the last `AddedUp`, and the
            events that this names.
        patience : seconds to wait for another process that has it open.

        Raises StateError if another process still has it open, if it is damaged or another party's,
        or if users other than its owner can read it.
        """
        files.check_access(path)
        return cls(path, Lock(path, patience), role, identity, whole=whole)

    def check_owner(self, role: Role | None, identity: bytes | None) -> None:
        """Raise StateError unless the store has this role and identity, if they are given."""
        if role not in (None, self.role):
            raise StateError(f"{self.path} is {self.role.store}; expected {role.store}")
        if identity not in (None, self.identity):
            raise StateError(
                f"{self.path} belongs to the signing key {self.identity.hex()[:16]}..., not to"
                f" {identity.hex()[:16]}...; use the identity that the store was made for"
            )

    @property
    def position(self) -> LogPosition:
        """Number of events, and the head of their chain."""
        return self._position

    @property
    def history(self) -> History:
        """Fold of the events. Do not change it."""
        return self._history

    def head_at(self, length: int) -> bytes:
        """Return the head of the chain after `length` events, 32 bytes. Raises StateError if there
        are fewer.
        """
        if length == 0:
            return self._contents.first_head
        for (head,) in self._rows("SELECT head FROM events WHERE number = ?", length):
            return bytes(head)
        raise StateError(
            f"{self.path} has {self._position.length} events; expected at least {length}"
        )

    def check_remembered(self, remembered: LogPosition, by: str) -> None:
        """Raise OldStoreError if `by` remembers more events of this store than it has, or different
        ones.

        A length of 0 means that nothing is remembered.
        """
        holds = self._position.length
        if remembered.length and (
            remembered.length > holds or self.head_at(remembered.length) != remembered.head
        ):
            if remembered.length > holds:
                raise OldStoreError(
                    f"{self.path} is an old copy: it has {holds} events, and {by} remembers"
                    f" {remembered.length}; bring back the newest copy, or go on under a new"
                    " identity"
                )
            raise OldStoreError(
                f"{self.path} is an old copy: its events differ from the {remembered.length} that"
                f" {by} remembers. If this identity is used on another machine too, go on only"
                " there. Otherwise bring back the newest copy, or go on under a new identity"
            )

    @property
    def began(self) -> int | None:
        """Time of the first event, in seconds since 1970, UTC, or None if there is none."""
        for (seconds,) in self._rows("SELECT seconds FROM events WHERE number = 1"):
            return int(seconds)
        return None

    def events(self) -> Iterator[Event]:
        """Return all events in their order."""
        for (body,) in self._rows("SELECT body FROM events ORDER BY number"):
            yield decode(body)

    def messages(self, run_id: bytes) -> list[bytes]:
        """Return the messages recorded in a run, in order; none once it has ended.

        Raises StateError if their key is lost.
        """
        with self._one_at_a_time, files.sentences(self.path):
            self._sealed.check(run_id)
            return self._sealed.messages(run_id)

    def secrets(self, run_id: bytes) -> dict[str, bytes]:
        """Return the secrets of a run by name; none once it has ended. Raises StateError if their
        key is lost.
        """
        with self._one_at_a_time, files.sentences(self.path):
            self._sealed.check(run_id)
            return self._sealed.secrets(run_id)

    def fingerprint_key(self) -> bytes:
        """Key of fingerprints, 32 bytes, drawn when a client's store was made; it never leaves the
        store.
        """
        for (key,) in self._rows(
            "SELECT bytes FROM secrets WHERE run_id = ? AND name = ?", FOR_EVER, FINGERPRINT_KEY
        ):
            return bytes(key)
        raise StateError(
            f"{self.path} is {self.role.store}, and only a client's store recognises records"
        )

    def append(
        self,
        events: Sequence[Event],
        *,
        messages: Sequence[bytes] = (),
        secrets: Secrets | None = None,
    ) -> None:
        """Make one step durable: all of it is on disk when this returns.

        messages : encoded messages of the `MessageRecorded` events among `events`, in their order.
        secrets : to be kept until their run ends.

        Both are stored sealed, under a key of the run that is durable before them. A `RunEnded`
        deletes all messages and secrets of its run, and after the commit their key is destroyed.

        Raises StateError. If the events may not follow, if the messages do not belong to them, or
        if the key of the run is lost, nothing happens and the store stays usable. If the disk
        fails, the step is not taken, and this object takes no further one.
        """
        with self._one_at_a_time:
            if self._failure:
                raise StateError(
                    f"{self.path} takes no further step after a failure ({self._failure}); start"
                    " again"
                )
            rows = self._chained(events)
            history = self._history.followed_by(events)
            texts = _matched(rows, events, messages)
            for run_id, _ in secrets or {}:
                history.open_run(run_id)
            ended = [event.run_id for event in events if isinstance(event, RunEnded)]
            texts = [text for text in texts if text[1].run_id not in ended]
            for run_id in {
                *(event.run_id for _, event, _ in texts),
                *(run for run, _ in secrets or ()),
            }:
                self._sealed.check(run_id)
            position = LogPosition(rows[-1][0], rows[-1][3]) if rows else self._position
            try:
                with files.sentences(self.path):
                    self._commit(rows, texts, secrets or {}, ended)
                    if rows:
                        self._head.note(position)
            except BaseException as error:
                self._failure = str(error) or type(error).__name__
                with suppress(
                    sqlite3.Error
                ):  # whatever was written without a COMMIT is no part of the file
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                raise
            self._history, self._position = history, position
            if ended:  # the step stands even if this fails; the next opening tries again
                self._owes_destroying = True
                self._destroy_keys()

    def close(self) -> None:
        """Close the store. Raises StateError if the key of a run that has ended is not
        destroyed.
        """
        with self._one_at_a_time:
            if self._lock is None:
                return
            if self._owes_destroying:  # an interruption may have come between
                self._destroy_keys()
            try:
                with files.sentences(self.path), closing(self._head), closing(self._sealed):
                    # brings the log into the file and removes it, unless somebody reads
                    self._connection.close()
            finally:
                self._lock.release()
                self._lock = None
                failed, self._failure = self._failure, self._failure or "the store was closed"
            if self._owes_destroying:
                raise StateError(
                    f"{self._sealed.keys_path} still holds the key of a run that has ended"
                    f" ({failed}); open the store again, which destroys it"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _destroy_keys(self) -> None:
        """Destroy the keys of runs that have ended; a failure stops all further steps."""
        try:
            with files.sentences(self.path):
                self._sealed.destroy_keys(self._history)
            self._owes_destroying = False
        except StateError as error:
            self._failure = str(error)

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with self._one_at_a_time, files.sentences(self.path):
            return self._connection.execute(statement, values).fetchall()

    def _chained(self, events: Sequence[Event]) -> list[Row]:
        rows, head, seconds = [], self._position.head, seconds_now()
        for number, event in enumerate(events, self._position.length + 1):
            body = checked(event)
            head = next_head(head, seconds, body)
            rows.append((number, seconds, body, head))
        return rows

    def _commit(
        self, rows: list[Row], texts: list[Text], secrets: Secrets, ended: list[bytes]
    ) -> None:
        execute = self._connection.execute
        messages = self._sealed.of_messages(texts)  # the key of a run is durable from here on
        kept = self._sealed.of_secrets(secrets)
        execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
        self._connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", messages)
        self._connection.executemany("INSERT INTO secrets VALUES (?, ?, ?, ?)", kept)
        for run_id in ended:
            execute("DELETE FROM messages WHERE run_id = ?", (run_id,))
            execute("DELETE FROM secrets WHERE run_id = ?", (run_id,))
        execute("COMMIT")


def read(path: Path) -> tuple[Contents, list[Event]]:
    """Verify a store and read its events without writing, even while another process uses it."""
    with (
        files.sentences(path),
        closing(files.connect_to_read(path)) as connection,
        verified(connection, path) as (contents, _),
    ):
        return contents, [
            decode(body)
            for (body,) in connection.execute("SELECT body FROM events ORDER BY number")
        ]


def _matched(rows: Sequence[Row], events: Sequence[Event], messages: Sequence[bytes]) -> list[Text]:
    """Return number, event and bytes of each message. Raises StateError if the bytes do not match
    the event.
    """
    recorded = [
        (row[0], event)
        for row, event in zip(rows, events, strict=True)
        if isinstance(event, MessageRecorded)
    ]
    if len(recorded) != len(messages):
        raise StateError(
            f"{len(recorded)} messages must be recorded, but {len(messages)} were given"
        )
    for (_, event), data in zip(recorded, messages, strict=True):
        if hashlib.sha256(data).digest() != event.digest:
            raise StateError(
                f"a {event.kind} cannot be recorded, because its bytes do not match its event"
            )
    return [(number, event, data) for (number, event), data in zip(recorded, messages, strict=True)]
