"""Integer noise whose law is exact, drawn from the system's cryptographic random source.

There are two laws:

- Rounded Gaussian: floor(scale * Z + 1/2), with Z exactly standard normal. The values to which
  noise is added are integers, and n + floor(y + 1/2) = floor(n + y + 1/2). So the release is a
  function of n + scale * Z, and costs no more than the Gaussian mechanism. Truncation, or rounding
  half to even, has no such identity and leaks.
- Two-sided geometric: P(x) proportional to exp(-|x| / scale) on the integers, the discrete Laplace
  law. A change of such a value by one changes every probability by a factor of at most exp(1 /
  scale).

Both laws invert a distribution function F at a uniform number u. The result is the smallest integer
m with u <= F(m). Polynomials with a proven bound on their error bracket the results for all u that
begin with the bits that are known. If both ends of the bracket are equal, the result is known.

- At scales from 1 to 2^30, 32 or 40 bits are drawn first (`dp/first_bits.py`). They decide all but
  one draw in 30.
- Draws that stay open, and all draws at other scales, take 64 bits (`dp/quantiles.py`). The number
  of draws that are completed to 64 bits depends only on the number of all draws and the scale. If
  fewer draws are open, other numbers are completed and dropped. Otherwise the time would depend on
  the values, because open values are rarer near 0 than far from it.
- For the few draws that stay open even then, F is enclosed between integers (`dp/enclosures.py`).
  More bits are drawn until every comparison is decided.

So the law is exact, and the result depends on the bits alone, not on a machine or a library. The
proof is docs/proofs/sampler.md.

The values that need more than 64 bits take longer, and most are far from 0. At scale s, about one
value in 2^55/s needs more. So the time of drawing reveals roughly the number of such values.
Callers must draw noise early enough that the time of sending does not depend on the drawing.
"""

import enum
import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.threads import shared
from fastlloyd.dp.enclosures import exponential, normal_cdf
from fastlloyd.dp.first_bits import LARGEST_SCALES, LEAST_SCALE, cubics_of
from fastlloyd.dp.quantiles import BLOCK, EXPONENTIAL, LOWEST_BIT, NORMAL, Law, cells_of
from fastlloyd.errors import FastLloydError, OverflowRisk

RandomBytes = Callable[[int], bytes]
"""Function that returns a given number of fresh random bytes, as `os.urandom` does."""

MAX_SCALE = 2**44
"""Largest scale of noise. With a larger scale, sums of noise could come near 2^63."""

_MOST_BITS = 4096
"""Largest number of bits for one comparison. An honest source needs more with probability below
2^-3900.
"""


class Noise(enum.Enum):
    """Distribution of the noise that is added to answers."""

    NONE = "none"  # nothing: not private
    GAUSSIAN = "gaussian"  # (epsilon, delta), Gaussian differential privacy
    LAPLACE = "laplace"  # pure epsilon; on the integer grid, the two-sided geometric

    @property
    def spread(self) -> float:
        """Standard deviation of noise of scale 1, before rounding."""
        return math.sqrt(2) if self is Noise.LAPLACE else 1.0


class NoiseSource(Protocol):
    """Source of independent integer noise."""

    @property
    def private(self) -> bool:
        """Return whether the noise comes from the system's random source, without a seed.

        Only such noise may protect records.
        """

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent values of the rounded Gaussian, shape (size,).

        scale : standard deviation, in units of the grid.
        """

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return `size` independent values with P(x) proportional to exp(-|x| / scale), shape
        (size,).
        """


class SystemNoise:
    """Noise from the operating system's random source, the only noise that protects records.

    The source takes no seed and has no state, so nothing can be stored, copied or replayed. Two
    copies of it, in one process or in a forked one, draw independently.

    Departs from the paper: its published code seeds the noise with numbers that every client knows,
    and truncates the noise. Instead of the paper's Laplace noise on reals, there is two-sided
    geometric noise here, the same law on integers.
    """

    __slots__ = ()
    private = True

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return the result of the function `rounded_gaussian`."""
        return rounded_gaussian(scale, size, system_bytes)

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return the result of the function `two_sided_geometric`."""
        return two_sided_geometric(scale, size, system_bytes)


def system_bytes(size: int) -> bytes:
    """Return `size` fresh bytes from the system's random source. Threads share a large number.

    A repeatable source is read by one thread, in order. Here order means nothing, because each byte
    is independent of all others and is used once.

    Raises FastLloydError if two threads get the same bytes.
    """
    read = shared(lambda start, stop: os.urandom(stop - start), size, nanoseconds=2 * size)
    if len({piece[:16] for piece in read}) < len(read):  # by chance once in 2^128
        raise FastLloydError(
            "the random source returned the same bytes to two threads; no noise was drawn"
        )
    return b"".join(read)


