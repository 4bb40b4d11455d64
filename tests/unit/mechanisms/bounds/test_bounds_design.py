"""The mechanism that finds bounds: what it costs, for how many records it is planned, and how a
budget is divided.
"""

import math
import re
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Scaling
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import BudgetError, PlanError
from fastlloyd.mechanisms.bounds.design import BoundsSettings, divide, outer_range
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds, two_digits
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.mechanisms.two_stages import TwoStages, placeholder

ADD, REPLACE = NeighboringRelation
PERSONS = Persons(max_clients=3, weight_bits=4)


def settings(d: int = 2, **given: Any) -> BoundsSettings:
    names = [f"x{i}" for i in range(d)]
    common: dict[str, Any] = {
        "n_records": 100_000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    }
    return BoundsSettings(domain=outer_range(names, [-1000.0] * d, [1000.0] * d), **common | given)


def designed(d: int = 2, **given: Any) -> BoundsMechanism:
    return design(settings(d, **given))


@pytest.mark.parametrize("persons", [None, PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("d", [1, 2, 40])
def test_it_costs_its_epsilon_and_a_unit_less_noise_is_refused(
    d: int, relation: NeighboringRelation, persons: Persons | None
) -> None:
    m = designed(d, neighboring_relation=relation, persons=persons)
    assert m.accountant().get_delta(1.0) == pytest.approx(m.delta, rel=1e-4)
    for number, round in enumerate(m.rounds):
        less = msgspec.structs.replace(round, scale=round.scale - Fraction(1, 1 << 12))
        with pytest.raises(PlanError, match="not give epsilon"):
            msgspec.structs.replace(m, rounds=(*m.rounds[:number], less, *m.rounds[number + 1 :]))


@pytest.mark.parametrize("persons", [None, PERSONS], ids=["records", "persons"])
def test_what_a_query_asks_is_what_its_noise_is_for(persons: Persons | None) -> None:
    m = designed(persons=persons)
    for number, round in enumerate(m.rounds):
        assert m.query(number, m.start()).question == m.question(round)


@pytest.mark.parametrize("persons", [None, PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize(("d", "levels"), [(1, 4), (32, 4), (33, 3)])
def test_noise_is_that_of_the_formula(
    d: int, levels: int, relation: NeighboringRelation, persons: Persons | None
) -> None:
    """c sqrt(2 r d L / mu^2) records or persons, r = 1 or 2 replaced, L the levels of the
    exchange.
    """
    m = designed(d, neighboring_relation=relation, persons=persons, count_bits=3)
    c, r = (1 if persons is None else 3), (1 if relation is ADD else 2)
    for round, n in zip(m.rounds, (levels, 3), strict=True):
        wanted = c * math.sqrt(2 * r * d * n) / gdp_mu(1.0, m.delta)
        assert float(round.scale) / 2**m.number_bits == pytest.approx(wanted, rel=1e-4)
        assert round.n_levels == n


@pytest.mark.parametrize(("d", "needed"), [(2, 1200), (32, 5100)])
def test_about_so_many_records_are_needed_at_epsilon_1(d: int, needed: int) -> None:
    assert divide(settings(d, n_records=round(1.1 * needed))).share <= Fraction(1, 5)
    with pytest.raises(
        PlanError,
        match=(r"^n_records.*too few.*a fifth"),
    ) as refused:
        divide(settings(d, n_records=round(0.9 * needed)))
    said = re.search(r"About ([\d,]+) are", str(refused.value))
    assert said is not None
    assert int(said[1].replace(",", "")) == pytest.approx(needed, rel=0.06)


@pytest.mark.parametrize(
    ("d", "n", "epsilon", "share"),
    [(2, 5000, 1.0, "0.05"), (6, 48842, 0.5, "0.05"), (3, 1837, 1.0, "0.131")],
)
def test_the_share_is_the_least_that_shows_the_bounds(
    d: int, n: int, epsilon: float, share: str
) -> None:
    stages = divide(settings(d, n_records=n, epsilon=epsilon))
    assert stages.share == Fraction(share)
    deviation = max(round.scale for round in stages.first.rounds)
    assert 35 * deviation <= n * Fraction(10**6 + 1, 10**6)
    if stages.share > Fraction(1, 20):
        assert 35 * deviation * Fraction(101, 100) > n


def test_more_is_needed_for_persons_at_several_clients_and_where_records_are_replaced() -> None:
    plain = divide(settings(n_records=2000)).share
    assert divide(settings(n_records=2000, neighboring_relation=REPLACE)).share > plain
    with pytest.raises(PlanError, match="2000 persons: too"):
        divide(settings(n_records=2000, persons=PERSONS))


@pytest.mark.parametrize("name", ["momentlloyd", "fastlloyd"])
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_both_stages_together_cost_no_more_than_one_would(
    name: str, relation: NeighboringRelation
) -> None:
    whole = asked(name, epsilon=1.0, neighboring_relation=relation)
    stages = TwoStages.of(whole, OUTER)
    both = stages.first.accountant().compose(design(stages.later).releases())
    assert both.mu_squared <= Fraction(whole.mu or 0) ** 2
    assert float(both.mu_squared) == pytest.approx((whole.mu or 0) ** 2, rel=1e-5)
    assert both.get_delta(1.0) <= stages.first.delta == stages.later.delta


OUTER = outer_range(["x", "y"], [-1000.0, 0.0], [1000.0, 5.0])


def asked(name: str, **given: Any) -> Settings[Any]:
    common: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 20_000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    }
    box = placeholder(OUTER, scaling=Scaling.COMMON)
    return Settings(algorithm=ALGORITHMS[name], domain=box, **common | given)


@pytest.mark.parametrize(
    ("name", "why"), [("sulloyd", "has a guarantee without delta"), ("lloyd", "adds no noise")]
)
def test_an_algorithm_without_gaussian_noise_is_refused(name: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        TwoStages.of(asked(name), OUTER)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.01},
        {"n_expected": 500},
        {"delta": 0.7},
        {"n_clusters": 9999, "n_records": 9000},
    ],
)
def test_what_no_bounds_could_make_right_is_refused_before_anything_is_asked(
    given: dict[str, Any],
) -> None:
    with pytest.raises((PlanError, BudgetError)):
        TwoStages.of(asked("momentlloyd", **given), OUTER)


def test_the_second_stage_differs_from_what_was_planned_in_its_bounds_and_who_found_them() -> None:
    stages = TwoStages.of(asked("fastlloyd"), OUTER)
    found = FoundBounds(np.array([0, -(1 << 22)]), np.array([1 << 20, 0]), np.array([True, False]))
    second = stages.second(found)
    assert (second.domain.lower, second.domain.upper) == ((0.0, 0.0), (250.0, 2.5))
    assert (second.domain.scaling, second.domain.fraction_bits) == (Scaling.COMMON, 16)
    assert second.bounds_digest == stages.first.digest.hex()
    planned = msgspec.structs.replace(second, domain=stages.later.domain, bounds_digest=None)
    assert planned == stages.later


def test_found_ends_are_within_the_outer_range_and_wide_enough_to_be_bounds() -> None:
    outer = outer_range(["t", "u", "v"], [0.0, 0.1, -1.0], [1e10, 0.7, 1.0])
    B = 1 << 22
    found = FoundBounds(
        np.array([B - 12, -B, -B]), np.array([B, B, -B + 12]), np.array([True, False, True])
    )
    domain = found.domain(outer, scaling=Scaling.PER_FEATURE)
    assert domain.upper[0] == 1e10
    assert 1e10 * 2**-13 < domain.upper[0] - domain.lower[0] < 1e10 * 2**-9
    assert (domain.lower[1], domain.upper[1]) == (0.1, 0.7)
    assert found.missing(outer) == ["u"]
    assert domain.lower[2] == -1.0


def test_settings_are_read_as_they_were_written_and_others_are_refused() -> None:
    m = designed()
    assert BoundsMechanism.from_toml(m.to_toml()) == m
    with pytest.raises(PlanError, match="1 rounds; bounds"):
        msgspec.structs.replace(m, rounds=m.rounds[:1])
    with pytest.raises(PlanError, match="scaling is common"):
        msgspec.structs.replace(m, domain=msgspec.structs.replace(m.domain, scaling=Scaling.COMMON))
    assert (
        msgspec.structs.replace(
            m, domain=msgspec.structs.replace(m.domain, fraction_bits=20)
        ).domain.fraction_bits
        == 20
    )
    with pytest.raises(PlanError, match=r"fraction_bits is 19;.*20"):
        msgspec.structs.replace(m, domain=msgspec.structs.replace(m.domain, fraction_bits=19))
    with pytest.raises(PlanError, match="1025 features; bounds"):
        designed(1025)


@pytest.mark.parametrize(
    ("n", "said"), [(7, "7"), (99, "99"), (1158, "1,200"), (5101, "5,200"), (100_001, "110,000")]
)
def test_numbers_for_people_are_rounded_up_to_two_digits(n: int, said: str) -> None:
    assert f"{two_digits(n):,}" == said
