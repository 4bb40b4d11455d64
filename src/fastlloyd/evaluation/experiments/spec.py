"""What is to be run, read from TOML: sets, methods, epsilons, options, runs; and every trial it asks for, in order."""

import itertools
import math
import tomllib
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fastlloyd.base import extras
from fastlloyd.base.names import unknown_name
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.errors import DataError, PlanError
from fastlloyd.evaluation.experiments import fields
from fastlloyd.evaluation.experiments.braces import expand
from fastlloyd.evaluation.experiments.measures import MEASURES
from fastlloyd.evaluation.experiments.methods import Method, Option, check_option, load_method
from fastlloyd.evaluation.experiments.problem import check_name
from fastlloyd.evaluation.experiments.references import is_reference
from fastlloyd.evaluation.experiments.trial import FIXED, Trial
from fastlloyd.evaluation.pictures import check_names
from fastlloyd.mechanisms.catalogue import fraction
from fastlloyd.mechanisms.catalogue import preset as check_preset

MAX_TRIALS = 1_000_000  # of which half a gigabyte is held
Runs = Annotated[int, msgspec.Meta(ge=1, le=fields.MOST_RUNS)]
Clients = Annotated[int, msgspec.Meta(ge=1, le=fields.MOST_CLIENTS)]
Names = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
Epsilons = Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]
Delta = float | Literal["paper"]
Values = Annotated[tuple[Option, ...], msgspec.Meta(min_length=1)]


