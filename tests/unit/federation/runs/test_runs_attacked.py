"""What was tried against runs over a network and must not work again: lying parties, disks that
fail, terminals.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastlloyd.cli import network
from fastlloyd.errors import OldServerError, RemoteProtocolError, StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.identity.identity import PrivateIdentity
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import Finish, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import AllReady, Broadcast, Message, Upload
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.runs.steps import MAX_BEGUN_AGAIN, Again, StepTimer
from fastlloyd.federation.store import LogPosition, Role, Store
from fastlloyd.federation.store.events import LimitSet
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.testing import InjectedNoise
from federation import Federation, entropy, identity, injected, make_federation, make_plan, signed
from known_records import known_records

pytestmark = pytest.mark.usefixtures("repeatable_noise")

NOWHERE = bytes(32)
Made = Callable[[str, Role, bytes], Store]


def fail(*_: object, **__: object) -> None:
    raise StateError("the disk is full")


@pytest.fixture(params=Masks, ids=lambda masks: masks.value)
def federation(request: pytest.FixtureRequest) -> Federation:
    return make_federation(make_plan(3, masks=request.param))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes stores by name, role and public key, which are closed in the end."""
    with ExitStack() as opened:

        def make(name: str, role: Role, public: bytes) -> Store:
            return opened.enter_context(
                Store.create(tmp_path / f"{name}.store", role=role, identity=public)
            )

        yield make


def durable_c0(federation: Federation, store: Store) -> DurableClient:
    """The first client of a federation, with a store."""
    session = ClientSession(
        federation.plan,
        "c0",
        LocalRecords(federation.plan.mechanism.domain, federation.X["c0"]),
        identity=identity("c0"),
        noise=injected(federation.client_noise["c0"]),
        random_bytes=entropy("c0"),
    )
    return DurableClient.join(
        session,
        store,
        identity("c0"),
        dataset=DataSet(name="records"),
        records=known_records(store),
    )


class Floor:
    """A durable server, and clients that talk to it in this process; every client's log grows by
    one event per message.
    """

    def __init__(self, federation: Federation, made: Made) -> None:
        self.clients: dict[str, Any] = {
            name: federation.client(name) for name in federation.plan.names
        }
        self.store = made("server", Role.SERVER, bytes(32))
        self.server = DurableServer.open(federation.plan, store=self.store, noise=InjectedNoise([]))
        self.lengths = dict.fromkeys(self.clients, 0)

    def position(self, name: str) -> SignedPosition:
        return signed(name, self.lengths[name], bytes([self.lengths[name]] * 32))

    def say(self, name: str, message: Message) -> list[Send]:
        self.lengths[name] += 1
        return [
            a
            for a in self.server.receive(name, self.position(name), message)
            if isinstance(a, Send)
        ]

    def join(self) -> dict[str, Message]:
        """Everyone says Hello and comes to share keys: the uploads of round 1, which nobody has
        sent yet.
        """
        uploads: dict[str, Message] = {}
        waiting = [
            (name, a.message)
            for name, c in self.clients.items()
            for a in c.start()
            if isinstance(a, Send)
        ]
        while waiting:
            name, message = waiting.pop(0)
            if isinstance(message, Upload):
                uploads[name] = message
                continue
            for answer in self.say(name, message):
                said = self.clients[answer.to].receive(answer.message)
                waiting += [(answer.to, a.message) for a in said if isinstance(a, Send)]
        return uploads


def test_a_client_that_lies_about_its_log_is_refused_and_the_run_goes_on(
    federation: Federation, made: Made
) -> None:
    floor = Floor(federation, made)
    uploads = floor.join()
    for lie in (signed("c0", 0, NOWHERE), signed("c0", floor.lengths["c0"], NOWHERE)):
        with pytest.raises(RemoteProtocolError, match="old copy"):
            floor.server.receive("c0", lie, uploads["c0"])
    answers = [answer for name, upload in uploads.items() for answer in floor.say(name, upload)]
    assert [type(answer.message) for answer in answers] == [Broadcast] * 3


