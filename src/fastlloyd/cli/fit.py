"""`fastlloyd fit`: the central model, one holder of all records."""

from fastlloyd.cli.options import Columns, Data, MechanismOptions, OutputOptions


def fit(data: Data, mechanism: MechanismOptions, output: OutputOptions, columns: Columns = None) -> None:
    """Cluster the records of one file with differential privacy."""
    from fastlloyd import uncertainty
    from fastlloyd.central import cluster
    from fastlloyd.cli import report
    from fastlloyd.cli.settings import chosen_algorithm, design_arguments, public_numbers, read_records
    from fastlloyd.design import design_mechanism
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.guarantees import cautions
    from fastlloyd.outputs import Result

    report.check_output(output)
    table = read_records(data, columns)
    domain, n_records, leaks = public_numbers(mechanism, table)
    m = design_mechanism(chosen_algorithm(mechanism), domain, **design_arguments(mechanism, n_records))
    X = domain.to_grid(table.values)
    with report.at_work("clustering", m, len(X)):
        clustering = cluster(m, X, SystemNoise())
    errors = uncertainty.standard_errors(m, clustering, uncertainty.noise_deviation(m))
    result = Result.of(m, clustering, errors, leaks=leaks, loss=uncertainty.loss_estimate(m, clustering))
    report.warn([*leaks, *cautions(m)])
    report.clipped(domain, table.values)
    paths = report.write(result, output, table.values)
    report.show(report.console(output), result)
    report.conclude(result, output, paths)
