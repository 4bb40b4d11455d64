"""One holder per lock; the file that stays behind locks nobody out."""

import errno
import fcntl
import os
import pwd
import shutil
import sqlite3
from pathlib import Path

import pytest

from fastlloyd.base import places
from fastlloyd.errors import StateError
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.files import sentences
from fastlloyd.federation.store.lock import InUseError, Lock


def test_a_lock_has_one_holder_at_a_time_and_its_file_stays(tmp_path: Path) -> None:
    for _ in range(3):
        lock = Lock(tmp_path / "a.store")
        with pytest.raises(InUseError):
            Lock(tmp_path / "a.store")
        Lock(tmp_path / "b.store").release()
        lock.release()
        assert (tmp_path / "a.store-lock").read_bytes() == b""


def test_a_lock_is_not_taken_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.store-lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be made"):
        Lock(tmp_path / "a.store")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES])
def test_a_lock_that_another_process_has_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refusals = iter([OSError(number, "taken"), None])

    def flock(*_: int) -> None:
        if (error := next(refusals, None)) is not None:
            raise error

    monkeypatch.setattr(fcntl, "flock", flock)
    Lock(tmp_path / "a.store", patience=60).release()
    assert next(refusals, "all were asked for") == "all were asked for"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.ENOSYS])
def test_a_drive_that_keeps_no_locks_is_named_at_once_however_long_one_would_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    asked = []

    def flock(*_: int) -> None:
        asked.append(number)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StateError, match=r"without file locks.*move") as raised:
        Lock(tmp_path / "a.store", patience=3600)
    assert not isinstance(raised.value, InUseError)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "is_about_locks"),
    [
        ("SQLITE_IOERR_LOCK", True),
        ("SQLITE_IOERR_SHMLOCK", True),
        ("SQLITE_PROTOCOL", True),
        ("SQLITE_IOERR_BLOCKED", False),
        ("SQLITE_LOCKED_SHAREDCACHE", False),
        ("SQLITE_IOERR_WRITE", False),
    ],
)
def test_what_sqlite_says_of_locks_that_cannot_be_had_is_told_from_a_lock_that_is_held(
    tmp_path: Path, name: str, is_about_locks: bool
) -> None:
    error = sqlite3.OperationalError()
    error.sqlite_errorname = name
    with pytest.raises(StateError) as raised, sentences(tmp_path / "a.store"):
        raise error
    assert ("without file locks" in str(raised.value)) == is_about_locks


OTHER = pwd.getpwnam("nobody").pw_uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can leave files of another user")
@pytest.mark.parametrize("left", ["a.store-lock", "a.store", "a.store-head"])
def test_a_file_that_root_left_is_named_with_its_owner_and_what_to_run(
    tmp_path: Path, left: str
) -> None:
    """In a forked process that is another user."""
    folder = tmp_path / "of nobody"
    folder.mkdir()
    store = folder / "a.store"
    Store.create(store, role=Role.HOLDER, identity=bytes(32)).close()
    for path in folder.iterdir():
        if path.name != left:
            os.chown(path, OTHER, -1)
    os.chown(folder, OTHER, -1)
    for above in [folder, *folder.parents][:-1]:
        above.chmod(above.stat().st_mode | 0o111)
    said = _as_other(lambda: Store.open(store))
    assert f"{folder / left} belongs to root, and this command runs as nobody" in said
    assert said.endswith(f"sudo chown nobody '{folder / left}'")
    shutil.rmtree(folder)


def _as_other(work: object) -> str:
    """What is raised by `work`, which a forked process does as another user."""
    reading, writing = os.pipe()
    if not os.fork():
        try:
            os.setresuid(OTHER, OTHER, OTHER)
            work()  # type: ignore[operator]
        except StateError as error:
            os.write(writing, str(error).encode())
        except BaseException as error:  # noqa: BLE001 - the test sees it
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    with os.fdopen(reading) as said:
        return said.read()


def test_a_file_of_this_user_is_nobodys_fault(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert places.whose(tmp_path / "a", tmp_path / "b") == ""
