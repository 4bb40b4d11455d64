"""`fastlloyd fit`: the central model, one holder of all records."""

from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    Engine,
    MechanismOptions,
    MissingCells,
    OutsideBounds,
    ResultOptions,
    UnitColumn,
    UnitName,
)


def fit(
    data: Data,
    mechanism: MechanismOptions,
    output: ResultOptions,
    columns: Columns = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    engine: Engine = None,
    unit_column: UnitColumn = None,
    unit_name: UnitName = None,
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Cluster the records of one holder with differential privacy. A file larger than memory is read anew in each round."""
    from fastlloyd.cli import engines, persons, results, terminal
    from fastlloyd.cli.settings import check_options, given_settings, on_grid, public_numbers, read_records
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.mechanisms import uncertainty
    from fastlloyd.mechanisms.catalogue import design
    from fastlloyd.mechanisms.central import cluster
    from fastlloyd.reports.result import Result

    place = results.of_run(output, data, mechanism.n_clusters)
    if compare_non_private:
        results.check_comparison(mechanism)
    of = persons.persons_in(unit_column, unit_name)
    persons.check_alone(unit_column, engine)
    check_options(mechanism, missing, outside, of)
    with engines.named(engine) as workers:
        records = read_records(data, columns, missing, in_passes=workers is not None, unit=unit_column)
        domain, n_records, leaks = public_numbers(mechanism, records, missing, of)
        with terminal.placing(mechanism.n_clusters):
            m = design(given_settings(mechanism, domain, n_records, of))
        X = on_grid(records, domain, outside)
        answering = (
            engines.answering(records, X, outside, workers, behind_bar_of=m)
            if of is None
            else persons.answering(m, records, X)
        )
        with answering as mine:
            clustering = cluster(m, mine, SystemNoise())
    result = Result.of(
        m, clustering, uncertainty.noise_deviation(m), leaks=leaks, loss=uncertainty.loss_estimate(m, clustering)
    )
    results.end(result, output, place, records, X, with_comparison=compare_non_private)
