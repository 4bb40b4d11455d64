"""SQLite file of a store: its layout, how it is made and opened, and the sentences for its
failures.
"""

import errno
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from fastlloyd.base.files import sync_folder
from fastlloyd.base.places import whose
from fastlloyd.errors import DAMAGED_STORE, NO_STORE, OPEN_TO_OTHERS, WRONG_FILE, StateError
from fastlloyd.federation.secagg.keys import PUBLIC_KEY_BYTES
from fastlloyd.federation.store import head_file
from fastlloyd.federation.store.events import SALT_BYTES, LogPosition, Role, first_head, n_events
from fastlloyd.federation.store.key_file import keys_path
from fastlloyd.federation.store.lock import NO_LOCKS

SUFFIX: Final = ".store"
IDENTITY_SUFFIX: Final = ".identity.toml"
NOT_A_STORE: Final = (
    "is not a store, or its beginning is damaged; expected a store, such as clinic-a.store, or"
    " the identity that lies next to the store, such as clinic-a.identity.toml"
)
_MAGIC: Final = b"SQLite format 3\0"
APPLICATION_ID: Final = 0x464C4C31
FORMAT: Final = 3
SCHEMA: Final = (
    "CREATE TABLE store (role TEXT NOT NULL, identity BLOB NOT NULL, salt BLOB NOT NULL)",
    (
        "CREATE TABLE events (number INTEGER PRIMARY KEY, seconds INTEGER NOT NULL, body BLOB NOT"
        " NULL, head BLOB NOT NULL)"
    ),
    (
        "CREATE TABLE messages (number INTEGER PRIMARY KEY REFERENCES events (number), run_id BLOB"
        " NOT NULL, bytes BLOB NOT NULL, digest BLOB NOT NULL)"
    ),
    (
        "CREATE TABLE secrets (run_id BLOB NOT NULL, name TEXT NOT NULL, bytes BLOB NOT NULL,"
        " digest BLOB NOT NULL)"
    ),
    "CREATE UNIQUE INDEX secrets_of_runs ON secrets (run_id, name)",
    *(
        f"CREATE TRIGGER {table}_{action} BEFORE {action} ON {table} BEGIN SELECT RAISE (ABORT,"
        f" '{table} never change'); END"
        for table in ("store", "events")
        for action in ("UPDATE", "DELETE")
    ),
)


OF_DISKS: Final = {errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EDQUOT}
DISK_FAILED: Final = (
    "cannot be used: the disk failed, or is full or read-only ({}); put that right and start again"
)


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Context in which errors of SQLite and of the file system become a StateError about the store,
    with one sentence.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(f"{path} {_reason(error, path)}") from None
    except UnicodeDecodeError:
        # from the definition of a table; SQLite does not check the content of a text
        raise damaged(path, "a text is none") from None
    except OSError as error:
        if error.errno in OF_DISKS:
            why = DISK_FAILED.format(errno.errorcode[error.errno])
            raise StateError(f"{path} {why}") from None
        why = error.strerror or type(error).__name__
        raise StateError(f"{path} cannot be used ({why}){whose(*files(path))}") from None


def store_path(named: Path) -> Path:
    """Return the path of a store.

    named : path of the store, or of an identity NAME.identity.toml, whose store is NAME.store in
        the same folder.
    """
    if named.name.endswith(IDENTITY_SUFFIX):
        return named.with_name(named.name.removesuffix(IDENTITY_SUFFIX) + SUFFIX)
    return named


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, durably. Only this user may open them."""
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def create(path: Path, *, role: Role, identity: bytes) -> None:
    """Make an empty store under a temporary name, make it durable, and then rename it. The caller
    must have the lock.

    path : path of the store.
    role : role of the owner.
    identity : public signing key of the owner, 32 bytes.

    Raises StateError if the store exists, or if a head file shows that it existed.
    """
    if len(identity) != PUBLIC_KEY_BYTES:
        raise StateError(
            f"a store belongs to a public signing key of {PUBLIC_KEY_BYTES} bytes, got"
            f" {len(identity)}"
        )
    with sentences(path):
        if path.is_symlink() or path.exists():
            raise StateError(
                f"{path} exists already, and a new store never replaces an old one; choose another"
                " name"
            )
        check_never_was(path)
        unfinished = path.with_name(path.name + "-new")
        for left in files(unfinished):
            left.unlink(missing_ok=True)
        # -wal and -shm inherit this mode
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(_open(unfinished, "rw")) as connection:
            _settle(connection, unfinished)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            for statement in SCHEMA:
                connection.execute(statement)
            salt = secrets.token_bytes(SALT_BYTES)
            connection.execute("INSERT INTO store VALUES (?, ?, ?)", (role.value, identity, salt))
            connection.execute("COMMIT")
        head_file.create(path, LogPosition(0, first_head(role, identity, salt)))
        unfinished.rename(path)
        sync_folder(path.parent)


def connect(path: Path) -> sqlite3.Connection:
    """Open a store for reading and writing, and return the connection. Every commit is on disk
    before it returns.
    """
    check_access(path)
    connection = _open(path, "rw")
    try:
        # check before anything is set, so another program's file is not changed
        check_origin(connection, path)
        _settle(connection, path)
        # fails at once if the file may not be written
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a store only for reading, even while another process writes to it, and return the
    connection.
    """
    check_access(path)
    with suppress(sqlite3.Error), closing(_open(path, "ro")) as probe:
        probe.execute("PRAGMA schema_version").fetchone()
        return _open(path, "ro")
    # In a read-only folder SQLite cannot make the index of its write-ahead log. Without a log it
    # needs none.
    return _open(path, "ro" if files(path)[1].exists() else "ro&immutable=1")


