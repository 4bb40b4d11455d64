"""What a run costs records and persons, by either relation, and which limits hold it: each names
its own sum.
"""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.errors import BudgetError
from fastlloyd.federation.admission import DataSet, check, check_unit
from fastlloyd.federation.ledger import Proviso, account, accounts, check_sums, plan_cost, run_cost
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store import History, Role
from fastlloyd.federation.store.costs import Cost, PersonRunCost, PlannedCost
from fastlloyd.federation.store.events import (
    Event,
    HandedBack,
    LimitSet,
    Outcome,
    PersonRunReserved,
    RunCharged,
    UnitLimitSet,
    decode,
    encode,
)
from fastlloyd.mechanisms.answering import SharedRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, SULLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import make_plan
from stores import ADD, ADDED, REPLACE, REPLACED, cost, pure_cost, reserved_as, run_id

DOMAIN = Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(1.0, 1.0), fraction_bits=13)
ALGORITHMS = pytest.mark.parametrize(
    "algorithm", [MOMENTLLOYD, FASTLLOYD, SULLOYD], ids=lambda algorithm: algorithm.name
)
RELATIONS = pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda relation: relation.value)
DELTA = 1e-6


def mechanism(
    algorithm: AnyAlgorithm = FASTLLOYD,
    persons: Persons | None = Persons(name="patient"),  # noqa: B008 - frozen
    relation: NeighboringRelation = ADD,
    **changes: Any,
) -> Any:
    given: dict[str, Any] = {
        "n_clusters": 2,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    } | changes
    if algorithm is not SULLOYD:
        given.setdefault("delta", DELTA)
    return design_mechanism(
        algorithm, DOMAIN, persons=persons, neighboring_relation=relation, **given
    )


def patient(
    relation: NeighboringRelation = ADD, max_clients: int = 1, unit: str = "patient"
) -> Neighbours:
    return Neighbours(relation, unit, max_clients)


def found(m: Any, relation: NeighboringRelation) -> tuple[Cost, ...]:
    """The second route: what the accountant makes of each round."""
    each = (m.accountant_of(round, relation) for round in m.all_rounds)
    return tuple(Cost(accountant.mu_squared, accountant.pure_epsilon) for accountant in each)


def twice(costs: tuple[Cost, ...]) -> tuple[Cost, ...]:
    return tuple(Cost(4 * cost.mu_squared, 2 * cost.pure_epsilon) for cost in costs)


def history(*events: Event) -> History:
    return History(Role.HOLDER).followed_by(events)


def of_costs(*costs: PlannedCost, limits: tuple[Event, ...] = ()) -> History:
    return history(*limits, *(reserved_as(each, run_id(n)) for n, each in enumerate(costs)))


def limit(speaks_of: Neighbours | None, epsilon: float = 2.0, delta: float = DELTA) -> Event:
    if speaks_of is None:
        return LimitSet(dataset="patients", epsilon=epsilon, delta=delta)
    return UnitLimitSet(dataset="patients", epsilon=epsilon, delta=delta, speaks_of=speaks_of)


def test_of_the_other_relation_are_the_same_persons() -> None:
    assert patient(max_clients=3).other == patient(REPLACE, max_clients=3)
    assert patient(REPLACE, max_clients=3).other == patient(max_clients=3)


# The four sums


@ALGORITHMS
@RELATIONS
def test_a_run_for_persons_costs_a_record_what_a_person_costs_and_a_replaced_record_twice_the_distance(
    algorithm: AnyAlgorithm, relation: NeighboringRelation
) -> None:
    m = mechanism(algorithm, relation=relation)
    A, R = found(m, ADD), found(m, REPLACE)
    run = run_cost(m)
    assert run.under(ADDED) == run.under(patient(ADD)) == A
    assert run.under(REPLACED) == twice(A)
    assert run.under(patient(REPLACE)) == R
    assert (
        run.under(patient(unit="household"))
        == run.under(patient(REPLACE, unit="household"))
        == (None,) * len(A)
    )
    assert all(
        one.mu_squared <= other.mu_squared and one.pure_epsilon <= other.pure_epsilon
        for one, other in zip(A, R, strict=True)
    )


