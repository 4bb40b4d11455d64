"""The clustering loss as a sum of small integers, one per record: what `queries.ClippedLoss` asks, fast and in bounded memory.

Equal to `reference.clipped_loss` bit for bit, whatever the blocks: squared distances are exact integers (see `kernels.py`).
"""

import numpy as np

from fastlloyd.clustering.domain import GridArray, IntArray
from fastlloyd.clustering.kernels import blocks, nearest


def clipped_loss(X: GridArray, centroids: IntArray, squared_cap: int, shift: int, *, block_rows: int | None = None) -> int:
    """Sum over records of the clipped squared distance to the nearest centroid; see `reference.clipped_loss`.

    X : grid points (n_records, n_features), any signed integer dtype. Works on blocks of `block_rows` records.
    """
    C = centroids.astype(np.float64)
    half = (1 << shift) >> 1
    total = 0
    for start, stop in blocks(len(X), max(C.shape), block_rows):
        _, squared = nearest(X[start:stop].astype(np.float64), C)
        kept = np.minimum(squared.astype(np.int64), squared_cap)
        total += int(((kept + half) >> shift).sum())
    return total
