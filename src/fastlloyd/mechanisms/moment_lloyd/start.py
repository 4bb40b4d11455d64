"""Initial centroids: k-means of the fitted Gaussian or of a noisy histogram (step 3 of
docs/momentlloyd.md).
"""

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws
from fastlloyd.clustering.public_kmeans import k_means, nearest_points
from fastlloyd.mechanisms.moment_lloyd.directions import basis, deviations, used
from fastlloyd.mechanisms.moment_lloyd.location import divisor, squared_length
from fastlloyd.mechanisms.moment_lloyd.state import (
    NUMBER_BITS,
    MomentFields,
    Noisy,
    State,
    known,
    limit,
    rounded,
)
from fastlloyd.mechanisms.queries.spaces import squared_diameter

DRAWS = 4000  # smallest number of points in a sample
DRAWS_PER_CANDIDATE = 8
FEW_CANDIDATES = 400  # up to here candidates are spread by k-means
WIDER = 1.3  # candidates' deviations over the records'
OUTER_PART, FARTHER = 5, 2.3  # one of so many is so much farther out, where they are many
LEAST_SPREAD = 0.15  # of the squared length
GAUSSIAN_STEPS, HISTOGRAM_STEPS = 20, 40
FEW_FEATURES_RESTARTS, RESTARTS = 20, 5
# Candidates far away from all others: small clusters are looked for there, and believed where votes
# stand out of the noise. The fitted Gaussian says nothing of them: it follows the bulk of the
# records. They are asked for in the same histogram, whose sensitivity does not depend on the number
# of candidates, so they cost numbers in the answer and none of the budget. Were their votes shrunk
# as the others are, noise far away would pull centroids; so each counts alone, in full or not at
# all.
FAR_PART = 4  # one candidate of so many is far away
FAR_LENGTHS = (3.0, 5.0)  # typical lengths: their distances from the mean
SURE = 4.0  # deviations of the noise: one candidate in 30,000 has as much of noise alone


def box_candidates(m: MomentFields, state: State, low: FloatArray, high: FloatArray) -> State:
    """Return the state with candidates in a box.

    If there are at most `FEW_CANDIDATES`, they are spread over the box by k-means. Otherwise they
    form a regular grid.

    low, high : corners of the box, float64 (d,).
    """
    if m.n_candidates <= FEW_CANDIDATES:
        draws = _draws(m, b"candidates")
        n = max(DRAWS, DRAWS_PER_CANDIDATE * m.n_candidates)
        points = draws.uniform(low, high, (n, m.n_features))
        points = k_means(
            points, np.ones(n), m.n_candidates, draws, n_restarts=1, n_steps=GAUSSIAN_STEPS
        ).centroids
    else:
        per_axis = round(m.n_candidates ** (1 / m.n_features))
        cells = (np.arange(per_axis) + 0.5) / per_axis
        axes = [a + (b - a) * cells for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, m.n_features)
    return known(m, state, candidates=rounded(points, m.domain.half_widths))


