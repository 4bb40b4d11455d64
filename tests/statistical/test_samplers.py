"""The laws of the noise, drawn from the system's random source, against exact cell probabilities
from mpmath.

Every test here rejects honest noise with probability below 1e-9. The level is 1e-12 (ALPHA) because
Pearson's statistic has only about a chi-square law so far out: where 290 values are expected in a
cell, the tail of a single cell is some 50 times that of the law, where 1000 are, some 7 times.
Means and correlations are held to 7 errors, 3e-12. The power of a test is stated as a case it must
reject, computed from the noncentral chi-square law and also put to the test.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, ncx2

from fastlloyd.dp.noise import SystemNoise
from fastlloyd.testing import SeededNoise

ALPHA = 1e-12
N = 200_000

Cdf = Callable[[int], mpmath.mpf]
"""P(X <= m), to 50 digits."""

# scale, and the least probability of a cell: large scales in some 20 cells, small ones in one cell
# per integer
SCALES = [
    (Fraction(1, 4), 0.005),
    (Fraction(7, 10), 0.005),
    (Fraction(3), 0.02),
    (Fraction(1000, 7), 0.04),
    (Fraction(2) ** 24, 0.04),
    (Fraction(2) ** 26, 0.04),
    (Fraction(2) ** 36, 0.04),
    (Fraction(2) ** 40, 0.04),
    (Fraction(2) ** 44, 0.04),
]


def rounded_gaussian_cdf(scale: Fraction) -> Cdf:
    """P(floor(scale Z + 1/2) <= m) = Phi((m + 1/2) / scale)."""

    def cdf(m: int) -> mpmath.mpf:
        with mpmath.workdps(50):
            return mpmath.ncdf(mpmath.mpf(2 * m + 1) / 2 * scale.denominator / scale.numerator)

    return cdf


def two_sided_geometric_cdf(scale: Fraction) -> Cdf:
    """With r = e^(-1/scale), P(X <= m) is r^(-m) / (1 + r) for m < 0 and 1 - r^(m + 1) / (1 + r)
    otherwise.
    """

    def cdf(m: int) -> mpmath.mpf:
        with mpmath.workdps(50):
            r = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
            return r ** (-m) / (1 + r) if m < 0 else 1 - r ** (m + 1) / (1 + r)

    return cdf


LAWS: dict[str, Callable[[Fraction], Cdf]] = {
    "gaussian": rounded_gaussian_cdf,
    "two_sided_geometric": two_sided_geometric_cdf,
}


def cell_ends(cdf: Cdf, scale: Fraction, least: float) -> list[int]:
    """Right ends of cells of probability at least `least` each; the last cell is what remains."""
    step = max(1, int(scale * 4) // 200)
    ends, reached = [], 0.0
    for m in range(-15 * max(1, int(scale)), 15 * max(1, int(scale)), step):
        p = float(cdf(m))
        if p - reached >= least and 1 - p >= least:
            ends.append(m)
            reached = p
    return ends


def probabilities(cdf: Cdf, ends: list[int]) -> NDArray[np.float64]:
    with mpmath.workdps(50):
        cumulative = [mpmath.mpf(0), *(cdf(m) for m in ends), mpmath.mpf(1)]
        return np.array([float(b - a) for a, b in pairwise(cumulative)])


def p_value(values: NDArray[np.int64], cdf: Cdf, ends: list[int]) -> float:
    """Pearson's chi-square test of the cells (-inf, e_1], (e_1, e_2], ..., (e_n, inf)."""
    expected = probabilities(cdf, ends) * values.size
    assert expected.min() >= 100
    observed = np.bincount(np.searchsorted(ends, values, side="left"), minlength=expected.size)
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1))


def power(wrong: Cdf, right: Cdf, ends: list[int], n: int) -> float:
    p, q = probabilities(right, ends), probabilities(wrong, ends)
    critical = chi2.isf(ALPHA, p.size - 1)
    return float(ncx2.sf(critical, p.size - 1, n * ((q - p) ** 2 / p).sum()))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("scale", "least"), SCALES)
def test_noise_has_the_exact_law(law: str, scale: Fraction, least: float) -> None:
    cdf = LAWS[law](scale)
    values = getattr(SystemNoise(), law)(scale, N)
    assert p_value(values, cdf, cell_ends(cdf, scale, least)) > ALPHA


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("scale", "least"), SCALES[:-1])  # above the last there is none
def test_a_scale_wrong_by_a_twentieth_is_rejected(law: str, scale: Fraction, least: float) -> None:
    # the power of the test above: 1 - 1e-9 against 1.05 of the scale, at every scale and for both
    # laws
    wrong = scale * Fraction(21, 20)
    cdf = LAWS[law](scale)
    ends = cell_ends(cdf, scale, least)
    assert power(LAWS[law](wrong), cdf, ends, N) > 1 - 1e-9
    assert p_value(getattr(SystemNoise(), law)(wrong, N), cdf, ends) < ALPHA


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [Fraction(2) ** power for power in (26, 36, 40, 44)])
def test_the_lowest_bits_of_wide_noise_are_uniform(law: str, scale: Fraction) -> None:
    # from scale 2^26 on the residues mod 16 are uniform to 1e-9; n rejects one residue in 16 that
    # is 20 % too frequent
    values = getattr(SystemNoise(), law)(scale, N)
    observed = np.bincount(values % 16, minlength=16)
    statistic = ((observed - N / 16) ** 2 / (N / 16)).sum()
    assert ncx2.sf(chi2.isf(ALPHA, 15), 15, N * (0.2 / 16) ** 2 * 16 * 16 / 15) > 1 - 1e-9
    assert chi2.sf(statistic, 15) > ALPHA


