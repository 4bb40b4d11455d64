"""Evidence from all rounds about the mean of each cluster, and about records beyond the radius.

Every step gives the noisy mean of the records nearest to its centroids. If the steps agree, the
weighted mean of all steps has less noise than the last one alone. If they disagree, the centroids
of earlier steps were too far away.

Offsets are clipped to a radius that is typical of all clusters. If a cluster is wide, skewed, or
made of several groups, its mean differs from the mean of the clipped offsets. The answers to the
steps do not show this difference. But the votes (step 3 of docs/momentlloyd.md) are a noisy picture
of the records. With few features, the sum of all records in the first round is not clipped. The
evidence is used only for the reported accuracy of the centroids.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.public_kmeans import nearest_points
from fastlloyd.mechanisms.mechanism import Evidence, cautious
from fastlloyd.mechanisms.moment_lloyd.directions import basis, used
from fastlloyd.mechanisms.moment_lloyd.location import divisor
from fastlloyd.mechanisms.moment_lloyd.state import (
    Histogram,
    MomentFields,
    Noisy,
    Seen,
    State,
    Step,
    Total,
)
from fastlloyd.mechanisms.moment_lloyd.steps import sizes
from fastlloyd.mechanisms.suggestion import NoisyVotes
from fastlloyd.mechanisms.uncertainty import chi_squared_quantile

DISAGREE = 0.1  # probability of steps that differ as much by noise alone
# squared typical offsets over the radius: so far clipping moves the mean of skewed groups that no
# vote shows
SHAPE = 0.015
# radii: mean excess of lengths over the radius, above which a cluster may be several groups
CROWDED = 0.1
SURE = 2.0  # deviations of its noise


def evidence(m: MomentFields, state: State, radius: int, seen: Seen) -> Evidence:
    """Return the evidence of all rounds.

    state, radius : state and radius of the query of the last round.
    seen : noisy sums, votes and steps of all answers.
    """
    counts = seen.steps[-1].counts
    # what the move was divided by: less where all counts may be alike
    shrunk = sizes(counts, divisor(m, state))
    least = cautious(counts.values.ravel(), counts.deviation, m.n_expected)
    means, deviations = _together(seen.steps, np.minimum(least, shrunk))
    hidden, crowded = np.zeros((m.n_clusters, m.n_features)), np.zeros(m.n_clusters, dtype=np.bool_)
    above = below = None
    if seen.histogram is not None:
        beyond, crowded = _beyond(m, state, float(radius), counts, seen.histogram)
        hidden = np.sign(beyond.values) * np.maximum(np.abs(beyond.values) - beyond.noise, 0.0)
        if m.n_directions:
            hidden = hidden @ basis(state).T
        elif seen.total is not None:
            above, below = farther(beyond, seen.total, seen.steps[-1], float(radius))
    unseen = SHAPE * min(state.spread / radius, float(radius))
    return Evidence(
        means=means,
        deviations=deviations,
        sizes=shrunk,
        radius=float(radius),
        hidden=np.hypot(hidden, unseen),
        crowded=crowded,
        is_first=len(seen.steps) == 1,
        above=above,
        below=below,
    )


def noisy_votes(m: MomentFields, state: State, histogram: Histogram) -> NoisyVotes:
    """Return the noisy votes, with the position of each candidate.

    A position has one coordinate for each feature. If the mechanism has directions, it has one for
    each direction found instead.
    """
    votes = histogram.votes
    return NoisyVotes(
        places=_places(m, state, histogram), votes=votes.values.ravel(), deviation=votes.deviation
    )


def _places(m: MomentFields, state: State, histogram: Histogram) -> FloatArray:
    """Return the positions of the candidates, float64, without the directions that were not
    found.
    """
    places = histogram.candidates.astype(np.float64)
    return places[:, : used(state)] if m.n_directions else places


def _together(steps: tuple[Step, ...], n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each cluster, averaged over all steps, and the standard deviations of its
    noise, both (k, d).

    Each step is weighted by its precision. If the steps of a cluster differ by more than noise
    explains, only the last step counts.

    n : assumed number of records of each cluster, float64 (k,).
    """
    each = np.stack([step.centroids + step.sums.values / n[:, None] for step in steps])
    precisions = (
        np.array([step.sums.deviation for step in steps])[:, None, None] ** -2.0 * n[:, None] ** 2
    )
    whole = precisions.sum(axis=0)
    means = (precisions * each).sum(axis=0) / whole
    differences = (precisions * (each - means) ** 2).sum(axis=(0, 2))
    degrees = (len(steps) - 1) * each.shape[2]
    agree = (differences < chi_squared_quantile(max(degrees, 1), DISAGREE))[:, None]
    deviations = np.where(agree, whole, precisions[-1]) ** -0.5
    return np.where(agree, means, each[-1]), np.broadcast_to(deviations, each.shape[1:])


