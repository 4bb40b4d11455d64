"""Example of a user's own method: every record gets Laplace noise, and k-means runs on the noisy
records.

The example shows only the form of a method. NumPy's floating-point noise gives no guarantee for
real records.
"""

import numpy as np

from fastlloyd_lab.experiments.methods import Method, Outcome, Setting
from fastlloyd_lab.experiments.problem import Problem


def cluster(problem: Problem, setting: Setting) -> Outcome:
    """Run Lloyd's algorithm on records with noise. All trials with the same run number start from
    the same centroids.
    """
    noise = np.random.default_rng(setting.noise_seed)
    start = np.random.default_rng(int.from_bytes(setting.public_seed.value))
    # records lie in [-1, 1]^d, so two of them differ by at most 2 d in the l1 norm
    noised = problem.X + noise.laplace(
        scale=2 * problem.n_features / setting.epsilon, size=problem.X.shape
    )
    noised = np.clip(noised, -1, 1)
    centroids = start.uniform(-1, 1, (problem.n_clusters, problem.n_features))
    rounds = int(setting.options.get("rounds", 5))
    for _ in range(rounds):
        nearest = ((noised[:, np.newaxis] - centroids) ** 2).sum(axis=2).argmin(axis=1)
        for j in np.unique(nearest):
            centroids[j] = noised[nearest == j].mean(axis=0)
    return Outcome(centroids=centroids, n_iterations=rounds)


METHOD = Method(
    name="local-noise",
    label="Local noise",
    cluster=cluster,
    options=frozenset({"rounds"}),
    central=True,
)