def test_the_seeded_source_has_the_same_law() -> None:
    scale = Fraction(3)
    for law, cdf_of in LAWS.items():
        cdf = cdf_of(scale)
        values = getattr(SeededNoise(11), law)(scale, N)
        assert p_value(values, cdf, cell_ends(cdf, scale, 0.02)) > ALPHA


# Neighbouring laws that are not ours


def test_a_discrete_gaussian_is_told_apart() -> None:
    # probabilities proportional to exp(-x^2 / 8) at the integers: another law, with another privacy
    # curve. Its standard deviation is 1 % smaller than that of the rounded Gaussian, so it takes n
    # = 1.5e6 for a power of 1 - 1e-9
    scale, n, support = Fraction(2), 1_500_000, np.arange(-40, 41)
    weights = np.exp(-(support**2) / 8)
    cumulative = np.cumsum(weights / weights.sum())
    cdf = rounded_gaussian_cdf(scale)
    ends = cell_ends(cdf, scale, 0.005)
    assert power(lambda m: mpmath.mpf(cumulative[m + 40]), cdf, ends, n) > 1 - 1e-9
    assert (
        p_value(support[np.searchsorted(cumulative, np.random.default_rng(3).random(n))], cdf, ends)
        < ALPHA
    )
    assert p_value(SystemNoise().gaussian(scale, n), cdf, ends) > ALPHA


def test_w09_noise_is_rounded_and_not_truncated() -> None:
    # truncation doubles P(0); at scale 5 and n = 2e5 that is 130 standard errors, and the whole law
    # differs as well
    scale = Fraction(5)
    cdf = rounded_gaussian_cdf(scale)
    ends = cell_ends(cdf, scale, 0.02)
    zero = float(cdf(0) - cdf(-1))
    error = (zero * (1 - zero) / N) ** 0.5
    rounded = SystemNoise().gaussian(scale, N)
    truncated = np.trunc(5 * np.random.default_rng(9).standard_normal(N)).astype(np.int64)
    assert abs(np.mean(rounded == 0) - zero) < 7 * error
    assert np.mean(truncated == 0) - zero > 80 * error
    assert p_value(rounded, cdf, ends) > ALPHA
    assert p_value(truncated, cdf, ends) < ALPHA


def test_w17_even_and_odd_integers_are_equally_wide_cells() -> None:
    # on a grid of halves (scale Z rounded to 1/2), half-even would give even integers 3/4 and odd
    # ones 1/4 of all values; rounding must come once, from the continuous value: at scale 50 even
    # integers have probability 1/2 to 1e-9
    values = SystemNoise().gaussian(Fraction(50), N)
    halves = np.rint(np.rint(2 * 50 * np.random.default_rng(17).standard_normal(N)) / 2)
    error = 0.5 / N**0.5
    assert abs(np.mean(values % 2 == 0) - 0.5) < 7 * error
    assert np.mean(halves % 2 == 0) - 0.5 > 50 * error


# Independence


def correlation(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Correlation coefficient times the root of n: standard normal for independent a and b."""
    return float(np.corrcoef(a, b)[0, 1] * a.size**0.5)


def test_w03_sum_and_count_noise_are_independent() -> None:
    # 5e5 values each, 1e6 in all: a correlation of 0.018 is rejected with probability 1 - 1e-8 (W3
    # had correlation 1)
    source = SystemNoise()
    sums, counts = (
        source.gaussian(Fraction(2) ** 22, 500_000),
        source.gaussian(Fraction(34), 500_000),
    )
    assert abs(correlation(sums, counts)) < 7
    assert abs(correlation(abs(sums), abs(counts))) < 7
    reused = (
        SeededNoise(0).gaussian(Fraction(2) ** 22, 500_000),
        SeededNoise(0).gaussian(Fraction(34), 500_000),
    )
    assert correlation(*reused) > 100


@pytest.mark.parametrize("law", LAWS)
def test_the_coordinates_of_a_release_are_uncorrelated(law: str) -> None:
    # 1e6 values as 1e5 releases of 10 coordinates; 45 pairs and their sizes, one of them beyond 7
    # errors with probability 3e-10; a correlation of 0.045 is missed with probability below 1e-12
    release = getattr(SystemNoise(), law)(Fraction(1000, 7), 1_000_000).reshape(100_000, 10)
    for table in (release, abs(release)):
        coefficients = np.corrcoef(table, rowvar=False) * table.shape[0] ** 0.5
        assert np.abs(coefficients[~np.eye(10, dtype=bool)]).max() < 7


@pytest.mark.parametrize("law", LAWS)
def test_two_draws_share_nothing(law: str) -> None:
    source = SystemNoise()
    first, second = (getattr(source, law)(Fraction(2) ** 26, N) for _ in range(2))
    assert abs(correlation(first, second)) < 7
    assert np.count_nonzero(first == second) < 10
