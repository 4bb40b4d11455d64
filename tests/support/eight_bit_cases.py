"""Records and centroids for searches by bytes: what their bounds like least."""

import numpy as np

from fastlloyd.base.arrays import IntArray

KINDS = ["any", "binary", "near ties", "coincident", "bunch", "corner", "outside", "half-way"]


def situation(kind: str, n: int, k: int, d: int, B: int, seed: int) -> tuple[IntArray, IntArray]:
    """Records and centroids of a kind, within B if they are not "outside"."""
    generator = np.random.default_rng(seed)
    X, C = (generator.integers(-B, B, (rows, d), endpoint=True) for rows in (n, k))
    pairs = generator.integers(0, k, (2, n))
    match kind:
        case "binary":
            X, C = np.where(X > 0, B, -B), np.where(C > 0, B, -B)
        case "near ties":  # between two centroids, up to one unit in each coordinate
            X = (C[pairs[0]] + C[pairs[1]]) // 2 + generator.integers(-1, 2, (n, d))
        case "coincident":
            C = C[generator.integers(0, min(2, k), k)]
        case "bunch":  # far fewer steps of the records' bytes apart than there are centroids
            C = C[0] // 2 + generator.integers(-(B // 300) - 1, B // 300 + 2, (k, d))
        case "corner":
            X, C = B - np.abs(X) // 50, B - np.abs(C) // 50
        case "outside":  # and no centroid is near the others
            C = C * generator.choice([0, 1, 3], (k, 1))
        case "half-way":  # rounding to bytes loses as much as it can
            step = max(1, -(-B // 127))
            X = X // step * step + step // 2
    return X.clip(-B, B), C
