"""Turn options and files into the parts of a plan."""

import dataclasses
import enum
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict, replace

from fastlloyd.base.files import read_start, unreadable
from fastlloyd.base.names import choose
from fastlloyd.base.numerals import expected_whole, whole
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.cli.mechanism_options import GuaranteeOptions, PlanOptions
from fastlloyd.cli.network_options import NetworkOptions, StudyOptions
from fastlloyd.cli.requests import given_clustering, given_guarantee, stated
from fastlloyd.errors import IdentityError, PlanError
from fastlloyd.federation.identity.certificates import certificates_in, parse_authority
from fastlloyd.federation.identity.identity import PRIVATE_HEADING, PUBLIC_HEADING, PublicIdentity
from fastlloyd.federation.plan.plan import Client, Plan, Server, Timeouts
from fastlloyd.federation.plan.study import Study
from fastlloyd.federation.positions import Positions
from fastlloyd.jobs.choices import (
    FROM_DATA,
    NEEDS_RANGE,
    StatedBounds,
    refuse_private,
)
from fastlloyd.jobs.settings import (
    Columns,
    bounds_settings,
    clustering_settings,
    outer_of,
    stated_domain,
)
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import RunSettings
from fastlloyd.records.bounds import TEMPLATE_HEADING
from fastlloyd.records.recipe.rows import Using

# how the settings of a run of fit begin; a line of caution may stand before it
OF_A_FIT = "# A fastlloyd mechanism"
_NO_PLANS = {
    PRIVATE_HEADING: "a private identity, which must never be sent",
    PUBLIC_HEADING: "the public file of an identity",
    TEMPLATE_HEADING: "a file of public bounds",
}
STEPS = ("joining", "dealing", "round", "confirming")
_GUARANTEE = dataclasses.fields(GuaranteeOptions)
_MAX_BYTES = 1 << 16  # of certificates and their chain


class PlanKind(enum.Enum):
    """Kind of a plan: its run finds clusters, or bounds."""

    CLUSTERING = "clustering"
    BOUNDS = "bounds"


def check_kind(
    kind: str,
    options: PlanOptions,
    value_range: str | None,
    bounds: StatedBounds | None,
) -> None:
    """Raise PlanError if an option is missing, or has no effect, in a plan of this kind.

    kind : text of --kind.
    value_range : text of --range, or None.
    bounds : bounds from --bounds or --recipe, or None.
    """
    if choose(PlanKind, kind, "kind") is PlanKind.CLUSTERING:
        if options.n_clusters is None:
            raise PlanError("--n-clusters is missing (number of clusters); --help says more")
        if value_range is not None:
            raise PlanError(
                "--range has no effect on a plan of a clustering; state --bounds, or pass --kind"
                " bounds"
            )
        if bounds is None or options.bounds == FROM_DATA:
            raise PlanError(
                "a plan needs --bounds or --recipe: public bounds of every feature, chosen without"
                " looking at the data"
            )
        return
    if value_range is None:
        raise PlanError(NEEDS_RANGE, field="value_range")
    used = {field.name for field in _GUARANTEE} | {"public_seed"}
    for field in dataclasses.fields(options):
        if field.name not in used and getattr(options, field.name) != field.default:
            raise PlanError(
                f"--{field.name.replace('_', '-')} has no effect on a plan of kind bounds; leave"
                " it out"
            )


def check_features(kind: str, recipe: Using | None) -> None:
    """Raise PlanError for a recipe in a plan of kind bounds, and for a recipe with ranges."""
    if recipe is None:
        return
    if choose(PlanKind, kind, "kind") is PlanKind.BOUNDS:
        raise PlanError(
            "a plan of kind bounds takes no --recipe: name the features whose bounds are to be"
            " found with --features, and their ranges with --range; then write the bounds that"
            " the run finds into the recipe"
        )
    if recipe.searched:
        names = ",".join(recipe.searched)
        raise PlanError(
            f"--recipe states ranges in place of bounds ({names}): first run a plan that finds"
            f" them (--kind bounds --features {names} --range RANGE), and write them into the"
            " recipe"
        )


def planned(
    kind: str,
    options: PlanOptions,
    value_range: str | None,
    columns: Sequence[str],
    n_records: int,
    of: Persons | None,
    bounds: StatedBounds | None = None,
) -> RunSettings:
    """Check the options, and return the settings from which a plan of this kind is designed.

    kind : kind of the plan, "clustering" or "bounds".
    value_range : text of --range, or None.
    columns : names of the features.
    n_records : cap on the number of records of all clients.
    of : persons that are protected, with their caps, or None if single records are protected.
    bounds : bounds of the features, or None for those of the option.

    Raises DataError, PlanError or BudgetError if an option cannot be used. The message names the
    option.
    """
    named = Columns.of(columns)
    if choose(PlanKind, kind, "kind") is PlanKind.BOUNDS:
        used = {field.name: getattr(options, field.name) for field in _GUARANTEE}
        choices = given_guarantee(GuaranteeOptions(**used), of, options.public_seed)
        return bounds_settings(choices, outer_of(stated(value_range), named), n_records)
    clustering = given_clustering(options, of, bounds=bounds)
    refuse_private(clustering)
    return clustering_settings(clustering, stated_domain(clustering, named), n_records)


