"""A run that ends before all are ready costs nobody anything, and its plan can be used again; one
that may have cost something cannot.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fastlloyd.errors import RemoteProtocolError, StateError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol.actions import SERVER, Ended
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    Deal,
    KeyBox,
    Message,
    Ready,
    SealedKeys,
    Upload,
    decode,
)
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.runs import check_may_join
from fastlloyd.federation.store.events import Outcome
from federation import make_federation, make_plan
from mortal_parties import DATASET, World, check_ledger

FEDERATIONS = {
    masks: make_federation(
        make_plan(3, n_clusters=1, n_features=1, n_iterations=2, masks=masks), seed=3
    )
    for masks in Masks
}
WHO = pytest.mark.parametrize("who", ["c0", "c2"])  # makes keys for all; for nobody
EITHER = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)


def world_of(masks: Masks, folder: Path) -> World:
    federation = FEDERATIONS[masks]
    return World(federation.plan, federation.X, folder)


Lost = Callable[[str, str, Message], bool]


def flow(world: World, lost: Lost = lambda *_: False) -> None:
    """Messages travel, but for those that are lost, by sender and recipient."""
    while world.queue:
        said_by, to, data = world.queue.popleft()
        if not lost(said_by, to, decode(data, world.limits)):
            world._deliver(said_by, to, data)


def carry(world: World, lost: type[Message], sender: str) -> None:
    """Messages travel, but for those of one kind that this party says."""
    flow(world, lambda said_by, _, message: said_by == sender and isinstance(message, lost))


def ended_early(world: World, lost: type[Message]) -> None:
    """A run that its server ends, because c1 said nothing of that kind; no client may be
    missing.
    """
    world._revive()
    carry(world, lost, "c1")
    server = world.parties[SERVER].party
    world._post(SERVER, server.deadline())
    carry(world, lost, "c1")
    for name in world.plan.names:
        assert isinstance(world.parties[name].party.outcome, Ended)
    server.conclude()


@EITHER
def test_without_the_word_of_all_nothing_is_charged_and_the_plan_runs_again(
    masks: Masks, tmp_path: Path
) -> None:
    run_id = bytes.fromhex(FEDERATIONS[masks].plan.run_id)
    with world_of(masks, tmp_path) as world:
        for _ in range(2):
            ended_early(world, Ready)
            for name in (*world.plan.names, SERVER):
                mortal = world.parties[name]
                assert mortal.store is not None
                assert mortal.party.may_begin_again
                run = mortal.store.history.runs[run_id]
                assert (run.charged, run.counted) == ((), ())
                assert mortal.store.messages(run_id) == []
                assert mortal.store.secrets(run_id) == {}
                mortal.die()
        assert set(world.run()) == set(world.plan.names)
        for name in world.plan.names:
            store = world.parties[name].store
            assert store is not None
            run = store.history.runs[run_id]
            assert run.ended is not None
            assert run.ended.outcome is Outcome.FINISHED
            assert not run.may_begin_again


@EITHER
def test_once_all_were_ready_the_plan_is_used_up_whatever_became_of_it(
    masks: Masks, tmp_path: Path
) -> None:
    plan = FEDERATIONS[masks].plan
    with world_of(masks, tmp_path) as world:
        ended_early(world, Upload)
        for name in (*plan.names, SERVER):
            mortal = world.parties[name]
            assert mortal.store is not None
            assert not mortal.party.may_begin_again
            mortal.die()
            with pytest.raises(StateError, match=r"ended.*a plan is"):
                world.open(name, mortal.open_store())
        store = world.parties["c1"].store
        assert store is not None
        check_ledger(store, plan)


def missed_the_end(world: World, who: str, unheard: tuple[type[Message], ...]) -> None:
    """A run that its server ends because c1 is not ready, and begins again; only this client, which
    lives on, did not hear any of these nor that it ended.
    """

    def is_lost(sender: str, to: str, message: Message) -> bool:
        is_unready = sender == "c1" and isinstance(message, Ready)
        return is_unready or (to == who and isinstance(message, (*unheard, Abort)))

    world._revive()
    flow(world, is_lost)
    server = world.parties[SERVER].party
    while server.outcome is None:
        world._post(SERVER, server.deadline())
        flow(world, is_lost)
    server.conclude()
    for name in (*world.plan.names, SERVER):
        if name != who:
            world.parties[name].die()
    assert world.parties[who].party.outcome is None
    server = world.parties[SERVER]
    server.party = world.open(SERVER, server.open_store())


def check_all_finish(world: World) -> None:
    """The run that goes on has a result for all, each of which paid once."""
    assert set(world.run()) == set(world.plan.names)
    for name in world.plan.names:
        store = world.parties[name].store
        assert store is not None
        check_ledger(store, world.plan)


@EITHER
@pytest.mark.parametrize(
    ("unheard", "state"),
    [
        ((Deal, KeyBox), ClientState.JOINING),
        ((KeyBox,), ClientState.DEALING),
        ((), ClientState.READY),
    ],
    ids=lambda value: value.value if isinstance(value, ClientState) else "",
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
@WHO
def test_a_client_that_missed_the_end_of_a_beginning_takes_part_in_the_next(
    who: str,
    is_first: bool,
    unheard: tuple[type[Message], ...],
    state: ClientState,
    masks: Masks,
    tmp_path: Path,
) -> None:
    """It comes before the others or after them, and says its old Hello and what it said last; then
    a Deal comes with the number that it knows, with other keys of the others.
    """
    with world_of(masks, tmp_path) as world:
        missed_the_end(world, who, unheard)
        assert world.parties[who].party.session.state is state
        if is_first:
            world.connect(who)
            flow(world)
            assert world.parties[SERVER].party.session.state is ServerState.JOINING
            assert world.parties[SERVER].party.session.joined == (who,)
            world._revive()
        else:
            world._revive()
            flow(world)
            world.connect(who)
        check_all_finish(world)


@EITHER
@WHO
def test_a_client_that_is_started_again_in_the_next_beginning_is_where_it_was(
    who: str, masks: Masks, tmp_path: Path
) -> None:
    with world_of(masks, tmp_path) as world:
        missed_the_end(world, who, ())
        world.connect(who)
        world._revive()
        carry(world, Ready, "c1")
        mortal = world.parties[who]
        before = mortal.party.begin()
        assert mortal.party.session.state is ClientState.READY
        mortal.die()
        mortal.party = world.open(who, mortal.open_store())
        assert mortal.party.begin() == before
        for name in world.plan.names:
            world.connect(name)
        check_all_finish(world)


@EITHER
@WHO
def test_a_client_joins_again_with_fresh_keys_a_server_that_has_its_old_hello(
    who: str, masks: Masks, tmp_path: Path
) -> None:
    with world_of(masks, tmp_path) as world:
        missed_the_end(world, who, ())
        world.connect(who)
        flow(world)
        mortal = world.parties[who]
        first, server = mortal.party.session.hello, world.parties[SERVER].party
        assert server.session.hello_of(who) == first
        world._post(who, mortal.party.deadline())  # its owner stops to wait, and asks again
        mortal.die()
        mortal.party = world.open(who, mortal.open_store())
        world.connect(who)
        flow(world)
        assert server.session.hello_of(who) == mortal.party.session.hello != first
        world._revive()
        check_all_finish(world)


def test_the_first_deal_of_the_next_beginning_follows_later_ones_of_the_one_before(
    tmp_path: Path,
) -> None:
    plan = make_plan(
        4, n_clusters=1, n_features=1, n_iterations=2, masks=Masks.PAIRWISE, max_dropouts=1,
        max_colluding=1,
    )  # fmt: skip
    federation, silent = make_federation(plan, seed=3), list[str]()

    def is_lost(sender: str, to: str, message: Message) -> bool:
        is_said = sender in silent and isinstance(message, Ready | SealedKeys)
        return is_said or (to == "c2" and isinstance(message, Abort))

    with World(plan, federation.X, tmp_path) as world:
        world._revive()
        server = world.parties[SERVER].party
        for name in ("c1", "c0"):
            silent.append(name)
            flow(world, is_lost)
            world._post(SERVER, server.deadline())
        flow(world, is_lost)
        assert server.outcome is not None
        key_set = world.parties["c2"].party.session._phase.key_set
        assert (key_set.deal.attempt, key_set.names) == (2, ("c0", "c2", "c3"))
        server.conclude()
        for name in ("c0", "c1", "c3", SERVER):
            world.parties[name].die()
        world._revive()
        world.connect("c2")
        check_all_finish(world)


@EITHER
def test_a_client_that_left_joins_again_while_the_server_still_waits(
    masks: Masks, tmp_path: Path
) -> None:
    plan = make_plan(
        4, n_clusters=1, n_features=1, n_iterations=2, masks=masks, max_dropouts=1, max_colluding=1
    )
    with World(plan, make_federation(plan, seed=3).X, tmp_path) as world:
        world._revive()
        flow(world, lambda sender, *_: sender == "c1")
        server, mortal = world.parties[SERVER], world.parties["c2"]
        world._post("c2", mortal.party.deadline())
        first = mortal.party.farewell
        world._post(SERVER, server.party.leave("c2", *first))
        assert server.party.gone == {"c2"}
        assert mortal.party.may_begin_again
        mortal.die()
        mortal.party = world.open("c2", mortal.open_store())
        world.connect("c2")
        flow(world)
        assert server.party.gone == frozenset()
        assert mortal.party.farewell != first
        with pytest.raises(RemoteProtocolError, match="names other keys"):
            server.party.leave("c2", *first)  # it ended another beginning
        assert server.party.gone == frozenset()
        server.die()  # what it knows of who has left is durable, and the Hellos come again
        server.party = world.open(SERVER, server.open_store())
        assert server.party.gone == frozenset()
        for name in plan.names:
            world.connect(name)
        check_all_finish(world)


@EITHER
@WHO
def test_nothing_of_an_earlier_beginning_has_an_answer_in_the_next(
    who: str, masks: Masks, tmp_path: Path
) -> None:
    """A server that breaks the protocol keeps the words of all for one beginning, and shows them in
    the next to clients that were in both, or joined anew.
    """
    with world_of(masks, tmp_path) as world:
        kept, words = list[tuple[str, Message]](), dict[str, Ready]()

        def is_lost(sender: str, to: str, message: Message) -> bool:
            if isinstance(message, Ready):
                words[sender] = message
            if sender == SERVER and not isinstance(message, Abort):
                kept.append((to, message))
            is_unready = sender == "c1" and isinstance(message, Ready)
            return is_unready or (to == who and isinstance(message, Abort))

        world._revive()
        flow(world, is_lost)
        all_ready = AllReady(
            words[who].deal, 1, tuple(words[name].signature for name in world.plan.names)
        )
        server = world.parties[SERVER].party
        world._post(SERVER, server.deadline())
        flow(world, is_lost)
        server.conclude()
        for name in (*world.plan.names, SERVER):
            if name != who:
                world.parties[name].die()
        old = [*kept, *((name, all_ready) for name in world.plan.names)]
        world._revive()
        world.connect(who)
        carry(world, Ready, "c1")
        for name in world.plan.names:
            party = world.parties[name].party
            assert party.session.state is ClientState.READY
            said = party.begin()
            for to, message in old:
                if to == name:
                    assert [a for a in party.receive(message) if a not in said] == []
            assert party.session.state is ClientState.READY
            run = world.parties[name].store.history.runs[bytes.fromhex(world.plan.run_id)]  # type: ignore[union-attr]
            assert run.charged == ()
        for name in world.plan.names:
            world.connect(name)
        check_all_finish(world)


def test_a_run_begins_again_only_as_what_it_was(tmp_path: Path) -> None:
    plan = FEDERATIONS[Masks.PAIRWISE].plan
    with world_of(Masks.PAIRWISE, tmp_path) as world:
        ended_early(world, Ready)
        store = world.parties["c0"].store
        assert store is not None
        assert check_may_join(store, plan, "c0", dataset=DATASET) is None
        other = make_plan(3, n_clusters=1, n_features=1, masks=Masks.PAIRWISE)
        with pytest.raises(StateError, match=r"begun.*another plan"):
            check_may_join(store, other, "c0", dataset=DATASET)
        with pytest.raises(StateError, match=r"begun as.*'c0'.*'c2'"):
            check_may_join(store, plan, "c2", dataset=DATASET)
        with pytest.raises(StateError, match="value of --rows-are"):
            check_may_join(store, plan, "c0", dataset=replace(DATASET, rows_are="patient"))


def test_a_holders_ledger_counts_a_run_that_begins_again_like_any_other(tmp_path: Path) -> None:
    plan = FEDERATIONS[Masks.PAIRWISE].plan
    run_id = bytes.fromhex(plan.run_id)
    ledger = HoldersLedger(tmp_path / "ledger.store")
    ledger.opened(new=True).close()
    with world_of(Masks.PAIRWISE, tmp_path) as world:
        ended_early(world, Ready)
        mortal = world.parties["c0"]
        assert mortal.store is not None
        ledger.follow(mortal.store)
        mine = own_run_id(run_id, mortal.store.identity)
        before = ledger.history().runs[mine]
        assert (before.counted, before.may_begin_again) == ((), True)
        mortal.die()
        again = world.open("c0", mortal.open_store(), holder=ledger)
        assert again.outcome is None
        counted = ledger.history().runs[mine]
        assert counted.counted == tuple(range(1, counted.n_exchanges + 1))


@EITHER
def test_a_run_begins_again_with_another_spelling_of_its_data_set(
    masks: Masks, tmp_path: Path
) -> None:
    with world_of(masks, tmp_path) as world:
        ended_early(world, Ready)
        mortal = world.parties["c0"]
        mortal.die()
        store = mortal.open_store()
        spelled = DataSet(name=DATASET.name.upper())
        assert spelled.name != DATASET.name
        world.open("c0", store, dataset=spelled)
        assert store.history.runs[bytes.fromhex(world.plan.run_id)].is_open