def test_what_could_not_be_made_durable_is_told_to_nobody_who_asks_later(
    federation: Federation, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor = Floor(federation, made)
    uploads = floor.join()
    floor.say("c0", uploads["c0"])
    floor.say("c1", uploads["c1"])

    monkeypatch.setattr(Store, "append", fail)
    with pytest.raises(StateError, match="disk is full"):
        floor.say("c2", uploads["c2"])  # the round is closed in memory, and nowhere else
    monkeypatch.undo()
    for name, upload in uploads.items():  # a turn that waited while the commit failed
        with pytest.raises(StateError, match="command again"):
            floor.say(name, upload)
    with pytest.raises(StateError, match="command again"):
        floor.server.deadline()
    assert not [
        event for event in floor.store.events() if getattr(event, "kind", "") == "Broadcast"
    ]


def test_an_upload_that_could_not_be_made_durable_is_not_sent_when_the_connection_is_made_anew(
    federation: Federation, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made("c0", Role.CLIENT, identity("c0").public)
    client = durable_c0(federation, store)

    def receive(message: Message) -> list[Send | Finish]:
        if not isinstance(message, AllReady):
            return client.receive(message)
        with monkeypatch.context() as patched:
            patched.setattr(Store, "append", fail)
            with pytest.raises(StateError, match="disk is full"):
                client.receive(
                    message
                )  # noise is drawn and added, and the upload is nowhere but in memory
        return []

    floor = Floor(federation, made)
    floor.clients["c0"] = SimpleNamespace(start=client.begin, receive=receive)
    assert sorted(floor.join()) == ["c1", "c2"]
    for again in (client.begin, client.deadline):
        with pytest.raises(StateError, match="command again"):
            again()
    assert store.history.runs[bytes.fromhex(federation.plan.run_id)].charged == ()


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_an_identity_that_is_reached_by_a_link_has_the_one_ledger_beside_its_file(
    tmp_path: Path,
) -> None:
    known = PrivateIdentity.make("c0", datetime.now(UTC).date() + timedelta(days=2))
    file, link = tmp_path / "keys" / "c0.identity.toml", tmp_path / "here.toml"
    file.parent.mkdir()
    link.symlink_to(file)
    known.save(file)
    with network.store_of(known.public, file, None, Role.CLIENT) as store:
        store.append([LimitSet(dataset="records", epsilon=1.0, delta=1e-6)])
    with network.store_of(known.public, link, None, Role.CLIENT) as store:
        assert store.path == file.with_name("c0.store")
        assert ("records", None) in store.history.limits


def test_a_server_that_forgot_a_sum_that_a_client_has_opened_is_refused(
    federation: Federation, made: Made
) -> None:
    """An old copy of the server's store would have it close the same round again, with other
    noise.
    """
    store = made("c0", Role.CLIENT, identity("c0").public)
    floor = Floor(federation, made)
    floor.clients["c0"] = client = durable_c0(federation, store)
    client.start = client.begin  # type: ignore[attr-defined] # the floor starts sessions
    uploads = floor.join()
    answered = store.position
    client.attached(
        LogPosition(0, NOWHERE)
    )  # nothing was opened yet: a server may have forgotten what it never closed
    (broadcast,) = {a.message for name, upload in uploads.items() for a in floor.say(name, upload)}
    client.receive(broadcast)
    before = LogPosition(answered.length - 1, store.head_at(answered.length - 1))
    for forgotten in (LogPosition(0, NOWHERE), before):
        with pytest.raises(OldServerError):
            client.attached(forgotten)
    client.attached(answered)
    client.attached(store.position)


def test_the_time_to_join_begins_with_the_first_client(federation: Federation, made: Made) -> None:
    now = [0.0]
    store = made("server", Role.SERVER, bytes(32))
    server = DurableServer.open(
        federation.plan, store=store, noise=InjectedNoise([]), clock=lambda: now[0]
    )
    now[0] = 1e6
    assert server.timeout is None
    (hello,) = [a.message for a in federation.client("c0").start() if isinstance(a, Send)]
    server.receive("c0", signed("c0", 1), hello)
    assert server.timeout == federation.plan.timeouts.joining


def test_a_step_is_counted_anew_after_a_restart_of_the_other_side_but_not_for_ever() -> None:
    now = [0.0]
    timer = StepTimer(lambda: now[0])
    for _ in range(MAX_BEGUN_AGAIN):
        timer.left("a round", 10)
        now[0] += 9
        timer.begin_again(Again.OTHER_SIDE_CAME_BACK)
        assert timer.left("a round", 10) == 10
    now[0] += 9
    timer.begin_again(Again.OTHER_SIDE_CAME_BACK)
    assert timer.left("a round", 10) == 1
    assert timer.left("the next", 10) == 10
