"""File of fingerprints, by which `join` recognises the records of earlier runs.

The file contains the key of the hash and, for each run, the name of its data set and the
fingerprints of its records and persons. A thief of the file can test guesses of the records. So the
file is kept next to the records, with mode 0600, and no part of it is in a store or a ledger.

A fingerprint is durable here before a ledger or a store counts its run. So after a crash there may
be a fingerprint without a run, which means nothing, but never a run without a fingerprint.
"""

import errno
import hmac
import os
import secrets
import stat
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from fastlloyd.base.files import OTHERS, OWNER_ONLY, sync_folder
from fastlloyd.base.names import NAME, same
from fastlloyd.base.places import whose
from fastlloyd.base.sealed_toml import MAX_BYTES, from_toml, to_toml
from fastlloyd.errors import (
    NO_FINGERPRINTS,
    OPEN_TO_OTHERS,
    WRONG_FILE,
    BudgetError,
    PlanError,
    StateError,
)
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.store.lock import InUseError, Lock

FILE_NAME: Final = "_fastlloyd.fingerprints"
"""Name of the file next to the records. Readers of a folder leave out names that begin with an
underscore.
"""
PATIENCE: Final = 60.0  # seconds; a step takes a fraction of one
KEY_BYTES: Final = 32
_HEADING: Final = (
    "Fingerprints of the records that `fastlloyd join` used, and their key. Whoever has this file\n"
    "can test guesses of the records: keep it as you keep them, and never send it to anyone.\n"
    "Without the newest copy, `fastlloyd join` refuses the next run."
)
_ANOTHER: Final = "name a file in a folder of yours with --fingerprints FILE"

_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class KnownRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entry of the file: a run, and the fingerprints of its records and persons.

    run : id of the run in the ledger, in hex.
    dataset : name of its data set.
    records, persons : fingerprints, in hex. `records` is None if they are lost, `persons` is None
        without ids.
    """

    run: Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
    dataset: Annotated[str, Meta(pattern=rf"\A{NAME.pattern}\Z")]
    records: _Digest | None = None
    persons: _Digest | None = None

    @classmethod
    def of(cls, run_id: bytes, dataset: str, fingerprint: Fingerprint) -> "KnownRun":
        """Return the entry for a run.

        run_id : id of the run in the ledger.
        """
        persons = fingerprint.of_persons
        return cls(
            run=run_id.hex(),
            dataset=dataset,
            records=fingerprint.digest.hex(),
            persons=None if persons is None else persons.hex(),
        )

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Fingerprint of the records and persons, or None if it is lost."""
        if self.records is None:
            return None
        persons = None if self.persons is None else bytes.fromhex(self.persons)
        return Fingerprint(bytes.fromhex(self.records), persons)

    def __repr__(self) -> str:
        """Return a text without fingerprints."""
        return f"KnownRun({self.run})"


