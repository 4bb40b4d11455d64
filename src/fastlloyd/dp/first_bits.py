"""Values of noise that follow from the first 32 or 40 bits of a uniform number, as nearly all do
(docs/proofs/sampler.md).

The quantile is a cubic in each of some 3,000 cells, with a proven bound on its error. The cubics
interpolate the polynomials of `dp/quantiles.py`. Compiled code and NumPy round alike, so both leave
the same draws undecided.
"""

import itertools
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.notes import note
from fastlloyd.base.threads import shared
from fastlloyd.dp.quantiles import EXPONENTIAL, LOWEST_BIT, NORMAL, Law, cells_of, derivatives

CELL_BITS: Final = 7  # after the leading bit
LEAST_SCALE: Final = 1
LARGEST_SCALES: Final = {4: 2**24, 5: 2**30}
"""Largest scale at which this number of bytes decides nearly all draws."""

_FINEST: Final = 2**55  # a scale at which values show the last bits of all sums and products

_LOG = logging.getLogger(__name__)
_DIFFERS: Final = (
    "the compiled sampler of noise computes other numbers than NumPy on this machine, so it is not"
    " used; please report this. The noise is right but takes longer"
)
_BLOCK: Final = 8192  # draws at a time: what they take stays in the cache
_STEPS: Final = 2  # of compiled code, in the time of a draw
_WORTH_CALLING: Final = 4096  # draws: fewer do not repay that the kernel is compiled or loaded
_SURE: Final = 9, 12  # deviations, and values besides, above the mean number of open values
_ROUNDING: Final = 2.0**-45  # of all sums and products, in units of the scale
_LEFT: Final = 52 - CELL_BITS  # bits of a float64 after those that number the cell
_FRACTION: Final = (1 << 52) - 1
_ONE: Final = 1023 << 52  # sign and exponent of numbers in [1, 2)


