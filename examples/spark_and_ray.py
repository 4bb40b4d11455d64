"""MomentLloyd on the workers of Spark or Ray: `python spark_and_ray.py spark visits.parquet
age=0:110,cost=0:20 60000 3`.

The arguments: spark or ray, records, public bounds, a public cap on the number of records, the
number of clusters. Every worker needs the very same fastlloyd, and reaches the records by the same
path. Workers see records and exact sums: they must be yours alone.
"""

import sys
import time

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.mechanisms.catalogue import algorithm, design
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.engines.engine import Engine
from fastlloyd.mechanisms.engines.records import EngineRecords
from fastlloyd.mechanisms.settings import Settings
from fastlloyd.records import open_records
from fastlloyd.records.bounds import parse_bounds


class SparkEngine(Engine):
    """What Spark's executors return counts once, however often a task is tried."""

    name = "Spark"

    def __init__(self):
        from pyspark.sql import SparkSession

        self.context = SparkSession.builder.appName("fastlloyd").getOrCreate().sparkContext

    def map(self, function, pieces):
        tasks = self.context.parallelize(list(enumerate(pieces)), len(pieces))
        yield from tasks.map(lambda task: (task[0], function(task[1]))).collect()

    def close(self):
        self.context.stop()


class RayEngine(Engine):
    """Ray does a task again whose worker died."""

    name = "Ray"

    def __init__(self):
        import ray

        self.ray = ray
        ray.init()

    def map(self, function, pieces):
        work, asked = (
            self.ray.remote(lambda function, piece: function(piece)),
            self.ray.put(function),
        )
        tasks = {work.remote(asked, piece): number for number, piece in enumerate(pieces)}
        while tasks:
            done, _ = self.ray.wait(list(tasks), timeout=1)
            yield from ((tasks.pop(task), self.ray.get(task)) for task in done)

    def close(self):
        self.ray.shutdown()


def main(where, path, bounds, n_records, n_clusters):
    columns = [pair.partition("=")[0] for pair in bounds.split(",")]
    domain = Domain.of_bounds(columns, *parse_bounds(bounds, columns), scaling=Scaling.PER_FEATURE)
    settings = Settings(
        algorithm=algorithm("momentlloyd"),
        domain=domain,
        n_clusters=int(n_clusters),
        n_records=int(n_records),
        epsilon=1.0,
        public_seed=PublicSeed.from_text("any text"),
    )
    engine = {"spark": SparkEngine, "ray": RayEngine}[where]()
    records = EngineRecords.of_files(
        open_records(path, columns),
        domain,
        Outside.CLIP,
        engine,
        lambda done, of: print(f"\r{done}/{of}", end="", file=sys.stderr),
    )
    begun = time.monotonic()
    found = cluster(design(settings), records, SystemNoise())
    print(f"\n{engine.name}: {time.monotonic() - begun:.1f} s; private centroids:")
    print(domain.from_grid(found.centroids))
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
