"""What a method gave, checked: code of others may return anything, and a row holds numbers only."""

from typing import Any

import numpy as np

from fastlloyd.clustering.domain import FloatArray
from fastlloyd.errors import DataError
from fastlloyd.evaluation.experiments.methods import Outcome

MOST_ITERATIONS = 2**53  # beyond it a JSON number may be rounded


def checked(outcome: Any, method: str, shape: tuple[int, int]) -> tuple[FloatArray, int]:
    """Centroids, finite float64 of the shape (n_clusters, n_features), and the number of iterations.

    method : its name, for the sentence. Raises DataError that names the method and the field of its outcome.
    """
    if not isinstance(outcome, Outcome):
        raise DataError(f"method {method!r} returned {_kind(outcome)}; expected an Outcome of centroids and n_iterations")
    return _centroids(outcome.centroids, method, shape), _iterations(outcome.n_iterations, method)


def _centroids(given: Any, method: str, shape: tuple[int, int]) -> FloatArray:
    """A list of lists of numbers is taken for the array it stands for; text and complex numbers are not."""
    expected = f"expected float64 of shape {shape}, a row per cluster"
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # rows of several lengths
        raise DataError(f"method {method!r} returned centroids that are no array; {expected}") from None
    if array.dtype.kind not in "iuf":
        what = _kind(given) if array.dtype.kind == "O" else f"{array.dtype.name} values"
        raise DataError(f"method {method!r} returned centroids that are {what}; {expected}")
    if array.shape != shape:
        raise DataError(f"method {method!r} returned centroids of shape {array.shape}; {expected}")
    centroids = array.astype(np.float64)
    if wrong := int(np.count_nonzero(~np.isfinite(centroids).all(axis=1))):
        what = "NaN" if np.isnan(centroids).any() else "an infinite coordinate"
        raise DataError(
            f"method {method!r} returned centroids with {what} in {wrong} of {shape[0]} rows; expected finite ones: where a "
            "cluster has no record, keep its centroid or draw it anew"
        )
    return centroids


def _iterations(given: Any, method: str) -> int:
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if whole and 0 <= given <= MOST_ITERATIONS:
        return int(given)
    said = f"{given!r:.80}" if whole else f"{_kind(given)}, {given!r:.80}"
    raise DataError(f"method {method!r} returned n_iterations {said}; expected a whole number, 0 or more")


def _kind(given: Any) -> str:
    return "None" if given is None else f"a {type(given).__name__}"
