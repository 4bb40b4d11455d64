"""From options, and from the records where an option is left out, to the public settings of a run,
and to its parties.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import asdict

from fastlloyd.base.names import choose, fraction, parse_columns
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.cli.options import (
    FederationOptions,
    GuaranteeOptions,
    MechanismOptions,
    NetworkOptions,
    StudyOptions,
)
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, FastLloydError, IdentityError, PlanError
from fastlloyd.federation.identity.certificates import certificates_in, parse_authority
from fastlloyd.federation.identity.identity import PRIVATE_HEADING, PUBLIC_HEADING, PublicIdentity
from fastlloyd.federation.plan.plan import Client, Masks, Plan, Server, Study, Timeouts, TrustMode
from fastlloyd.federation.positions import Positions
from fastlloyd.mechanisms.answering import check_cap
from fastlloyd.mechanisms.catalogue import algorithm, preset
from fastlloyd.mechanisms.lloyd.algorithm import VARIED
from fastlloyd.mechanisms.passes.spread import count_persons
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings, check_expected
from fastlloyd.records import Missing, RecordFile, Table, open_records
from fastlloyd.records.bounds import (
    TEMPLATE_HEADING,
    check_names_of_bounds,
    data_bounds,
    parse_bounds,
)
from fastlloyd.records.reading import at_once_if_few
from fastlloyd.records.table import ids_of

FROM_DATA, PRIVATE = "from-data", "private"
BOUNDS_LEAK = (
    "bounds were taken from the data: the smallest and largest value of every column leak, and the"
    " guarantee does not hold; state bounds that are known without looking at the data"
)
N_RECORDS_LEAK = (
    "n_records was taken from the data: the number of {many} leaks{delta}, and the guarantee does"
    " not hold; state a round number above it"
)
NEEDED = {
    "--bounds": (
        "the smallest and largest value that every column can have, known without looking at the"
        " data (`fastlloyd bounds template` makes a form)"
    ),
    "--n-records": "a round number above the number of {many}",
}
OF_A_FIT = (  # how the settings of a run of fit begin; a line of caution may stand before it
    "# A fastlloyd mechanism"
)
_NO_PLANS = {
    PRIVATE_HEADING: "a private identity, which is sent to nobody",
    PUBLIC_HEADING: "the public file of an identity",
    TEMPLATE_HEADING: "a file of public bounds",
}
STEPS = ("joining", "dealing", "round", "confirming")
_MAX_BYTES = 1 << 16  # of certificates and their chain

Records = Table | RecordFile


class PublicNumbers(NamedTuple):
    """The domain, the cap on the number of records, and what was taken from the data although it is
    protected.
    """

    domain: Domain
    n_records: int
    leaks: tuple[str, ...]


def check_options(
    options: MechanismOptions, missing: str, outside: str, persons: Persons | None = None
) -> None:
    """Refuse, before any record is read, what no records could make right: options out of range,
    unknown or without effect.
    """
    check_passes(missing, outside)
    choose(Scaling, options.scaling, "scaling")
    refuse_without({"--bounds": options.bounds, "--n-records": options.n_records}, unit(persons))
    unknown_yet = Domain(
        features=("x",), lower=(-1.0,), upper=(1.0,)
    )  # no setting is checked against it
    given_settings(options, unknown_yet, given_cap(options) or MAX_RECORDS, persons)


def check_passes(missing: str, outside: str) -> None:
    """Refuse unknown ways to treat missing cells, and values outside the bounds."""
    choose(Missing, missing, "missing")
    choose(Outside, outside, "outside")


def read_records(
    bounds: str | None,
    data: str,
    columns: str | None,
    missing: str,
    *,
    value_range: str | None = None,
    in_passes: bool = False,
    unit: str | None = None,
) -> Records:
    """The records of a source, all columns or those chosen; very many are read in passes, or
    however many there are.

    Bounds, or a range to find them in, that are none or are stated for what is no column are
    refused before any record is read. unit : the column that says whose they are.
    """
    wanted = None if columns is None else parse_columns(columns)
    file = open_records(data, wanted, missing=choose(Missing, missing, "missing"), unit=unit)
    if bounds not in (None, FROM_DATA, PRIVATE):
        check_names_of_bounds(bounds, file.columns, file.others)
    if value_range is not None:
        with named_range():
            check_names_of_bounds(value_range, file.columns, file.others)
    return file if in_passes else at_once_if_few(file)


@contextmanager
def named_range() -> Iterator[None]:
    """Have what is refused of a range name its option, which is written as bounds are."""
    try:
        yield
    except FastLloydError as error:
        raise type(error)(f"--range: {error}") from None


def public_numbers(
    options: MechanismOptions, records: Records, missing: str, persons: Persons | None = None
) -> PublicNumbers:
    """What the options say, or the data where they do not; refuses more records than the cap as
    soon as they are counted.
    """
    leaks = list[str]()
    if options.bounds in (None, FROM_DATA):
        scaling = choose(Scaling, options.scaling, "scaling")
        domain = Domain.of_data(records.columns, *data_bounds(records.blocks()), scaling=scaling)
        leaks.append(BOUNDS_LEAK)
    else:
        domain = given_domain(options.bounds, records.columns, options.scaling, records.others)
    n_records = public_cap(options, records, missing, persons, leaks)
    if given_cap(options) is None and options.n_clusters > n_records:  # said without their number
        raise DataError(
            f"n_clusters is {options.n_clusters}, and there are fewer {unit(persons).many}; ask for"
            " fewer clusters"
        )
    return PublicNumbers(domain, n_records, tuple(leaks))


def public_cap(
    options: GuaranteeOptions | MechanismOptions,
    records: Records,
    missing: str,
    persons: Persons | None,
    leaks: list[str],
) -> int:
    """The cap on the number of records, stated or, as `leaks` then says, from the data. Raises
    DataError for more records.

    Replacing one record leaves their number as it is, so that under replace_one it may be taken
    from the data; but not where records with missing cells are dropped: whether a record counts
    then depends on what it says. Nor that of persons: one who is replaced may have no row any more.
    """
    n_records = given_cap(options)
    if n_records is None:
        n_records = _number(records)
        is_fixed = persons is None and relation(options) is NeighboringRelation.REPLACE_ONE
        if not is_fixed or choose(Missing, missing, "missing") is Missing.DROP:
            delta = ", also through delta" if options.delta is None else ""
            leaks.append(N_RECORDS_LEAK.format(many=unit(persons).many, delta=delta))
    elif isinstance(records, Table) and persons is None:
        check_cap(len(records.values), n_records)
    return n_records


def _number(records: Records) -> int:
    """How many records there are, or persons where their ids were asked for."""
    if isinstance(records, Table) and records.ids is not None:
        return len(set(records.ids.texts()))
    if isinstance(records, RecordFile) and records.unit is not None:
        return count_persons(
            ids for block in records.column_blocks() if (ids := ids_of(block)) is not None
        )
    return sum(np.shape(block)[0] for block in records.blocks())


def given_cap(options: GuaranteeOptions | MechanismOptions) -> int | None:
    """The cap on the number of records that is stated, None where the data are to say it. Raises
    PlanError.
    """
    text = options.n_records
    if text in (None, FROM_DATA):
        return None
    if not re.fullmatch(r"[-+]?[0-9]{1,40}", text):
        raise PlanError(
            f"--n-records is {text!r:.80}; expected an integer, 1 or more, or {FROM_DATA}"
        )
    if int(text) < 1:
        raise PlanError(
            f"n_records is {int(text)}; expected 1 or more, a round number above the number of"
            " records"
        )
    return int(text)


def refuse_without(given: Mapping[str, str | None], unit: Unit) -> None:
    """Refuse to go on without bounds or a cap: only `from-data` takes them from the data, as the
    result is not private.
    """
    missing = {name: what for name, what in NEEDED.items() if given.get(name, "") is None}
    if missing:
        stated, taken = (
            ", and ".join(missing.values()),
            " ".join(f"{name} {FROM_DATA}" for name in missing),
        )
        names = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise PlanError(
            f"{names}: state {stated.format(many=unit.many)}; or take it from the data with"
            f" {taken}: NOT PRIVATE"
        )


def on_grid(records: Records, domain: Domain, outside: str) -> GridRecords:
    """The records as grid points, pass after pass; a value outside the bounds is clipped and
    counted, or refused.
    """
    return GridRecords(records, domain, choose(Outside, outside, "outside"), source=records.source)


def given_domain(
    bounds: str, columns: Sequence[str], scaling: str, others: Sequence[str] | None = ()
) -> Domain:
    """The domain of public bounds, which may be stated for further columns too."""
    if bounds == PRIVATE:
        raise PlanError(
            "--bounds private is for fit; of records at several places find the bounds first, by a"
            " plan of its own (`fastlloyd plan new --kind bounds`)"
        )
    return Domain.of_bounds(
        columns, *parse_bounds(bounds, columns, others), scaling=choose(Scaling, scaling, "scaling")
    )


def chosen_algorithm(options: MechanismOptions) -> AnyAlgorithm:
    """The algorithm named, with the fields that the ablation options replace."""
    named = algorithm(
        preset(options.preset).algorithm if options.algorithm is None else options.algorithm
    )
    return named.varied(**{name: getattr(options, name) for name in VARIED})


def relation(options: GuaranteeOptions | MechanismOptions) -> NeighboringRelation:
    """The neighbouring relation named; spelled with underscores, or with dashes as options are."""
    return choose(
        NeighboringRelation, options.neighboring_relation.replace("-", "_"), "neighboring_relation"
    )


def given_settings(
    options: MechanismOptions,
    domain: Domain,
    n_records: int,
    persons: Persons | None = None,
    leaks: tuple[str, ...] = (),
) -> Settings[AnyAlgorithm]:
    """What the mechanism is designed from. Raises PlanError or BudgetError naming the setting, or
    the option without effect.
    """
    chosen, search, floor, share = (
        chosen_algorithm(options),
        options.initialization,
        options.min_count,
        options.loss_share,
    )
    _refuse_without_effect(chosen, options)
    check_expected(options.n_expected, n_records, persons)
    return Settings(
        algorithm=chosen,
        domain=domain,
        n_clusters=options.n_clusters,
        n_records=n_records,
        epsilon=1.0 if options.epsilon is None else options.epsilon,
        delta=options.delta,
        public_seed=public_seed(options.public_seed),
        n_expected=options.n_expected,
        n_iterations=options.iterations,
        preset=preset(options.preset),
        initialization=None if search is None else choose(RadiusSearch, search, "initialization"),
        neighboring_relation=relation(options),
        min_count=None if floor is None else fraction(floor, "min_count"),
        estimate_loss=options.loss,
        loss_share=None if share is None else fraction(share, "loss_share"),
        persons=persons,
        taken_from_the_data=leaks or None,
    )


def _refuse_without_effect(chosen: AnyAlgorithm, options: MechanismOptions) -> None:
    """Refuse what was meant for another algorithm: choices that this one has not, and a budget that
    it does not spend.
    """
    choices = {
        "iterations": options.iterations,
        "initialization": options.initialization,
        "min-count": options.min_count,
    }
    chosen.check_use({f"--{name}": value for name, value in choices.items()})
    of_no_use: dict[str, float | None] = (
        {} if chosen.noise is Noise.GAUSSIAN else {"delta": options.delta}
    )
    reason = "has a guarantee without delta"
    if chosen.noise is Noise.NONE:
        of_no_use |= {"epsilon": options.epsilon, "loss-share": options.loss_share}
        reason = "adds no noise"
    for name, value in of_no_use.items():
        if value is not None:
            law = "" if options.noise is None else f" with {options.noise} noise"
            raise PlanError(
                f"--{name} has no effect: {chosen.name}{law} {reason}; leave --{name} out"
            )


def public_seed(text: str | None) -> PublicSeed:
    """A fresh seed for None; the very seed for 64 hex digits, as a plan shows it; an integer; or
    any other text.

    Raises PlanError for an empty one: a variable that is not set would give everybody the same.
    """
    if text == "":
        raise PlanError(
            "--public-seed is empty; expected a number or a text, or leave it out for a fresh seed"
        )
    if text is None:
        return PublicSeed(os.urandom(32))
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return PublicSeed.from_hex(text)
    if re.fullmatch(r"[0-9]{1,80}", text):
        return PublicSeed.from_int(int(text))
    return PublicSeed.from_text(text)


def chosen_trust(mechanism: MechanismOptions, federation: FederationOptions) -> TrustMode:
    """The trust mode named; left out, client-noise, or the paper's with its preset."""
    if federation.trust is None:
        return TrustMode.SERVER_NOISE if mechanism.preset == "paper" else TrustMode.CLIENT_NOISE
    return choose(TrustMode, federation.trust, "trust")


