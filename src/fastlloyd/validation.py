"""What the estimators are given, checked: records by scikit-learn without quoting them, settings by their types."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fastlloyd.errors import DataError, PlanError

# What scikit-learn and NumPy say where they would quote cells, print X, or tell the number of records.
_QUOTING = ("could not convert", "bytes/strings", "inhomogeneous", "array=", "Complex data")


def validate_records(estimator: BaseEstimator, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
    """Real numbers (n_samples, n_features), finite, in X's own dtype; not copied where X is a numeric array.

    reset : whether the estimator learns the number and names of features (`fit`) or compares them. Raises what scikit-learn
    raises, but DataError where that would show a value of X.
    """
    if np.ma.is_masked(X):  # scikit-learn drops the mask
        raise DataError("X has masked entries; remove these records or fill the values in")
    refused = ""
    try:
        values: NDArray[Any] = np.asarray(validate_data(estimator, X, reset=reset, dtype="numeric"))
    except np.exceptions.DTypePromotionError:
        refused = "no common type"
    except ValueError as error:
        refused = str(error)
        if not any(quoting in refused for quoting in _QUOTING):
            raise
    # raised out here, where no exception is being handled that would be kept as context
    if "array=" in refused or "Complex data" in refused:
        reason = refused.splitlines()[0].rstrip(":")
        raise DataError(f"{reason}. Reshape your data to (n_samples, n_features), real numbers")
    if "inhomogeneous" in refused:
        raise DataError("the rows of X have different lengths; give every record a value for every feature")
    if refused or values.dtype.kind not in "biuf":
        raise DataError("X holds text, dates or something else that is not a number; select numeric columns")
    return values


def check_numbers(settings: dict[str, Any]) -> None:
    """Refuse settings that are no numbers where numbers are needed; raises PlanError naming the parameter."""
    for name in ("n_clusters", "fraction_bits", "n_records", "n_expected", "n_iter"):
        _check(name, settings[name], numbers.Integral, "an integer")
    for name in ("epsilon", "delta", "alpha", "min_count", "loss_share"):
        _check(name, settings[name], numbers.Real, "a number")


def _check(name: str, value: object, kind: type, expected: str) -> None:
    if value is None and name not in ("n_clusters", "fraction_bits", "epsilon"):
        return
    if isinstance(value, bool) or not isinstance(value, kind):
        raise PlanError(f"{name} is {value!r:.40}; expected {expected}")
