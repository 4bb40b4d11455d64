"""Inner loops of the grid, which convert records to grid points.

They also mark records with a value outside the bounds, and count such values of each feature. Every
operation is rounded as written, so the points equal those of NumPy. Records inside and outside the
bounds are clipped and marked by the same operations.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import (
    INTEGER,
    REAL,
    RECORDS,
    TABLE,
    Points,
    kernel,
    read,
    rounded_helper,
)

# of a block of records whose features are worked on in turn: stays in the innermost cache
BLOCK_CELLS = 4096

_Marks = NDArray[np.bool_]
_FLOATS, _MARKS, _COUNTS = (types.float32, types.float64), types.boolean[::1], types.int64[::1]


@rounded_helper
def _column(
    values: Any, frame: FloatArray, points: Points, outside: _Marks, counts: IntArray
) -> bool:
    """Convert one feature of records, as `grid_column` does."""
    low, high, centre, unit, box = frame[0], frame[1], frame[2], frame[3], frame[4]
    finite, n = True, 0
    for r in range(len(points)):
        value = np.float64(values[r])
        finite &= value - value == 0.0
        x = min(max(value, low), high)
        outside[r] |= x != value
        n += x != value
        points[r] = np.int32(min(max(np.floor((x - centre) / unit + 0.5), -box), box))
    counts[0] += n
    return finite


@kernel(
    *(
        types.boolean(read(x, 1), read(REAL, 1, "A"), types.int32[::1], _MARKS, _COUNTS)
        for x in _FLOATS
    ),
    exact=False,
)
def grid_column(
    values: Any, frame: FloatArray, points: Points, outside: _Marks, counts: IntArray
) -> bool:
    """Convert one feature of records as `Domain.to_grid` defines it. Return False if a value is not
    finite.

    values : values of the feature, float32 or float64 (n,).
    frame : lower and upper bound, centre, unit and half width.
    points : output, the coordinates on the grid.
    outside : bool (n,), set to True for each record with a value outside the bounds.
    counts : int64 (1,), increased by the number of values outside the bounds.
    """
    return _column(values, frame, points, outside, counts)


@kernel(
    *(
        types.boolean(
            read(x, 2, "A"), INTEGER, INTEGER, TABLE, types.int32[:, ::1], _MARKS, _COUNTS
        )
        for x in _FLOATS
    ),
    exact=False,
)
def grid_features(
    X: Any,
    start: int,
    stop: int,
    frame: FloatArray,
    points: Points,
    outside: _Marks,
    counts: IntArray,
) -> bool:
    """Convert all features of the records X[start:stop], as `grid_column` does for one feature.

    X : records (n, d), in any memory order.
    points : output, (d, n).
    counts : int64 (d,), increased by the number of values outside the bounds of each feature.

    Records are processed in blocks. So a record that was read for one feature is still in the cache
    for the next feature.
    """
    d = X.shape[1]
    rows = max(1, BLOCK_CELLS // d)
    column = np.empty(rows, X.dtype)
    finite = True
    for first in range(start, stop, rows):
        last = min(first + rows, stop)
        for j in range(d):
            for r in range(first, last):
                column[r - first] = X[r, j]
            finite &= _column(
                column, frame[:, j], points[j, first:last], outside[first:last], counts[j : j + 1]
            )
    return finite


@kernel(
    *(types.boolean(read(x, 2), TABLE, types.int32[:, ::1], _MARKS, _COUNTS) for x in _FLOATS),
    exact=False,
)
def grid_rows(X: Any, frame: FloatArray, points: Points, outside: _Marks, counts: IntArray) -> bool:
    """Convert all features of the records X (n, d), record by record, as `grid_column` does.

    frame : for each feature the five numbers that `grid_column` takes as `frame`, (5, d).
    points : output, (n, d).
    counts : int64 (d,), increased by the number of values outside the bounds of each feature.
    """
    finite = True
    low, high, centre, unit, box = frame[0], frame[1], frame[2], frame[3], frame[4]
    for r in range(X.shape[0]):
        record, point, beyond = X[r], points[r], False
        for j in range(X.shape[1]):
            value = np.float64(record[j])
            finite &= value - value == 0.0
            x = min(max(value, low[j]), high[j])
            beyond |= x != value
            counts[j] += x != value
            point[j] = np.int32(
                min(max(np.floor((x - centre[j]) / unit[j] + 0.5), -box[j]), box[j])
            )
        outside[r] = beyond
    return finite


@kernel(types.boolean(RECORDS, INTEGER, INTEGER, read(INTEGER, 1)))
def is_within(XT: Points, start: int, stop: int, half_widths: IntArray) -> bool:
    """Return whether all points of XT[:, start:stop] are in the box [-half_widths, half_widths]."""
    beyond = False
    for j in range(len(XT)):
        points, high = XT[j, start:stop], np.int32(half_widths[j])
        for r in range(len(points)):
            beyond |= (points[r] > high) | (points[r] < -high)
    return not beyond
