"""Loss and time of other private k-means, compared with ours, on the same records with the same
bounds and epsilon.

`FASTLLOYD_DATA=... python -m studies.peers [--runs 100]`. This is research on public records, and
nothing in it is private. Methods get the exact number of records, and the loss is computed from the
records. No peer is in the lock file. The end of the table names peers that cannot be imported.
docs/results/peers.md says how to install a peer, and shows the results.
"""

import argparse
import importlib
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.cluster import KMeans

from fastlloyd import FastLloyd, MomentLloyd, SuLloyd
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.version import __version__
from fastlloyd.errors import FastLloydError, NoisyResultWarning, WeakGuaranteeWarning
from fastlloyd.evaluation.metrics import nicv
from fastlloyd_lab.datasets import named
from fastlloyd_lab.experiments.runner import installed

EPSILONS = (0.5, 1.0)
PACKAGES = ("scikit-learn", "numpy", "diffprivlib")

# Round figures that hold all records. Whoever chose them knew the records, so they only serve to
# give all the same box.
BOUNDS: dict[str, tuple[Any, Any]] = {
    "iris": ([4, 1, 0, 0], [9, 5, 8, 3]),
    "s1": (0, 1_000_000),
    "wine": (
        [10, 0, 1, 10, 50, 0, 0, 0, 0, 0, 0, 1, 200],
        [16, 6, 4, 30, 200, 4, 6, 1, 4, 14, 2, 4, 2000],
    ),
}

Fit = Callable[[FloatArray, int, float], FloatArray]
"""Records in [-1, 1], number of clusters, epsilon -> centroids in [-1, 1]."""


def ours(estimator: type[FastLloyd] | type[MomentLloyd], **settings: Any) -> Fit:
    """Return a function that fits our estimator in the central model. It gets the exact number of
    records, because peers take this number from the records.

    settings : settings that are not the default.
    """

    def fit(X: FloatArray, k: int, epsilon: float) -> FloatArray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakGuaranteeWarning)  # the preset paper's delta
            warnings.simplefilter("ignore", NoisyResultWarning)  # that is what is measured
            model = estimator(k, epsilon=epsilon, bounds=(-1, 1), n_records=len(X), **settings)
            return np.asarray(model.fit(X).cluster_centers_)

    return fit


def one_mean(X: FloatArray, _k: int, _epsilon: float) -> FloatArray:
    """Return the exact mean of all records: the result without any clusters."""
    return np.asarray(X.mean(axis=0, keepdims=True))


def scikit_learn(X: FloatArray, k: int, _epsilon: float) -> FloatArray:
    """Return the centroids of k-means without privacy, the best of ten starts. Their loss is about
    the smallest possible.
    """
    return np.asarray(KMeans(k, n_init=10).fit(X).cluster_centers_)


def diffprivlib() -> Fit:
    """Return a function that fits diffprivlib's KMeans. Raises ImportError if diffprivlib is not
    installed, or does not work with the installed scikit-learn.
    """
    peer = importlib.import_module("diffprivlib.models").KMeans

    def fit(X: FloatArray, k: int, epsilon: float) -> FloatArray:
        return np.asarray(peer(k, epsilon=epsilon, bounds=(-1, 1)).fit(X).cluster_centers_)

    return fit


def scaled(name: str) -> FloatArray:
    """Return the records of a named set, each feature scaled so that its bounds become -1 and 1."""
    X = named.load(name).values
    lower, upper = (
        np.broadcast_to(np.asarray(end, dtype=np.float64), X.shape[1:]) for end in BOUNDS[name]
    )
    scaled: FloatArray = 2 * (X - lower) / (upper - lower) - 1
    assert np.abs(scaled).max() <= 1  # nothing is clipped
    return scaled


def measure(fit: Fit, X: FloatArray, k: int, epsilon: float, runs: int) -> tuple[str, str, str]:
    """Return, as text, the mean loss with its standard error, the median loss, and the median
    milliseconds of a fit. Every run has new random noise.
    """
    losses, seconds = [], []
    for _ in range(runs):
        start = time.perf_counter()
        centroids = fit(X, k, epsilon)
        seconds.append(time.perf_counter() - start)
        losses.append(nicv(X, centroids))
    error = float(np.std(losses, ddof=1)) / math.sqrt(runs)
    return (
        f"{np.mean(losses):.4g} ± {error:.2g}",
        f"{np.median(losses):.4g}",
        f"{1000 * np.median(seconds):.3g}",
    )


def main() -> int:
    """Print the table. Return the exit code, which is 2 without the data sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="runs per cell, at least 2")
    runs: int = parser.parse_args().runs
    if runs < 2:
        parser.error(f"--runs is {runs}; a standard error needs at least 2")
    methods: dict[str, Fit] = {
        "one mean (not private)": one_mean,
        "scikit-learn KMeans (not private)": scikit_learn,
        "fastlloyd MomentLloyd": ours(MomentLloyd),
        "fastlloyd FastLloyd": ours(FastLloyd),
        "fastlloyd FastLloyd, preset paper": ours(FastLloyd, preset="paper"),
        "fastlloyd SuLloyd (delta = 0)": ours(SuLloyd),
    }
    not_run = [
        (
            "dpfknn, google/differential-privacy learning/clustering, D-Diaa/FastLloyd (no package"
            " found)"
        )
    ]
    try:
        methods["diffprivlib KMeans (delta = 0)"] = diffprivlib()
    except ImportError as error:
        not_run.append(f"diffprivlib ({error})")
    table = Table(title=f"NICV, mean and standard error of {runs} runs")
    for column in ("set", "epsilon", "method", "mean", "median", "ms per fit"):
        table.add_column(column, justify="left" if column in ("set", "method") else "right")
    console = Console(width=120)
    for name in BOUNDS:
        try:
            X, k = scaled(name), named.n_clusters(name)
        except FastLloydError as error:
            console.print(str(error))
            return 2
        for epsilon in EPSILONS:
            for label, fit in methods.items():
                table.add_row(name, f"{epsilon:g}", label, *measure(fit, X, k, epsilon, runs))
    console.print(table)
    versions = {"fastlloyd": __version__} | {name: installed(name) or "-" for name in PACKAGES}
    console.print(", ".join(map(" ".join, versions.items())))
    console.print("NOT RUN: " + "; ".join(not_run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
