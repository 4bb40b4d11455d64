"""k-means of *public* points, which follow from noisy answers or public draws, never from records.

Starts are those of greedy k-means++ (Arthur and Vassilvitskii 2007, section 2.2). Arithmetic is in
ordinary float64. Equal draws give equal results on one machine, but the last digit may differ on
another. The numbers of steps and draws are fixed beforehand, and no loop ends early. So the time
reveals little about the points. This matters for a server that adds the noise, and so knows the
noise. Such a server must not learn the exact answers by measuring time.
"""

import math
from functools import cached_property, partial

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.randomness import Draws
from fastlloyd.base.threads import n_threads, work_together
from fastlloyd.errors import LocalProtocolError

BLOCK_ELEMENTS = 1 << 17  # distances worked on together: 1 MiB of float64
BLAS_STEPS = 8  # of the steps of a k-means in the time of one that `is_compiled` counts
WORTH_THREADS = 1 << 20  # smallest number of steps
BLOCK_STEPS = (
    1 << 18
    # multiplications worked on together: few enough that BLAS does not wake its threads for each
    # block
)
LARGEST = 2.0**400  # of a coordinate: sums of squares stay far from overflow
SMALLEST = 2.0**-400  # of a weight beside the largest: what it is multiplied by does not underflow
EARLY = 8  # all starts make the first eighth of the steps, and only
# so many the others: of twenty starts, this cost no .01 % of the loss in any of sixty trials
PROMISING = 5


class PublicClusters:
    """Result of k-means of public points. Labels and loss are computed on demand.

    centroids : centroids, float64 (k, r).
    """

    def __init__(self, lloyd: "_Lloyd", best: FloatArray, origin: FloatArray) -> None:
        self.centroids = best + origin
        self._lloyd, self._best = lloyd, best

    @cached_property
    def labels(self) -> IntArray:
        """Nearest centroid of each point (ties: lowest index), int64 (n,)."""
        return self._lloyd.labels(self._best)

    @cached_property
    def loss(self) -> float:
        """Weighted mean of the squared distances of points from their centroids."""
        return self._lloyd.loss(self._best) / float(self._lloyd.weights.sum())


def k_means(
    points: FloatArray,
    weights: FloatArray,
    n_clusters: int,
    draws: Draws,
    *,
    n_restarts: int,
    n_steps: int,
) -> PublicClusters:
    """Return the best k-means clustering of weighted points, after several starts by greedy
    k-means++.

    points : points, float64 (n, r), with n and r at least 1.
    weights : weights of the points, float64 (n,), not negative. A weight below 2^-400 of the
        largest counts as 0. If all weights are 0, all points count the same.
    n_restarts : number of starts. After an eighth of the steps, only the five with the smallest
        loss continue.
    n_steps : number of Lloyd's steps.

    Of equally good centroids, points or starts, the one with the lowest index is used. Points
    without weight get labels but have no other effect. An empty cluster gets the point that adds
    most to the loss. If there are fewer distinct points than clusters, some centroids are equal.

    Raises LocalProtocolError if shapes do not fit or a weight is negative. The same error is raised
    for a number that is not finite or is beyond 2^400.
    """
    _check(points, weights, n_clusters, n_restarts, n_steps)
    weights = weights / weights.max() if weights.any() else np.ones(len(points))
    counted = weights > SMALLEST
    # scalar products lose the fewest digits around the mean
    origin = weights @ points / weights.sum()
    points = points - origin
    lloyd = _Lloyd(points[counted], weights[counted])
    best = _best(lloyd, n_clusters, draws, n_restarts, n_steps)
    return PublicClusters(lloyd if counted.all() else _Lloyd(points, weights), best, origin)


def nearest_points(sample: FloatArray, points: FloatArray) -> IntArray:
    """Return, for each point of a sample, the index of the nearest point in `points` (ties:
    lowest), int64 (n,).

    sample : points, float64 (n, r).
    points : points to choose from, float64 (m, r).
    """
    origin = points.mean(axis=0)
    return _Lloyd(sample - origin, np.ones(len(sample))).labels(
        np.ascontiguousarray(points - origin)
    )


