"""Clustering of a Parquet file that is larger than the memory allowed. Each pass is compared with
reading the file alone.

`python -m benchmarks.stream [--records 50e6] [--folder DIR]` writes a file of 64 bytes per record.
A separate process clusters it twice. The operating system reports the peak memory of this process.
The program writes its section of docs/results/performance.md.
"""

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.report import as_table, machine, publish
from benchmarks.runs import alone, box, peak_bytes, settings_of
from fastlloyd.base.arrays import GridArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.records import open_records
from fastlloyd.records.reader import BLOCK_CELLS

FEATURES, CLUSTERS, ROW_GROUP = 16, 10, 1_000_000
NAMES = tuple(f"x{i}" for i in range(FEATURES))
UNIT = "person"


def write(path: Path, n: int, n_features: int = FEATURES, n_persons: int = 0) -> None:
    """Write n uniform float32 records, not compressed. Such a file is read fastest, so it is
    hardest for the clustering to keep up with the reader.

    n_persons : number of persons. The column `UNIT` then has a random person for each record.
    """
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    rng = np.random.default_rng(0)
    names = NAMES[:n_features]
    unit = [(UNIT, pa.int64())] if n_persons else []
    schema = pa.schema([*unit, *((name, pa.float32()) for name in names)])
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for start in range(0, n, ROW_GROUP):
            m = min(ROW_GROUP, n - start)
            ids = [rng.integers(0, n_persons, m)] if n_persons else []
            cells = [rng.random(m, dtype=np.float32) for _ in names]
            writer.write_table(pa.table([*ids, *cells], schema=schema))


def read_alone(path: Path, n_features: int = FEATURES) -> float:
    """Return the seconds that pyarrow takes to read the file in batches, without using them."""
    pq = importlib.import_module("pyarrow.parquet")
    start = time.perf_counter()
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16) as file:
        for _ in file.iter_batches(batch_size=BLOCK_CELLS // n_features):
            pass
    return time.perf_counter() - start


class Timed(GridRecords):
    """Records of a file. Each pass is timed, and also a pass of the reader alone just before it."""

    def __init__(self, path: Path, domain: Domain) -> None:
        super().__init__(open_records(path), domain, Outside.CLIP, source=str(path))
        self.path = path
        self.alone: list[float] = []
        self.ours: list[float] = []

    def __iter__(self) -> Iterator[GridArray]:
        self.alone.append(read_alone(self.path))
        start = time.perf_counter()
        yield from super().__iter__()
        self.ours.append(time.perf_counter() - start)


def fit(path: Path, n: int) -> dict[str, list[float]]:
    """Cluster the file. Return the seconds of each pass of the reader alone and of ours, and the
    peak memory of this process in MiB.
    """
    m = design(settings_of(box(FEATURES), CLUSTERS, n, algorithm=FASTLLOYD, n_iterations=5))
    timed = Timed(path, m.domain)
    cluster(m, LocalRecords(m.domain, timed), SystemNoise())
    return {"alone": timed.alone, "ours": timed.ours, "peak_mib": [peak_bytes() / 2**20]}


def fit_twice(path: Path, n: int) -> list[dict[str, list[float]]]:
    """Return the results of two fits in one process. The first fit loads the compiled code, and the
    second one finds it loaded.
    """
    return [fit(path, n), fit(path, n)]


def main() -> int:
    """Write the file, cluster it, and write the section. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__)
    parser.add_argument("--records", type=float, default=50e6)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the file goes (64 bytes a record)"
    )
    options = parser.parse_args()
    n = int(options.records)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "records.parquet"
        write(path, ROW_GROUP)
        alone(fit_twice, path, ROW_GROUP)  # where the code has never been used, it is compiled now
        write(path, n)
        size = path.stat().st_size
        fresh, again = alone(fit_twice, path, n)
    publish("stream", page(n, size, fresh, again))
    return 0


def page(n: int, size: int, fresh: dict[str, list[float]], again: dict[str, list[float]]) -> str:
    """Return the section of docs/results/performance.md."""
    measured = ("reading alone, s", "a round, s", "speed")
    headings = [
        "pass",
        f"new process: {measured[0]}",
        *measured[1:],
        f"again: {measured[0]}",
        *measured[1:],
    ]
    times = zip(fresh["alone"], fresh["ours"], again["alone"], again["ours"], strict=True)
    rows = [
        [f"{i}", *(f"{value:.2f}" for value in (a, b, a / b, c, d, c / d))]
        for i, (a, b, c, d) in enumerate(times, 1)
    ]
    return (
        f"{n:,} records of {FEATURES} float32 features, {size / 2**30:.2f} GiB, {CLUSTERS}"
        f" clusters; {machine()}.\n\n{as_table(headings, 'rrrrrrr', rows)}\n\nPeak memory of the"
        f" process: {again['peak_mib'][0]:.0f} MiB."
    )


if __name__ == "__main__":
    sys.exit(main())
