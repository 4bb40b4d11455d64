"""What a server's store remembers: the run, whom it saw how far, and that a run is over."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.errors import OldCopyError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import (
    SERVER,
    ClientResult,
    Ended,
    Finish,
    Send,
    ServerResult,
)
from fastlloyd.federation.protocol.messages import (
    Abort,
    BadKeys,
    Broadcast,
    Confirmations,
    Message,
    Ready,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.federation.runs.steps import MAX_BEGUN_AGAIN
from fastlloyd.federation.store import Store
from fastlloyd.federation.store.events import Outcome, PeerSigned
from federation import make_federation, make_plan, signed
from mortal_parties import World
from stores import copy_store

FEDERATIONS = {
    masks: make_federation(
        make_plan(3, n_clusters=1, n_features=1, n_iterations=2, max_dropouts=1, masks=masks),
        seed=4,
    )
    for masks in Masks
}
PLAN = FEDERATIONS[Masks.GROUP].plan
RUN = bytes.fromhex(PLAN.run_id)


@pytest.fixture(params=Masks)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    federation = FEDERATIONS[request.param]
    with World(federation.plan, federation.X, tmp_path) as world:
        yield world


def carry(world: World, *, to_the_end: bool = True) -> None:
    """Deliver what is on its way; not the last Confirmations, if it is not to the end."""
    while world.queue:
        sender, to, data = world.queue.popleft()
        if to_the_end or not isinstance(decode(data, world.limits), Confirmations):
            world._deliver(sender, to, data)


def restarted(world: World) -> Any:
    mortal = world.parties[SERVER]
    mortal.die()
    mortal.party = world.open(SERVER, mortal.open_store())
    return mortal.party


def started_without(world: World, *missing: str) -> Any:
    """The server, and the clients but these, connected."""
    world._revive()
    world.queue.clear()
    for name in PLAN.names:
        if name in missing:
            world.parties[name].party = None
        else:
            world.connect(name)
    return world.parties[SERVER].party


def test_a_server_that_dies_after_the_end_says_that_it_is_over_and_still_answers(
    world: World,
) -> None:
    """Otherwise its next process would wait for ever: nobody is there to say anything new."""
    server = started_without(world)
    carry(world, to_the_end=False)
    result = server.outcome
    assert isinstance(result, ServerResult)
    assert server.timeout is None
    again = restarted(world)
    assert again.timeout == 0
    assert again.deadline() == [Finish(result)]
    assert (again.timeout, again.deadline()) == (None, [])
    world._hang_up(SERVER)
    for name in PLAN.names:
        world.connect(name)
    carry(world)
    assert all(isinstance(world.parties[name].party.outcome, ClientResult) for name in PLAN.names)


def test_a_server_that_dies_after_the_end_knows_who_has_taken_it(world: World) -> None:
    """Saying so twice is one event, and after the end of the run none."""
    server = started_without(world)
    assert server.left("c0") == []  # of a run that nobody joined nothing is noted
    assert server.gone == frozenset()
    carry(world)
    for name in ("c1", "c0", "c1"):
        assert server.left(name) == []
    again = restarted(world)
    assert again.gone == {"c0", "c1"}
    store = world.parties[SERVER].store
    assert store is not None
    assert store.history.runs[RUN].left == ("c1", "c0")
    again.conclude()
    assert again.left("c2") == []
    assert store.history.runs[RUN].left == ("c1", "c0")


def test_a_client_that_leaves_for_good_is_waited_for_no_more_after_a_restart_either(
    world: World,
) -> None:
    """A kill between the word and what follows from it is none: both are one commit. Its
    connections do not bring it back.
    """
    server = started_without(world)
    while server.session.state is not ServerState.AGGREGATING:
        world._deliver(*world.queue.popleft())
    server.left("c1")
    for again in (False, True):
        store = world.parties[SERVER].store
        assert store is not None
        assert store.history.runs[RUN].left == ("c1",)
        if world.plan.masks is Masks.PAIRWISE:
            assert "c1" in server.outcome.reason
            assert server.timeout == (0 if again else None)
        else:
            assert server.outcome is None
            assert server.session.awaited == ("c0", "c2")
        server = restarted(world)


def test_too_few_end_the_run_and_everybody_is_told_also_after_a_restart(world: World) -> None:
    server = started_without(world, "c0", "c2")
    assert [server.timeout] == [None]  # nobody has come
    carry(world)
    assert server.timeout == world.plan.timeouts.joining
    world.clock.now += world.plan.timeouts.joining
    assert server.timeout == 0
    requests = server.deadline()
    reason = server.outcome.reason
    assert [request for request in requests if isinstance(request, Finish)] == [
        Finish(server.outcome)
    ]
    assert "at least 2 are needed" in reason
    again = restarted(world)
    assert again.deadline() == [Finish(ServerResult(included=(), reason=reason))]
    (request,) = again.receive(
        "c1", world.parties["c1"].party.position, world.parties["c1"].party.begin()[0].message
    )
    assert request == Send("c1", Abort(reason))
    world.parties["c1"].party.receive(request.message)
    assert world.parties["c1"].party.outcome == Ended(f"the server ended the run: {reason}")
    again.conclude()
    store = world.parties[SERVER].store
    assert store is not None
    ended = store.history.runs[RUN].ended
    assert ended is not None
    assert (ended.outcome, ended.reason) == (Outcome.ABORTED, reason)
    again.conclude()
    assert again.may_begin_again  # nobody was ready, so nobody can have spent anything
    assert restarted(world).outcome is None


def test_a_server_goes_on_with_those_that_came(world: World) -> None:
    server = started_without(world, "c2")
    carry(world)
    world.clock.now += world.plan.timeouts.joining
    world._post(SERVER, server.deadline())
    carry(world)
    assert server.outcome == ServerResult(included=(("c0", "c1"),) * 2)
    assert world.parties["c0"].party.outcome.included == (("c0", "c1"),) * 2


def test_positions_of_clients_become_durable_with_the_next_step(world: World) -> None:
    server = started_without(world)
    store = world.parties[SERVER].store
    assert store is not None
    assert store.history.peers == {}
    carry(world)
    # what a client reported before the last step of the server was recorded with it
    keys = {client.name: client.signing_key for client in world.plan.clients}
    seen = [event for event in store.events() if isinstance(event, PeerSigned)]
    for name in PLAN.names:
        lengths = [event.position.length for event in seen if event.name == keys[name]]
        assert lengths == sorted(set(lengths))
        assert len(lengths) >= 3
        client = world.parties[name]
        assert client.store is not None
        assert all(
            client.store.head_at(e.position.length) == e.position.head
            for e in seen
            if e.name == keys[name]
        )
    attached = server.attach("c0", world.parties["c0"].party.position)
    assert attached == store.history.peers.get(keys["c0"])


@pytest.mark.parametrize("is_durable", [False, True])
def test_an_old_copy_of_a_clients_store_is_refused(world: World, is_durable: bool) -> None:
    server = started_without(world)
    if is_durable:
        carry(world)
        server = restarted(world)
        length = server.attach("c0", signed("c0", 99)).length
        server = restarted(world)
    else:
        length = world.parties["c0"].party.position.length
    for old in (signed("c0", length - 1), signed("c0", length)):
        with pytest.raises(OldCopyError, match="'c0'") as refusal:
            server.attach("c0", old)
        assert "go on under a new identity" in str(refusal.value)
    server.attach(
        "c0", signed("c0", length + 1)
    )  # whether that is a continuation the client itself can tell
    server.attach("c1", signed("c1", 99))  # others go on


@pytest.mark.parametrize("n_more", [1, 7])
def test_another_store_that_disowns_what_it_claimed_throws_out_nobody(
    world: World, n_more: int
) -> None:
    """Two machines with one identity: whoever finds that its store is not the one that was seen says
    so, and the first goes on.
    """
    server = started_without(world)
    mine = world.parties["c0"].party.position
    server.attach("c0", mine)
    server.attach("c0", signed("c0", mine.length + n_more))
    with pytest.raises(OldCopyError):  # while nobody has said whose claim is wrong
        server.attach("c0", mine)
    assert server.disowned("c0") == []
    server.attach("c0", mine)
    server.attach("c0", signed("c0", mine.length + n_more))
    server.disowned("c0")
    carry(world)  # the other's messages are still taken
    assert world.parties["c0"].party.outcome is not None


def test_whenever_a_server_is_started_again_it_knows_of_every_upload_it_took_and_refuses_older_copies(
    world: World,
) -> None:
    """A copy from before an upload would make another one for the same round: it is refused before
    it says a word.
    """
    started_without(world)
    taken: dict[str, SignedPosition] = {}
    seen: dict[str, list[SignedPosition]] = {name: [] for name in PLAN.names}
    n_uploads = n_refused = 0
    while world.queue:
        sender, to, data = world.queue.popleft()
        for name in PLAN.names:
            seen[name].append(world.parties[name].party.position)
        world._deliver(sender, to, data)
        if to != SERVER or not isinstance(decode(data, world.limits), Upload):
            continue
        n_uploads, taken[sender] = n_uploads + 1, world.parties[sender].party.position
        mortal = world.parties[SERVER]
        assert mortal.store is not None
        with Store.open(
            copy_store(mortal.store.path, world.folder / "again" / str(n_uploads))
        ) as store:
            again: Any = world.open(SERVER, store)
            for name, position in taken.items():
                for old in {old for old in seen[name] if old.length < position.length}:
                    n_refused += 1
                    with pytest.raises(OldCopyError, match=f"'{name}'"):
                        again.attach(name, old)
                again.attach(name, position)
    assert n_uploads == 6
    assert n_refused > 20


def test_uploads_that_came_together_cost_one_commit_and_one_more_that_closes_the_round(
    world: World,
) -> None:
    server = started_without(world)
    uploads: list[tuple[str, Any]] = []
    while world.queue:
        sender, to, data = world.queue.popleft()
        message = decode(data, world.limits)
        if to == SERVER and isinstance(message, Upload):
            uploads.append((sender, message))
        else:
            world._deliver(sender, to, data)
    store, positions = (
        world.parties[SERVER].store,
        {name: world.parties[name].party.position for name in PLAN.names},
    )
    assert store is not None
    assert sorted(name for name, _ in uploads) == list(PLAN.names)
    for name, _ in uploads:
        server.announce(name, positions[name])
    server.announce(
        "c0", signed("c0", 1)
    )  # an old copy waits, too: it is refused when its turn comes
    keys, before = (
        {client.name: client.signing_key for client in world.plan.clients},
        world.parties[SERVER].n_appends,
    )
    for n_appends, (name, upload) in zip((1, 1, 2), uploads, strict=True):
        server.receive(name, positions[name], upload)
        assert world.parties[SERVER].n_appends == before + n_appends
        assert all(
            store.history.signed[keys[other]].position == positions[other] for other in PLAN.names
        )


def test_who_joins_is_noted_once_and_what_is_said_again_costs_no_commit(world: World) -> None:
    started_without(world)
    store, n_appends = world.parties[SERVER].store, world.parties[SERVER].n_appends
    assert store is not None
    assert store.history.runs == {}
    (first, _, data), (second, _, other) = list(world.queue)[:2]
    for _ in range(2):
        world._deliver(first, SERVER, data)
        assert world.parties[SERVER].n_appends == n_appends + 1
        assert store.history.runs[RUN].joined == (first,)
    restarted(world)
    store = world.parties[SERVER].store
    assert store is not None
    world.connect(first)
    world._deliver(first, SERVER, data)
    assert world.parties[SERVER].n_appends == n_appends + 1
    world._deliver(second, SERVER, other)
    assert store.history.runs[RUN].joined == (first, second)


def test_each_step_has_its_own_time(world: World) -> None:
    times = world.plan.timeouts
    server = started_without(world, "c2")
    assert [server.timeout] == [None]  # nobody has come
    carry(world)
    assert server.timeout == times.joining
    world.clock.now += 7
    assert server.timeout == times.joining - 7
    world.clock.now += times.joining - 7
    server.deadline()
    assert server.timeout == world.plan.patience
    world.clock.now += world.plan.patience - 1
    assert server.timeout == 1
    again = restarted(world)  # counts anew
    assert again.timeout == world.plan.patience


def test_a_server_that_slept_gives_the_step_its_time_again_and_a_few_times_only(
    world: World,
) -> None:
    server, times = started_without(world, "c2"), world.plan.timeouts
    carry(world)
    assert server.timeout == times.joining
    for _ in range(MAX_BEGUN_AGAIN):
        world.clock.now += 10 * times.joining
        assert server.timeout < 0
        server.slept()
        assert server.timeout == times.joining
    world.clock.now += times.joining - 1
    server.slept()
    assert server.timeout == 1
    world.clock.now += 1
    server.deadline()
    assert server.timeout == world.plan.patience
    world.clock.now += 1
    server.slept()  # of another step
    assert server.timeout == world.plan.patience


def test_noise_that_is_drawn_ahead_stays_in_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, calls, store = (
        started_without(world),
        list[ServerSession](),
        world.parties[SERVER].store,
    )
    assert store is not None
    position = store.position

    def draw_ahead(session: ServerSession) -> None:
        calls.append(session)

    monkeypatch.setattr(ServerSession, "draw_ahead", draw_ahead)
    server.draw_ahead()
    assert calls == [server.session]
    assert store.position == position


def test_only_the_client_itself_says_that_its_run_is_over(world: World) -> None:
    server = started_without(world)
    hello, signature = world.parties["c1"].party.farewell
    lies = (
        ("c0", hello, signature),
        ("c1", hello, bytes(64)),
        ("c1", hello, signature[::-1]),
        ("c1", hello[::-1], signature),
    )
    for name, *said in lies:
        with pytest.raises(RemoteProtocolError, match=f"Leave.*'{name}'.*not signed"):
            server.leave(name, *said)
    assert not server.gone
    assert server.leave("c1", hello, signature) == []  # of a run that no client has joined yet


def test_a_client_that_disowns_its_store_after_a_commit_stops_no_server(world: World) -> None:
    """A position that is durable stays known, whatever the client takes back."""
    world._revive()
    server, held = world.parties[SERVER].party, []
    while world.queue:
        sender, to, data = world.queue.popleft()
        message = decode(data, world.limits)
        if isinstance(message, Upload):
            held.append((sender, to, data, message))
        else:
            world._deliver(sender, to, data)
    liar, n = world.parties["c2"].party, world.parties["c2"].party.position.length + 100
    (own,) = [message for sender, *_, message in held if sender == "c2"]
    server.attach("c2", signed("c2", n))
    server.attach("c2", signed("c2", n + 1))
    server.receive("c2", signed("c2", n + 1), own)
    server.announce("c2", signed("c2", n + 2))
    server.receive("c2", signed("c2", n + 2), liar.session.hello)
    server.disowned("c2")
    for sender, to, data, _ in held:
        if sender != "c2":
            world._deliver(sender, to, data)
    assert any(isinstance(decode(data, world.limits), Broadcast) for _, data in world.sent)


def test_an_end_that_names_long_names_can_be_read_and_is_taken_up_again(tmp_path: Path) -> None:
    names = [f"hospital-{i}-{'x' * 53}" for i in range(8)]
    plan = make_plan(
        names=names,
        n_clusters=1,
        n_features=1,
        n_iterations=2,
        masks=Masks.PAIRWISE,
        max_dropouts=2,
        max_colluding=1,
    )
    with World(plan, make_federation(plan, seed=4).X, tmp_path) as world:
        world._revive()
        server = world.parties[SERVER].party
        world._post(SERVER, server.left(names[0]))
        ends: list[Message] = []
        while world.queue and not ends:
            sender, to, data = world.queue.popleft()
            message = decode(data, world.limits)
            if sender == names[-1] and isinstance(message, Ready):
                said = server.receive(
                    sender,
                    world.parties[sender].party.position,
                    BadKeys(message.deal, (names[3],)),
                )
                ends = [each.message for each in said if isinstance(each, Send)]
            elif sender != names[0]:
                world._deliver(sender, to, data)
        assert {type(end) for end in ends} == {Abort}
        assert decode(encode(ends[0]), world.limits) == ends[0]
        assert isinstance(restarted(world).outcome, ServerResult)
