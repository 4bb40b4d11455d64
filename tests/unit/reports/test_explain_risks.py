"""What a guarantee means is worked out rightly: certainty, guesses, persons, and what organisations
learn of each other.
"""

import functools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from clone import ROOT
from designs import design_mechanism, design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_delta, mu_from_squared
from fastlloyd.federation.plan.plan import Client, Plan, TrustMode
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, MeanRound
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.reports.certainty import Odds
from fastlloyd.reports.coalitions import person_epsilon
from fastlloyd.reports.plan_facts import plan_cautions, profile_deviation, totals
from fastlloyd.testing import SeededNoise
from federation import make_plan

EACH = pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD, SULLOYD], ids=lambda a: a.name)


@functools.cache
def mechanism(algorithm: AnyAlgorithm, epsilon: float) -> Mechanism:
    return make_plan(algorithm=algorithm, trust=TrustMode.SERVER_NOISE, epsilon=epsilon).clustering


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("before", [0.001, 0.5, 0.9])
def test_the_bound_on_certainty_is_attained_by_the_worst_mechanism(
    epsilon: float, before: float
) -> None:
    """One that says "yes" wherever the best test of power delta does, and nothing else: then the
    odds grow as stated.
    """
    m = mechanism(FASTLLOYD, epsilon)
    mu = mu_from_squared(m.accountant().mu_squared)
    falsely = norm.cdf(norm.ppf(m.delta) - mu)
    exact = before * m.delta / (before * m.delta + (1 - before) * falsely)
    assert Odds.of_run(m).certainty(before) == pytest.approx(exact, rel=1e-9)
    pure = mechanism(SULLOYD, epsilon)
    assert Odds.of_run(pure).certainty(before) == pytest.approx(
        before * math.exp(epsilon) / (1 - before + before * math.exp(epsilon))
    )


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_outcomes_of_gaussian_noise_make_anyone_more_certain_with_a_smaller_probability_than_said(
    epsilon: float,
) -> None:
    m = mechanism(FASTLLOYD, epsilon)
    mu = mu_from_squared(m.accountant().mu_squared)
    odds = Odds.of_run(m).certainty(0.5) / (1 - Odds.of_run(m).certainty(0.5))
    probability = norm.sf(
        (math.log(odds) - mu**2 / 2) / mu
    )  # of a log ratio above it, with the record
    assert probability <= m.delta
    assert (
        math.log(odds) > epsilon
    )  # delta is no probability that epsilon is exceeded: a larger ratio has to be admitted
    assert norm.sf((epsilon - mu**2 / 2) / mu) > m.delta


@EACH
def test_who_had_no_idea_guesses_right_as_often_as_total_variation_says(
    algorithm: AnyAlgorithm,
) -> None:
    m = mechanism(algorithm, 1.0)
    if algorithm is SULLOYD:
        assert Odds.of_run(m).right_guesses() == pytest.approx(math.e / (1 + math.e))
    else:
        tv = gdp_delta(mu_from_squared(m.accountant().mu_squared), 1e-12)
        assert Odds.of_run(m).right_guesses() == pytest.approx((1 + tv) / 2, rel=1e-9)


def test_a_person_of_several_records_has_the_published_epsilons() -> None:
    of = make_plan(algorithm=FASTLLOYD, trust=TrustMode.SERVER_NOISE, epsilon=1.0)
    mu = mu_from_squared(of.mechanism.accountant().mu_squared)
    for n in (1, 2, 5, 10):
        assert gdp_delta(n * mu * (1 - 1e-12), person_epsilon(of, n)) <= of.mechanism.delta * (
            1 + 1e-9
        )
        shared = person_epsilon(make_plan(algorithm=FASTLLOYD, epsilon=1.0), n)
        assert shared == pytest.approx(person_epsilon(of, n), rel=1e-3)
    assert (
        person_epsilon(make_plan(algorithm=SULLOYD, trust=TrustMode.SERVER_NOISE, epsilon=1.0), 5)
        <= 5
    )


# Two organisations


@functools.cache
def study_of_two(trust: TrustMode, algorithm: AnyAlgorithm = MOMENTLLOYD) -> Plan:
    settings: dict[str, Any] = {
        "public_seed": PublicSeed.from_int(1),
        "run_id": bytes(16),
        "n_clusters": 3,
        "epsilon": 1.0,
    }
    clients = tuple(Client(name=name, max_records=1000) for name in ("north", "south"))
    box = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
    return design_plan(algorithm, box, clients=clients, trust=trust, **settings)


def subtracted(plan: Plan, own: IntArray, others: IntArray, seed: int) -> tuple[float, float]:
    """What one of two learns of the other's records from the first sum: their number, and the mean
    of their first feature.
    """
    m, noise = plan.clustering, SeededNoise(seed)
    first = m.rounds[0]
    assert isinstance(first, MeanRound)
    mechanism: Mechanism = m
    query = mechanism.query(0, mechanism.start())
    share, theirs = (
        plan.draw_client_noise(first, noise, plan.n_clients),
        plan.draw_client_noise(first, noise, plan.n_clients),
    )
    opened = (
        query.evaluate(own)
        + query.evaluate(others)
        + share
        + theirs
        + plan.draw_server_noise(first, noise)
    )
    left = (opened - query.evaluate(own) - share)[0]
    n = left[-1] / 2**m.count_bits
    radius = float(first.radius) * math.sqrt(m.domain.squared_half_diagonal)
    offset = left[0] / first.units * radius / n
    return n, float(m.domain.from_grid(np.array([[offset, 0.0]]))[0, 0])


