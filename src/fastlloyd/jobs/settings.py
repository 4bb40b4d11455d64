"""Settings of a job: from plain values, and from the records where a value is left to them, to what
a mechanism is designed from.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import choose, fraction
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, PlanError
from fastlloyd.jobs.problems import Faults
from fastlloyd.jobs.source import UNKNOWN, Openable, Source
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.catalogue import algorithm, preset
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings, check_expected
from fastlloyd.mechanisms.two_stages import placeholder
from fastlloyd.records.bounds import (
    Bounds,
    check_intervals,
    check_names_of_bounds,
    given_bounds,
    parse_bounds,
)

S = TypeVar("S", bound=Source)

FROM_DATA: Final = "from-data"
"""Value of bounds, or of n_records, that the data are to say. The result is then not private."""
PRIVATE: Final = "private"
"""Value of bounds that are to be found in value_range."""

MISSING: Final = "missing-setting"
LEAKS: Final = "taken-from-data"
BOUNDS_LEAK = (
    "bounds were taken from the data: the smallest and largest value of every column leak, and the"
    " guarantee does not hold; state bounds that are known without looking at the data"
)
N_RECORDS_LEAK = (
    "n_records was taken from the data: the number of {many} leaks{delta}, and the guarantee does"
    " not hold; state a round number above it"
)
NEEDS_BOUNDS = (
    "bounds is missing: state the smallest and largest value that every column can have, known"
    " without looking at the data (`fastlloyd bounds template` makes a form); or take it from the"
    " data with bounds from-data: NOT PRIVATE"
)
NEEDS_RANGE = (
    "value_range is missing: state a public range that surely holds all values, in which bounds are"
    " looked for"
)
NEEDS_CAP = (
    "n_records is missing: state a round number above the number of {many}; or take it from the"
    " data with n_records from-data: NOT PRIVATE"
)


class BoundsText(NamedTuple):
    """Bounds as a text states them, see `parse_bounds`."""

    text: str


class Named(Protocol):
    """Columns that bounds are stated for; fields as of `Source`. others : None if they are not
    known.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...  # noqa: D102 - see the class
    @property
    def names(self) -> tuple[str, ...] | None: ...  # noqa: D102
    @property
    def others(self) -> tuple[str, ...] | None: ...  # noqa: D102


