"""Quantiles in float64, as polynomials with a proven bound on their error (docs/proofs/sampler.md).

The words that begin a uniform number fall into cells, by their leading bit and the five bits after
it. In each cell the quantile is a polynomial around a point. At this point two integers bound the
distribution function. No library's quantile is used. Floats only compute sums and products, which
IEEE 754 rounds alike on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import erfc, factorial, log, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastlloyd.dp.enclosures import exponential, normal_cdf, normal_density

Enclosure = Callable[[Fraction, int], tuple[int, int]]

LOWEST_BIT: Final = 40  # words below 2^40 have no cell; they are one in 2^23, or in 2^24
_CELL_BITS: Final = 5  # after the leading bit
_DEGREE: Final = 9
COARSE_BITS: Final = 20  # centres z0 are multiples of 2^-20
_REST: Final = 2.0**-24  # what rounding loses whatever the scale, grid units
BLOCK: Final = 8192  # words at a time: what they take stays in the cache


@dataclass(frozen=True, slots=True)
class Law:
    """Distribution of negative numbers whose density f rises towards 0.

    cdf, density : functions that enclose 2^bits times F, or f, between two integers.
    guess : function that returns an approximate quantile. No proof depends on this function.
    slope : the function -f'/f, as coefficients of 1 and z.
    top : the distribution is defined only for words below 2^top.
    """

    cdf: Enclosure
    density: Enclosure
    guess: Callable[[float], float]
    slope: tuple[int, int]
    top: int

    @property
    def mirrored(self) -> int:
        """Return the number of bits, among 64 random bits, that are a sign: 1 if the law is the
        lower half of a symmetric law, otherwise 0.
        """
        return 64 - self.top


def _normal_guess(u: float) -> float:
    low, high = -9.0, 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if erfc(-middle / sqrt(2)) < 2 * u else (low, middle)
    return high


NORMAL: Final = Law(
    cdf=normal_cdf, density=normal_density, guess=_normal_guess, slope=(0, 1), top=63
)
"""Lower half of the standard normal law, for u in (0, 1/2)."""
EXPONENTIAL: Final = Law(cdf=exponential, density=exponential, guess=log, slope=(-1, 0), top=64)
"""Law of ln u, for u uniform in (0, 1)."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Quantile function q of a law in all cells, as arrays of shape (n_cells,).

    coarse : centre z0 of each cell, in units of 2^-20.
    centre, rest : 2^64 F(z0) as a whole number, and 1/2 minus its remainder.
    width : about half the number of words in the cell, a power of two.
    coefficients : coefficients (degree, n_cells) of t = (word + 1/2 - 2^64 F(z0)) / width, the
        first power first.
    bound : largest difference between q(u) and its value in float64, for every u that begins with a
        word of the cell.
    farthest, least_density : in each cell, |q(u)| is at most `farthest`, and f(q(u)) is at least
        `least_density`.
    """

    coarse: NDArray[np.int64]
    centre: NDArray[np.uint64]
    rest: NDArray[np.float64]
    width: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    bound: NDArray[np.float64]
    farthest: NDArray[np.float64]
    least_density: NDArray[np.float64]

    def brackets(
        self, words: NDArray[np.uint64], scale: Fraction, shift: float
    ) -> NDArray[np.int64]:
        """Return lower and upper bounds of ceil(scale * q(u) - shift) for the quantile function q,
        int64 (2, n).

        The bounds of a word hold for all uniform numbers u that begin with this word.

        words : first bits, uint64 (n,), at least 2^40.
        scale : scale above 0, at most 2^44.
        shift : 0 or 1/2.
        """
        cell = self.cell_of(words)
        coarse, unit = self.coarse.take(cell), scale.denominator << COARSE_BITS
        # the scale is whole + part / unit, in units of 2^20
        whole, part = divmod(scale.numerator, unit)
        value = coarse * (part / unit) + (self.offsets(words, cell) * float(scale) - shift)
        error = self.bound.take(cell) * float(scale) + _REST
        ends: NDArray[np.int64] = (
            np.ceil([value - error, value + error]).astype(np.int64) + coarse * whole
        )
        return ends

    def approximate(
        self, words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the quantile q of numbers that begin with each word, and a bound on the error,
        float64 (n,) each.

        The bound holds for all u that begin with the word, and for the number at which these u end.
        It does not include the error of the last rounding of q to float64.
        """
        cell = self.cell_of(words)
        offsets = self.offsets(words, cell)
        return self.coarse.take(cell) / 2**COARSE_BITS + offsets, self.bound.take(cell)

    def cell_of(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the index of the cell of each word, int64 (n,)."""
        # exponent and first bits
        leading: NDArray[np.int64] = words.astype(np.float64).view(np.int64) >> (52 - _CELL_BITS)
        leading -= (1023 + LOWEST_BIT) << _CELL_BITS
        return np.minimum(leading, self.coarse.size - 1, out=leading)

    def offsets(self, words: NDArray[np.uint64], cell: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return q - z0 in the middle of each word, float64 (n,). Here q is the quantile function,
        and z0 the centre of the word's cell.
        """
        t = (
            (words - self.centre.take(cell)).view(np.int64) + self.rest.take(cell)
        ) / self.width.take(cell)
        offset: NDArray[np.float64]
        *lower, offset = self.coefficients.take(cell, axis=1)
        for coefficient in reversed(lower):
            offset = offset * t + coefficient
        offset *= t
        return offset


@cache
def cells_of(law: Law) -> Cells:
    """Return the cells of a law. The first call computes them."""
    per_bit = 1 << _CELL_BITS
    # the leading bit of each cell and its first word; one more below, whose centre bounds the first
    # cell
    places = [
        (e, (per_bit + j) << (e - _CELL_BITS))
        for e in range(LOWEST_BIT - 1, law.top)
        for j in range(per_bit)
    ]
    lowest, *places = places[per_bit - 1 :]
    widths = [e - _CELL_BITS - 1 for e, _ in places]
    below = _centre(law, lowest[1])
    centres = [
        _centre(law, low + (1 << width)) for width, (_, low) in zip(widths, places, strict=True)
    ]
    polynomials = derivatives(law)
    coefficients = [
        _coefficients(polynomials[:-1], width, centre)
        for width, centre in zip(widths, centres, strict=True)
    ]
    bounds = [
        _bound(polynomials[-1], row, width, low, before, centre)
        for row, width, (_, low), before, centre in zip(
            coefficients, widths, places, [below, *centres], centres, strict=False
        )
    ]
    return Cells(
        coarse=np.array([centre.coarse for centre in centres]),
        centre=np.array([centre.word for centre in centres], dtype=np.uint64),
        rest=np.array([0.5 - (centre.mass - (centre.word << 64)) / 2**64 for centre in centres]),
        width=np.array([2.0**width for width in widths]),
        coefficients=np.array(coefficients).T.copy(),
        bound=np.array(bounds),
        farthest=np.array([centre.distance for centre in [below, *centres[:-1]]]),
        least_density=np.array([centre.density / 2**128 for centre in [below, *centres[:-1]]]),
    )


class _Centre(NamedTuple):
    """Centre z0 of a cell.

    coarse : z0 in units of 2^-20.
    mass, density : 2^128 F(z0) and 2^128 f(z0). Each is rounded down, or one less than that.
    """

    coarse: int
    mass: int
    density: int

    @property
    def word(self) -> int:
        return self.mass >> 64

    @property
    def distance(self) -> float:
        return abs(self.coarse) / 2**COARSE_BITS


def _centre(law: Law, word: int) -> _Centre:
    coarse = round(law.guess(word / 2**64) * 2**COARSE_BITS)
    z0 = Fraction(coarse, 2**COARSE_BITS)
    return _Centre(coarse, law.cdf(z0, 128)[0], law.density(z0, 128)[0])


def derivatives(law: Law) -> list[list[int]]:
    """Return the polynomials P_1 to P_10, as coefficients from the constant on.

    The n-th derivative of the quantile function q is P_n(q) / f(q)^n, where f is the density. P_1 =
    1 and P_(n + 1) = P_n' - n (f' / f) P_n.
    """
    found = [[1]]
    for n in range(1, _DEGREE + 1):
        P = [*found[-1], 0, 0]
        # the entry before the first is 0
        products = [law.slope[0] * P[j] + law.slope[1] * P[j - 1] for j in range(len(P) - 1)]
        found.append([n * product + (j + 1) * P[j + 1] for j, product in enumerate(products)])
    return found


def _coefficients(polynomials: list[list[int]], width: int, centre: _Centre) -> list[float]:
    """Return P_n(z0) (2^width / 2^64)^n / (f(z0)^n n!) for each polynomial P_n, the centre z0 of a
    cell, and the density f.

    Each result is computed by one division of integers, rounded to nearest.
    """
    row = []
    for n, P in enumerate(polynomials, 1):
        value = sum(
            p * centre.coarse**j << (COARSE_BITS * (len(P) - 1 - j)) for j, p in enumerate(P)
        )
        divisor = (centre.density**n * factorial(n)) << (COARSE_BITS * (len(P) - 1))
        row.append((value << ((width + 64) * n)) / divisor)
    return row


def _bound(
    P: list[int], coefficients: list[float], width: int, low: int, before: _Centre, centre: _Centre
) -> float:
    """Return a bound on the error of the polynomial of a cell.

    The bound covers the remainder of Taylor's series, half the width of a word, and rounding
    (docs/proofs/sampler.md).
    """
    end = low + (2 << width)
    if not before.word < low <= centre.word < end:
        raise AssertionError("a cell does not contain its centre")
    reach = max(centre.word - low, end - centre.word) / 2**width  # of |t|
    # every quantile of the cell is above the centre of the cell before; the derivatives are largest
    # and f is least there
    z, density = before.distance, before.density / 2**128
    n = len(coefficients) + 1
    cut_off: float = (
        sum(abs(p) * z**j for j, p in enumerate(P))
        * (reach * 2.0 ** (width - 64) / density) ** n
        / factorial(n)
    )
    rounding: float = (
        sum((6 + 4 * n) * abs(a) * reach**n for n, a in enumerate(coefficients, 1)) * 2.0**-53
    )
    return 1.01 * (cut_off + 2.0**-65 / density + rounding)
