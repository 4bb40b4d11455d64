"""Design of the paper's mechanisms by its error analysis.

The design computes radii, the number of iterations T, noise, and the division of the budget between
sums and counts.

Departs from the paper: T is a whole number. It is planned from a public number of records, because
the true number would be revealed by T. Lloyd without noise runs 7 iterations like the others,
instead of until nothing moves.

Inputs are public. The mechanism stores results as integers or exact rationals, so no party
recomputes them in floating point. The mechanism checks the results again when it is made. So a
mistake in this file makes results less accurate, or the check refuses it. Intermediate numbers have
50 decimal digits, within `fifty_decimals` only, and are the same on every machine.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fastlloyd.base.precision import exact, fifty_decimals
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import initial_centroids
from fastlloyd.clustering.radius import usable_radius
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.lloyd.algorithm import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Algorithm,
    RadiusSchedule,
)
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.loss import loss_round, loss_share, scale_up
from fastlloyd.mechanisms.queries.query import in_shares
from fastlloyd.mechanisms.queries.relative import Moments, centroids_digest
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.settings import Settings

LLOYD_ITERATIONS = 7
# squared error of a centroid per iteration, in units of B (Su et al. 2016)
TOLERATED_ERROR = Fraction(4, 1000)
# Su et al.: mean |centroid coordinate| in units of B, as used in their and GLloyd's analysis
RHO = Fraction(225, 1000)
SU_CONSTANT = 500

Real = Any  # a number of 50 digits


def design(settings: Settings[Algorithm]) -> LloydMechanism:
    """Return the mechanism for the settings. The planner chooses every setting that is None.

    Raises BudgetError or PlanError if a setting is not possible.
    """
    s, algorithm, domain = settings, settings.algorithm, settings.domain
    for_loss = loss_share(settings)
    T = s.n_iterations or n_iterations(
        algorithm,
        domain,
        s.n_clusters,
        s.expected,
        epsilon=s.planned_epsilon,
        mu=s.planned_mu,
        share=1 - for_loss,
    )
    rounds, largest = _rounds(s, T, 1 - for_loss)
    min_count = s.preset.min_count if s.min_count is None else s.min_count
    search = s.initialization or s.preset.initialization
    start = initial_centroids(domain, s.n_clusters, s.public_seed, search)
    return LloydMechanism(
        **s.fields,
        algorithm=algorithm,
        initialization=search,
        min_count=(
            default_min_count(algorithm.noise, rounds[-1], s.number_bits)
            if min_count is None
            else Fraction(min_count)
        ),
        initial_centroids_digest=centroids_digest(start).hex(),
        rounds=rounds,
        loss=loss_round(s, for_loss, largest),
    )


def _rounds(s: Settings[Algorithm], T: int, share: Fraction) -> tuple[tuple[LloydRound, ...], int]:
    """Return T rounds, and the most that one record can change one coordinate of a sum.

    share : share of the budget that the rounds spend.
    """
    algorithm, domain = s.algorithm, s.domain
    questions = [
        Moments(domain=domain, n_clusters=s.n_clusters, squared_radius=H2, count_bits=s.count_bits)
        for H2 in squared_radii(algorithm, domain, s.n_clusters, T)
    ]
    sensitivities = [in_shares(question, s.persons).sensitivity for question in questions]
    of_rounds = tuple(dict.fromkeys(sensitivities))
    budget, relation = share * s.budget, s.neighboring_relation
    scales = _scales(algorithm, domain.n_features, of_rounds, T, budget, relation)
    rounds = tuple(
        LloydRound(
            sum_scale=scales[sensitivity][0],
            count_scale=scales[sensitivity][1],
            squared_radius=question.squared_radius,
        )
        for question, sensitivity in zip(questions, sensitivities, strict=True)
    )
    return rounds, max(question.sensitivity.entries[0] for question in questions)


def squared_radii(
    algorithm: Algorithm, domain: Domain, n_clusters: int, n_iterations: int
) -> list[int | None]:
    """Return the squared radius of every iteration, or None for an iteration without a radius."""
    match algorithm.radius:
        case RadiusSchedule.NONE:
            return [None] * n_iterations
        case RadiusSchedule.CONSTANT:
            return [usable_radius(domain, n_clusters, algorithm.alpha)] * n_iterations
        case RadiusSchedule.STEP:
            final: list[int | None] = [usable_radius(domain, n_clusters, algorithm.alpha)] * (
                n_iterations - 1
            )
            return [domain.squared_half_diagonal, *final]


def count_share(digits: Any, algorithm: Algorithm, n_features: int) -> Real:
    """Return the share of the budget that pays for the counts.

    The budget is mu^2 with Gaussian noise, and epsilon with Laplace noise. FastLloyd (Eqn 7): 1 /
    sigma_C^2 = 1 / (sigma^2 (1 + sqrt(4d))). GLloyd (Appendix B.1): 2 rho / (2 rho + sqrt d).
    SuLloyd: the ratio of the sums' share to the counts' share is d to (4 d rho^2)^(1/3). Here d is
    `n_features`, and rho is `RHO`.
    """
    d = n_features
    if algorithm.noise is Noise.LAPLACE:
        counts = digits.cbrt(4 * d * exact(digits, RHO) ** 2)
        return counts / (d + counts)
    if algorithm.radius is RadiusSchedule.NONE:
        rho = exact(digits, RHO)
        return 2 * rho / (2 * rho + digits.sqrt(d))
    return 1 / (1 + digits.sqrt(4 * d))


def n_iterations(
    algorithm: Algorithm,
    domain: Domain,
    n_clusters: int,
    n_expected: int,
    *,
    epsilon: float,
    mu: float | None,
    share: Fraction = Fraction(1),
) -> int:
    """Return the number of iterations T, from 2 to 7, by the algorithm's rule.

    The rule divides the budget by the cost of one iteration with the tolerated error.

    n_expected : expected number of records.
    mu : Gaussian budget (sigma = 1 / mu), or None with Laplace noise, whose budget is epsilon.
    share : part of mu^2, or of epsilon, for the iterations.
    """
    if algorithm.noise is Noise.NONE:
        return LLOYD_ITERATIONS
    with fifty_decimals() as digits:
        if algorithm.noise is Noise.LAPLACE:
            affordable = _affordable_by_epsilon(
                digits, domain.n_features, n_clusters, n_expected, epsilon
            )
        else:
            if mu is None:
                raise AssertionError("mu is None; Gaussian noise needs mu")
            affordable = _affordable_by_mu(digits, algorithm, domain, n_clusters, n_expected, mu)
        return max(
            MIN_ITERATIONS,
            int(digits.floor(min(affordable * exact(digits, share), MAX_ITERATIONS))),
        )


def _affordable_by_epsilon(digits: Any, d: int, k: int, N: int, epsilon: float) -> Real:
    """Return the number of iterations for which a budget epsilon suffices. At this number the error
    just reaches the largest tolerated error.
    """
    rho = exact(digits, RHO)
    smallest = digits.sqrt(
        digits.mpf(SU_CONSTANT) * k**3 / N**2 * (d + digits.cbrt(4 * d * rho**2)) ** 3
    )
    return digits.mpf(epsilon) / smallest


def _affordable_by_mu(
    digits: Any, algorithm: Algorithm, domain: Domain, k: int, N: int, mu: float
) -> Real:
    """Return the number of iterations for which a budget mu suffices. At this number the error just
    reaches the largest tolerated error.
    """
    d, sigma = domain.n_features, 1 / digits.mpf(mu)
    if algorithm.radius is RadiusSchedule.NONE:
        # Departs from the paper: Appendix B.1 prints T on both sides of this inequality.
        rho = exact(digits, RHO)
        return (
            exact(digits, TOLERATED_ERROR)
            * N**2
            / (k**3 * d * (2 * rho + digits.sqrt(d)) ** 2 * sigma**2)
        )
    eta2 = digits.mpf(usable_radius(domain, k, algorithm.alpha)) / 4**domain.fraction_bits
    return (
        exact(digits, TOLERATED_ERROR)
        * 4
        * N**2
        / (k**3 * eta2 * sigma**2 * (1 + digits.sqrt(4 * d)) ** 2)
    )


def default_min_count(noise: Noise, round: LloydRound, number_bits: int) -> Fraction:
    """Return the default of the smallest noisy count with which a centroid moves, in records or
    persons.

    It is the standard deviation of the count noise in the last round, and at least 1. Below it even
    the sign of a count is unreliable, and a division would move the centroid anywhere within the
    radius. A threshold of one deviation was chosen among 0, 1/2, 1 and 2 by the loss on iris, s1
    and wine, so this setting is tuned to these data sets. In the preset `paper` the number is 0.
    """
    if noise is Noise.NONE:
        return Fraction(1)
    deviation = round.count_scale / 2**number_bits
    if noise is Noise.LAPLACE:
        # the standard deviation of Laplace noise is sqrt 2 times its scale
        deviation *= Fraction(3, 2)
    return max(Fraction(1), Fraction(math.ceil(deviation)))


@lru_cache(maxsize=64)  # of fits with the same settings
def _scales(
    algorithm: Algorithm,
    d: int,
    sensitivities: tuple[Sensitivity, ...],
    T: int,
    budget: Fraction,
    relation: NeighboringRelation,
) -> dict[Sensitivity, tuple[Fraction, Fraction]]:
    """Return the noise scales of sums and counts for each sensitivity, each rounded up.

    T : number of rounds.
    budget : budget of all rounds, epsilon or mu^2.
    """
    replace = relation is NeighboringRelation.REPLACE_ONE
    if algorithm.noise is Noise.NONE:
        return dict.fromkeys(sensitivities, (Fraction(0), Fraction(0)))
    with fifty_decimals() as digits:
        counts = count_share(digits, algorithm, d)
        sums = 1 - counts
        if algorithm.noise is Noise.LAPLACE:
            per_round = exact(digits, budget) / T / (2 if replace else 1)
        else:
            per_round = exact(digits, budget) / (T * (max(4 * sums, 2) if replace else 1))
        for_sums, for_counts = sums * per_round, counts * per_round

        def of(sensitivity: Sensitivity) -> tuple[Real, Real]:
            if algorithm.noise is Noise.LAPLACE:
                l1, count = sensitivity.l1_added
                return l1 / for_sums, count / for_counts
            ((squared_l2, squared_count),) = sensitivity.added
            return digits.sqrt(squared_l2 / for_sums), digits.sqrt(squared_count / for_counts)

        scales = {sensitivity: of(sensitivity) for sensitivity in sensitivities}
        return {
            each: (scale_up(digits, sums), scale_up(digits, counts))
            for each, (sums, counts) in scales.items()
        }
