"""Radius of clusters on the grid of a domain."""

from fractions import Fraction
from functools import lru_cache

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError


def squared_radius(domain: Domain, n_clusters: int, alpha: Fraction) -> int:
    """Return H2 = floor(eta_d^2) in squared grid units, for the planned radius eta_d (Section 5.6).

    The radius is eta_d = alpha beta / (2 k^(1/d)), where beta / 2 is half the diagonal of the box
    with half widths B_i. So eta_d^2 = alpha^2 sum(B_i^2) / k^(2/d). H2 is exact: the largest
    integer h with h^d k^2 <= (alpha^2 sum(B_i^2))^d.
    """
    return _squared_radius(domain.n_features, n_clusters, alpha**2 * domain.squared_half_diagonal)


@lru_cache(maxsize=64)
def _squared_radius(d: int, k: int, scaled: Fraction) -> int:
    """Return the largest integer h with h^d k^2 <= scaled^d."""

    def fits(h: int) -> bool:
        return int(h**d) * k**2 * int(scaled.denominator**d) <= int(scaled.numerator**d)

    with fifty_digits() as mp:
        h = int(exact(mp, scaled) / mp.power(k, mp.mpf(2) / d))
    while not fits(h):
        h -= 1
    while fits(h + 1):
        h += 1
    return h


def usable_radius(domain: Domain, n_clusters: int, alpha: Fraction) -> int:
    """Return the squared planned radius. Raises PlanError if the radius is below one grid unit."""
    H2 = squared_radius(domain, n_clusters, alpha)
    if H2 == 0:
        raise PlanError(
            f"the radius is below one grid unit with {n_clusters} clusters, alpha {alpha} and"
            f" fraction_bits {domain.fraction_bits}; use more fraction_bits, fewer clusters or a"
            " larger alpha"
        )
    return H2
