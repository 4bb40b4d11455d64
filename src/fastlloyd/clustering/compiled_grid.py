"""The grid's inner loops, compiled by numba: records to grid points, and which of them have a value outside the bounds.

Every operation is rounded as it is written, so the points are those of NumPy. A record is clipped, and marked, by the same
operations whether its values lie within the bounds or not.
"""

from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # it is documented, and not in __all__
from numpy.typing import NDArray

from fastlloyd.clustering.domain import FloatArray, IntArray
from fastlloyd.clustering.machine import float32_at, float64_at, machine_code

_Points = NDArray[np.int32]
_Marks = NDArray[np.bool_]

_ROWS = 2048  # records worked on together: one feature of them, and what is noted of each, stay in the cache


@machine_code
def grid_columns(places: IntArray, n: int, frame: Any, grid: _Points, start: int, outside: _Marks) -> bool:
    """Fill grid[:, start : start + n] (d, N) from n records as `Domain.to_grid` defines it; False if a value is not finite.

    places : int64 (d, 2), address and bytes of one number, 4 or 8, of each contiguous column. frame : float64 (5, d), lower and
    upper bounds, centre, unit and half width of each feature. outside : bool (N,), set for each of these records: whether a
    value of it is outside the bounds.
    """
    finite, beyond = True, np.empty(_ROWS)
    for first in range(0, n, _ROWS):
        last = min(first + _ROWS, n)
        beyond[:] = 0.0
        for j in range(len(places)):
            points = grid[j, start + first : start + last]
            if places[j, 1] == 4:
                values = carray(float32_at(places[j, 0]), (n,))[first:last]
                finite &= _grid_column(values, frame[:, j], points, beyond)
            else:
                finite &= _grid_column(carray(float64_at(places[j, 0]), (n,))[first:last], frame[:, j], points, beyond)
        _mark(beyond, outside[start + first : start + last])
    return finite


@machine_code
def _grid_column(values: Any, frame: Any, points: _Points, beyond: FloatArray) -> bool:
    """One feature. beyond[r] counts the values of record r outside the bounds: a float, as fits into vectors with it."""
    low, high, centre, unit, box = frame[0], frame[1], frame[2], frame[3], frame[4]
    finite = True
    for r in range(len(points)):
        value = np.float64(values[r])
        finite &= value - value == 0.0
        x = min(max(value, low), high)
        beyond[r] += 1.0 if x != value else 0.0
        points[r] = np.int32(min(max(np.floor((x - centre) / unit + 0.5), -box), box))
    return finite


@machine_code
def _mark(beyond: FloatArray, outside: _Marks) -> None:
    for r in range(len(outside)):
        outside[r] = beyond[r] > 0.0


@machine_code
def grid_rows(X: Any, frame: Any, grid: _Points, start: int, outside: _Marks) -> bool:
    """The same record by record: X is (m, d), grid (n, d)."""
    finite = True
    low, high, centre, unit, box = frame[0], frame[1], frame[2], frame[3], frame[4]
    for r in range(X.shape[0]):
        record, point, beyond = X[r], grid[start + r], False
        for j in range(X.shape[1]):
            value = np.float64(record[j])
            finite &= value - value == 0.0
            beyond |= (value < low[j]) | (value > high[j])
            x = min(max(value, low[j]), high[j])
            point[j] = np.int32(min(max(np.floor((x - centre[j]) / unit[j] + 0.5), -box[j]), box[j]))
        outside[start + r] = beyond
    return finite


@machine_code
def is_within(XT: _Points, half_widths: IntArray) -> bool:
    """Whether all points of XT (d, n) lie in the box [-half_widths, half_widths]."""
    beyond = False
    for j in range(len(XT)):
        points, high = XT[j], np.int32(half_widths[j])
        for r in range(len(points)):
            beyond |= (points[r] > high) | (points[r] < -high)
    return not beyond
