"""Which number of clusters the noisy votes suggest: advice from what is released anyway, so it
costs nothing.

Places whose votes stand out of the noise are clustered for each number of clusters. The silhouette
says how well a clustering separates them: (b - a) / b, with a the distance of a record from its
centroid and b that from the next one, averaged over records (Rousseeuw 1987, with centroids in
place of all other records). The run itself does not depend on the answer.
"""

from typing import Final

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.public_kmeans import k_means

SURE: Final = 3.0  # deviations of its noise: of 741 empty places one has as many votes
LEAST_SHARE: Final = 0.5  # of all votes, in such places
MOST_PLACES: Final = 400  # the heaviest of them
PER_CLUSTER: Final = 2  # places, at least
MOST_CLUSTERS: Final = 30  # for more, places are too few, and the time is not short
RESTARTS, STEPS = 5, 16
_LABEL = b"fastlloyd/v1/suggested-clusters"


class NoisyVotes(msgspec.Struct, frozen=True, kw_only=True):
    """Places, float64 (m, r), and their noisy votes, records, float64 (m,); deviation : of the
    noise in each.
    """

    places: FloatArray
    votes: FloatArray
    deviation: float


def suggested_n_clusters(noisy: NoisyVotes | None, n_clusters: int, seed: PublicSeed) -> int | None:
    """The number of clusters, from 2 to `n_clusters`, that has the largest silhouette; None where
    the votes do not say.

    One more than `n_clusters` is tried, too: where that is best, any larger number may be better
    still. seed : of the run.
    """
    if noisy is None or n_clusters > MOST_CLUSTERS:
        return None
    sure = sure_places(noisy)
    if noisy.votes[sure].sum() < LEAST_SHARE * noisy.votes.sum():
        return None
    points, weights, extents = (
        noisy.places[sure],
        noisy.votes[sure],
        squared_extents(noisy.places, sure),
    )
    draws, most = Draws(seed, _LABEL), min(n_clusters + 1, len(sure) // PER_CLUSTER)
    found = {k: silhouette(points, weights, extents, k, draws) for k in range(2, most + 1)}
    best = max(found, key=lambda k: found[k], default=most)
    return best if best < most else None


def sure_places(noisy: NoisyVotes) -> IntArray:
    """The numbers of the places whose votes stand out of the noise, the heaviest first."""
    sure = np.flatnonzero(noisy.votes > SURE * noisy.deviation)
    return sure[np.argsort(-noisy.votes[sure], kind="stable")[:MOST_PLACES]]


def silhouette(
    points: FloatArray, weights: FloatArray, extents: FloatArray, n_clusters: int, draws: Draws
) -> float:
    """The silhouette, at most 1, of a clustering of weighted points (n, r); extents : their
    `squared_extents`.
    """
    found = k_means(points, weights, n_clusters, draws, n_restarts=RESTARTS, n_steps=STEPS)
    offsets = points[:, np.newaxis] - found.centroids
    distances = np.sqrt(np.einsum("ijk,ijk->ij", offsets, offsets) + extents[:, np.newaxis])
    distances.partition(1, axis=1)
    own, following = distances[:, 0], distances[:, 1]
    return float(weights @ ((following - own) / np.maximum(following, 1e-300)) / weights.sum())


def squared_extents(places: FloatArray, which: IntArray) -> FloatArray:
    """Mean squared distances of the records of some places from them, (n,), if these fill a cube as
    wide as the next is far.

    Without an extent, as many clusters as there are places would have the largest silhouette.
    """
    squares = np.einsum("ij,ij->i", places, places)
    squared = squares[which, np.newaxis] - 2 * places[which] @ places.T + squares
    squared[np.arange(len(which)), which] = np.inf
    return np.asarray(np.maximum(squared.min(axis=1), 0.0) * places.shape[1] / 12)
