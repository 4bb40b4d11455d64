"""Bounds of e^x and Phi(x) by two integers, from sums of shifted integers.

No float and no library of real numbers is used. So every decision in drawing noise is a comparison
of integers. Every rounding error is counted, so the bounds are proven (docs/proofs/sampler.md). A
*unit* below is 2^-work, the value of 1 in the arithmetic of one call.
"""

from fractions import Fraction
from functools import lru_cache
from math import isqrt

_GUARD = 64  # bits below the last that is asked for


def exponential(x: Fraction, bits: int) -> tuple[int, int]:
    """Return two integers that enclose 2^bits * min(1, e^x).

    They are at most 2 apart for bits up to 4096.
    """
    if x >= 0:
        return 2**bits, 2**bits
    if -x > bits:
        return 0, 1  # e^x < 2^-bits
    return _outward(*_exp(-x, bits + _GUARD), _GUARD)


def normal_cdf(x: Fraction, bits: int) -> tuple[int, int]:
    """Return two integers that enclose 2^bits * Phi(x).

    They are at most 2 apart for bits up to 4096.
    """
    if x < 0 and x * x > 2 * bits:
        return 0, 1  # Phi(x) <= exp(-x^2 / 2) < 2^-bits
    if x > 0:
        below, above = normal_cdf(-x, bits)
        return 2**bits - above, 2**bits - below
    work = bits + _GUARD + 3 * int(x * x) // 4  # e^(x^2 / 2) < 2^(3 x^2 / 4)
    mass, error = _mass(-x, work)
    return _outward((1 << (work - 1)) - mass, error, work - bits)


def normal_density(x: Fraction, bits: int) -> tuple[int, int]:
    """Return two integers that enclose 2^bits * phi(x).

    They are at most 2 apart for bits up to 4096 and |x| up to 90.
    """
    return _outward(*_density(x, bits + _GUARD), _GUARD)


def _outward(value: int, error: int, shift: int) -> tuple[int, int]:
    """Return two integers that enclose all numbers within `error` of `value`, in units that are
    2^shift times as large.
    """
    return (value - error) >> shift, -(-(value + error) >> shift)


def _exp(y: Fraction, work: int) -> tuple[int, int]:
    """Return e^-y for y >= 0, and a bound on the error, both in units of 2^-work.

    Taylor's series at y/2^halvings is squared `halvings` times.
    """
    halvings = max(0, int(y).bit_length()) + 8
    r = (y.numerator << work) // (y.denominator << halvings)  # less than one unit too small
    term = total = 1 << work
    n = 0
    while term:
        n += 1
        term = -((abs(term) * r // n) >> work) if n % 2 else (abs(term) * r // n) >> work
        total += term
    for _ in range(halvings):
        total = total * total >> work
    return total, (n + 3) << (halvings + 1)


def _density(x: Fraction, work: int) -> tuple[int, int]:
    """Return phi(x), and a bound on the error, both in units of 2^-work."""
    value, error = _exp(x * x / 2, work)
    root = isqrt(_tau(work) << work)  # sqrt(2 pi), between 2.5 and 2.6: at most 2 units too small
    return (value << work) // root, error + 4


def _mass(x: Fraction, work: int) -> tuple[int, int]:
    """Return Phi(x) - 1/2 for x >= 0, and a bound on the error, both in units of 2^-work.

    The value is phi(x) (x + x^3/3 + x^5/(3*5) + ...).
    """
    density, error = _density(x, work)
    square, term = x * x, density * x.numerator // x.denominator
    total, n = term, 0
    while (
        term or (2 * n + 3) * square.denominator < 2 * square.numerator
    ):  # then what is left is no more than the last term
        n += 1
        term = term * square.numerator // (square.denominator * (2 * n + 1))
        total += term
    # an error of one term grows with it, by a factor below e^(x^2 / 2) < growth
    growth = 1 << (3 * int(square) // 4 + 2)
    return total, (n + 2) * (n + 2 + error * (int(x) + 1)) * growth


@lru_cache(maxsize=32)
def _tau(work: int) -> int:
    """Return 2 pi in units of 2^-work. The result is too small by less than 2 units, and never too
    large.

    Machin's formula is evaluated with 32 additional bits.
    """
    finer = work + 32
    return (
        8 * (4 * _arctan_of_inverse(5, finer) - _arctan_of_inverse(239, finer)) - (1 << 31)
    ) >> 32


def _arctan_of_inverse(n: int, work: int) -> int:
    """Return arctan(1 / n) in units of 2^-work.

    Each term adds an error of at most one unit, and there are fewer than `work` terms.
    """
    power, total, k = (1 << work) // n, 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power //= n * n
        k += 2
    return total
