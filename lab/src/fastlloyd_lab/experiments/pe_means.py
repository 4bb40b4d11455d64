"""PE-means (arXiv 2606.00342) in a box, in the central model: candidates evolve by noisy votes of
the records.

This is for comparisons on public records, and is not part of fastlloyd. `methods.py` supplies the
repeatable noise of experiments: NOT PRIVATE. The code was written from a description of the method,
without the paper and its code. It uses the queries of `fastlloyd.mechanisms.queries`:

1. L = max(N / (5 k), 4), T = 4 sqrt(d) generations (for epsilon > 1: 4 epsilon sqrt(d)),
   sigma = sqrt(T) / mu. The first (L + 1) k candidates come from sphere packing, without the data.
2. Every record votes for its nearest candidate: h = votes + N(0, sigma^2).
3. Keep the largest h that together reach the public N. The others become 0.
4. If the sum of h^2 is below (number of candidates) sigma^2, halve L, down to 4.
5. C = weighted k-means of the candidates, the best of 10 starts.
6. The next candidates are C and L mutants of each centroid, c + gamma R u / |v|^(1/beta) with
   u ~ N(0, s_u^2), v ~ N(0, 1), moved back into the domain. The C of generation T is the result.

Guarantee with fresh noise: (epsilon, delta), for one record added or removed. One record changes
one vote by 1, so a generation costs 1 / sigma^2. All T generations cost mu^2, where mu =
gdp_mu(epsilon, delta). sigma is rounded up to an exact rational. All steps between votes are
post-processing. N counts as public.

The following choices are our own. In them we depart from the description, whose domain is a ball,
or we fill its gaps. The domain is the box, and R is half its diagonal. "Moved back into the domain"
clips each coordinate. L and T are rounded down. The packing halves its radius, as in FastLloyd's
published code. Step 4 takes h after step 3. u and v are drawn for each coordinate. k-means takes a
fixed number of steps, and only the most promising starts take all of them. If fewer than k
candidates keep a weight, C is the k candidates with the largest h. Candidates are grid points. All
public random choices follow from the public seed.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch, sphere_packing
from fastlloyd.clustering.public_kmeans import k_means
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries.nearest import MAX_POINTS, Votes
from fastlloyd.mechanisms.queries.query import ask
from fastlloyd.mechanisms.queries.spaces import Features
from fastlloyd.mechanisms.rounds import sqrt_up

LEVY_INDEX = 1.75  # beta
STEP = 0.01  # gamma
FEWEST_MUTANTS = 4
STARTS = 10  # of each weighted k-means
LLOYD_STEPS = 32  # 300 gave the same losses to a thousandth, on s1, yeast and wine
# votes travel in units of 2**-16 records, so that the grid of the noise is too fine to matter
COUNT_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PEMeans:
    """Settings of PE-means that are fixed before it reads any records.

    n_records : exact number N of records, which counts as public.

    Raises BudgetError if epsilon or delta is out of range, and PlanError if there would be too many
    candidates.
    """

    domain: Domain
    n_clusters: int
    n_records: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        gdp_mu(self.epsilon, self.delta)
        n_candidates = (self.n_mutants + 1) * self.n_clusters
        if n_candidates > MAX_POINTS:
            raise PlanError(
                f"PE-means needs {n_candidates} candidates for n_records {self.n_records}, and at"
                f" most {MAX_POINTS} are possible; expected at most about {5 * MAX_POINTS} records"
            )

    @property
    def n_generations(self) -> int:
        """Number T of generations: the floor of 4 sqrt(d) max(1, epsilon)."""
        return math.isqrt(
            math.floor(16 * self.domain.n_features * max(Fraction(1), Fraction(self.epsilon)) ** 2)
        )

    @property
    def n_mutants(self) -> int:
        """Number L of mutants of each centroid in the first generation. If the votes are mostly
        noise, `voted` halves L afterwards.
        """
        return max(self.n_records // (5 * self.n_clusters), FEWEST_MUTANTS)

    @property
    def scale(self) -> Fraction:
        """Standard deviation of the noise on each vote, in units of 2**-16 records.

        It equals sigma, rounded up to a multiple of 1/65536 of this unit.
        """
        return sqrt_up(
            self.n_generations
            * Fraction(4**COUNT_BITS)
            / Fraction(gdp_mu(self.epsilon, self.delta)) ** 2
        )

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each vote, in records."""
        return float(self.scale / 2**COUNT_BITS)

    @property
    def reach(self) -> float:
        """Half the diagonal of the box (R), in grid units."""
        return math.sqrt(self.domain.squared_half_diagonal)

    def question(self, n_candidates: int) -> Votes:
        """Return the query of one generation, without its parameters, for this number of
        candidates.
        """
        return Votes(
            space=Features(domain=self.domain), n_candidates=n_candidates, count_bits=COUNT_BITS
        )


