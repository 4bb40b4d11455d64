"""Read a specification from TOML: sets, methods, epsilons, options and runs, and the trials that
follow from them.

A wrong value of a field is refused in one sentence that names the field. A name with braces stands
for several names, as in a shell.
"""

import itertools
import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fastlloyd.base.names import fraction, unknown_name
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import DataError, PlanError
from fastlloyd.mechanisms.catalogue import preset as check_preset
from fastlloyd_lab.datasets import n_clusters
from fastlloyd_lab.experiments.measures import MEASURES, check_figures
from fastlloyd_lab.experiments.methods import Method, Option, check_option, load_method
from fastlloyd_lab.experiments.reading import FIXED
from fastlloyd_lab.experiments.references import is_reference, resolve
from fastlloyd_lab.experiments.trial import Trial

MAX_TRIALS = 1_000_000  # of which half a gigabyte is held
MAX_NAMES = 10_000  # that one name with braces stands for
MAX_RUNS, MAX_CLIENTS = 100_000, 1000


Runs = Annotated[int, Meta(ge=1, le=MAX_RUNS)]
Clients = Annotated[int, Meta(ge=1, le=MAX_CLIENTS)]
Epsilons = Annotated[
    tuple[Annotated[float, Meta(gt=0, le=sys.float_info.max)], ...], Meta(min_length=1)
]
Delta = Annotated[float, Meta(gt=0, lt=1)] | Literal["paper"]
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
Values = Annotated[tuple[Option, ...], Meta(min_length=1)]


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Settings of trials. If a setting of a grid is None, the setting of the specification
    applies.
    """

    runs: Runs | None = None
    epsilons: Epsilons | None = None
    measures: Names | None = None
    clients: Clients | None = None
    delta: Delta | None = None
    preset: str | None = None


class Grid(Settings, frozen=True, kw_only=True):
    """Combination of sets and methods: every method runs on every set.

    options : lists of values of swept options. All combinations are run. A method takes only the
        options that it knows.
    """

    datasets: Names
    methods: Names
    options: dict[str, Values] = {}


class Quick(Settings, frozen=True, kw_only=True):
    """Settings that `--quick` uses in every grid. If `grid` is given, it replaces all grids."""

    grid: tuple[Grid, ...] | None = None


class Spec(Settings, frozen=True, kw_only=True, omit_defaults=False):
    """Specification of an experiment.

    figures : names of the figures to draw.
    seed : seed of all random choices.
    """

    title: str
    runs: Runs
    epsilons: Epsilons
    measures: Names
    grid: tuple[Grid, ...]
    figures: tuple[str, ...] = ()
    seed: int = 1
    clients: Clients = 2
    delta: Delta = "paper"
    preset: str = "paper"
    quick: Quick | None = None


def read(path: Path, *, quick: bool = False) -> Spec:
    """Return the specification in a file.

    quick : whether to apply its table `[quick]`.

    Raises PlanError if the file cannot be read, or if a field is wrong. The message names the file
    and the field.
    """
    text = load_text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path} is not valid TOML: {error}") from None
    except (RecursionError, ValueError):  # endless brackets, endless digits
        raise PlanError(f"{path} has content that no specification has") from None
    try:
        spec = from_content(content)
        return _checked(_quickened(spec) if quick else spec)
    except (PlanError, DataError) as error:
        raise PlanError(f"{path}: {error}") from None


def from_content(content: Mapping[str, Any]) -> Spec:
    """Return the specification in a tree of tables, lists, texts and numbers.

    Raises PlanError if a field has a value that it cannot have.
    """
    _check_table(content, Spec, "")
    _check_grids(content["grid"], "grid")
    quick = content.get("quick", {})
    _check_table(quick, Quick, "in [quick], ")
    _check_grids(quick.get("grid", ()), "quick.grid")
    return msgspec.convert(content, Spec)


def trials(spec: Spec, folder: Path) -> list[Trial]:
    """Return every trial once, in the order of the specification.

    folder : folder of the code files that the specification names.

    Raises PlanError or DataError for unknown methods, sets and options, and if grids give one trial
    different settings.
    """
    found: dict[str, Trial] = {}
    names: dict[str, str] = {}
    for grid in spec.grid:
        for trial in _trials(spec, grid, folder):
            if names.setdefault(trial.method, trial.method_source) != trial.method_source:
                raise PlanError(
                    f"{names[trial.method]} and {trial.method_source} both have the name"
                    f" {trial.method!r}; rename one"
                )
            if found.setdefault(trial.key, trial) != trial:
                raise PlanError(
                    f"two grids ask for {trial.method} on {trial.dataset} with different delta,"
                    " preset or measures; split the specification in two"
                )
            if len(found) > MAX_TRIALS:
                raise PlanError(
                    f"the specification asks for more than {MAX_TRIALS:,} trials; split it"
                )
    return list(found.values())


def references(spec: Spec) -> list[str]:
    """Return the references to objects of code in the specification."""
    every = (name for grid in spec.grid for name in _expanded((*grid.methods, *grid.datasets)))
    return list(dict.fromkeys(filter(is_reference, every)))


def _trials(spec: Spec, grid: Grid, folder: Path) -> Iterable[Trial]:
    settings = msgspec.structs.replace(spec, **_set(grid))
    sets = _expanded(grid.datasets)
    for name in sets:
        if is_reference(name):  # whether there is such a set is said now and not in a trial
            resolve(name, folder)
        else:
            n_clusters(name)
    methods = [(source, load_method(source, folder)) for source in _expanded(grid.methods)]
    known = sorted(frozenset().union(*(method.options for _, method in methods)))
    for name in grid.options:
        if name not in known:
            raise PlanError(f"option {unknown_name(name, known)}: what the grid's methods take")
    _check_number(settings, grid, len(sets), [method for _, method in methods])
    for name, (source, method) in itertools.product(sets, methods):
        private = method.private
        for options, epsilon, run in itertools.product(
            _combinations(grid, method),
            settings.epsilons if private else (math.inf,),
            range(settings.runs),
        ):
            yield Trial(
                dataset=name,
                method=method.name,
                method_source=source,
                epsilon=epsilon,
                delta=settings.delta if private else 0.0,
                clients=settings.clients,
                preset=settings.preset,
                options=options,
                run=run,
                measures=settings.measures,
                seed=spec.seed,
            )


def _set(settings: Settings) -> dict[str, Any]:
    """Return the fields of `settings` that are not None, by name."""
    return {
        name: value
        for name in Settings.__struct_fields__
        if (value := getattr(settings, name)) is not None
    }


def _check_number(settings: Spec, grid: Grid, n_sets: int, methods: Sequence[Method]) -> None:
    """Raise PlanError if there would be too many trials. Call this before any trial is made,
    because the number of combinations of options may be very large.
    """
    kinds = [
        math.prod(len(values) for name, values in grid.options.items() if name in method.options)
        * (len(settings.epsilons) if method.private else 1)
        for method in methods
    ]
    if (n := n_sets * settings.runs * sum(kinds)) > MAX_TRIALS:
        raise PlanError(
            f"a grid of the specification asks for {n:,} trials; expected at most {MAX_TRIALS:,}:"
            " split it"
        )


def _combinations(grid: Grid, method: Method) -> list[dict[str, Option]]:
    taken = [name for name in grid.options if name in method.options]
    return [
        dict(zip(taken, values, strict=True))
        for values in itertools.product(*(grid.options[name] for name in taken))
    ]


def _expanded(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for text in names for name in expand(text)))


def _quickened(spec: Spec) -> Spec:
    """Return `spec` with the values that its table `[quick]` sets.

    If both `[quick]` and a grid inside `[quick]` set a value, the value of the grid is used. Raises
    PlanError without `[quick]`.
    """
    if spec.quick is None:
        raise PlanError(
            "there is no [quick] table, so --quick has nothing to set; add one, or leave"
            " --quick out"
        )
    instead = _set(spec.quick)
    grids = spec.quick.grid or tuple(
        msgspec.structs.replace(grid, **dict.fromkeys(instead, None)) for grid in spec.grid
    )
    return msgspec.structs.replace(spec, quick=None, grid=grids, **instead)


def _checked(spec: Spec) -> Spec:
    """Return the specification after a check. Raises PlanError or DataError for a name without a
    meaning, or a value that no method accepts.
    """
    check_figures(spec.figures)
    for settings in (spec, *spec.grid):
        if settings.preset is not None:
            check_preset(settings.preset)
        for name in settings.measures or ():
            if name not in MEASURES:
                raise PlanError(f"measure {unknown_name(name, list(MEASURES))}")
    spellings: dict[object, Option] = {}
    for name, value in (
        (name, value)
        for grid in spec.grid
        for name, values in grid.options.items()
        for value in values
    ):
        if name in FIXED or name in MEASURES:
            raise PlanError(
                f"option {name!r} has the name of a column of the results; give it another"
            )
        check_option(name, value)
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(f"option {name} is {value}; expected a finite number")
        # 1 and 1.0: the trials of such a value would be run twice, as if they were others
        # true is not 1
        worth = fraction(value, name) if name == "alpha" else (isinstance(value, bool), value)
        first = spellings.setdefault((name, worth), value)
        if repr(first) != repr(value):
            raise PlanError(
                f"option {name} has one value in two spellings, {first!r} and {value!r}; write it"
                " in one way"
            )
    return spec


# What each field may hold

_Tables = Annotated[tuple[dict[str, Any], ...], Meta(min_length=1)]
# looked into one by one
_OF_TABLES: dict[str, Any] = {"grid": _Tables, "quick": dict[str, Any], "options": dict[str, Any]}
_EXPECTED = {
    "title": 'a text, such as title = "NICV against epsilon"',
    "runs": f"a whole number from 1 to {MAX_RUNS:,}",
    "epsilons": "a list of numbers above 0 with one at least, such as [0.5, 1.0]",
    "measures": 'a list of measures with one at least, such as ["nicv"]',
    "clients": f"a whole number from 1 to {MAX_CLIENTS:,}",
    "delta": 'a number above 0 and below 1, or "paper"',
    "preset": 'the name of a preset, such as "paper"',
    "grid": "one table or more, each below a line [[grid]]",
    "figures": 'a list of figures, such as ["curves"], or []',
    "seed": "a whole number",
    "quick": "a table below a line [quick]",
    "datasets": 'a list of names of data sets with one at least, such as ["iris", "s1"]',
    "methods": 'a list of names with one at least, such as ["lloyd", "fastlloyd"]',
    "options": "a table below a line [grid.options]",
}
_EXPECTED_OF_QUICK = _EXPECTED | {"grid": "one table or more, each below a line [[quick.grid]]"}
_EXPECTED_OF_OPTION = (
    "a list of numbers, texts, or true and false with one at least, such as alpha = [0.4, 0.8]"
)


def _check_grids(grids: Sequence[Mapping[str, Any]], name: str) -> None:
    for number, grid in enumerate(grids, 1):
        place = f"in [[{name}]]{f' number {number}' if len(grids) > 1 else ''}, "
        _check_table(grid, Grid, place)
        for option, values in grid.get("options", {}).items():
            _check_field(values, Values, _EXPECTED_OF_OPTION, f"{place}option {option}")


def _check_table(table: Mapping[str, Any], kind: type[Settings], place: str) -> None:
    expected = _EXPECTED_OF_QUICK if kind is Quick else _EXPECTED
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for name in table:
        if name not in fields:
            raise PlanError(f"{place}key {unknown_name(name, list(fields))}")
    for name, field in fields.items():
        if field.required and name not in table:
            raise PlanError(f"{place}{name} is missing; add {expected[name]}")
    for name, value in table.items():
        _check_field(
            value, _OF_TABLES.get(name, fields[name].type), expected[name], f"{place}{name}"
        )


def _check_field(value: Any, kind: Any, expected: str, said: str) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        shown = (
            "a table"
            if isinstance(value, dict)
            else str(value).lower()
            if isinstance(value, bool)
            else f"{value!r:.80}"
        )
        raise PlanError(f"{said} is {shown}; expected {expected}") from None


# Names in short


def expand(text: str) -> list[str]:
    """Return the names that a text with braces stands for, such as "synth-{2,4}-{1,2,3}". The last
    brace varies fastest.

    Raises PlanError if a brace has no partner, contains another brace, or has a single item. Also
    raises PlanError for more than 10,000 names, which are counted before any is made.
    """
    pieces = re.split(r"\{([^{}]*)\}", text)
    choices = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    if set("{}") & {*"".join(pieces)} or any(len(items) < 2 for items in choices[1::2]):
        raise PlanError(
            f"{text!r:.80} has a brace without a partner, within another or with a single item;"
            " write it as in {2,4}"
        )
    if (n := math.prod(map(len, choices))) > MAX_NAMES:
        raise PlanError(
            f"{text!r:.80} stands for {n:,} names; expected at most {MAX_NAMES:,}: write it as"
            " several shorter ones"
        )
    return list(map("".join, itertools.product(*choices)))