@ALGORITHMS
def test_a_run_for_records_has_no_bound_for_persons_but_where_each_record_is_one(
    algorithm: AnyAlgorithm,
) -> None:
    m = mechanism(algorithm, persons=None)
    A, R = found(m, ADD), found(m, REPLACE)
    assert run_cost(m).under(ADDED) == A
    assert run_cost(m).under(REPLACED) == R
    assert (
        run_cost(m).under(patient(ADD)) == run_cost(m).under(patient(REPLACE)) == (None,) * len(A)
    )
    one_each = run_cost(m, rows_are="patient")
    assert one_each.under(patient(ADD)) == one_each.under(ADDED) == A
    assert one_each.under(patient(REPLACE)) == one_each.under(REPLACED) == R
    assert one_each.under(patient(unit="household")) == (None,) * len(A)


@pytest.mark.parametrize(("planned", "asked"), [(1, 1), (1, 3), (2, 3), (3, 2), (3, 3)])
@ALGORITHMS
def test_a_person_at_more_organisations_than_a_run_is_planned_for_is_so_much_farther_from_its_neighbour(
    algorithm: AnyAlgorithm, planned: int, asked: int
) -> None:
    """The second route: the same noise in a mechanism whose persons are at so many; nobody at fewer
    costs less.
    """
    m = mechanism(algorithm, Persons(name="patient", max_clients=planned))
    larger = msgspec.structs.replace(
        m, persons=Persons(name="patient", max_clients=max(planned, asked)), epsilon=200.0
    )
    run = run_cost(m, is_federated=True)
    for relation in (ADD, REPLACE):
        assert run.under(patient(relation, asked)) == found(larger, relation)
    assert run.under(ADDED) == found(m, ADD)
    assert run_cost(m).under(patient(ADD, asked)) == found(
        m, ADD
    )  # all of a person's rows are in one place


def test_a_plan_for_records_that_are_persons_is_for_one_organisation() -> None:
    plan = make_plan(3)
    run = plan_cost(plan, "patient")
    assert isinstance(run, PersonRunCost)
    assert (run.max_clients, run.distance, run.one_row_each) == (1, plan.distance, True)
    one, three = (Spending.of([(run, [1])], patient(max_clients=c)) for c in (1, 3))
    assert three.mu_squared == 9 * one.mu_squared


def test_persons_of_another_name_than_the_noise_is_made_for_are_refused() -> None:
    run_cost(mechanism(), rows_are="patient")
    with pytest.raises(
        BudgetError,
        match=("rows_are is 'household'"),
    ):
        run_cost(mechanism(), rows_are="household")


def test_a_record_that_moves_from_one_person_to_another_costs_more_than_a_person_replaced() -> None:
    """The reason for 4 A: a mutant that charges R there is exceeded by these two tables."""
    m = mechanism(FASTLLOYD, relation=REPLACE, n_iterations=1, n_clusters=1)
    round, query = m.all_rounds[0], m.query(0, m.start())
    corner = np.array(
        m.domain.half_widths
    )  # as far from the centroid, in the middle, as a record can be
    grid = np.array([corner, corner, -corner])
    before = SharedRecords.of_persons(m, grid[[0, 1]], [b"mary", b"john"]).answer(query)[0]
    after = SharedRecords.of_persons(m, grid[[1, 2]], [b"john", b"john"]).answer(query)[0]
    moved = (after - before).astype(object)
    costs, at = Fraction(0), 0
    for part in m.parts(round):
        columns = moved[:, at : at + part.n_columns]
        costs += Fraction(int((columns**2).sum())) / part.scale**2
        at += part.n_columns
    run = run_cost(m)
    (of_record,), (of_person,) = run.under(REPLACED), run.under(patient(REPLACE))
    assert of_record is not None
    assert of_person is not None
    assert of_person.mu_squared < costs <= of_record.mu_squared


# Limits, each with a sum of its own

PATIENTS, RECORDS = run_cost(mechanism()), run_cost(mechanism(persons=None))


@pytest.mark.parametrize(
    ("speaks_of", "run", "times"),
    [  # how many runs of epsilon 1 a limit of 2 holds
        (None, RECORDS, 3),
        (ADDED, RECORDS, 3),
        (REPLACED, RECORDS, 1),
        (None, PATIENTS, 3),
        (ADDED, PATIENTS, 3),
        (REPLACED, PATIENTS, 0),
        (patient(ADD), PATIENTS, 3),
        (patient(REPLACE), PATIENTS, 1),
        (patient(ADD), RECORDS, 0),
        (patient(REPLACE), RECORDS, 0),
        (patient(unit="household"), PATIENTS, 0),
    ],
)
def test_a_limit_holds_the_sum_that_it_names_and_no_other(
    speaks_of: Neighbours | None, run: PlannedCost, times: int
) -> None:
    now = history(limit(speaks_of))
    for n in range(times):
        check(now, "patients", run)
        now = now.followed_by([reserved_as(run, run_id(n))])
    with pytest.raises(BudgetError, match=r"epsilon 2 at.*1e-06"):
        check(now, "patients", run)
    one = account(now, "patients", speaks_of=speaks_of)
    assert one.spent == Spending.of([(run, range(1, len(run.costs) + 1))] * times, one.asked)
    assert (one.is_within, one.proviso) == (True, None)
    check_sums(now)


