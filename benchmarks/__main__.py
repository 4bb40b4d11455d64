"""Speed of the parts, each beside a named peer in the same run: medians of paired, alternating repetitions.

`python -m benchmarks` prints the tables and writes them to docs/results/performance.md; `--quick` prints a few. Read the
ratios: on a shared machine the milliseconds drift, and both columns drift together.
"""

import argparse
import statistics
import sys

from benchmarks import fits, kernels, parts, scaling
from benchmarks.report import Row, as_markdown, machine, show, write_section

QUICK = kernels.SHAPES[:5]


def main() -> int:
    """Run everything, print the tables, and write the page unless asked to be quick."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer shapes and repetitions; writes nothing")
    quick = parser.parse_args().quick
    repetitions = 5 if quick else 25
    kernel_rows = kernels.rows(repetitions, QUICK if quick else kernels.SHAPES)
    show("One exact iteration", kernel_rows)
    print(summary(kernel_rows))
    if quick:
        return 0
    other_rows = [*parts.rows(15), fits.fast_lloyd(7)]
    show("The other parts", other_rows)
    moment_rows = fits.moment_lloyd(7)
    show("MomentLloyd", moment_rows)
    found = scaling.measured(25)
    print(scaling.said(found))
    scaling.draw(found)
    write_section("kernels", f"{machine()}.\n\n{as_markdown(kernel_rows)}\n\n{summary(kernel_rows)}")
    write_section("parts", as_markdown(other_rows))
    write_section("moments", as_markdown(moment_rows))
    write_section("scaling", scaling.said(found))
    return 0


def summary(rows: list[Row]) -> str:
    """The figures that goals are stated for."""
    ratios = [row.pair.ratio for row in rows if row.peer.startswith("scikit-learn")]
    return (
        f"Beside scikit-learn's kernel: {min(ratios):.2f} at worst, {statistics.median(ratios):.2f} in the median shape, "
        f"{max(ratios):.2f} at best."
    )


if __name__ == "__main__":
    sys.exit(main())
