"""The ledger of a holder counts what its clients' stores count, at whatever commit to either a
process dies.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError, StateError
from fastlloyd.federation.admission import DataSet, check, reserve
from fastlloyd.federation.client_news import own_run_id
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.ledger import account, plan_cost
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import ClientResult
from fastlloyd.federation.store import History, Role, Store
from fastlloyd.federation.store.events import (
    Event,
    ExchangeCharged,
    LimitSet,
    Outcome,
    RunReserved,
    UnitLimitSet,
)
from federation import identity
from ledgers import knowing
from mortal_ledger import LEDGER, LedgerWorld
from mortal_parties import AFTER, BEFORE, DATASET
from runs_with_deaths import FEDERATIONS, N_COMMITS, NAMES, RESULTS, run_to_the_end
from stores import ADD, OWNER, copy_store, new_store, reserved, run_id

KIND = TrustMode.CLIENT_NOISE, Masks.PAIRWISE
PLAN = FEDERATIONS[KIND].plan
RUN = bytes.fromhex(PLAN.run_id)
N = PLAN.mechanism.n_rounds


@pytest.fixture
def ledger(tmp_path: Path) -> HoldersLedger:
    return knowing(tmp_path / "state" / "ledger.store")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with new_store(tmp_path) as store:
        yield store


def reservation(**changes: Any) -> RunReserved:
    event = reserve(
        History(Role.CLIENT),
        PLAN,
        client="c0",
        dataset="patients",
    )
    assert isinstance(event, RunReserved)
    return msgspec.structs.replace(event, **changes)


# Deaths


def test_a_process_may_die_at_every_commit_to_the_ledger_and_around_every_one_to_a_store(
    tmp_path: Path,
) -> None:
    """Three clients of one holder are in the run, so that it counts three times: that is what their
    records are shown.
    """
    everywhere = [
        (number, (BEFORE, AFTER)[number % 2]) for number in range(100)
    ]  # each commit is tried twice
    deaths = {LEDGER: everywhere, "c0": everywhere[: 2 * N_COMMITS[KIND[1]]["c0"]]}
    world = run_to_the_end(FEDERATIONS[KIND], RESULTS[KIND], tmp_path, deaths, LedgerWorld)
    assert isinstance(world, LedgerWorld)
    # each client enters, shows that its store has begun, and ends, each tried twice; c0 shows at
    # every restart how far it is
    assert world.died[LEDGER] == world.n_ledger_appends == 34
    assert world.died["c0"] == 2 * N_COMMITS[KIND[1]]["c0"]
    assert world.n_checks > 60
    for name in NAMES:  # what a process did not live to tell
        mortal = world.parties[name]
        with Store.open(copy_store(mortal.path, tmp_path / "after" / name)) as mine:
            world.ledger.follow(mine)
    runs = world.known().runs
    assert set(runs) == {own_run_id(RUN, identity(name).public) for name in NAMES}
    for run in runs.values():
        assert run.ended is not None
        assert (run.charged, run.ended.outcome) == (tuple(range(1, N + 1)), Outcome.FINISHED)
    spent = account(world.known(), "patients").spent.mu_squared
    assert spent == 3 * PLAN.mechanism.accountant().mu_squared


def test_a_run_without_a_death_is_entered_and_ended_once_per_client(tmp_path: Path) -> None:
    world = run_to_the_end(FEDERATIONS[KIND], RESULTS[KIND], tmp_path, {}, LedgerWorld)
    assert isinstance(world, LedgerWorld)
    assert (
        world.n_ledger_appends == 9
    )  # each client enters, shows that its store has begun, and ends
    assert all(
        isinstance(result, ClientResult) for results in world.results.values() for result in results
    )
    assert all(run.ended is not None for run in world.known().runs.values())


def test_a_run_that_was_entered_and_never_begun_is_given_up_by_its_store(
    ledger: HoldersLedger, store: Store
) -> None:
    ledger.enter(DATASET, store, reservation(), RUN)
    assert account(ledger.history(), "patients").n_open == 1
    with pytest.raises(StateError, match="another plan, name"):
        ledger.enter(DataSet(name="others"), store, reservation(dataset="others"), RUN)
    ledger.enter(DATASET, store, reservation(), RUN)  # the same command again
    assert ledger.release_unbegun(store, RUN)
    assert not ledger.release_unbegun(store, RUN)
    assert account(ledger.history(), "patients").spent.mu_squared == 0
    ledger.enter(DATASET, store, reservation(), RUN)  # it cost nothing, and may begin again
    assert account(ledger.history(), "patients").n_open == 1


def test_a_run_that_the_store_holds_is_not_given_up_as_never_begun(
    ledger: HoldersLedger, store: Store
) -> None:
    store.append([reservation()])
    ledger.enter(DATASET, store, None, RUN)
    assert not ledger.release_unbegun(store, RUN)


# What the ledger takes over


def test_a_ledger_takes_over_what_a_store_of_earlier_runs_knows_and_no_more_than_once(
    ledger: HoldersLedger, store: Store
) -> None:
    whole, part = run_id(1), run_id(2)
    events: list[Event] = [
        LimitSet(dataset="patients", epsilon=9.0, delta=1e-6),
        reserved(whole),
        reserved(part),
    ]
    store.append([*events, ExchangeCharged(run_id=part, number=2)])
    store.append([store.history.runs[part].end(Outcome.ABORTED, "why")])
    ledger.follow(store)
    ledger.follow(store)
    mine, known = account(ledger.history(), "patients"), account(store.history, "patients")
    assert mine.spent == known.spent
    assert (mine.n_open, mine.limit) == (1, None)  # the store keeps to its own limits itself
    store.append([ExchangeCharged(run_id=whole, number=n) for n in (1, 2, 3)])
    store.append([store.history.runs[whole].end(Outcome.FINISHED)])
    ledger.follow(store)
    assert account(ledger.history(), "patients").n_open == 0
    assert account(ledger.history(), "patients").spent == account(store.history, "patients").spent


def test_an_old_copy_of_a_ledger_hears_of_a_clients_runs_again(
    ledger: HoldersLedger, store: Store, tmp_path: Path
) -> None:
    """Brought back together with its head file, which nobody can notice."""
    with ledger.opened(new=True):
        pass
    copy_store(ledger.path, tmp_path / "old")
    ledger.enter(DATASET, store, reservation(), RUN)
    store.append([reservation()])
    old = HoldersLedger(tmp_path / "old" / "ledger.store")
    assert old.history().runs == {}
    old.enter(DATASET, store, None, RUN)
    assert account(old.history(), "patients").spent == account(ledger.history(), "patients").spent


# Limits


def test_a_limit_of_the_ledger_holds_for_a_client_and_one_of_its_store_too(
    ledger: HoldersLedger, store: Store
) -> None:
    cost = plan_cost(PLAN)
    with ledger.opened(new=True) as opened:
        opened.append([LimitSet(dataset="patients", epsilon=2.5, delta=PLAN.mechanism.delta)])
    with ledger.charged(DATASET, cost, by="fit", digest=bytes(32)) as charge:
        charge.drawing(N - 1)
    with pytest.raises(BudgetError, match=r"limit epsilon 2\.5"):
        ledger.enter(DATASET, store, reservation(), RUN)
    with pytest.raises(BudgetError, match=r"limit epsilon 2\.5"):
        ledger.rehearse(DATASET, store, OWNER, cost, RUN)
    assert (
        account(ledger.history(), "patients").spent
        == account(ledger.history(), "patients").first_run
    )
    store.append([LimitSet(dataset="patients", epsilon=0.5, delta=PLAN.mechanism.delta)])
    with pytest.raises(BudgetError, match=r"limit epsilon 0\.5"):
        reserve(store.history, PLAN, client="c0", dataset="patients")


def test_a_limit_for_persons_holds_for_a_client_whose_every_record_is_one(
    ledger: HoldersLedger, store: Store
) -> None:
    limit = UnitLimitSet(
        dataset="patients", epsilon=3.0, delta=1e-4, speaks_of=Neighbours(ADD, "patient")
    )
    with ledger.opened(new=True) as opened:
        opened.append([limit])
    with pytest.raises(BudgetError, match="does not protect"):
        ledger.rehearse(DATASET, store, OWNER, plan_cost(PLAN), RUN)
    ledger.rehearse(DATASET, store, OWNER, plan_cost(PLAN, "patient"), RUN)
    ledger.enter(DataSet(name="patients", rows_are="patient"), store, _of_patients(), RUN)
    check(ledger.history(), "patients", plan_cost(PLAN, "patient"))


def _of_patients() -> Any:
    known = History(Role.CLIENT)
    return reserve(
        known,
        PLAN,
        client="c0",
        dataset="patients",
        rows_are="patient",
    )


def test_a_name_that_only_the_store_knows_is_none_that_the_ledger_counts(
    ledger: HoldersLedger, store: Store
) -> None:
    store.append([reserved(run_id(1), dataset="of-the-store")])
    mine, new = DataSet(name="of-the-store"), DataSet(name="of-the-store", is_new=True)
    event = reserved(run_id(2), dataset="of-the-store")
    for step in (
        lambda: ledger.enter(mine, store, event, event.run_id),
        lambda: ledger.rehearse(mine, store, store.identity, event.cost, event.run_id),
        lambda: ledger.check_counts(mine, store.identity, event.run_id),
    ):
        with pytest.raises(BudgetError, match=f"unknown.*{ledger.path}; the known"):
            step()
    ledger.enter(new, store, event, event.run_id)
    assert len(ledger.history().runs) == 2
    store.append([event])
    for again in (mine, new):  # the same command, after it was killed
        ledger.check_counts(again, store.identity, event.run_id)
        ledger.enter(again, store, None, event.run_id)
    third = run_id(3)
    with pytest.raises(BudgetError, match=r"'of-the-store'.*not new"):
        ledger.enter(new, store, reserved(third, dataset="of-the-store"), third)
