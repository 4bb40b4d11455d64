"""Process that holds the records for one side of a comparison, and does the work of one library on
request.

Libraries have threads of their own, which would disturb each other in one process. Rivals are
installed in an environment of their own. So this module imports only NumPy until it knows the
library.
"""

import importlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Spent, Work, spent

T = 5
RECORDS, START = "records.npy", "start.npy"
Array = NDArray[Any]
Maker = Callable[[Array, Array], Work]  # of records and initial centroids (float64)


class Side:
    """Handle of a process that does the work of one library.

    work : name of the work: "fit", "kernel" or "defaults".
    python : interpreter of the environment in which the library is installed.
    """

    def __init__(
        self, work: str, library: str, *, threads: int, python: str, until: ExitStack
    ) -> None:
        command = [python, "-m", "benchmarks.sides", work, library]
        env = os.environ | {"OMP_NUM_THREADS": str(threads), "OPENBLAS_CORETYPE": _processor()}
        process = subprocess.Popen(
            command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.process: Any = until.enter_context(process)

    def prepare(self, folder: Path, dtypes: list[str]) -> None:
        """Let the process load the records and initial centroids in a folder. A fit of fastlloyd
        writes its own initial centroids to the folder, so prepare fastlloyd before its rivals.
        """
        self._ask([str(folder), dtypes])

    def spent(self, dtype: str, times: int) -> Spent:
        """Return the time of the work: the mean over `times` repetitions."""
        return Spent(*self._ask([dtype, times]))

    def _ask(self, question: list[Any]) -> Any:
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return json.loads(
            self.process.stdout.readline() or sys.exit("a side has ended and says why above")
        )


def main() -> None:
    """Answer requests on standard input until it closes."""
    make = WORKS[sys.argv[1], sys.argv[2]]
    if hasattr(os, "sched_setaffinity"):  # from which TBB takes the number of its threads
        os.sched_setaffinity(
            0, sorted(os.sched_getaffinity(0))[: int(os.environ["OMP_NUM_THREADS"])]
        )
    warnings.simplefilter("ignore")
    works: dict[str, Work] = {}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # where a library may print what it likes
    for line in sys.stdin:
        match json.loads(line):
            case [str(folder), list(dtypes)]:
                works.clear()  # and with them the records they hold
                C = np.load(Path(folder) / START)
                for dtype in dtypes:
                    works[dtype] = make(np.load(Path(folder) / RECORDS).astype(dtype), C)
                np.save(Path(folder) / START, C)
                print("null", file=answers, flush=True)
            case [dtype, times]:
                print(json.dumps(spent(works[dtype], times)), file=answers, flush=True)


def _processor() -> str:
    """Return the type of processor that NumPy's OpenBLAS has found. The older OpenBLAS that comes
    with faiss may not know the processor, and would be slow.
    """
    from threadpoolctl import threadpool_info

    return next(
        (str(found["architecture"]) for found in threadpool_info() if "architecture" in found), ""
    )


def fastlloyd_fit(X: Array, C: Array) -> Work:
    """Return a function that does a whole fit: checks, grid, T iterations with noise, and labels.
    The initial centroids are written into C.
    """
    from fastlloyd import FastLloyd

    model = FastLloyd(
        len(C), epsilon=1.0, bounds=(-1.0, 1.0), n_records=len(X), n_iter=T, random_state=0
    )
    m = model.fit(X).mechanism_
    C[:] = m.domain.from_grid(m.initial_centroids())
    return lambda: model.fit(X)


def fastlloyd_kernel(X: Array, C: Array) -> Work:
    """Return a function that computes exact relative sums and counts of the records within the
    radius.
    """
    from benchmarks.runs import box
    from fastlloyd.clustering import kernels
    from fastlloyd.clustering.radius import squared_radius
    from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

    domain = box(X.shape[1], -1.0)
    grid, centroids = domain.to_grid(X), domain.to_grid(C).astype(np.int64)
    radius = squared_radius(domain, len(C), FASTLLOYD.alpha)
    return lambda: kernels.cluster_statistics(grid, centroids, radius, limits=domain.half_widths)


def kmeans_fit(module: str) -> Maker:
    """Return a maker of fits by a class with scikit-learn's interface. A fit does at most T
    iterations, and returns labels.

    module : module of the class.
    """

    def fit(X: Array, C: Array) -> Work:
        kmeans = importlib.import_module(module).KMeans
        model = kmeans(
            len(C), init=C.astype(X.dtype), n_init=1, max_iter=T, tol=0, algorithm="lloyd"
        )
        return lambda: model.fit(X)

    return fit


def scikit_learn_kernel(X: Array, C: Array) -> Work:
    """Return a function that computes sums and counts by scikit-learn's compiled function for dense
    records.
    """
    from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense

    start, weights, labels = (
        C.astype(X.dtype),
        np.ones(len(X), X.dtype),
        np.full(len(X), -1, np.int32),
    )
    new, counts, shift = np.zeros_like(start), np.zeros(len(C), X.dtype), np.zeros(len(C), X.dtype)
    threads = int(os.environ["OMP_NUM_THREADS"])
    return lambda: lloyd_iter_chunked_dense(X, weights, start, new, counts, labels, shift, threads)


def faiss_fit(X: Array, C: Array) -> Work:
    """Return a function that fits by faiss: T iterations over all records, and a search for
    labels.
    """
    faiss, start = importlib.import_module("faiss"), C.astype(X.dtype)

    def fit() -> object:
        kmeans = faiss.Kmeans(
            X.shape[1], len(C), niter=T, min_points_per_centroid=1, max_points_per_centroid=len(X)
        )
        kmeans.train(X, init_centroids=start)
        return kmeans.index.search(X, 1)

    return fit


def superkmeans_fit(X: Array, C: Array) -> Work:
    """Return a function that fits by SuperKMeans in its most exact setting: T iterations over all
    records, from its own initial centroids, and labels.
    """
    return _superkmeans(
        X, C, iters=T, tol=0.0, hierarchical=False, sampling_fraction=1.0,
        max_points_per_cluster=len(X), early_termination=False,
    )  # fmt: skip


def superkmeans_defaults(X: Array, C: Array) -> Work:
    """Return a function that fits by SuperKMeans with its default settings: at most 10 iterations,
    on some of the records.
    """
    return _superkmeans(X, C)


def _superkmeans(X: Array, C: Array, **settings: Any) -> Work:
    module, shape = importlib.import_module("superkmeans"), (len(C), X.shape[1])
    threads = int(os.environ["OMP_NUM_THREADS"])

    def fit() -> object:
        model = module.SuperKMeans(*shape, n_threads=threads, **settings)
        return model.assign_training_points(X, model.train(X))

    return fit


def moment_lloyd_defaults(X: Array, C: Array) -> Work:
    """Return a function that fits MomentLloyd with its default settings."""
    from fastlloyd import MomentLloyd

    model = MomentLloyd(len(C), epsilon=1.0, bounds=(-1.0, 1.0), n_records=len(X), random_state=0)
    return lambda: model.fit(X)


def kmeans_defaults(X: Array, C: Array) -> Work:
    """Return a function that fits KMeans with its default settings: k-means++, and iterations until
    it converges.
    """
    kmeans = importlib.import_module("sklearn.cluster").KMeans
    return lambda: kmeans(len(C), random_state=0).fit(X)


def faiss_kernel(X: Array, C: Array) -> Work:
    """Return a function that searches the nearest centroids by faiss, without sums."""
    index = importlib.import_module("faiss").IndexFlatL2(X.shape[1])
    index.add(C.astype(X.dtype))
    return lambda: index.search(X, 1)


WORKS = {
    ("fit", "fastlloyd"): fastlloyd_fit,
    ("fit", "scikit-learn"): kmeans_fit("sklearn.cluster"),
    ("fit", "scikit-learn-intelex"): kmeans_fit("sklearnex.cluster"),
    ("fit", "faiss-cpu"): faiss_fit,
    ("fit", "superkmeans"): superkmeans_fit,
    ("fit", "superkmeans-defaults"): superkmeans_defaults,
    ("defaults", "fastlloyd"): moment_lloyd_defaults,
    ("defaults", "scikit-learn"): kmeans_defaults,
    ("kernel", "fastlloyd"): fastlloyd_kernel,
    ("kernel", "scikit-learn"): scikit_learn_kernel,
    ("kernel", "faiss-cpu"): faiss_kernel,
}

if __name__ == "__main__":
    main()
