"""Speed of the parts, each beside a named peer in the same run: medians of paired, alternating repetitions.

`python -m benchmarks [--quick]` prints a table. Read ratios, not seconds: a shared machine drifts, and both columns drift
together.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from fastlloyd.algorithms import FASTLLOYD
from fastlloyd.clustering import kernels, reference
from fastlloyd.clustering.domain import Domain, IntArray
from fastlloyd.design import design_plan
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.expander import PublicSeed
from fastlloyd.records import open_records
from fastlloyd.records.record_file import BLOCK_CELLS
from fastlloyd.secagg.masks import GroupKey, MaskContext, expand_mask
from fastlloyd.secagg.ring import Ring
from fastlloyd.simulation import roster, simulate, split_evenly

SHAPES = [(10_000, 2, 2), (100_000, 5, 5), (100_000, 15, 2), (25_000, 100, 2), (100_000, 32, 64), (10_000, 10, 784)]
QUICK = SHAPES[:3]
B = 1 << 16


def paired(first: Callable[[], object], second: Callable[[], object], repetitions: int) -> tuple[float, float, float]:
    """Median seconds of both, run in turn, and the median of their ratios pair by pair (second over first)."""
    pairs = []
    for _ in range(repetitions + 1):
        t0 = time.perf_counter()
        first()
        t1 = time.perf_counter()
        second()
        pairs.append((t1 - t0, time.perf_counter() - t1))
    pairs = pairs[1:]  # the first pair warms up
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    return statistics.median(a), statistics.median(b), statistics.median(y / x for x, y in pairs)


def scikit_learn_iteration(X: IntArray, C: IntArray) -> Callable[[], object]:
    """One iteration of scikit-learn's dense kernel on the same records as float64, all threads."""
    records, centroids = X.astype(np.float64), C.astype(np.float64)
    new, weights = np.zeros_like(centroids), np.ones(len(X))
    counts, labels, shift = np.zeros(len(C)), np.full(len(X), -1, dtype=np.int32), np.zeros(len(C))
    threads = _openmp_effective_n_threads()
    return lambda: lloyd_iter_chunked_dense(records, weights, centroids, new, counts, labels, shift, threads)