def given_masks(federation: FederationOptions) -> Masks | None:
    """The masks named, if any."""
    return None if federation.masks is None else choose(Masks, federation.masks, "masks")


def read_plan(file: Path) -> Plan:
    """The plan in a file. Raises PlanError, which of another file says what it is."""
    text = load_text(file)
    for heading, what in _NO_PLANS.items():
        if text.startswith(heading):
            raise PlanError(f"{file} is {what}; expected a plan, such as plan.toml")
    if OF_A_FIT in text[:400]:
        raise PlanError(
            f"{file} holds the settings of a run of fit, which is no plan of a federated one; it is"
            " text to be read as it is, and privacy.json beside it says what they protect"
        )
    return Plan.from_toml(text, str(file))


def given_clients(clients: Sequence[str], members: Sequence[str]) -> tuple[Client, ...]:
    """Clients by NAME:CAP, who can be simulated only, then those by FILE:CAP, who can join. Raises
    PlanError.
    """
    if not (clients or members):
        raise PlanError(
            "a plan needs clients: --member FILE:CAP with a public file, or with --simulation"
            " --client NAME:CAP"
        )
    by_name = [_split(text, "client", "NAME:CAP, such as hospital-a:200") for text in clients]
    by_file = [
        _split(text, "member", "FILE:CAP, such as clinic-a.public.toml:200") for text in members
    ]
    return (
        *(Client(name=name, max_records=cap) for name, cap in by_name),
        *(PublicIdentity.load(Path(file)).client(cap) for file, cap in by_file),
    )