def check_access(path: Path) -> None:
    """Raise StateError unless `path` is a file that only its owner can read, and that has no other
    name.

    Under another name the store would have another lock and another write-ahead log.
    """
    if not path.is_file():
        if not path.exists():
            check_never_was(path)
        raise StateError(f"there is no store {path}{_why_none(path)}", code=NO_STORE)
    if path.is_symlink() or path.stat().st_nlink > 1:
        raise StateError(
            f"{path} is a symbolic link, or has hard links; use the path of the original"
            " file, and remove the links"
        )
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        with (
            sentences(path),
            path.open("rb") as file,
        ):
            # closing this file would release this process's locks on it, but it has no such store
            # open
            if file.read(len(_MAGIC)) != _MAGIC:
                raise StateError(f"{path} {NOT_A_STORE}", code=WRONG_FILE)
        raise StateError(
            f"{path} is open to others (mode {mode:o}); a store holds secrets: chmod 600 it and ask"
            " who read it",
            code=OPEN_TO_OTHERS,
        )


def _why_none(path: Path) -> str:
    """Return the reason why there is no store at `path`, and a remedy, as the end of a sentence."""
    if path.is_symlink():
        return ", which is a link to something else; name the store itself"
    if path.is_dir():
        return ", which is a folder; name a file in it, such as clinic-a.store"
    if path.exists():
        return ", which is not a file; name a file such as clinic-a.store"
    # the paths . and / have no name
    identity = path.with_name(path.name.removesuffix(SUFFIX) + IDENTITY_SUFFIX)
    if identity.exists():
        return (
            f" yet: the first use of {identity} makes it, for example `fastlloyd join` or"
            " `fastlloyd serve`"
        )
    return (
        f" and no {identity.name} beside it: correct the path; the first run with --new-dataset"
        " makes a ledger, and so does `fastlloyd ledger limit --new`. The first use of an identity"
        " makes its store"
    )


def files(path: Path) -> tuple[Path, ...]:
    """Return the paths of the store, of the two files that SQLite keeps next to it, of the head
    file, and of the file of keys.
    """
    return (
        path,
        path.with_name(path.name + "-wal"),
        path.with_name(path.name + "-shm"),
        head_file.head_path(path),
        keys_path(path),
    )


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=5.0,  # seconds to wait for other processes
        check_same_thread=False,
    )


def check_origin(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StateError if another program made the SQLite file."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
        raise StateError(
            f"{path} is not a store of fastlloyd; expected a store, such as clinic-a.store, or the"
            " identity that lies next to the store, such as clinic-a.identity.toml",
            code=WRONG_FILE,
        )


def _settle(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StateError(
            f"{path} is on a drive where SQLite cannot keep a write-ahead log; move it to a local"
            " disk"
        )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's own cache
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA trusted_schema = OFF")
    if connection.execute("PRAGMA secure_delete = ON").fetchone() != (1,):
        raise StateError(
            "this build of SQLite cannot overwrite deleted data; install Python with its own SQLite"
        )


def check_never_was(path: Path) -> None:
    """Raise StateError if there is a head file but no store. The spending in that store must not be
    forgotten.
    """
    known = head_file.remembered(path)
    if known is not None and known.length:
        raise StateError(
            f"there is no store {path}, and {head_file.head_path(path).name} says that it held"
            f" {n_events(known.length)}; bring the newest copy of both files back, or go on under a"
            " new identity",
            code=NO_STORE,
        )


def damaged(path: Path, how: str) -> StateError:
    """Return the error for a store whose parts contradict each other.

    how : words that name the contradiction.
    """
    return StateError(
        f"{path} is damaged ({how}) and was not changed; keep it, and see docs/how-to/ledger.md",
        code=DAMAGED_STORE,
    )


def _reason(error: sqlite3.Error, path: Path) -> str:
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    if name == "SQLITE_PROTOCOL" or (name.startswith("SQLITE_IOERR") and name.endswith("LOCK")):
        return NO_LOCKS.format(name)
    match name.split("_")[1] if name.startswith("SQLITE_") else name:
        case "FULL":
            return "cannot grow: the disk is full; free some space and start again"
        case "READONLY" | "CANTOPEN" | "PERM" | "AUTH":
            return f"cannot be written ({name})" + (
                whose(*files(path))
                or ": the disk is read-only, or the permissions of the file or its folder forbid it"
            )
        case "NOTADB":
            return NOT_A_STORE
        case "CORRUPT":
            return f"is damaged, or not a store ({name}); keep it, and see docs/how-to/ledger.md"
        case "BUSY" | "LOCKED":
            return "is in use by another program; close that program"
        case _:
            return DISK_FAILED.format(name)