def kernel_rows(table: Table, shapes: list[tuple[int, int, int]], repetitions: int) -> None:
    """Relative sums and counts beside scikit-learn's kernel and plain broadcasting."""
    rng = np.random.default_rng(0)
    for n, k, d in shapes:
        X, C = rng.integers(-B, B + 1, (n, d)), rng.integers(-B, B + 1, (k, d))
        H2 = d * B**2 // 4

        def ours(X: IntArray = X, C: IntArray = C, H2: int = H2) -> object:
            return kernels.cluster_statistics(X, C, H2)

        row = paired(ours, scikit_learn_iteration(X, C), repetitions)
        add(table, f"one iteration, N={n:,} k={k} d={d}", row, "scikit-learn lloyd_iter_chunked_dense")
        if n * k * d <= 50_000_000:

            def broadcasting(X: IntArray = X, C: IntArray = C, H2: int = H2) -> object:
                return reference.cluster_statistics(X, C, H2)

            row = paired(ours, broadcasting, max(3, repetitions // 3))
            add(table, f"one iteration, N={n:,} k={k} d={d}", row, "NumPy broadcasting (reference.py)")


def noise_row(table: Table, repetitions: int) -> None:
    """The exact sampler beside NumPy's float Gaussian, which gives no privacy."""
    source, rng = SystemNoise(), np.random.default_rng()
    row = paired(
        lambda: source.gaussian(Fraction(1 << 24), 100 * 1025), lambda: rng.normal(0, 1 << 24, 100 * 1025), repetitions
    )
    add(table, "noise, 100 x 1025, exact and from the CSPRNG", row, "numpy Generator.normal (not private)")


def mask_row(table: Table, repetitions: int) -> None:
    """Masks of ten clients beside reading as many bytes from the operating system."""
    key, words = GroupKey.draw(os.urandom), 100 * 1025 + 1
    contexts = [
        MaskContext(
            plan_digest=bytes(32),
            run_id=bytes(16),
            round=1,
            client=f"client-{i}",
            upload_nonce=bytes(8),
            transcript_hash=bytes(32),
            centroids_digest=bytes(32),
        )
        for i in range(10)
    ]
    row = paired(
        lambda: [expand_mask(key, context, words, Ring.Z64) for context in contexts],
        lambda: [os.urandom(8 * words) for _ in contexts],
        repetitions,
    )
    add(table, "masks of 10 clients, 100 x 1025 words of 64 bits", row, "os.urandom of as many bytes")


def round_row(table: Table, repetitions: int) -> None:
    """A federated round in process beside the same round's kernels, noise and masks alone."""
    X = np.random.default_rng(0).integers(-B, B + 1, (2000, 2))
    domain = Domain(features=("x", "y"), lower=(-1.0, -1.0), upper=(1.0, 1.0))
    seed = PublicSeed.from_int(0)
    clients, identities = roster(("a", "b"), len(X))
    rounds = 40
    plan = design_plan(
        FASTLLOYD,
        domain,
        clients=clients,
        run_id=os.urandom(16),
        n_clusters=15,
        epsilon=1.0,
        public_seed=seed,
        n_iterations=rounds,
    )
    parts = split_evenly(X, 2, seed)
    source, key = SystemNoise(), GroupKey.draw(os.urandom)
    start = plan.mechanism.initial_centroids()
    context = MaskContext(
        plan_digest=bytes(32), run_id=bytes(16), round=1, client="a", upload_nonce=bytes(8), transcript_hash=bytes(32),
        centroids_digest=bytes(32),
    )  # fmt: skip

    def parts_alone() -> None:
        for _ in range(rounds):
            for part in parts:
                kernels.cluster_statistics(part, start, plan.mechanism.rounds[-1].squared_radius)
                plan.draw_client_noise(plan.mechanism.rounds[-1], source)
                for _ in range(3):  # its own for the upload, both for the broadcast
                    expand_mask(key, context, plan.n_words, plan.ring)

    alone, whole, ratio = paired(parts_alone, lambda: simulate(plan, identities, parts), repetitions)
    add(
        table,
        "kernels, noise, masks of a round, 2 clients, k=15 d=2",
        (alone / rounds, whole / rounds, ratio),
        "whole federated round",
    )


def reading_row(table: Table, repetitions: int) -> None:
    """A pass over a Parquet file of a million float32 records beside pyarrow's reader alone."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    n, d = 1_000_000, 16
    cells = np.random.default_rng(0).normal(size=(d, n)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pq.write_table(pa.table(list(cells), names=[f"x{i}" for i in range(d)]), path, row_group_size=n, use_dictionary=False)
        file = open_records(path)

        def alone() -> None:
            with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as opened:
                for _ in opened.iter_batches(batch_size=BLOCK_CELLS // d):
                    pass

        row = paired(lambda: [None for _ in file.blocks()], alone, repetitions)
    add(table, f"a pass over Parquet, N={n:,} d={d}, float32", row, "pyarrow ParquetFile.iter_batches")


def start_row(table: Table, repetitions: int) -> None:
    """`fastlloyd --help` beside starting Python and nothing else."""

    def start(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    add(table, "fastlloyd --help", paired(start("-m", "fastlloyd", "--help"), start("-c", ""), repetitions), "python -c ''")


def add(table: Table, what: str, row: tuple[float, float, float], peer: str) -> None:
    """One line: ours, the peer, the ratio."""
    table.add_row(what, f"{1e3 * row[0]:.3f}", f"{1e3 * row[1]:.3f}", f"{row[2]:.2f}", peer)


def main() -> int:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer shapes and repetitions")
    quick = parser.parse_args().quick
    repetitions = 5 if quick else 15
    table = Table(title=f"medians of {repetitions} pairs, milliseconds; {os.cpu_count()} cores")
    for name in ("what", "ours", "peer", "peer / ours", "named peer"):
        table.add_column(name, justify="left" if name in ("what", "named peer") else "right")
    kernel_rows(table, QUICK if quick else SHAPES, repetitions)
    noise_row(table, repetitions)
    mask_row(table, repetitions)
    round_row(table, repetitions)
    reading_row(table, repetitions)
    start_row(table, repetitions)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
