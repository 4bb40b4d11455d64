"""Conversion of blocks to grid points by compiled code, over spans of records."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.outside import OutsideMarks
from fastlloyd.clustering.parallel import over_spans

FEW_FEATURES = 32  # up to here `kernels` works feature by feature
BLOCK_ELEMENTS = 1 << 17  # values converted together: 1 MiB of float64


def compiled_grid(
    table: NDArray[Any], frame: FloatArray, grid: NDArray[np.int32], marks: OutsideMarks
) -> bool:
    """Set the grid points by compiled code.

    Returns False if no code is compiled for such a table, or if a value is not finite.

    table : records (n, n_features).
    frame : for each feature the five numbers that `grid_column` takes as `frame`.
    grid : output, the points.
    marks : output, the marks of values outside the bounds.
    """
    from fastlloyd.clustering.compiled.grid import grid_features, grid_rows

    if table.dtype not in (np.float32, np.float64) or not table.flags.aligned:
        return False
    by_feature = grid.flags.f_contiguous
    if by_feature and table.flags.f_contiguous:
        return compiled_columns(table.T, frame, grid, marks)
    rows, outside = max(1, BLOCK_ELEMENTS // table.shape[1]), marks.records

    def fill(start: int, stop: int, counts: IntArray) -> bool:
        if by_feature:
            return grid_features(table, start, stop, frame, grid.T, outside, counts)
        # what is copied is copied in parts
        parts = (slice(first, min(first + rows, stop)) for first in range(start, stop, rows))
        return all(
            grid_rows(np.ascontiguousarray(table[part]), frame, grid[part], outside[part], counts)
            for part in parts
        )

    return _over_spans(fill, grid, marks)


def compiled_columns(
    columns: Sequence[NDArray[Any]] | NDArray[Any],
    frame: FloatArray,
    grid: NDArray[np.int32],
    marks: OutsideMarks,
) -> bool:
    """Set the grid points from columns that are contiguous in memory, as `compiled_grid` does.

    Returns False if a value is not finite.
    """
    from fastlloyd.clustering.compiled.grid import grid_column

    def fill(start: int, stop: int, counts: IntArray) -> bool:
        part = slice(start, stop)
        return all(
            grid_column(
                column[part], frame[:, j], grid[part, j], marks.records[part], counts[j : j + 1]
            )
            for j, column in enumerate(columns)
        )

    return _over_spans(fill, grid, marks)


def _over_spans(
    fill: Callable[[int, int, IntArray], bool], grid: NDArray[np.int32], marks: OutsideMarks
) -> bool:
    """Set the points of all spans of the grid, shared among threads. Return False if a value is not
    finite.

    fill : function that converts one span and adds to the counts it is given.
    """

    def filled(start: int, stop: int) -> tuple[bool, IntArray]:
        counts = np.zeros_like(marks.counts)
        return fill(start, stop, counts), counts

    for is_finite, counts in over_spans(filled, grid):
        if not is_finite:
            return False
        marks.counts[:] += counts
    return True


def is_by_feature(X: NDArray[Any]) -> bool:
    """Return whether work on records (n, n_features) is faster feature by feature."""
    return bool(X.shape[1] <= FEW_FEATURES)