class Estimate(NamedTuple):
    """Noisy estimates, float64 (k, d), and the standard deviations of their noise."""

    values: FloatArray
    noise: FloatArray


def farther(
    beyond: Estimate, total: Total, last: Step, radius: float
) -> tuple[FloatArray, FloatArray]:
    """Return the distances by which the mean of a cluster may be above and below its centre.

    Both results are float64 (k, d), in grid units, from 0 to three radii. Each is the larger of two
    estimates, one from the votes and one from the first sum. One standard deviation of the noise is
    added to either estimate.

    beyond : distance by which records beyond the radius move each mean, estimated from the votes.
    total : noisy sum of all records from the first round.
    last : last step.
    """
    cut = missing(total, last)
    above = np.maximum(beyond.values + SLACK * beyond.noise, cut.values + SLACK * cut.noise)
    below = np.maximum(SLACK * beyond.noise - beyond.values, SLACK * cut.noise - cut.values)
    most = MOST * radius
    return np.clip(above, 0.0, most), np.clip(below, 0.0, most)


def missing(total: Total, last: Step) -> Estimate:
    """Estimate how far clipping in the last step may have moved the mean of each cluster.

    Clipping shortens offsets, so a sum of clipped offsets lacks a part. Over all records, the
    missing part is about T (S / N - h). The estimate for a cluster is this part divided by the
    cluster's number of records, as if all of it came from this cluster.

    S and N are the sum and the count of the first round. T is the number of records in the last
    step, in which clients may be missing. h is the mean of all records, computed from the last
    step. Offsets are measured from h, because their noise is then least.
    """
    n = last.counts.values.ravel()
    everyone = max(float(n.sum()), last.counts.deviation, 1.0)
    here = (n @ last.centroids + last.sums.values.sum(axis=0)) / everyone
    number = max(float(total.count.values[0, 0]), total.count.deviation, 1.0)
    cut = everyone * (total.sums.values[0] / number - here)
    variance = (
        total.sums.deviation**2
        + (total.count.deviation * here) ** 2
        + len(n) * last.sums.deviation**2
        + last.counts.deviation**2 * ((last.centroids - here) ** 2).sum(axis=0)
    )
    of_each = np.maximum(n, max(last.counts.deviation, 1.0))[:, None]
    return Estimate(cut / of_each, np.sqrt(variance) / of_each)


def _beyond(
    m: MomentFields, state: State, radius: float, counts: Noisy, histogram: Histogram
) -> tuple[Estimate, NDArray[np.bool_]]:
    """Return two findings from the votes about records beyond the radius.

    The first is the estimated distance by which clipping moves each mean, (k, r). The second says
    whether a cluster is crowded, bool (k,), as in `Evidence`.
    """
    candidates, places = _places(m, state, histogram), state.centroids.astype(np.float64)
    if m.n_directions:
        places = (places - state.centre) @ basis(state)
    owners = nearest_points(candidates, places)
    offsets = candidates - places[owners]
    lengths = np.linalg.norm(offsets, axis=1)
    excess = np.maximum(lengths / radius - 1, 0.0)
    n = np.maximum(counts.values.ravel(), counts.deviation)
    far = _of_clusters(histogram.votes, excess[:, None], owners, n)
    crowded = (far.values - SURE * far.noise > CROWDED).ravel()
    cut = offsets * (excess / (1 + excess))[:, None]
    return _of_clusters(histogram.votes, cut, owners, n), crowded


def _of_clusters(votes: Noisy, values: FloatArray, owners: IntArray, n: FloatArray) -> Estimate:
    """Return, for each cluster, the mean of some value over its candidates, weighted by their
    votes, and the standard deviation of the mean's noise.

    values : value of each candidate, float64 (m, .).
    owners : cluster of each candidate.
    n : number of records of each cluster.
    """
    k, h = len(n), votes.values.ravel()
    sums = np.stack([np.bincount(owners, h * column, minlength=k) for column in values.T], axis=1)
    squares = np.stack([np.bincount(owners, column**2, minlength=k) for column in values.T], axis=1)
    return Estimate(sums / n[:, None], votes.deviation * np.sqrt(squares) / n[:, None])


MOST = 3.0  # radii
SLACK = 1.0  # deviations of the noise
