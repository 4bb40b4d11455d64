"""Precision of computed numbers and of displayed numbers.

Decisions about privacy use as many bits as they need. Their results are floats that are rounded so
that no guarantee is overstated: epsilon and delta up, mu down. A noisy number is displayed down to
the second digit of its standard error.
"""

import math
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

_SMALL = (
    2.0**-36
    # a step of the secant method, relatively: what is still wrong after it is about the last digit
    # of a float
)
WITHOUT_ERROR = 6  # significant digits shown of a number whose error is unknown or none

_FIFTY = Context(prec=50, Emin=MIN_EMIN, Emax=MAX_EMAX)

# mpmath stores its constants (pi, ln 2) in two steps that another thread could see half done, so
# one thread at a time.
_SHARED = SimpleNamespace(one_thread=threading.RLock())


@contextmanager
def working_precision(bits: int) -> Iterator[Any]:
    """Context manager that gives an mpmath context of our own, set to `bits` bits.

    The global `mpmath.mp` is neither read nor changed.
    """
    with _SHARED.one_thread:
        context = _context()
        outer_bits, context.prec = context.prec, bits
        try:
            yield context
        finally:
            context.prec = outer_bits


def fifty_digits() -> AbstractContextManager[Any]:
    """Context manager that gives an mpmath context with 50 digits, for one thread at a time.

    Its numbers must not be used after the block.
    """
    return working_precision(169)


class Decimals:
    """Functions of Python's decimal numbers with mpmath's names. They take a tenth of the time that
    mpmath takes.
    """

    mpf = Decimal

    @staticmethod
    def sqrt(x: Decimal | int) -> Decimal:
        """Return the square root, rounded once."""
        return Decimal(x).sqrt()

    @staticmethod
    def cbrt(x: Decimal | int) -> Decimal:
        """Return the cube root, which is accurate nearly to the last digit."""
        return Decimal(x) ** (Decimal(1) / 3)

    @staticmethod
    def floor(x: Decimal | int) -> Decimal:
        """Return the largest integer not above x."""
        return Decimal(x).to_integral_value(ROUND_FLOOR)

    @staticmethod
    def ceil(x: Decimal | int) -> Decimal:
        """Return the smallest integer not below x."""
        return Decimal(x).to_integral_value(ROUND_CEILING)


@contextmanager
def fifty_decimals() -> Iterator[Decimals]:
    """Context manager that gives `Decimals`, rounded to 50 digits in this thread within the
    block.
    """
    with localcontext(_FIFTY):
        yield Decimals()


@cache
def _context() -> Any:
    import mpmath

    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=_start_afresh)
    return mpmath.MPContext()


def _start_afresh() -> None:
    """Make a new lock and a new context in a forked child process.

    The thread that held the old lock does not exist in the child.
    """
    _SHARED.one_thread = threading.RLock()
    _context.cache_clear()


def exact(context: Any, value: float | Fraction) -> Any:
    """Return a value as a number of an mpmath context. A float is exact, and a fraction is rounded
    once.
    """
    if isinstance(value, Fraction):
        return context.mpf(value.numerator) / value.denominator
    return context.mpf(value)


def round_up(value: Any) -> float:
    """Return the smallest float that is at least the mpmath number `value`.

    The result is infinite if `value` is above all floats.
    """
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def rounded_up(value: float) -> str:
    """Return a value as text for readers, rounded up to four significant digits."""
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(value)):.4g}"


def epsilon_up(epsilon: float) -> str:
    """Return an epsilon as text for readers, rounded up to six significant digits."""
    return _six_digits(epsilon, ROUND_CEILING)


def delta_up(delta: float) -> str:
    """Return a delta as text for readers, rounded up to six significant digits, but never to 1.

    A guarantee with the given delta also holds with the delta shown.
    """
    shown = _six_digits(delta, ROUND_CEILING)
    return shown if float(shown) < 1 else repr(float(delta))


def delta_down(delta: float) -> str:
    """Return a delta as text for readers, rounded down to six significant digits, so that a run may
    be planned with it.
    """
    return _six_digits(delta, ROUND_FLOOR)


def _six_digits(value: float, rounding: str) -> str:
    """Return a value as text, rounded to six significant digits."""
    context = Context(prec=WITHOUT_ERROR, rounding=rounding)
    return f"{float(context.create_decimal(repr(abs(float(value))))):.{WITHOUT_ERROR}g}"