@dataclass(frozen=True, slots=True)
class Cubics:
    """Quantile function q of a law as a cubic in each cell, for numbers with few known bits.

    table : coefficients of 1, t, t^2 and t^3 for 0 <= t <= 1, and the largest difference between q
        and the cubic, float64 (5, n_cells). Column 0 is below all cells and decides nothing.
    chances : probability of each cell, float64 (n_cells,).
    start : exponent and first bits of a float64 number in the first cell, minus 1.
    mirrored : 1 if the last known bit is a sign, otherwise 0.
    """

    table: NDArray[np.float64]
    chances: NDArray[np.float64]
    start: int
    mirrored: int

    def n_completed(self, size: int, scale: float) -> int:
        """Return the number of draws, among `size`, that are completed to 64 bits, whatever their
        values.

        With a probability below 1e-13, the first bits leave more draws than this number open. So
        the time of drawing does not reveal how many draws are open, nor whether one of them is far
        from 0.
        """
        mean = size * float(self.chances @ np.minimum(2 * scale * self.table[4], 1.0))
        deviations, more = _SURE
        return min(size, math.ceil(mean + deviations * math.sqrt(mean)) + more)

    def look(
        self, firsts: NDArray[np.int64], scale: float, shift: float
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return a value for each number, int64 (n,), and whether the first bits leave it open,
        bool (n,).

        firsts : first bits of each number, and the sign if the law is mirrored, int64 (n,).
        scale, shift : as in `quantiles.Cells.brackets`.
        """
        n = firsts.size
        # a number that no thread has looked at is open, so it will be completed
        values, is_open = np.empty(n, dtype=np.int64), np.ones(n, dtype=bool)
        compiled = n >= _WORTH_CALLING and is_compiled(_STEPS * n)
        version = _compiled_look() if compiled else _look
        given = self.table, self.start, self.mirrored, scale, shift

        def look(start: int, stop: int) -> None:
            version(firsts[start:stop], *given, values[start:stop], is_open[start:stop])

        shared(look, n, nanoseconds=4 * n)
        return values, is_open


@cache
def _compiled_look() -> Callable[..., None]:
    """Return the compiled `_look`, or `_look` itself if the two differ on known numbers.

    Each machine compiles for its own processor, and a wrong instruction could change the law.
    """
    from fastlloyd.dp.compiled.first_bits import look

    numbers = np.arange(_WORTH_CALLING + 1)  # an odd number, so that a block is not full
    firsts = (numbers * 0x9E3779B97F % 2**40) >> (numbers % 32)  # spread over all cells
    for law, scale in itertools.product((NORMAL, EXPONENTIAL), (LARGEST_SCALES[5], _FINEST)):
        cubics, found = cubics_of(law, 5), []
        for version in (look, _look):
            values = np.empty(firsts.size, dtype=np.int64)
            is_open = np.empty(firsts.size, dtype=bool)
            given = firsts, cubics.table, cubics.start, cubics.mirrored, float(scale), 0.5
            version(*given, values, is_open)
            found += [values, is_open]
        if not (np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])):
            note(_LOG, logging.WARNING, _DIFFERS)
            return _look
    return look


def _look(
    firsts: NDArray[np.int64],
    table: NDArray[np.float64],
    start: int,
    mirrored: int,
    scale: float,
    shift: float,
    values: NDArray[np.int64],
    is_open: NDArray[np.bool_],
) -> None:
    """Set `values` and `is_open` as `Cubics.look` returns them. `dp/compiled/first_bits.py` does
    the same.
    """
    for begin in range(0, firsts.size, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        # the middle of all numbers that begin with these bits, in units of half a last bit
        t = ((firsts[block] << (1 - mirrored)) | 1).astype(np.float64)
        bits = t.view(np.int64)
        cell = np.maximum((bits >> _LEFT) - start, 0)
        bits <<= CELL_BITS
        bits &= _FRACTION
        bits |= _ONE
        t -= 1.0
        value = table[3].take(cell)
        for coefficient in table[2::-1]:
            value *= t
            value += coefficient.take(cell)
        value *= scale
        value -= shift
        error = table[4].take(cell)
        error *= scale
        high = np.minimum(np.ceil(value + error), 0.0)
        is_open[block] = np.ceil(value - error) != high
        sign = -(firsts[block] & mirrored)
        values[block] = (high.astype(np.int64) ^ sign) - sign


@cache
def cubics_of(law: Law, n_bytes: int) -> Cubics:
    """Return the cubic polynomials that approximate the quantile function of a noise law, one for
    each cell of its argument. The argument is a number whose first 4 or 5 bytes are known. The
    first call computes them.

    Each cubic equals the quantile function at 0, 1/4, 3/4 and 1 of its cell, up to the errors of
    `quantiles.Cells` there.
    """
    n_bits, finer, cells = 8 * n_bytes, np.uint64(CELL_BITS), cells_of(law)
    places = np.arange(LOWEST_BIT << CELL_BITS, law.top << CELL_BITS, dtype=np.uint64)
    leading, per_bit = places >> finer, np.uint64(1 << CELL_BITS)
    quarter = np.uint64(1) << (leading - finer - np.uint64(2))
    words = ((places % per_bit) + per_bit) * np.uint64(4) * quarter
    # the last number that begins with the last word is that at 1
    nodes = [words, words + quarter, words + np.uint64(3) * quarter, words + 4 * quarter - 1]
    at, errors = zip(*(cells.approximate(node) for node in nodes), strict=True)
    table, chances = np.zeros((5, places.size + 1)), np.zeros(places.size + 1)
    chances[1:] = quarter * 2.0 ** (2 - law.top)
    chances[0] = 1 - chances[1:].sum()
    table[4, 0] = np.inf
    table[:4, 1:] = _interpolated(*at)
    cell = cells.cell_of(words)
    density, width = cells.least_density[cell], quarter * 2.0**-62
    steepest = (
        sum(abs(p) * cells.farthest[cell] ** j for j, p in enumerate(derivatives(law)[3]))
        / density**4
    )
    cut_off = steepest * width**4 / (24 * 64)
    table[4, 1:] = (
        1.01 * (cut_off + 2 * np.max(errors, axis=0) + 2.0 ** -(n_bits + 1) / density) + _ROUNDING
    )
    # numbers at which the first cell begins, in units of half a last bit
    start = ((1023 + LOWEST_BIT - 64 + n_bits + 1) << CELL_BITS) - 1
    table.setflags(write=False)
    chances.setflags(write=False)
    return Cubics(table, chances, start, law.mirrored)


def _interpolated(
    v0: NDArray[np.float64],
    v1: NDArray[np.float64],
    v2: NDArray[np.float64],
    v3: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the coefficients of the cubics with these values at 0, 1/4, 3/4 and 1, shape (4,
    n_cells), by divided differences.
    """
    first, second, third = (v1 - v0) * 4, (v2 - v1) * 2, (v3 - v2) * 4
    bend, other = (second - first) / 0.75, (third - second) / 0.75
    twist = other - bend
    return np.array([v0, first - bend / 4 + twist * 0.1875, bend - twist, twist])
