"""`fastlloyd fit`: the central model, one holder of all records."""

from fastlloyd.cli.options import (
    Columns,
    CompareNonPrivate,
    Data,
    MechanismOptions,
    MissingCells,
    OutputOptions,
    OutsideBounds,
)


def fit(
    data: Data,
    mechanism: MechanismOptions,
    output: OutputOptions,
    columns: Columns = None,
    missing: MissingCells = "refuse",
    outside: OutsideBounds = "clip",
    compare_non_private: CompareNonPrivate = False,
) -> None:
    """Cluster the records of one file with differential privacy. A file larger than memory is read anew in each round."""
    from fastlloyd import uncertainty
    from fastlloyd.central import cluster
    from fastlloyd.cli import compare, progress, report
    from fastlloyd.cli.settings import (
        check_options,
        chosen_algorithm,
        design_arguments,
        on_grid,
        public_numbers,
        read_records,
    )
    from fastlloyd.design import design_any
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.guarantees import cautions
    from fastlloyd.outputs import Result

    report.check_output(output)
    if compare_non_private:
        compare.check(mechanism)
    check_options(mechanism, missing, outside)
    records = read_records(data, columns, missing)
    domain, n_records, leaks = public_numbers(mechanism, records, missing)
    with progress.placing(mechanism.n_clusters):
        m = design_any(chosen_algorithm(mechanism), domain, **design_arguments(mechanism, n_records))
    X = on_grid(records, domain, outside)
    with progress.passes(m, X) as watched:
        clustering = cluster(m, watched, SystemNoise())
    result = Result.of(
        m, clustering, uncertainty.noise_deviation(m), leaks=leaks, loss=uncertainty.loss_estimate(m, clustering)
    )
    report.warn([*leaks, *cautions(m)])
    report.left_out(records.dropped or 0)
    report.clipped(X.n_outside)
    exact = compare.compare(result, X) if compare_non_private else None
    result = compare.marked(result, exact)
    paths = report.write(result, output, records, compare.files(exact))
    screen = report.console(output)
    report.show(screen, result)
    compare.show(screen, exact)
    report.conclude(result, output, paths, compare.for_machines(exact))
