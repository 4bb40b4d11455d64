"""The paper's error analysis: radii, the split of the budget between sums and counts, the number of iterations.

Departs from the paper: T is a whole number, planned from a public number of records and not from theirs (T would tell it), and
Lloyd without noise runs 7 iterations like the others instead of until nothing moves.

The share of the budget that an estimate of the loss gets is ours.

Inputs are public and outputs stand in the mechanism as integers or exact rationals, so that nobody recomputes them from
floating point. mpmath works with 50 digits; it is plain integer arithmetic and gives the same digits on every machine.
"""

from fractions import Fraction
from typing import Any

import mpmath

from fastlloyd.algorithms import Algorithm, Noise, RadiusSchedule
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError

MIN_ITERATIONS, MAX_ITERATIONS = 2, 7  # Section 5.5: fewer are useless, more are not needed
LLOYD_ITERATIONS = 7
TOLERATED_ERROR = Fraction(4, 1000)  # squared error of a centroid per iteration, in units of B (Su et al. 2016)
RHO = Fraction(225, 1000)  # Su et al.: mean |centroid coordinate| in units of B, as used in their and GLloyd's analysis
SU_CONSTANT = 500
LOSS_TOLERANCE = Fraction(2, 100)  # of the typical loss: the standard deviation that the noise of its estimate may have
MIN_LOSS_SHARE, MAX_LOSS_SHARE = Fraction(1, 100), Fraction(1, 5)

_mp = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.MPContext()
_mp.dps = 50
Real = Any  # an mpf of the context above


def real(value: Fraction | int | float) -> Real:
    """An exact number as a 50-digit real."""
    exact = Fraction(value)
    return _mp.mpf(exact.numerator) / exact.denominator


def round_up(value: Real) -> int:
    """The least integer that is not below a 50-digit real; `math.ceil` would go through a float."""
    return int(_mp.ceil(value))


def squared_radius(domain: Domain, n_clusters: int, alpha: Fraction) -> int:
    """H2 = floor(eta_d^2) in squared grid units, eta_d = alpha beta / (2 k^(1/d)) (Section 5.6).

    beta / 2 is half the diagonal of the box, so eta_d^2 = alpha^2 sum(B_i^2) / k^(2/d). Exact: the largest integer h with
    h^d k^2 <= (alpha^2 sum(B_i^2))^d.
    """
    d, k = domain.n_features, n_clusters
    scaled = alpha**2 * domain.squared_half_diagonal

    def fits(h: int) -> bool:
        return int(h**d) * k**2 * int(scaled.denominator**d) <= int(scaled.numerator**d)

    h = int(real(scaled) / _mp.power(k, _mp.mpf(2) / d))
    while not fits(h):
        h -= 1
    while fits(h + 1):
        h += 1
    return h


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


def count_share(algorithm: Algorithm, n_features: int) -> Real:
    """The share of the budget that goes to the counts: of mu^2 with Gaussian noise, of epsilon with Laplace noise.

    FastLloyd (Eqn 7): 1 / sigma_C^2 = 1 / (sigma^2 (1 + sqrt(4d))). GLloyd (Appendix B.1): 2 rho / (2 rho + sqrt d).
    SuLloyd: sums to counts as d to (4 d rho^2)^(1/3).
    """
    d, rho = n_features, real(RHO)
    if algorithm.noise is Noise.LAPLACE:
        counts = _mp.cbrt(4 * d * rho**2)
        return counts / (d + counts)
    if algorithm.radius is RadiusSchedule.NONE:
        return 2 * rho / (2 * rho + _mp.sqrt(d))
    return 1 / (1 + _mp.sqrt(4 * d))


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
    k, N, d, rho = n_clusters, n_expected, domain.n_features, real(RHO)
    if algorithm.noise is Noise.NONE:
        return LLOYD_ITERATIONS
    if algorithm.noise is Noise.LAPLACE:
        smallest = _mp.sqrt(real(SU_CONSTANT) * k**3 / N**2 * (d + _mp.cbrt(4 * d * rho**2)) ** 3)
        affordable = real(epsilon) / smallest
    else:
        if mu is None:
            raise AssertionError("Gaussian noise is planned from mu")
        sigma = 1 / real(mu)
        if algorithm.radius is RadiusSchedule.NONE:
            # Departs from the paper: Appendix B.1 prints T on both sides of this inequality.
            affordable = real(TOLERATED_ERROR) * N**2 / (k**3 * d * (2 * rho + _mp.sqrt(d)) ** 2 * sigma**2)
        else:
            eta2 = real(_usable_radius(algorithm, domain, k)) / 4**domain.fraction_bits
            affordable = real(TOLERATED_ERROR) * 4 * N**2 / (k**3 * eta2 * sigma**2 * (1 + _mp.sqrt(4 * d)) ** 2)
    return max(MIN_ITERATIONS, int(_mp.floor(min(affordable * real(share), MAX_ITERATIONS))))


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
    tolerated = LOSS_TOLERANCE * n_expected / 4  # in caps
    if noise is Noise.NONE:
        return Fraction(0)
    if noise is Noise.LAPLACE:
        share = _mp.sqrt(2) / (real(tolerated) * real(epsilon))
    else:
        share = 1 / (real(tolerated) * real(mu or 0)) ** 2
    return max(MIN_LOSS_SHARE, Fraction(int(_mp.ceil(1000 * min(share, real(MAX_LOSS_SHARE)))), 1000))
