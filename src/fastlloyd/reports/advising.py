"""Forecast of a run, as a Python function (`advise`)."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from fastlloyd.base.names import choose
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.jobs.choices import BoundsText
from fastlloyd.mechanisms.catalogue import algorithm as named
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.records.bounds import given_bounds, named_columns, parse_bounds
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports import advice
from fastlloyd.reports.advice import EPSILONS, MAX_FEATURES, Advice, PlannedRun


def advise(
    n_records: int,
    n_clusters: int,
    *,
    bounds: Any = None,
    n_features: int | None = None,
    epsilons: Sequence[float] = EPSILONS,
    wanted_error: Mapping[str, float] | None = None,
    algorithm: str = "momentlloyd",
    delta: float | None = None,
    neighboring_relation: str = "add_or_remove_one",
) -> Advice:
    """Forecast a clustering at several epsilons, from public numbers only.

    Nothing is read or spent. An *error bar* is half of the interval that a result shows for a
    coordinate of a centroid: two standard errors. It is for centroids whose interval is reliable
    (settled). Error bars are estimates from simulated runs (docs/results/forecast.md). The
    guarantee does not cover them.

    Parameters
    ----------
    n_records : int
        Expected number of records, or of persons if a run protects persons. Also the cap.
    n_clusters : int
        Number of clusters.
    bounds : dict, pair, Recipe or None
        Public bounds: {name: (lower, upper)}, a `Recipe`, or a pair (lower, upper) of numbers or
        arrays (n_features,) together with `n_features`. Without them, error bars are fractions of
        the width of the bounds.
    n_features : int or None
        Number of features. It follows from bounds by name, and from a recipe.
    epsilons : sequence of float
        Budgets to compare, at most 100, all different.
    wanted_error : dict or None
        Longest error bar of each named feature, in the units of its column. It is a factor above 1
        for a feature with logarithms, and a number of days for a date.
    algorithm : str
        Name of the algorithm: "momentlloyd", "fastlloyd", "glloyd" or "sulloyd".
    delta : float or None
        The delta of the guarantee, or None for 1 / (100 n_records).
    neighboring_relation : str
        "add_or_remove_one" or "replace_one".

    Returns
    -------
    Advice
        `outlooks` has one entry for each epsilon, in their order. Each has the `verdict`, the
        `bars` of all features in their units, the `odds` of a right guess about one record, and
        `count_noise`. `least_epsilon` is the smallest epsilon with the verdict `clear`, and
        `wanted.outlook` the forecast at the smallest epsilon for `wanted_error`.

    Raises
    ------
    PlanError, BudgetError, DataError, OverflowRisk
        If a number, a name or bounds cannot be used. The message names them.

    Examples
    --------
    >>> import fastlloyd
    >>> bounds = {"age": (0, 100), "crp": (0, 300)}
    >>> advice = fastlloyd.advise(20_000, 5, bounds=bounds, epsilons=[1])
    >>> advice
    momentlloyd: 20000 records, 2 features, 5 clusters
    epsilon  verdict  right guesses out of 100  error bars
    1        clear    55 to 77                  age ± 0.17, crp ± 0.51
    >>> advice.outlooks[0].verdict.value
    'clear'
    >>> [bar.feature for bar in advice.outlooks[0].bars]
    ['age', 'crp']
    """
    if n_features is not None:
        n_features = _whole(n_features, "n_features", MAX_FEATURES)
    domain = None if bounds is None else stated_bounds(bounds, n_features)
    if n_features is None:
        if domain is None:
            raise PlanError(
                "n_features is missing; state the number of features, or their bounds",
                field="n_features",
            )
        n_features = domain.n_features
    question = PlannedRun(
        n_records=_whole(n_records, "n_records", MAX_RECORDS),
        n_features=n_features,
        n_clusters=_whole(n_clusters, "n_clusters", MAX_RECORDS),
        algorithm=named(_text(algorithm, "algorithm")),
        delta=None if delta is None else _real(delta, "delta"),
        neighboring_relation=choose(
            NeighboringRelation,
            _text(neighboring_relation, "neighboring_relation"),
            "neighboring_relation",
        ),
        domain=domain,
    )
    wanted = {} if wanted_error is None else wanted_error
    if not isinstance(wanted, Mapping):
        raise _refused(wanted, "wanted_error", "a dict of numbers by the names of features")
    return advice.advise(
        question,
        [_real(epsilon, "epsilon") for epsilon in _several(epsilons)],
        {name: _real(size, f"wanted_error of {name!r:.40}") for name, size in wanted.items()},
    )


def _several(value: Any) -> Iterable[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise _refused(value, "epsilons", "a list of numbers")
    return value


def _whole(value: Any, name: str, most: int) -> int:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not 1 <= int(value) <= most:
        raise _refused(value, name, f"a whole number from 1 to {most}")
    return int(value)


def _real(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refused(value, name, "a number")
    return float(value)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _refused(value, name, "a text")
    return value


def _refused(value: object, name: str, expected: str) -> PlanError:
    return PlanError(f"{name} is {value!r:.40}; expected {expected}", field=name)


def stated_bounds(bounds: Any, n_features: int | None) -> Domain:
    """Return the domain of bounds.

    bounds : a recipe, a text (`BoundsText`), or bounds as in `advise`.
    n_features : number of features, or None if it follows from the bounds.

    Raises DataError or PlanError if the bounds cannot be used, or if they leave the number of
    features open.
    """
    if isinstance(bounds, Recipe):
        return Domain.of_recipe(bounds.features, scaling=Scaling.PER_FEATURE)
    is_text = isinstance(bounds, BoundsText)
    by_name = list(bounds) if isinstance(bounds, Mapping) else []
    for name in by_name:
        _text(name, "name of a feature with bounds")
    names = named_columns(bounds.text)[0] if is_text else by_name
    if not names:
        if n_features is None:
            raise PlanError(
                "n_features is missing: bounds without names do not tell the number of features",
                field="n_features",
            )
        last = _whole(n_features, "n_features", MAX_FEATURES)
        names = [f"x{number}" for number in range(1, last + 1)]
    lower, upper = (
        parse_bounds(bounds.text, names) if is_text else given_bounds(bounds, names, len(names))
    )
    return Domain.of_bounds(tuple(names), lower, upper, scaling=Scaling.PER_FEATURE)
