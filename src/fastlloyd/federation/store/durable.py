"""Store in which one party makes each step durable, in one transaction, before it sends anything.

A committed step survives a power cut. A step that was not committed never happened. After a failed
commit it is unknown which of the two is the case. So the object takes no further step, and the next
opening finds the state before or after the step, never one in between.
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
    n_events,
    next_head,
    seconds_now,
)
from fastlloyd.federation.store.head_file import HeadFile
from fastlloyd.federation.store.history import History
from fastlloyd.federation.store.lock import Lock
from fastlloyd.federation.store.sealed import Sealed, Secrets, Text

Row = tuple[int, int, bytes, bytes]
"""Row of an event: its number, its time in seconds since 1970, its encoding, and the head (hash) of
the chain up to it.
"""


class Store:
    """Store of one party, open in one process. `create` or `open` makes the object. `close`, or the
    end of a `with` block, closes it.

    Its methods may be called from any thread, one after another.

    path : path of the file.
    role : role of the owner.
    identity : public signing key of the owner, 32 bytes.
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
                # also destroys keys of ended runs, which a killed process may have left
                self._sealed = Sealed(path, self._connection, self._contents.history)
            undo.pop_all()
        self._position, self._history = self._contents.position, self._contents.history

    @classmethod
    def create(cls, path: Path, *, role: Role, identity: bytes, patience: float = 0.0) -> Self:
        """Make the store of a party and open it.

        path : path of the new store.
        role : role of the owner.
        identity : public signing key of the owner, 32 bytes.
        patience : seconds to wait for another process that has the store open.

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
        """Open a store and verify it.

        path : path of the store.
        role : role that the owner must have, or None for any.
        identity : public signing key that the owner must have, or None for any.
        patience : seconds to wait for another process that has the store open.
        whole : whether to read the whole store. Otherwise read only the part of a ledger after its
            last `AddedUp`, and the earlier events that this event names.

        Raises StateError if another process has it open, if it is damaged or another party's, or if
        users other than its owner can read it.
        """
        files.check_access(path)
        return cls(path, Lock(path, patience), role, identity, whole=whole)

    def check_owner(self, role: Role | None, identity: bytes | None) -> None:
        """Raise StateError unless the owner has this role and this identity. None allows any."""
        if role not in (None, self.role):
            raise StateError(f"{self.path} is {self.role.store}; expected {role.store}")
        if identity not in (None, self.identity):
            raise StateError(
                f"{self.path} belongs to the signing key {self.identity.hex()[:16]}..., not to"
                f" {identity.hex()[:16]}...; use the identity that the store was made for"
            )

    @property
    def position(self) -> LogPosition:
        """Number of events, and the head of their chain. The head of an empty store is unique
        too.
        """
        return self._position

    @property
    def history(self) -> History:
        """State that follows from all events. Do not change it."""
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
            f"{self.path} has {n_events(self._position.length)}; expected at least {length}"
        )

    def check_remembered(self, remembered: LogPosition, by: str) -> None:
        """Raise OldStoreError if another party remembers more events of this store than it has, or
        different events.

        remembered : position that the party remembers. A length of 0 means that it remembers none.
        by : name of the party, for the error message.
        """
        holds = self._position.length
        if remembered.length and (
            remembered.length > holds or self.head_at(remembered.length) != remembered.head
        ):
            if remembered.length > holds:
                raise OldStoreError(
                    f"{self.path} is an old copy: it has {n_events(holds)}, and {by} remembers"
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
        """Time of the first event, in seconds since 1970 (UTC). None if there is no event."""
        for (seconds,) in self._rows("SELECT seconds FROM events WHERE number = 1"):
            return int(seconds)
        return None

    def events(self) -> Iterator[Event]:
        """Yield all events in their order."""
        for (body,) in self._rows("SELECT body FROM events ORDER BY number"):
            yield decode(body)

    def messages(self, run_id: bytes) -> list[bytes]:
        """Return the stored messages of a run, in order. The list is empty once the run has ended.

        Raises StateError if their key is lost.
        """
        with self._one_at_a_time, files.sentences(self.path):
            self._sealed.check(run_id)
            return self._sealed.messages(run_id)

    def secrets(self, run_id: bytes) -> dict[str, bytes]:
        """Return the secrets of a run, by name. The dict is empty once the run has ended.

        Raises StateError if their key is lost.
        """
        with self._one_at_a_time, files.sentences(self.path):
            self._sealed.check(run_id)
            return self._sealed.secrets(run_id)

    def append(
        self,
        events: Sequence[Event],
        *,
        messages: Sequence[bytes] = (),
        secrets: Secrets | None = None,
    ) -> None:
        """Make one step durable. When this returns, all of the step is on disk.

        Messages and secrets are sealed under a key of their run. The key is on disk before the
        messages and secrets. A `RunEnded` deletes all messages and secrets of its run, and their
        key is destroyed after the commit.

        events : events of the step, in order.
        messages : encodings of the messages of all `MessageRecorded` in `events`, in their order.
        secrets : secrets to keep until their run ends.

        Raises StateError in two cases. First, if the events are not allowed after the stored
        events, if the messages do not belong to the events, or if a run's key is lost. Then nothing
        happens, and the store can still be used. Second, if the disk fails. Then the step is not
        taken, and this object takes no further step.
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
                with suppress(sqlite3.Error):
                    # without a COMMIT, nothing of the step is part of the file
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                raise
            self._history, self._position = history, position
            if ended:  # the step is taken even if this fails; the next opening tries again
                self._owes_destroying = True
                self._destroy_keys()

    def close(self) -> None:
        """Close the store. Raises StateError if the key of a run that has ended could not be
        destroyed.
        """
        with self._one_at_a_time:
            if self._lock is None:
                return
            if self._owes_destroying:  # an interruption may have prevented it before
                self._destroy_keys()
            try:
                with files.sentences(self.path), closing(self._head), closing(self._sealed):
                    # SQLite copies its log into the file and removes the log, unless another
                    # process reads
                    self._connection.close()
            finally:
                self._lock.release()
                self._lock = None
                failed, self._failure = self._failure, self._failure or "the store was closed"
            if self._owes_destroying:
                raise StateError(
                    f"{self._sealed.keys_path} still holds the key of a run that has ended"
                    f" ({failed}); open the store again, and the key will be destroyed"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _destroy_keys(self) -> None:
        """Destroy the keys of runs that have ended. After a failure the store takes no further
        step.
        """
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
        messages = self._sealed.of_messages(texts)  # from here on the key of a run is durable
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
    """Verify a store, and return its content and its events. Nothing is written, and another
    process may use the store meanwhile.
    """
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
    """Return, for each message, the index of its event, the event, and the message's encoding.
    Raises StateError if an encoding does not match its event.

    rows : rows of the events.
    events : events of a step.
    messages : encodings of the messages of all `MessageRecorded` in `events`.
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
