"""Checks of the arguments of estimators.

scikit-learn checks the records, but messages never show a value of X. Settings are checked by their
types.
"""

import numbers
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import assert_all_finite, check_array, validate_data

from fastlloyd.base.arrays import GridArray
from fastlloyd.base.names import refuse_repeated, shown
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.outside import OutsideMarks
from fastlloyd.errors import CellTypeError, DataError, PlanError
from fastlloyd.mechanisms.engines.collections import is_collection, sample
from fastlloyd.records.arrow import index_names
from fastlloyd.records.columns import is_index
from fastlloyd.records.declared import INDEX, INFINITE, MISSING, Holds
from fastlloyd.records.in_memory import frame_of, guarded, matrix

_NOT_FINITE = ("contains NaN", "contains infinity")  # and long advice, some of which would leak


def validate_records(
    estimator: BaseEstimator, X: Any, *, reset: bool, ensure_all_finite: bool = True, least: int = 1
) -> NDArray[Any]:
    """Return X as an array of real numbers, (n_samples, n_features), in its own dtype.

    A numeric array is not copied.

    estimator : estimator that stores or compares the features.
    X : records: an array, or a data frame.
    reset : True to store the number and names of features (`fit`), False to compare them.
    ensure_all_finite : False if the caller checks float arrays for NaN and infinity itself, with
        `refuse_not_finite`.
    least : smallest number of records.

    Raises the errors of scikit-learn. Raises DataError instead if scikit-learn's message would show
    a value of X, and for a column whose declared type is not a number (`records.declared`).
    """
    refuse_collection(X)
    refuse_lazy_frame(X)
    if issparse(X):
        return np.asarray(validate_data(estimator, X, reset=reset))  # which refuses it
    frame = guarded(lambda: frame_of(X), "X")
    if frame is not None:
        names = frame.column_names if hasattr(frame, "column_names") else frame.columns
        _refuse_names(list(names), index_names(getattr(frame, "schema", None)))
        validate_data(estimator, frame, reset=reset, skip_check_array=True)
    values = _cells(X if frame is None else frame)
    finite = (
        ensure_all_finite or type(X) is not np.ndarray or X.dtype not in (np.float32, np.float64)
    )
    options = {"dtype": "numeric", "ensure_all_finite": finite, "ensure_min_samples": least}
    refused = ""
    try:
        if frame is None:
            return np.asarray(validate_data(estimator, values, reset=reset, **options))
        return np.asarray(check_array(values, estimator=estimator, input_name="X", **options))
    except ValueError as error:
        refused = str(error)
        if not any(words in refused for words in ("array=", *_NOT_FINITE)):
            raise
    # raised out here, where no exception is being handled that would be kept as context
    if "array=" in refused:
        reason = refused.splitlines()[0].rstrip(":")
        raise DataError(f"{reason}. Reshape your data to (n_samples, n_features), real numbers")
    raise _not_finite(refused)


def _cells(X: Any) -> NDArray[Any]:
    """Return the records as an array, as `matrix` does.

    Raises CellTypeError, a TypeError, for an array of objects, because scikit-learn's checks expect
    a TypeError there.
    """
    try:
        return matrix(X)
    except DataError as error:
        refused = error
    if refused.code in (Holds.GROUPS.value, Holds.OBJECTS.value) and refused.field is None:
        # scikit-learn's checks match these words
        raise CellTypeError(
            f"{refused} (each argument must be not a string but a real number)", code=refused.code
        )
    raise refused


def validate_collection(estimator: BaseEstimator, X: Any) -> None:
    """Store the number and names of features of a Dask collection in the estimator.

    Raises the errors of `validate_records`. Columns of objects are checked later, in each
    partition.
    """
    validate_records(estimator, sample(X), reset=True, least=0)


def refuse_not_finite(values: NDArray[Any]) -> None:
    """Raise DataError if a value is NaN or infinite, by scikit-learn's check."""
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
            " a constant chosen without looking at the data",
            code=MISSING,
        )
    return DataError(
        "X contains infinity, or a value too large for float64; correct these values, or leave the"
        " records out",
        code=INFINITE,
    )


def refuse_collection(X: Any) -> None:
    """Raise DataError if X is a Dask collection. The caller needs all records in memory."""
    if is_collection(X):
        raise DataError(
            "X is a collection of Dask, which only fit accepts; label its partitions with"
            " X.map_partitions(model.predict)"
        )


def refuse_lazy_frame(X: Any) -> None:
    """Raise DataError if X is a LazyFrame of Polars, which has no records yet."""
    if type(X).__module__.partition(".")[0] == "polars" and type(X).__name__ == "LazyFrame":
        raise DataError("X is a LazyFrame of Polars, which has no records yet; pass X.collect()")


def _refuse_names(names: list[Any], index: frozenset[str]) -> None:
    """Raise DataError if a column name is repeated, or names an index.

    Bounds by name, and the comparison of names in `predict`, need distinct names.

    index : names of columns that the table marks as its index.
    """
    refuse_repeated(names, "X")
    for name in names:
        if isinstance(name, str) and (is_index(name) or name in index):
            raise DataError(
                f"column {name!r:.80} of X was the index of a data frame, and a program saved it"
                " as a column; drop it, or give it another name if it is a feature",
                code=INDEX,
                field=name,
            )


def check_numbers(settings: Mapping[str, Any]) -> None:
    """Raise PlanError for a parameter that should be a number, or True or False, but has another
    type.

    settings : parameters of an estimator by name.
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
            f"estimate_loss is {shown(settings['estimate_loss'])}; expected True or False"
        )
    for name in settings.keys() & {"epsilon", "delta", "alpha", "min_count", "loss_share"}:
        _check(name, settings[name], numbers.Real, "a number")


def _check(name: str, value: object, kind: type, expected: str) -> None:
    if value is None and name not in ("n_clusters", "epsilon"):
        return
    if isinstance(value, bool) or not isinstance(value, kind):
        raise PlanError(f"{name} is {shown(value)}; expected {expected}")


def on_grid(domain: Domain, values: NDArray[Any]) -> tuple[GridArray, OutsideMarks]:
    """Return the result of `Domain.to_grid_and_outside`.

    Raises DataError for NaN or infinity, with the message of `refuse_not_finite`.
    """
    try:
        return domain.to_grid_and_outside(values)
    except DataError as error:
        refused = error
    refuse_not_finite(values)
    raise refused


Seed = int | np.random.RandomState | None


def public_seed(random_state: Seed | PublicSeed) -> PublicSeed:
    """Return the seed of the public random choices. The noise never depends on it.

    random_state : an integer, a RandomState that supplies 32 bytes, the seed of a recipe, or None
        for a new seed.

    Raises PlanError for anything else.
    """
    if isinstance(random_state, PublicSeed):
        return random_state
    if random_state is None:
        return PublicSeed(os.urandom(32))
    if isinstance(random_state, numbers.Integral):
        return PublicSeed.from_int(int(random_state))
    with suppress(Exception):  # which shows the whole object
        return PublicSeed(check_random_state(random_state).bytes(32))
    raise PlanError(
        f"random_state is {shown(random_state)}; expected None, an integer or a RandomState"
    )
