"""`fastlloyd demo`: three hospitals cluster tumour measurements that none of them may show the others."""

from fastlloyd.cli.options import FederationOptions, MechanismOptions, OutputOptions

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
N_RECORDS = 600  # a round public number above the 569 tumours


def demo(output: OutputOptions) -> None:
    """Three hospitals cluster public tumour measurements together, beside Lloyd's algorithm without privacy."""
    from fastlloyd import comparison
    from fastlloyd.cli import report
    from fastlloyd.cli.federated import run_split
    from fastlloyd.cli.settings import PublicNumbers
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.datasets import TUMOUR_BOUNDS, load_tumours
    from fastlloyd.guarantees import NOT_PROTECTED, NOT_PROTECTED_FEDERATED

    report.check_output(output)
    table = load_tumours()
    lower, upper = zip(*(TUMOUR_BOUNDS[name] for name in table.columns), strict=True)
    domain = Domain(features=table.columns, lower=lower, upper=upper)
    options = MechanismOptions(n_clusters=2, n_records=N_RECORDS)  # a start that nobody picked
    X = [domain.to_grid(table.values)]
    result = run_split(X, HOSPITALS, PublicNumbers(domain, N_RECORDS, ()), options, FederationOptions())
    lloyd = comparison.lloyd(result.mechanism, X)
    compared = comparison.compare(result, lloyd, X)
    nicv = {"fastlloyd": compared.with_noise.nicv, "lloyd": compared.without_noise.nicv}
    paths = report.write(result, output, table)

    screen = report.console(output)
    screen.print(
        f"{len(HOSPITALS)} hospitals measured at most {N_RECORDS} tumours and may not pool them. They run FastLloyd "
        "together: only masked sums, each with a share of noise in it, leave a hospital."
    )
    for line in report.rounds(result):
        screen.print(line)
    report.show(screen, result)
    screen.print("What is not protected:")
    for line in NOT_PROTECTED + NOT_PROTECTED_FEDERATED:
        screen.print(f"- {line}")
    screen.print("\nFor comparison, on all records at one place:")
    screen.print(report.centroid_table(lloyd))
    screen.print(
        f"NICV, the mean squared distance of a record to its centroid: {nicv['fastlloyd']:.4f} with privacy, "
        f"{nicv['lloyd']:.4f} by Lloyd's algorithm (half widths of the domain, squared). Both figures and the table of "
        "lloyd were computed on raw data: NOT PRIVATE. They can be shown here because these records are public."
    )
    screen.print(
        "Start and noise are new every time: run the demo again to see how far they move the result. The bounds of these "
        "public records were set by people who knew their ranges; those of private records must not be."
    )
    report.conclude(result, output, paths, {"nicv": nicv | {"note": "computed on raw data: NOT PRIVATE"}})