class Columns(NamedTuple):
    """Columns of a plan, without records."""

    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    others: tuple[str, ...] | None

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Return the columns of these names, beside which there may be others."""
        return cls(tuple(names), tuple(names), None)


StatedBounds = Bounds | BoundsText | str
"""Bounds of columns, as a text or as programs give them; or FROM_DATA, or PRIVATE."""


@dataclass(frozen=True, kw_only=True)
class GuaranteeChoices:
    """Choices of every private job, as plain values.

    epsilon None: 1. delta None: the default of the mechanism. n_records : public cap on the number
    of records, or of persons, as a number or a text of digits, or FROM_DATA. public_seed : of the
    first centroids, a text as of `seed_of`, or None for a fresh one. persons : unit of protection,
    or None for single records.
    """

    epsilon: float | None = None
    delta: float | None = None
    n_records: int | str | None = None
    neighboring_relation: str = NeighboringRelation.ADD_OR_REMOVE_ONE.value
    n_expected: int | None = None
    public_seed: PublicSeed | str | None = None
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        """Unit of protection, in words."""
        return unit(self.persons)

    @property
    def relation(self) -> NeighboringRelation:
        """Neighbouring relation; spelled with underscores, or with dashes. Raises PlanError."""
        name: Any = self.neighboring_relation
        text: str = name.replace("-", "_") if isinstance(name, str) else name
        return choose(NeighboringRelation, text, "neighboring_relation")

    @property
    def cap(self) -> int | None:
        """Public cap that is stated, or None if the data are to say it. Raises PlanError."""
        stated = self.n_records
        if stated is None or stated == FROM_DATA:
            return None
        number = _whole_number(stated) if isinstance(stated, str) else int(stated)
        if number < 1:
            text, instead = repr(stated), ""
            if isinstance(stated, str):
                is_number = stated.lstrip("-").isdigit()
                text, instead = stated if is_number else text, f", or {FROM_DATA}"
            raise PlanError(
                f"n_records is {text:.40}, the cap on the number of {self.unit.many};"
                f" expected a whole number, at least 1{instead}",
                field="n_records",
            )
        return number

    def common(self) -> dict[str, Any]:
        """Fields of `RunSettings` but for domain, n_records and what was taken from the data."""
        return {
            "epsilon": 1.0 if self.epsilon is None else float(self.epsilon),
            "delta": None if self.delta is None else float(self.delta),
            "public_seed": seed_of(self.public_seed),
            "n_expected": self.n_expected,
            "neighboring_relation": self.relation,
            "persons": self.persons,
        }


@dataclass(frozen=True, kw_only=True)
class ClusteringChoices(GuaranteeChoices):
    """Choices of a clustering, as plain values; None leaves a choice to preset and planner.

    bounds : public bounds, or FROM_DATA; PRIVATE or None if they are to be found in value_range.
    algorithm : its name, or itself. varied : fields of the algorithm to replace, by name. The
    others are those of `Settings`.
    """

    n_clusters: int
    bounds: StatedBounds | None = None
    value_range: StatedBounds | None = None
    scaling: str = Scaling.PER_FEATURE.value
    fraction_bits: int = 16
    algorithm: AnyAlgorithm | str | None = None
    varied: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "default"
    n_iterations: int | None = None
    initialization: str | None = None
    min_count: float | Fraction | None = None
    estimate_loss: bool = False
    loss_share: float | Fraction | None = None

    @property
    def finds_bounds(self) -> bool:
        """Return whether bounds are to be found privately."""
        return self.value_range is not None

    @property
    def stated(self) -> dict[str, StatedBounds | None]:
        """Bounds and range, by the name of the setting."""
        return {"bounds": self.bounds, "value_range": self.value_range}

    @property
    def grid(self) -> dict[str, Any]:
        """Scaling and step of the grid, by the names that `Domain` has for them. Raises
        PlanError.
        """
        scaling = choose(Scaling, self.scaling, "scaling")
        return {"scaling": scaling, "fraction_bits": self.fraction_bits}

    @property
    def chosen_algorithm(self) -> AnyAlgorithm:
        """Algorithm with the fields that are replaced. Raises PlanError."""
        named = preset(self.preset).algorithm if self.algorithm is None else self.algorithm
        return (algorithm(named) if isinstance(named, str) else named).varied(**self.varied)

    def specific(self) -> dict[str, Callable[[], Any]]:
        """Fields of `Settings` that the base class lacks, by what makes each. They raise
        PlanError.
        """
        return {
            "algorithm": lambda: self.chosen_algorithm,
            "preset": lambda: preset(self.preset),
            "n_clusters": lambda: self.n_clusters,
            "n_iterations": lambda: self.n_iterations,
            "initialization": lambda: (
                None
                if self.initialization is None
                else choose(RadiusSearch, self.initialization, "initialization")
            ),
            "min_count": lambda: (
                None if self.min_count is None else fraction(self.min_count, "min_count")
            ),
            "estimate_loss": lambda: bool(self.estimate_loss),
            "loss_share": lambda: self.loss_share,
        }


def seed_of(stated: PublicSeed | str | None) -> PublicSeed:
    """Return a fresh seed for None; the very seed for 64 hex digits, as a plan shows it; else that
    of an integer or of any other text. Raises PlanError for an empty text.
    """
    if isinstance(stated, PublicSeed):
        return stated
    if stated == "":  # a variable that is not set would give everybody the same
        raise PlanError(
            "public_seed is empty; expected a number or a text, or leave it out for a fresh seed",
            field="public_seed",
        )
    if stated is None:
        return PublicSeed(os.urandom(32))
    if re.fullmatch(r"[0-9a-f]{64}", stated):
        return PublicSeed.from_hex(stated)
    if re.fullmatch(r"[0-9]{1,80}", stated):
        return PublicSeed.from_int(int(stated))
    return PublicSeed.from_text(stated)


def clustering_settings(
    choices: ClusteringChoices, domain: Domain, n_records: int, leaks: Sequence[str] = ()
) -> Settings[AnyAlgorithm]:
    """Return what the clustering is designed from. Raises PlanError or BudgetError that names the
    setting.
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
    """Return what a run that finds bounds is designed from. Raises PlanError or BudgetError."""
    check_expected(choices.n_expected, n_records, choices.persons)
    return BoundsSettings(
        domain=outer,
        n_records=n_records,
        taken_from_the_data=tuple(leaks) or None,
        **choices.common(),
    )


def check_guarantee(choices: GuaranteeChoices, faults: Faults) -> None:
    """Note every fault of the choices that no record could put right, but of epsilon and delta."""
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
    """Note every fault of the choices of a run that finds bounds and nothing else."""
    check_guarantee(choices, faults)
    for name in ("epsilon", "delta"):
        with faults.noted(name):
            alone = GuaranteeChoices(**{name: getattr(choices, name)})
            bounds_settings(alone, UNKNOWN, MAX_RECORDS)