def given_server(network: NetworkOptions) -> Server:
    """The server of a new plan, as far as it is known."""
    address = network.address or ""
    return (
        Server(address=address)
        if network.server is None
        else PublicIdentity.load(network.server).server(address)
    )


def check_complete(clients: Sequence[Client], server: Server) -> None:
    """Raise PlanError, naming the option, if a run over a network would lack something of these
    parties.
    """
    alone = "or say --simulation, for a plan that is run in one process or over MPI only"
    if not server.certificate:
        raise PlanError(f"a plan needs --server FILE, the public file of whoever adds up; {alone}")
    if not server.address:
        raise PlanError(
            f"a plan needs --address HOST:PORT, where the clients reach the server; {alone}"
        )
    for client in clients:
        if not client.certificate:
            raise PlanError(
                f"client {client.name!r} needs its public file, --member FILE:CAP instead of"
                f" --client NAME:CAP; {alone}"
            )


def given_authority(network: NetworkOptions) -> str | None:
    """The certificate of the authority, base64 of DER, if one was named. Raises IdentityError."""
    if network.authority is None:
        return None
    found = load_certificates(network.authority)
    if len(found) != 1:
        raise IdentityError(
            f"{network.authority} holds {len(found)} certificates; expected one, of whoever issued"
            " the parties' directly"
        )
    parse_authority(found[0])
    return found[0]