@pytest.mark.parametrize("trust", list(TrustMode))
def test_each_of_two_organisations_has_the_others_totals_by_taking_its_own_away(
    trust: TrustMode,
) -> None:
    """999 records of mean age 40.0, 200 draws of seeded noise: the number is right but for the
    noise of one organisation.

    The standard error of a deviation is 5 %, and six of them are allowed.
    """
    plan = study_of_two(trust)
    ages = np.random.default_rng(1).normal(40, 5, 999)
    records = np.column_stack([ages - ages.mean() + 40, np.full(999, 2.5)])
    others, own = (
        plan.mechanism.domain.to_grid(records),
        plan.mechanism.domain.to_grid(records[:600] + np.array([20, 1])),
    )
    found = np.array([subtracted(plan, own, others, seed) for seed in range(200)])
    m = plan.mechanism
    first = m.rounds[0]
    scale = float(
        (
            plan.share_scales(first, plan.n_clients)
            if trust is TrustMode.CLIENT_NOISE
            else plan.total_scales(first)
        )[-1]
    )
    assert found[:, 0].std() == pytest.approx(scale / 2**m.count_bits, rel=0.3)
    assert abs(found[:, 0].mean() - 999) < 6 * scale / 2**m.count_bits / math.sqrt(200)
    assert abs(np.median(found[:, 1]) - 40) < 1
    assert (
        profile_deviation(plan) < scale / 2**m.count_bits
    )  # later answers count the records again
    assert np.mean(abs(found[:, 0] - 999) < 300) == 1


@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD], ids=lambda a: a.name)
@pytest.mark.parametrize("trust", list(TrustMode))
def test_totals_are_known_as_well_as_the_weighted_mean_of_all_counts(
    algorithm: AnyAlgorithm, trust: TrustMode
) -> None:
    """By simulation: each round's counts added up, with the noise of whoever is not known; 5 % is
    seven standard errors.
    """
    plan = study_of_two(trust, algorithm)
    m, generator = plan.mechanism, np.random.default_rng(5)
    estimates, weights = [], []
    for exchange in m.rounds:
        parts = m.parts(exchange)
        if parts[-1].n_columns != 1 or parts[-1].bound != 1 << m.count_bits:
            continue  # no counts
        scales = (
            plan.share_scales(exchange, plan.n_clients)
            if trust is TrustMode.CLIENT_NOISE
            else plan.total_scales(exchange)
        )
        sigma = float(scales[-1]) / 2**m.count_bits
        rows = m.shape(exchange)[0]
        estimates.append(generator.normal(0, sigma * math.sqrt(rows), 10_000))
        weights.append(1 / (rows * sigma**2))
    combined = np.average(estimates, axis=0, weights=weights)
    assert profile_deviation(plan) == pytest.approx(combined.std(), rel=0.05)


def test_what_organisations_learn_of_each_other_is_said_of_two_and_of_all_but_one() -> None:
    of = study_of_two(TrustMode.CLIENT_NOISE)
    error = profile_deviation(of)
    assert Fact.of("two_clients_clusters", error=error) in plan_cautions(of)
    assert totals(of) == []
    three = make_plan(3)
    assert plan_cautions(three) == []
    assert totals(three) == [Fact.of("totals_clusters", error=profile_deviation(three))]


def test_the_threat_model_shows_the_figures_of_epsilon_1() -> None:
    page = " ".join((ROOT / "docs/threat-model.md").read_text().split())
    box = Domain(features=("a",), lower=(0.0,), upper=(1.0,))
    settings: dict[str, Any] = {
        "n_clusters": 2,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    }

    def percent(share: float) -> str:
        return f"{math.ceil(share * 1000) / 10:g}"

    m, pure = (
        design_mechanism(FASTLLOYD, box, delta=1e-6, **settings),
        design_mechanism(SULLOYD, box, **settings),
    )
    shown = [percent(Odds.of_run(m).certainty(before)) for before in (0.01, 0.1, 0.5, 0.9)]
    assert f"| certain afterwards, at most | {' | '.join(shown)} |" in page
    assert f"guesses right in at most {percent(Odds.of_run(m).right_guesses())} % of cases" in page
    shown = [percent(Odds.of_run(pure).certainty(before)) for before in (0.01, 0.1, 0.5, 0.9)]
    assert (
        f"{', '.join(shown[:-1])} and {shown[-1]} %, and"
        f" {percent(Odds.of_run(pure).right_guesses())} % of all guesses" in page
    )
    of_two = study_of_two(TrustMode.CLIENT_NOISE)
    first = of_two.mechanism.rounds[0]
    alone = float(of_two.share_scales(first, of_two.n_clients)[-1]) / 2**of_two.mechanism.count_bits
    assert f"with a standard error of {alone:.0f} and" in page
    assert f"to within {profile_deviation(of_two):.0f}, and how many" in page