def test_the_factor_for_more_organisations_counts_in_a_limit() -> None:
    federated = run_cost(
        mechanism(persons=Persons(name="patient", max_clients=1)), is_federated=True
    )
    check(history(limit(patient(max_clients=1))), "patients", federated)
    with pytest.raises(BudgetError, match=r"removed.*rows.*3 organisations"):
        check(history(limit(patient(max_clients=3))), "patients", federated)
    check(history(limit(patient(max_clients=3))), "patients", PATIENTS)  # central


def test_several_limits_stand_and_a_run_must_fit_all() -> None:
    limits = limit(None, 9.0), limit(patient(ADD), 9.0), limit(patient(REPLACE), 2.5)
    check(of_costs(limits=limits), "patients", PATIENTS)
    with pytest.raises(BudgetError, match=r"epsilon 2\.5.*patient replaced\."):
        check(of_costs(PATIENTS, limits=limits), "patients", PATIENTS)
    lifted = *limits, limit(patient(REPLACE), float("inf"))
    check(of_costs(PATIENTS, limits=lifted), "patients", PATIENTS)
    with pytest.raises(BudgetError, match="does not protect"):
        check(of_costs(PATIENTS, limits=lifted), "patients", RECORDS)


def test_after_a_run_for_records_no_limit_for_persons_holds_any() -> None:
    asked = patient(REPLACE, max_clients=3)
    fine = msgspec.structs.replace(limit(asked, 100.0), delta=1.2345644e-6)
    now = of_costs(RECORDS, limits=(fine,))
    lifting = (
        "lift the limit with fastlloyd ledger limit --dataset patients --unit patient"
        " --max-clients-per-person 3 --neighboring-relation replace_one --epsilon inf --delta"
        " 1.23457e-06"
    )
    with pytest.raises(BudgetError, match=f"earlier run did.*{lifting}$"):
        check(now, "patients", PATIENTS)
    assert account(now, "patients", speaks_of=asked).left == 0


@pytest.mark.parametrize(
    ("events", "proviso"),
    [
        ([limit(patient())], None),
        ([limit(None)], Proviso.NO_LIMIT),
        ([limit(patient(REPLACE))], Proviso.NO_LIMIT),
        ([limit(patient(max_clients=2))], Proviso.NO_LIMIT),
    ],
)
def test_a_limit_from_before_the_first_run_is_proven_for_those_it_names(
    events: list[Event], proviso: Proviso | None
) -> None:
    now = history(*events, reserved_as(PATIENTS, run_id(1)), limit(patient()))
    assert account(now, "patients", speaks_of=patient()).proviso is proviso


def test_the_first_run_may_use_up_a_limit_for_those_it_names() -> None:
    """As its own cost for them, which is a constant too."""
    whole = run_cost(mechanism(relation=REPLACE))
    now = history(limit(patient(REPLACE), 1.0))
    check(now, "patients", whole)
    now = now.followed_by([reserved_as(whole, run_id(1))])
    assert account(now, "patients", speaks_of=patient(REPLACE)).is_within
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(now, "patients", run_cost(mechanism(epsilon=0.001)))
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(history(limit(REPLACED, 1.0)), "patients", whole)  # of one record it is more


def test_sums_are_listed_for_whom_there_are_limits_and_runs() -> None:
    def listed(now: History) -> list[Neighbours]:
        return [one.asked for one in accounts(now)]

    assert listed(of_costs(RECORDS)) == [ADDED]
    assert listed(of_costs(PATIENTS)) == [patient()]
    assert listed(of_costs(RECORDS, PATIENTS)) == [ADDED, patient()]
    assert listed(of_costs(PATIENTS, limits=(limit(patient(REPLACE, 2)),))) == [patient(REPLACE, 2)]
    at_three = run_cost(
        mechanism(persons=Persons(name="patient", max_clients=3)), is_federated=True
    )
    assert listed(of_costs(at_three)) == [patient(max_clients=3)]
    assert listed(of_costs(limits=(limit(None), limit(REPLACED), limit(patient())))) == [
        ADDED,
        REPLACED,
        patient(),
    ]
    check_sums(of_costs(RECORDS, PATIENTS, run_cost(mechanism(SULLOYD))))


