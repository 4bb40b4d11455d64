"""What was spent is exact, never less than what the accountant finds, and a limit is kept."""

import functools
import math
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.accountant import Accountant, GaussianRelease, GeometricRelease
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.errors import BudgetError
from fastlloyd.federation.admission import check, reserve
from fastlloyd.federation.ledger import Account, Proviso, account, accounts, check_sums, run_cost
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.spending import Spending, set_aside
from fastlloyd.federation.store import History, Role
from fastlloyd.federation.store.costs import Cost, ExchangeCost, PlannedCost, RunCost
from fastlloyd.federation.store.events import Event, ExchangeCharged, LimitSet, Outcome
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import make_plan
from stores import ADD, ADDED, REPLACE, cost, pure_cost, reserved, reserved_as, run_id

DELTA = 1e-6
KEY = b"k" * 32
RELATIONS = pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda relation: relation.value)
PRIVATE = pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda algorithm: algorithm.name
)


@functools.cache
def mechanism(
    algorithm: Algorithm = FASTLLOYD, relation: NeighboringRelation = ADD, **changes: Any
) -> LloydMechanism:
    domain = Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(1.0, 1.0), fraction_bits=16)
    arguments: dict[str, Any] = {"n_clusters": 3, "n_records": 1000, "epsilon": 1.0} | changes
    if algorithm is not SULLOYD and algorithm is not LLOYD:
        arguments.setdefault("delta", DELTA)
    return design_mechanism(
        algorithm,
        domain,
        public_seed=PublicSeed.from_int(1),
        neighboring_relation=relation,
        **arguments,
    )


def history(*events: Event) -> History:
    return History(Role.CLIENT).followed_by(events)


def of_costs(*costs: PlannedCost, limit: tuple[float, float] | None = None) -> History:
    """A client whose runs, one per cost, have reserved everything."""
    limits = (
        [] if limit is None else [LimitSet(dataset="patients", epsilon=limit[0], delta=limit[1])]
    )
    runs = [reserved_as(each, run_id(n)) for n, each in enumerate(costs)]
    return history(*limits, *runs)


def whole(cost: PlannedCost, relation: NeighboringRelation | None = None) -> Spending:
    return Spending.of(
        [(cost, range(1, len(cost.costs) + 1))], Neighbours(relation or cost.neighboring_relation)
    )


# The cost of a mechanism


@RELATIONS
@PRIVATE
@settings(max_examples=15)
@given(epsilon=st.floats(0.01, 20), n_iterations=st.integers(1, 9), loss=st.booleans())
def test_the_costs_of_all_exchanges_add_up_to_the_mechanisms_exactly(
    algorithm: Algorithm,
    relation: NeighboringRelation,
    epsilon: float,
    n_iterations: int,
    loss: bool,
) -> None:
    m = mechanism(
        algorithm, relation, epsilon=epsilon, n_iterations=n_iterations, estimate_loss=loss
    )
    spent = whole(run_cost(m))
    accountant = Accountant(relation).compose(m.releases())
    assert len(run_cost(m).costs) == n_iterations + loss
    assert spent.mu_squared == accountant.mu_squared == m.accountant().mu_squared
    assert spent.pure_epsilon == accountant.pure_epsilon
    assert spent.epsilon(m.delta) <= m.epsilon  # what the plan states covers it


@PRIVATE
@pytest.mark.parametrize("loss", [False, True])
def test_what_a_run_costs_is_known_for_neighbours_by_either_relation(
    algorithm: Algorithm, loss: bool
) -> None:
    """The second route: the same scales in a mechanism that was made for the other relation."""
    for relation, other in ((REPLACE, ADD), (ADD, REPLACE)):
        m = mechanism(algorithm, relation, estimate_loss=loss, n_iterations=3)
        for one in (relation, other):
            found = whole(run_cost(m), one)
            accountant = _under(m, one).accountant()
            assert (found.mu_squared, found.pure_epsilon) == (
                accountant.mu_squared,
                accountant.pure_epsilon,
            )
        added, replaced = whole(run_cost(m), ADD), whole(run_cost(m), REPLACE)
        assert added.mu_squared <= replaced.mu_squared <= 4 * added.mu_squared
        assert added.pure_epsilon <= replaced.pure_epsilon <= 2 * added.pure_epsilon


