"""The queries of MomentLloyd once more, record by record in Python's integers: their oracle.

X : records on the grid, int (n, d); centre, centroids, candidates, origin : integers, in grid
units; radius : an integer, 1 or more; units : U, the integer length that the radius becomes. Sums
are lists of Python integers.
"""

from itertools import combinations
from math import isqrt

from fastlloyd.base.arrays import GridArray, IntArray

Vector = list[int]


def toward_zero(numerator: int, denominator: int) -> int:
    """Quotient without its fraction; the denominator is positive."""
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


def clip(z: Vector, radius: int, units: int) -> Vector:
    """z units / max(radius, |z|), |z| rounded up, the coordinates towards zero: never longer than
    `units`.
    """
    squared = sum(v * v for v in z)
    length = isqrt(squared) + (isqrt(squared) ** 2 < squared)
    return [toward_zero(v * units, max(radius, length)) for v in z]


def clipped_length(z: Vector, radius: int, units: int) -> int:
    """min(|z|, radius) units / radius, |z| and the result rounded down: 0 to `units`."""
    return min(isqrt(sum(v * v for v in z)), radius) * units // radius


def offsets(X: GridArray, centre: IntArray) -> list[Vector]:
    """x - centre, one per record."""
    g = centre.tolist()
    return [[a - b for a, b in zip(x, g, strict=True)] for x in X.tolist()]


def nearest(point: Vector, centroids: list[Vector]) -> int:
    """Index of the nearest centroid; ties go to the lowest."""
    squared = [sum((a - b) ** 2 for a, b in zip(point, c, strict=True)) for c in centroids]
    return squared.index(min(squared))


def place(X: GridArray, origin: IntArray, directions: IntArray) -> list[Vector]:
    """V'(x - g) / 2**20, towards zero; directions : V, int (d, r)."""
    columns = directions.T.tolist()
    return [
        [
            toward_zero(sum(v * a for v, a in zip(column, z, strict=True)), 1 << 20)
            for column in columns
        ]
        for z in offsets(X, origin)
    ]


def histograms(X: GridArray, start: IntArray, step: IntArray) -> list[Vector]:
    """Per feature, how many records lie in each of 8 nodes, then in each of 64 leaves of `step`
    from `start` on.
    """
    rows = []
    for j, (low, width) in enumerate(zip(start.tolist(), step.tolist(), strict=True)):
        leaves = [min(max((x - low) // width, 0), 63) for x in X[:, j].tolist()]
        rows.append(
            [sum(leaf // 8 == node for leaf in leaves) for node in range(8)]
            + [leaves.count(i) for i in range(64)]
        )
    return rows


def clipped_lengths(X: GridArray, centre: IntArray, radius: int, units: int) -> int:
    """Sum of the clipped |x - centre|."""
    return sum(clipped_length(z, radius, units) for z in offsets(X, centre))


def clipped_squares(X: GridArray, centre: IntArray, radius: int, units: int) -> Vector:
    """Sum of the squares of the coordinates of the clipped x - centre, d integers."""
    clipped = [clip(z, radius, units) for z in offsets(X, centre)]
    return [sum(z[j] ** 2 for z in clipped) for j in range(len(centre))]


def second_moment(X: GridArray, centre: IntArray, radius: int, units: int) -> Vector:
    """Sum of z_i z_j of the clipped z = x - centre: all i = j, then all i < j, row by row."""
    clipped = [clip(z, radius, units) for z in offsets(X, centre)]
    pairs = [(i, i) for i in range(len(centre))] + list(combinations(range(len(centre)), 2))
    return [sum(z[i] * z[j] for z in clipped) for i, j in pairs]


def votes(points: list[Vector], candidates: IntArray) -> Vector:
    """How many points each candidate is the nearest of."""
    labels = [nearest(point, candidates.tolist()) for point in points]
    return [labels.count(j) for j in range(len(candidates))]


def clipped_offsets(
    points: list[Vector], centroids: IntArray, radius: int, units: int
) -> list[Vector]:
    """Per centroid, the sum of clipped offsets of the points nearest to it and, last, their
    number.
    """
    rows = [[0] * (centroids.shape[1] + 1) for _ in centroids]
    for point in points:
        j = nearest(point, centroids.tolist())
        offset = [a - b for a, b in zip(point, centroids[j].tolist(), strict=True)]
        rows[j] = [
            total + v for total, v in zip(rows[j], [*clip(offset, radius, units), 1], strict=True)
        ]
    return rows
