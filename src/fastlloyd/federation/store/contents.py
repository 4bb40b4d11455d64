"""Content of a store, verified while it is read: its parts must match each other, and its head
file.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastlloyd.errors import StateError
from fastlloyd.federation.secagg.keys import PUBLIC_KEY_BYTES
from fastlloyd.federation.store import head_file
from fastlloyd.federation.store.events import (
    MAX_SECONDS,
    SALT_BYTES,
    AddedUp,
    Event,
    LogPosition,
    MessageRecorded,
    Role,
    RunEnded,
    decode,
    first_head,
    is_added_up,
    n_events,
    next_head,
)
from fastlloyd.federation.store.files import (
    FORMAT,
    SCHEMA,
    check_origin,
    damaged,
    sentences,
)
from fastlloyd.federation.store.history import History

# One bad byte can turn bytes into text. SQLite's own check does not find this if it may only read.
_TYPES: Final = (
    ("store", {"role": "text", "identity": "blob", "salt": "blob"}),
    ("events", {"seconds": "integer", "body": "blob", "head": "blob"}),
    ("messages", {"run_id": "blob", "bytes": "blob", "digest": "blob"}),
    ("secrets", {"name": "text", "run_id": "blob", "bytes": "blob", "digest": "blob"}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Content of a verified store.

    role : role of the owner.
    identity : public signing key of the owner, 32 bytes.
    salt : random bytes of the store, on which head 0 depends.
    first_head : head 0 of the chain.
    position : number of events, and the last head.
    history : state that follows from all events.
    seconds : time of each event, UTC since 1970. Empty if only a part of the events was read.
    """

    role: Role
    identity: bytes
    salt: bytes
    first_head: bytes
    position: LogPosition
    history: History
    seconds: tuple[int, ...]


@contextmanager
def verified(
    connection: sqlite3.Connection, path: Path, *, whole: bool = True
) -> Iterator[tuple[Contents, LogPosition]]:
    """Verify a store, and yield its content and the position in its head file. Both belong to one
    state, even while another process writes.

    All parts are compared with each other and with the head file.

    connection : connection to the store.
    path : path of the store.
    whole : whether to read the whole store. Otherwise read only the part of a ledger after its last
        `AddedUp`, and the earlier events that this event names.

    Raises StateError if either file is damaged or missing, or if the store is older than its head
    file.
    """
    with sentences(path):
        check_origin(connection, path)
        known = head_file.remembered(path)  # must come before the store is read (`remembered`)
        if known is None:
            raise StateError(
                f"{head_file.head_path(path)} is missing, so it is unknown whether {path.name} is"
                " the newest state; restore both files from the same copy (docs/how-to/ledger.md)"
            )
        connection.execute("BEGIN")
        try:
            _check_layout(connection, path)
            resumed = None if whole else _resume(connection, path)
            if resumed is None:
                _check_tables(connection, path)
                contents, recorded = _follow_chain(connection, path)
            else:
                contents, recorded = resumed, {}
            _check_newest(connection, path, contents, known)
            _check_messages(connection, path, contents.history, recorded)
            _check_secrets(connection, path, contents.history)
            yield contents, known
        finally:
            if connection.in_transaction:  # SQLite itself ends a transaction if the disk fails
                connection.execute("ROLLBACK")


def _check_layout(connection: sqlite3.Connection, path: Path) -> None:
    check_origin(connection, path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise StateError(
            f"{path} has format {version}; this version of fastlloyd reads format {FORMAT}"
            " (docs/compatibility.md)"
        )
    layout = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ).fetchall()
    if tuple(sql for (sql,) in layout) != SCHEMA:
        raise StateError(
            f"{path} was changed by another program: its tables are not the tables of a store"
        )


