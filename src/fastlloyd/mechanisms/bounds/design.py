"""Design of the rounds that find bounds, and division of a budget into two stages.

The first stage finds bounds, and the second uses them. The design uses public numbers alone and is
complete before any budget is spent.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple

import msgspec

from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.gdp import gdp_epsilon, mu_from_squared
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.mechanisms.bounds.mechanism import (
    N_ROUNDS,
    SEEN_DEVIATIONS,
    SEEN_SHARE,
    BoundsMechanism,
    HistogramRound,
    too_few,
)
from fastlloyd.mechanisms.persons import unit
from fastlloyd.mechanisms.queries.histograms import Histograms
from fastlloyd.mechanisms.queries.query import in_shares
from fastlloyd.mechanisms.rounds import sqrt_up
from fastlloyd.mechanisms.settings import RunSettings
from fastlloyd.records.recipe.feature import Feature

FEW_FEATURES, FINE, COARSE = 64, 22, 20  # fraction_bits up to this number of features, and above it
DEEP_FEATURES, DEEP, FLAT = 32, 4, 3  # levels of the first round up to so many features, and above
ZOOM_LEVELS = 3
LEAST_SHARE, MOST_SHARE = Fraction(5, 100), Fraction(20, 100)


class BoundsSettings(RunSettings, frozen=True, kw_only=True):
    """Settings of a run that finds bounds. The domain is a result of `outer_range`."""

    noise: ClassVar[Noise] = Noise.GAUSSIAN


class Stages(NamedTuple):
    """Budget that is divided into two stages.

    first : mechanism of the first stage, which finds bounds.
    share : share of the budget mu^2 that the first stage spends.
    epsilon : epsilon of the second stage, which uses the bounds. It holds at the delta of the whole
        budget.
    """

    first: BoundsMechanism
    share: Fraction
    epsilon: float


def outer_range(
    features: Sequence[str],
    lower: Sequence[float],
    upper: Sequence[float],
    recipe: Sequence[Feature] | None = None,
) -> Domain:
    """Return the domain in which bounds are found, with a fine grid and each feature scaled
    separately.

    recipe : result of `searched_features`, or None without a recipe.

    Raises PlanError as `Domain` does.
    """
    bits = FINE if len(features) <= FEW_FEATURES else COARSE
    return Domain(
        features=tuple(features),
        lower=tuple(lower),
        upper=tuple(upper),
        scaling=Scaling.PER_FEATURE,
        fraction_bits=bits,
        recipe=None if recipe is None else tuple(recipe),
    )


def design(settings: BoundsSettings) -> BoundsMechanism:
    """Return the mechanism that spends all of the budget to find bounds.

    Raises BudgetError, or PlanError if noise would hide the bounds.
    """
    mechanism = _mechanism(settings)
    mechanism.check_noise([round.scales for round in mechanism.rounds])
    return mechanism


def divide(settings: BoundsSettings) -> Stages:
    """Return the two stages of a budget.

    The first stage has the smallest share, from 5 to 20 percent, that suffices to find bounds.
    Raises PlanError if 20 percent do not suffice, and BudgetError if epsilon is too small to be
    divided.
    """
    needed = _needed(settings)
    if needed > MOST_SHARE:
        enough = math.ceil(settings.expected * float(needed / MOST_SHARE) ** 0.5)
        budget = f"at most a fifth of the budget of epsilon {settings.epsilon:g}"
        n_features, of = settings.domain.n_features, unit(settings.persons)
        raise too_few(settings.expected, settings.n_records, of, n_features, budget, enough)
    share = max(LEAST_SHARE, Fraction(math.ceil(1000 * needed), 1000))
    delta = settings.whole_delta
    own, rest = (_epsilon(part * settings.budget, delta) for part in (share, 1 - share))
    return Stages(
        _mechanism(msgspec.structs.replace(settings, epsilon=own, delta=delta)), share, rest
    )


def _mechanism(settings: BoundsSettings) -> BoundsMechanism:
    rounds = []
    for question in _questions(settings):
        budget = settings.budget / N_ROUNDS
        rounds.append(
            HistogramRound(
                n_levels=question.n_levels, scale=sqrt_up(_dearest(settings, question) / budget)
            )
        )
    return BoundsMechanism(**settings.fields, rounds=tuple(rounds))


def _questions(settings: BoundsSettings) -> tuple[Histograms, ...]:
    domain, bits = settings.domain, settings.count_bits
    levels = DEEP if domain.n_features <= DEEP_FEATURES else FLAT, ZOOM_LEVELS
    return tuple(Histograms(domain=domain, n_levels=n, count_bits=bits) for n in levels)


def _dearest(settings: BoundsSettings, question: Histograms) -> int:
    """Return the largest cost mu^2 of one answer, over all pairs of neighbours, if the noise of
    each count has a standard deviation of 1.
    """
    sensitivity = in_shares(question, settings.persons).sensitivity
    return max(sum(corner) for corner in sensitivity.corners(settings.neighboring_relation))


def _needed(settings: BoundsSettings) -> Fraction:
    """Return the smallest share of the budget mu^2 that suffices to find bounds.

    With this share, 3.5 deviations of the noise are a tenth of the expected number of records.
    """
    dearest = max(_dearest(settings, question) for question in _questions(settings))
    tolerated = SEEN_SHARE * settings.expected * 2**settings.number_bits / SEEN_DEVIATIONS
    needed: Fraction = N_ROUNDS * dearest / (tolerated**2 * settings.budget)
    return needed


def _epsilon(budget: Fraction, delta: float) -> float:
    """Return a float just below the epsilon at which mu^2 equals the budget.

    A run that is planned for this float spends no more than the budget.
    """
    mu = math.nextafter(mu_from_squared(budget), 0)
    epsilon = math.nextafter(gdp_epsilon(mu, delta), 0)
    if epsilon <= 0:
        raise BudgetError(
            f"epsilon is too small to pay for both bounds and clusters at delta {delta:.3g}; use a"
            " larger epsilon, or state bounds"
        )
    return epsilon
