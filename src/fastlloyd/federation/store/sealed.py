"""Sealed messages and secrets of open runs in a store. Each run has a key of its own (`key_file`).

A sealed row is a nonce of 12 random bytes, and the content encrypted with ChaCha20-Poly1305. Run,
kind and number are authenticated with it, so no row can replace another. The chain of events, which
contains the digests of messages, is not sealed. So it can be verified even after the key is gone.
"""

import hashlib
import secrets as system
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import StateError
from fastlloyd.federation.store.events import MessageRecorded, decode
from fastlloyd.federation.store.history import History
from fastlloyd.federation.store.key_file import KeyFile

_LABEL: Final = b"fastlloyd/v1/store/sealed"
_NONCE_BYTES: Final = 12
_KEPT: Final = "kept "  # prefix of the kind of a secret; the kind of a message has no space

Secrets = Mapping[tuple[bytes, str], bytes]
"""Secrets by run id and name."""
Text = tuple[int, MessageRecorded, bytes]
"""Number of the event of a message, the event, and the encoding of the message."""


class Sealed:
    """Sealed rows of a store that this process uses, and their keys."""

    def __init__(self, path: Path, connection: sqlite3.Connection, history: History) -> None:
        """Open the keys, try them on the rows of open runs, and destroy the keys of runs that have
        ended.

        path : path of the store.
        connection : connection to the store.
        history : history of the store.

        Raises OSError if the file of keys cannot be written, and StateError if others can read it.
        """
        self._path, self._connection = path, connection
        self._file = KeyFile(path)
        self._lost: dict[bytes, str] = {}
        try:
            for run in history.runs.values():
                if run.is_open:
                    self._try_key(run.run_id)
            self.destroy_keys(history)
        except BaseException:
            self.close()
            raise

    @property
    def keys_path(self) -> Path:
        """Path of the file of keys."""
        return self._file.path

    def _try_key(self, run_id: bytes) -> None:
        """Try to open the rows of a run with its key. If that fails, remember the run with the
        reason.
        """
        try:
            self.messages(run_id)
            self.secrets(run_id)
        except InvalidTag:
            if self._file.key(run_id) is not None:
                self._lost[run_id] = "{file} has the wrong key for run {run}, which is open"
            elif self._file.is_damaged:
                self._lost[run_id] = "{file} is damaged and has no key for run {run}, which is open"
            else:
                self._lost[run_id] = "{file} has no key for run {run}, which is open"

    def check(self, run_id: bytes) -> None:
        """Raise StateError if the key of an open run is lost."""
        if (lost := self._lost.get(run_id)) is not None:
            run = run_id.hex()
            fault = lost.format(file=self._file.path, run=run)
            raise StateError(
                f"{fault}, so the messages of the run in {self._path.name} cannot be read; bring"
                " back the newest copy of both files, or give the run up with `fastlloyd ledger"
                f" release {self._path} --run {run}`"
            )

    def of_messages(self, texts: Sequence[Text]) -> list[tuple[int, bytes, bytes, bytes]]:
        """Return the rows of the table for these messages, sealed. If a run has no key yet, draw
        and store one.
        """
        rows = []
        for number, event, data in texts:
            sealed = self._seal(event.run_id, event.kind, number, data)
            rows.append((number, event.run_id, sealed, hashlib.sha256(sealed).digest()))
        return rows

    def of_secrets(self, secrets: Secrets) -> list[tuple[bytes, str, bytes, bytes]]:
        """Return the rows of the table for these secrets, sealed. If a run has no key yet, draw and
        store one.
        """
        rows = []
        for (run_id, name), secret in secrets.items():
            sealed = self._seal(run_id, _KEPT + name, 0, secret)
            rows.append((run_id, name, sealed, hashlib.sha256(sealed).digest()))
        return rows

    def messages(self, run_id: bytes) -> list[bytes]:
        """Return the messages of a run, in order. The list is empty once the run has ended.

        Raises InvalidTag if they are sealed under another key.
        """
        rows = self._connection.execute(
            "SELECT number, messages.bytes, events.body FROM messages JOIN events USING (number)"
            " WHERE run_id = ? ORDER BY number",
            (run_id,),
        ).fetchall()
        found = []
        for number, sealed, body in rows:
            event = decode(body)
            if not isinstance(event, MessageRecorded):
                raise StateError(f"{self._path} is damaged: event {number} has no message")
            data = self._open(run_id, event.kind, number, sealed)
            if hashlib.sha256(data).digest() != event.digest:
                raise StateError(
                    f"{self._path} is damaged: the message of event {number} is not the one that"
                    " was recorded. The file was not changed; keep it, and see"
                    " docs/how-to/ledger.md"
                )
            found.append(data)
        return found

    def secrets(self, run_id: bytes) -> dict[str, bytes]:
        """Return the secrets of a run, by name. The dict is empty once the run has ended.

        Raises InvalidTag if they are sealed under another key.
        """
        rows = self._connection.execute(
            "SELECT name, bytes FROM secrets WHERE run_id = ?", (run_id,)
        ).fetchall()
        return {name: self._open(run_id, _KEPT + name, 0, sealed) for name, sealed in rows}

    def destroy_keys(self, history: History) -> None:
        """Overwrite the keys of runs that have ended, and the keys that belong to no known run.

        If the key of an open run is lost, the keys of unknown runs are kept. One of them may be the
        lost key, or the file of keys may belong to another store.

        Raises OSError if the disk fails.
        """
        runs = history.runs
        open_runs = {run_id for run_id, run in runs.items() if run.is_open}
        self._lost = {run_id: how for run_id, how in self._lost.items() if run_id in open_runs}
        self._file.destroy(
            lambda run_id: run_id not in open_runs and (run_id in runs or not self._lost)
        )

    def close(self) -> None:
        """Close the file of keys. Call this once."""
        self._file.close()

    def _key(self, run_id: bytes) -> bytes:
        """Return the key of a run. If the run has none yet, draw and store one."""
        self.check(run_id)
        return self._file.key(run_id) or self._file.add(run_id)

    def _seal(self, run_id: bytes, kind: str, number: int, data: bytes) -> bytes:
        nonce = system.token_bytes(_NONCE_BYTES)
        box = ChaCha20Poly1305(self._key(run_id))
        return nonce + box.encrypt(nonce, data, _bound(run_id, kind, number))

    def _open(self, run_id: bytes, kind: str, number: int, sealed: bytes) -> bytes:
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        key = self._file.key(run_id)
        if key is None or len(nonce) < _NONCE_BYTES:
            raise InvalidTag
        return ChaCha20Poly1305(key).decrypt(nonce, box, _bound(run_id, kind, number))


def _bound(run_id: bytes, kind: str, number: int) -> bytes:
    """Return the bytes that are authenticated with the content of a row."""
    return _LABEL + length_prefixed(run_id, kind.encode(), number.to_bytes(8, "big"))
