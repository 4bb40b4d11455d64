"""Find steps of a pipeline that were fitted to the records before a private estimator read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import FunctionType, ModuleType
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
_CONTAINERS: Final = (Pipeline, ColumnTransformer, FeatureUnion)
_NONE: Final[frozenset[int]] = frozenset()


def check_private_pipeline(pipeline: Any) -> list[str]:
    """Return the names of the steps before a private estimator that were fitted to its records.

    The guarantee of an estimator covers this estimator alone. A scaler, an imputer or an encoder
    that was fitted to the same records passes on exact facts about them, without noise.

    A step counts as fitted if it has an attribute that is not a parameter. A step without
    `get_params` counts as fitted if it has an attribute with a name that ends in "_". Objects
    inside a step are checked in the same way: other steps, also in lists, and the object of a bound
    method. A step is also named if it was fitted to other records.

    The list may have too many steps, or too few. A step may be named although its attributes follow
    from its parameters, such as an encoder with stated categories. Other exact facts leave no
    trace: a function that computes from all records, a parameter that a fit overwrites, and bounds,
    ids or parameters that were computed from the records earlier.

    Parameters
    ----------
    pipeline : Pipeline, or another estimator that contains an estimator of this package
        The pipeline must be fitted. Nested pipelines, ColumnTransformer, FeatureUnion, searches
        such as GridSearchCV, and objects inside other steps are checked, too.

    Returns
    -------
    list of str
        Names of the fitted steps, in the order of the pipeline. A step inside another step is
        "outer__inner". An empty list proves nothing. A search is named, too, because its choice is
        exact. An earlier estimator of this package is named because it spends a budget of its own.

    Raises
    ------
    DataError
        If the pipeline contains no estimator of this package.
    NotFittedError
        If the estimator of this package is not fitted, so that no step has fitted attributes yet.

    Examples
    --------
    >>> from fastlloyd import MomentLloyd, check_private_pipeline
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> pipeline = make_pipeline(StandardScaler(), MomentLloyd(2, bounds=(-3, 3), n_records=2000))
    >>> check_private_pipeline(pipeline.fit(X))
    ['standardscaler']
    """
    if not _holds_ours(pipeline):
        raise DataError(
            f"there is no estimator of fastlloyd in this {type(pipeline).__name__}; pass a fitted"
            " pipeline that ends in an estimator of fastlloyd"
        )
    return list(dict.fromkeys(_before_ours(pipeline, "")))


def _before_ours(step: Any, name: str, around: Sequence[Any] = ()) -> Iterator[str]:
    """Yield the names of fitted steps before each fastlloyd estimator inside `step`.

    name : path of the step, with "__" between names.
    around : steps that contain this step. They are not entered again.
    """
    if isinstance(step, Estimator):
        check_is_fitted(step)
        return
    around = [*around, step]
    inner = [(n, child) for n, child in _children(step) if not any(child is o for o in around)]
    is_container = isinstance(step, _CONTAINERS)
    if not is_container and _is_fitted(step, besides=[c for _, c in inner if _holds_ours(c)]):
        yield name or type(step).__name__.lower()
    earlier: list[tuple[str, Any]] = []
    for child_name, child in inner:
        path = _joined(name, child_name) if is_container else name
        if _holds_ours(child):
            for earlier_path, each in earlier:
                yield from _fitted(each, earlier_path)
            yield from _before_ours(child, path, around)
        if isinstance(step, Pipeline):
            earlier.append((path, child))


def _fitted(step: Any, name: str) -> Iterator[str]:
    """Yield the name of the step if it is fitted. For a container, yield the names of the fitted
    steps inside.
    """
    if isinstance(step, _CONTAINERS):
        for child_name, child in _children(step):
            yield from _fitted(child, _joined(name, child_name))
    elif _is_fitted(step):
        yield name


def _is_fitted(step: Any, besides: Sequence[Any] = ()) -> bool:
    """Return whether a step, or an object inside it, has fitted attributes.

    besides : objects inside the step that the caller checks itself.
    """
    elsewhere = {id(each) for each in besides}
    waiting: list[Any] = [step]
    seen: dict[int, Any] = {}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen[id(each)] = each  # kept, so that no other object gets its id
        if isinstance(each, Estimator):
            if hasattr(each, "mechanism_"):
                return True
        elif isinstance(each, _CONTAINERS):
            waiting += [child for _, child in _children(each)]
        else:
            held = {n: v for n, v in _attributes(each).items() if id(v) not in elsewhere}
            if any(_is_of_a_fit(name, each) for name in held):
                return True
            waiting += [value for value in (*held.values(), *_passed_on(each)) if _may_hold(value)]
    return False


def _is_of_a_fit(name: str, step: Any) -> bool:
    """Return whether an attribute with this name shows that the step was fitted.

    If the step has `get_params`, each attribute that is not a parameter shows it. Otherwise each
    attribute whose name ends in "_" shows it.
    """
    if name in _HARMLESS or name.startswith("__"):
        return False
    if hasattr(step, "get_params"):
        return name not in step.get_params(deep=False)
    return name.endswith("_")


def _passed_on(value: Any) -> Iterator[Any]:
    """Yield the objects that a collection, a bound method, a partial function or a nested function
    contains.
    """
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, FunctionType):
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # empty
                yield cell.cell_contents
    elif callable(value):
        yield getattr(value, "__self__", None)


def _may_hold(value: Any) -> bool:
    """Return whether the value may contain a step. Numbers, texts and arrays cannot."""
    return isinstance(value, dict | list | tuple | set | frozenset) or (
        bool(_attributes(value)) or callable(value)
    )


def _attributes(step: Any) -> dict[str, Any]:
    """Return the attributes of an object, or an empty dict for a class or a module."""
    if isinstance(step, type | ModuleType):
        return {}
    return dict(getattr(step, "__dict__", {}))


def _children(step: Any) -> list[tuple[str, Any]]:
    """Return the estimators inside a step, with their names. If some of them are fitted, return
    only these.
    """
    if isinstance(step, Pipeline):
        return [(name, child) for name, child in step.steps if child is not None]
    if isinstance(step, FeatureUnion):
        return list(step.transformer_list)
    if isinstance(step, ColumnTransformer):
        fitted = getattr(step, "transformers_", step.transformers)
        return [(name, child) for name, child, *_ in fitted]
    if not _is_estimator(step):
        return []
    attributes = _attributes(step)
    fitted_ones = {n: v for n, v in attributes.items() if n.endswith("_") and _is_estimator(v)}
    return list((fitted_ones or {n: v for n, v in attributes.items() if _is_estimator(v)}).items())


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "fit") and not isinstance(value, type)


def _holds_ours(step: Any, seen: frozenset[int] = _NONE) -> bool:
    if isinstance(step, Estimator):
        return True
    return id(step) not in seen and any(
        _holds_ours(child, seen | {id(step)}) for _, child in _children(step)
    )


def _joined(outer: str, inner: str) -> str:
    return f"{outer}__{inner}" if outer else inner