def _best(lloyd: "_Lloyd", k: int, draws: Draws, n_restarts: int, n_steps: int) -> FloatArray:
    """Return the best centroids (k, r) of several starts. Points have their mean at the origin."""
    left = n_steps
    starts = list(first_centroids(lloyd.points, lloyd.weights, k, draws, n_restarts))
    if n_restarts > PROMISING:
        left -= n_steps // EARLY
        starts = lloyd.all_after(n_steps // EARLY, starts)
        promising = np.argsort([lloyd.loss(C) for C in starts], kind="stable")[:PROMISING]
        starts = [starts[i] for i in sorted(promising)]
    ends = lloyd.all_after(left, starts)
    return ends[0] if len(ends) == 1 else ends[int(np.argmin([lloyd.loss(C) for C in ends]))]


def _is_compiled(steps: int) -> bool:
    """Return whether a k-means with `steps` elementary steps should use compiled code instead of
    NumPy.
    """
    if not is_compiled(steps // BLAS_STEPS):
        return False
    from fastlloyd.base.jit import pays
    from fastlloyd.clustering.compiled.public_kmeans import add_centroids, lloyd_steps

    return pays(steps, add_centroids, lloyd_steps)


class _Lloyd:
    """Lloyd's steps on points (n, r) with weights (n,), where the mean of the points is the origin.

    All weights must be positive, except for `labels` and `loss`, where they may be 0.
    """

    def __init__(self, points: FloatArray, weights: FloatArray) -> None:
        self.points, self.weights = points, weights

    def all_after(self, n_steps: int, starts: list[FloatArray]) -> list[FloatArray]:
        """Return the centroids after `n_steps` steps, for each of several starts. The starts are
        divided among threads.
        """
        steps = sum(n_steps * self.points.size * len(C) for C in starts)
        threads = min(n_threads(), len(starts)) if steps >= WORTH_THREADS and _is_compiled(0) else 1
        if threads == 1:
            return [self.after(n_steps, C) for C in starts]

        def end(i: int) -> tuple[int, FloatArray]:
            return i, self.after(n_steps, starts[i])

        ends = dict(work_together([partial(end, i) for i in range(len(starts))], threads))
        return [ends[i] for i in range(len(starts))]

    def after(self, n_steps: int, centroids: FloatArray) -> FloatArray:
        """Return the centroids (k, r) after `n_steps` steps from the given centroids."""
        centroids, left = centroids.copy(), n_steps
        while left > 0:
            left -= self._sure_steps(left, centroids)[0]
            if left > 0:
                centroids, left = self._step(centroids), left - 1
        return centroids

    def loss(self, centroids: FloatArray) -> float:
        """Return the weighted sum of the squared distances from the nearest centroids."""
        return float(
            self.weights @ _squared_distances(self.points, centroids, self.labels(centroids))
        )

    def labels(self, centroids: FloatArray) -> IntArray:
        """Return the nearest centroid of each point (ties: lowest index), int64 (n,)."""
        found, labels = self._sure_steps(0, centroids)
        return labels if found else _labels(self._with_ones, centroids)

    def _sure_steps(self, n_steps: int, centroids: FloatArray) -> tuple[int, IntArray]:
        """Make steps by compiled code, as long as its results are certain to equal NumPy's. The
        centroids change in place.

        Returns the results of `compiled.public_kmeans.lloyd_steps`: a number of steps, and the
        labels.
        """
        labels = np.empty(len(self.points), dtype=np.int64)
        if not _is_compiled(n_steps * self.points.size * len(centroids)):
            return 0, labels
        from fastlloyd.clustering.compiled.public_kmeans import lloyd_steps, room_for_steps

        room = room_for_steps(self._compiled_points[-1], len(centroids))
        return lloyd_steps(*self._compiled_points, *room, centroids, labels, n_steps), labels

    @cached_property
    def _compiled_points(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        from fastlloyd.clustering.compiled.public_kmeans import blocks_of, weighted_rows

        lengths = np.sqrt(np.einsum("ij,ij->i", self.points, self.points))
        return blocks_of(self.points), lengths, weighted_rows(self.points, self.weights)

    @cached_property
    def _with_ones(self) -> FloatArray:
        return _with_ones(self.points)

    @cached_property
    def _weighted(self) -> FloatArray:
        return np.ascontiguousarray((self.weights[:, None] * self.points).T)

    def _step(self, centroids: FloatArray) -> FloatArray:
        k = len(centroids)
        labels = _labels(self._with_ones, centroids)
        masses = np.bincount(labels, self.weights, k)
        if not masses.all():
            self._relocate(centroids, labels)
            masses = np.bincount(labels, self.weights, k)
        sums = np.stack([np.bincount(labels, row, k) for row in self._weighted], axis=1)
        filled = (masses > 0)[:, None]
        return np.where(filled, sums / np.where(filled, masses[:, None], 1.0), centroids)

    def _relocate(self, centroids: FloatArray, labels: IntArray) -> None:
        """Give each empty cluster one of the points that add most to the loss.

        A point that adds nothing is never given.
        """
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centroids)) == 0)
        shares = self.weights * _squared_distances(self.points, centroids, labels)
        farthest = np.argsort(-shares, kind="stable")[: len(empty)]
        farthest = farthest[shares[farthest] > 0]
        labels[farthest] = empty[: len(farthest)]