def cluster(plan: PEMeans, X: GridArray, public_seed: PublicSeed, noise: NoiseSource) -> FloatArray:
    """Return the centroids that PE-means finds, float64 (k, d), in grid units, inside the box.

    plan : settings.
    X : grid points of the records, (n_records, n_features).
    public_seed : seed of public random choices.
    noise : source of the noise.
    """
    draws = Draws(public_seed, b"fastlloyd/v1/pe-means")
    candidates, L = first_candidates(plan, public_seed), plan.n_mutants
    for _ in range(plan.n_generations - 1):
        C, L = voted(plan, candidates, L, X, noise, draws)
        candidates = next_candidates(plan, C, L, draws)
    return voted(plan, candidates, L, X, noise, draws)[0]


def voted(
    plan: PEMeans,
    candidates: IntArray,
    n_mutants: int,
    X: GridArray,
    noise: NoiseSource,
    draws: Draws,
) -> tuple[FloatArray, int]:
    """Let the records vote in one generation. Return the centroids C that follow from the votes,
    and the number L of mutants for the next generation.

    Only this function reads records. Its privacy cost, as a part of mu^2, is 1 / sigma^2.
    """
    h = noisy_votes(plan, candidates, X, noise)
    weights = largest(h, plan.n_records)
    if is_weak(weights, plan.sigma):
        n_mutants = max(n_mutants // 2, FEWEST_MUTANTS)
    return selected(plan, candidates, h, weights, draws), n_mutants


def first_candidates(plan: PEMeans, public_seed: PublicSeed) -> IntArray:
    """Return the (L + 1) k first candidates, in grid units. They come from sphere packing."""
    n_candidates = (plan.n_mutants + 1) * plan.n_clusters
    return sphere_packing(plan.domain.half_widths, n_candidates, public_seed, RadiusSearch.HALVING)


def noisy_votes(
    plan: PEMeans, candidates: IntArray, X: GridArray, noise: NoiseSource
) -> FloatArray:
    """Return h: for each candidate, the noisy number of records that are nearest to it."""
    votes = ask(plan.question(len(candidates)), candidates=candidates).evaluate(X)[:, 0]
    return np.asarray(
        (votes + noise.gaussian(plan.scale, len(candidates))) / 2**COUNT_BITS, dtype=np.float64
    )


def largest(h: FloatArray, total: int) -> FloatArray:
    """Return h with only its largest entries, which together reach the total. All others become 0.

    If the positive entries do not reach the total, all of them are kept.
    """
    descending = np.sort(h)[::-1]
    reached = np.flatnonzero(np.cumsum(descending) >= total)
    least = descending[reached[0]] if len(reached) else 0.0
    return np.where(h >= least, h, 0.0)


def is_weak(weights: FloatArray, sigma: float) -> bool:
    """Return whether the sum of squared weights is below the expected sum of squares of
    the noise.
    """
    return float(weights @ weights) < len(weights) * sigma**2


def selected(
    plan: PEMeans, candidates: IntArray, h: FloatArray, weights: FloatArray, draws: Draws
) -> FloatArray:
    """Return the centroids C: weighted k-means of the candidates, float64 (k, d), in grid units."""
    k, B = plan.n_clusters, plan.domain.half_widths
    points, kept = candidates.astype(np.float64), weights > 0
    if kept.sum() < k:
        return points[np.argsort(-h, kind="stable")[:k]]
    found = k_means(points[kept], weights[kept], k, draws, n_restarts=STARTS, n_steps=LLOYD_STEPS)
    return np.clip(found.centroids, -B, B)  # means may leave the box by rounding


def next_candidates(plan: PEMeans, C: FloatArray, n_mutants: int, draws: Draws) -> IntArray:
    """Return the next candidates: the centroids, then L mutants of each, int64 ((L + 1) k, d), as
    grid points.

    Mutants come from Levy flights (Mantegna 1994).
    """
    shape, B = (len(C), n_mutants, C.shape[1]), plan.domain.half_widths
    u, v = mantegna_deviation(LEVY_INDEX) * draws.normal(shape), draws.normal(shape)
    mutants = C[:, np.newaxis] + STEP * plan.reach * u / np.abs(v) ** (1 / LEVY_INDEX)
    points = np.concatenate([C, mutants.reshape(-1, C.shape[1])])
    return np.asarray(np.clip(np.rint(points), -B, B), dtype=np.int64)


def mantegna_deviation(index: float) -> float:
    """Return s_u, the standard deviation of u in Mantegna's method.

    Let u be normal with this deviation and v standard normal. Then u / |v|^(1 / index) has the same
    tails as the symmetric stable law with that index.
    """
    above = math.gamma(1 + index) * math.sin(math.pi * index / 2)
    below = math.gamma((1 + index) / 2) * index * 2 ** ((index - 1) / 2)
    return float((above / below) ** (1 / index))
