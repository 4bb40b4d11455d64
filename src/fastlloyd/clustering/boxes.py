"""Many centroids of few features in boxes, so that a record need not be compared with most of them.

A record is at most as far from a box as from any centroid in it. So a box that is farther away than the nearest centroid found so
far, by more than float32 may be wrong, holds no nearer one (docs/proofs/filter.md).
"""

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.filter import Labels, relative_error

IN_BOX = 256  # centroids, about
NOWHERE = 2.0**60  # a coordinate of what fills up a box: farther away than any centroid, and its square is finite


class Boxes:
    """Centroids C (k, d), int64, that records are compared with; d is at most `compiled.boxes.FEATURES`."""

    def __init__(self, C: IntArray) -> None:
        from fastlloyd.clustering.compiled.boxes import FEATURES

        k, d = C.shape
        places = halved(C, max(0, round(np.log2(k / IN_BOX))))
        there, points = places < k, C[places % k].astype(np.float64)
        squares = np.einsum("ijl,ijl->ij", points, points)
        self.e = relative_error(FEATURES)
        self.most = 4.0 * self.e * float(squares.max())
        self.corners = np.zeros((len(places), 2, FEATURES), dtype=np.float32)
        self.corners[:, 0, :d] = -_rounded_up(-points.min(axis=1))
        self.corners[:, 1, :d] = _rounded_up(points.max(axis=1))
        self.constants = np.where(there, squares * (1.0 - 2.0 * self.e), np.inf).astype(np.float32)
        self.A = np.zeros((*places.shape, FEATURES), dtype=np.float32)
        self.A[:, :, :d] = -2.0 * points
        fours = points.astype(np.int32).reshape(-1, 4, d)
        self.fours, self.names = np.ascontiguousarray(fours.transpose(0, 2, 1)), places.reshape(-1, 4).astype(np.int32)

    def label(self, XT: NDArray[np.int32], start: int, stop: int, labels: Labels) -> Labels:
        """Set labels (stop - start,) to the nearest centroids of XT[:, start:stop]; return which are in doubt, by their places."""
        from fastlloyd.clustering.compiled.boxes import nearest_in_boxes

        doubtful = np.empty(stop - start + 1, dtype=np.int32)
        n = nearest_in_boxes(
            XT, start, stop, self.corners, self.A, self.constants, self.fours, self.names, self.e, self.most, labels, doubtful
        )
        return doubtful[:n]


def halved(C: IntArray, n_times: int) -> IntArray:
    """Places of centroids in boxes (2**n_times, size), halved so many times across the feature in which they vary most.

    Where they do not fill all boxes, of a size that is a multiple of 4, some stand there again, at a place of k or more.
    """
    unit = 4 << n_times
    places = np.arange(-(-len(C) // unit) * unit)[np.newaxis]
    for _ in range(n_times):
        points = C[places % len(C)].astype(np.float64)
        widest = points.var(axis=1).argmax(axis=1)
        order = points[np.arange(len(points)), :, widest].argsort(axis=1, kind="stable")
        places = np.take_along_axis(places, order, axis=1).reshape(2 * len(places), -1)
    return places


def _rounded_up(values: FloatArray) -> NDArray[np.float32]:
    """The least float32 that are no less."""
    found = values.astype(np.float32)
    up: NDArray[np.float32] = np.where(found < values, np.nextafter(found, np.float32(np.inf)), found)
    return up