class Grid(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sets and methods that are run with each other; what is None is that of the specification.

    options : swept, the product of all lists; a method takes those it knows.
    """

    datasets: Names
    methods: Names
    options: dict[str, Values] = {}
    runs: Runs | None = None
    epsilons: Epsilons | None = None
    measures: Names | None = None
    clients: Clients | None = None
    delta: Delta | None = None
    preset: str | None = None


class Quick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What `--quick` sets instead, in every grid; `grid` takes the place of all of them."""

    grid: Annotated[tuple[Grid, ...], msgspec.Meta(min_length=1)] | None = None
    runs: Runs | None = None
    epsilons: Epsilons | None = None
    measures: Names | None = None
    clients: Clients | None = None
    delta: Delta | None = None
    preset: str | None = None


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A specification. `figures` names the pictures that are drawn of it; `seed` determines everything that is drawn."""

    title: str
    runs: Runs
    epsilons: Epsilons
    measures: Names
    grid: Annotated[tuple[Grid, ...], msgspec.Meta(min_length=1)]
    figures: tuple[str, ...] = ()
    seed: int = 1
    clients: Clients = 2
    delta: Delta = "paper"
    preset: str = "paper"
    quick: Quick | None = None


_SET_ANEW = ("runs", "epsilons", "measures", "clients", "delta", "preset")


def read(path: Path, *, quick: bool = False) -> Spec:
    """The specification in a file, with what `[quick]` sets if that is wanted. Raises PlanError naming file and field."""
    text = load_text(path).removeprefix("\ufeff")  # a mark of byte order, as some editors put there
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path} is not valid TOML: {error}") from None
    except (RecursionError, ValueError):  # endless brackets, endless digits
        raise PlanError(f"{path} holds what no specification holds") from None
    try:
        fields.check(content)
        spec = msgspec.convert(content, Spec)
        return _checked(_quickened(spec) if quick else spec)
    except msgspec.ValidationError:  # such as a number that no float holds
        raise PlanError(f"{path} holds what no specification holds") from None
    except (PlanError, DataError) as error:
        raise PlanError(f"{path}: {error}") from None


def trials(spec: Spec, folder: Path) -> list[Trial]:
    """Every trial, once, in the order of the specification. folder : where the files of code lie that it names.

    Raises PlanError or DataError for methods, sets and options that there are not, and where two grids ask for one trial in
    two ways.
    """
    found: dict[str, Trial] = {}
    names: dict[str, str] = {}
    for grid in spec.grid:
        for trial in _trials(spec, grid, folder):
            if names.setdefault(trial.method, trial.method_source) != trial.method_source:
                raise PlanError(
                    f"{names[trial.method]} and {trial.method_source} both have the name {trial.method!r}; rename one"
                )
            if found.setdefault(trial.key, trial) != trial:
                raise PlanError(
                    f"two grids ask for {trial.method} on {trial.dataset} with different delta, preset or measures; "
                    "make it two specifications"
                )
            if len(found) > MAX_TRIALS:
                raise PlanError(f"the specification asks for more than {MAX_TRIALS:,} trials; make it several")
    return list(found.values())


def references(spec: Spec) -> list[str]:
    """What the specification says for objects of code."""
    every = (name for grid in spec.grid for name in _expanded((*grid.methods, *grid.datasets)))
    return list(dict.fromkeys(filter(is_reference, every)))


def _trials(spec: Spec, grid: Grid, folder: Path) -> Iterable[Trial]:
    sets = _expanded(grid.datasets)
    for name in sets:
        check_name(name, folder)
    methods = [(source, load_method(source, folder)) for source in _expanded(grid.methods)]
    _check_options(grid, [method for _, method in methods])
    _check_number(spec, grid, len(sets), [method for _, method in methods])
    for name, (source, method) in itertools.product(sets, methods):
        private = method.private
        for options, epsilon, run in itertools.product(
            _combinations(grid, method), _of(spec, grid, "epsilons") if private else (math.inf,), range(_of(spec, grid, "runs"))
        ):
            yield Trial(
                dataset=name,
                method=method.name,
                method_source=source,
                epsilon=epsilon,
                delta=_of(spec, grid, "delta") if private else 0.0,
                clients=_of(spec, grid, "clients"),
                preset=_of(spec, grid, "preset"),
                options=options,
                run=run,
                measures=_of(spec, grid, "measures"),
                seed=spec.seed,
            )


def _check_number(spec: Spec, grid: Grid, n_sets: int, methods: Sequence[Method]) -> None:
    """Refuse too many trials before any is made: lists of options multiply."""
    runs, epsilons = _of(spec, grid, "runs"), len(_of(spec, grid, "epsilons"))
    swept_by = [[values for name, values in grid.options.items() if name in method.options] for method in methods]
    kinds = [
        math.prod(map(len, lists)) * (epsilons if method.private else 1)
        for method, lists in zip(methods, swept_by, strict=True)
    ]
    if (n := n_sets * runs * sum(kinds)) > MAX_TRIALS:
        raise PlanError(f"a grid of the specification asks for {n:,} trials; expected at most {MAX_TRIALS:,}: make it several")


def _combinations(grid: Grid, method: Method) -> list[dict[str, Option]]:
    taken = [name for name in grid.options if name in method.options]
    return [dict(zip(taken, values, strict=True)) for values in itertools.product(*(grid.options[name] for name in taken))]


def _of(spec: Spec, grid: Grid, field: str) -> Any:
    own = getattr(grid, field)
    return getattr(spec, field) if own is None else own


def _expanded(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for text in names for name in expand(text)))


def _quickened(spec: Spec) -> Spec:
    """What `[quick]` names, everywhere; its own grids, where they name it too, win."""
    if spec.quick is None:
        raise PlanError("there is no [quick] table, so --quick has nothing to set; add one, or leave --quick out")
    instead = {name: value for name in _SET_ANEW if (value := getattr(spec.quick, name)) is not None}
    grids = spec.quick.grid or tuple(msgspec.structs.replace(grid, **dict.fromkeys(instead, None)) for grid in spec.grid)
    return msgspec.structs.replace(spec, quick=None, grid=grids, **instead)


def _checked(spec: Spec) -> Spec:
    _check_values(spec.epsilons, spec.delta, spec.preset, spec.measures)
    check_names(spec.figures)
    for grid in spec.grid:
        _check_values(grid.epsilons, grid.delta, grid.preset, grid.measures)
        for name, values in grid.options.items():
            if name in FIXED or name in MEASURES:
                raise PlanError(f"option {name!r} has the name of a column of the results; give it another")
            for value in values:
                check_option(name, value)
                if isinstance(value, float) and not math.isfinite(value):
                    raise PlanError(f"option {name} is {value}; expected a finite number")
    _check_spellings(spec.grid)
    return spec


def _check_spellings(grids: Iterable[Grid]) -> None:
    """Refuse a value that is written in two ways, such as 1 and 1.0: its trials would be run twice, as if they were others."""
    spellings: dict[object, Option] = {}
    for name, value in ((name, value) for grid in grids for name, values in grid.options.items() for value in values):
        worth = fraction(value, name) if name == "alpha" else (isinstance(value, bool), value)  # true is not 1
        first = spellings.setdefault((name, worth), value)
        if repr(first) != repr(value):
            raise PlanError(f"option {name} has one value in two spellings, {first!r} and {value!r}; write it in one way")


def _check_values(
    epsilons: Iterable[float] | None, delta: float | str | None, preset: str | None, measures: Iterable[str] | None
) -> None:
    for epsilon in epsilons or ():
        if not 0 < epsilon < math.inf:
            raise PlanError(f"epsilon {epsilon} is not usable; expected a finite number above 0")
    if isinstance(delta, float) and not 0 < delta < 1:
        raise PlanError(f'delta is {delta}; expected a number above 0 and below 1, or "paper"')
    if preset is not None:
        check_preset(preset)
    for name in measures or ():
        if name not in MEASURES:
            raise PlanError(f"measure {unknown_name(name, list(MEASURES))}")
        if (needed := MEASURES[name].needs) and find_spec(needed) is None:
            raise PlanError(f"measure {name!r} needs scikit-learn, which is not installed: {extras.command(needed)}")


def _check_options(grid: Grid, methods: Sequence[Method]) -> None:
    known = sorted(frozenset().union(*(method.options for method in methods)))
    for name in grid.options:
        if name not in known:
            raise PlanError(f"option {unknown_name(name, known)}: what the grid's methods take")
