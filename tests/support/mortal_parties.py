"""Parties that die at their commits and are started again from what is on disk, with messages
passed in memory.

A process dies right before or right after a genuine `Store.append`. What its files hold at that
moment is copied; the next life opens the copy. Or its disk fails in the midst of the commit, and it
ends with an error. Messages on their way to and from it are lost, as on a connection that breaks.
"""

import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Finish, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Limits, Message, decode, encode
from fastlloyd.federation.runs import DurableClient, DurableServer, KnownRecords
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.events import Event, ExchangeCharged, MessageRecorded
from fastlloyd.federation.store.key_file import KeyFile, keys_path
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.testing import repeatable_noise
from federation import entropy, identity
from known_noise import KnownNoise
from known_records import FINGERPRINT, known_records
from stores import copy_store

SERVER_KEY = identity("the server").public
DATASET = DataSet(name="patients")
BEFORE, AFTER = "before", "after"
BEFORE_KEY, AFTER_KEY = "before key", "after key"
Death = tuple[int, str]
"""Which commit of a party, from 0, counted over all its lives; before or after it, or the write of a
key that belongs to it, or what its disk does in it.
"""


class Killed(BaseException):
    """The process is gone: nothing may catch this."""


FULL, FULL_AT_COMMIT, READ_ONLY, NOT_SYNCED = "full", "full at commit", "read-only", "not synced"
DISK_FAULTS = {
    FULL: ("INSERT INTO events", "SQLITE_FULL", "the disk is full"),
    FULL_AT_COMMIT: ("COMMIT", "SQLITE_IOERR_WRITE", "the disk failed, or is full or read-only"),
    READ_ONLY: ("BEGIN IMMEDIATE", "SQLITE_READONLY", "the disk is read-only"),
    NOT_SYNCED: ("COMMIT", "SQLITE_IOERR_FSYNC", "the disk failed, or is full or read-only"),
}
"""The statement of a commit at which a disk fails, SQLite's name for it, what is said. The last
fails after all is written.
"""


