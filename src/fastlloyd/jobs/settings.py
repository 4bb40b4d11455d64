"""Settings from which a mechanism is designed. They are made from plain values, and from the
records if a choice says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import choose
from fastlloyd.base.problems import Faults
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, PlanError
from fastlloyd.jobs.choices import (
    FROM_DATA,
    MISSING,
    NEEDS_BOUNDS,
    NEEDS_CAP,
    NEEDS_RANGE,
    BoundsText,
    ClusteringChoices,
    GuaranteeChoices,
    RecipeFeatures,
    StatedBounds,
    is_private,
    seed_of,
)
from fastlloyd.jobs.source import UNKNOWN, Openable, Source
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings, check_expected
from fastlloyd.mechanisms.two_stages import placeholder
from fastlloyd.records.bounds import (
    check_intervals,
    check_names_of_bounds,
    given_bounds,
    parse_bounds,
)
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe.together import columns_of

S = TypeVar("S", bound=Source)


BOUNDS_LEAK = (
    "bounds were taken from the data: the result reveals the smallest and largest value of every"
    " column, and the guarantee does not hold; state bounds from public knowledge"
)
N_RECORDS_LEAK = (
    "n_records was taken from the data: the result reveals the number of {many}{delta}, and the"
    " guarantee does not hold; state a round number above it"
)


class Named(Protocol):
    """Columns for which bounds are stated. The fields mean the same as in `Source`, but `others` is
    None if other columns are not known.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class
    @property
    def names(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def others(self) -> tuple[str, ...] | None: ...  # noqa: D102


class Columns(NamedTuple):
    """Columns of a plan, without records. The fields mean the same as in `Named`."""

    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    others: tuple[str, ...] | None

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Return columns with these names. Other columns may exist."""
        return cls(tuple(names), tuple(names), None)


def clustering_settings(
    choices: ClusteringChoices, domain: Domain, n_records: int, leaks: Sequence[str] = ()
) -> Settings[AnyAlgorithm]:
    """Return the settings for the design of a clustering.

    choices : choices about the clustering.
    domain : bounds and grid of the features.
    n_records : cap on the number of records or persons.
    leaks : a sentence for each setting that was taken from the data.

    Raises PlanError or BudgetError if a setting is invalid. The error names the setting.
    """
    check_expected(choices.n_expected, n_records, choices.persons)
    _check_use(choices, choices.chosen_algorithm)
    fields = choices.common() | {name: make() for name, make in choices.specific().items()}
    return Settings(
        domain=domain, n_records=n_records, taken_from_the_data=tuple(leaks) or None, **fields
    )


def bounds_settings(
    choices: GuaranteeChoices, outer: Domain, n_records: int, leaks: Sequence[str] = ()
) -> BoundsSettings:
    """Return the settings for the design of a run that finds bounds.

    choices : choices about the guarantee.
    outer : range in which bounds are searched for.
    n_records : cap on the number of records or persons.
    leaks : a sentence for each setting that was taken from the data.

    Raises PlanError or BudgetError if a setting is invalid.
    """
    if outer.recipe is not None and choices.persons is None:
        _refuse_per_person(Using(features=outer.recipe))
    check_expected(choices.n_expected, n_records, choices.persons)
    return BoundsSettings(
        domain=outer,
        n_records=n_records,
        taken_from_the_data=tuple(leaks) or None,
        **choices.common(),
    )


def check_guarantee(choices: GuaranteeChoices, faults: Faults) -> None:
    """Check choices about the guarantee without reading records, and append every fault to
    `faults`. Faults of epsilon and delta are not found here.

    faults : receives the faults.
    """
    cap = faults.value(None, lambda: choices.cap, "n_records")
    if choices.n_records is None:
        with faults.noted("n_records"):
            raise PlanError(NEEDS_CAP.format(many=choices.unit.many), code=MISSING)
    with faults.noted("public_seed"):
        seed_of(choices.public_seed)
    with faults.noted("neighboring_relation"):
        _ = choices.relation
    with faults.noted("n_expected"):
        check_expected(choices.n_expected, cap or MAX_RECORDS, choices.persons)


def check_bounds_run(choices: GuaranteeChoices, faults: Faults) -> None:
    """Check the choices for a run that only finds bounds, and append every fault to `faults`.

    faults : receives the faults.
    """
    check_guarantee(choices, faults)
    for name in ("epsilon", "delta"):
        with faults.noted(name):
            alone = GuaranteeChoices(**{name: getattr(choices, name)})
            bounds_settings(alone, UNKNOWN, MAX_RECORDS)


def check_clustering(choices: ClusteringChoices, faults: Faults) -> None:
    """Check the choices for a clustering without reading records, and append every fault to
    `faults`. Each choice is checked alone, so one fault does not hide another.

    faults : receives the faults.
    """
    check_guarantee(choices, faults)
    for name, stated in choices.stated.items():
        with faults.noted(name):
            check_stated(stated, name)
    with faults.noted("bounds"):
        _check_bounds_or_range(choices)
    with faults.noted("scaling"):
        choose(Scaling, choices.scaling, "scaling")
    fields = dict[str, Any]()
    for name, make in choices.specific().items():
        with faults.noted(name):
            fields[name] = make()
    chosen = fields.get("algorithm")
    if chosen is None:
        return
    with faults.noted("algorithm"):
        _check_use(choices, chosen)
    fields |= {"epsilon": 1.0 if choices.epsilon is None else choices.epsilon}
    fields |= {"delta": choices.delta if chosen.noise is Noise.GAUSSIAN else None}
    for names in _ALONE:
        with faults.noted(names[0]):
            Settings(
                algorithm=chosen,
                domain=UNKNOWN,
                n_records=faults.value(MAX_RECORDS, lambda: choices.cap or MAX_RECORDS),
                public_seed=PublicSeed.from_int(0),
                **{"epsilon": 1.0, "n_clusters": 1}
                | {name: fields[name] for name in names if name in fields},
            )


_ALONE = (
    ("epsilon",),
    ("delta",),
    ("n_clusters",),
    ("n_iterations",),
    ("min_count",),
    ("loss_share", "estimate_loss"),
)
"""Groups of settings. Each group can be checked without the other settings."""


def _check_bounds_or_range(choices: ClusteringChoices) -> None:
    bounds, value_range = choices.bounds, choices.value_range
    if isinstance(bounds, RecipeFeatures) and bounds.ranges == value_range:
        return
    if bounds is None and value_range is None:
        raise PlanError(NEEDS_BOUNDS, code=MISSING)
    if is_private(bounds) and value_range is None:
        raise PlanError(NEEDS_RANGE, code=MISSING, field="value_range")
    if bounds is not None and not is_private(bounds) and value_range is not None:
        raise PlanError(
            "bounds and value_range exclude each other: value_range is the range in which bounds"
            " are found privately; leave out one of them"
        )


def check_stated(stated: StatedBounds | None, name: str) -> None:
    """Raise DataError if stated bounds are a text that cannot be bounds of any columns.

    name : name of the setting.
    """
    if isinstance(stated, BoundsText):
        with naming(name):
            check_intervals(stated.text)


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Context manager. If its block raises an error about a range, add the name of the setting to
    the error. A range is written like bounds, so the error would not say which one is meant.
    """
    try:
        yield
    except (DataError, PlanError) as error:
        if setting == "bounds":
            raise
        raise type(error)(
            f"{setting}: {error}", code=error.code, field=error.field or setting
        ) from None


def _check_use(choices: ClusteringChoices, chosen: AnyAlgorithm) -> None:
    """Raise PlanError for a choice that has no effect on the algorithm, such as delta for an
    algorithm without a delta.
    """
    names = ("n_iterations", "initialization", "min_count")
    chosen.check_use({name: getattr(choices, name) for name in names})
    of_no_use = ["delta"] if chosen.noise is not Noise.GAUSSIAN else []
    fault = "{name} has no effect: {algorithm} has a guarantee without delta; leave {name} out"
    if chosen.noise is Noise.NONE:
        of_no_use = ["delta", "epsilon", "loss_share"]
        fault = "{name} has no effect: {algorithm} adds no noise; leave {name} out"
    for name in of_no_use:
        if getattr(choices, name) is not None:
            law = choices.varied.get("noise")
            with_law = "" if law is None else f" with {law} noise"
            raise PlanError(
                fault.format(name=name, algorithm=f"{chosen.name}{with_law}"), field=name
            )


def opened(records: Openable[S], faults: Faults, stated: Mapping[str, StatedBounds | None]) -> S:
    """Open the records, and check the column names in stated bounds and ranges.

    faults : receives the faults.
    stated : stated bounds and range, by the name of the setting.

    Raises Problems with all faults so far, if there are any.
    """
    source: S | None = faults.value(None, records.open, "records")
    if source is not None:
        for name, text in stated.items():
            with faults.noted(name), naming(name):
                if isinstance(text, BoundsText):
                    check_names_of_bounds(text.text, source.columns, source.others)
        with faults.noted("records"):
            source.load()
    faults.check()
    if source is None:
        raise AssertionError("the records could not be opened, but no fault was noted")
    return source


def domain_of(choices: ClusteringChoices, source: Source, leaks: list[str]) -> Domain:
    """Return the domain with the stated bounds. If bounds are to be taken from the data, take them,
    and add a sentence to `leaks`.

    Raises DataError or PlanError if the bounds cannot be used.
    """
    if not (isinstance(choices.bounds, str) and choices.bounds == FROM_DATA):
        return stated_domain(choices, source)
    leaks.append(BOUNDS_LEAK)
    return Domain.of_data(source.columns, *source.extremes(), **choices.grid)


def stated_domain(choices: ClusteringChoices, named: Named) -> Domain:
    """Return the domain with the stated bounds, or a placeholder if bounds are still to be found.
    If a recipe has features whose bounds are to be found, the placeholder has their ranges as
    bounds.

    Raises DataError or PlanError if the bounds cannot be used. The same errors are raised if single
    records are protected, but a recipe makes one record of all rows of a person. One more row would
    then change a record.
    """
    for stated in choices.stated.values():
        if isinstance(stated, RecipeFeatures) and choices.persons is None:
            _refuse_per_person(Using(features=stated.features))
    if isinstance(choices.bounds, RecipeFeatures):
        return Domain.of_recipe(choices.bounds.features, **choices.grid)
    if choices.value_range is not None:
        return placeholder(outer_of(choices.value_range, named), **choices.grid)
    return Domain.of_bounds(named.columns, *ends_of(choices.bounds, named), **choices.grid)


def _refuse_per_person(using: Using) -> None:
    if using.is_per_person:
        raise PlanError(
            "the recipe has per_person, which makes one record of all rows of a person, so persons"
            ' must be protected; write unit = "person" in [privacy]',
            code=UNUSABLE_RECIPE,
            field="unit",
        )


def outer_of(value_range: StatedBounds | None, named: Named) -> Domain:
    """Return the range in which bounds are searched for.

    Raises DataError or PlanError if the range cannot be used. The error names the setting.
    """
    if isinstance(value_range, RecipeFeatures):
        columns = columns_of(value_range.features)
        ends = [each.lower for each in columns], [each.upper for each in columns]
        return outer_range([each.name for each in columns], *ends, value_range.features)
    with naming("value_range"):
        lower, upper = ends_of(value_range, named)
        return outer_range(named.columns, lower.tolist(), upper.tolist())


def ends_of(stated: Any, named: Named) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper bounds of the columns, float64 (n_features,) each.

    Raises DataError or PlanError if the bounds cannot be used.
    """
    if isinstance(stated, BoundsText):
        return parse_bounds(stated.text, named.columns, named.others)
    return given_bounds(stated, named.names, len(named.columns))


def cap_of(
    choices: GuaranteeChoices,
    source: Source,
    domain: Domain,
    leaks: list[str],
    *,
    is_counted: bool,
) -> int:
    """Return the cap on the number of records: the stated one, or the number of records in the
    data.

    A number from the data reveals something about the records, so a sentence is added to `leaks`.
    There is one exception: under replace_one, neighbours have the same number of records, so the
    number may be used. The exception does not apply in three cases:

    - Persons are protected: a person who is replaced may have no rows any more.
    - Records with missing cells are left out: the number then depends on the content of records.
    - A ledger adds this job up with others (`is_counted`): another of these jobs may protect
      against an added record.

    Raises DataError if there are more records than the stated cap, or if a replaced record could
    change how the records are read.
    """
    source.check_layout(choices.relation)
    cap, many = choices.cap, choices.unit.many
    if cap is not None:
        source.check_number(cap, choices.unit)
        return cap
    n_records = source.count(domain)
    is_fixed = choices.persons is None and choices.relation is NeighboringRelation.REPLACE_ONE
    if not is_fixed or source.drops_records or is_counted:
        delta = ", also through delta" if choices.delta is None else ""
        leaks.append(N_RECORDS_LEAK.format(many=many, delta=delta))
    return n_records


def check_clusters_are_fewer(choices: ClusteringChoices, n_records: int) -> None:
    """Raise DataError if the cap comes from the data, and there are fewer records than clusters.
    The error does not show their number.
    """
    if choices.cap is None and choices.n_clusters > n_records:
        raise DataError(
            f"n_clusters is {choices.n_clusters}, but there are fewer {choices.unit.many};"
            " choose fewer clusters",
            field="n_clusters",
        )
