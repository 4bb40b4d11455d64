"""Facts about a recipe: for each feature, its column, the way from its cells to numbers, the
treatment of missing cells, and the weight.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

from fastlloyd.base.names import listing
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.records.recipe.checks import DROP, MIDDLE, NONE, ORDER, REFUSE
from fastlloyd.records.recipe.feature import Feature


def of_recipe(features: Iterable[Feature] | None, searched: Container[str] = ()) -> list[Facts]:
    """Return a group of facts for each feature, or an empty list without a recipe.

    searched : keys of the features whose bounds are still to be found. The bounds that the recipe
        states for such a feature are only a range.
    """
    return [tuple(_of_feature(feature, feature.key in searched)) for feature in features or ()]


def _of_feature(feature: Feature, is_searched: bool) -> Iterator[Fact]:
    name = feature.key if feature.label is None else f"{feature.key} ({feature.label})"
    if feature.role == ORDER:
        yield Fact.of("feature_order", name=name, form=feature.date)
        return
    yield _WAYS[feature.way](feature, name)
    if is_searched:
        yield Fact.of("feature_searched")
    if feature.per_person is not None:
        yield Fact.of(f"feature_{feature.per_person}")
    if feature.below is not None:
        yield Fact.of(f"below_{feature.below}")
    if feature.way in ("values", "categories") and feature.other != REFUSE:
        yield Fact.of("other_none" if feature.other == NONE else "other_missing")
    yield _gap(feature)
    if feature.weight != 1:
        yield Fact.of("feature_weight", weight=feature.weight)


def _gap(feature: Feature) -> Fact:
    missing = feature.missing
    if missing in (REFUSE, DROP, MIDDLE):
        return Fact.of(f"gap_{missing}")
    return Fact.of("gap_value", value=missing if isinstance(missing, str) else f"{missing:g}")


def _ends(feature: Feature) -> dict[str, str]:
    lower, upper = feature.bounds or (0.0, 1.0)
    low, high = (end if isinstance(end, str) else f"{end:,.15g}" for end in (lower, upper))
    return {"low": low, "high": high}


def _number(feature: Feature, name: str) -> Fact:
    return Fact.of("feature_number", name=name, **_ends(feature))


def _log(feature: Feature, name: str) -> Fact:
    return Fact.of("feature_log", name=name, **_ends(feature))


def _values(feature: Feature, name: str) -> Fact:
    pairs: Sequence[tuple[str, float]] = feature.values or ()
    return Fact.of(
        "feature_values", name=name, values=", ".join(f"{t!r} as {n:g}" for t, n in pairs)
    )


def _categories(feature: Feature, name: str) -> Fact:
    return Fact.of("feature_categories", name=name, categories=listing(feature.categories or ()))


def _date(feature: Feature, name: str) -> Fact:
    if feature.until is None:
        return Fact.of("feature_date", name=name, form=feature.date, **_ends(feature))
    return Fact.of(
        "feature_time_until",
        name=name,
        form=feature.date,
        until=feature.until,
        count=feature.count or "days",
        **_ends(feature),
    )


_WAYS = {
    None: _number,
    "transform": _log,
    "values": _values,
    "categories": _categories,
    "date": _date,
}
