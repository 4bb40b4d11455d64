"""Steps of a pipeline that were fitted to the records before a private estimator saw them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from fastlloyd.errors import DataError
from fastlloyd.estimators.base import Estimator

# of every fit, the shape of X and bookkeeping of scikit-learn
_HARMLESS: Final = frozenset(
    {"n_features_in_", "feature_names_in_", "_n_features_out", "_sklearn_output_config"}
)


def check_private_pipeline(pipeline: Any) -> list[str]:
    """Name the steps before a private estimator that were fitted to its records.

    The guarantee of an estimator covers this estimator alone. A scaler, an imputer or an encoder
    that was fitted to the same records passes exact facts about them on, which no noise hides.

    The list can accuse, never clear. A step may be named although its attributes follow from its
    parameters, such as an encoder with stated categories. Other exact facts leave no trace: a
    function that computes from all records, and bounds, ids or parameters that were computed from
    them before.

    Parameters
    ----------
    pipeline : Pipeline or another estimator that holds one of this package
        Fitted. Nested pipelines, ColumnTransformer, FeatureUnion and searches such as GridSearchCV
        are looked into.

    Returns
    -------
    list of str
        Names of steps in their order, those inside another step as "outer__inner". Empty if no
        earlier step has fitted attributes. A search is named, too: its choice is exact. An earlier
        estimator of this package is named because it spends a budget of its own.

    Raises
    ------
    DataError
        If there is no estimator of this package in it.
    NotFittedError
        If that estimator was not fitted, so that no step has fitted attributes yet.

    Examples
    --------
    >>> pipeline = make_pipeline(StandardScaler(), MomentLloyd(3, bounds=(-3, 3), n_records=200))
    >>> check_private_pipeline(pipeline.fit(X))  # doctest: +SKIP
    ['standardscaler']
    """
    if not _holds_ours(pipeline):
        raise DataError(
            f"there is no estimator of fastlloyd in this {type(pipeline).__name__}; pass the fitted"
            " pipeline that ends in one"
        )
    return list(dict.fromkeys(_before_ours(pipeline, "")))


def _before_ours(step: Any, name: str) -> Iterator[str]:
    """Yield the names of fitted steps before each estimator of ours inside a step."""
    if isinstance(step, Estimator):
        check_is_fitted(step)
        return
    inner = _children(step)
    is_container = isinstance(step, Pipeline | ColumnTransformer | FeatureUnion)
    if not is_container and _fitted_attributes(step, inner):
        yield name or type(step).__name__.lower()
    earlier: list[tuple[str, Any]] = []
    for child_name, child in inner:
        path = _joined(name, child_name) if is_container else name
        if _holds_ours(child):
            for earlier_path, each in earlier:
                yield from _fitted(each, earlier_path)
            yield from _before_ours(child, path)
        if isinstance(step, Pipeline):
            earlier.append((path, child))


def _fitted(step: Any, name: str) -> Iterator[str]:
    """Yield the names of the fitted steps inside an earlier step, or its own."""
    if isinstance(step, Pipeline | ColumnTransformer | FeatureUnion):
        for child_name, child in _children(step):
            yield from _fitted(child, _joined(name, child_name))
    elif isinstance(step, Estimator) or _fitted_attributes(step, []):
        yield name


def _fitted_attributes(step: Any, inner: list[tuple[str, Any]]) -> set[str]:
    """Return the names of attributes that are no parameters and not the estimators it holds."""
    if isinstance(step, str) or not hasattr(step, "get_params"):
        return set()
    held = [child for _, child in inner]
    return {
        name
        for name, value in vars(step).items()
        if name not in step.get_params(deep=False)
        and name not in _HARMLESS
        and not any(value is child for child in held)
    }


def _children(step: Any) -> list[tuple[str, Any]]:
    """Return the estimators that a step holds, as they were fitted, with their names in it."""
    if isinstance(step, Pipeline):
        return [(name, child) for name, child in step.steps if child is not None]
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    if isinstance(step, ColumnTransformer):
        fitted = getattr(step, "transformers_", step.transformers)
        return [(name, child) for name, child, *_ in fitted]
    if isinstance(step, str) or not hasattr(step, "get_params"):
        return []
    attributes = vars(step)
    fitted_ones = {n: v for n, v in attributes.items() if n.endswith("_") and _is_estimator(v)}
    return list((fitted_ones or {n: v for n, v in attributes.items() if _is_estimator(v)}).items())


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and hasattr(value, "fit") and not isinstance(value, type)


def _holds_ours(step: Any) -> bool:
    return isinstance(step, Estimator) or any(_holds_ours(child) for _, child in _children(step))


def _joined(outer: str, inner: str) -> str:
    return f"{outer}__{inner}" if outer else inner
