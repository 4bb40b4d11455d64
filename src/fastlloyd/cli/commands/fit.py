"""`fastlloyd fit`: the central model, one holder of all records."""

from contextlib import ExitStack
from dataclasses import replace

from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    Engine,
    LedgerOptions,
    MechanismOptions,
    MissingCells,
    OutsideBounds,
    ResultOptions,
    UnitColumn,
    UnitName,
    ValueRange,
)


def fit(
    data: Data,
    mechanism: MechanismOptions,
    ledger: LedgerOptions,
    output: ResultOptions,
    value_range: ValueRange = None,
    columns: Columns = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Cluster the records of one holder with differential privacy. A file larger than memory is
    read anew in each round.
    """
    from fastlloyd.cli import charging, engines, persons, private_bounds, results, screen, terminal
    from fastlloyd.cli.settings import (
        check_options,
        given_settings,
        on_grid,
        public_numbers,
        read_records,
    )
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.mechanisms import uncertainty
    from fastlloyd.mechanisms.catalogue import design
    from fastlloyd.mechanisms.central import cluster
    from fastlloyd.reports.result import Result

    place = results.of_run(output, data, mechanism.n_clusters)
    if compare_non_private:
        results.check_comparison(mechanism)
    till = charging.Till.of(ledger, mechanism.n_records, by="fit")
    of = persons.persons_in(unit_column, unit_name)
    persons.check_alone(unit_column, engine)
    finds_bounds = private_bounds.are_wanted(mechanism, value_range)
    stated = replace(mechanism, bounds=value_range) if finds_bounds else mechanism
    check_options(stated, missing, outside, of)
    with engines.named(engine) as workers, ExitStack() as paid:
        in_passes = workers is not None
        records = read_records(
            mechanism.bounds,
            data,
            columns,
            missing,
            value_range=value_range,
            in_passes=in_passes,
            unit=unit_column,
        )
        first = None
        if finds_bounds:
            first, settings, leaks, run = private_bounds.narrow(
                stated,
                records,
                missing,
                outside,
                workers,
                of,
                till,
                paid,
                screen.OwnersScreen(as_json=output.json),
            )
            outside = "clip"
        else:
            domain, n_records, leaks = public_numbers(stated, records, missing, of)
            settings = given_settings(stated, domain, n_records, of, leaks)
        with terminal.placing(mechanism.n_clusters), private_bounds.after(first):
            m = design(settings)
        X = on_grid(records, m.domain, outside)
        of_persons = persons.answering(m, records, X, behind_bar_of=m)
        if first is None:
            run = paid.enter_context(till.charged(m, leaks))
        with private_bounds.after(first):
            drawing = run.drawing if first is None else run.later(m)
        with (
            private_bounds.after(first),
            of_persons
            or engines.answering(records, X, outside, workers, behind_bar_of=m) as answering,
        ):
            clustering = cluster(m, answering, SystemNoise(), drawing)
    loss = uncertainty.loss_estimate(m, clustering)
    result = Result.of(m, clustering, uncertainty.noise_deviation(m), loss=loss, first=first)
    results.end(
        result, output, place, records, X, with_comparison=compare_non_private, remarks=run.said
    )
