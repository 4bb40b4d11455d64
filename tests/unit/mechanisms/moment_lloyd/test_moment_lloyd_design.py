"""The table: every row is reached, and what its rounds cost together is the whole budget and never
more.
"""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.federation.ledger import run_cost
from fastlloyd.mechanisms.moment_lloyd.design import TABLE, Row, plan_rounds
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    MOMENTLLOYD,
    LengthsRound,
    MeanRound,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.state import fields
from fastlloyd.mechanisms.rounds import SCALE_UNITS
from fastlloyd.mechanisms.settings import Settings

SEED = PublicSeed.from_int(1)
MU = Fraction(1, 2)
BOTH = list(NeighboringRelation)


def cube(d: int) -> Domain:
    return Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)


def signals() -> list[tuple[int, float, Row]]:
    """A number of features and a signal for every row of the table."""
    found, least, features = [], 0.0, 0
    for row in TABLE:
        least = 0.0 if row.max_features != features else least
        features = row.max_features
        found.append((min(features, 40), 1.01 * least + 0.5, row))
        least = row.below_signal
    return found


def planned(
    d: int, signal: float, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> MomentMechanism:
    """A mechanism whose planner sees this signal: n mu / (k sqrt d) with k = 2."""
    mu = 0.01 if signal < 5 else 1.0
    n = math.ceil(signal * 2 * d**0.5 / mu)
    epsilon = 40.0  # far more than the rounds spend: the mechanism checks that it is not exceeded
    public = Settings(
        algorithm=MOMENTLLOYD,
        domain=cube(d),
        n_clusters=2,
        n_records=n,
        epsilon=epsilon,
        delta=0.01,
        public_seed=SEED,
        neighboring_relation=relation,
    )
    rounds = plan_rounds(public, Fraction(mu) ** 2)
    return MomentMechanism(
        **public.fields,
        n_directions=rounds.n_directions,
        edge=rounds.edge,
        rounds=rounds.rounds,
        loss=None,
    )


def cost_of_one_unit_less(m: MomentMechanism) -> Fraction:
    """What the rounds would cost if every scale were the next smaller one."""
    smaller = [
        msgspec.structs.replace(
            round, scales=tuple(scale - Fraction(1, SCALE_UNITS) for scale in round.scales)
        )
        for round in m.rounds
    ]
    return sum((m.accountant_of(round).mu_squared for round in smaller), Fraction(0))


@pytest.mark.parametrize("relation", BOTH, ids=lambda relation: relation.value)
@pytest.mark.parametrize(
    ("d", "signal", "row"),
    signals(),
    ids=lambda value: None if isinstance(value, Row) else str(value),
)
def test_every_row_is_reached_and_its_rounds_cost_all_of_the_budget_and_no_more(
    d: int, signal: float, row: Row, relation: NeighboringRelation
) -> None:
    m = planned(d, signal, relation)
    steps = [round for round in m.rounds if isinstance(round, StepRound)]
    assert len(steps) == len(row.steps)
    assert (steps[0].radius, steps[-1].radius) == (row.first_radius, row.last_radius)
    assert any(isinstance(round, VotesRound) for round in m.rounds) == (row.votes > 0)
    assert sum(step.in_directions for step in steps) == row.n_inner
    whole = (Fraction(0.01) if signal < 5 else Fraction(1)) ** 2
    assert m.accountant().mu_squared <= whole < cost_of_one_unit_less(m)


def squared_sensitivities_over_variances(m: MomentMechanism, round: Rounds) -> Fraction:
    """What one record, added or removed, moves of each part, as docs/momentlloyd.md states it."""
    count = 4**m.count_bits
    match round:
        case MeanRound() | StepRound():
            moved = [(round.units**2, 0), (count, 1)]
        case LengthsRound():
            moved = [(round.units**2, 0)]
        case SquaresRound():
            moved = [(round.units**4, 0)]
        case VotesRound():
            moved = [(count, 0)]
        case SecondMomentRound():  # either the diagonal or what is above it, never both to the full
            return max(
                Fraction(round.units**4) / round.scales[0] ** 2,
                Fraction(round.units**4, 2) / round.scales[1] ** 2,
            )
    return sum((Fraction(square) / round.scales[part] ** 2 for square, part in moved), Fraction(0))


@pytest.mark.parametrize("count_bits", [0, 5])
@pytest.mark.parametrize(
    ("d", "k", "n"),
    [(1, 1, 20), (2, 5, 10**5), (4, 2, 50), (32, 9, 10**5), (40, 2, 100), (40, 2, 10**6)],
)
@given(epsilon=st.floats(0.01, 20))
@settings(max_examples=5)
def test_a_ledger_holds_the_sum_of_squared_sensitivities_over_variances_exactly(
    d: int, k: int, n: int, count_bits: int, epsilon: float
) -> None:
    m = design_mechanism(
        MOMENTLLOYD,
        cube(d),
        n_clusters=k,
        n_records=n,
        epsilon=epsilon,
        public_seed=SEED,
        count_bits=count_bits,
    )
    by_hand = [squared_sensitivities_over_variances(m, round) for round in m.rounds]
    assert [cost.added.mu_squared for cost in run_cost(m).costs] == by_hand
    assert m.accountant().mu_squared == sum(by_hand, Fraction(0))


@pytest.mark.parametrize("relation", BOTH, ids=lambda relation: relation.value)
@pytest.mark.parametrize(
    ("d", "k", "n"),
    [(1, 1, 20), (2, 5, 1000), (3, 300, 10**6), (4, 2, 50), (32, 9, 10**5), (33, 2, 100)],
)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_designed_mechanisms_spend_what_they_were_given(
    d: int, k: int, n: int, epsilon: float, relation: NeighboringRelation
) -> None:
    m = design_mechanism(
        MOMENTLLOYD,
        cube(d),
        n_clusters=k,
        n_records=n,
        epsilon=epsilon,
        public_seed=SEED,
        neighboring_relation=relation,
        count_bits=4,
    )
    assert (
        m.accountant().mu_squared
        <= Fraction(gdp_mu(epsilon, m.delta)) ** 2
        < cost_of_one_unit_less(m)
    )
    for round in m.rounds:
        assert len(round.scales) == len(m.parts(round))


def test_with_many_features_the_mean_takes_more_where_there_is_less_signal() -> None:
    shares = [
        m.accountant_of(m.rounds[0]).mu_squared / m.accountant().mu_squared
        for m in (planned(40, s) for s in (0.1, 1, 9))
    ]
    assert shares == sorted(shares, reverse=True)
    assert 0.05 < shares[-1] < shares[0] < 0.5


def test_on_few_features_many_candidates_are_a_power() -> None:
    for d in (1, 2, 3):
        (m,) = (r.n_candidates for r in planned(d, 5000.0).rounds if isinstance(r, VotesRound))
        assert round(m ** (1 / d)) ** d == m


def test_too_many_features_are_refused_with_a_way_out() -> None:
    with pytest.raises(PlanError, match=r"1025 features.*algorithm fastlloyd"):
        plan_rounds(
            Settings(
                algorithm=MOMENTLLOYD,
                domain=Domain(
                    features=tuple(map(str, range(1025))),
                    lower=(0.0,) * 1025,
                    upper=(1.0,) * 1025,
                    fraction_bits=12,
                ),
                n_clusters=2,
                n_records=100,
                epsilon=1.0,
                public_seed=SEED,
            ),
            MU,
        )


@pytest.mark.parametrize("name", ["n_clusters", "n_records", "n_expected", "count_bits"])
def test_a_number_of_numpy_which_would_wrap_around_is_refused(name: str) -> None:
    m = planned(2, 20.0)
    with pytest.raises(PlanError, match=f"{name} is.*Python int"):
        msgspec.structs.replace(m, **{name: np.int32(getattr(m, name))})


def test_nobody_can_change_what_a_state_of_a_mechanism_may_be() -> None:
    centre = next(field for field in fields(planned(2, 20.0)) if field.name == "centre")
    for limits in (centre.least, centre.most):
        with pytest.raises(ValueError, match="read-only"):
            limits[0] = 10**12
