"""Groups of records with the same key. A key is a small integer, such as the index of a client or a
number of shares.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering.gridding import is_by_feature
from fastlloyd.clustering.parallel import over_spans

Keys = NDArray[np.uint16]


def grouped(X: GridArray, keys: Keys) -> Iterator[tuple[int, GridArray]]:
    """Yield each key, ascending, with its records of X (n, d) in their order.

    keys : key of each record, uint16 (n,).
    """
    sizes = np.bincount(keys).astype(np.int64, copy=False)
    there = np.flatnonzero(sizes)
    if X.dtype == np.int32 and X.flags.f_contiguous and is_compiled(X.size):
        yield from zip(there.tolist(), _compiled(X, keys, sizes, there), strict=True)
        return
    order, ends = np.argsort(keys, kind="stable"), np.cumsum(sizes)
    for key in there.tolist():
        rows = order[ends[key] - sizes[key] : ends[key]]
        yield key, X.T.take(rows, axis=1).T if is_by_feature(X) else X[rows]


def _compiled(X: GridArray, keys: Keys, sizes: IntArray, there: IntArray) -> list[GridArray]:
    """Return, for each key in `there`, its records (size, d). The results are parts of one array,
    which is filled feature by feature.
    """
    from fastlloyd.clustering.compiled.grouping import place

    n, d = X.shape
    begins = np.cumsum(sizes) - sizes
    memory = np.empty(n * d, dtype=np.int32)

    def fill(start: int, stop: int) -> None:
        for j in range(start, stop):
            place(X.T[j], keys, begins * d + sizes * j, memory)

    over_spans(fill, X.T, least=1)
    return [memory[d * begins[key] :][: d * sizes[key]].reshape(d, -1).T for key in there]