def test_a_name_of_persons_unlike_those_known_is_a_slip_unless_it_is_new() -> None:
    now = of_costs(PATIENTS)
    households = run_cost(mechanism(persons=Persons(name="household")))
    with pytest.raises(
        BudgetError,
        match=r"'household'.*--unit-name.*--new-unit",
    ):
        check_unit(DataSet(name="patients"), households, now)
    for dataset, run in (
        (DataSet(name="patients", is_new_unit=True), households),
        (DataSet(name="patients"), RECORDS),
    ):
        check_unit(dataset, run, now)
    check_unit(DataSet(name="patients"), households, of_costs(RECORDS))  # nobody is known yet
    check_unit(DataSet(name="visits", is_new=True), households, now)  # nor in another data set
    with pytest.raises(BudgetError, match="'household' is unknown"):
        check_unit(DataSet(name="patients"), households, history(limit(patient())))


# What is kept


def test_costs_of_two_kinds_in_one_sum_are_counted_exchange_by_exchange() -> None:
    """m of seven exchanges of 1/7 is 0.22; of a run of epsilon 1 as one exchange it would be
    1.52.
    """
    sevenths = msgspec.structs.replace(
        run_cost(mechanism(SULLOYD, n_iterations=1)), costs=pure_cost(*[Fraction(1, 7)] * 7).costs
    )
    spent = Spending.of([(sevenths, range(1, 8))], patient())
    assert float(spent.pure_mu_squared) == pytest.approx(0.22, abs=5e-3)


def test_what_was_charged_whole_counts_but_for_what_was_handed_back() -> None:
    run = run_id(1)
    now = history(reserved_as(cost(*[Fraction(1, 9)] * 3), run))
    assert now.runs[run].is_open
    now = now.followed_by([RunCharged(run_id=run)])
    assert (now.runs[run].counted, now.runs[run].is_open) == ((1, 2, 3), False)
    after = now.followed_by([HandedBack(run_id=run, numbers=(2, 3))])
    assert after.runs[run].counted == (1,)
    assert account(after, "patients").spent.mu_squared == Fraction(1, 9)
    assert now.runs[run].end(Outcome.ABORTED).released == ()


def test_new_events_stay_as_they_are_written_today() -> None:
    person = PersonRunCost(
        neighboring_relation=ADD, costs=cost(Fraction(1, 25)).costs, epsilon=1.0, delta=0.0, distance=Fraction(0),
        unit="patient", max_clients=2, one_row_each=False,
    )  # fmt: skip
    event = PersonRunReserved(
        run_id=b"r" * 16,
        plan_digest=b"p" * 32,
        client="fit",
        dataset="patients",
        cost=person,
    )
    written: dict[str, Event] = {
        "960bc41072727272727272727272727272727272c4207070707070707070707070707070707070707070707070707070707070707070a3666974a870617469656e747398b16164645f6f725f72656d6f76655f6f6e65919292a4312f3235a13092a4342f3235a130cb3ff0000000000000cb0000000000000000a130a770617469656e7402c2": (
            event
        ),
        "920cc41072727272727272727272727272727272": RunCharged(run_id=b"r" * 16),
        "930dc41072727272727272727272727272727272920203": HandedBack(
            run_id=b"r" * 16, numbers=(2, 3)
        ),
        "950ea870617469656e7473cb4000000000000000cb3eb0c6f7a0b5ed8d93ab7265706c6163655f6f6e65a770617469656e7403": UnitLimitSet(
            dataset="patients", epsilon=2.0, delta=1e-6, speaks_of=patient(REPLACE, 3)
        ),
        "950ea870617469656e7473cb4000000000000000cb3eb0c6f7a0b5ed8d93ab7265706c6163655f6f6e65c001": UnitLimitSet(
            dataset="patients", epsilon=2.0, delta=1e-6, speaks_of=REPLACED
        ),
    }
    for data, known in written.items():
        assert encode(known).hex() == data
        assert decode(bytes.fromhex(data)) == known
