"""The paper's error analysis: radii, the split of the budget between sums and counts, the number of iterations.

Departs from the paper: T is a whole number, planned from a public number of records and not from theirs (T would tell it), and
Lloyd without noise runs 7 iterations like the others instead of until nothing moves.

The share of the budget that an estimate of the loss gets is ours.

Inputs are public and outputs stand in the mechanism as integers or exact rationals, so that nobody recomputes them from
floating point. mpmath works with 50 digits; it is plain integer arithmetic and gives the same digits on every machine. Its
numbers live inside `fifty_digits` only: one thread at a time.
"""

from fractions import Fraction
from typing import Any

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.clustering.domain import Domain, squared_radius
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm, RadiusSchedule

MIN_ITERATIONS, MAX_ITERATIONS = 2, 7  # Section 5.5: fewer are useless, more are not needed
LLOYD_ITERATIONS = 7
TOLERATED_ERROR = Fraction(4, 1000)  # squared error of a centroid per iteration, in units of B (Su et al. 2016)
RHO = Fraction(225, 1000)  # Su et al.: mean |centroid coordinate| in units of B, as used in their and GLloyd's analysis
SU_CONSTANT = 500
LOSS_TOLERANCE = Fraction(2, 100)  # of the typical loss: the standard deviation that the noise of its estimate may have
MIN_LOSS_SHARE, MAX_LOSS_SHARE = Fraction(1, 100), Fraction(1, 5)

Real = Any  # a number of 50 digits


def squared_radii(algorithm: Algorithm, domain: Domain, n_clusters: int, n_iterations: int) -> list[int | None]:
    """The schedule: the squared radius of every iteration, None where there is no radius."""
    match algorithm.radius:
        case RadiusSchedule.NONE:
            return [None] * n_iterations
        case RadiusSchedule.CONSTANT:
            return [_usable_radius(algorithm, domain, n_clusters)] * n_iterations
        case RadiusSchedule.STEP:
            final: list[int | None] = [_usable_radius(algorithm, domain, n_clusters)] * (n_iterations - 1)
            return [domain.squared_half_diagonal, *final]


def _usable_radius(algorithm: Algorithm, domain: Domain, n_clusters: int) -> int:
    H2 = squared_radius(domain, n_clusters, algorithm.alpha)
    if H2 == 0:
        raise PlanError(
            f"the radius is below one grid unit with {n_clusters} clusters, alpha {algorithm.alpha} and fraction_bits "
            f"{domain.fraction_bits}; use more fraction_bits, fewer clusters or a larger alpha"
        )
    return H2


def count_share(mp: Any, algorithm: Algorithm, n_features: int) -> Real:
    """The share of the budget that goes to the counts: of mu^2 with Gaussian noise, of epsilon with Laplace noise.

    FastLloyd (Eqn 7): 1 / sigma_C^2 = 1 / (sigma^2 (1 + sqrt(4d))). GLloyd (Appendix B.1): 2 rho / (2 rho + sqrt d).
    SuLloyd: sums to counts as d to (4 d rho^2)^(1/3).
    """
    d, rho = n_features, exact(mp, RHO)
    if algorithm.noise is Noise.LAPLACE:
        counts = mp.cbrt(4 * d * rho**2)
        return counts / (d + counts)
    if algorithm.radius is RadiusSchedule.NONE:
        return 2 * rho / (2 * rho + mp.sqrt(d))
    return 1 / (1 + mp.sqrt(4 * d))


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
    """T by the rule of the algorithm, in [2, 7]: how often the tolerated error per iteration fits the budget.

    mu : the Gaussian budget (sigma = 1 / mu), None with Laplace noise, where epsilon is the budget. share : what the iterations
    have of it, of mu^2 or of epsilon.
    """
    if algorithm.noise is Noise.NONE:
        return LLOYD_ITERATIONS
    with fifty_digits() as mp:
        if algorithm.noise is Noise.LAPLACE:
            affordable = _affordable_by_epsilon(mp, domain.n_features, n_clusters, n_expected, epsilon)
        else:
            if mu is None:
                raise AssertionError("Gaussian noise is planned from mu")
            affordable = _affordable_by_mu(mp, algorithm, domain, n_clusters, n_expected, mu)
        return max(MIN_ITERATIONS, int(mp.floor(min(affordable * exact(mp, share), MAX_ITERATIONS))))


def _affordable_by_epsilon(mp: Any, d: int, k: int, N: int, epsilon: float) -> Real:
    """How many iterations' tolerated error epsilon pays for."""
    rho = exact(mp, RHO)
    smallest = mp.sqrt(mp.mpf(SU_CONSTANT) * k**3 / N**2 * (d + mp.cbrt(4 * d * rho**2)) ** 3)
    return mp.mpf(epsilon) / smallest


def _affordable_by_mu(mp: Any, algorithm: Algorithm, domain: Domain, k: int, N: int, mu: float) -> Real:
    """The same of mu."""
    d, rho, sigma = domain.n_features, exact(mp, RHO), 1 / mp.mpf(mu)
    if algorithm.radius is RadiusSchedule.NONE:
        # Departs from the paper: Appendix B.1 prints T on both sides of this inequality.
        return exact(mp, TOLERATED_ERROR) * N**2 / (k**3 * d * (2 * rho + mp.sqrt(d)) ** 2 * sigma**2)
    eta2 = mp.mpf(_usable_radius(algorithm, domain, k)) / 4**domain.fraction_bits
    return exact(mp, TOLERATED_ERROR) * 4 * N**2 / (k**3 * eta2 * sigma**2 * (1 + mp.sqrt(4 * d)) ** 2)


def squared_loss_cap(algorithm: Algorithm, domain: Domain, n_clusters: int) -> int:
    """What one record counts at most in the estimate of the loss: eta_d^2 in squared grid units, whatever radius a round has.

    A record farther from every centroid than eta_d is none that FastLloyd would move a centroid for; one cap for all algorithms
    makes their losses comparable. At most the squared diagonal: no two points of the domain are farther apart.
    """
    return min(_usable_radius(algorithm, domain, n_clusters), 4 * domain.squared_half_diagonal)


def loss_share(noise: Noise, n_expected: int, *, epsilon: float, mu: float | None) -> Fraction:
    """The share of the budget that goes to the estimate of the loss: of mu^2 with Gaussian noise, of epsilon with Laplace.

    The least in [1/100, 1/5], a multiple of 1/1000, with which the noise deviates by at most LOSS_TOLERANCE of a typical loss:
    n_expected records at half the radius from their centroid (the distance that Section 5.5 reckons with), so a quarter of the
    cap each. The cap cancels out: noise of a multiplier s deviates by s caps, and Laplace noise by sqrt 2 / epsilon caps.
    """
    if noise is Noise.NONE:
        return Fraction(0)
    with fifty_digits() as mp:
        tolerated = exact(mp, LOSS_TOLERANCE * n_expected / 4)  # in caps
        multiplier = mp.sqrt(2) / mp.mpf(epsilon) if noise is Noise.LAPLACE else 1 / mp.mpf(mu or 0)  # noise, in caps
        share = multiplier / tolerated if noise is Noise.LAPLACE else (multiplier / tolerated) ** 2
        return max(MIN_LOSS_SHARE, Fraction(int(mp.ceil(1000 * min(share, exact(mp, MAX_LOSS_SHARE)))), 1000))