class Fingerprints(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of a file of fingerprints.

    format : number of the format.
    key : key of the hashes, in hex.
    runs : known runs, in any order.
    """

    format: Literal[1] = 1
    key: _Digest
    runs: tuple[KnownRun, ...] = ()

    @classmethod
    def new(cls) -> "Fingerprints":
        """Return an empty content with a new key."""
        return cls(key=secrets.token_bytes(KEY_BYTES).hex())

    @property
    def hash_key(self) -> bytes:
        """Key of the hashes, 32 bytes."""
        return bytes.fromhex(self.key)

    def missing(self, runs: Mapping[bytes, str]) -> dict[bytes, str]:
        """Return the runs that the content does not have.

        runs : data set of each run, by its id in the ledger.
        """
        known = {each.run for each in self.runs}
        return {run_id: name for run_id, name in runs.items() if run_id.hex() not in known}

    def check_same_records(self, run_id: bytes, shown: str, fingerprint: Fingerprint) -> None:
        """Raise StateError unless the run was begun with exactly these records and persons.

        run_id : id of the run in the ledger.
        shown : id of the run in its plan, for the error message.
        """
        found = next((each for each in self.runs if each.run == run_id.hex()), None)
        begun = None if found is None else found.fingerprint
        if begun is None:
            raise StateError(
                f"run {shown} is open, and the fingerprint of its records is lost, so"
                " fastlloyd cannot tell whether you passed the same records again; give the run up"
                " with `fastlloyd ledger release`",
                code=NO_FINGERPRINTS,
            )
        if not fingerprint.goes_on_with(begun):
            raise StateError(
                f"run {shown} was begun with other records or ids; pass the same file, columns and"
                " treatment of missing cells"
            )

    def check_name(
        self, dataset: str, fingerprint: Fingerprint, run_id: bytes, counted: Container[bytes]
    ) -> None:
        """Raise BudgetError if exactly these records were used under another data set name, because
        their spending is counted there.

        run_id : id of the new run in the ledger.
        counted : ids of the runs that a ledger or store counts. A fingerprint of any other run has
            no effect: the process of that run was killed before the run was counted.
        """
        for each in self.runs:
            known = each.fingerprint
            if (
                known is not None
                and same(each.dataset) != same(dataset)
                and bytes.fromhex(each.run) != run_id
                and bytes.fromhex(each.run) in counted
                and fingerprint.has_records_of(known)
            ):
                raise BudgetError(
                    f"these records were used under the data set name {each.dataset!r} before; use"
                    f" that name instead of {dataset!r}, so that the ledger adds up all runs on"
                    " them"
                )

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"Fingerprints(of {len(self.runs)} runs)"


class FingerprintFile:
    """File of fingerprints at `path`, which need not exist. While one process reads or writes the
    file, other processes wait.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Fingerprints | None:
        """Return the content, or None if there is no file. Raises StateError if the file cannot be
        read, is damaged, or is not a file of fingerprints.
        """
        try:
            content = self._content()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StateError(
                    f"{self.path} is a symbolic link; name the file of fingerprints itself with"
                    " --fingerprints FILE",
                    code=WRONG_FILE,
                ) from None
            why = f"({error.strerror}){whose(self.path)}"
            raise StateError(f"{self.path} cannot be read {why}; {_ANOTHER}") from None
        try:
            return from_toml(content.decode("ascii"), Fingerprints, str(self.path))
        except (PlanError, UnicodeDecodeError):
            raise StateError(
                f"{self.path} is damaged, or is not a file of fingerprints; bring back its newest"
                " copy, or move the file away and pass --new-fingerprints",
                code=WRONG_FILE,
            ) from None

    def _content(self) -> bytes:
        flags = os.O_RDONLY
        for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # a pipe must not hold it up
            flags |= getattr(os, flag, 0)
        with os.fdopen(os.open(self.path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise StateError(f"{self.path} is not a file; {_ANOTHER}", code=WRONG_FILE)
            if found.st_nlink > 1:
                raise StateError(
                    f"{self.path} has hard links, so it has a copy elsewhere; remove the links",
                    code=WRONG_FILE,
                )
            if os.name == "posix" and found.st_mode & OTHERS:
                raise StateError(
                    f"{self.path} is open to others (mode {stat.S_IMODE(found.st_mode):o}), who"
                    " can test guesses of the records with it: chmod 600 it and ask who read it",
                    code=OPEN_TO_OTHERS,
                )
            return file.read(MAX_BYTES + 1)

    def check(self) -> Fingerprints | None:
        """Return the content as `read` does. Raises StateError also if the file cannot be
        written.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise StateError(f"there is no folder {folder}; {_ANOTHER}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StateError(
                f"{folder} cannot be written{whose(self.path)}, and `join` keeps the fingerprints"
                f" of your records there; {_ANOTHER}"
            )
        return self.read()

    def complete(self, runs: Mapping[bytes, str], *, are_lost: bool) -> Fingerprints | None:
        """Return the content with an entry for each run, or None if there is no file and no run.
        Nothing is written.

        runs : data set of each run in a client's store, by the run's id in the ledger.
        are_lost : whether the owner confirms that missing fingerprints are lost. Such runs get
            entries without a fingerprint.

        Raises StateError if the fingerprint of a run is missing.
        """
        found = self.check()
        missing = runs if found is None else found.missing(runs)
        if not missing:
            return found
        if not are_lost:
            n = "a run" if len(missing) == 1 else f"{len(missing)} runs"
            where = (
                f"there is no file {self.path}"
                if found is None
                else f"{self.path} has no fingerprint of {n}"
            )
            raise StateError(
                f"{where}, but this client joined {n} before; name the file that has the"
                " fingerprints of their records with --fingerprints FILE, or bring back its newest"
                " copy. If it is lost, pass --new-fingerprints",
                code=NO_FINGERPRINTS,
            )
        lost = [KnownRun(run=run_id.hex(), dataset=name) for run_id, name in missing.items()]
        found = found or Fingerprints.new()
        return replace(found, runs=(*found.runs, *lost))

    def opened(self, runs: Mapping[bytes, str], *, are_lost: bool = False) -> Fingerprints:
        """Return the content as `complete` does, and make it durable. If there is no file, make
        one.
        """
        self.check()
        with self._alone():
            known = self.complete(runs, are_lost=are_lost) or Fingerprints.new()
            if known != self.read():
                self._write(known)
            return known

    def note(
        self,
        run_id: bytes,
        dataset: str,
        fingerprint: Fingerprint,
        key: bytes,
        counted: Container[bytes],
    ) -> None:
        """Write the fingerprint of a run to disk durably. The run is about to be counted in the
        ledger.

        key : key under which the fingerprint was made.

        The other parameters are those of `Fingerprints.check_name`. Raises the errors of
        `Fingerprints.check_name`, and StateError if the file cannot be written or has another key
        now.
        """
        with self._alone():
            known = self.read()
            if known is None or not hmac.compare_digest(known.hash_key, key):
                raise StateError(
                    f"{self.path} was removed or replaced meanwhile; bring it back, and run the"
                    " same command again"
                )
            known.check_name(dataset, fingerprint, run_id, counted)
            mine = KnownRun.of(run_id, dataset, fingerprint)
            others = [each for each in known.runs if each.run != mine.run]
            if len(others) == len(known.runs) or mine not in known.runs:
                self._write(replace(known, runs=(*others, mine)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Context in which the process has the file to itself. Errors of the disk become a
        StateError.
        """
        try:
            lock = Lock(self.path, PATIENCE)
        except InUseError:
            raise
        except StateError as error:
            raise StateError(f"{error}; or {_ANOTHER}") from None
        try:
            yield
        except OSError as error:
            why = f"({error.strerror or type(error).__name__}){whose(self.path)}"
            raise StateError(f"{self.path} cannot be written {why}; {_ANOTHER}") from None
        finally:
            lock.release()

    def _write(self, content: Fingerprints) -> None:
        """Replace the file in one step, durably. The caller has the lock. Raises OSError if the
        file cannot be written.
        """
        new = self.path.with_name(self.path.name + "-new")
        new.unlink(missing_ok=True)  # left by a process that was killed
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(new, flags, OWNER_ONLY), "wb") as file:
            file.write(to_toml(content, _HEADING).encode())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        sync_folder(self.path.parent)
