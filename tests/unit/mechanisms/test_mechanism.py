"""A mechanism gives the guarantee it states, whoever made it, and its file is that mechanism and no
other.
"""

import functools
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.base.precision import fifty_decimals
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import MAX_SCALE, Noise
from fastlloyd.errors import BudgetError, DataError, OverflowRisk, PlanError
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import (
    FASTLLOYD,
    GLLOYD,
    LLOYD,
    SULLOYD,
    Algorithm,
    RadiusSchedule,
)
from fastlloyd.mechanisms.lloyd.design import count_share
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.mechanism import MAX_CLUSTERS
from fastlloyd.mechanisms.private_run import MAX_RECORDS, usable_delta
from fastlloyd.mechanisms.rounds import SCALE_UNITS
from fastlloyd.testing import InjectedNoise, SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
PRIVATE = pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
ABLATED = msgspec.structs.replace(FASTLLOYD, name="ablated", noise=Noise.LAPLACE)
CONSTANT = msgspec.structs.replace(FASTLLOYD, name="constant", radius=RadiusSchedule.CONSTANT)


@functools.cache
def cube(d: int, q: int = 16) -> Domain:
    return Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=q,
    )


def design(
    algorithm: Algorithm = FASTLLOYD, d: int = 2, q: int = 16, **changes: Any
) -> LloydMechanism:
    arguments: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    }
    return design_mechanism(algorithm, cube(d, q), **(arguments | changes))


