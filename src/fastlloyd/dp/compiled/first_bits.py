"""Values of noise that follow from the first bits of uniform numbers, as `dp/first_bits.py`
computes them.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.jit import INTEGER, REAL, kernel, read

_ROWS = 512  # numbers worked on together: they stay in the innermost cache
_LEFT, _CELL_BITS = 45, 7
_FRACTION, _ONE = (1 << 52) - 1, 1023 << 52


@kernel(
    types.void(
        read(INTEGER, 1),
        read(REAL, 2),
        INTEGER,
        INTEGER,
        REAL,
        REAL,
        INTEGER[::1],
        types.boolean[::1],
    ),
    exact=False,
)
def look(
    firsts: NDArray[np.int64],
    table: NDArray[np.float64],
    start: int,
    mirrored: int,
    scale: float,
    shift: float,
    values: NDArray[np.int64],
    is_open: NDArray[np.bool_],
) -> None:
    """Set `values` and `is_open` as `first_bits.Cubics.look` returns them.

    The operations and their order are those of the version in NumPy, and each is rounded
    separately. So both versions give equal results.
    """
    t = np.empty(_ROWS)
    bits = t.view(np.int64)
    c0, c1, c2, c3, bound = table[0], table[1], table[2], table[3], table[4]
    for begin in range(0, len(firsts), _ROWS):
        n = min(_ROWS, len(firsts) - begin)
        given, found = firsts[begin : begin + n], values[begin : begin + n]
        opened = is_open[begin : begin + n]
        for i in range(n):
            t[i] = np.float64((given[i] << (1 - mirrored)) | 1)
        for i in range(n):
            found[i] = max((bits[i] >> _LEFT) - start, 0)
            bits[i] = ((bits[i] << _CELL_BITS) & _FRACTION) | _ONE
        for i in range(n):
            cell, at = np.uint64(found[i]), t[i] - 1.0
            value = c3[cell] * at + c2[cell]
            value = value * at + c1[cell]
            value = (value * at + c0[cell]) * scale - shift
            error = bound[cell] * scale
            high = min(np.ceil(value + error), 0.0)
            opened[i] = np.ceil(value - error) != high
            sign = -(given[i] & mirrored)
            found[i] = (np.int64(high) ^ sign) - sign