def _check_tables(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise damaged(path, "SQLite's own check fails")
    for table, types in _TYPES:
        mistyped = " OR ".join(f"typeof ({column}) <> '{kind}'" for column, kind in types.items())
        # the names are constants
        query = f"SELECT 1 FROM {table} WHERE {mistyped}"  # noqa: S608  # nosec B608
        if connection.execute(query).fetchone():
            raise damaged(path, "a table contains a value of the wrong type")
    if connection.execute("PRAGMA foreign_key_check").fetchall():
        raise damaged(path, "a message has no event")


def _owner(connection: sqlite3.Connection, path: Path) -> tuple[Role, bytes, bytes, bytes]:
    """Return role and public signing key of the store's owner, the salt, and head 0."""
    owners = connection.execute("SELECT role, identity, salt FROM store").fetchall()
    if len(owners) != 1:
        raise damaged(path, "it does not name exactly one owner")
    ((role_name, identity, salt),) = owners
    if (
        role_name not in {role.value for role in Role}
        or len(identity) != PUBLIC_KEY_BYTES
        or len(salt) != SALT_BYTES
    ):
        raise damaged(path, "its owner cannot be read")
    role = Role(role_name)
    return role, identity, salt, first_head(role, identity, salt)


Row = tuple[int, int, bytes, bytes]
"""Row of an event: its number, its time in seconds since 1970, its encoding, and the head (hash) of
the chain up to it.
"""

_HEAD: Final = "SELECT head FROM events WHERE number = ?"


def _resume(connection: sqlite3.Connection, path: Path) -> Contents | None:
    """Return the content of a ledger. Events before its last `AddedUp` are not read. Return None if
    the store has no `AddedUp`, or is not a ledger.
    """
    role, identity, salt, first = _owner(connection, path)
    if role is not Role.HOLDER:
        return None
    rows = list[Row]()
    for row in connection.execute(
        "SELECT number, seconds, body, head FROM events ORDER BY number DESC"
    ):
        rows.append(row)
        if isinstance(row[2], bytes) and is_added_up(row[2]):
            break
    else:
        return None

    def events(rows: Sequence[Row]) -> list[Event]:
        number = rows[0][0]
        before = connection.execute(_HEAD, (number - 1,)).fetchone() if number > 1 else None
        chained = _chained(path, before[0] if before else first, rows, number)
        return [event for _, event in chained]

    added, *later = events(rows[::-1])
    if not isinstance(added, AddedUp):
        raise damaged(path, f"event {rows[-1][0]} has another number or kind than expected")
    one = "SELECT number, seconds, body, head FROM events WHERE number = ?"
    others = [connection.execute(one, (number,)).fetchone() for number in added.others]
    if None in others:
        raise damaged(path, "events are missing")
    try:
        before = [events([row])[0] for row in others]
        history = History.resumed(added, rows[-1][0], before)
        for event in later:
            history.add(event)
    except StateError as error:
        raise damaged(path, str(error)) from None
    return Contents(
        role=role,
        identity=identity,
        salt=salt,
        first_head=first,
        position=LogPosition(rows[0][0], rows[0][3]),
        history=history,
        seconds=(),
    )


def _chained(
    path: Path, head: bytes, rows: Iterable[Row], first: int
) -> Iterator[tuple[Row, Event]]:
    """Yield consecutive rows with their events, after a check that the rows continue the chain of
    hashes.

    head : head of the row before them.
    first : number that the first row must have.

    Raises StateError if a row is damaged or does not continue the chain.
    """
    for number, row in enumerate(rows, first):
        at, seconds, body, stored = row
        if [*map(type, row)] != [int, int, bytes, bytes]:
            raise damaged(path, "a table contains a value of the wrong type")
        if not 0 <= seconds <= MAX_SECONDS:
            raise damaged(path, f"event {number} has an impossible time")
        head = next_head(head, seconds, body)
        if (at, stored) != (number, head):
            raise damaged(path, f"the chain of hashes breaks at event {number}")
        try:
            event = decode(body)
        except StateError as error:
            raise damaged(path, f"event {number}: {error}") from None
        yield row, event


def _follow_chain(
    connection: sqlite3.Connection, path: Path
) -> tuple[Contents, dict[int, MessageRecorded]]:
    """Read all events. Return the content of the store, and the events that store messages, by
    their number.
    """
    role, identity, salt, first = _owner(connection, path)
    history, position, recorded, times = History(role), LogPosition(0, first), {}, []
    rows = connection.execute("SELECT number, seconds, body, head FROM events ORDER BY number")
    for (number, seconds, _, head), event in _chained(path, first, rows, 1):
        try:
            history.add(event)
        except StateError as error:
            raise damaged(path, f"event {number}: {error}") from None
        position = LogPosition(number, head)
        times.append(seconds)
        if isinstance(event, MessageRecorded):
            recorded[number] = event
        elif isinstance(event, RunEnded):
            # this event wiped the messages of the run, even if the run begins again
            recorded = {at: kept for at, kept in recorded.items() if kept.run_id != event.run_id}
    contents = Contents(
        role=role,
        identity=identity,
        salt=salt,
        first_head=first,
        position=position,
        history=history,
        seconds=tuple(times),
    )
    return contents, recorded


def _check_newest(
    connection: sqlite3.Connection, path: Path, contents: Contents, known: LogPosition
) -> None:
    """Raise StateError if the head file knows more events than the store, or different events.

    The store may be one step ahead of the head file, if the process crashed before it wrote the
    head file.

    known : position in the head file.
    """
    holds, found = contents.position.length, [(contents.first_head,)]
    if known.length:
        found = connection.execute(_HEAD, (known.length,)).fetchall()
    if found != [(known.head,)]:
        head = head_file.head_path(path).name
        fault = (
            f"{path} is damaged or an old copy: it has {n_events(holds)}, and {head} counts"
            f" {known.length}"
            if known.length > holds
            else f"{path} is damaged or an old copy: its events do not match {head}"
        )
        raise StateError(
            f"{fault}; neither file was changed: keep both, and see docs/how-to/ledger.md"
        )


def _check_messages(
    connection: sqlite3.Connection,
    path: Path,
    history: History,
    recorded: dict[int, MessageRecorded],
) -> None:
    """Raise StateError unless the sealed messages of open runs are there, and no others.

    Only a process with the keys can compare their content with the events (`sealed.Sealed`).

    recorded : events of stored messages, by number.
    """
    kept = {
        number: event
        for number, event in recorded.items()
        if history.runs[event.run_id].ended is None
    }
    for number, run_id, sealed, digest in connection.execute(
        "SELECT number, run_id, bytes, digest FROM messages"
    ):
        event = kept.pop(number, None)
        if event is None:
            raise damaged(
                path,
                f"it keeps a message of event {number}, but that event has no message or its"
                " run has ended",
            )
        if run_id != event.run_id or hashlib.sha256(sealed).digest() != digest:
            raise damaged(path, f"the message of event {number} is not the one that was recorded")
    if kept:
        raise damaged(path, f"the message of event {min(kept)} is missing")


def _check_secrets(connection: sqlite3.Connection, path: Path, history: History) -> None:
    for run_id, kept, digest in connection.execute("SELECT run_id, bytes, digest FROM secrets"):
        if hashlib.sha256(kept).digest() != digest:
            raise damaged(path, "a secret is not the one that was stored")
        if run_id not in history.runs or history.runs[run_id].ended is not None:
            raise damaged(path, "it keeps a secret of a run that is not open")
