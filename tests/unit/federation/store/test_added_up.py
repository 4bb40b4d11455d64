"""A ledger that was opened from its last sum says what all of its events say, and the sum is
checked where all are read.
"""

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError, DataError, StateError
from fastlloyd.federation.admission import DataSet, check_known_unit, reservation_of
from fastlloyd.federation.holder import HoldersLedger
from fastlloyd.federation.ledger import account, known_datasets, sums_on
from fastlloyd.federation.store import History, Role, Store, read
from fastlloyd.federation.store import added_up as module
from fastlloyd.federation.store.costs import PersonRunCost, PlannedCost
from fastlloyd.federation.store.events import (
    AddedUp,
    Event,
    HandedBack,
    LimitSet,
    RunCharged,
    UnitLimitSet,
    encode,
)
from ledgers import knowing
from stores import ADD, ADDED, REPLACED, cost, pure_cost, unguarded

PATIENTS = DataSet(name="patients")
OF_PERSONS = PersonRunCost(
    **msgspec.structs.asdict(cost(Fraction(1, 3), Fraction(1, 5))),
    unit="patient",
    max_clients=0,
    one_row_each=False,
)
COSTS: tuple[PlannedCost, ...] = (
    cost(Fraction(1, 7), Fraction(2, 9), distance=Fraction(1, 10**40)),
    pure_cost(Fraction(1, 11), Fraction(1, 13)),
    OF_PERSONS,
)
ASKED = [None, ADDED, REPLACED, Neighbours(ADD, "patient"), Neighbours(ADD, "patient", 3)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERIOD", 3)
    monkeypatch.setattr(module, "RECENT", 2)


def charge(
    ledger: HoldersLedger,
    name: str,
    each: PlannedCost,
    *,
    fails: bool = False,
    may_be_refused: bool = False,
) -> None:
    new_unit = DataSet(name=name, is_new_unit=True)
    with (
        suppress(DataError, *([BudgetError] if may_be_refused else [])),
        ledger.charged(new_unit, each, by="fit", digest=bytes(32)) as charged,
    ):
        charged.drawing(0)
        if fails:
            raise DataError("after the first round")


def resumed(ledger: HoldersLedger) -> History:
    with ledger.opened() as store:
        return store.history


def same_as_whole(ledger: HoldersLedger) -> None:
    whole, quick = ledger.history(), resumed(ledger)
    assert known_datasets(quick) == known_datasets(whole)
    assert quick.n_runs == whole.n_runs == len(whole.runs)
    for name in known_datasets(whole):
        assert sums_on(quick, name) == sums_on(whole, name)
        for asked in ASKED:
            mine, all_of_it = (account(each, name, asked) for each in (quick, whole))
            for field in ("limit", "spent", "otherwise", "first_run", "first_limit", "proviso"):
                assert getattr(mine, field) == getattr(all_of_it, field)


STEPS = st.lists(
    st.tuples(st.sampled_from(["patients", "Patients", "visits"]), st.integers(0, 4)), max_size=25
)


@pytest.mark.usefixtures("few")
@settings(max_examples=12)
@given(steps=STEPS)
def test_what_is_added_up_is_what_all_events_say(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    ledger = knowing(tmp_path_factory.mktemp("ledger") / "l.store", "patients", "visits")
    for name, kind in steps:
        if kind < len(COSTS):
            charge(ledger, name, COSTS[kind], fails=kind == 1, may_be_refused=True)
        else:
            with ledger.opened() as store:
                limit = LimitSet(dataset=name, epsilon=50.0 + kind, delta=1e-3)
                more = UnitLimitSet(
                    dataset=name, epsilon=float("inf"), delta=0.0, speaks_of=ASKED[-1] or ADDED
                )
                store.append([limit if kind == 3 else more])
    same_as_whole(ledger)


@pytest.mark.usefixtures("few")
def test_the_ledger_stays_short_to_read(ledger_of_its_own: Path) -> None:
    ledger = knowing(ledger_of_its_own)
    for _ in range(25):
        charge(ledger, "patients", COSTS[0])
    assert len(resumed(ledger).runs) <= 1 + 2 + 2 * 3
    assert len(ledger.history().runs) == 25
    same_as_whole(ledger)
    charge(ledger, "patients", OF_PERSONS)
    with pytest.raises(BudgetError, match="'household' is unknown"):
        check_known_unit("patients", "household", "--unit", resumed(ledger))
    with ledger.opened() as store:
        store.append([LimitSet(dataset="patients", epsilon=0.5, delta=1e-6)])
    with pytest.raises(BudgetError, match="limit epsilon"):
        charge(ledger, "patients", COSTS[0])


def _events(n_runs: int) -> list[Event]:
    found: list[Event] = []
    for _ in range(n_runs):
        run_id = os.urandom(16)
        named: Any = {"digest": bytes(32), "client": "fit", "dataset": "patients"}
        found.append(reservation_of(COSTS[0], run_id=run_id, **named))
        found.append(RunCharged(run_id=run_id))
    return found


@pytest.mark.usefixtures("few")
def test_a_sum_that_is_not_that_of_its_runs_is_refused_by_whoever_reads_all() -> None:
    history = History(Role.HOLDER).followed_by(_events(10))
    (event,) = history.due()
    (kind,) = event.records
    wrong: list[Event] = [
        msgspec.structs.replace(event, records=()),
        msgspec.structs.replace(event, records=(msgspec.structs.replace(kind, times=1),)),
        msgspec.structs.replace(event, records=(msgspec.structs.replace(kind, numbers=(1,)),)),
        msgspec.structs.replace(event, others=event.others[1:]),
        msgspec.structs.replace(event, others=()),
    ]
    for each in wrong:
        with pytest.raises(StateError, match="sums in the"):
            history.followed_by([each])
    history.add(event)
    with pytest.raises(StateError, match="of a sum"):
        history.add(HandedBack(run_id=list(history.runs)[1], numbers=(2,)))
    assert not history.due()


@pytest.mark.usefixtures("few")
def test_a_fit_that_fails_after_it_was_added_up_stays_counted(ledger_of_its_own: Path) -> None:
    ledger = knowing(ledger_of_its_own)
    charge(ledger, "patients", COSTS[0])

    def fail() -> None:
        for _ in range(20):
            charge(ledger, "patients", COSTS[0])
        raise DataError("late")

    run = ledger.charged(PATIENTS, COSTS[0], by="fit", digest=bytes(32))
    with pytest.raises(DataError, match="late"), run:
        fail()
    assert {run.counted for run in ledger.history().runs.values()} == {(1, 2)}
    same_as_whole(ledger)


@pytest.mark.usefixtures("few")
def test_what_is_damaged_after_the_last_sum_or_named_by_it_is_found(
    ledger_of_its_own: Path,
) -> None:
    ledger = knowing(ledger_of_its_own)
    for _ in range(20):
        charge(ledger, "patients", COSTS[0])
    events = read(ledger.path)[1]
    (*_, last) = (n for n, each in enumerate(events, 1) if isinstance(each, AddedUp))
    added = events[last - 1]
    assert isinstance(added, AddedUp)
    for number in (last, last + 1, len(events), added.others[0], added.others[-1]):
        body = encode(events[number - 1])
        for to in (body[:-1] + bytes([body[-1] ^ 1]), body):
            with unguarded(ledger.path) as connection:
                connection.execute("UPDATE events SET body = ? WHERE number = ?", (to, number))
            if to != body:
                with pytest.raises(StateError, match=f"breaks at event {number}"):
                    Store.open(ledger.path, whole=False)
    Store.open(ledger.path, whole=False).close()
