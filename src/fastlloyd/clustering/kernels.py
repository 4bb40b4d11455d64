"""The function of `reference.py`, fast, in bounded memory and on all cores, and equal to it bit for bit.

Squared distances are sums of products of integers in float64. d (B + c_max)^2 < 2**53 (`Domain.saturation`), so all of them
are exact, whatever the order, the block size, the number of threads and the machine. Three ways to the same integers, chosen
by shape (measured in docs/results/performance.md):

- few features: compiled loops over records, feature by feature (`compiled.py`);
- many features: one matrix product per block by BLAS, the rest compiled;
- small data, or without numba: one matrix product per block, the rest NumPy.

Shapes, centroids and the range in which records *may* lie decide what is done, never where records do lie: what a record costs
is the same for all records, up to what the processor makes of their bits.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastlloyd.clustering.acceleration import compiled_code, is_compiled, n_threads
from fastlloyd.clustering.domain import FloatArray, GridArray, IntArray, is_by_feature

BLOCK_ELEMENTS = 1 << 18  # 2 MiB of float64 for the larger of the block's two matrices: stays in the cache
FEATURE_CELLS = 4800  # of a block of the compiled loops with all that is computed of it, 38 KB: about the innermost cache
PIECES = 2  # per thread: what a thread that wakes up late cannot do is done by another
MANY_PIECES = 16  # the same where labels take long: no thread then waits long for another in the end
CHUNKS = 16  # the same where compiled code takes them, which costs next to nothing
WORTH_THREADS = 1 << 19  # n k d from which a second thread is repaid
LONG_WORK = 1 << 27  # n k d of some tenths of a second
SPAN_RECORDS = 1 << 25  # records per float64 accumulator, whose sums so stay below 2**53

_NO_LIMITS = np.zeros(0, dtype=np.int64)
Statistics = tuple[IntArray, IntArray]
Labels = NDArray[np.int32]
Span = tuple[int, int]
_T = TypeVar("_T")


def cluster_statistics(
    X: GridArray,
    centroids: IntArray,
    squared_radius: int | None,
    *,
    limits: IntArray | None = None,
    block_rows: int | None = None,
) -> Statistics:
    """Relative sums and counts of `reference.cluster_statistics`; same integers. X may be int32, and of any memory order.

    limits : what coordinates of records are at most in magnitude, int64 (n_features,), from public knowledge: the narrower, the
    faster. None: squared distances of records and centroids are below 2**53, which must hold in any case.
    Works on blocks of `block_rows` records (chosen from the shape when None): no array of n_records x n_clusters exists.
    """
    centroids = np.ascontiguousarray(centroids, dtype=np.int64)
    radius = np.inf if squared_radius is None else float(squared_radius)
    compiled = _is_compiled(X, centroids)
    group = _group_size(centroids, limits) if compiled else 1
    if compiled and _is_feature_major(X):
        found = _feature_statistics(X.T, (0, len(X)), centroids, group, radius, block_rows, _threads(X, len(centroids)))
        if found:
            return found[0] - found[1][:, None] * centroids, found[1]

    def statistics(start: int, stop: int) -> Statistics:
        if compiled:
            return _compiled_statistics(X, (start, stop), centroids, group, radius, block_rows)
        return _plain_statistics(X[start:stop], centroids, radius, block_rows)

    sums, counts = np.zeros(centroids.shape, dtype=np.int64), np.zeros(len(centroids), dtype=np.int64)
    for some_sums, some_counts in on_all_cores(statistics, X, len(centroids), compiled):
        sums += some_sums
        counts += some_counts
    return sums - counts[:, None] * centroids, counts


def assign(X: GridArray, centroids: IntArray, *, limits: IntArray | None = None, block_rows: int | None = None) -> Labels:
    """Index of the nearest centroid of every record, int32 (n_records,); ties go to the lowest index. limits : as above."""
    centroids = np.ascontiguousarray(centroids, dtype=np.int64)
    if len(centroids) == 1:
        return np.zeros(len(X), dtype=np.int32)
    labels = np.empty(len(X), dtype=np.int32)
    compiled = _is_compiled(X, centroids)
    group = _group_size(centroids, limits) if compiled else 1

    def label(start: int, stop: int) -> None:
        if compiled:
            _compiled_labels(X, (start, stop), centroids, group, block_rows, labels)
        else:
            _plain_labels(X[start:stop], centroids, block_rows, labels[start:stop])

    per_thread = PIECES if X.size * len(centroids) < LONG_WORK else MANY_PIECES
    on_all_cores(label, X, len(centroids), compiled, per_thread)
    return labels


def nearest(X: FloatArray, C: FloatArray) -> tuple[IntArray, FloatArray]:
    """Index of, and exact squared distance to, the nearest centroid; X and C hold integers."""
    scores = X @ (-2.0 * C.T) + (C**2).sum(axis=1)  # squared distance minus |x|^2, which is the same for all centroids
    labels = scores.argmin(axis=1)
    squared = np.einsum("ij,ij->i", X, X) + scores[np.arange(len(X)), labels]
    return labels, squared


def squared_distances(X: GridArray, C: IntArray) -> FloatArray:
    """Exact squared distances between all rows of two small integer matrices, float64 (len(X), len(C))."""
    x, c = X.astype(np.float64), C.astype(np.float64)
    squared: FloatArray = (x**2).sum(axis=1)[:, None] - 2.0 * (x @ c.T) + (c**2).sum(axis=1)
    return squared


def blocks(n_records: int, width: int, block_rows: int | None) -> list[tuple[int, int]]:
    """The [start, stop) ranges of records that are worked on together."""
    rows = block_rows or max(256, BLOCK_ELEMENTS // width)
    return [(start, min(start + rows, n_records)) for start in range(0, n_records, rows)]


def _plain_statistics(X: GridArray, centroids: IntArray, squared_radius: float, block_rows: int | None) -> Statistics:
    """Absolute sums and counts by NumPy: the sums are a second matrix product, with the matrix of who belongs where."""
    k, d = centroids.shape
    C = centroids.astype(np.float64)
    sums, counts = np.zeros((k, d), dtype=np.int64), np.zeros(k, dtype=np.int64)
    for start, stop in blocks(len(X), max(k, d), block_rows):
        block = X[start:stop].astype(np.float64)
        labels, squared = nearest(block, C)
        members = np.zeros((stop - start, k))
        members[np.arange(stop - start), labels] = squared <= squared_radius
        sums += (members.T @ block).astype(np.int64)
        counts += members.sum(axis=0).astype(np.int64)
    return sums, counts


def _plain_labels(X: GridArray, centroids: IntArray, block_rows: int | None, labels: Labels) -> None:
    C = centroids.astype(np.float64)
    for start, stop in blocks(len(X), max(centroids.shape), block_rows):
        labels[start:stop], _ = nearest(X[start:stop].astype(np.float64), C)


def _group_size(centroids: IntArray, limits: IntArray | None) -> int:
    """How many centroids compiled code tells apart by one key, exactly for all records within the limits."""
    return int(compiled_code().group_size(centroids, _NO_LIMITS if limits is None else limits))


def _compiled_statistics(
    X: GridArray, span: Span, centroids: IntArray, group: int, squared_radius: float, block_rows: int | None
) -> Statistics:
    """The same for X[start:stop] by compiled code."""
    k, d = centroids.shape
    if is_by_feature(X):
        totals, numbers = np.zeros((k, d), dtype=np.int64), np.zeros(k, dtype=np.int64)
        for XT, part, _ in _feature_major(X, span):
            some_totals, some_numbers = _of_features(XT, part, centroids, group, squared_radius, block_rows)
            totals += some_totals
            numbers += some_numbers
        return totals, numbers
    A, constants, _ = compiled_code().keys(centroids, float(group), 1, d)
    sums, counts = np.zeros((k + 1, d)), np.zeros(k + 1)
    for block, squares, products, _ in _products(X, span, A, block_rows):
        compiled_code().row_statistics(block, squares, products, constants, float(group), squared_radius, sums, counts)
    return sums[:k].astype(np.int64), counts[:k].astype(np.int64)


def _feature_statistics(
    XT: NDArray[np.int32],
    span: Span,
    centroids: IntArray,
    group: int,
    squared_radius: float,
    block_rows: int | None,
    threads: int,
) -> Statistics | None:
    """The same for XT[:, start:stop], shared by so many threads; None if one of them had no memory."""
    if threads == 1:
        return _of_features(XT, span, centroids, group, squared_radius, block_rows)
    from fastlloyd.clustering.team import share_statistics  # with numba, which takes a while

    rows = block_rows or _feature_rows(len(XT))
    return share_statistics(XT, span, _chunk(span, rows, threads), centroids, group, squared_radius, rows, threads)


def _of_features(
    XT: NDArray[np.int32], span: Span, centroids: IntArray, group: int, squared_radius: float, block_rows: int | None
) -> Statistics:
    """The same by this thread."""
    rows = block_rows or _feature_rows(len(XT))
    sums, counts = np.zeros(centroids.shape, dtype=np.int64), np.zeros(len(centroids), dtype=np.int64)
    chunk, counters = _chunk(span, rows, 1), np.zeros(2, dtype=np.int64)
    compiled_code().feature_statistics(XT, *span, chunk, counters, centroids, float(group), squared_radius, rows, sums, counts)
    return sums, counts


def _chunk(span: Span, rows: int, threads: int) -> int:
    """Records that a thread takes at a time, and adds up what it finds, without the others: whole blocks of rows."""
    return min(SPAN_RECORDS, max(1, -(-(span[1] - span[0]) // (CHUNKS * threads * rows))) * rows)


def _compiled_labels(X: GridArray, span: Span, centroids: IntArray, group: int, block_rows: int | None, labels: Labels) -> None:
    if is_by_feature(X):
        rows = block_rows or _feature_rows(X.shape[1])
        for XT, (start, stop), first in _feature_major(X, span):
            compiled_code().feature_labels(XT, start, stop, centroids, float(group), rows, labels[first:])
        return
    A, constants, _ = compiled_code().keys(centroids, float(group), 1, X.shape[1])
    for _, squares, products, first in _products(X, span, A, block_rows):
        compiled_code().row_labels(squares, products, constants, float(group), np.inf, labels[first:])


def _feature_rows(d: int) -> int:
    """Records per block: of each there are the features, a 1 and zeros, and four numbers more."""
    return FEATURE_CELLS // (d // 4 * 4 + 8)


def _feature_major(X: GridArray, span: Span) -> Iterator[tuple[NDArray[np.int32], Span, int]]:
    """X[start:stop] as (XT, (first, last), place in X): int32 (d, n) in C order, copied in parts unless X is that already."""
    if _is_feature_major(X):
        yield X.T, span, span[0]
        return
    rows = max(1, BLOCK_ELEMENTS // X.shape[1])
    for start in range(span[0], span[1], rows):
        part = X[start : min(start + rows, span[1])].T.astype(np.int32, order="C")
        yield part, (0, part.shape[1]), start


def _products(
    X: GridArray, span: Span, A: FloatArray, block_rows: int | None
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, int]]:
    """Blocks of X[start:stop], their squared norms, their products with the keys, their place; overwritten by the next."""
    k, d = A.shape
    spans = blocks(span[1] - span[0], max(k, d), block_rows)
    rows = spans[0][1] if spans else 0
    all_rows, all_squares, all_products = np.empty((rows, d)), np.empty(rows), np.empty((k, rows))
    for start, stop in spans:
        m, first = stop - start, span[0] + start
        block, squares, products = all_rows[:m], all_squares[:m], all_products[:, :m]
        if X.dtype == np.int32 and X.flags.c_contiguous:
            compiled_code().load_rows(X, first, block, squares)
        else:
            compiled_code().load_rows(X[first : first + m].astype(np.int32, order="C"), 0, block, squares)
        np.matmul(A, block.T, out=products)
        yield block, squares, products, first


def _is_feature_major(X: GridArray) -> bool:
    return is_by_feature(X) and X.dtype == np.int32 and X.flags.f_contiguous


def _threads(X: GridArray, k: int) -> int:
    return n_threads() if X.size * k >= WORTH_THREADS else 1


def _is_compiled(X: GridArray, centroids: IntArray) -> bool:
    return X.dtype.kind == "i" and is_compiled(X.size * len(centroids))  # it would cut off the digits of what is no integer


def on_all_cores(task: Callable[[int, int], _T], X: GridArray, k: int, compiled: bool, per_thread: int = PIECES) -> list[_T]:
    """The task's results for spans that cover range(n). Python's threads: compiled code and BLAS run without its lock.

    There are more spans than threads, and each thread takes the next when it is done: one that wakes up late takes fewer.
    """
    n = len(X)
    threads = _threads(X, k) if compiled else 1
    pieces = max(1 if threads == 1 else per_thread * threads, -(-n // SPAN_RECORDS))
    spans = list(pairwise(n * piece // pieces for piece in range(pieces + 1)))
    if threads == 1:
        return [task(*span) for span in spans]
    from fastlloyd.clustering.team import work_together  # with numba, which takes a while

    with nullcontext() if is_by_feature(X) else one_blas_thread():
        return work_together(task, spans, threads)


class _OneBlasThread:
    """How many are within, and how to go back to as many threads as there were before the first of them came."""

    def __init__(self) -> None:
        self.lock, self.within = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.within:
                self.limit = _blas().limit(limits=1, user_api="blas")
            self.within += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.within -= 1
            if not self.within:
                self.limit.restore_original_limits()


@cache
def one_blas_thread() -> AbstractContextManager[None]:
    """Within, BLAS works with the thread that calls it and no other, in all of the process: BLAS knows nothing narrower.

    One for all threads of the process, so that the last to leave restores what the first found; a forked child makes its own.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=one_blas_thread.cache_clear)
    return _OneBlasThread()


@cache
def _blas() -> Any:
    """A controller of the loaded BLAS, whose own threads would compete with ours."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
