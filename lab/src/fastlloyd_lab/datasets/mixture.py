"""Random normal clusters with a specified degree of separation, records of them, and outliers (Qiu
and Joe 2006).

Qiu and Joe's method as the R package clusterGeneration has it by default: covariances with
eigenvalues uniform in [1, 10] and eigenvectors uniform among all orthogonal matrices, centres on a
randomly rotated grid of simplices.

Project two clusters onto a line, and cut alpha / 2 off each tail of each. Their separation is the
gap between the inner ends over the distance of the outer ends, on the line where that is largest.
It is s if and only if the ellipsoids around their means whose Mahalanobis radius is z (1 + s) / (1
- s) just touch, z = z_(alpha / 2), alpha = 0.05. So:

1. the grid is scaled until the first two of the ellipsoids touch, and no two overlap;
2. cluster by cluster, an ellipsoid that touches no other grows until it does.

What touches is never moved or grown again. So in the end each touches one and none overlap: every
cluster has separation s from its nearest neighbour, up to rounding, after one pass.

The size at which two ellipsoids touch is the largest value of a function of directions. So every
direction gives a lower bound; a few steps give a good one for all pairs, and only where the bound
is least it is made exact. Source: W. Qiu and H. Joe, "Generation of random clusters with specified
degree of separation", Journal of Classification 23 (2006) 315-334: grid, scaling, growth; the index
is theirs, too ("Separation index and partial membership for clustering", Computational Statistics
and Data Analysis 50 (2006) 585-603). Ellipsoids, bounds and the single pass are ours.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed

OUTLIER = -1  # label of a record that belongs to no cluster
EIGENVALUES = (1.0, 10.0)  # range of those of covariances before clusters grow
# outliers lie within so many standard deviations of the mean of all other records, feature by
# feature
OUTLIER_REACH = 4.0
Z = 1.959963984540054  # upper 2.5 % point of the normal law: alpha = 0.05, as Qiu and Joe have it
_GAIN = 1e-14  # relative gain of a step below which a size is found
_ROUGH, _EXACT = 1e-2, 1e-10  # residuals of directions: sizes err by the order of their squares


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Normal clusters in d dimensions.

    means : (k, d); axes : (k, d, d), orthogonal, each cluster's eigenvectors as columns; deviations
    : (k, d), along the axes.
    """

    means: FloatArray
    axes: FloatArray
    deviations: FloatArray

    def records(self, sizes: IntArray, draws: Draws) -> tuple[FloatArray, IntArray]:
        """sizes[i] records of each cluster i, sorted by it: (n, d), and their labels (n,)."""
        parts = [
            mean + (draws.normal((int(size), len(mean))) * deviations) @ axes.T
            for size, mean, axes, deviations in zip(
                sizes, self.means, self.axes, self.deviations, strict=True
            )
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def draws_for(name: str) -> Draws:
    """Return independent draws for each name, for everything random about records of that name."""
    return Draws(PublicSeed.from_text(name), b"fastlloyd/v1/synthetic-records")


def random_mixture(k: int, d: int, separation: float, draws: Draws) -> Mixture:
    """Draw k >= 2 clusters in d >= 2 dimensions, each with this separation, in (-1, 1), from its
    nearest neighbour.
    """
    grid = simplex_grid(k, d) @ draws.rotation(d).T
    axes = np.stack([draws.rotation(d) for _ in range(k)])
    deviations = np.sqrt(draws.uniform(*EIGENVALUES, (k, d)))
    factor, sizes = place(grid, covariances(axes, deviations), touching_radius(separation))
    return Mixture(means=factor * grid, axes=axes, deviations=sizes[:, None] * deviations)


def with_outliers(
    records: FloatArray, labels: IntArray, n_outliers: int, draws: Draws
) -> tuple[FloatArray, IntArray]:
    """Add outliers, uniform within `OUTLIER_REACH` standard deviations of the records' mean in
    every feature.
    """
    mean, reach = records.mean(axis=0), OUTLIER_REACH * records.std(axis=0, ddof=1)
    outliers = mean + draws.uniform(-1.0, 1.0, (n_outliers, len(mean))) * reach
    return np.concatenate([records, outliers]), np.concatenate(
        [labels, np.full(n_outliers, OUTLIER, dtype=np.int64)]
    )


def covariances(axes: FloatArray, deviations: FloatArray) -> FloatArray:
    """Covariance matrices (k, d, d) of normal clusters, from their axes (k, d, d) and deviations
    (k, d) along these.
    """
    scaled = axes * deviations[:, None, :]
    return np.asarray(scaled @ scaled.transpose(0, 2, 1))


# Places of centres


def touching_radius(separation: float) -> float:
    """Mahalanobis radius at which the ellipsoids of two clusters with this separation, in (-1, 1),
    touch.
    """
    return Z * (1 + separation) / (1 - separation)


def simplex_grid(k: int, d: int) -> FloatArray:
    """Centres (k, d), nearest ones 2 apart: the d + 1 vertices of a simplex, then copies of all but
    the first.

    The first two vertices are -e1 and e1; copies are shifted by 2 e1, 4 e1, and so on. d is at
    least 2.
    """
    axes = np.arange(1, d + 1)
    # of a simplex of edge 2 in so many dimensions, above its face
    heights = np.sqrt(2 * (axes + 1) / axes)
    vertices = np.tril(np.broadcast_to(heights / (axes + 1), (d, d)), -1) + np.diag(heights)
    vertices[:, 0] = np.arange(d) == 0
    shifts, chosen = np.divmod(np.arange(k - 1), d)
    grid = np.zeros((k, d))
    grid[0, 0] = -1
    grid[1:] = vertices[chosen]
    grid[1:, 0] += 2 * shifts
    return grid


def place(grid: FloatArray, shapes: FloatArray, radius: float) -> tuple[float, FloatArray]:
    """Factor of the grid, and factors (k,) >= 1 of the ellipsoids, so that each touches another and
    none overlap.

    grid : centres (k, d), k >= 2; shapes : covariances (k, d, d), with condition numbers of at most
    a hundred or so, as directions come from conjugate gradients; radius : of the ellipsoids before
    growth, in units of the covariances.
    """
    k = len(grid)
    directions = np.zeros((k, k, grid.shape[1]))
    # a'(cj - ci) and sqrt(a'Si a) for the direction a of i and j
    gaps, widths = np.zeros((k, k)), np.zeros((k, k))
    for i in range(k - 1):
        rest = slice(i + 1, k)
        directions[i, rest] = a = _rough_directions(grid[rest] - grid[i], shapes[i], shapes[rest])
        directions[rest, i] = -a
        gaps[i, rest] = gaps[rest, i] = ((grid[rest] - grid[i]) * a).sum(axis=1)
        widths[i, rest] = np.sqrt((a @ shapes[i] * a).sum(axis=1))
        widths[rest, i] = np.sqrt((_products(shapes[rest], a) * a).sum(axis=1))

    def touching(i: int, j: int) -> float:
        return touching_size(grid[j] - grid[i], shapes[i], shapes[j], directions[i, j])

    def grown(i: int) -> float:
        others = np.delete(np.arange(k), i)
        bounds = (gaps[i, others] * unit - widths[others, i] * sizes[others]) / widths[i, others]
        return _least(bounds, lambda n: grown_beside(i, others[n]))

    def grown_beside(i: int, j: int) -> float:
        return grown_size(
            (grid[j] - grid[i]) * unit, shapes[i], shapes[j], sizes[j], directions[i, j]
        )

    first, second = np.triu_indices(k, 1)
    bounds = gaps[first, second] / (widths[first, second] + widths[second, first])
    factor = radius / _least(bounds, lambda n: touching(first[n], second[n]))
    unit = factor / radius
    sizes = np.ones(k)
    loneliness = (gaps / (widths + widths.T + np.eye(k)) + np.diag(np.full(k, np.inf))).min(axis=1)
    for i in np.argsort(-loneliness, kind="stable"):  # the loneliest first, as Qiu and Joe do
        sizes[i] = grown(i)
    return factor, sizes


def touching_size(
    difference: FloatArray, first: FloatArray, second: FloatArray, a: FloatArray
) -> float:
    """Largest a'difference / (s1(a) + s2(a)), si = sqrt(a'Si a): the common radius at which two
    ellipsoids touch.

    From any direction with a'difference > 0. Each step solves (S1 / s1 + S2 / s2) a = difference /
    size, which minimises a quadratic function above s1 + s2, equal to it at the last a, so that no
    step loses. As they settle, a keeps its length.
    """
    size = 0.0
    while True:
        s1, s2 = math.sqrt(a @ first @ a), math.sqrt(a @ second @ a)
        candidate = float(a @ difference) / (s1 + s2)
        if candidate <= size * (1 + _GAIN):
            return size
        size = candidate
        a = _steered(a, difference / size, first, second, 1 / s1, 1 / s2)


def grown_size(
    difference: FloatArray, first: FloatArray, second: FloatArray, of_second: float, a: FloatArray
) -> float:
    """Largest (a'difference - of_second s2(a)) / s1(a), at least 1: the size of the first at which
    it touches the second.

    Steps as in `touching_size`, with S1 and S2 weighted by the sizes of their ellipsoids. At size 1
    the two do not overlap.
    """
    size = 0.0
    while True:
        s1, s2 = math.sqrt(a @ first @ a), math.sqrt(a @ second @ a)
        candidate = max(1.0, (float(a @ difference) - of_second * s2) / s1)
        if candidate <= size * (1 + _GAIN):
            return size
        size = candidate
        a = _steered(a, difference, first, second, size / s1, of_second / s2)


def _steered(
    a: FloatArray, difference: FloatArray, first: FloatArray, second: FloatArray, u: float, v: float
) -> FloatArray:
    """The direction (u S1 + v S2)^-1 difference, found from a."""
    return np.asarray(
        _solve(lambda x: u * (x @ first) + v * (x @ second), difference[None], a[None], _EXACT)[0]
    )


def _least(bounds: FloatArray, exact: Callable[[int], float]) -> float:
    """Least of numbers that are known by lower bounds, each of which is made exact only when it is
    the least.
    """
    bounds = bounds.copy()
    settled: set[int] = set()
    while (n := int(np.argmin(bounds))) not in settled:
        bounds[n] = exact(n)
        settled.add(n)
    return float(bounds[n])


def _rough_directions(differences: FloatArray, shape: FloatArray, shapes: FloatArray) -> FloatArray:
    """For each row j of differences (m, d) nearly the direction (shape + shapes[j])^-1
    differences[j], (m, d).
    """
    return _solve(
        lambda x: x @ shape + _products(shapes, x), differences, np.zeros_like(differences), _ROUGH
    )


def _products(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Symmetric matrices (m, d, d) times vectors (m, d), each by its own."""
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])


def _solve(
    apply: Callable[[FloatArray], FloatArray], right: FloatArray, x: FloatArray, tolerance: float
) -> FloatArray:
    """Conjugate gradients for all rows at once: apply(x) = right, (m, d), up to that share of every
    row's length.
    """
    residual = right - apply(x)
    step = residual
    squares = (residual**2).sum(axis=1)
    limit = tolerance**2 * (right**2).sum(axis=1)
    while (open_rows := squares > limit).any():
        image = apply(step)
        curvature = (step * image).sum(axis=1)
        length = np.divide(squares, curvature, out=np.zeros_like(squares), where=open_rows)
        x = x + length[:, None] * step
        residual = residual - length[:, None] * image
        previous, squares = squares, (residual**2).sum(axis=1)
        ratio = np.divide(squares, previous, out=np.zeros_like(squares), where=open_rows)
        step = residual + ratio[:, None] * step
    return x
