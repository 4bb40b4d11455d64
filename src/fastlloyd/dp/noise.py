"""Integer noise whose law is exact, drawn from the system's cryptographic random source.

rounded Gaussian
    floor(scale * Z + 1/2) with Z exactly standard normal. The values it hides are integers, and n + floor(y + 1/2) =
    floor(n + y + 1/2), so the release is a function of n + scale * Z: exactly as private as the Gaussian mechanism.
    (Truncation, or rounding half to even, has no such identity and leaks.)
two-sided geometric
    P(x) proportional to exp(-|x| / scale) on the integers, the discrete Laplace law: a change of the hidden value by
    one changes every probability by a factor of at most exp(1 / scale).

Both invert a distribution function F at a uniform number u of which only the first 64 bits are drawn: the answer is the
least integer m with u <= F(m). Float64 brackets the answers of all u that begin with these bits, and where both ends of
the bracket agree there is only one. Otherwise further bits are drawn, and F is evaluated to more digits, until every
comparison is decided. That the brackets hold rests on a margin that is checked, not certified; see `_MARGIN`.

The few values that need further bits take longer, so the time of a draw says something about them. Draw before the
moment of sending depends on it.
"""

import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastlloyd.dp.precision import exact, working_precision
from fastlloyd.errors import FastLloydError, OverflowRisk

RandomBytes = Callable[[int], bytes]
"""Returns that many fresh bytes, as os.urandom does."""

MAX_SCALE = 2**44
"""Above it float64 brackets would no longer be short, and sums of noise could come near 2^63."""

_MARGIN = 2.0**-44
"""Allowed error of a float64 quantile q, as a multiple of 1 + |q|.

It covers the rounding of the 64 bits to a float, the errors of scipy's `ndtri` and numpy's `log`, and the products
after it. The tests compare with mpmath over the whole range, down to probabilities of 2^-64, and demand that the
largest error is a hundred times smaller.
"""

_ENDS = np.array([[0.0], [1.0]])  # of the cell that begins at a word, low and high
_OUTWARD = np.array([[-_MARGIN], [_MARGIN]])

_SMALLEST_FLOAT_SCALE = 2.0**-60
"""Below it all values in a finite bracket round to 0, whatever the scale: no need to enter the range of subnormals."""

_MOST_BITS = 4096
"""An honest source leaves a comparison open after that many bits with probability below 2^-3900."""


class NoiseSource(Protocol):
    """Independent integer noise. `private` tells whether the noise protects anybody."""

    @property
    def private(self) -> bool:
        """Whether this noise comes from the system's random source, unseeded, and so may protect records."""

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent values of the rounded Gaussian of standard deviation `scale`, shape (size,)."""

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent values with P(x) proportional to exp(-|x| / scale), shape (size,)."""


class SystemNoise:
    """The only noise that protects: from the operating system's random source.

    # Departs from the paper: its published code seeds the noise with numbers that every client knows, and truncates it; its
    # Laplace noise on reals is the two-sided geometric here, the same law on integers.

    It takes no seed and holds no state, so there is nothing to store, to copy or to replay: two copies of it, in one
    process or in a forked one, draw independently.
    """

    __slots__ = ()
    private = True

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """See `rounded_gaussian`."""
        return rounded_gaussian(scale, size, os.urandom)

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """See `two_sided_geometric`."""
        return two_sided_geometric(scale, size, os.urandom)


