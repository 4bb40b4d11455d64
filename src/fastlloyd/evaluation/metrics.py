"""Measures of the quality of a clustering, computed from the records: arrays in, float out.

The measures are about centroids: WCSS, NICV, empty clusters, matched centroids. Measures of
partitions are in `fastlloyd_lab.partitions`.

Every measure is exact on raw data and NEVER private: its result depends on single records without
noise. So show a measure only to people who may see the records themselves. For this reason
evaluation is separate from clustering. A measure that is not defined for its arguments raises
`DataError`. It never returns NaN, which an average over runs might skip.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.records.in_memory import matrix, refuse_other_columns, taken_over

# Cells of float64 in a temporary array (2 MiB): fits a cache, and Python's loop over blocks costs
# next to nothing.
_BLOCK_CELLS = 1 << 18


def assign(X: npt.ArrayLike, centroids: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return, for every record, the index of the nearest centroid (ties: lowest), intp
    (n_records,).

    Exact on raw data, NEVER private.

    X : records (n_records, n_features), real and finite.
    centroids : centroids (n_clusters, n_features), real and finite.

    Raises DataError for a wrong shape, dtype or value.
    """
    X, centroids = records_and_centroids(X, centroids)
    return np.concatenate([squared.argmin(axis=0) for squared in _squared_distances(X, centroids)])


def wcss(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the within-cluster sum of squares: the sum of squared distances to the nearest
    centroid.

    Exact on raw data, NEVER private. The unit is that of the features, squared. Shapes and errors
    are as in `assign`.
    """
    X, centroids = records_and_centroids(X, centroids)
    with np.errstate(over="ignore"):
        total = sum(
            float(squared.min(axis=0).sum()) for squared in _squared_distances(X, centroids)
        )
    return finite(total)


def nicv(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Return the normalised intra-cluster variance, WCSS / N. Exact on raw data, NEVER private.

    It is the paper's main measure of utility (after Su et al. 2016). Every record counts with its
    nearest centroid. Shapes and errors are as in `assign`.
    """
    return wcss(X, centroids) / len(np.asarray(X))


def n_empty_clusters(X: npt.ArrayLike, centroids: npt.ArrayLike) -> int:
    """Return the number of centroids without records. Exact on raw data, NEVER private.

    Shapes and errors are as in `assign`.
    """
    return len(np.asarray(centroids)) - len(np.unique(assign(X, centroids)))


def matched_centroid_mse(centroids: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Return the mean squared Euclidean distance between centroids and reference centroids.

    They are matched one to one so that the mean is smallest (Hungarian algorithm). So the order of
    the rows does not matter. Exact on raw data, NEVER private if the reference was computed from
    records, for example by k-means++.

    centroids, reference : (n_clusters, n_features), real and finite.

    Raises DataError if their shapes differ.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    centroids, reference = taken_over(centroids, "centroids"), taken_over(reference, "reference")
    refuse_other_columns(centroids, "centroids", reference, "reference")
    centroids, reference = (
        finite_matrix("centroids", centroids),
        finite_matrix("reference", reference),
    )
    if centroids.shape != reference.shape:
        shapes = f"{centroids.shape} and {reference.shape}"
        raise DataError(
            f"centroids and reference are matched one to one and need the same shape, got {shapes}"
        )
    squared = cdist(centroids, reference, "sqeuclidean")
    finite(float(squared.max()))  # an infinite cost would make the matching meaningless
    rows, columns = linear_sum_assignment(squared)
    with np.errstate(over="ignore"):
        return finite(float(squared[rows, columns].sum()) / len(centroids))


def _squared_distances(X: FloatArray, centroids: FloatArray) -> Iterator[FloatArray]:
    """Yield the squared distances of all centroids from a block of records, (n_clusters, n_block).

    No temporary array exceeds _BLOCK_CELLS cells (or one record and all centroids), for any
    n_records. SciPy adds up squared differences. The expanded form |x|^2 - 2 xc + |c|^2 would break
    ties and lose small distances by cancellation.
    """
    from scipy.spatial.distance import cdist

    rows = max(1, _BLOCK_CELLS // max(X.shape[1], len(centroids)))
    for start in range(0, len(X), rows):
        squared = cdist(centroids, X[start : start + rows], "sqeuclidean")
        finite(float(squared.min(axis=0).max()))
        yield squared


def records_and_centroids(
    X: npt.ArrayLike, centroids: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return records and centroids as finite float64 matrices with equal numbers of columns.

    Raises DataError if one of them is not a matrix of finite numbers, or if they have different
    columns.
    """
    X, centroids = taken_over(X), taken_over(centroids, "centroids")
    refuse_other_columns(X, "X", centroids, "centroids")
    X, centroids = finite_matrix("X", X), finite_matrix("centroids", centroids)
    if X.shape[1] != centroids.shape[1]:
        raise DataError(
            f"X has {X.shape[1]} features and the centroids have {centroids.shape[1]}; they must"
            " agree"
        )
    return X, centroids


def finite_matrix(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as a float64 matrix with at least one cell, all of them finite.

    Raises DataError for any other values. The message begins with `name`.
    """
    array = matrix(values, name)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(
            f"{name} must be a matrix with at least one row and one column, got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise DataError(f"{name} must be finite; it holds NaN or infinity")
    return np.asarray(array, dtype=np.float64)


def finite(value: float) -> float:
    """Return `value`. Raises DataError if it is infinite or NaN."""
    if not np.isfinite(value):
        raise DataError("squared distances exceed the range of float64; rescale the features")
    return value
