"""Costs of protecting persons with many rows in a Parquet file: the first pass, and a run for
persons compared with a run for the same rows as single records.

`python -m benchmarks.persons [--rows 20e6] [--folder DIR]` writes a file of 40 bytes per row, with
about ten rows per person in random order. A separate process clusters it by turns as persons and as
records. The operating system reports the peak memory of this process. The program writes its
section of docs/results/performance.md.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks import stream
from benchmarks.report import as_table, machine, publish
from benchmarks.runs import alone, box, peak_bytes, settings_of
from benchmarks.timing import Spent, spent
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.passes.records import PersonsInPasses
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.records import open_records

FEATURES, CLUSTERS, ROWS_EACH, TURNS = 8, 10, 10, 2
FIRST, RUNS = "first pass over persons", ("run for persons after it", "run for records")
DOMAIN = box(FEATURES)


def passes(path: Path, n: int, name: str) -> tuple[dict[str, list[Spent]], float]:
    """Return the times of the first pass over persons, and of runs for persons and for records,
    which alternate. Each run has many passes. Also return the peak memory of this process in MiB.

    name : name of the algorithm.
    """
    of_records = settings_of(DOMAIN, CLUSTERS, n, algorithm=ALGORITHMS[name])
    m, plain = design(replace(of_records, persons=Persons())), design(of_records)
    persons = PersonsInPasses(_on_grid(path, stream.UNIT), m, source=str(path))
    records = LocalRecords(DOMAIN, _on_grid(path, None))
    records.count()  # compiled code is loaded, and the first pass is over for both
    found = {FIRST: [spent(persons.count, 1)], **{who: [] for who in RUNS}}
    for _ in range(TURNS):
        found[RUNS[0]].append(spent(lambda: cluster(m, persons, SystemNoise()), 1))
        found[RUNS[1]].append(spent(lambda: cluster(plain, records, SystemNoise()), 1))
    return found, peak_bytes() / 2**20


def _on_grid(path: Path, unit: str | None) -> GridRecords:
    source = open_records(path, list(DOMAIN.features), unit=unit)
    return GridRecords(source, DOMAIN, Outside.CLIP, source=source.source, kept_cells=0)


def main() -> int:
    """Write the file, measure, and write the section. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.persons", description=__doc__)
    parser.add_argument("--rows", type=float, default=20e6)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the file goes (40 bytes a row)"
    )
    options = parser.parse_args()
    n = int(options.rows)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "visits.parquet"
        stream.write(path, n, FEATURES, n // ROWS_EACH)
        size = path.stat().st_size
        found_by = {name: alone(passes, path, n, name) for name in ("fastlloyd", "momentlloyd")}
    publish("persons", page(n, size, found_by))
    return 0


def page(n: int, size: int, found_by: dict[str, tuple[dict[str, list[Spent]], float]]) -> str:
    """Return the section of docs/results/performance.md."""
    rows = []
    for name, (found, _) in found_by.items():
        for who in (FIRST, *RUNS):
            wall, cpu = np.min(found[who], axis=0)
            rows.append([ALGORITHMS[name].name, who, f"{wall:.1f}", f"{cpu:.1f}"])
        speed = np.median(np.array(found[RUNS[1]]) / np.array(found[RUNS[0]]), axis=0)
        rows.append(
            [
                ALGORITHMS[name].name,
                "speed for persons over speed for records",
                *map("{:.2f}".format, speed),
            ]
        )
    peak = max(mebibytes for _, mebibytes in found_by.values())
    return (
        f"{n:,} rows of {FEATURES} float32 features, about {ROWS_EACH} rows a person in any order,"
        f" {size / 2**30:.2f} GiB, {CLUSTERS} clusters, the least of {TURNS} runs in turn;"
        f" {machine()}.\n\n{as_table(['algorithm', 'what', 's', 'CPU, s'], 'llrr', rows)}\n\nPeak"
        f" memory of the process: {peak:.0f} MiB."
    )


if __name__ == "__main__":
    sys.exit(main())