def check_clustering(choices: ClusteringChoices, faults: Faults) -> None:
    """Note every fault of the choices that no record could put right: each is tried alone, so that
    all come at once.
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
"""Settings that are right or wrong whatever the others are, or together with one other."""


def _check_bounds_or_range(choices: ClusteringChoices) -> None:
    bounds, value_range = choices.bounds, choices.value_range
    if bounds is None and value_range is None:
        raise PlanError(NEEDS_BOUNDS, code=MISSING)
    if is_private(bounds) and value_range is None:
        raise PlanError(NEEDS_RANGE, code=MISSING, field="value_range")
    if bounds is not None and not is_private(bounds) and value_range is not None:
        raise PlanError(
            "bounds states bounds, and value_range has them found privately; leave one of them out"
        )


def is_private(bounds: object) -> bool:
    """Return whether bounds are to be found privately."""
    return isinstance(bounds, str) and bounds == PRIVATE


def refuse_private(choices: ClusteringChoices) -> None:
    """Raise PlanError for bounds that are to be found, in a job that needs stated ones."""
    if is_private(choices.bounds) or choices.value_range is not None:
        raise PlanError(
            "bounds private is for fit; of records at several places find the bounds first, by a"
            " plan of its own (`fastlloyd plan new --kind bounds`)",
            field="bounds",
        )


def check_stated(stated: StatedBounds | None, name: str) -> None:
    """Raise DataError for a text that is no bounds, whatever the columns are. name : of the
    setting.
    """
    if isinstance(stated, BoundsText):
        with naming(name):
            check_intervals(stated.text)


@contextmanager
def naming(setting: str) -> Iterator[None]:
    """Have what is refused of a range say so, as it is written as bounds are."""
    try:
        yield
    except (DataError, PlanError) as error:
        if setting == "bounds":
            raise
        raise type(error)(
            f"{setting}: {error}", code=error.code, field=error.field or setting
        ) from None


def _check_use(choices: ClusteringChoices, chosen: AnyAlgorithm) -> None:
    """Raise PlanError for choices that the algorithm has no use for, and a budget that it does not
    spend.
    """
    names = ("n_iterations", "initialization", "min_count")
    chosen.check_use({name: getattr(choices, name) for name in names})
    of_no_use, reason = list[str](), "has a guarantee without delta"
    if chosen.noise is not Noise.GAUSSIAN:
        of_no_use.append("delta")
    if chosen.noise is Noise.NONE:
        of_no_use, reason = ["delta", "epsilon", "loss_share"], "adds no noise"
    for name in of_no_use:
        if getattr(choices, name) is not None:
            law = choices.varied.get("noise")
            with_law = "" if law is None else f" with {law} noise"
            raise PlanError(
                f"{name} has no effect: {chosen.name}{with_law} {reason}; leave {name} out",
                field=name,
            )


def opened(records: Openable[S], faults: Faults, stated: Mapping[str, StatedBounds | None]) -> S:
    """Open the records, and check the names of bounds, and of a range, by their columns. Raises
    Problems with all faults so far.
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
        raise AssertionError("records that cannot be opened are a fault")
    return source


def domain_of(choices: ClusteringChoices, source: Source, leaks: list[str]) -> Domain:
    """Return the domain of the stated bounds, or that of the data, as `leaks` then says. Raises
    DataError or PlanError.
    """
    if not (isinstance(choices.bounds, str) and choices.bounds == FROM_DATA):
        return stated_domain(choices, source)
    leaks.append(BOUNDS_LEAK)
    return Domain.of_data(source.columns, *source.extremes(), **choices.grid)


def stated_domain(choices: ClusteringChoices, named: Named) -> Domain:
    """Return the domain of the stated bounds, or one that stands for bounds that are still to be
    found. Raises DataError or PlanError.
    """
    if choices.value_range is not None:
        return placeholder(outer_of(choices.value_range, named), **choices.grid)
    return Domain.of_bounds(named.columns, *ends_of(choices.bounds, named), **choices.grid)


def outer_of(value_range: StatedBounds | None, named: Named) -> Domain:
    """Return the range in which bounds are looked for. Raises DataError or PlanError that names
    it.
    """
    with naming("value_range"):
        lower, upper = ends_of(value_range, named)
        return outer_range(named.columns, lower.tolist(), upper.tolist())


def ends_of(stated: Any, named: Named) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends of the columns, float64 (n_features,). Raises DataError or
    PlanError.
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
    """Return the cap on the number of records, stated or, as `leaks` may then say, from the data.

    Replacing one record leaves their number as it is, so under replace_one it may be taken from the
    data. But not of persons, since one who is replaced may have no row any more; nor where records
    with missing cells are dropped, since that depends on what a record says; nor where other jobs
    are counted with this one (is_counted), as one of them may be for an added record. Raises
    DataError for more records than the cap.
    """
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
    """Raise DataError, without their number, if the data have fewer records than clusters."""
    if choices.cap is None and choices.n_clusters > n_records:
        raise DataError(
            f"n_clusters is {choices.n_clusters}, and there are fewer {choices.unit.many}; ask for"
            " fewer clusters",
            field="n_clusters",
        )


def _whole_number(text: str) -> int:
    """Return the number of a text of digits, or 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