def _under(m: LloydMechanism, relation: NeighboringRelation) -> LloydMechanism:
    """The same noise under another relation; epsilon is large enough for the check of the stated
    guarantee.
    """
    return msgspec.structs.replace(m, neighboring_relation=relation, epsilon=100.0)


def test_a_mechanism_without_noise_has_no_cost() -> None:
    with pytest.raises(BudgetError, match="lloyd adds no"):
        run_cost(mechanism(LLOYD, epsilon=math.inf))


# What is spent

squares = st.fractions(min_value=Fraction(1, 10**6), max_value=4, max_denominator=10**9)


@settings(max_examples=12)
@given(
    st.lists(squares, min_size=1, max_size=8),
    st.lists(st.fractions(min_value=0, max_value=3, max_denominator=1000), max_size=3),
    st.floats(1e-12, 0.1),
)
def test_spent_is_the_accountants_by_its_other_route_and_never_less(
    gaussian: list[Fraction], pure: list[Fraction], delta: float
) -> None:
    releases = [GaussianRelease(square, Fraction(1)) for square in gaussian]
    accountant = Accountant(ADD).compose(
        [*releases, *(GeometricRelease(e, Fraction(1)) for e in pure if e)]
    )
    spent = account(
        of_costs(cost(*gaussian), pure_cost(*(pure or [Fraction(0)]))), "patients"
    ).spent
    epsilon = spent.epsilon(delta)
    assert (spent.mu_squared, spent.pure_epsilon) == (
        accountant.mu_squared,
        accountant.pure_epsilon,
    )
    if 0 < epsilon < math.inf:
        as_gaussian = Accountant(ADD).compose([GaussianRelease(spent.whole, Fraction(1))])
        assert as_gaussian.get_delta(epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_spent_is_the_epsilon_that_the_accountant_searches_for(delta: float) -> None:
    squares = [Fraction(1, 7), Fraction(2, 9), Fraction(1, 7)]
    accountant = Accountant(ADD).compose(
        [GaussianRelease(square, Fraction(1)) for square in squares]
    )
    assert math.isclose(
        whole(cost(*squares)).epsilon(delta), accountant.get_epsilon(delta), rel_tol=1e-9
    )


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sets(st.integers(1, 5)), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_spent_never_falls_but_by_what_the_end_of_a_run_releases(
    runs: list[tuple[int, set[int], bool]],
) -> None:
    now = history()
    for n, (n_exchanges, charged, ends) in enumerate(runs):
        run = run_id(n)
        steps: list[Event] = [reserved(run, n_exchanges=n_exchanges)]
        steps += [
            ExchangeCharged(run_id=run, number=number)
            for number in sorted(charged)
            if number <= n_exchanges
        ]
        for step in steps:
            before, now = account(now, "patients").spent, now.followed_by([step])
            after = account(now, "patients").spent
            assert after.mu_squared >= before.mu_squared
            assert after.epsilon(DELTA) >= before.epsilon(DELTA)
        if ends:
            before, open_run = account(now, "patients").spent, now.runs[run]
            now = now.followed_by([open_run.end(Outcome.ABORTED)])
            released = Spending.of(
                [(reserved(run, n_exchanges=n_exchanges).cost, open_run.uncharged)], ADDED
            )
            assert (
                account(now, "patients").spent.mu_squared == before.mu_squared - released.mu_squared
            )
    charges = sum((Fraction(len(run.charged), 100) for run in now.runs.values()), Fraction(0))
    assert account(now, "patients").spent.mu_squared >= charges


def test_a_run_that_ended_before_its_first_upload_costs_nothing() -> None:
    now = history(reserved(run_id(1)))
    spent = account(now.followed_by([now.runs[run_id(1)].end(Outcome.ABORTED)]), "patients").spent
    assert spent == Spending()
    assert spent.epsilon(0.0) == 0


def test_four_runs_of_half_the_mu_cost_what_one_run_of_all_of_it_does() -> None:
    one, quarter = Fraction(9, 25), Fraction(9, 100)
    assert account(of_costs(*[cost(quarter)] * 4), "patients").spent.epsilon(DELTA) == whole(
        cost(one)
    ).epsilon(DELTA)


def test_data_sets_are_added_up_apart() -> None:
    now = history(reserved(run_id(1), "a"), reserved(run_id(2), "b"), reserved(run_id(3), "b"))
    now = now.followed_by([LimitSet(dataset="c", epsilon=1.0, delta=DELTA)])
    listed = accounts(now)
    assert [one.dataset for one in listed] == ["a", "b", "c"]
    assert [one.spent.mu_squared for one in listed] == [Fraction(3, 100), Fraction(6, 100), 0]
    assert [(len(one.runs), one.n_open) for one in listed] == [(1, 1), (2, 2), (0, 0)]
    check_sums(now)


def test_a_limit_on_one_data_set_says_nothing_of_another() -> None:
    now = history(LimitSet(dataset="a", epsilon=1.0, delta=DELTA), reserved(run_id(1), "b"))
    one = account(now, "b")
    assert (one.limit, one.first_limit, one.proviso) == (None, None, Proviso.NO_LIMIT)
    check(now, "b", cost(Fraction(9)))


def replacing(square: Fraction) -> RunCost:
    return msgspec.structs.replace(cost(square), neighboring_relation=REPLACE)


def test_runs_are_counted_for_replaced_records_as_long_as_all_are_made_for_that() -> None:
    quarter = Fraction(1, 4)
    one = account(of_costs(replacing(quarter), replacing(quarter)), "patients")
    assert (one.asked.relation, one.spent.mu_squared, one.otherwise.mu_squared) == (
        REPLACE,
        8 * quarter,
        2 * quarter,
    )
    one = account(of_costs(replacing(quarter), cost(quarter)), "patients")
    assert (one.asked.relation, one.spent.mu_squared, one.otherwise.mu_squared) == (
        ADD,
        2 * quarter,
        8 * quarter,
    )
    assert (
        account(history(LimitSet(dataset="patients", epsilon=1.0, delta=DELTA)), "patients").asked
        == ADDED
    )


def test_a_run_for_added_records_that_ended_before_its_first_upload_still_says_what_the_limit_speaks_of() -> (
    None
):
    """Else the limit would come to speak of replaced records, of which it never promised
    anything.
    """
    now = of_costs(cost(Fraction(1, 4)), replacing(Fraction(1, 4)))
    now = now.followed_by([now.runs[run_id(0)].end(Outcome.ABORTED)])
    one = account(now, "patients")
    assert (one.asked.relation, one.spent.mu_squared) == (ADD, Fraction(1, 4))


# What the first run decides


def test_what_a_first_run_for_replaced_records_leaves_of_delta_stays_so_when_the_limit_comes_to_speak_of_added_ones() -> (
    None
):
    """Both constants follow from that run alone: else who sees answers could choose the larger of
    two of each.
    """
    all_of_it = Fraction(gdp_mu(1.0, DELTA)) ** 2 * Fraction(1 - 2**-40)
    costs = ExchangeCost(Cost(all_of_it / 2, Fraction(0)), Cost(all_of_it, Fraction(0)))
    first = msgspec.structs.replace(replacing(Fraction(1)), costs=(costs,))
    assert all_of_it > Fraction(gdp_mu(1.0, DELTA - set_aside(DELTA))) ** 2
    now = of_costs(first, limit=(1.0, DELTA))
    shares = cost(Fraction(1, 100), distance=Fraction(set_aside(DELTA)) / 5)
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(
            now, "patients", shares
        )  # its distance would fit, had the first run not used up what is set aside
    check(
        now, "patients", cost(all_of_it / 2)
    )  # and what it needed takes the place of the bound, under either relation


def test_what_is_left_after_a_first_run_that_released_everything_is_what_one_more_run_may_cost() -> (
    None
):
    """All of the limit, to the last bit, was for the first run alone."""
    now = of_costs(cost(Fraction(1, 100)), limit=(1.0, DELTA))
    now = now.followed_by([now.runs[run_id(0)].end(Outcome.ABORTED)])
    left = account(now, "patients").left
    assert left is not None
    assert 1 - 1e-5 < left < 1
    check(now, "patients", cost(Fraction(gdp_mu(left, DELTA)) ** 2))
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(now, "patients", cost(Fraction(gdp_mu(1.0, DELTA)) ** 2))


def test_under_a_limit_at_delta_0_a_refusal_says_whose_gaussian_noise_has_no_bound() -> None:
    now = history(LimitSet(dataset="patients", epsilon=1.0, delta=0.0))
    why = "with Gaussian noise has no finite epsilon at delta 0"
    with pytest.raises(BudgetError, match=f"and this run {why}"):
        check(now, "patients", cost(Fraction(1, 100)))
    now = now.followed_by([reserved_as(cost(Fraction(1, 100)), run_id(1))])
    with pytest.raises(BudgetError, match=f"an earlier run {why}"):
        check(now, "patients", pure_cost(Fraction(1, 2)))
    with pytest.raises(BudgetError, match=r"epsilon 0,.*needs 1\.5"):
        check(
            history(LimitSet(dataset="patients", epsilon=1.0, delta=0.0)),
            "patients",
            pure_cost(Fraction(3, 2)),
        )


# On which condition a sum holds

LIMIT = LimitSet(dataset="patients", epsilon=2.0, delta=DELTA)
LOWER, HIGHER = (msgspec.structs.replace(LIMIT, epsilon=epsilon) for epsilon in (1.0, 3.0))
SMALL = reserved(run_id(1))


@pytest.mark.parametrize(
    ("events", "first", "proviso"),
    [
        ([LIMIT], None, None),
        ([SMALL], None, Proviso.NO_LIMIT),
        ([SMALL, LIMIT], None, Proviso.NO_LIMIT),
        ([LIMIT, SMALL], LIMIT, None),
        ([HIGHER, LIMIT, SMALL], LIMIT, None),
        ([LOWER, LIMIT, SMALL], LIMIT, None),
        ([LIMIT, SMALL, LOWER], LIMIT, None),
        ([LIMIT, SMALL, LOWER, LIMIT], LIMIT, None),
        ([LIMIT, SMALL, HIGHER], None, Proviso.RAISED),
        ([LIMIT, SMALL, HIGHER, LIMIT], None, Proviso.RAISED),
        ([LIMIT, SMALL, msgspec.structs.replace(LOWER, delta=2 * DELTA)], None, Proviso.RAISED),
        ([LIMIT, SMALL, msgspec.structs.replace(LIMIT, epsilon=math.inf)], None, Proviso.RAISED),
        ([msgspec.structs.replace(LIMIT, epsilon=math.inf), SMALL], None, Proviso.NO_LIMIT),
        ([LIMIT, msgspec.structs.replace(SMALL, cost=cost(Fraction(4)))], LIMIT, Proviso.EXCEEDED),
    ],
)
def test_a_sum_holds_whatever_runs_were_chosen_by_if_a_limit_was_set_before_them_and_never_raised(
    events: list[Event], first: LimitSet | None, proviso: Proviso | None
) -> None:
    one = account(history(*events), "patients")
    assert (one.first_limit, one.proviso) == (first, proviso)


def run_of(epsilon: float, distance: Fraction = Fraction(0)) -> RunCost:
    """A run of Gaussian noise that costs this epsilon at the delta of the limits."""
    return cost(Fraction(gdp_mu(epsilon, DELTA)) ** 2, distance=distance)


@pytest.mark.parametrize(
    ("limits", "fitting", "refused_by"),
    [
        ((LIMIT,), 1.8, LIMIT),
        ((LIMIT, LOWER), 0.5, LOWER),
        ((LIMIT, LOWER, LIMIT), 1.8, LIMIT),
        (
            (LIMIT, HIGHER),
            2.8,
            HIGHER,
        ),  # the first one holds no more, as the sentence on the sum then says
        ((LIMIT, HIGHER, LOWER), 0.5, LOWER),
    ],
    ids=["one", "lowered", "lowered and back", "raised", "raised and lowered"],
)
def test_the_limit_that_stands_holds_a_run_whatever_was_set_before(
    limits: tuple[LimitSet, ...], fitting: float, refused_by: LimitSet
) -> None:
    now = history(limits[0], SMALL, *limits[1:])
    check(now, "patients", run_of(fitting))
    with pytest.raises(BudgetError, match=f"limit epsilon {refused_by.epsilon:g}"):
        check(now, "patients", run_of(refused_by.epsilon + 0.05))


def test_the_first_limit_holds_a_run_that_only_the_one_set_later_has_room_for() -> None:
    """A lower limit weighs shares of noise less; that all runs keep to the first one is what its
    holder is told.
    """
    high = msgspec.structs.replace(LIMIT, epsilon=10.0)
    shares = run_of(0.1, Fraction(set_aside(DELTA)) / 1000)
    check(history(LOWER, SMALL), "patients", shares)
    check(
        history(LOWER, SMALL, high), "patients", run_of(5.0)
    )  # raised: nothing is said of the first any more
    now = history(high, SMALL, LOWER)
    assert account(now, "patients").first_limit == high
    with pytest.raises(
        BudgetError,
        match=r"epsilon 10.*a millionth",
    ):
        check(now, "patients", shares)
    check(now, "patients", run_of(0.1))


def test_a_past_that_exceeds_its_limit_is_shown_and_lets_nothing_more_through() -> None:
    """By epsilons added up this would fit: 1.98 at most of Gaussian noise, and 1 of Laplace noise."""
    now = of_costs(cost(Fraction(1, 5)), pure_cost(Fraction(1)), limit=(3.0, 1e-4))
    one = account(now, "patients")
    assert one.spent.epsilon(1e-4) > 3
    assert one.left == one.left_pure == 0
    check_sums(now)
    with pytest.raises(BudgetError, match="limit epsilon 3"):
        check(now, "patients", cost(Fraction(1, 10**9)))


@pytest.mark.parametrize("mu", [0.0335, 0.2, 0.6])
def test_who_has_seen_gaussian_answers_cannot_take_the_rest_of_the_limit_as_pure_epsilon(
    mu: float,
) -> None:
    """The sum of two epsilons let this through, and who took it where an answer came out well won
    1.9 times delta.
    """
    limit = (3.0, 1e-4)
    rest = Fraction(limit[0]) - Fraction(gdp_epsilon(mu, limit[1]))
    now = of_costs(cost(Fraction(mu) ** 2), limit=limit)
    with pytest.raises(BudgetError, match="limit epsilon 3"):
        check(now, "patients", pure_cost(rest * Fraction(999, 1000)))


# Shares of noise


def test_the_distances_of_shares_weigh_more_the_larger_the_limit() -> None:
    """The runs are (E, delta')-DP for shares that add up exactly, and (1 + e^E) taus go on top."""
    tau = Fraction(set_aside(DELTA)) / 9
    now = of_costs(*[cost(Fraction(1, 100), distance=tau)] * 2, limit=(1.0, DELTA))
    spent = account(now, "patients").spent
    assert spent.distance == 2 * tau
    epsilon = spent.epsilon(DELTA)
    needed = 2 * float(tau) * (1 + math.exp(epsilon))
    ideal = Spending(mu_squared=spent.mu_squared)
    assert ideal.epsilon(DELTA - needed) <= epsilon <= ideal.epsilon(DELTA - 3 * needed)
    check(now, "patients", cost(Fraction(1, 10**6)))
    with pytest.raises(BudgetError, match="a millionth of"):
        check(now, "patients", cost(Fraction(1, 10**6), distance=tau))


def test_where_shares_leave_no_delta_nothing_holds() -> None:
    assert math.isinf(whole(cost(Fraction(100), distance=Fraction(1, 10**12))).epsilon(DELTA))
    assert math.isinf(whole(cost(Fraction(1))).epsilon(0.0))


def test_what_is_left_is_nothing_where_shares_leave_no_delta() -> None:
    now = of_costs(cost(Fraction(1, 100), distance=Fraction(1, 10**14)), limit=(30.0, DELTA))
    assert account(now, "patients").left == 0
    assert account(now, "patients").epsilon < 1


def test_one_federated_run_costs_no_more_than_its_plan_states() -> None:
    plan = make_plan()
    m = plan.mechanism
    assert m.delta_slack > 0
    assert plan.distance > 0
    assert whole(run_cost(m, plan.distance)).epsilon(m.delta) <= m.epsilon


@pytest.mark.parametrize("trust", list(TrustMode))
@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, SULLOYD, MOMENTLLOYD], ids=lambda algorithm: algorithm.name
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_a_plan_fits_a_limit_of_its_own_epsilon_and_delta(
    trust: TrustMode, algorithm: AnyAlgorithm, epsilon: float
) -> None:
    if algorithm is SULLOYD and trust is TrustMode.CLIENT_NOISE:
        return
    plan = make_plan(trust=trust, algorithm=algorithm, epsilon=epsilon)
    m = plan.mechanism
    now = history(LimitSet(dataset="patients", epsilon=m.epsilon, delta=m.delta))
    now = now.followed_by([reserve(now, plan, client="c0", dataset="patients")])
    assert account(now, "patients").epsilon <= m.epsilon
    assert account(now, "patients").proviso is None