def _labels(with_ones: FloatArray, centroids: FloatArray) -> IntArray:
    """Return the index of the nearest centroid of each point.

    Centroids are compared by |c|^2 - 2 x.c, the squared distance minus |x|^2.

    with_ones : points, with 1 in an additional last column.
    """
    keys = np.vstack([-2.0 * centroids.T, np.einsum("ij,ij->i", centroids, centroids)])
    labels = np.empty(len(with_ones), dtype=np.int64)
    rows = max(1, BLOCK_STEPS // keys.size)
    scores = np.empty((min(rows, len(labels)), len(centroids)))
    for start in range(0, len(labels), rows):
        block = with_ones[start : start + rows]
        np.matmul(block, keys, out=scores[: len(block)]).argmin(
            axis=1, out=labels[start : start + rows]
        )
    return labels


def _with_ones(points: FloatArray) -> FloatArray:
    return np.hstack([points, np.ones((len(points), 1))])


def _squared_distances(points: FloatArray, centroids: FloatArray, labels: IntArray) -> FloatArray:
    """Return the squared distance of each point from the centroid of its label, (n,)."""
    offsets = points - centroids.take(labels, axis=0)
    squared: FloatArray = np.einsum("ij,ij->i", offsets, offsets)
    return squared


def n_trials(n_clusters: int) -> int:
    """Return the number of points that are drawn for each centroid, 2 + floor(log k).

    scikit-learn uses the same number.
    """
    return 2 + math.floor(math.log(n_clusters))


def first_centroids(
    points: FloatArray, weights: FloatArray, n_clusters: int, draws: Draws, n_starts: int
) -> FloatArray:
    """Return centroids (n_starts, n_clusters, r) among the points (n, r), by greedy k-means++.

    Each point is drawn with probability proportional to its weight times its squared distance from
    the nearest centroid so far. Of several points drawn, the one that lowers the loss most is kept.
    The number of draws follows from the shapes alone. If all points are centroids already, points
    are repeated.

    weights : positive weights of the points, (n,).
    """
    n, T = len(points), n_trials(n_clusters)
    firsts = draws.uniform(0.0, 1.0, (n_starts,))
    trials = draws.uniform(0.0, 1.0, (n_starts, n_clusters - 1, T))
    chosen = np.empty((n_starts, n_clusters), dtype=np.int64)
    chosen[:, 0] = _drawn(np.broadcast_to(weights, (1, n)), firsts[None, :])[0]
    left = [
        s for s, is_done in enumerate(_surely_added(points, weights, trials, chosen)) if not is_done
    ]
    starts_together = max(1, BLOCK_ELEMENTS // (n * T))
    for first in range(0, len(left), starts_together):
        some = left[first : first + starts_together]
        chosen[some] = _added(_lifted(points), weights, trials[some], chosen[some])
    return points[chosen]


def _surely_added(
    points: FloatArray, weights: FloatArray, trials: FloatArray, chosen: IntArray
) -> list[bool]:
    """For each start, choose the centroids after the first by compiled code, and write their
    indices to `chosen` (starts, k).

    Returns, for each start, whether the choices are certain to equal NumPy's.
    """
    if not _is_compiled(trials.size * points.size):
        return [False] * len(chosen)
    from fastlloyd.clustering.compiled import public_kmeans as compiled

    points, blocks = np.ascontiguousarray(points), compiled.blocks_of(points)
    squares, room = compiled.squares_of(blocks), compiled.room_for_choice(blocks, trials.shape[2])
    known = (
        blocks,
        squares,
        points,
        compiled.row_blocks_of(weights),
        float(weights.sum() * squares.max()),
    )
    return [
        compiled.add_centroids(*known, *room, each, row)
        for each, row in zip(trials, chosen, strict=True)
    ]


def _added(
    lifted: tuple[FloatArray, FloatArray], weights: FloatArray, trials: FloatArray, chosen: IntArray
) -> IntArray:
    """For a few starts, choose the centroids after the first, write their indices to `chosen`
    (starts, k), and return `chosen`.

    trials : uniform numbers, (starts, k - 1, T).
    """
    S, k = chosen.shape
    T, n = trials.shape[2], len(weights)
    rows, columns = lifted
    # (S, n) squared distances to the nearest centroid so far
    nearest = np.maximum(rows[chosen[:, 0]] @ columns, 0.0)
    distances = np.empty((S, T, n))
    for c in range(1, k):
        candidates = _drawn(nearest * weights, trials[:, c - 1])
        np.matmul(rows[candidates.ravel()], columns, out=distances.reshape(S * T, n))
        np.minimum(distances, nearest[:, None, :], out=distances)
        best = (distances @ weights).argmin(axis=1)
        chosen[:, c] = candidates[np.arange(S), best]
        # a rounded distance of 0 may lie below
        np.maximum(distances[np.arange(S), best], 0.0, out=nearest)
    return chosen


def _drawn(masses: FloatArray, uniform: FloatArray) -> IntArray:
    """Return the indices that uniform numbers draw from each row of masses, by inversion, (S, T).

    If all masses of a row are 0, the result is the last index.

    masses : masses, (S, n), which need not sum up to 1.
    uniform : uniform numbers, (S, T).
    """
    sums = masses.cumsum(axis=1)
    found = [
        row.searchsorted(u * row[-1], side="right") for row, u in zip(sums, uniform, strict=True)
    ]
    drawn: IntArray = np.minimum(np.stack(found), masses.shape[1] - 1)
    return drawn


def _lifted(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return matrices (n, r + 2) and (r + 2, n) whose product contains all squared distances.

    A squared distance is |x|^2 - 2 x.y + |y|^2.
    """
    squares = np.einsum("ij,ij->i", points, points)[:, None]
    ones = np.ones_like(squares)
    return np.hstack([-2.0 * points, squares, ones]), np.ascontiguousarray(
        np.hstack([points, ones, squares]).T
    )


def _check(
    points: FloatArray, weights: FloatArray, n_clusters: int, n_restarts: int, n_steps: int
) -> None:
    if points.ndim != 2 or 0 in points.shape or weights.shape != points.shape[:1]:
        raise LocalProtocolError(
            f"points of shape {points.shape} with weights of shape {weights.shape}: (n, r) and (n,)"
            " were expected"
        )
    if min(n_clusters, n_restarts) < 1 or n_steps < 0:
        raise LocalProtocolError(
            f"n_clusters is {n_clusters}, n_restarts is {n_restarts}, n_steps is {n_steps};"
            " expected at least 1, 1 and 0"
        )
    if not (np.abs(points) < LARGEST).all():
        raise LocalProtocolError("a coordinate of a public point is infinite, NaN, or beyond 2^400")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise LocalProtocolError("a weight of a public point is negative or not finite")
