"""Random normal clusters with a given separation, records drawn from them, and outliers (Qiu and
Joe 2006).

The method has the defaults of the R package clusterGeneration. Covariances have eigenvalues uniform
in [1, 10], and eigenvectors uniform among all orthogonal matrices. Centres lie on a randomly
rotated grid of simplices.

The separation of two clusters is defined as follows. Project both onto a line, and cut alpha / 2
off both tails of each projection. Divide the gap between the inner ends by the distance of the
outer ends. The separation is the largest such ratio over all lines. It is s if and only if two
ellipsoids around the means just touch. Their Mahalanobis radius is z (1 + s) / (1 - s), with z =
z_(alpha / 2) and alpha = 0.05. The clusters are therefore placed in two steps:

1. Scale the grid until the first two ellipsoids touch, and no two overlap.

2. Cluster by cluster, an ellipsoid that touches no other grows until it touches one.

An ellipsoid that touches another is never moved or grown again. In the end each ellipsoid touches
another, and none overlap. After one pass, every cluster has separation s from its nearest
neighbour, up to rounding.

The size at which two ellipsoids touch is the largest value of a function of directions, so every
direction gives a lower bound. A few steps give a good bound for all pairs. Only the smallest bound
is made exact.

Source: W. Qiu and H. Joe, "Generation of random clusters with specified degree of separation",
Journal of Classification 23 (2006) 315-334: grid, scaling and growth. The index of separation is
theirs, too ("Separation index and partial membership for clustering", Computational Statistics and
Data Analysis 50 (2006) 585-603). Ellipsoids, bounds and the single pass are our own.
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

    means : (k, d).
    axes : eigenvectors of the covariance of each cluster, as columns, (k, d, d), orthogonal.
    deviations : standard deviations along the axes, (k, d).
    """

    means: FloatArray
    axes: FloatArray
    deviations: FloatArray

    def records(self, sizes: IntArray, draws: Draws) -> tuple[FloatArray, IntArray]:
        """Draw records of the clusters, and return them with their labels, sorted by cluster.

        sizes : number of records of each cluster, (k,).
        draws : random numbers.

        Returns records (n, d) and labels (n,).
        """
        parts = [
            mean + (draws.normal((int(size), len(mean))) * deviations) @ axes.T
            for size, mean, axes, deviations in zip(
                sizes, self.means, self.axes, self.deviations, strict=True
            )
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)


def draws_for(name: str) -> Draws:
    """Return the random draws for the data set with this name. Different names have independent
    draws.
    """
    return Draws(PublicSeed.from_text(name), b"fastlloyd/v1/synthetic-records")


def random_mixture(k: int, d: int, separation: float, draws: Draws) -> Mixture:
    """Draw k >= 2 clusters in d >= 2 dimensions. Each has the given separation from its nearest
    neighbour.

    separation : number in (-1, 1).
    draws : random numbers.
    """
    grid = simplex_grid(k, d) @ draws.rotation(d).T
    axes = np.stack([draws.rotation(d) for _ in range(k)])
    deviations = np.sqrt(draws.uniform(*EIGENVALUES, (k, d)))
    factor, sizes = place(grid, covariances(axes, deviations), touching_radius(separation))
    return Mixture(means=factor * grid, axes=axes, deviations=sizes[:, None] * deviations)


def with_outliers(
    records: FloatArray, labels: IntArray, n_outliers: int, draws: Draws
) -> tuple[FloatArray, IntArray]:
    """Return the records and labels with added outliers.

    In every feature, outliers are uniform within `OUTLIER_REACH` standard deviations of the mean of
    the records.
    """
    mean, reach = records.mean(axis=0), OUTLIER_REACH * records.std(axis=0, ddof=1)
    outliers = mean + draws.uniform(-1.0, 1.0, (n_outliers, len(mean))) * reach
    return np.concatenate([records, outliers]), np.concatenate(
        [labels, np.full(n_outliers, OUTLIER, dtype=np.int64)]
    )