def read_plan(file: Path) -> Plan:
    """Return the plan in a file.

    Raises PlanError if the file is not a plan, or cannot be read. The message names the kind of the
    file if it is known.
    """
    text = load_text(file)
    for heading, what in _NO_PLANS.items():
        if text.startswith(heading):
            raise PlanError(f"{file} is {what}; expected a plan, such as plan.toml")
    if OF_A_FIT in text[:400]:
        raise PlanError(
            f"{file} has the settings of a run of `fastlloyd fit`, not a plan of a federated run;"
            " open the file as text. The privacy.json next to it says what the run protects"
        )
    return Plan.from_toml(text, str(file))


def given_clients(clients: Sequence[str], members: Sequence[str]) -> tuple[Client, ...]:
    """Return the clients of a plan: first those in `clients`, then those in `members`.

    clients : texts NAME:CAP, for simulations only.
    members : texts FILE:CAP with a public file, for clients that can join over a network.

    Raises PlanError if there are no clients, or if a text does not have its form.
    """
    if not (clients or members):
        raise PlanError(
            "a plan needs clients: give --member FILE:CAP for each, with its public file; for a"
            " simulation (--simulation) give --client NAME:CAP instead"
        )
    by_name = [_split(text, "client", "NAME:CAP, such as hospital-a:200") for text in clients]
    by_file = [
        _split(text, "member", "FILE:CAP, such as clinic-a.public.toml:200") for text in members
    ]
    return (
        *(Client(name=name, max_records=cap) for name, cap in by_name),
        *(PublicIdentity.load(Path(file)).client(cap) for file, cap in by_file),
    )


def given_server(network: NetworkOptions, before: Server | None = None) -> Server:
    """Return the server in the options.

    before : server of an earlier plan, which supplies omitted values, or None.
    """
    known = Server() if before is None else before
    address = known.address if network.address is None else network.address
    if network.server is not None:
        return PublicIdentity.load(network.server).server(address)
    return replace(known, address=address)


def check_complete(clients: Sequence[Client], server: Server) -> None:
    """Raise PlanError if clients or server lack anything for a run over a network. The message
    names the option.
    """
    alone = "or pass --simulation for a plan that is run only in one process or over MPI"
    if not server.certificate:
        raise PlanError(f"a plan needs --server FILE, the public file of the server; {alone}")
    if not server.address:
        raise PlanError(
            f"a plan needs --address HOST:PORT, at which the clients reach the server; {alone}"
        )
    for client in clients:
        if not client.certificate:
            raise PlanError(
                f"client {client.name!r} needs its public file, --member FILE:CAP instead of"
                f" --client NAME:CAP; {alone}"
            )


def given_authority(network: NetworkOptions) -> str | None:
    """Return the certificate of the authority in the options (base64 of DER), or None. Raises
    IdentityError unless the file has exactly one certificate, of an authority.
    """
    if network.authority is None:
        return None
    found = load_certificates(network.authority)
    if len(found) != 1:
        raise IdentityError(
            f"{network.authority} has {len(found)} certificates; expected one, of the authority"
            " that issued the parties' certificates directly"
        )
    parse_authority(found[0])
    return found[0]


def load_certificates(path: Path) -> list[str]:
    """Return the certificates in a PEM or DER file, each as base64 of DER. They are not checked.

    Raises IdentityError if the file cannot be read.
    """
    try:
        return certificates_in(read_start(path, _MAX_BYTES))
    except OSError as error:
        raise IdentityError(unreadable(path, error)) from None


def given_study(study: StudyOptions) -> Study | None:
    """Return the study with its purpose and responsible people, or None if no option names any.
    Raises PlanError if a text is too long, or cannot be printed.
    """
    given = {
        "name": study.study,
        "purpose": study.purpose,
        "controller": study.controller,
        "contact": study.contact,
    }
    return None if all(text is None for text in given.values()) else Study(**given)


def given_positions(network: NetworkOptions) -> list[Positions]:
    """Return the positions of clients' stores in the files that the options name. Raises PlanError
    if a file cannot be read, or has no positions.
    """
    return [Positions.load(path) for path in network.positions or ()]


def given_timeouts(network: NetworkOptions, usual: Timeouts) -> dict[str, int]:
    """Return the timeouts that differ from the usual ones, as a dict from step to seconds. An
    option stated them, or a long pass over the records needs them.

    usual : timeouts for runs in which a pass over the records is short.
    """
    longer = asdict(usual.for_passes(network.pass_seconds or 0)).items() - asdict(usual).items()
    given = {step: getattr(network, f"{step}_timeout") for step in STEPS}
    return dict(longer) | {step: seconds for step, seconds in given.items() if seconds is not None}


def _split(text: str, what: str, form: str) -> tuple[str, int]:
    name, _, cap = text.rpartition(":")
    try:
        return name, whole(cap)
    except ValueError:
        raise PlanError(
            f"{what} {text!r:.100} is not of the form {form}; the cap is {expected_whole()}"
        ) from None