def rounded_gaussian(scale: Fraction, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Return `size` independent draws of floor(scale * Z + 1/2), int64 (size,), with Z standard
    normal.

    One random bit is the sign. The other random bits are the leading bits of a uniform number p in
    (0, 1/2). The normal quantile of p, at most 0, gives the value of a negative draw. A positive
    draw is the negative of such a value. Rounding half up and its mirror image differ only at
    halves, which have probability 0.

    A draw in the tail comes from p near 0, never from p near 1, so tails are as exact as the
    middle. The leading bits place p in an interval. Only the first interval, which starts at p = 0,
    has an infinite quantile at one end. The last interval ends at p = 1/2, whose quantile is 0.

    scale : exact standard deviation, in units of the grid.

    Raises OverflowRisk unless scale is above 0 and at most 2^44. Raises FastLloydError if the
    random source fails.
    """
    scale = _checked(scale)

    def cdf(m: int, bits: int) -> tuple[int, int]:
        return normal_cdf(Fraction(2 * m + 1, 2) / scale, bits)

    return _draw(NORMAL, size, scale, 0.5, cdf, random_bytes)


def two_sided_geometric(scale: Fraction, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Return `size` independent draws with P(x) proportional to exp(-|x| / scale), int64 (size,).

    A draw is the difference of two independent geometric numbers. Each of these is the smallest
    integer that is at least scale * ln(u), with u uniform.

    scale : exact scale, in units of the grid.

    Raises the errors of `rounded_gaussian`.
    """
    scale = _checked(scale)

    def cdf(m: int, bits: int) -> tuple[int, int]:
        return exponential(m / scale, bits)

    values = _draw(EXPONENTIAL, 2 * size, scale, 0.0, cdf, random_bytes)
    return values[:size] - values[size:]


def _checked(scale: Fraction) -> Fraction:
    if scale <= 0:
        raise OverflowRisk(
            "a noise scale must be above 0, got one of 0 or below; without noise nothing is private"
        )
    if scale > MAX_SCALE:
        raise OverflowRisk(
            "a noise scale must be at most 2^44 grid units, got about"
            f" 2^{int(scale).bit_length() - 1}; use fewer fractional bits or a larger epsilon"
        )
    return Fraction(scale)


def _draw_words(size: int, random_bytes: RandomBytes) -> NDArray[np.uint64]:
    data = random_bytes(8 * size)
    if len(data) != 8 * size:
        raise FastLloydError(
            f"the random source returned {len(data)} of {8 * size} bytes; no noise was drawn"
        )
    words = np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
    if (
        words[1:] == words[:-1]
    ).any():  # the repetition count test of NIST SP 800-90B; by chance once in 2^64
        raise FastLloydError(
            "the random source returned the same 64 bits twice in a row; no noise was drawn"
        )
    return words


def _draw(
    law: Law,
    size: int,
    scale: Fraction,
    shift: float,
    cdf: Callable[[int, int], tuple[int, int]],
    random_bytes: RandomBytes,
) -> NDArray[np.int64]:
    """Return `size` independent draws of ceil(scale * q(u) - shift), int64 (size,). Here q is the
    quantile function and u is uniform. If the law is mirrored, the sign is random.

    The number of bytes that are drawn first for each value depends on the scale alone.

    scale : scale of the law.
    shift : 1/2 for a law that is rounded to nearest, otherwise 0.
    cdf : function that bounds 2^bits F(m) by two integers, given m and bits.
    """
    n_bytes = 8
    if scale >= LEAST_SCALE:
        n_bytes = next((n for n, largest in LARGEST_SCALES.items() if scale <= largest), 8)
    if n_bytes == 8:
        words = _draw_words(size, random_bytes)
        return _invert(law, words, scale, shift, cdf, random_bytes)
    # two words at least, so that a source that repeats itself is found
    words = _draw_words(max(-(-size * n_bytes // 8), 2), random_bytes)
    firsts, cubics = _first_bits(words, size, n_bytes), cubics_of(law, n_bytes)
    values, is_open = cubics.look(firsts, float(scale), shift)
    (places,) = is_open.nonzero()
    # a public number of draws is completed; those that are decided are as good as any number
    n_completed = max(places.size, cubics.n_completed(size, float(scale)))
    known = np.full(n_completed, 1 << (8 * n_bytes - 2), dtype=np.int64)
    known[: places.size] = firsts[places]
    words = _completed(known, 8 * n_bytes, law.mirrored, random_bytes)
    values[places] = _invert(law, words, scale, shift, cdf, random_bytes)[: places.size]
    return values


def _first_bits(words: NDArray[np.uint64], size: int, n_bytes: int) -> NDArray[np.int64]:
    """Return `size` numbers of 4 or 5 bytes, int64 (size,).

    `words` first contains 4 bytes of every number. If numbers have 5 bytes, the fifth bytes of all
    numbers follow.
    """
    data = words.astype("<u8", copy=False).view(np.uint8)
    firsts = data[: 4 * size].view("<u4").astype(np.int64)
    if n_bytes == 5:
        firsts <<= 8
        firsts |= data[4 * size : 5 * size]
    return firsts


def _completed(
    firsts: NDArray[np.int64], n_bits: int, mirrored: int, random_bytes: RandomBytes
) -> NDArray[np.uint64]:
    """Return a word of 64 random bits for each number, uint64 (n,). The first `n_bits` bits of each
    number are known.

    New random bits follow the known ones. If the last known bit is a sign, it becomes the last bit
    of the word.
    """
    known = firsts.astype(np.uint64)
    sign = known & np.uint64(mirrored)
    words = (_draw_words(known.size, random_bytes) >> np.uint64(n_bits)) << np.uint64(mirrored)
    words |= (known - sign) << np.uint64(64 - n_bits)
    words |= sign
    return words


def _invert(
    law: Law,
    words: NDArray[np.uint64],
    scale: Fraction,
    shift: float,
    cdf: Callable[[int, int], tuple[int, int]],
    random_bytes: RandomBytes,
) -> NDArray[np.int64]:
    """Return the smallest integer m with u <= F(m) for each uniform number u. No u is above F(0).

    Each u begins with the bits of a word, which are known. They bound m by a lower and an upper
    integer. If the two are equal, m is known. Otherwise more random bits of u are drawn. A word
    below 2**LOWEST_BIT gives no lower integer.

    words : first bits of each u, uint64. If the law is mirrored, the last bit does not belong to u:
        1 asks for -m.
    scale : scale of the law.
    shift : 1/2 for a law that is rounded to nearest, otherwise 0.
    cdf : function that bounds 2^bits F(m) by two integers, given m and bits.
    """
    lowest, cells = np.uint64(1 << LOWEST_BIT), cells_of(law)
    values = np.empty(words.size, dtype=np.int64)
    for start in range(0, words.size, BLOCK):
        known, found = words[start : start + BLOCK], values[start : start + BLOCK]
        uniform = known >> np.uint64(law.mirrored)
        low, high = cells.brackets(np.maximum(uniform, lowest), scale, shift)
        np.minimum(high, 0, out=found)
        for i in ((low < found) | (uniform < lowest)).nonzero()[0].tolist():
            u = _LazyUniform(int(uniform[i]), random_bytes)
            least = int(low[i]) if uniform[i] >= lowest else None
            found[i] = _least_integer(partial(u.is_below, cdf), least, int(found[i]))
        if law.mirrored:
            found *= 1 - 2 * (known & np.uint64(1)).view(np.int64)
    return values


def _least_integer(holds: Callable[[int], bool], low: int | None, high: int) -> int:
    """Return the smallest integer for which `holds` is true.

    low : lower bound of the result, or None if it is not known.
    high : upper bound of the result.
    """
    step = 1
    if low is None:
        while holds(high - step):
            high, step = high - step, 2 * step
        floor = high - step
    else:
        floor = low - 1
    while high - floor > 1:
        middle = (floor + high) // 2
        if holds(middle):
            high = middle
        else:
            floor = middle
    return high


class _LazyUniform:
    """Uniform number in (0, 1) whose bits are drawn when they are needed."""

    def __init__(self, word: int, random_bytes: RandomBytes) -> None:
        self._prefix, self._bits, self._random_bytes = word, 64, random_bytes

    def is_below(self, cdf: Callable[[int, int], tuple[int, int]], m: int) -> bool:
        """Return whether this number is below F(m).

        cdf : function that bounds 2^bits F(m) by two integers, given m and bits.
        """
        while self._bits <= _MOST_BITS:
            below, above = cdf(m, self._bits)
            if self._prefix + 1 <= below:
                return True
            if self._prefix >= above:
                return False
            self._prefix = (self._prefix << 64) | int(_draw_words(1, self._random_bytes)[0])
            self._bits += 64
        raise FastLloydError("the random source returned the same bytes again; no noise was drawn")
