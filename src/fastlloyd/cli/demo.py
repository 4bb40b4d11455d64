"""`fastlloyd demo`: three hospitals cluster tumour measurements that none of them may show the others."""

from typing import TYPE_CHECKING, Any

from fastlloyd.cli.options import FederationOptions, MechanismOptions, OutputOptions

if TYPE_CHECKING:
    from fastlloyd.clustering.domain import IntArray
    from fastlloyd.outputs import Result

HOSPITALS = ("hospital-a", "hospital-b", "hospital-c")
N_RECORDS = 600  # a round public number above the 569 tumours


def demo(output: OutputOptions) -> None:
    """Three hospitals cluster public tumour measurements together, beside Lloyd's algorithm without privacy."""
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
    options = MechanismOptions(n_clusters=2, epsilon=1.0, n_records=N_RECORDS)  # a start that nobody picked
    result = run_split(table, HOSPITALS, PublicNumbers(domain, N_RECORDS, ()), options, FederationOptions())
    lloyd, comparison = _without_privacy(result, domain.to_grid(table.values))
    paths = report.write(result, output, table.values)

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
        f"NICV, the mean squared distance of a record to its centroid: {comparison['fastlloyd']:.4f} with privacy, "
        f"{comparison['lloyd']:.4f} by Lloyd's algorithm (half widths of the domain, squared). Both figures and the table of "
        "lloyd were computed on raw data: NOT PRIVATE. They can be shown here because these records are public."
    )
    screen.print(
        "Start and noise are new every time: run the demo again to see how far they move the result. The bounds of these "
        "public records were set by people who knew their ranges; those of private records must not be."
    )
    report.conclude(result, output, paths, {"nicv": comparison})


def _without_privacy(result: "Result", X: "IntArray") -> tuple["Result", dict[str, Any]]:
    """Lloyd's algorithm from the same start, and the loss of both clusterings."""
    from fastlloyd import uncertainty
    from fastlloyd.algorithms import LLOYD
    from fastlloyd.central import cluster
    from fastlloyd.design import design_mechanism
    from fastlloyd.dp.noise import SystemNoise
    from fastlloyd.expander import PublicSeed
    from fastlloyd.metrics import nicv
    from fastlloyd.outputs import Result

    m = result.mechanism
    seed = PublicSeed.from_hex(m.public_seed)
    plain = design_mechanism(
        LLOYD, m.domain, n_clusters=m.n_clusters, n_records=m.n_records, epsilon=m.epsilon, public_seed=seed
    )
    clustering = cluster(plain, X, SystemNoise())
    errors = uncertainty.standard_errors(plain, clustering, uncertainty.noise_deviation(plain))
    lloyd = Result.of(plain, clustering, errors)

    half_width = 2**m.domain.fraction_bits

    def loss(found: Result) -> float:
        return nicv(X / half_width, (found.centroids - m.domain.centre) / m.domain.units / half_width)

    return lloyd, {"fastlloyd": loss(result), "lloyd": loss(lloyd), "note": "computed on raw data: NOT PRIVATE"}