def covariances(axes: FloatArray, deviations: FloatArray) -> FloatArray:
    """Return the covariance matrices (k, d, d) of normal clusters.

    axes : eigenvectors as columns, (k, d, d).
    deviations : standard deviations along the axes, (k, d).
    """
    scaled = axes * deviations[:, None, :]
    return np.asarray(scaled @ scaled.transpose(0, 2, 1))


# Places of centres


def touching_radius(separation: float) -> float:
    """Return the Mahalanobis radius at which the ellipsoids of two clusters with this separation
    touch.

    separation : number in (-1, 1).
    """
    return Z * (1 + separation) / (1 - separation)


def simplex_grid(k: int, d: int) -> FloatArray:
    """Return k centres in d >= 2 dimensions, (k, d). Nearest neighbours have distance 2.

    The first centres are the d + 1 vertices of a simplex. Then follow copies of all its vertices
    except the first. The first two vertices are -e1 and e1, and copies are shifted by 2 e1, 4 e1,
    and so on.
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
    """Return factors such that every ellipsoid touches another, and none overlap.

    grid : centres (k, d), k >= 2.
    shapes : covariances (k, d, d). Their condition numbers are at most about a hundred, because
        conjugate gradients find the directions.
    radius : radius of the ellipsoids before growth, in units of the covariances.

    Returns the factor of the grid, and the factors (k,) >= 1 of the ellipsoids.
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
    """Return the common radius at which two ellipsoids touch.

    It is the largest value of (a . difference) / (s1(a) + s2(a)) over directions `a`, where si(a) =
    sqrt(a . Si a). Each step solves (S1 / s1 + S2 / s2) a = difference / size for `a`. Here `size`
    is the value at the previous `a`. The solution minimises a quadratic function that is at least
    s1 + s2, and equals s1 + s2 at the previous `a`. So no step makes the result worse. Close to the
    result, the length of `a` no longer changes.

    difference : vector between the centres.
    first, second : covariances S1 and S2.
    a : any direction with a . difference > 0, to start with.
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
    """Return the size, at least 1, at which the first ellipsoid touches the second.

    It is the largest value of (a . difference - of_second * s2(a)) / s1(a) over directions `a`,
    where si(a) = sqrt(a . Si a). The steps are those of `touching_size`, with S1 and S2 weighted by
    the sizes of their ellipsoids. At size 1 the two ellipsoids do not overlap.

    difference : vector between the centres.
    first, second : covariances S1 and S2.
    of_second : size of the second ellipsoid.
    a : direction to start with.
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
    """Return the direction (u S1 + v S2)^-1 difference, computed from a nearby direction a."""
    return np.asarray(
        _solve(lambda x: u * (x @ first) + v * (x @ second), difference[None], a[None], _EXACT)[0]
    )


def _least(bounds: FloatArray, exact: Callable[[int], float]) -> float:
    """Return the least of several numbers. Only few of them are computed.

    At first, only a lower bound of each number is known. In each step the number with the smallest
    bound is computed, and replaces the bound.

    bounds : lower bound of each number, float64 (n,).
    exact : function that computes a number from its index.
    """
    bounds = bounds.copy()
    settled: set[int] = set()
    while (n := int(np.argmin(bounds))) not in settled:
        bounds[n] = exact(n)
        settled.add(n)
    return float(bounds[n])


def _rough_directions(differences: FloatArray, shape: FloatArray, shapes: FloatArray) -> FloatArray:
    """Return, for each row j of `differences`, an approximation of (shape + shapes[j])^-1
    differences[j], (m, d).
    """
    return _solve(
        lambda x: x @ shape + _products(shapes, x), differences, np.zeros_like(differences), _ROUGH
    )


def _products(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the product of each symmetric matrix (m, d, d) with the vector of the same index, (m,
    d).
    """
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])


def _solve(
    apply: Callable[[FloatArray], FloatArray], right: FloatArray, x: FloatArray, tolerance: float
) -> FloatArray:
    """Solve apply(x) = right for all rows at once, by conjugate gradients.

    apply : linear function of vectors (m, d).
    right : right-hand sides (m, d).
    x : vectors to start with, (m, d).
    tolerance : largest error of a row, as a share of the length of the row.
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