def reseal(text: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Change the content of a file and seal it again, as anyone can: by a second implementation of
    the digest.
    """
    content = tomllib.loads(text)
    del content["seal"]
    change(content)
    digest = hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
    return tomli_w.dumps(content | {"seal": {"digest": digest}})


# The guarantee


def exact_cost(m: LloydMechanism) -> Fraction:
    """What the run costs by the formulas of the proofs: mu^2 with Gaussian noise, epsilon with
    geometric noise.
    """
    total, replace = Fraction(0), m.neighboring_relation is REPLACE
    d, B = m.n_features, 2**m.domain.fraction_bits
    for r in m.rounds:
        H2 = d * B * B if r.squared_radius is None else r.squared_radius
        l1 = d * B if r.squared_radius is None else math.isqrt(d * H2)
        if m.noise is Noise.LAPLACE:
            total += (2 if replace else 1) * (l1 / r.sum_scale + 2**m.count_bits / r.count_scale)
        else:
            a, b = H2 / r.sum_scale**2, 4**m.count_bits / r.count_scale**2
            total += max(4 * a, 2 * (a + b)) if replace else a + b
    return total


@PRIVATE
@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
@pytest.mark.parametrize(
    ("d", "epsilon", "delta"), [(1, 0.1, 1e-9), (2, 1.0, 1e-5), (13, 3.0, 1e-7), (64, 0.5, 1e-6)]
)
@pytest.mark.parametrize("count_bits", [0, 6])
def test_the_rounds_spend_the_budget_and_never_more(
    algorithm: Algorithm,
    relation: NeighboringRelation,
    d: int,
    epsilon: float,
    delta: float,
    count_bits: int,
) -> None:
    m = design(
        algorithm,
        d=d,
        epsilon=epsilon,
        delta=delta,
        neighboring_relation=relation,
        count_bits=count_bits,
    )
    cost = exact_cost(m)
    accountant = m.accountant()
    if algorithm.noise is Noise.LAPLACE:
        assert cost == accountant.pure_epsilon
        assert 0.9999 * epsilon < cost <= Fraction(epsilon)
    else:
        assert cost == accountant.mu_squared
        budgeted = Fraction(gdp_mu(epsilon, delta)) ** 2
        # the finest noise here has a deviation of 1.6 records, rounded up to a multiple of 2**-16
        assert 0.99995 * budgeted < cost <= budgeted


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, CONSTANT], ids=lambda a: a.name)
@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda r: r.value)
def test_of_a_small_budget_less_than_a_millionth_is_lost_by_rounding(
    algorithm: Algorithm, relation: NeighboringRelation
) -> None:
    m = design(algorithm, epsilon=0.1, delta=1e-6, neighboring_relation=relation)
    budgeted = Fraction(gdp_mu(0.1, 1e-6)) ** 2
    assert 0.999999 * budgeted < exact_cost(m) <= budgeted


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (5.0, 1e-9)])
@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD], ids=lambda a: a.name)
def test_an_accountant_that_knows_only_the_releases_finds_the_stated_epsilon(
    algorithm: Algorithm, epsilon: float, delta: float
) -> None:
    m = design(algorithm, epsilon=epsilon, delta=delta)
    accounted = m.accountant().get_epsilon(delta)
    assert epsilon * (1 - 1e-4) < accounted <= epsilon
    assert 0.999 * delta < m.accountant().get_delta(epsilon) <= delta


@settings(max_examples=60)
@given(
    algorithm=st.sampled_from([FASTLLOYD, GLLOYD, SULLOYD, ABLATED, CONSTANT]),
    d=st.sampled_from([1, 2, 3, 17]),
    epsilon=st.floats(-6, 12).map(lambda x: 10.0**x),
    delta=st.floats(-15, -2).map(lambda x: 10.0**x),
    relation=st.sampled_from(NeighboringRelation),
    T=st.none() | st.integers(1, 9),
    count_bits=st.integers(0, 12),
)
def test_every_design_that_is_not_refused_gives_its_guarantee_exactly(
    algorithm: Algorithm,
    d: int,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation,
    T: int | None,
    count_bits: int,
) -> None:
    try:
        m = design(
            algorithm,
            d=d,
            epsilon=epsilon,
            delta=delta,
            neighboring_relation=relation,
            n_iterations=T,
            count_bits=count_bits,
        )
    except OverflowRisk:
        assert epsilon < 1e-3
        return
    if algorithm.noise is Noise.LAPLACE:
        assert exact_cost(m) <= Fraction(epsilon)
        assert m.delta == 0
    else:
        assert exact_cost(m) <= Fraction(gdp_mu(epsilon, delta)) ** 2
        assert m.delta == delta
    assert len(m.rounds) == T or (T is None and 2 <= len(m.rounds) <= 7)
    for r in m.rounds:
        assert all(
            scale > 0 and SCALE_UNITS % scale.denominator == 0
            for scale in (r.sum_scale, r.count_scale)
        )


@pytest.mark.parametrize(
    "epsilon", [1e-9, 1.7e-9, 1e-10, 1.9666666666666669e-10, 1e-12, 1e-15, 1e-300]
)
@PRIVATE
def test_a_budget_too_small_for_the_sampler_is_refused_at_the_design_and_never_by_an_accident_of_rounding(
    algorithm: Algorithm, epsilon: float
) -> None:
    with pytest.raises(OverflowRisk, match=r"above 2\^44"):
        design(algorithm, d=1, q=25, epsilon=epsilon, delta=1e-15, n_records=10)


@PRIVATE
def test_the_smallest_budget_that_is_accepted_has_the_largest_noise_that_can_be_drawn(
    algorithm: Algorithm,
) -> None:
    def designed(epsilon: float) -> LloydMechanism:
        return design(algorithm, d=1, q=25, epsilon=epsilon, delta=1e-15, n_records=10)

    refused, accepted = 1e-9, 1.0
    while accepted > 1.001 * refused:
        between = math.sqrt(refused * accepted)
        try:
            designed(between)
            accepted = between
        except OverflowRisk:
            refused = between
    m = designed(accepted)
    assert MAX_SCALE / 1.01 < max(r.sum_scale for r in m.rounds) <= MAX_SCALE
    m.draw_noise(m.rounds[0], SeededNoise(0))


def test_noise_scales_are_those_worked_out_by_hand() -> None:
    # sigma = 4.2247 at (1, 1e-6); with T = 2 and d = 2: sigma_R eta sqrt T in grid units, sigma_C
    # sqrt T in records
    m = design(epsilon=1.0, delta=1e-6, n_iterations=2)
    sigma, root = 4.2247, 1 + math.sqrt(8)
    first, last = m.rounds
    assert float(first.sum_scale) == pytest.approx(
        sigma * math.sqrt(root) / 8**0.25 * math.sqrt(2) * 2**16 * math.sqrt(2), rel=1e-5
    )
    eta = 0.8 * math.sqrt(2) / math.sqrt(3)
    assert float(last.sum_scale) == pytest.approx(
        sigma * math.sqrt(root) / 8**0.25 * eta * 2**16 * math.sqrt(2), rel=1e-5
    )
    assert (
        float(first.count_scale)
        == float(last.count_scale)
        == pytest.approx(sigma * math.sqrt(root) * math.sqrt(2), rel=1e-5)
    )
    assert [str(scale) for r in m.rounds for scale in (r.sum_scale, r.count_scale)] == [
        "42220294373/65536",
        "191531/16384",
        "9750359327/32768",
        "191531/16384",
    ]
    assert m.digest.hex() == "a65fc8b6b3e67682e61aebe545ffe85cd5597e6c0bced512cafb3a6d89f8feca"

    g = design(GLLOYD, epsilon=1.0, delta=1e-6, n_iterations=2).rounds[0]
    total = math.sqrt(0.45 + math.sqrt(2))
    assert float(g.sum_scale) == pytest.approx(
        sigma * total / 2**0.25 * math.sqrt(2) * 2**16 * math.sqrt(2), rel=1e-5
    )
    assert float(g.count_scale) == pytest.approx(
        sigma * total / math.sqrt(0.45) * math.sqrt(2), rel=1e-5
    )

    s = design(SULLOYD, epsilon=1.0, n_iterations=2).rounds[0]
    counts = (8 * 0.225**2) ** (1 / 3)
    assert float(s.sum_scale) == pytest.approx(2 * 2**16 / (0.5 * 2 / (2 + counts)), rel=1e-9)
    assert float(s.count_scale) == pytest.approx(1 / (0.5 * counts / (2 + counts)), rel=1e-4)


@pytest.mark.parametrize(
    ("d", "algorithm"), [(1, FASTLLOYD), (2, FASTLLOYD), (2, GLLOYD), (40, GLLOYD), (2, SULLOYD)]
)
def test_replacing_a_record_takes_more_noise_than_removing_one_by_the_right_factor(
    d: int, algorithm: Algorithm
) -> None:
    one, two = (
        design(algorithm, d=d, n_iterations=3, delta=1e-6, neighboring_relation=r)
        for r in (ADD, REPLACE)
    )
    with fifty_decimals() as digits:
        share = float(1 - count_share(digits, algorithm, d))
    factor = 2 if algorithm.noise is Noise.LAPLACE else math.sqrt(max(4 * share, 2))
    assert 1.6 < factor <= 2
    for a, b in zip(one.rounds, two.rounds, strict=True):
        assert float(b.sum_scale / a.sum_scale) == pytest.approx(factor, rel=1e-4)
        assert float(b.count_scale / a.count_scale) == pytest.approx(factor, rel=1e-4)


@given(
    relation=st.sampled_from(NeighboringRelation),
    a=st.fractions(Fraction(1, 10), 1000, max_denominator=100),
    b=st.fractions(Fraction(1, 10), 1000, max_denominator=100),
)
def test_the_cost_of_any_pair_of_scales_is_the_proven_one_in_both_branches(
    relation: NeighboringRelation, a: Fraction, b: Fraction
) -> None:
    m = design(n_iterations=1, epsilon=1e9, delta=1e-9, neighboring_relation=relation)
    tampered = msgspec.structs.replace(
        m,
        rounds=(LloydRound(sum_scale=a * 2**16, count_scale=b, squared_radius=2 * 4**16),),
        epsilon=1e9,
    )
    assert tampered.accountant().mu_squared == exact_cost(tampered)


def test_pure_epsilon_adds_up_exactly() -> None:
    m = design(SULLOYD, epsilon=0.7, n_iterations=5)
    assert m.accountant().pure_epsilon == sum(
        Fraction(2 * 2**16) / r.sum_scale + 1 / Fraction(r.count_scale) for r in m.rounds
    )
    assert m.accountant().mu_squared == 0
    assert m.delta == m.delta_slack == 0


# Files


@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, GLLOYD, SULLOYD, LLOYD, ABLATED, CONSTANT], ids=lambda a: a.name
)
def test_a_file_is_read_back_as_the_same_mechanism(algorithm: Algorithm) -> None:
    m = design(
        algorithm,
        neighboring_relation=REPLACE,
        initialization=RadiusSearch.HALVING,
        min_count=Fraction(7, 3),
    )
    text = m.to_toml()
    again = LloydMechanism.from_toml(text)
    assert again == m
    assert again.to_toml() == text
    assert again.digest == m.digest
    assert text.rstrip().splitlines()[-1] == f'digest = "{m.digest.hex()}"'
    assert reseal(text, lambda _: None).splitlines()[-1] == f'digest = "{m.digest.hex()}"'


def test_settings_given_as_other_kinds_of_numbers_survive_the_file() -> None:
    domain = Domain(features=("a",), lower=(0,), upper=(np.float64(10),), scaling=Scaling.COMMON)
    spelled: dict[str, Any] = {
        "n_clusters": np.int64(2),
        "n_records": np.int64(100),
        "n_expected": np.int32(90),
        "epsilon": 1,
        "delta": np.float64(1e-6),
        "min_count": 5,
    }
    m = design_mechanism(FASTLLOYD, domain, public_seed=PublicSeed.from_int(1), **spelled)
    assert LloydMechanism.from_toml(m.to_toml()) == m
    assert m.min_count == Fraction(5)


def test_any_changed_digit_of_the_file_is_refused() -> None:
    text = design(n_iterations=2).to_toml()
    digits = [match.start() for match in re.finditer(r"[0-9]", text)]
    assert len(digits) > 200
    for position in digits:
        other = str((int(text[position]) + 1 + position % 9) % 10)
        assert other != text[position]
        with pytest.raises(PlanError, match="get the original"):
            LloydMechanism.from_toml(text[:position] + other + text[position + 1 :])


def halve(field: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["rounds"][-1][field] = str(Fraction(content["rounds"][-1][field]) / 2)

    return change


def setting(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        table: Any = content
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value

    return change


def one_unit_less(content: dict[str, Any]) -> None:
    for r in content["rounds"]:
        for field in ("sum_scale", "count_scale"):
            r[field] = str(Fraction(r[field]) - Fraction(1, SCALE_UNITS))


WEAKER = {
    "half the noise on the sums of one round": halve("sum_scale"),
    "half the noise on the counts of one round": halve("count_scale"),
    "one unit less everywhere": one_unit_less,
    "a larger radius for the same noise": setting("rounds", 1, "squared_radius", value=2**40),
    "a finer count grid for the same noise": setting("count_bits", value=1),
    "a smaller epsilon for the same noise": setting("epsilon", value=0.999),
    "a smaller delta for the same noise": setting("delta", value=0.9e-5),
    "another neighbouring relation": setting("neighboring_relation", value="replace_one"),
    "one more round": lambda content: content["rounds"].append(content["rounds"][-1]),
    "delta set aside that is not there": setting("delta_slack", value=4e-6),
    "delta from nowhere": setting("delta_slack", value=-0.1),
    "no noise on sums": setting("rounds", 0, "sum_scale", value="0"),
    "negative noise": setting("rounds", 0, "sum_scale", value="-1000000"),
    "a mechanism that claims epsilon without noise": setting("algorithm", "noise", value="none"),
    "epsilon that is not a number": setting("epsilon", value=math.nan),
    "delta that is not a number": setting("delta", value=math.nan),
    "slack that is not a number": setting("delta_slack", value=math.nan),
    "another start": setting("public_seed", value="0" * 64),
    "another number of clusters": setting("n_clusters", value=4),
    "no rounds": setting("rounds", value=[]),
    "a negative radius": setting("rounds", 0, "squared_radius", value=-1),
    "a radius beyond exact arithmetic": setting("rounds", 0, "squared_radius", value=2**53),
    "too many clusters": setting("n_clusters", value=MAX_CLUSTERS + 1),
    "too many records": setting("n_records", value=MAX_RECORDS + 1),
    "an expectation of nobody": setting("n_expected", value=0),
    "an expectation no file needs": setting("n_expected", value=10**400),
    "a negative floor": setting("min_count", value="-1"),
    "a count grid beyond the ring": setting("count_bits", value=33),
    "an unknown field": setting("trust", value="me"),
    "an unknown field below": setting("algorithm", "seed", value=1),
    "a name made of lines": setting("algorithm", "name", value="fastlloyd\nepsilon = 0.001"),
    "a feature made of terminal codes": setting("domain", "features", value=["\x1b[1A", "y"]),
    "a fraction that would take for ever": setting("min_count", value="1e999999999"),
    "a fraction as a float": setting("min_count", value=0.5),
    "a fraction over zero": setting("min_count", value="1/0"),
    "noise beyond the sampler": setting("rounds", 0, "sum_scale", value=str(2**45)),
}


@pytest.mark.parametrize("change", WEAKER.values(), ids=WEAKER)
def test_a_tampered_file_with_a_valid_seal_is_refused(
    change: Callable[[dict[str, Any]], None],
) -> None:
    text = design(n_iterations=3, delta=1e-5).to_toml()
    with pytest.raises(PlanError, match=r"^mechanism\.toml"):
        LloydMechanism.from_toml(reseal(text, change))


@pytest.mark.parametrize(
    "change",
    [
        halve("sum_scale"),
        halve("count_scale"),
        one_unit_less,
        setting("epsilon", value=0.999),
        setting("neighboring_relation", value="replace_one"),
        setting("count_bits", value=1),
        lambda content: content["rounds"].append(content["rounds"][-1]),
    ],
    ids=["sums", "counts", "one unit", "epsilon", "relation", "count grid", "rounds"],
)
def test_a_tampered_file_with_geometric_noise_is_refused(
    change: Callable[[dict[str, Any]], None],
) -> None:
    text = design(SULLOYD, n_iterations=3, n_records=10**6).to_toml()
    with pytest.raises(PlanError, match="not give epsilon"):
        LloydMechanism.from_toml(reseal(text, change))


@pytest.mark.parametrize(
    "changes",
    [
        {"delta_slack": -0.1},
        {"neighboring_relation": REPLACE},
        {"count_bits": 1},
        {"rounds": ()},
        {"epsilon": 0.999},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_tampering_in_memory_is_refused_as_in_a_file(changes: dict[str, Any]) -> None:
    m = design(n_iterations=3, delta=1e-5)
    with pytest.raises((PlanError, BudgetError)):
        msgspec.structs.replace(m, **changes)


@pytest.mark.parametrize(
    "change",
    [setting("delta", value=-5.0), setting("delta", value=math.nan), setting("delta", value=0.5)],
)
@pytest.mark.parametrize("algorithm", [SULLOYD, LLOYD], ids=lambda a: a.name)
def test_without_gaussian_noise_a_delta_means_nothing_and_is_refused(
    algorithm: Algorithm, change: Callable[[dict[str, Any]], None]
) -> None:
    with pytest.raises(PlanError, match="delta is"):
        LloydMechanism.from_toml(reseal(design(algorithm).to_toml(), change))


@pytest.mark.parametrize("epsilon", [0.1, math.nan, -math.inf])
def test_without_noise_no_epsilon_may_be_claimed(epsilon: float) -> None:
    m = design(LLOYD)
    assert m.epsilon == math.inf
    assert m.releases() == []
    with pytest.raises(PlanError, match="expected inf: lloyd"):
        LloydMechanism.from_toml(reseal(m.to_toml(), setting("epsilon", value=epsilon)))


@pytest.mark.parametrize(
    "change",
    [
        setting("epsilon", value=1.1),
        setting("delta", value=1.1e-5),
        setting("rounds", 0, "squared_radius", value=1000),
        setting("rounds", 1, "sum_scale", value=str(2**40)),
        lambda content: content["rounds"].pop(),
        setting("min_count", value="0"),
    ],
    ids=[
        "larger epsilon",
        "larger delta",
        "smaller radius",
        "more noise",
        "fewer rounds",
        "no floor",
    ],
)
def test_a_file_changed_to_a_weaker_claim_or_more_noise_still_tells_the_truth(
    change: Callable[[dict[str, Any]], None],
) -> None:
    m = LloydMechanism.from_toml(reseal(design(n_iterations=3, delta=1e-5).to_toml(), change))
    assert exact_cost(m) <= Fraction(gdp_mu(m.epsilon, m.delta)) ** 2


# Settings


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilon": 0.0}, BudgetError, "epsilon is 0.0; expected a finite number above 0"),
        ({"epsilon": -1.0}, BudgetError, "epsilon is -1.0"),
        ({"epsilon": math.inf}, BudgetError, "epsilon is inf"),
        ({"epsilon": math.nan}, BudgetError, "epsilon is nan"),
        (
            {"epsilon": 1e308},
            BudgetError,
            "epsilon is 1e+308; expected a finite number above 0, such as 1.0, and at most 1e+100",
        ),
        ({"delta": 0.0}, BudgetError, "delta is 0.0; expected a number above 0 and below 1"),
        ({"delta": 1.0}, BudgetError, "delta is 1.0"),
        ({"delta": math.nan}, BudgetError, "delta is nan"),
        ({"delta": 1e-5, "delta_slack": 9e-6}, BudgetError, "epsilon is so large"),
        (
            {"delta": 1e-5, "delta_slack": -1e-6},
            BudgetError,
            "delta_slack is -1e-06; expected a part of delta, 0 or more",
        ),
        ({"delta": 1e-5, "delta_slack": math.inf}, BudgetError, "epsilon is so large"),
        ({"delta": 1e-5, "delta_slack": math.nan}, BudgetError, "delta_slack is nan"),
        ({"n_clusters": 0}, PlanError, "n_clusters is 0; expected 1 to 1000"),
        ({"n_clusters": 1001}, PlanError, "n_clusters is 1001; expected 1 to 1000"),
        ({"n_records": 0}, PlanError, "n_records is 0; expected 1 to"),
        ({"n_records": 2**40 + 1}, PlanError, "n_records is"),
        ({"n_expected": 0}, PlanError, "n_expected is 0"),
        ({"n_iterations": 0}, PlanError, "n_iterations is 0; expected 1 to 1000"),
        ({"n_iterations": -1}, PlanError, "n_iterations is -1"),
        ({"n_iterations": 10**12}, PlanError, "n_iterations is 1000000000000"),
        ({"count_bits": -1}, PlanError, "count_bits is -1; expected 0 to 32"),
        ({"count_bits": 33}, PlanError, "count_bits is 33"),
        ({"min_count": Fraction(-1)}, PlanError, "min_count is -1; expected 0"),
    ],
    ids=str,
)
def test_a_setting_out_of_range_is_refused_by_name(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    for algorithm in (FASTLLOYD, GLLOYD):
        with pytest.raises(error, match=re.escape(message)):
            design(algorithm, **changes)


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(-1), Fraction(401, 100)])
def test_alpha_out_of_range_is_refused(alpha: Fraction) -> None:
    with pytest.raises(PlanError, match=r"above 0.*most 4"):
        design(msgspec.structs.replace(FASTLLOYD, alpha=alpha))


@pytest.mark.parametrize("n_records", [3, 150, 10**6, 2**40])
def test_w24_the_default_delta_is_a_hundredth_record(n_records: int) -> None:
    # 1 / (N ln N) exposes .20 records of Iris in full on average, .12 of S1
    m = design(n_records=n_records)
    assert m.delta == 1 / (100 * n_records)
    assert n_records * m.delta <= 0.0100001
    assert design(SULLOYD, n_records=n_records).delta == 0


@given(st.floats(1e-300, 0.999), st.floats(0, 0.6))
def test_delta_less_slack_is_rounded_down_and_at_least_half_is_left(
    delta: float, share: float
) -> None:
    slack = delta * share
    try:
        left = usable_delta(delta, slack)
    except BudgetError:
        assert share > 0.49
        return
    assert Fraction(left) <= Fraction(delta) - Fraction(slack)
    assert left > 0.49 * delta
    assert left >= (delta - slack) * (1 - 1e-15) or left >= math.nextafter(delta - slack, 0)


def test_w27_the_default_floor_is_the_deviation_of_the_count_noise() -> None:
    for algorithm, factor in ((FASTLLOYD, 1.0), (GLLOYD, 1.0), (SULLOYD, 1.5)):
        for count_bits in (0, 5):
            m = design(algorithm, count_bits=count_bits, n_iterations=3)
            deviation = float(m.rounds[-1].count_scale) / 2**count_bits * factor
            assert m.min_count == math.ceil(deviation)
    assert design(LLOYD).min_count == 1
    assert design(epsilon=1e6).min_count == 1


@pytest.mark.parametrize("d", [1, 1024])
@PRIVATE
def test_the_extremes_of_dimension_and_a_single_cluster_are_planned_and_run(
    algorithm: Algorithm, d: int
) -> None:
    m = design(algorithm, d=d, n_clusters=1)
    assert m.initial_centroids().tolist() == [[0] * d]
    assert m.n_released == len(m.rounds) * (d + 1)
    result = central.cluster(
        m, LocalRecords(m.domain, np.zeros((7, d), dtype=np.int64)), SeededNoise(0)
    )
    assert result.centroids.shape == (1, d)


# The central model


@PRIVATE
def test_w23_every_number_of_records_under_the_cap_takes_the_same_rounds_and_the_same_draws(
    algorithm: Algorithm,
) -> None:
    m = design(algorithm, n_records=50, n_iterations=4)
    k, d = m.n_clusters, m.n_features
    for n in (0, 1, 49, 50):
        noise = InjectedNoise([np.zeros(k * d), np.zeros(k)] * 4)
        central.cluster(m, LocalRecords(m.domain, np.zeros((n, d), dtype=np.int64)), noise)
        assert noise._given == 8


def test_more_records_than_the_cap_are_refused_without_saying_how_many() -> None:
    m = design(n_records=50)
    with pytest.raises(DataError, match=r"records.*cap of 50") as caught:
        central.cluster(
            m, LocalRecords(m.domain, np.zeros((7351, 2), dtype=np.int64)), SeededNoise(0)
        )
    assert "7351" not in str(caught.value)


def test_noise_is_drawn_sums_first_then_counts_with_the_scales_of_the_round() -> None:
    asked: list[tuple[str, Fraction, int]] = []

    class Recorder(SeededNoise):
        def gaussian(self, scale: Fraction, size: int) -> Any:
            asked.append(("gaussian", scale, size))
            return np.arange(size)

        def two_sided_geometric(self, scale: Fraction, size: int) -> Any:
            asked.append(("geometric", scale, size))
            return np.arange(size)

    for algorithm, law in ((FASTLLOYD, "gaussian"), (SULLOYD, "geometric")):
        m = design(algorithm, n_clusters=2)
        asked.clear()
        assert m.draw_noise(m.rounds[0], Recorder(0)).tolist() == [[0, 1, 0], [2, 3, 1]]
        assert asked == [(law, m.rounds[0].sum_scale, 4), (law, m.rounds[0].count_scale, 2)]
    m = design(LLOYD, n_clusters=2)
    assert m.draw_noise(m.rounds[0], Recorder(0)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD, LLOYD], ids=lambda a: a.name)
def test_sums_that_could_leave_64_bits_are_refused(algorithm: Algorithm) -> None:
    """The largest entry that one record moves, times the cap, stays below 2**62."""
    fits = design(algorithm, d=1, q=25, n_clusters=1, n_records=1 << 35, epsilon=1.0)
    largest = max(part.bound for round in fits.all_rounds for part in fits.parts(round))
    assert fits.n_records * largest < 1 << 62
    with pytest.raises(OverflowRisk, match="n_records"):
        design(algorithm, d=1, q=25, n_clusters=1, n_records=-(-(1 << 62) // largest), epsilon=1.0)
