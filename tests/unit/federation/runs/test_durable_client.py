"""What a client's store allows and refuses: who may take up a run, what it remembers, and what is
gone after it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError, DataError, FastLloydError, RemoteProtocolError, StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.fingerprint import Fingerprint
from fastlloyd.federation.ledger import account
from fastlloyd.federation.plan.design import renew
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.positions import KnownStore, KnownStoreOf, Positions
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended, Finish
from fastlloyd.federation.protocol.messages import (
    AllReady,
    Broadcast,
    Confirmations,
    KeyBox,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.runs import check_may_join, reservation
from fastlloyd.federation.store import LogPosition, Role, Store
from fastlloyd.federation.store.events import LimitSet, Outcome, UnitLimitSet
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.queries.query import Query
from federation import identity, make_federation, make_plan, same_clustering
from mortal_parties import (
    AFTER,
    BEFORE,
    DATASET,
    Killed,
    World,
    check_ledger,
    messages_of,
)
from stores import ADD, copy_store
from watch import Watch

FEDERATIONS = {
    masks: make_federation(
        make_plan(3, n_clusters=2, n_features=2, n_iterations=2, max_dropouts=1, masks=masks),
        seed=4,
    )
    for masks in Masks
}
FEDERATION = FEDERATIONS[Masks.GROUP]
PLAN = FEDERATION.plan
RUN = bytes.fromhex(PLAN.run_id)
N = len(PLAN.mechanism.all_rounds)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(PLAN, FEDERATION.X, tmp_path) as world:
        yield world


@pytest.fixture(params=Masks)
def either_world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """With both kinds of masks."""
    federation = FEDERATIONS[request.param]
    with World(federation.plan, federation.X, tmp_path) as world:
        yield world


def until(world: World, kind: type, name: str = "c1") -> Any:
    """Start all and carry messages until one of this kind is about to reach this client; it stays
    undelivered.
    """
    world._revive()
    while world.queue:
        sender, to, data = world.queue[0]
        message = decode(data, world.limits)
        if to == name and isinstance(message, kind):
            return message
        world.queue.popleft()
        world._deliver(sender, to, data)
    raise AssertionError(f"no {kind.__name__} came for {name}")


def reopened(world: World, name: str, **changes: Any) -> Any:
    """The client of another process, on a copy of the store as it is on disk now."""
    mortal = world.parties[name]
    if mortal.store is not None:
        mortal.die()
    store = mortal.open_store()
    return world.open(name, store, **changes)


# Taking a run up again


def test_a_client_that_joined_takes_the_run_up_with_the_very_same_hello(world: World) -> None:
    client: Any = world.open("c0", world.parties["c0"].open_store())
    said, position = client.begin(), client.position
    again = reopened(world, "c0")
    assert (again.begin(), again.position) == (said, position)
    assert again.outcome is None


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "records": (
        {"fingerprint": Fingerprint(bytes(31) + b"1")},
        "was begun with other records",
    ),
    "data set": (
        {"dataset": DataSet(name="others")},
        "was begun with --dataset patients",
    ),
    "plan": ({"plan": make_plan(3)}, "was begun with another plan"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_run_is_taken_up_with_what_it_was_begun_with_only(world: World, what: str) -> None:
    world.open("c0", world.parties["c0"].open_store())
    changes, fragment = REFUSED[what]
    with pytest.raises(StateError, match=fragment) as refusal:
        reopened(world, "c0", **changes)
    assert "\n" not in str(refusal.value)
    store = world.parties["c0"].store
    assert store is not None
    assert store.position.length == 2  # reserved, Hello
    reopened(world, "c0")


def test_a_run_is_taken_up_as_the_client_it_was_begun_as_only(world: World) -> None:
    world.open("c0", world.parties["c0"].open_store())
    store = world.parties["c0"].store
    assert store is not None
    with pytest.raises(StateError, match=r"begun as.*'c0'.*'c1'"):
        reservation(store, PLAN, "c1", dataset=DATASET, records=world.records_of("c0", store))


def test_a_store_of_somebody_else_is_refused(world: World) -> None:
    store = world.parties["c0"].open_store()
    with pytest.raises(StateError, match=r"belongs.*signing key"):
        world.open("c1", store)
    with pytest.raises(StateError, match="a server; expected"):
        world.open("c1", world.parties[SERVER].open_store())


def test_what_would_be_refused_reserves_nothing(world: World) -> None:
    store = world.parties["c0"].open_store()
    store.append([LimitSet(dataset=DATASET.name, epsilon=0.5, delta=1e-6)])
    with pytest.raises(BudgetError, match=r"limit epsilon 0\.5"):
        world.open("c0", store)
    many = LocalRecords(world.plan.mechanism.domain, np.zeros((41, 2), dtype=np.int64))
    with pytest.raises(DataError, match=r"'c0'.*records.*its cap"):
        world.open("c0", store, dataset=DataSet(name="others"), records=many)
    assert store.position.length == 1
    assert store.history.runs == {}


def test_a_limit_of_the_store_for_those_of_whom_each_record_is_one_holds_the_run(
    world: World,
) -> None:
    store = world.parties["c0"].open_store()
    store.append(
        [
            UnitLimitSet(
                dataset=DATASET.name, epsilon=9.0, delta=1e-6, speaks_of=Neighbours(ADD, "patient")
            )
        ]
    )
    with pytest.raises(BudgetError, match="does not protect"):
        check_may_join(store, world.plan, "c0", dataset=DATASET)
    of_patients = msgspec.structs.replace(DATASET, rows_are="patient")
    assert check_may_join(store, world.plan, "c0", dataset=of_patients) is None


def test_known_records_are_refused_under_another_name(world: World) -> None:
    world.open("c0", world.parties["c0"].open_store())
    store = world.parties["c0"].store
    assert store is not None
    other = make_plan(3, run_id=bytes(16))
    with pytest.raises(BudgetError, match=r"used.*'patients' before"):
        reservation(
            store,
            other,
            "c0",
            dataset=DataSet(name="others"),
            records=world.records_of("c0", store),
        )


def test_a_store_that_is_younger_than_the_plan_says_joins_nothing(
    world: World, tmp_path: Path
) -> None:
    """Wiped after a run, it would count from nothing; a server that never saw it could not tell."""
    until(world, Broadcast)
    before = world.parties["c0"].party.position
    seen = KnownStoreOf(
        name="c0", signing_key=PLAN.clients[0].signing_key, store=KnownStore.of(before)
    )
    undivided = make_plan(3, n_clusters=2, n_features=2, n_iterations=2)
    later = renew(undivided, run_id=bytes(16), positions=[Positions(clients=(seen,))])
    with Store.create(
        tmp_path / "wiped.store", role=Role.CLIENT, identity=identity("c0").public
    ) as wiped:
        for n_events in (0, 3):
            for number in range(n_events):
                wiped.append([LimitSet(dataset=f"other-{number}", epsilon=1.0, delta=0.0)])
            said = f"the plan remembers {before.length}"
            with pytest.raises(StateError, match=said):
                reservation(
                    wiped, later, "c0", dataset=DATASET, records=world.records_of("c0", wiped)
                )
        while wiped.position.length < before.length:
            wiped.append([LimitSet(dataset="others", epsilon=1.0, delta=0.0)])
        with pytest.raises(StateError, match="events differ from"):
            reservation(wiped, later, "c0", dataset=DATASET, records=world.records_of("c0", wiped))
        assert wiped.history.runs == {}
    genuine = world.parties["c0"].store
    assert genuine is not None
    assert (
        reservation(genuine, later, "c0", dataset=DATASET, records=world.records_of("c0", genuine))
        is not None
    )


def test_asking_what_a_run_would_reserve_stores_nothing(world: World) -> None:
    store = world.parties["c0"].open_store()
    event = reservation(store, PLAN, "c0", dataset=DATASET, records=world.records_of("c0", store))
    assert event is not None
    assert (event.run_id, store.position.length) == (RUN, 0)
    world.open("c0", store)
    assert (
        reservation(store, PLAN, "c0", dataset=DATASET, records=world.records_of("c0", store))
        is None
    )


# Charges and releases


@pytest.mark.parametrize("number", range(N + 1))
def test_a_run_that_ends_early_releases_what_was_never_charged(
    either_world: World, number: int
) -> None:
    """Stopped after `number` uploads: those are charged, and the rest is released in the step that
    ends the run.

    That is at once, or where a sum was opened, when what it led to is durable elsewhere.
    """
    world, plan = either_world, either_world.plan
    if number == 0:
        world._revive()
    else:
        until(world, Broadcast)
        for _ in range(number - 1):
            sender, to, data = world.queue.popleft()
            world._deliver(sender, to, data)
            until(world, Broadcast)
    client, store = world.parties["c1"].party, world.parties["c1"].store
    assert store is not None
    assert (
        account(store.history, DATASET.name).spent.mu_squared
        == plan.mechanism.accountant().mu_squared
    )  # all of it counts
    (finish,) = client.deadline()
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, Ended)
    left = finish.outcome.unfinished
    assert (left is None) == (number < 2)
    if left is not None:
        assert left.round == number - 1
        assert store.history.runs[RUN].ended is None
        client = reopened(world, "c1")
        store = world.parties["c1"].store
        assert store is not None
        assert client.outcome.reason == finish.outcome.reason
        assert client.outcome.unfinished.included == left.included
        assert np.array_equal(client.outcome.unfinished.centroids, left.centroids)
        assert (client.begin(), client.deadline(), client.timeout) == ([], [], None)
        client.conclude()
    check_ledger(store, plan)
    run = store.history.runs[RUN]
    assert run.charged == tuple(range(1, number + 1))
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.released) == (
        Outcome.ABORTED,
        tuple(range(number + 1, N + 1)),
    )
    assert (store.messages(RUN), store.secrets(RUN)) == ([], {})
    one = account(store.history, DATASET.name)
    exchanges = plan.mechanism.all_rounds[:number]
    assert one.spent.mu_squared == sum(
        plan.mechanism.accountant_of(exchange).mu_squared for exchange in exchanges
    )
    if number == 0:
        assert client.may_begin_again
        return
    with pytest.raises(StateError, match=r"\(nothing came from"):
        reopened(world, "c1")


def test_what_the_server_does_wrong_ends_the_run_durably(world: World) -> None:
    broadcast = until(world, Broadcast)
    client, store = world.parties["c1"].party, world.parties["c1"].store
    assert store is not None
    with pytest.raises(RemoteProtocolError):
        client.receive(msgspec.structs.replace(broadcast, payload=bytes(len(broadcast.payload))))
    assert isinstance(client.outcome, Ended)
    run = store.history.runs[RUN]
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.reason, run.ended.released) == (
        Outcome.ABORTED,
        client.outcome.reason,
        (2,),
    )
    assert store.messages(RUN) == []
    with pytest.raises(RemoteProtocolError, match="run had ended"):
        client.receive(broadcast)


class NoNoise:
    """A source that fails."""

    private = False

    def gaussian(self, *_: object) -> Any:
        raise FastLloydError("the random source failed")

    two_sided_geometric = gaussian


def test_an_error_of_this_machine_ends_the_process_and_not_the_run(either_world: World) -> None:
    world = either_world
    until(world, AllReady)
    client = reopened(world, "c1", noise=NoNoise())
    before = client.position
    world.parties["c1"].party = client
    world._hang_up("c1")
    world.connect("c1")
    with pytest.raises(FastLloydError, match="random source failed"):
        world.run()
    assert client.position == before
    mortal = world.parties["c1"]
    mortal.die()
    world._hang_up("c1")
    assert set(world.run()) == set(world.plan.names)
    assert mortal.store is not None
    check_ledger(mortal.store, world.plan)


# The end


class Gauge:
    """Records that count how often they are passed over."""

    share_bits = 0

    def __init__(self, name: str, world: World) -> None:
        self.domain = world.plan.mechanism.domain
        self._records, self.n_passes = LocalRecords(self.domain, world.X[name]), 0
        self.n = self._records.n

    def answer(self, query: Query) -> tuple[IntArray, int]:
        self.n_passes += 1
        return self._records.answer(query)


def owing(world: World, gauge: Gauge) -> Any:
    """The client of a process that was killed when a sum was durable, and its answer to the next
    question was not.
    """
    broadcast = until(world, Broadcast)
    client = world.parties["c1"].party
    client._commit(client.session.accept(broadcast))
    return reopened(world, "c1", records=gauge)


def test_an_answer_that_is_owed_is_made_once_the_server_sees_the_client(
    either_world: World,
) -> None:
    """A pass may be long: the server must not take the client for absent meanwhile."""
    gauge = Gauge("c1", either_world)
    client = owing(either_world, gauge)
    before = client.position.length
    assert (gauge.n_passes, client.outcome) == (0, None)
    said = client.begin()
    assert [send.message.round for send in said if isinstance(send.message, Upload)] == [2]
    assert (gauge.n_passes, client.position.length) == (1, before + 2)
    assert client.begin() == said
    assert gauge.n_passes == 1
    assert reopened(either_world, "c1", records=gauge).begin() == said
    assert gauge.n_passes == 1


def test_an_answer_that_is_owed_is_not_made_after_the_deadline(world: World) -> None:
    gauge = Gauge("c1", world)
    client = owing(world, gauge)
    client.deadline()
    assert (client.begin(), gauge.n_passes) == ([], 0)


def test_a_client_that_finished_finds_its_result_again_until_it_concludes(world: World) -> None:
    until(world, Confirmations)
    sender, to, data = world.queue.popleft()
    world._deliver(sender, to, data)
    client = world.parties["c1"].party
    assert isinstance(client.outcome, ClientResult)
    again = reopened(world, "c1")
    assert isinstance(again.outcome, ClientResult)
    assert same_clustering(again.outcome.clustering, client.outcome.clustering)
    assert (again.outcome.included, again.timeout, again.deadline()) == (
        client.outcome.included,
        None,
        [],
    )
    again.conclude()
    position = again.position
    again.conclude()
    assert again.position == position
    with pytest.raises(StateError, match=r"client \(it finished\)"):
        reopened(world, "c1")


KEPT = {  # whose secrets, by name
    Masks.GROUP: {
        "c0": {"run-keys", "pair-secret with c1", "pair-secret with c2", "group-key of attempt 1"},
        "c1": {"run-keys"},
    },
    Masks.PAIRWISE: {
        "c0": {"run-keys", "pair-secret with c1", "pair-secret with c2", "group-key of attempt 1"},
        "c1": {"run-keys", "pair-secret with c2"},
    },
}


@pytest.mark.parametrize("name", ["c0", "c1"])
def test_nothing_of_a_run_is_in_the_files_while_it_goes_on_or_after(
    either_world: World, name: str
) -> None:
    world = either_world
    until(world, Confirmations, name)
    mortal = world.parties[name]
    store = mortal.store
    assert store is not None
    secrets = store.secrets(RUN)
    assert set(secrets) == KEPT[world.plan.masks][name]
    payloads = [
        message.payload
        for message in messages_of(store, world.plan)
        if isinstance(message, Broadcast)
    ]
    assert len(payloads) == N
    open_now = copy_store(store.path, world.folder / "before").parent
    world.run()
    for file in (*open_now.iterdir(), *mortal.path.parent.iterdir()):
        content = file.read_bytes()
        assert not any(piece in content for piece in (*secrets.values(), *payloads)), file


def test_a_run_is_concluded_only_with_a_result(world: World) -> None:
    world._revive()
    client = world.parties["c1"].party
    position = client.position
    client.conclude()
    assert client.position == position


# One set per round


def other_set(world: World, first: Broadcast) -> Broadcast:
    """A proper sum of real uploads of the same round, without the third client's, as a lying server
    can make it.
    """
    uploads = {}
    for sender, data in world.sent:
        if (
            isinstance(message := decode(data, world.limits), Upload)
            and message.round == first.round
            and sender != "c2"
        ):
            uploads[sender] = message
    ring = PLAN.ring
    total = ring.wrap(
        np.zeros(PLAN.n_words(PLAN.mechanism.all_rounds[first.round - 1]), dtype=np.int64)
    )
    for upload in uploads.values():
        total = ring.add(total, ring.from_bytes(upload.payload, total.size))
    nonces = {name: upload.nonce for name, upload in uploads.items()}
    return Broadcast.of(PLAN.names, first.round, nonces, ring.to_bytes(total))


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize("commit", [0, 1])
def test_a_client_that_dies_when_it_takes_a_sum_opens_no_other_set_of_that_round(
    world: World, commit: int, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first commit is that of the sum, the second that of what it says to it."""
    watch, first, mortal = Watch.install(monkeypatch), until(world, Broadcast), world.parties["c1"]
    second = other_set(world, first)
    mortal.deaths.add((mortal.n_appends + commit, when))
    with pytest.raises(Killed):
        mortal.party.receive(first)
    opened = watch.tried.get(("c1", 1), set())
    client = reopened(world, "c1")
    if (commit, when) == (0, BEFORE):
        assert (
            opened == set()
        )  # the sum was never looked into, so another may be taken in its place
        client.receive(second)
        assert watch.tried["c1", 1] == {encode(second)}
        return
    with pytest.raises(RemoteProtocolError, match="neither the broadcast"):
        client.receive(second)
    assert watch.tried["c1", 1] == {encode(first)}


