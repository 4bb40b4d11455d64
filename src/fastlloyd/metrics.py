"""How good a clustering is, measured on the raw records: arrays in, float out.

Every function here is exact on raw data and NEVER private: its result depends on single records without noise, so it
may be shown only to whoever may see the records themselves. Evaluation is therefore kept apart from clustering.
A metric that is not defined for its arguments raises `DataError`; it never returns NaN, which an average over runs
would be tempted to skip.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError

# Cells of float64 in a temporary array (2 MiB): fits a cache, and Python's loop over blocks costs next to nothing.
_BLOCK_CELLS = 1 << 18


def assign(X: npt.ArrayLike, centroids: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Index of the nearest centroid of every record, ties to the lowest index. Exact on raw data, NEVER private.

    X : (n_records, n_features), centroids : (n_clusters, n_features), real and finite. Returns intp (n_records,).
    Raises DataError if a shape, dtype or value does not fit.
    """
    X, centroids = _records_and_centroids(X, centroids)
    return np.concatenate([labels for labels, _ in _nearest(X, centroids)])


def wcss(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Within-cluster sum of squares: squared distances of the records to their nearest centroid, added up.

    Exact on raw data, NEVER private. Unit: that of the features, squared. Shapes and errors as in `assign`.
    """
    X, centroids = _records_and_centroids(X, centroids)
    with np.errstate(over="ignore"):
        total = sum(float(squared.sum()) for _, squared in _nearest(X, centroids))
    return _finite(total)


def nicv(X: npt.ArrayLike, centroids: npt.ArrayLike) -> float:
    """Normalised intra-cluster variance, WCSS / N: the paper's main measure of utility (after Su et al. 2016).

    Exact on raw data, NEVER private. Every record counts with its nearest centroid. Shapes and errors as in `assign`.
    """
    return wcss(X, centroids) / len(np.asarray(X))


def n_empty_clusters(X: npt.ArrayLike, centroids: npt.ArrayLike) -> int:
    """Count the centroids that no record is assigned to. Exact on raw data, NEVER private. Shapes as in `assign`."""
    return len(np.asarray(centroids)) - len(np.unique(assign(X, centroids)))


def matched_centroid_mse(centroids: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Mean squared Euclidean distance between centroids and reference centroids, matched one to one.

    The matching is the one that makes the mean smallest (Hungarian algorithm), so the order of the rows is irrelevant.
    Exact on raw data, NEVER private when the reference was computed from records, as k-means++ centroids are.

    centroids, reference : (n_clusters, n_features), real and finite. Raises DataError if their shapes differ.
    """
    from scipy.optimize import linear_sum_assignment

    centroids, reference = _matrix("centroids", centroids), _matrix("reference", reference)
    if centroids.shape != reference.shape:
        raise DataError(
            f"centroids and reference are matched one to one and need the same shape, got {centroids.shape} and "
            f"{reference.shape}"
        )
    squared = _squared_distances(centroids, reference)
    _finite(float(squared.max()))  # an infinite cost would make the matching meaningless
    rows, columns = linear_sum_assignment(squared)
    with np.errstate(over="ignore"):
        return _finite(float(squared[rows, columns].sum()) / len(centroids))


def _nearest(
    X: npt.NDArray[np.float64], centroids: npt.NDArray[np.float64]
) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]]:
    """Labels and squared distances to the nearest centroid, block of records by block of records.

    No temporary array exceeds _BLOCK_CELLS cells (or one record and all centroids), whatever n_records is [W32].
    """
    rows = max(1, _BLOCK_CELLS // max(X.shape[1], len(centroids)))
    for start in range(0, len(X), rows):
        squared = _squared_distances(np.ascontiguousarray(X[start : start + rows]), centroids)
        nearest = squared.min(axis=1)
        _finite(float(nearest.max()))
        yield squared.argmin(axis=1), nearest


def _squared_distances(A: npt.NDArray[np.float64], B: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return |a - b|^2 for all rows a of A and b of B, as (len(A), len(B)).

    From differences and not from |a|^2 - 2 ab + |b|^2, whose cancellation would break ties and lose small distances.
    """
    squared = np.empty((len(B), len(A)))
    with np.errstate(over="ignore"):  # callers refuse what became infinite
        for row, b in zip(squared, B, strict=True):
            difference = A - b
            np.einsum("ij,ij->i", difference, difference, out=row)
    return squared.T


def _records_and_centroids(
    X: npt.ArrayLike, centroids: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    X, centroids = _matrix("X", X), _matrix("centroids", centroids)
    if X.shape[1] != centroids.shape[1]:
        raise DataError(f"X has {X.shape[1]} features and the centroids have {centroids.shape[1]}; they must agree")
    return X, centroids


def _matrix(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `values` as a float64 matrix with at least one cell, all of them finite."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths; NumPy's message is about its own internals
        raise DataError(f"{name} must be a matrix; its rows have different lengths") from None
    if array.dtype.kind not in "fiu":
        raise DataError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{name} must be a matrix with at least one row and one column, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} must be finite; it holds NaN or infinity")
    return np.asarray(array, dtype=np.float64)


def _finite(value: float) -> float:
    if not np.isfinite(value):
        raise DataError("squared distances exceed the range of float64; rescale the features")
    return value
