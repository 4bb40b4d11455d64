"""Time of a pass over a folder of Parquet files, by different readers: this process, worker
processes, a Dask cluster, and pyarrow, which only reads.

`python -m benchmarks.engines [--records 30e6] [--workers 2] [--folder DIR]` writes eight files of
32 bytes per record. In every turn it times one pass of each. It checks that all answers are equal,
and writes its section of docs/results/performance.md.
"""

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import stream
from benchmarks.report import as_table, machine, publish
from benchmarks.runs import box, settings_of
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.mechanisms.answering import LocalRecords, Records
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.engines.dask import DaskEngine
from fastlloyd.mechanisms.engines.local import LocalEngine
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.records import open_records

FEATURES, CLUSTERS, FILES, TURNS = 8, 10, 8, 5
DOMAIN = box(FEATURES)


def write(folder: Path, n: int) -> int:
    """Write eight files with n records in all, and return their size in bytes."""
    for number in range(FILES):
        stream.write(folder / f"{number}.parquet", n // FILES, FEATURES)
    return sum(path.stat().st_size for path in folder.iterdir())


def timed(folder: Path, n: int, workers: int) -> dict[str, list[float]]:
    """Return the seconds of each pass, the first pass first, by the name of the reader."""
    m = design(settings_of(DOMAIN, CLUSTERS, n, algorithm=FASTLLOYD))
    query = m.query(0, m.start())
    source = open_records(folder)
    alone = GridRecords(source, DOMAIN, Outside.CLIP, source=source.source, kept_cells=0)
    ways: dict[str, Records] = {"this process": LocalRecords(DOMAIN, alone)}
    cluster: Any = importlib.import_module("distributed").LocalCluster(
        workers, threads_per_worker=1, dashboard_address=":0"
    )
    with cluster:
        for name in ("local", "dask"):
            for kept_bytes, how in ((0, "read anew"), (n * FEATURES * 4, "kept by them")):
                engine = (
                    LocalEngine(workers)
                    if name == "local"
                    else DaskEngine(cluster.get_client(), name)
                )
                engine.kept_bytes = kept_bytes
                ways[f"{workers} workers of {name}, {how}"] = EngineRecords.of_files(
                    source, DOMAIN, Outside.CLIP, engine
                )
        found: dict[str, list[float]] = {name: [] for name in ("pyarrow, which only reads", *ways)}
        answers = set[bytes]()
        for _ in range(1 + TURNS):
            found["pyarrow, which only reads"].append(
                sum(stream.read_alone(path, FEATURES) for path in folder.iterdir())
            )
            for name, records in ways.items():
                start = time.perf_counter()
                answer, _n = records.answer(query)
                found[name].append(time.perf_counter() - start)
                answers.add(answer.tobytes())
    assert len(answers) == 1
    return found


def main() -> int:
    """Write the files, time the passes, and write the section. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--records", type=float, default=30e6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the files go (32 bytes a record)"
    )
    options = parser.parse_args()
    n = int(options.records)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        size = write(Path(folder), n)
        text = page(n, size, timed(Path(folder), n, options.workers))
    publish("engines", text)
    return 0


def page(n: int, size: int, found: dict[str, list[float]]) -> str:
    """Return the section of docs/results/performance.md."""
    rows = [
        [name, f"{first:.2f}", f"{min(later):.2f}", f"{statistics.median(later):.2f}"]
        for name, (first, *later) in found.items()
    ]
    heading = ["a pass by", "first, s", f"least of {TURNS} later, s", "median, s"]
    return (
        f"{n:,} records of {FEATURES} float32 features in {FILES} Parquet files, {size / 2**30:.2f}"
        f" GiB, {CLUSTERS} clusters; "
        f"{machine()}. All ways gave the same integers; each turn times them one after the"
        " other.\n\n"
        f"{as_table(heading, 'lrrr', rows)}"
    )


if __name__ == "__main__":
    sys.exit(main())