def decimals(error: float) -> int | None:
    """Return the number of decimal places that a value has if it ends at the second digit of its
    standard error.

    The result is negative if that digit is left of the decimal point. It is None if the error is 0
    or not finite.
    """
    return 1 - math.floor(math.log10(error)) if math.isfinite(error) and error > 0 else None


def rounded(value: float, error: float) -> float:
    """Return a value with the digits that its standard error warrants.

    12.3456 with 0.56 gives 12.35, and 30269.6 with 170 gives 30270.
    """
    places = decimals(error)
    return (
        float(f"{value:.{WITHOUT_ERROR}g}") if places is None else round(float(value), places)
    ) + 0.0  # the result is never -0.0


def measured(value: float, error: float) -> str:
    """Return a value and its standard error as text. Both are rounded at the second digit of the
    error.

    Examples are 12.34 ± 0.56, 30270 ± 170, and (1.20 ± 0.34)e-09.
    """
    places = decimals(error)
    if places is None:
        return f"{value:.{WITHOUT_ERROR}g}"
    if -6 <= places <= 6:
        shown = max(places, 0)
        # never -0.0
        return f"{round(value, places) + 0.0:.{shown}f} ± {round(error, places):.{shown}f}"
    power = math.floor(math.log10(max(abs(value), error)))
    shown = min(max(places + power, 0), 15)
    return f"({value / 10.0**power:.{shown}f} ± {error / 10.0**power:.{shown}f})e{power:+03d}"


def counted(count: float, error: float) -> str:
    """Return a count and its error as text, such as 1021 ± 4.3. The count is shown as a whole
    number.
    """
    places = decimals(error)
    if places is None or not 0 < places <= 6:
        return measured(count, error)
    return f"{count:.0f} ± {error:.{places}f}"


def brief_count(count: float, error: float) -> str:
    """Return a noisy count for people. It is rounded at the first digit of its standard error, and
    is at least 0.
    """
    if error < 0.5:
        return f"{count:,.0f}"
    places = math.floor(math.log10(max(error, 1.0)))
    return f"{max(0, round(count, -places)):,.0f}"


def as_whole(value: float) -> float:
    """Return the value as an integer if it is whole, otherwise unchanged."""
    return int(value) if value.is_integer() else value


def two_digits_up(size: float) -> float:
    """Return a size >= 0, rounded up to two significant digits."""
    return float(Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(size))))


def least_float(holds: Callable[[float], bool], near: float | None = None) -> float:
    """Return the smallest float >= 0 at which `holds` is true, or infinity if there is none.

    The bit patterns of the floats from 0 to infinity are consecutive integers in the same order. So
    63 calls find the result to the last bit. A guess near the result needs fewer calls: steps away
    from the guess double until the answer changes.

    holds : condition that stays true once it is true.
    near : guess, or None or NaN for no guess.
    """
    low, high = -1, _bits(math.inf)
    middle, step = (low + high) // 2, high
    if near is not None and near >= 0:
        middle, step = _bits(near + 0.0), 1  # -0.0 has the bits of a negative number
    while high - low > 1:
        if holds(_float(middle)):
            high, middle = middle, middle - step
        else:
            low, middle = middle, middle + step
        step *= 2
        if not low < middle < high:
            middle = (low + high) // 2
    return _float(high)


def greatest_float(holds: Callable[[float], bool], near: float | None = None) -> float:
    """Return the largest finite float >= 0 at which `holds` is true.

    holds : condition that is true at 0, and false from some point on.
    near : guess, as in `least_float`.
    """
    return math.nextafter(least_float(lambda x: not holds(x), near), 0.0)


def secant(function: Callable[[float], float], x: float, y: float) -> float:
    """Return a point near the zero of an increasing function, from two points nearby.

    The point is only a start for a search, and nothing is proven about it.
    """
    before = function(x)
    for _ in range(16):
        value = function(y)
        slope = (value - before) / (y - x)
        if not 0 < slope < math.inf:
            break
        x, y, before = y, y - value / slope, value
        if abs(y - x) <= _SMALL * abs(y):
            break
    return y


def _bits(x: float) -> int:
    pattern: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return pattern


def _float(pattern: int) -> float:
    x: float = struct.unpack("<d", struct.pack("<q", pattern))[0]
    return x
