"""From options, and from the records where an option is left out, to the public settings of a run."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import parse_columns
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli.options import MechanismOptions
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, DataError, PlanError
from fastlloyd.mechanisms.catalogue import (
    AnyAlgorithm,
    algorithm,
    check_expected,
    check_no_effect,
    choose,
    fraction,
    preset,
    variant,
)
from fastlloyd.mechanisms.central import check_cap
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import check_alpha
from fastlloyd.mechanisms.loss import check_loss_share
from fastlloyd.mechanisms.mechanism import MAX_RECORDS, check_numbers
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentAlgorithm
from fastlloyd.records import Missing, RecordFile, Table, read_table, table_or_file
from fastlloyd.records.bounds import data_bounds, parse_bounds

FROM_DATA = "from-data"
BOUNDS_LEAK = (
    "bounds were taken from the data: the smallest and largest value of every column leak, and the guarantee does not hold; "
    "state bounds that are known without looking at the data"
)
N_RECORDS_LEAK = (
    "n_records was taken from the data: the number of records leaks{delta}, and the guarantee does not hold; state a round "
    "number above it"
)
NEEDED = {
    "--bounds": "the smallest and largest value that every column can have, known without looking at the data (`fastlloyd "
    "bounds template` makes a form)",
    "--n-records": "a round number above the number of records",
}

Records = Table | RecordFile


class PublicNumbers(NamedTuple):
    """The domain, the cap on the number of records, and what was taken from the data although it is protected."""

    domain: Domain
    n_records: int
    leaks: tuple[str, ...]


def check_options(options: MechanismOptions, missing: str, outside: str) -> None:
    """Refuse, before any record is read, what no records could make right: options out of range, unknown or without effect."""
    choose(Missing, missing, "missing")
    choose(Outside, outside, "outside")
    choose(Scaling, options.scaling, "scaling")
    _refuse_without_public_numbers(options)
    cap = given_cap(options) or MAX_RECORDS
    epsilon = design_arguments(options, cap)["epsilon"]
    chosen = chosen_algorithm(options)
    check_numbers(options.n_clusters, cap, epsilon, chosen.noise)
    if isinstance(chosen, Algorithm):
        check_alpha(chosen)
    check_loss_share(options.loss_share, estimate_loss=options.loss)


def read_records(data: Path, columns: str | None, missing: str) -> Records:
    """The records of a file, all columns or those chosen; a file with very many is read in passes."""
    return table_or_file(data, _chosen_columns(columns), missing=choose(Missing, missing, "missing"))


def read_all(data: Path, columns: str | None, missing: str) -> Table:
    """The same, all at once."""
    return read_table(data, _chosen_columns(columns), missing=choose(Missing, missing, "missing"))


def _chosen_columns(columns: str | None) -> list[str] | None:
    return None if columns is None else parse_columns(columns)


def public_numbers(options: MechanismOptions, records: Records, missing: str) -> PublicNumbers:
    """What the options say, or the data where they do not; refuses more records than the cap as soon as they are counted.

    Replacing one record leaves their number as it is, so that under replace_one it may be taken from the data; but not where
    records with missing cells are dropped: whether a record counts then depends on what it says.
    """
    leaks = []
    if options.bounds in (None, FROM_DATA):
        domain = _domain_of_data(records, choose(Scaling, options.scaling, "scaling"))
        leaks.append(BOUNDS_LEAK)
    else:
        domain = given_domain(options.bounds, records.columns, options.scaling, records.others)
    n_records = given_cap(options)
    if n_records is None:
        n_records = sum(np.shape(block)[0] for block in records.blocks())
        if relation(options) is NeighboringRelation.ADD_OR_REMOVE_ONE or choose(Missing, missing, "missing") is Missing.DROP:
            leaks.append(N_RECORDS_LEAK.format(delta=", also through delta" if options.delta is None else ""))
        if options.n_clusters > n_records:  # said without their number
            raise DataError(f"n_clusters is {options.n_clusters}, and there are fewer records; ask for fewer clusters")
    elif isinstance(records, Table):
        check_cap(len(records.values), n_records)
    return PublicNumbers(domain, n_records, tuple(leaks))


def given_cap(options: MechanismOptions) -> int | None:
    """The cap on the number of records that is stated, None where the data are to say it. Raises PlanError."""
    text = options.n_records
    if text in (None, FROM_DATA):
        return None
    if not re.fullmatch(r"[-+]?[0-9]{1,40}", text):
        raise PlanError(f"--n-records is {text!r:.80}; expected an integer, 1 or more, or {FROM_DATA}")
    if int(text) < 1:
        raise PlanError(f"n_records is {int(text)}; expected 1 or more, a round number above the number of records")
    return int(text)


def _refuse_without_public_numbers(options: MechanismOptions) -> None:
    """What is taken from the data is taken by those who say so: the result is not private."""
    given = {"--bounds": options.bounds, "--n-records": options.n_records}
    missing = {name: what for name, what in NEEDED.items() if given[name] is None}
    if missing:
        stated, taken = ", and ".join(missing.values()), " ".join(f"{name} {FROM_DATA}" for name in missing)
        names = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise PlanError(f"{names}: state {stated}; or take it from the data with {taken}: NOT PRIVATE")


def on_grid(records: Records, domain: Domain, outside: str) -> GridRecords:
    """The records as grid points, pass after pass; a value outside the bounds is clipped and counted, or refused."""
    return GridRecords(records, domain, choose(Outside, outside, "outside"), source=records.source)


def given_domain(bounds: str, columns: Sequence[str], scaling: str, others: Sequence[str] | None = ()) -> Domain:
    """The domain of public bounds, which may be stated for further columns too."""
    lower, upper = parse_bounds(bounds, columns, others)
    return _domain(columns, lower, upper, choose(Scaling, scaling, "scaling"))


def chosen_algorithm(options: MechanismOptions) -> AnyAlgorithm:
    """The algorithm named, with the fields that the ablation options replace."""
    named = preset(options.preset).algorithm if options.algorithm is None else options.algorithm
    return variant(
        algorithm(named),
        noise=options.noise,
        radius=options.radius,
        postprocessing=options.postprocessing,
        clipping=options.clipping,
        alpha=options.alpha,
    )


def relation(options: MechanismOptions) -> NeighboringRelation:
    """The neighbouring relation named; spelled with underscores, or with dashes as options are."""
    return choose(NeighboringRelation, options.neighboring_relation.replace("-", "_"), "neighboring_relation")


def design_arguments(options: MechanismOptions, n_records: int) -> dict[str, Any]:
    """What `design_mechanism` and `design_plan` have in common, after algorithm and domain."""
    _refuse_without_effect(options)
    check_expected(options.n_expected, n_records)
    chosen = preset(options.preset)
    if options.delta is not None and not 0 < options.delta < 1:
        raise BudgetError(f"delta is {options.delta}; expected a number above 0 and below 1, such as 1e-6")
    common = {
        "n_clusters": options.n_clusters,
        "n_records": n_records,
        "epsilon": 1.0 if options.epsilon is None else options.epsilon,
        "delta": chosen.delta(n_records) if options.delta is None else options.delta,
        "public_seed": public_seed(options.public_seed),
        "n_expected": options.n_expected,
        "neighboring_relation": relation(options),
        "estimate_loss": options.loss,
        "loss_share": None if options.loss_share is None else fraction(options.loss_share, "loss_share"),
    }
    if not isinstance(chosen_algorithm(options), Algorithm):
        return common
    return common | {
        "n_iterations": options.iterations,
        "initialization": chosen.initialization
        if options.initialization is None
        else choose(RadiusSearch, options.initialization, "initialization"),
        "min_count": chosen.min_count if options.min_count is None else fraction(options.min_count, "min_count"),
    }


def _refuse_without_effect(options: MechanismOptions) -> None:
    """A budget that the algorithm does not spend was meant for another one."""
    chosen = chosen_algorithm(options)
    if isinstance(chosen, MomentAlgorithm):
        no_use = {"iterations": options.iterations, "initialization": options.initialization, "min-count": options.min_count}
        check_no_effect(chosen, {f"--{name}": value for name, value in no_use.items()})
    noise = chosen.noise
    if noise is Noise.GAUSSIAN:
        return
    of_no_use = {"delta": options.delta}
    reason = "has a guarantee without delta"
    if noise is Noise.NONE:
        of_no_use |= {"epsilon": options.epsilon, "loss-share": options.loss_share}
        reason = "adds no noise"
    for name, value in of_no_use.items():
        if value is not None:
            law = "" if options.noise is None else f" with {options.noise} noise"
            raise PlanError(f"--{name} has no effect: {chosen.name}{law} {reason}; leave --{name} out")


def public_seed(text: str | None) -> PublicSeed:
    """A fresh seed for None; the very seed for 64 hex digits, as a plan shows it; an integer; or any other text."""
    if text is None:
        return PublicSeed(os.urandom(32))
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return PublicSeed.from_hex(text)
    if re.fullmatch(r"[0-9]{1,80}", text):
        return PublicSeed.from_int(int(text))
    return PublicSeed.from_text(text)


def _domain_of_data(records: Records, scaling: Scaling) -> Domain:
    return Domain.of_data(records.columns, *data_bounds(records.blocks()), scaling=scaling)


def _domain(columns: Sequence[str], lower: FloatArray, upper: FloatArray, scaling: Scaling) -> Domain:
    return Domain(features=tuple(columns), lower=tuple(lower.tolist()), upper=tuple(upper.tolist()), scaling=scaling)