class FailingDisk:
    """A connection to a store whose disk fails at one statement, as SQLite reports it; all else is
    the genuine one's.
    """

    def __init__(self, genuine: sqlite3.Connection, fault: str) -> None:
        self._genuine, self._fault = genuine, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._genuine, name)

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self._fail_at(statement)
        return self._genuine.execute(statement, *values)

    def executemany(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self._fail_at(statement)
        return self._genuine.executemany(statement, *values)

    def _fail_at(self, statement: str) -> None:
        begins, name, _ = DISK_FAULTS[self._fault]
        if statement.startswith(begins):
            if self._fault == NOT_SYNCED:
                self._genuine.execute(statement)
            error = sqlite3.OperationalError("a disk that a test has broken")
            error.sqlite_errorname = name
            raise error


class Clock:
    """A clock that stands until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Mortal:
    """One party, life after life; n_appends : how many commits were tried in all of them."""

    name: str
    folder: Path
    deaths: set[Death]
    role: Role
    store: Store | None = None
    party: Any = None
    n_appends: int = 0
    n_lives: int = 0

    @property
    def path(self) -> Path:
        return self.folder / str(self.n_lives) / "party.store"

    def open_store(self) -> Store:
        """The store of this life: the copy of that of the life before, or a new one."""
        self.n_lives += 1
        self.path.parent.mkdir(parents=True, exist_ok=True)
        key = SERVER_KEY if self.role is Role.SERVER else identity(self.name).public
        make = Store.open if self.path.exists() else Store.create
        self.store = make(self.path, role=self.role, identity=key)
        return self.store

    def die(self) -> None:
        """Copy the files as they are on disk; only then let go of the old ones."""
        store, self.store, self.party = self.store, None, None
        assert store is not None
        copy_store(store.path, self.folder / str(self.n_lives + 1))
        store.close()


@dataclass
class World:
    """All parties of one run, and what is on its way between them."""

    plan: Plan
    X: Mapping[str, IntArray]
    folder: Path
    deaths: Mapping[str, Iterable[Death]] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    results: dict[str, list[ClientResult]] = field(default_factory=dict)
    died: Counter[str] = field(default_factory=Counter)
    _commits: Mortal | None = None

    def __post_init__(self) -> None:
        self.queue: deque[tuple[str, str, bytes]] = deque()
        self.sent: list[tuple[str, bytes]] = []
        self.limits = Limits.of(self.plan)
        names = (*self.plan.names, SERVER)
        self.parties = {
            name: Mortal(
                name, self.folder / name.strip("()"), set(self.deaths.get(name, ())),
                Role.SERVER if name == SERVER else Role.CLIENT)
            for name in names
        }  # fmt: skip
        self.stack = ExitStack()

    def __enter__(self) -> "World":
        monkeypatch = self.stack.enter_context(pytest.MonkeyPatch.context())
        genuine = Store.append

        def mortal_append(store: Store, events: Sequence[Event], **more: Any) -> None:
            mortal = next((m for m in self.parties.values() if m.store is store), None)
            number = -1 if mortal is None else mortal.n_appends
            if mortal is not None:
                mortal.n_appends += 1
                self._commits = mortal
                self._maybe_kill(mortal, (number, BEFORE))
                for fault in DISK_FAULTS:
                    if (number, fault) in mortal.deaths:
                        self._fail(mortal, fault, lambda: genuine(store, events, **more))
                        self._maybe_kill(mortal, (number, fault))
            genuine(store, events, **more)
            if mortal is not None:
                self._maybe_kill(mortal, (number, AFTER))

        write = KeyFile._write

        def mortal_write(file: KeyFile, *slot: Any) -> None:
            mortal = self._commits
            at = next((m for m in self.parties.values() if keys_path(m.path) == file.path), None)
            if at is None or at is not mortal or at.store is None:
                return write(file, *slot)
            self._maybe_kill(at, (at.n_appends - 1, BEFORE_KEY))
            write(file, *slot)
            return self._maybe_kill(at, (at.n_appends - 1, AFTER_KEY))

        monkeypatch.setattr(Store, "append", mortal_append)
        monkeypatch.setattr(KeyFile, "_write", mortal_write)
        return self

    def __exit__(self, *_: object) -> None:
        for mortal in self.parties.values():
            if mortal.store is not None:
                mortal.store.close()
        self.stack.close()

    def _maybe_kill(self, mortal: Mortal, death: Death) -> None:
        if death in mortal.deaths:
            mortal.deaths.discard(death)
            self.died[mortal.name] += 1
            raise Killed

    def _fail(self, mortal: Mortal, fault: str, append: Callable[[], None]) -> None:
        """A commit on a disk that fails: it is said in a sentence, and neither store nor party
        takes another step.
        """
        store, n_sent = mortal.store, len(self.sent)
        assert store is not None
        genuine = store._connection
        # stands for one
        store._connection = FailingDisk(genuine, fault)  # type: ignore[assignment]
        with pytest.raises(StateError) as refused:
            append()
        store._connection = genuine  # there is space again, and still
        assert DISK_FAULTS[fault][2] in str(refused.value)
        with pytest.raises(StateError, match="no further step"):
            append()
        assert len(self.sent) == n_sent

    def noise(self, name: str) -> NoiseSource:
        return KnownNoise(name)

    def run(self) -> dict[str, ClientResult]:
        """To the end, with as many lives as it takes: every client's result, which all its lives
        agree on.
        """
        while True:
            self._revive()
            name = None
            try:
                if self.queue:
                    sender, name, data = self.queue.popleft()
                    self._deliver(sender, name, data)
                    continue
                waiting = [name for name in self.plan.names if self.parties[name].party is not None]
                if not waiting and self.parties[SERVER].party is None:
                    break
                name = waiting[0] if waiting else SERVER
                self._conclude(name)
            except Killed:
                assert name is not None
                self._bury(name)
        assert all(len({repr(result) for result in found}) == 1 for found in self.results.values())
        return {name: found[0] for name, found in self.results.items()}

    def connect(self, name: str) -> None:
        """A connection of this client: both sides say what they remember, then it says again what
        it said.
        """
        client, server = self.parties[name].party, self.parties[SERVER].party
        if client is not None and server is not None and client.outcome is None:
            client.attached(server.attach(name, client.position))
            self._post(name, client.begin())

    def _revive(self) -> None:
        """Start whoever is not alive and has not finished; a new connection for each, and for all
        if it is the server.
        """
        for name, mortal in self.parties.items():
            if mortal.party is not None or mortal.store is not None:
                continue
            try:
                mortal.party = self.open(name, mortal.open_store())
            except Killed:
                self._bury(name)
                return self._revive()
            except StateError as error:
                if "has ended" not in str(error):
                    raise
                continue  # it died right after its last commit
            if isinstance(mortal.party.outcome, ClientResult):
                self.results.setdefault(name, []).append(mortal.party.outcome)
            self._hang_up(name)
            died = [
                client
                for client in (self.plan.names if name == SERVER else [name])
                if self._dies_connecting(client)
            ]
            if died:
                return self._revive()
        return None

    def _dies_connecting(self, client: str) -> bool:
        try:
            self.connect(client)
        except Killed:
            self._bury(client)
            return True
        return False

    @repeatable_noise()
    def open(self, name: str, store: Store, **changes: Any) -> DurableClient | DurableServer:
        """A party from its store, as `join` and `serve` open it."""
        if name == SERVER:
            return DurableServer.open(
                self.plan, store=store, noise=self.noise(SERVER), clock=self.clock
            )
        n_lives = self.parties[name].n_lives
        own: dict[str, Any] = {
            "identity": identity(name),
            "dataset": DATASET,
        } | changes
        signing, plan = own.pop("identity"), own.pop("plan", self.plan)
        records = own.pop("records", LocalRecords(self.plan.mechanism.domain, self.X[name]))
        noise = own.pop("noise", self.noise(name))
        own["records"] = self.records_of(name, store, own.pop("fingerprint", FINGERPRINT))
        session = ClientSession(
            plan, own.pop("name", name), records, identity=signing, noise=noise, random_bytes=entropy(f"{name} {n_lives}"),
        )  # fmt: skip
        return DurableClient.join(session, store, signing, clock=self.clock, **own)

    def records_of(
        self, name: str, store: Store, fingerprint: Fingerprint = FINGERPRINT
    ) -> KnownRecords:
        """The records of a client, as the file beside them knows them, which no death takes."""
        return known_records(store, fingerprint, self.folder / name)

    def _deliver(self, sender: str, name: str, data: bytes) -> None:
        message, party = decode(data, self.limits), self.parties[name].party
        if name == SERVER:
            self._post(name, party.receive(sender, self.parties[sender].party.position, message))
        else:
            self._post(name, party.receive(message))
            if isinstance(party.outcome, ClientResult):
                self.results.setdefault(name, []).append(party.outcome)

    def _post(self, sender: str, requests: Iterable[Send | Finish]) -> None:
        for request in requests:
            if isinstance(request, Send):
                self.sent.append((sender, encode(request.message)))
            if isinstance(request, Send) and self.parties[request.to].party is not None:
                self.queue.append((sender, request.to, encode(request.message)))

    def _conclude(self, name: str) -> None:
        party, mortal = self.parties[name].party, self.parties[name]
        assert party.outcome is not None, f"{name} waits, and nothing is on its way"
        party.conclude()
        mortal.party = None  # the store stays open, which tells that it has finished

    def _bury(self, name: str) -> None:
        self._hang_up(name)
        self.parties[name].die()

    def _hang_up(self, name: str) -> None:
        self.queue = deque(item for item in self.queue if name not in item[:2])


def check_ledger(store: Store, plan: Plan) -> None:
    """Charged are the exchanges whose uploads are durable, in order; released, at the end, all
    others.
    """
    run = store.history.runs[bytes.fromhex(plan.run_id)]
    events = list(store.events())
    uploads = [
        event for event in events if isinstance(event, MessageRecorded) and event.kind == "Upload"
    ]
    charged = [event.number for event in events if isinstance(event, ExchangeCharged)]
    everything = range(1, plan.mechanism.n_rounds + 1)
    assert charged == list(run.charged) == list(everything[: len(uploads)])
    if run.ended is not None:
        assert run.ended.released == tuple(number for number in everything if number not in charged)


def messages_of(store: Store, plan: Plan) -> list[Message]:
    return [decode(data, Limits.of(plan)) for data in store.messages(bytes.fromhex(plan.run_id))]
