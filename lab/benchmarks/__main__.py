"""Speed of the parts, each beside a named peer in the same run, of our fits alone, and how the cost
of an iteration grows.

`python -m benchmarks` prints the tables and writes them to docs/results/performance.md. Read the
ratios: on a shared machine the milliseconds drift, and both columns drift together.
"""

import sys

from benchmarks import fits, parts, scaling
from benchmarks.report import write_section


def main() -> int:
    """Run everything, print the tables, and write the page."""
    for name, table in (
        ("designs", fits.table),
        ("parts", parts.table),
        ("scaling", scaling.table),
    ):
        content = table()
        print(content, end="\n\n", flush=True)
        write_section(name, content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
