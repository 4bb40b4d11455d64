"""`fastlloyd simulate`: a federated run in this process."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    Engine,
    FederationOptions,
    LedgerOptions,
    MaxClientsPerPerson,
    MechanismOptions,
    MissingCells,
    OutsideBounds,
    ResultOptions,
    UnitColumn,
    UnitName,
    in_federation,
)

if TYPE_CHECKING:
    from fastlloyd.federation.simulation import Drop

Clients = Annotated[
    int,
    in_federation(
        "--clients",
        min=1,
        max=1000,
        help="How many clients chance deals the records to.",
        metavar="M",
    ),
]
DroppedUploads = Annotated[
    list[str] | None,
    in_federation(
        "--drop",
        help="CLIENT@ROUND: that upload is lost; CLIENT@ROUND+: gone from then on. Several times."
        " Choose without a look at the records.",
        metavar="CLIENT@ROUND",
    ),
]


def simulate(
    data: Data,
    clients: Clients,
    mechanism: MechanismOptions,
    federation: FederationOptions,
    ledger: LedgerOptions,
    output: ResultOptions,
    columns: Columns = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    drop: DroppedUploads = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    max_clients_per_person: MaxClientsPerPerson = None,
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Deal records to clients by chance and run them together in this process, message by
    message.
    """
    import os

    from fastlloyd.cli import charging, engines, persons, results, terminal
    from fastlloyd.cli.settings import (
        check_options,
        given_cap,
        given_settings,
        on_grid,
        public_numbers,
        read_records,
    )
    from fastlloyd.federation import dealing, simulation
    from fastlloyd.federation.plan.design import design_plan
    from fastlloyd.reports.result import Result

    place = results.of_run(output, data, mechanism.n_clusters)
    if compare_non_private:
        results.check_comparison(mechanism)
    till = charging.Till.of(ledger, mechanism.n_records, by="simulate")
    of = persons.persons_in(unit_column, unit_name, max_clients_per_person)
    persons.check_alone(unit_column, engine)
    check_options(mechanism, missing, outside, of)
    names = [f"client-{i}" for i in range(1, clients + 1)]
    dropped = [simulation.parse_drop(text, names) for text in drop or ()]
    terms = _terms(mechanism, federation, dropped)
    with engines.named(engine) as workers:
        records = read_records(
            mechanism.bounds,
            data,
            columns,
            missing,
            in_passes=workers is not None,
            unit=unit_column,
        )
        domain, n_records, leaks = public_numbers(mechanism, records, missing, of)
        if given_cap(mechanism) is None:
            n_records = persons.cap_at_clients(n_records, of)
        X = on_grid(records, domain, outside)
        roster, identities = simulation.roster(names, n_records)
        settings = given_settings(mechanism, domain, n_records, of, leaks)
        with terminal.placing(mechanism.n_clusters):
            plan = design_plan(
                settings, clients=roster, run_id=os.urandom(16), simulated=True, **terms
            )
        simulation.check_drops(plan, dropped)
        with (
            terminal.at_work(f"{clients} clients at work", plan.clustering),
            engines.answering(records, X, outside, workers) as whole,
        ):
            parts = dealing.deal(plan, whole) if of is None else persons.dealt(plan, records, X)
            with till.charged(plan.mechanism, leaks, plan=plan) as charged:
                charged.drawing(plan.mechanism.n_rounds - 1)  # sessions draw where they like
                run = simulation.simulate(plan, identities, parts, drops=dropped)
    result = Result.of_run(plan, run)
    results.end(
        result, output, place, records, X, with_comparison=compare_non_private, remarks=charged.said
    )


def _terms(
    mechanism: MechanismOptions, federation: FederationOptions, dropped: "Sequence[Drop]"
) -> dict[str, Any]:
    """What `design_plan` is told of the federation, by its keywords. Raises PlanError."""
    from fastlloyd.cli.settings import chosen_trust, given_masks
    from fastlloyd.federation.plan.plan import Masks

    absent = len({drop.client for drop in dropped})
    return {
        "trust": chosen_trust(mechanism, federation),
        "max_dropouts": absent if federation.max_dropouts is None else federation.max_dropouts,
        "max_colluding": federation.max_colluding,
        "ring_bits": federation.ring_bits,
        "masks": (
            given_masks(federation) or (Masks.GROUP if dropped else None)
        ),  # who is dropped is missing from a round
    }
