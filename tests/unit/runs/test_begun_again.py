"""A run that ends before all are ready costs nobody anything, and its plan can be used again; one
that may have cost something cannot.
"""

from pathlib import Path

import pytest

from fastlloyd.errors import StateError
from fastlloyd.federation.holder import HoldersLedger, own_run_id
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol.actions import SERVER, Ended
from fastlloyd.federation.protocol.messages import Message, Ready, Upload, decode
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
EITHER = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)


def world_of(masks: Masks, folder: Path) -> World:
    federation = FEDERATIONS[masks]
    return World(federation.plan, federation.X, folder)


def carry(world: World, lost: type[Message], sender: str) -> None:
    """Messages travel, but for those of one kind that this party says."""
    while world.queue:
        said_by, to, data = world.queue.popleft()
        if said_by != sender or not isinstance(decode(data, world.limits), lost):
            world._deliver(said_by, to, data)


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
            with pytest.raises(StateError, match=r"has ended.*a plan is good for one run"):
                world.open(name, mortal.open_store())
        store = world.parties["c1"].store
        assert store is not None
        check_ledger(store, plan)


def test_a_run_begins_again_only_as_what_it_was(tmp_path: Path) -> None:
    plan = FEDERATIONS[Masks.PAIRWISE].plan
    with world_of(Masks.PAIRWISE, tmp_path) as world:
        ended_early(world, Ready)
        store = world.parties["c0"].store
        assert store is not None
        assert check_may_join(store, plan, "c0", dataset=DATASET) is None
        other = make_plan(3, n_clusters=1, n_features=1, masks=Masks.PAIRWISE)
        with pytest.raises(StateError, match="begun with another plan of the same run id"):
            check_may_join(store, other, "c0", dataset=DATASET)
        with pytest.raises(StateError, match="begun as client 'c0', not as 'c2'"):
            check_may_join(store, plan, "c2", dataset=DATASET)


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