def gaussian_candidates(m: MomentFields, state: State) -> State:
    """Return the state with candidates along the directions found.

    Most candidates come from a Gaussian that is a little wider than the fitted one. The other
    candidates are far from the mean.
    """
    draws, n_far = _draws(m, b"candidates"), number_far(m)
    near = m.n_candidates - n_far
    few = near <= FEW_CANDIDATES
    n = max(DRAWS, DRAWS_PER_CANDIDATE * near) if few else near
    points = WIDER * draws.normal((n, used(state))) * deviations(state)
    if not few:
        points[: n // OUTER_PART] *= FARTHER
    if few:
        points = k_means(
            points, np.ones(n), near, draws, n_restarts=1, n_steps=GAUSSIAN_STEPS
        ).centroids
    points = np.concatenate([points, far_candidates(state, _draws(m, b"far-candidates"), n_far)])
    return known(
        m, state, candidates=rounded(_padded(points, m.n_directions), limit(m, "candidates"))
    )


def from_gaussian(m: MomentFields, state: State) -> State:
    """Return the state with the k-means centroids of the fitted Gaussian, which need no query."""
    draws = _draws(m, b"start")
    points = draws.normal((DRAWS, used(state))) * deviations(state)
    found = k_means(
        points, np.ones(DRAWS), m.n_clusters, draws, n_restarts=1, n_steps=GAUSSIAN_STEPS
    )
    return _in_directions(
        m,
        state,
        found.centroids,
        np.full(m.n_clusters, divisor(m, state) / m.n_clusters),
        found.loss,
    )


def from_votes(m: MomentFields, state: State, votes: Noisy) -> State:
    """Return the state with the k-means centroids of a density that is made from denoised votes."""
    n, n_far, points, sample = (
        divisor(m, state),
        number_far(m),
        _candidates(m, state),
        _sample(m, state),
    )
    owners = nearest_points(sample, points)
    drawn = np.bincount(owners, minlength=len(points)).astype(np.float64)
    expected = drawn if m.n_directions else np.ones(len(points))
    w = weighed(votes, expected, n, n_far)
    if not w.any():
        w[votes.values.argmax()] = 1.0
    inside = 0.0
    if m.n_candidates - n_far <= FEW_CANDIDATES:
        points, w = _spread(points, w, sample, owners)
    else:  # cells are fine enough for points, but not nothing
        inside = float(((sample - points[owners]) ** 2).sum(axis=1).mean())
    restarts = RESTARTS if m.n_directions else FEW_FEATURES_RESTARTS
    found = k_means(
        points, w, m.n_clusters, _draws(m, b"start"), n_restarts=restarts, n_steps=HISTOGRAM_STEPS
    )
    loss = found.loss + inside
    if m.n_directions:
        sizes = np.bincount(found.labels, weights=w, minlength=m.n_clusters).astype(np.float64)
        return _in_directions(m, state, found.centroids, sizes, loss)
    return known(
        m, state, centroids=rounded(found.centroids, m.domain.half_widths), spread=_squared(m, loss)
    )


def with_far(near: int) -> int:
    """Return the number of all candidates, given the number `near` of candidates near the mean."""
    return near + near // (FAR_PART - 1)


def number_far(m: MomentFields) -> int:
    """Return the number of candidates far from the mean. They are the last candidates.

    With few features there are none. The box of candidates is wider instead.
    """
    return m.n_candidates // FAR_PART if m.n_directions else 0


def far_candidates(state: State, draws: Draws, n: int) -> FloatArray:
    """Return n points far from the mean, float64 (n, found).

    Their directions are drawn from the fitted Gaussian. Their distances are `FAR_LENGTHS`, in turn.
    """
    y = draws.normal((n, used(state))) * deviations(state)
    radii = state.length * np.resize(FAR_LENGTHS, n)
    return np.asarray(y * (radii / np.maximum(np.linalg.norm(y, axis=1), 1e-300))[:, None])


def weighed(votes: Noisy, expected: FloatArray, n: float, n_far: int) -> FloatArray:
    """Return the weights of all candidates, near and far, float64 (m,), with sum n.

    votes : noisy votes of the m candidates.
    expected : expected votes of the m candidates.
    n_far : number of candidates far from the mean, which are the last ones.
    """
    near = len(expected) - n_far
    far = outstanding(Noisy(votes.values[near:], votes.deviation), n)
    left, total = n - float(far.sum()), float(expected[:near].sum())
    there = expected[:near] * (left / total) if total else np.full(near, left / near)
    return np.concatenate([weights(Noisy(votes.values[:near], votes.deviation), there, left), far])


def weights(votes: Noisy, expected: FloatArray, n: float) -> FloatArray:
    """Return the weights of near candidates, float64 (m,), with sum n.

    If the votes are more signal than noise, the largest votes are kept, up to the sum n. Otherwise
    the result is the nearest set of weights >= 0 with sum n.

    expected : expected votes of the candidates.
    """
    h, factor = shrunk(votes, expected)
    return largest(h, n) if factor > 0.5 else projection(h, n)


def shrunk(votes: Noisy, expected: FloatArray) -> tuple[FloatArray, float]:
    """Return the votes, shrunk towards the expected votes by James and Stein's factor, and the
    factor.

    The factor is from 0 to 1.
    """
    h = votes.values.ravel()
    excess = h - expected
    factor = max(0.0, 1 - len(h) * votes.deviation**2 / max(float(excess @ excess), 1e-300))
    return expected + factor * excess, factor


def largest(h: FloatArray, n: float) -> FloatArray:
    """Return the largest entries of h whose sum is n, and 0 for all other entries.

    The smallest of these entries is reduced so that the sum is exact.
    """
    order = np.argsort(-h, kind="stable")
    positive = np.maximum(h[order], 0.0)
    before = np.concatenate([[0.0], np.cumsum(positive)[:-1]])
    w = np.zeros_like(h)
    w[order] = np.clip(n - before, 0.0, positive)
    return w


def projection(h: FloatArray, n: float) -> FloatArray:
    """Return the point of {w >= 0, sum w = n} that is nearest to h."""
    descending = np.sort(h)[::-1]
    excess = (np.cumsum(descending) - n) / np.arange(1, len(h) + 1)
    return np.asarray(np.maximum(h - excess[np.flatnonzero(descending >= excess)[-1]], 0.0))


def outstanding(votes: Noisy, n: float) -> FloatArray:
    """Return the votes that exceed four standard deviations of their noise, and 0 in place of all
    other votes.

    If the sum of these votes exceeds n / 2, all of them are scaled down.
    """
    h = votes.values.ravel()
    w = np.where(h > SURE * votes.deviation, h, 0.0)
    return np.asarray(w * min(1.0, 0.5 * n / max(float(w.sum()), 1e-300)))


def _candidates(m: MomentFields, state: State) -> FloatArray:
    """Return the candidate centroids of the state, float64 (m, r).

    The coordinates are along the fitted directions or, without directions, in the features.
    """
    points = state.candidates[:, : used(state)] if m.n_directions else state.candidates
    return points.astype(np.float64)


def _spread(
    points: FloatArray, w: FloatArray, sample: FloatArray, owners: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Divide each candidate's weight equally among the sample points that are nearest to it.

    Returns all points and their weights. A candidate without sample points keeps its weight. So the
    weight of each candidate is spread over its cell. Otherwise a histogram with few cells would
    look like a few points.

    w : weights of the candidates.
    sample : sample points.
    owners : candidate nearest to each sample point.
    """
    drawn = np.bincount(owners, minlength=len(points))
    shares = w / np.maximum(drawn, 1)
    return np.concatenate([points, sample]), np.concatenate(
        [np.where(drawn > 0, 0.0, w), shares[owners]]
    )


def _sample(m: MomentFields, state: State) -> FloatArray:
    """Return a sample of the records' assumed distribution: the fitted Gaussian, or a uniform box.

    The box contains all candidates with their cells.
    """
    draws = _draws(m, b"expected")
    if m.n_directions:
        return draws.normal((DRAWS, used(state))) * deviations(state)
    low, high = state.candidates.min(axis=0), state.candidates.max(axis=0)
    gap = (high - low) / max(m.n_candidates ** (1 / m.n_features) - 1, 1.0) / 2
    B = m.domain.half_widths
    return draws.uniform(
        np.maximum(low - gap, -B), np.minimum(high + gap, B), (DRAWS, m.n_features)
    )


def _in_directions(
    m: MomentFields, state: State, points: FloatArray, sizes: FloatArray, loss: float
) -> State:
    """Return the state with centroids along the directions found, and with typical squared offsets.

    points : centroids along the directions, float64 (k, found).
    sizes : number of records of each cluster.
    loss : mean squared offset along the directions.
    """
    between = float(sizes @ (points**2).sum(axis=1) / sizes.sum())
    whole, inner = squared_length(state), float(state.variances.sum())
    return known(
        m,
        state,
        points=rounded(_padded(points, m.n_directions), limit(m, "points")),
        centroids=rounded(state.centre + points @ basis(state).T, m.domain.half_widths),
        sizes=np.clip(np.rint(sizes * 2**NUMBER_BITS), 0, m.n_records << NUMBER_BITS).astype(
            np.int64
        ),
        spread=_squared(m, max(whole - between, LEAST_SPREAD * whole, loss)),
        inner_spread=_squared(m, max(inner - between, LEAST_SPREAD * inner, loss)),
    )


def _draws(m: MomentFields, purpose: bytes) -> Draws:
    return Draws(m.seed, b"fastlloyd/v1/momentlloyd/" + purpose)


def _padded(points: FloatArray, n_directions: int) -> FloatArray:
    """Return the points with zeros along the directions that were not found."""
    return np.pad(points, ((0, 0), (0, n_directions - points.shape[1])))


def _squared(m: MomentFields, value: float) -> int:
    return round(min(max(value, 0.0), float(squared_diameter(m.domain.half_widths))))
