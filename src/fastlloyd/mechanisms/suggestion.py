"""Clearest split of noisy votes into groups, as advice to the reader of a result.

Some given points are called places. The votes are noisy counts of the records nearest to each place
(`NoisyVotes`). Places with votes far above their noise are clustered for each number of groups. The
silhouette measures how well a clustering separates the groups. It is the mean of (b - a) / b over
records. Here a and b are the distances of a record from the nearest and the next centroid
(Rousseeuw 1987, with centroids in place of all other records). The split with the largest
silhouette is the coarsest clear split, so it does not show finer groups. For example, two near
groups and a far one have a clearest split into two groups.

Even if the votes have no groups, one of the splits has the largest silhouette. So this silhouette
is compared with those of data without groups: noisy votes for the same places, drawn from one
Gaussian with the mean and covariance of the votes. In the same way, each group of a clear split is
compared with a Gaussian of its own. If some groups split again, all resulting groups together are
the finer split.

The run does not depend on the split. The split follows from the votes and from public draws, so it
costs no privacy.
"""

from typing import Final, NamedTuple

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.public_kmeans import k_means, nearest_points

SURE: Final = 3.0  # deviations of its noise: of 741 empty places one has as many votes
LEAST_SHARE: Final = 0.5  # share of all votes that are in such places
MOST_PLACES: Final = 400  # only the places with the most votes
PER_CLUSTER: Final = 2  # smallest number of places
MOST_CLUSTERS: Final = 30  # for more, places are too few, and the time is not short
LEAST_TRIED: Final = 10  # groups: "no clear groups" is never said of two or three tries
# Silhouette above that of the null. Gaussian records exceed it by .02 at most, uniform ones in a
# square by .08, two Gaussians 4.7 deviations apart by .12 (docs/results/suggestions.md).
MARGIN: Final = 0.1
NULL_DRAWS: Final = 4000
RESTARTS, STEPS = 5, 16
_LABEL = b"fastlloyd/v1/clearest-split"