def load_certificates(path: Path) -> list[str]:
    """The certificates of a PEM or DER file, base64 of DER, not looked into. Raises
    IdentityError.
    """
    try:
        with path.open("rb") as file:
            return certificates_in(file.read(_MAX_BYTES))
    except OSError as error:
        raise IdentityError(f"{path} cannot be read ({error.strerror})") from None


def given_study(study: StudyOptions) -> Study | None:
    """What the plan is for, in words, if anything was said. Raises PlanError."""
    given = {
        "name": study.study,
        "purpose": study.purpose,
        "controller": study.controller,
        "contact": study.contact,
    }
    return None if all(text is None for text in given.values()) else Study(**given)


def given_positions(network: NetworkOptions) -> list[Positions]:
    """The positions of clients' stores in the files that were named. Raises PlanError."""
    return [Positions.load(path) for path in network.positions or ()]


def given_timeouts(network: NetworkOptions, usual: Timeouts) -> dict[str, int]:
    """Seconds by step, of those that were given, or follow from the time of a pass."""
    longer = asdict(usual.for_passes(network.pass_seconds or 0)).items() - asdict(usual).items()
    given = {step: getattr(network, f"{step}_timeout") for step in STEPS}
    return dict(longer) | {step: seconds for step, seconds in given.items() if seconds is not None}


def _split(text: str, what: str, form: str) -> tuple[str, int]:
    name, _, cap = text.rpartition(":")
    if not (cap.isascii() and cap.isdigit() and len(cap) < 20):
        raise PlanError(f"{what} {text!r:.100} is not of the form {form}")
    return name, int(cap)
