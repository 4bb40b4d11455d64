"""Bounds that are found privately within a public range: from options to what finds them, and to
what follows.
"""

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from fastlloyd.base.names import choose
from fastlloyd.cli import engines, persons, screen, terminal
from fastlloyd.cli.charging import Charging, Till
from fastlloyd.cli.options import GuaranteeOptions, MechanismOptions, PlanOptions
from fastlloyd.cli.settings import (
    FROM_DATA,
    PRIVATE,
    Records,
    given_domain,
    given_settings,
    named_range,
    on_grid,
    public_numbers,
    public_seed,
    relation,
)
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import OUTSIDE_BOUNDS
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.central import Drawing, release
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import RunSettings, Settings, check_expected
from fastlloyd.mechanisms.two_stages import TwoStages, placeholder
from fastlloyd.records.bounds import parse_bounds
from fastlloyd.reports.bounds_result import BoundsResult, FirstStage

if TYPE_CHECKING:
    from fastlloyd.mechanisms.engines.engine import Engine

NEEDED = (
    "state a public range that surely holds all values, --range LO:HI, in which they are looked for"
)
OUTSIDE_RANGE = (
    "the value lies outside --range; correct it, state a wider range from public knowledge, or clip"
    " such values with --outside clip"
)


class Kind(enum.Enum):
    """What a plan is for."""

    CLUSTERING = "clustering"
    BOUNDS = "bounds"


def are_wanted(options: MechanismOptions, value_range: str | None) -> bool:
    """Whether bounds are to be found. Raises PlanError for options that say both, or half of it."""
    if value_range is None:
        if options.bounds == PRIVATE:
            raise PlanError(f"--range is missing, for bounds that are found privately: {NEEDED}")
        return False
    if options.bounds not in (None, PRIVATE):
        raise PlanError(
            "--bounds states bounds, and --range has them found privately; leave one of them out"
        )
    return True


def given_range(
    value_range: str, columns: Sequence[str], others: Sequence[str] | None = ()
) -> Domain:
    """The outer range of the columns. Raises DataError or PlanError, which name the option."""
    with named_range():
        lower, upper = parse_bounds(value_range, columns, others)
        return outer_range(columns, lower.tolist(), upper.tolist())


def bounds_settings(
    options: GuaranteeOptions | MechanismOptions,
    outer: Domain,
    n_records: int,
    of: Persons | None,
    leaks: tuple[str, ...] = (),
    seed: str | None = None,
) -> BoundsSettings:
    """What a run that finds bounds and nothing else is designed from. Raises PlanError or
    BudgetError.
    """
    check_expected(options.n_expected, n_records, of)
    return BoundsSettings(
        domain=outer,
        n_records=n_records,
        epsilon=1.0 if options.epsilon is None else options.epsilon,
        delta=options.delta,
        public_seed=public_seed(seed),
        n_expected=options.n_expected,
        neighboring_relation=relation(options),
        persons=of,
        taken_from_the_data=leaks or None,
    )


def check_kind(kind: str, options: PlanOptions, value_range: str | None) -> None:
    """Raise PlanError for options that a plan of this kind lacks, or has no use for."""
    if choose(Kind, kind, "kind") is Kind.CLUSTERING:
        if options.n_clusters is None:
            raise PlanError("--n-clusters is missing (number of clusters); --help says more")
        if value_range is not None:
            raise PlanError(
                "--range has no effect on a plan of a clustering; state --bounds, or say --kind"
                " bounds"
            )
        if options.bounds in (None, FROM_DATA):
            raise PlanError(
                "a plan needs --bounds: public bounds of every feature, chosen without looking at"
                " the data"
            )
        return
    if value_range is None:
        raise PlanError(f"--range is missing: {NEEDED}")
    used = {field.name for field in dataclasses.fields(GuaranteeOptions)} | {"public_seed"}
    for field in dataclasses.fields(options):
        if field.name not in used and getattr(options, field.name) != field.default:
            raise PlanError(
                f"--{field.name.replace('_', '-')} has no effect on a plan of kind bounds; leave"
                " it out"
            )


def planned(
    kind: str,
    options: PlanOptions,
    value_range: str | None,
    columns: Sequence[str],
    n_records: int,
    of: Persons | None,
) -> RunSettings:
    """What a plan of this kind is designed from, options being checked. Raises DataError, PlanError
    or BudgetError.
    """
    if choose(Kind, kind, "kind") is Kind.BOUNDS:
        outer = given_range(value_range or "", columns, others=None)
        return bounds_settings(options, outer, n_records, of, seed=options.public_seed)
    domain = given_domain(options.bounds or "", columns, options.scaling, others=None)
    return given_settings(options, domain, n_records, of)


def find(
    first: BoundsMechanism,
    records: Records,
    outside: str,
    workers: "Engine | None",
    drawing: Drawing,
    owner: screen.OwnersScreen,
) -> FoundBounds:
    """Look for bounds in the records; values outside the outer range are clipped, or refused.
    Spends what it says.
    """
    X = on_grid(records, first.domain, outside)
    with (
        _of_range(),
        persons.answering(first, records, X)
        or engines.answering(records, X, outside, workers) as answering,
    ):
        found = release(first, answering, SystemNoise(), drawing)
    owner.clipped(X.clipped, first.domain.features, ends="--range")
    return found


@contextmanager
def _of_range() -> Iterator[None]:
    """Have what is refused of a value speak of the range, which takes the place of the bounds."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace(OUTSIDE_BOUNDS, OUTSIDE_RANGE)) from None


class Narrowed(NamedTuple):
    """What was found first, what the clustering is designed from after that, what was taken from
    the data, and how both stages are charged.
    """

    first: FirstStage
    settings: Settings[Any]
    leaks: tuple[str, ...]
    charging: Charging


def narrow(
    options: MechanismOptions,
    records: Records,
    missing: str,
    outside: str,
    workers: "Engine | None",
    of: Persons | None,
    till: Till,
    paid: ExitStack,
    owner: screen.OwnersScreen,
) -> Narrowed:
    """Find bounds with a part of the budget; options : with the outer range as bounds.

    till : where both stages are charged. paid : encloses both. Raises PlanError or BudgetError,
    before anything is spent, where either stage cannot be planned.
    """
    outer = given_range(options.bounds or "", records.columns, records.others)
    _, n_records, leaks = public_numbers(
        replace(options, scaling=Scaling.PER_FEATURE.value), records, missing, of
    )
    box = placeholder(outer, scaling=choose(Scaling, options.scaling, "scaling"))
    stages = TwoStages.of(given_settings(options, box, n_records, of, leaks), outer)
    run = paid.enter_context(till.charged(stages.first, leaks, stages=stages))
    with terminal.moving("looking for bounds"):
        found = find(stages.first, records, outside, workers, run.drawing, owner)
    result = BoundsResult(mechanism=stages.first, bounds=found)
    for sentence in screen.of_bounds(result):
        typer.echo(f"Note: {sentence}", err=True)
    first = FirstStage(result=result, epsilon=stages.epsilon)
    with after(first):
        return Narrowed(first, stages.second(found), leaks, run)


@contextmanager
def after(first: FirstStage | None) -> Iterator[None]:
    """Have what is refused say what was spent before, if anything was."""
    try:
        yield
    except FastLloydError as error:
        if first is None:
            raise
        raise type(error)(f"{error}; {first.stays_spent}") from None