# Limits


@PRIVATE
def test_w30_runs_on_one_data_set_add_up_until_the_limit_refuses_the_next(
    algorithm: Algorithm,
) -> None:
    m = mechanism(algorithm)
    now = history(LimitSet(dataset="patients", epsilon=m.epsilon, delta=m.delta))
    check(now, "patients", run_cost(m))
    now = now.followed_by([msgspec.structs.replace(reserved(run_id(1)), cost=run_cost(m))])
    with pytest.raises(BudgetError, match="epsilon 1 at"):
        check(now, "patients", run_cost(mechanism(algorithm, epsilon=0.01)))
    check(now, "another", run_cost(m))


def test_the_refusal_names_limit_spent_and_need() -> None:
    now = of_costs(run_cost(mechanism(epsilon=1.0)), limit=(1.4, DELTA))
    with pytest.raises(BudgetError) as refusal:
        check(now, "patients", run_cost(mechanism(epsilon=1.0)))
    for part in (
        "'patients'",
        "epsilon 1.4 at delta 1e-06",
        "spent or reserved",
        "needs 1,",
        "would be 1.455",
        "ledger limit",
    ):
        assert part in str(refusal.value), part
    check(
        of_costs(run_cost(mechanism(epsilon=1.0)), limit=(1.5, DELTA)),
        "patients",
        run_cost(mechanism(epsilon=1.0)),
    )