def rounded_gaussian(scale: Fraction, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Return `size` independent draws of floor(scale * Z + 1/2), Z standard normal: int64, shape (size,).

    One bit is the sign, the other 63 begin a uniform number p in (0, 1/2), whose quantile is at most 0: so tails are as
    sharp as the middle, and only the first cell has an infinite end (the last one ends at p = 1/2, quantile 0). A value
    on the positive side is the negative of one on the negative side; the two roundings differ only at halves, which
    have probability 0.

    Parameters
    ----------
    scale
        Standard deviation in units of the grid, exact; above 0, at most 2^44. From about 2^36 most of the time goes
        into comparisons that float64 could not decide.

    Raises
    ------
    OverflowRisk
        If the scale is not above 0, or above 2^44.
    FastLloydError
        If the random source fails. Nothing is returned then.
    """
    scale = _checked(scale)
    words = _draw_words(size, random_bytes)
    negative_half, is_positive = words >> np.uint64(1), words & np.uint64(1)

    def cdf(m: int, bits: int) -> tuple[int, int]:
        return _normal_cdf(Fraction(2 * m + 1, 2) / scale, bits)

    values = _settle(_gaussian_brackets(negative_half, scale), negative_half, cdf, random_bytes)
    return np.where(is_positive, -values, values)


def two_sided_geometric(scale: Fraction, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Return `size` independent draws with P(x) proportional to exp(-|x| / scale): int64, shape (size,).

    The difference of two independent geometric numbers, each the least integer at or above scale * ln(u), u uniform.

    Parameters
    ----------
    scale
        The b of exp(-|x| / b) in units of the grid, exact; above 0, at most 2^44.

    Raises
    ------
    OverflowRisk
        If the scale is not above 0, or above 2^44.
    FastLloydError
        If the random source fails. Nothing is returned then.
    """
    scale = _checked(scale)
    words = _draw_words(2 * size, random_bytes)

    def cdf(m: int, bits: int) -> tuple[int, int]:
        return _exponential_cdf(m / scale, bits)

    values = _settle(_geometric_brackets(words, scale), words, cdf, random_bytes)
    return values[:size] - values[size:]


def _checked(scale: Fraction) -> Fraction:
    if scale <= 0:
        raise OverflowRisk("a noise scale must be above 0, got one of 0 or below; without noise nothing is private")
    if scale > MAX_SCALE:
        raise OverflowRisk(
            f"a noise scale must be at most 2^44 grid units, got about 2^{int(scale).bit_length() - 1}; "
            "use fewer fractional bits or a larger epsilon"
        )
    return Fraction(scale)


def _draw_words(size: int, random_bytes: RandomBytes) -> NDArray[np.uint64]:
    data = random_bytes(8 * size)
    if len(data) != 8 * size:
        raise FastLloydError(f"the random source returned {len(data)} of {8 * size} bytes; no noise was drawn")
    words = np.frombuffer(data, dtype="<u8").astype(np.uint64)
    if (words[1:] == words[:-1]).any():  # the repetition count test of NIST SP 800-90B; by chance once in 2^64
        raise FastLloydError("the random source returned the same 64 bits twice in a row; no noise was drawn")
    return words


def _gaussian_brackets(words: NDArray[np.uint64], scale: Fraction) -> NDArray[np.float64]:
    """Enclose floor(scale * Phi^-1(p) + 1/2) for all p from words / 2^64 to (words + 1) / 2^64; all p <= 1/2.

    Returns (2, n), the low ends and the high ends.
    """
    from scipy.special import ndtri

    ends = ndtri((words.astype(np.float64) + _ENDS) * 2.0**-64)
    sigma = max(float(scale), _SMALLEST_FLOAT_SCALE)
    brackets: NDArray[np.float64] = np.floor(sigma * (ends + _OUTWARD * (1.0 - ends)) + 0.5)
    return brackets


def _geometric_brackets(words: NDArray[np.uint64], scale: Fraction) -> NDArray[np.float64]:
    """Enclose ceil(scale * ln u) for all u from words / 2^64 to (words + 1) / 2^64; (2, n), as above."""
    start = words.astype(np.float64)
    ends = np.log(np.maximum(start + _ENDS, 0.5) * 2.0**-64)
    b = max(float(scale), _SMALLEST_FLOAT_SCALE)
    brackets: NDArray[np.float64] = np.ceil(b * (ends + _OUTWARD * (1.0 - ends)))
    brackets[0, start == 0] = -np.inf
    return brackets


def _settle(
    brackets: NDArray[np.float64],
    words: NDArray[np.uint64],
    cdf: Callable[[int, int], tuple[int, int]],
    random_bytes: RandomBytes,
) -> NDArray[np.int64]:
    """Take the bracketed integers where there is one, and decide the others; the first cell has no lower end."""
    low, high = brackets
    values: NDArray[np.int64] = high.astype(np.int64)
    for i in (low != high).nonzero()[0].tolist():
        u = _LazyUniform(int(words[i]), random_bytes)
        values[i] = _least_integer(partial(u.is_below, cdf), low[i], int(high[i]))
    return values


def _least_integer(holds: Callable[[int], bool], low: float, high: int) -> int:
    """Return the least integer at which `holds`, given that it lies between low (perhaps -infinity) and high."""
    step = 1
    if low == -np.inf:
        while holds(high - step):
            high, step = high - step, 2 * step
        floor = high - step
    else:
        floor = int(low) - 1
    while high - floor > 1:
        middle = (floor + high) // 2
        if holds(middle):
            high = middle
        else:
            floor = middle
    return high


class _LazyUniform:
    """A uniform number in (0, 1) of which only the bits that were needed so far have been drawn."""

    def __init__(self, word: int, random_bytes: RandomBytes) -> None:
        self._prefix, self._bits, self._random_bytes = word, 64, random_bytes

    def is_below(self, cdf: Callable[[int, int], tuple[int, int]], m: int) -> bool:
        """Tell whether this number is below F(m), where cdf(m, bits) encloses 2^bits * F(m) between integers."""
        while self._bits <= _MOST_BITS:
            below, above = cdf(m, self._bits)
            if self._prefix + 1 <= below:
                return True
            if self._prefix >= above:
                return False
            self._prefix = (self._prefix << 64) | int(_draw_words(1, self._random_bytes)[0])
            self._bits += 64
        raise FastLloydError("the random source repeats itself beyond all chance; no noise was drawn")


def _normal_cdf(x: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits * Phi(x) between two integers."""
    if x < 0 and x * x > 2 * bits:
        return 0, 1  # Phi(x) <= exp(-x^2 / 2) < 2^-bits
    with working_precision(bits + 64) as mp:
        return _around(mp.ldexp(mp.ncdf(exact(mp, x)), bits))


def _exponential_cdf(x: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits * min(1, e^x) between two integers."""
    if x >= 0:
        return 2**bits, 2**bits
    if -x > bits:
        return 0, 1  # e^x < 2^-bits
    with working_precision(bits + 64) as mp:
        return _around(mp.ldexp(mp.exp(exact(mp, x)), bits))


def _around(scaled: Any) -> tuple[int, int]:
    """Enclose a number that is at most 2^bits and correct to far less than 1, whatever the last bits of it say."""
    whole = int(scaled)
    return whole - 1, whole + 2