def test_a_sum_that_was_recorded_and_cannot_be_opened_ends_the_run_for_good(world: World) -> None:
    """Also of a client that dies between the two: the server cannot try again with another sum."""
    first, mortal = until(world, Broadcast), world.parties["c1"]
    mortal.deaths.add((mortal.n_appends, AFTER))
    with pytest.raises(Killed):
        mortal.party.receive(msgspec.structs.replace(first, payload=bytes(len(first.payload))))
    client = reopened(world, "c1")
    store = mortal.store
    assert store is not None
    assert isinstance(client.outcome, Ended)
    assert "the sum of round 1 does not open" in client.outcome.reason
    assert (client.begin(), client.deadline(), client.timeout) == ([], [], None)
    ended = store.history.runs[RUN].ended
    assert ended is not None
    assert (ended.outcome, ended.reason, ended.released) == (
        Outcome.ABORTED,
        client.outcome.reason,
        tuple(range(2, N + 1)),
    )
    assert store.messages(RUN) == []
    with pytest.raises(RemoteProtocolError, match="run had ended"):
        client.receive(first)
    with pytest.raises(StateError, match=r"has ended.*not open"):
        reopened(world, "c1")


# Old copies


def test_an_old_copy_of_the_store_is_refused_once_the_server_remembers_more(
    world: World, tmp_path: Path
) -> None:
    until(world, Broadcast)
    mortal, server = world.parties["c1"], world.parties[SERVER].party
    assert mortal.store is not None
    old = copy_store(mortal.store.path, tmp_path / "old")
    sender, to, data = world.queue.popleft()
    world._deliver(sender, to, data)
    until(world, Broadcast)
    remembered = server.attach("c1", mortal.party.position)
    with Store.open(old, role=Role.CLIENT, identity=identity("c1").public) as store:
        client: Any = world.open("c1", store)
        assert remembered.length > store.position.length
        with pytest.raises(
            StateError,
            match=r"it has \d+",
        ):
            client.attached(remembered)
        with pytest.raises(StateError, match=r"events differ.*the 1 "):
            client.attached(LogPosition(1, bytes(32)))
        client.attached(LogPosition(0, bytes(32)))
        client.attached(LogPosition(1, store.head_at(1)))


# Time


def test_a_client_waits_longer_than_the_server_in_every_step(either_world: World) -> None:
    world = either_world
    times, patience, grace = world.plan.timeouts, world.plan.patience, world.plan.grace
    assert (patience, grace) == {
        Masks.GROUP: (times.dealing, 60),
        Masks.PAIRWISE: (times.round, 24 * 3600),
    }[world.plan.masks]
    dealing = (world.plan.max_dropouts + 1) * (patience + times.round)
    world._revive()
    world.queue.clear()
    client = world.parties["c1"].party
    assert client.timeout == times.joining + dealing + grace
    world.clock.now += 10
    assert client.timeout == times.joining + dealing + grace - 10
    for name in world.plan.names:
        world.connect(name)
    until(world, KeyBox)
    assert client.timeout == dealing + grace
    until(world, AllReady)
    assert client.timeout == dealing + grace
    until(world, Broadcast)
    assert client.timeout == times.round + grace
    until(world, Confirmations)
    assert client.timeout == times.confirming + grace
    world.clock.now += times.confirming + grace
    assert client.timeout == 0
    client.slept()  # it was its own machine that slept
    assert client.timeout == times.confirming + grace
