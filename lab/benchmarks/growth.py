"""Runs of unusual size: a billion records, thousands of clusters, or thousands of features. Each
run has a process of its own.

`python -m benchmarks.growth` writes its section of docs/results/performance.md. A large number of
records is a Parquet file of ten million records, which each pass reads again and again. The
operating system keeps this file in memory, so reading costs less than it would from a file a
hundred times as large.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import stream
from benchmarks.report import as_table, machine, publish
from benchmarks.runs import alone, box, peak_bytes, settings_of
from benchmarks.timing import spent
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Block, Blocks, GridRecords, Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.records import open_records
from fastlloyd.records.table import Table

FILE, PARQUET = 10_000_000, "records.parquet"


class Size(NamedTuple):
    """Size of a run: n records, k clusters and d features."""

    n: int
    k: int
    d: int


RECORDS = [
    Size(n, 10, 8) for n in (10_000_000, 30_000_000, 100_000_000, 300_000_000, 1_000_000_000)
]
CLUSTERS = [Size(100_000, k, 8) for k in (50, 500, 1000, 2000, 5000)]
FEATURES = [Size(20_000, 10, d) for d in (50, 500, 1000, 2000, 5000)]
RUNS = {
    "fastlloyd": [RECORDS, CLUSTERS, FEATURES],
    "momentlloyd": [RECORDS[:3], CLUSTERS[:3], FEATURES[:3]],
}


class Repeated:
    """Records of a file, repeated `times` times in each pass."""

    def __init__(self, records: Blocks, times: int) -> None:
        self._records, self._times = records, times
        self.n_rows, self.n_ahead = FILE * times, records.n_ahead
        self.check, self.place = records.check, records.place

    def blocks_to_check(self) -> Iterator[Block]:
        """Yield the number of the first record of each block, and the block. Records are numbered
        through all repetitions.
        """
        for turn in range(self._times):
            for first, block in self._records.blocks_to_check():
                yield turn * FILE + first, block


def run(name: str, size: Size, folder: Path) -> dict[str, Any]:
    """Design and run a clustering. Return the seconds of both steps, the number of rounds, and the
    peak memory of this process in MiB.
    """
    domain = box(size.d)
    settings = settings_of(domain, size.k, size.n, algorithm=ALGORITHMS[name])
    made = []
    designing = spent(lambda: made.append(design(settings)), 1)
    (m,) = made
    clustering = spent(
        lambda: cluster(m, LocalRecords(domain, _records(size, domain, folder)), SystemNoise()), 1
    )
    peak = peak_bytes() / 2**20
    return {"design": designing, "clustering": clustering, "rounds": m.n_rounds, "peak": peak}


def _records(size: Size, domain: Domain, folder: Path) -> GridRecords:
    if size.n < FILE:
        X = np.random.default_rng(0).random((size.n, size.d))
        return GridRecords(
            Table(values=X, columns=domain.features, source="memory"),
            domain,
            Outside.CLIP,
            source="memory",
        )
    file = open_records(folder / PARQUET)
    return GridRecords(
        Repeated(file, size.n // FILE), domain, Outside.CLIP, source=file.source, kept_cells=0
    )


def table(found: Sequence[tuple[str, Size, dict[str, Any]]]) -> str:
    """Return a table with a row for each run: its seconds, and the CPU time of a round per record,
    cluster and feature.
    """
    rows = []
    for name, size, of in found:
        wall, cpu = of["clustering"]
        each = 1e9 * cpu / of["rounds"] / (size.n * size.k * size.d)
        sizes = (f"{number:,}" for number in size)
        cells = (*sizes, f"{of['design'][0]:.2f}", f"{wall:.2f} / {cpu:.2f}")
        rows.append(
            [ALGORITHMS[name].name, *cells, str(of["rounds"]), f"{each:.3f}", f"{of['peak']:,.0f}"]
        )
    headings = [
        "algorithm", "records", "clusters", "features", "design, s", "clustering, s", "rounds",
        "CPU ns for each", "memory, MiB"
    ]  # fmt: skip
    return as_table(headings, "l" + "r" * (len(headings) - 1), rows)


def main() -> int:
    """Write the file, do all runs, and write the section. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="where the file of 320 MB goes")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stream.write(Path(folder) / PARQUET, FILE, RECORDS[0].d)
        for name, axes in RUNS.items():
            for size in (size for axis in axes for size in axis):
                found.append((name, size, alone(run, name, size, Path(folder))))
                print(*found[-1], flush=True)
    publish("large", f"{machine()}.\n\n{table(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
