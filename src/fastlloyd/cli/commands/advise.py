"""Command `fastlloyd advise`: forecast a run from public numbers alone. It reads no records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base import numerals
from fastlloyd.base.files import check_destination, to_json, write_folder
from fastlloyd.base.names import choose, refuse_repeated, split_list
from fastlloyd.cli import advice_screen, terminal
from fastlloyd.cli.options import (
    FederationOptions,
    MaxClientsPerPerson,
    ProtectedUnit,
    Relation,
    UnitName,
    in_clustering,
    in_federation,
    in_output,
    in_privacy,
)
from fastlloyd.cli.recipes import ForecastRecipe
from fastlloyd.errors import BudgetError, OutputError, PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastlloyd.clustering.domain import Domain
    from fastlloyd.reports.advice import Advice, Federation

ADVICE, PICTURE = FILES = ("advise.json", "advise.png")
Records = Annotated[
    int,
    in_clustering(
        "--records",
        "--n-records",
        help="Expected number of records (or persons), which is also the cap.",
        metavar="N",
    ),
]
FeatureCount = Annotated[
    int | None,
    in_clustering(
        "--features",
        help="Number of features. With bounds by name or a recipe it follows from them.",
        metavar="D",
    ),
]
BoundsOfForecast = Annotated[
    str | None,
    in_clustering(
        "--bounds",
        help="Public bounds, as NAME=LO:HI,NAME2=LO:HI, or a TOML file. Error bars are then in the"
        " units of the columns.",
        metavar="BOUNDS",
    ),
]
WantedErrors = Annotated[
    list[str] | None,
    in_privacy(
        "--wanted-error",
        help="Longest error bar that you accept for a feature, as NAME=SIZE in the units of its"
        " column. Prints the smallest epsilon that achieves it. May be repeated.",
        metavar="NAME=SIZE",
    ),
]
Clusters = Annotated[
    int, in_clustering("--clusters", "--n-clusters", "-k", help="Number of clusters.", metavar="K")
]
AlgorithmName = Annotated[
    str, in_clustering(help="Mechanism of the run.", metavar="momentlloyd|fastlloyd|glloyd|sulloyd")
]
Epsilons = Annotated[
    str, in_privacy(help="Privacy budgets to compare, separated by commas.", metavar="LIST")
]
Delta = Annotated[
    float | None,
    in_privacy(
        help="The delta of the guarantee. Default: 1 / (100 n) for n records.", metavar="DELTA"
    ),
]
Loss = Annotated[
    bool,
    in_privacy(
        "--loss", help="Assume that the run also estimates the loss, with a share of the budget."
    ),
]
LossShare = Annotated[
    float | None,
    in_privacy(
        help=(
            "Share of the budget for --loss. Default: between 0.01 and 0.2, depending on the"
            " number of records."
        ),
        metavar="SHARE",
    ),
]
Clients = Annotated[
    int | None, in_federation(help="Number of clients, for a federated run.", metavar="M")
]
Folder = Annotated[
    Path | None, in_output(help="Folder to make, with advise.json and advise.png.", metavar="DIR")
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier advice.")]
Json = Annotated[
    bool, in_output("--json", help="Print the advice as JSON, and everything else to stderr.")
]


def advise(
    records: Records,
    clusters: Clusters,
    federation: FederationOptions,
    features: FeatureCount = None,
    recipe: ForecastRecipe = None,
    bounds: BoundsOfForecast = None,
    wanted_error: WantedErrors = None,
    epsilons: Epsilons = "0.1,0.2,0.5,1,2,5,10",
    delta: Delta = None,
    algorithm: AlgorithmName = "momentlloyd",
    neighboring_relation: Relation = "add_or_remove_one",
    loss: Loss = False,
    loss_share: LossShare = None,
    clients: Clients = None,
    unit: ProtectedUnit = "record",
    unit_name: UnitName = None,
    max_clients_per_person: MaxClientsPerPerson = None,
    out: Folder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Forecast the error bars of a result, its noise, and the bytes that are sent, from public
    numbers only. No records are read.
    """
    from fastlloyd.cli.persons import given_persons
    from fastlloyd.dp.neighboring import NeighboringRelation
    from fastlloyd.mechanisms.catalogue import algorithm as named
    from fastlloyd.reports import advice as advising

    c = 1 if unit == "person" and max_clients_per_person is None else max_clients_per_person
    if out is not None:
        check_destination(out, force=force, files=FILES)
    elif force:
        raise OutputError("--force needs an output folder; name it with --out DIR")
    domain = _domain(recipe, bounds, features)
    question = advising.PlannedRun(
        n_records=records,
        n_features=domain.n_features if features is None and domain else features or 0,
        n_clusters=clusters,
        algorithm=named(algorithm),
        delta=delta,
        neighboring_relation=choose(
            NeighboringRelation, neighboring_relation.replace("-", "_"), "neighboring_relation"
        ),
        estimate_loss=loss,
        loss_share=loss_share,
        federation=_federation(clients, federation),
        persons=given_persons(unit, unit_name, c),
        domain=domain,
    )
    wanted = _parse_wanted(wanted_error or [])
    advice = advising.advise(question, _parse_epsilons(epsilons), wanted)
    text = to_json(advising.to_builtins(advice))
    written = (
        [] if out is None else write_folder(out, _files(advice, text), force=force, files=FILES)
    )
    screen = terminal.console(stderr=json)
    advice_screen.show(screen, advice)
    if written:
        screen.print(
            f"Written to {out}: {', '.join(path.name for path in written)}.", soft_wrap=True
        )
    if json:
        typer.echo(text, nl=False)


