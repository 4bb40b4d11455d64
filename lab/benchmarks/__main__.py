"""Speed of the parts of fastlloyd, each compared with a named peer in the same run. Also the speed
of its fits alone, and the growth of the cost of an iteration.

`python -m benchmarks` prints the tables and writes them to docs/results/performance.md. Compare the
ratios: on a shared machine the milliseconds drift, but both columns drift together.
"""

import sys

from benchmarks import fits, parts, scaling
from benchmarks.report import publish


def main() -> int:
    """Run all benchmarks, print the tables, and write the page. Return the exit code."""
    for name, table in (
        ("designs", fits.table),
        ("parts", parts.table),
        ("scaling", scaling.table),
    ):
        publish(name, table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
