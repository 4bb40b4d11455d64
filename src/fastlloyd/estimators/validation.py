"""What the estimators are given, checked: records by scikit-learn without quoting them, settings by
their types.
"""

import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import assert_all_finite, validate_data

from fastlloyd.base.names import refuse_repeated
from fastlloyd.errors import DataError, PlanError
from fastlloyd.mechanisms.engines.collections import is_collection, sample

# What scikit-learn and NumPy say where they would quote cells, print X, or tell the number of
# records.
_QUOTING = (
    "could not convert",
    "bytes/strings",
    "inhomogeneous",
    "array=",
    "Complex data",
    "setting an array element",
)
_DATES = ("date", "time", "duration", "period")  # types of pandas, Polars and Arrow
_NOT_CONVERTED = (
    "float() argument",
    "too large to convert",
)  # by Python itself, of a cell that holds some object
_NOT_FINITE = ("contains NaN", "contains infinity")  # and long advice, some of which would leak


def validate_records(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    reset: bool,
    ensure_all_finite: bool = True,
    least: int = 1,
) -> NDArray[Any]:
    """Real numbers (n_samples, n_features), finite, in X's own dtype; not copied where X is a
    numeric array.

    reset : whether the estimator learns the number and names of features (`fit`) or compares them.
    ensure_all_finite : False where the caller sees by itself whether an array of float32 or float64
    is finite, and calls `refuse_not_finite`. least : how many records there must be. Raises what
    scikit-learn raises, but DataError where that would show a value of X.
    """
    _refuse_without_cells(X)
    _refuse_repeated_names(X)
    _refuse_dates(X)
    refused = ""
    finite = ensure_all_finite or not (
        type(X) is np.ndarray and X.dtype in (np.float32, np.float64)
    )
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            dtype="numeric",
            ensure_all_finite=finite,
            ensure_min_samples=least,
        )
        values: NDArray[Any] = np.asarray(checked)
    except np.exceptions.DTypePromotionError:
        refused = "no common type"
    except (ValueError, TypeError, OverflowError) as error:
        refused = str(error)
        known = any(words in refused for words in (*_QUOTING, *_NOT_CONVERTED, *_NOT_FINITE))
        # of an array that holds objects scikit-learn's own checks want Python's TypeError, which
        # names their type alone
        if not known or (isinstance(error, TypeError) and _first_without_numbers(X) is None):
            raise
    # raised out here, where no exception is being handled that would be kept as context
    if "array=" in refused or "Complex data" in refused:
        reason = refused.splitlines()[0].rstrip(":")
        raise DataError(f"{reason}. Reshape your data to (n_samples, n_features), real numbers")
    if "inhomogeneous" in refused:
        raise DataError(
            "the rows of X have different lengths; give every record a value for every feature"
        )
    if any(words in refused for words in _NOT_FINITE):
        raise _not_finite(refused)
    if refused or values.dtype.kind not in "biuf":
        name = _first_without_numbers(X)
        where = "X" if name is None else f"column {name!r:.80} of X"
        raise DataError(
            f"{where} holds text, dates or something else that is not a number; select numeric"
            " columns"
        )
    return values


def validate_collection(estimator: BaseEstimator, X: Any) -> None:
    """Have the estimator learn the number and names of features of a Dask collection. Raises as
    `validate_records`.
    """
    frame = sample(X)
    for name, kind in getattr(frame, "dtypes", {}).items():
        if getattr(kind, "kind", "O") not in "biufmM":
            raise DataError(
                f"column {str(name)!r:.80} of X holds text or something else that is not a number;"
                " select numeric columns"
            )
    validate_records(estimator, frame, reset=True, least=0)


def refuse_not_finite(values: NDArray[Any]) -> None:
    """Raise DataError if scikit-learn finds NaN or infinity among the values."""
    try:
        assert_all_finite(values)
    except ValueError as error:
        refused = _not_finite(str(error))
    else:
        return
    raise refused


def _not_finite(refused: str) -> DataError:
    if "contains NaN" in refused:
        return DataError(
            "X contains NaN, which stands for a missing value; leave these records out, or fill in"
            " a constant chosen without looking at the data"
        )
    return DataError(
        "X contains infinity, or a value too large for float64; correct these values, or leave the"
        " records out"
    )


def refuse_collection(X: Any) -> None:
    """Refuse X of Dask where all records are wanted here."""
    if is_collection(X):
        raise DataError(
            "X is a collection of Dask, which only fit takes: label its partitions by"
            " X.map_partitions(model.predict)"
        )


def _refuse_without_cells(X: Any) -> None:
    """Refuse what scikit-learn would misread: a query that has not been run, a mask, which it
    drops, and what is elsewhere.
    """
    refuse_collection(X)
    if type(X).__module__.partition(".")[0] == "polars" and type(X).__name__ == "LazyFrame":
        raise DataError(
            "X is a LazyFrame of Polars, which holds no records before it is collected: pass"
            " X.collect()"
        )
    if np.ma.is_masked(X):
        raise DataError("X has masked entries; remove these records or fill the values in")


def _refuse_repeated_names(X: Any) -> None:
    """Bounds by name, and names to compare at `predict`, need columns that are told apart;
    DataError says which are not.
    """
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    if isinstance(names, Iterable):
        refuse_repeated(list(names), "X")


def _refuse_dates(X: Any) -> None:
    """Columns of a data frame that hold dates or durations would become numbers unasked; DataError
    names the first.
    """
    kinds = X.schema.types if hasattr(X, "column_names") else getattr(X, "dtypes", ())
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    if isinstance(kinds, Iterable) and isinstance(names, Iterable):
        for name, kind in zip(names, kinds, strict=False):
            if str(kind).lower().startswith(_DATES):
                raise DataError(
                    f"column {str(name)!r:.80} of X holds dates or durations, which are no numbers"
                    " here; select numeric columns"
                )


def _first_without_numbers(X: Any) -> str | None:
    """The name of the first column of a data frame that holds anything but numbers; None where X
    has no named columns.
    """
    for i, name in enumerate(
        getattr(X, "column_names", getattr(X, "columns", ()))
    ):  # Arrow's `columns` are the cells
        column = np.asarray(X.iloc[:, i] if hasattr(X, "iloc") else X[name])
        try:
            if column.dtype.kind in "mM":  # dates and durations would become numbers
                return str(name)
            column.astype(np.float64)
        except (TypeError, ValueError, OverflowError):  # quotes the cell
            return str(name)
    return None


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are no numbers, or no truth value, where such are needed; raises
    PlanError naming the parameter.

    settings : the parameters of an estimator, which has some of those named here.
    """
    for name in settings.keys() & {
        "n_clusters",
        "fraction_bits",
        "n_records",
        "n_expected",
        "n_iter",
    }:
        _check(name, settings[name], numbers.Integral, "an integer")
    if not isinstance(
        settings["estimate_loss"], bool | np.bool_
    ):  # any text would count as yes, "no" too
        raise PlanError(
            f"estimate_loss is {settings['estimate_loss']!r:.40}; expected True or False"
        )
    for name in settings.keys() & {"epsilon", "delta", "alpha", "min_count", "loss_share"}:
        _check(name, settings[name], numbers.Real, "a number")


def _check(name: str, value: object, kind: type, expected: str) -> None:
    if value is None and name not in ("n_clusters", "epsilon"):
        return
    if isinstance(value, bool) or not isinstance(value, kind):
        raise PlanError(f"{name} is {value!r:.40}; expected {expected}")
