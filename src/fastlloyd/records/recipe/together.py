"""Features of a recipe taken together: their columns, and faults that only several features
together have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fastlloyd.base.names import listing
from fastlloyd.errors import PlanError
from fastlloyd.records.recipe.checks import ORDER, UNUSABLE_RECIPE
from fastlloyd.records.recipe.dates import is_day
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.ways import GridColumn, way_of


def columns_of(features: Sequence[Feature]) -> tuple[GridColumn, ...]:
    """Return the columns that these features get in the grid, in the order of the features."""
    return tuple(
        column for each in features if each.role != ORDER for column in way_of(each).columns
    )


def feature_set_faults(features: Sequence[Feature]) -> Iterator[PlanError]:
    """Yield an error for each contradiction between features."""
    if not any(each.role != ORDER for each in features):
        yield PlanError("no feature is clustered; state one at least", code=UNUSABLE_RECIPE)
    times = Counter(column.name for column in columns_of(features))
    for repeated in sorted(name for name, n in times.items() if n > 1):
        yield PlanError(
            f"two columns of features are called {repeated!r:.80}; rename one", code=UNUSABLE_RECIPE
        )
    yield from _until_faults(features)
    yield from _person_faults(features)


def order_of(features: Sequence[Feature]) -> str | None:
    """Return the key of the date that orders a person's rows, or None without such a date."""
    dates = _dates(features)
    return next((each.key for each in dates if each.role == ORDER), dates[0].key if dates else None)


def feature_fault(key: str, name: str, sentence: str) -> PlanError:
    """Return an error about a key of a table [features.KEY]."""
    return PlanError(
        f"features.{key:.80}: {sentence}", code=UNUSABLE_RECIPE, field=f"features.{key:.80}.{name}"
    )


def _dates(features: Sequence[Feature]) -> list[Feature]:
    return [each for each in features if each.date is not None and each.until is None]


def _until_faults(features: Sequence[Feature]) -> Iterator[PlanError]:
    keys, dates = {each.key for each in features}, {each.key for each in _dates(features)}
    for each in features:
        if each.until is None or is_day(each.until) or each.until in dates:
            continue
        fault = (
            f"{each.until!r:.80} is not a date; name a feature whose cells are dates"
            if each.until in keys
            else f"'until' is {each.until!r:.80}; expected a date as YYYY-MM-DD, or the name of a"
            f" feature that is a date ({listing(sorted(dates)) or 'there is none'})"
        )
        yield feature_fault(each.key, "until", fault)


def _person_faults(features: Sequence[Feature]) -> Iterator[PlanError]:
    """Yield an error for each reason why the rows of a person cannot become one record."""
    orders = [each.key for each in features if each.role == ORDER]
    used = [each for each in features if each.role != ORDER]
    by_person = [each for each in used if each.per_person is not None]
    if len(orders) > 1:
        yield feature_fault(
            orders[1],
            "role",
            f"{listing(orders)} have role 'order', but only one feature may have it; keep one",
        )
    if orders and not by_person:
        yield feature_fault(
            orders[0],
            "role",
            "its role has no effect if no feature has the key 'per_person'; leave the feature out",
        )
    if by_person and len(by_person) < len(used):
        lacking = next(each for each in used if each.per_person is None)
        yield feature_fault(
            lacking.key,
            "per_person",
            f"the key 'per_person' is missing; feature {by_person[0].key!r:.80} has it, so every"
            " feature needs it",
        )
    has_order = bool(orders) or len(_dates(features)) == 1
    for each in by_person:
        if each.per_person != "mean" and not has_order:
            yield feature_fault(
                each.key,
                "per_person",
                f"{each.per_person!r} needs one date that orders the rows of a person; give a date"
                ' the key role = "order"',
            )