def test_w30_what_was_sent_stays_charged_however_the_run_ends() -> None:
    m = mechanism(n_iterations=2)
    limit = LimitSet(dataset="patients", epsilon=1.0, delta=DELTA)
    begun = history(limit, msgspec.structs.replace(reserved(run_id(1)), cost=run_cost(m)))
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(begun, "patients", run_cost(m))
    check(begun.followed_by([begun.runs[run_id(1)].end(Outcome.ABORTED)]), "patients", run_cost(m))
    charged = begun.followed_by([ExchangeCharged(run_id=run_id(1), number=1)])
    charged = charged.followed_by([charged.runs[run_id(1)].end(Outcome.ABORTED)])
    with pytest.raises(BudgetError, match="limit epsilon 1"):
        check(charged, "patients", run_cost(m))


def test_without_a_limit_or_with_one_lifted_every_run_fits() -> None:
    check(of_costs(*[run_cost(mechanism())] * 5), "patients", run_cost(mechanism()))
    check(
        of_costs(*[run_cost(mechanism())] * 5, limit=(math.inf, 0.0)),
        "patients",
        run_cost(mechanism()),
    )


@settings(max_examples=15)
@given(
    limit=st.floats(0.1, 8), spent=st.lists(st.floats(0.02, 2), max_size=3), laplace=st.booleans()
)
def test_a_run_of_what_is_left_fits_and_one_of_a_little_more_does_not(
    limit: float, spent: list[float], laplace: bool
) -> None:
    costs = [run_cost(mechanism(epsilon=epsilon, n_iterations=1)) for epsilon in spent]
    if laplace:
        costs.append(run_cost(mechanism(SULLOYD, epsilon=0.05, n_iterations=1)))
    now = of_costs(*costs, limit=(limit, DELTA))
    left = account(now, "patients").left
    assert left is not None
    if left > 0.01:  # the noise scales of smaller ones are out of range
        check(now, "patients", run_cost(mechanism(epsilon=left, n_iterations=1)))
        with pytest.raises(BudgetError, match="the limit epsilon"):
            check(now, "patients", run_cost(mechanism(epsilon=1.001 * left, n_iterations=1)))