class NoisyVotes(msgspec.Struct, frozen=True, kw_only=True):
    """Noisy votes: for each of some public or released points (places), the noisy number of records
    that are nearest to it.

    places : points, float64 (m, r).
    votes : noisy number of records that are nearest to each point, float64 (m,).
    deviation : standard deviation of the noise in each vote, in records.
    """

    places: FloatArray
    votes: FloatArray
    deviation: float


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of groups into which the data split, as far as the noisy votes show.

    clearest : number of groups in the clearest split. None if no split is clearer than a split of
        data without groups, drawn from one Gaussian.
    finer : number of groups after each group of the clearest split is split in turn, or None if no
        group splits.
    """

    clearest: int | None = None
    finer: int | None = None


class _Clustered(NamedTuple):
    """Clustering of some points of the vote (the `places` of `NoisyVotes`).

    silhouette : silhouette of the clustering.
    n_groups : number of groups.
    labels : group of each of these points, int64.
    """

    silhouette: float
    n_groups: int
    labels: IntArray


def clearest_split(noisy: NoisyVotes | None, n_clusters: int, seed: PublicSeed) -> Split | None:
    """Return the clearest split into 2 to `n_clusters` groups, or None if the votes do not decide.

    The votes do not decide if noise hides most of them, or if a split into more than `n_clusters`
    groups has the largest silhouette.

    seed : public seed of the run.
    """
    if noisy is None or n_clusters > MOST_CLUSTERS:
        return None
    sure = sure_places(noisy)
    if noisy.votes[sure].sum() < LEAST_SHARE * noisy.votes.sum():
        return None
    draws = Draws(seed, _LABEL)
    groups = _groups(noisy, sure, max(n_clusters, LEAST_TRIED) + 1, draws)
    if groups is None or len(groups) > n_clusters:
        return None
    if len(groups) == 1:
        return Split()
    n_tried = n_clusters - len(groups) + 2
    n_finer = sum(len(_groups(noisy, group, n_tried, draws) or [group]) for group in groups)
    return Split(clearest=len(groups), finer=n_finer if n_finer > len(groups) else None)


def sure_places(noisy: NoisyVotes) -> IntArray:
    """Return the indices of the places whose votes are clearly above the noise, sorted by votes,
    the most votes first.
    """
    sure = np.flatnonzero(noisy.votes > SURE * noisy.deviation)
    return sure[np.argsort(-noisy.votes[sure], kind="stable")[:MOST_PLACES]]


def one_gaussian(noisy: NoisyVotes, which: IntArray, draws: Draws) -> NoisyVotes:
    """Return simulated noisy votes: the votes that records from one Gaussian would give, with the
    same noise.

    The Gaussian has the mean, the covariance and the number of records of the votes for the places
    `which`.

    which : indices of these places.
    """
    points, votes = noisy.places[which], noisy.votes[which]
    n = noisy.votes.sum() * (votes.sum() / noisy.votes[sure_places(noisy)].sum())
    mean = votes @ points / votes.sum()
    offsets = points - mean
    variances, directions = np.linalg.eigh((offsets.T * votes) @ offsets / votes.sum())
    root = directions * np.sqrt(np.maximum(variances, 0.0))
    sample = mean + draws.normal((NULL_DRAWS, points.shape[1])) @ root.T
    drawn = np.bincount(nearest_points(sample, noisy.places), minlength=len(noisy.places))
    noise = noisy.deviation * draws.normal(drawn.shape)
    return NoisyVotes(
        places=noisy.places, votes=drawn * (n / NULL_DRAWS) + noise, deviation=noisy.deviation
    )


def silhouette(
    points: FloatArray, weights: FloatArray, extents: FloatArray, n_clusters: int, draws: Draws
) -> float:
    """Return the silhouette, at most 1, of a k-means clustering of weighted points (n, r).

    extents : result of `squared_extents` for the points.
    """
    return _clustered(points, weights, extents, n_clusters, draws).silhouette


def squared_extents(places: FloatArray, which: IntArray) -> FloatArray:
    """Return, for each place, an estimate of the mean squared distance between the place and its
    own records, (n,). A record belongs to the nearest place.

    The records of a place are assumed to fill a cube that reaches half-way to the next place.
    Without this extent, a clustering with one cluster for each place would have the largest
    silhouette.

    which : indices of the places.
    """
    squares = np.einsum("ij,ij->i", places, places)
    squared = squares[which, np.newaxis] - 2 * places[which] @ places.T + squares
    squared[np.arange(len(which)), which] = np.inf
    return np.asarray(np.maximum(squared.min(axis=1), 0.0) * places.shape[1] / 12)


def _groups(
    noisy: NoisyVotes, which: IntArray, n_tried: int, draws: Draws
) -> list[IntArray] | None:
    """Return the groups of the clearest split, each as the indices of its places (`NoisyVotes`), or
    one group if no split is clear.

    Splits into 2 to `n_tried` groups are tried. Returns None if the votes do not decide. They do
    not if there are too few places, or if `n_tried` groups have the largest silhouette, because
    more groups may have a larger silhouette.

    which : indices of the places to split.
    """
    points, votes = noisy.places[which], noisy.votes[which]
    extents = squared_extents(noisy.places, which)
    tried = range(2, min(n_tried, len(which) // PER_CLUSTER) + 1)
    each = [_clustered(points, votes, extents, k, draws) for k in tried]
    if not each:
        return None
    found = max(each, key=lambda one: one.silhouette)
    null = one_gaussian(noisy, which, draws)
    without = sure_places(null)
    if len(without) < PER_CLUSTER * found.n_groups:
        return None
    of_null = silhouette(
        null.places[without],
        null.votes[without],
        squared_extents(null.places, without),
        found.n_groups,
        draws,
    )
    if found.silhouette <= of_null + MARGIN:
        return [which]
    if found.n_groups == n_tried:
        return None
    return [which[found.labels == j] for j in range(found.n_groups)]


def _clustered(
    points: FloatArray, weights: FloatArray, extents: FloatArray, k: int, draws: Draws
) -> _Clustered:
    found = k_means(points, weights, k, draws, n_restarts=RESTARTS, n_steps=STEPS)
    offsets = points[:, np.newaxis] - found.centroids
    distances = np.sqrt(np.einsum("ijk,ijk->ij", offsets, offsets) + extents[:, np.newaxis])
    distances.partition(1, axis=1)
    own, following = distances[:, 0], distances[:, 1]
    separation = (following - own) / np.maximum(following, 1e-300)
    return _Clustered(float(weights @ separation / weights.sum()), k, found.labels)