def _parse_epsilons(text: str) -> list[float]:
    try:
        return sorted(map(numerals.real, split_list(text)))
    except ValueError:
        raise BudgetError(
            f"epsilons {text!r:.100}: expected numbers separated by commas, such as 0.5,1,2, each"
            " with at most one decimal point"
        ) from None


def _parse_wanted(items: "Sequence[str]") -> dict[str, float]:
    found: dict[str, float] = {}
    refuse_repeated([item.rpartition("=")[0].strip() for item in items], "--wanted-error")
    for item in items:
        name, _, size = item.rpartition("=")
        try:
            found[name.strip()] = numerals.real(size)
        except ValueError:
            name = ""
        if not name.strip():
            raise PlanError(f"--wanted-error {item!r:.100}: expected NAME=SIZE, such as age=1")
    return found


def _domain(recipe: Path | None, bounds: str | None, features: int | None) -> "Domain | None":
    """Return the bounds of a recipe or of --bounds, or None. Raises PlanError or DataError if they
    cannot be used.
    """
    from fastlloyd.jobs.choices import BoundsText
    from fastlloyd.reports.advising import stated_bounds

    if recipe is not None:
        from fastlloyd.records.recipe.recipe import Recipe

        if bounds is not None:
            raise PlanError(
                "the recipe already has the bounds of each feature; leave out --bounds",
                field="bounds",
            )
        return stated_bounds(Recipe.load(recipe), features)
    if bounds is None and features is None:
        raise PlanError("--features is missing: state the number of features, or pass --bounds")
    return None if bounds is None else stated_bounds(BoundsText(bounds), features)


def _federation(clients: int | None, options: FederationOptions) -> "Federation | None":
    from msgspec.structs import asdict

    from fastlloyd.cli.requests import given_federation
    from fastlloyd.reports.advice import Federation

    protocol = given_federation(options).protocol("default")
    if clients is None:
        if options != FederationOptions():
            raise PlanError(
                "--trust, --masks, --max-dropouts, --max-colluding and --ring-bits are for a"
                " federated run; add --clients M"
            )
        return None
    return Federation(n_clients=clients, **asdict(protocol))


def _files(advice: "Advice", text: str) -> dict[str, bytes]:
    from fastlloyd.cli import screen as report
    from fastlloyd.reports import advice as advising
    from fastlloyd.reports import advice_picture

    contents = {ADVICE: text.encode()}
    question, epsilons = advice.question, [outlook.epsilon for outlook in advice.outlooks]
    title = advice_screen.subject(question)
    if question.federation is not None:
        title += (
            f"\n{advice_screen.counted(question.federation.n_clients, 'client')},"
            f" {question.federation.trust.value}"
        )
    try:
        contents[PICTURE] = advice_picture.draw_advice(
            title, advising.curves(question, epsilons), question.n_clusters
        )
    except OutputError as error:
        report.warn([str(error)])
    return contents