def test_of_a_limit_on_pure_epsilon_the_rest_is_left() -> None:
    now = of_costs(run_cost(mechanism(SULLOYD, epsilon=0.25)), limit=(1.0, 0.0))
    left = account(now, "patients").left
    assert left == pytest.approx(0.75, rel=1e-3)
    assert account(of_costs(run_cost(mechanism()), limit=(1.0, 0.0)), "patients").left == 0
    assert account(of_costs(run_cost(mechanism())), "patients").left is None


def test_the_delta_that_is_shown_is_the_limits_or_the_smallest_of_the_runs() -> None:
    runs = (
        run_cost(mechanism(delta=1e-5)),
        run_cost(mechanism(delta=1e-7)),
        run_cost(mechanism(SULLOYD)),
    )
    assert account(of_costs(*runs), "patients").delta == 1e-7
    assert account(of_costs(*runs, limit=(9.0, 1e-4)), "patients").delta == 1e-4
    assert account(of_costs(runs[2]), "patients").delta == 0.0
    assert account(of_costs(runs[2]), "patients").epsilon <= 1


def test_sums_that_are_too_small_are_found_by_the_second_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = of_costs(run_cost(mechanism()), run_cost(mechanism(SULLOYD)), limit=(4.0, DELTA))
    check_sums(now)
    epsilon = account(now, "patients").epsilon
    monkeypatch.setattr(Account, "epsilon", property(lambda _: epsilon * (1 - 1e-6)))
    with pytest.raises(BudgetError, match="methods to add"):
        check_sums(now)


def test_runs_of_many_different_plans_are_added_up_exactly() -> None:
    costs = [run_cost(mechanism(epsilon=0.01 + n / 10_000)) for n in range(30)]
    spent = account(of_costs(*costs), "patients").spent
    assert spent.mu_squared == sum(
        (c.added.mu_squared for each in costs for c in each.costs), Fraction(0)
    )


# Reserving


def test_a_reservation_is_of_the_plan_and_refused_beyond_the_limit() -> None:
    plan = make_plan()
    event = reserve(history(), plan, client="c0", dataset="patients")
    assert (event.run_id.hex(), event.plan_digest, event.client) == (plan.run_id, plan.digest, "c0")
    assert whole(event.cost).mu_squared == plan.mechanism.accountant().mu_squared
    now = history(LimitSet(dataset="patients", epsilon=0.5, delta=DELTA))
    with pytest.raises(BudgetError, match="limit"):
        reserve(now, plan, client="c0", dataset="patients")
