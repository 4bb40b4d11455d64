"""A replaced record may be one taken away alone: rows with missing cells are dropped. So a
replacement never costs less.
"""

import itertools
from fractions import Fraction

import msgspec
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.catalogue import ALGORITHMS
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, MeanRound, MomentRound
from fastlloyd.mechanisms.rounds import SCALE_UNITS

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SEED = PublicSeed.from_int(1)
FEATURES, CLUSTERS, RECORDS, EPSILONS = (
    (1, 2, 3, 4, 32, 33),
    (1, 2, 15),
    (100, 10**4, 10**6),
    (0.05, 1.0, 8.0),
)


def cube(d: int) -> Domain:
    return Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)


def designed(d: int, k: int, n: int, epsilon: float, *, loss: bool = False) -> MomentMechanism:
    return design_mechanism(
        MOMENTLLOYD,
        cube(d),
        n_clusters=k,
        n_records=n,
        epsilon=epsilon,
        public_seed=SEED,
        neighboring_relation=REPLACE,
        count_bits=4,
        estimate_loss=loss,
    )


def dearest(
    m: MomentMechanism, round: MomentRound, corners: tuple[tuple[int, ...], ...]
) -> Fraction:
    return max(
        sum(
            (Fraction(a) / scale**2 for a, scale in zip(corner, round.scales, strict=True)),
            Fraction(0),
        )
        for corner in corners
    )


@pytest.mark.parametrize("d", FEATURES)
def test_that_a_replacement_may_be_a_removal_costs_designed_plans_nothing(d: int) -> None:
    """54 plans each, 324 in all: their scales are those that two records in use ask for, and each
    exchange costs as much.
    """
    for k, n, epsilon, loss in itertools.product(CLUSTERS, RECORDS, EPSILONS, (False, True)):
        m = designed(d, k, n, epsilon, loss=loss)
        for round in m.rounds:
            used = round.question(m).sensitivity.replaced
            assert m.accountant_of(round).mu_squared == dearest(m, round, used)


def test_a_plan_made_by_hand_whose_count_only_a_replacement_would_hide_is_refused() -> None:
    """A record taken away would change that count by 16 units; the noise on it is 1/65536 of a
    unit.
    """
    m = designed(2, 3, 10**4, 1.0)
    first = m.rounds[0]
    assert isinstance(first, MeanRound)
    bare = msgspec.structs.replace(first, scales=(first.scales[0], Fraction(1, SCALE_UNITS)))
    with pytest.raises(PlanError, match="not give epsilon"):
        msgspec.structs.replace(m, rounds=(bare, *m.rounds[1:]))


def costs_no_less_replaced(m: Mechanism) -> None:
    for exchange in m.all_rounds:
        added, replaced = m.accountant_of(exchange, ADD), m.accountant_of(exchange, REPLACE)
        assert 0 <= added.mu_squared <= replaced.mu_squared
        assert 0 <= added.pure_epsilon <= replaced.pure_epsilon
        own = m.accountant_of(exchange)
        assert own.mu_squared + own.pure_epsilon == replaced.mu_squared + replaced.pure_epsilon > 0


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize(
    "algorithm",
    [a for a in ALGORITHMS.values() if isinstance(a, Algorithm) and a.noise is not Noise.NONE],
    ids=lambda a: a.name,
)
def test_no_exchange_of_any_algorithm_costs_less_where_a_record_is_replaced(
    algorithm: Algorithm, k: int
) -> None:
    costs_no_less_replaced(
        design_mechanism(
            algorithm,
            cube(2),
            n_clusters=k,
            n_records=1000,
            epsilon=1.0,
            public_seed=SEED,
            neighboring_relation=REPLACE,
            estimate_loss=True,
        )
    )
    costs_no_less_replaced(designed(2, k, 1000, 1.0, loss=True))
