"""Synthetic records in several kinds. In each kind, the records differ in one way from a few
spherical clusters of equal size, as real records may.

Every set follows from its name alone. Declared bounds may be wider than the range of the records.
The range is then at a random place within the bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd_lab.experiments.problem import Problem, make_problem

FloatArray = npt.NDArray[np.float64]
Maker = Callable[[Draws, int, int, int], FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Synthetic set, and the settings of its clustering.

    make : function of draws, n, d and k that returns records (n, d).
    width : width of the declared bounds divided by the range of the records.
    expected : n_expected divided by the number of records.
    delta : delta of the guarantee, or None for 1 / (N ln N).
    """

    group: str
    make: Maker
    d: int
    k: int
    n: int
    width: float = 1.0
    expected: float = 1.0
    delta: float | None = None

    @property
    def name(self) -> str:
        """Name of the case, from which all random draws of its records follow."""
        text = f"{self.group}-{self.make.__name__}-{self.d}-{self.k}-{self.n}"
        if self.expected != 1:
            text += f"-expected{self.expected:g}"
        return text if self.delta is None else f"{text}-delta{self.delta:g}"

    def problem(self) -> Problem:
        """Return the records within their bounds, which are [-1, 1] for every feature."""
        draws = Draws(PublicSeed.from_text(self.name), b"fastlloyd/v1/synthetic-groups")
        problem = make_problem(self.name, self.make(draws, self.n, self.d, self.k), self.k)
        if self.width == 1:
            return problem
        room = 1 - 1 / self.width
        X = problem.X / self.width + draws.uniform(-room, room, (1, self.d))
        return replace(problem, X=X, grid=problem.domain.to_grid(X))


def clusters(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of normal clusters of equal expected size. Distances between clusters are
    about as large as the clusters.
    """
    return _clusters(draws, _shared(n, np.ones(k)), d)


def unbalanced(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of normal clusters whose sizes fall geometrically from 100 to 1."""
    return _clusters(draws, _shared(n, 100.0 ** -np.linspace(0, 1, k)), d)


def outliers(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of normal clusters. One record in 33 is at a random place in a box four times
    as wide as the range of the clusters.
    """
    few = n // 33
    X = clusters(draws, n - few, d, k)
    middle, reach = (X.max(axis=0) + X.min(axis=0)) / 2, X.max(axis=0) - X.min(axis=0)
    return np.concatenate([X, middle + draws.uniform(-2.0, 2.0, (few, d)) * reach])


def far(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of normal clusters. Up to three clusters with two per cent of the records each
    are ten times as far away as the others.
    """
    n_far = min(3, k - 1)
    few = n // 50
    near = _clusters(draws, _shared(n - n_far * few, np.ones(k - n_far)), d)
    reach = 10 * np.sqrt((near**2).sum(axis=1).mean())
    away = [reach * _unit(draws, 1, d) + draws.normal((few, d)) for _ in range(n_far)]
    return np.concatenate([near, *away])


def tails2(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of clusters of Student's t with two degrees of freedom, which has no finite
    variance.
    """
    return _student(draws, n, d, k, 2)


def tails3(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of clusters of Student's t with three degrees of freedom."""
    return _student(draws, n, d, k, 3)


def lognormal(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return the exponentials of normal clusters. All features are skewed, and a few records are
    far away.
    """
    return np.exp(clusters(draws, n, d, k) / 3)


def zeros(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return skewed values above 0. Two thirds of them are replaced by exactly 0."""
    X = np.exp(clusters(draws, n, d, k) / 4)
    return np.where(draws.uniform(0.0, 1.0, (n, d)) < 2 / 3, 0.0, X)


def whole_numbers(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of whole numbers from 0 to 4."""
    return np.clip(np.rint(clusters(draws, n, d, k) / 2 + 2), 0, 4)


def one_value(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records in which one value is repeated in four of five records."""
    X = clusters(draws, n, d, k)
    X[: 4 * n // 5] = X[-1]
    return X


def few_values(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records with 2 k different values, each repeated many times."""
    return draws.uniform(-1.0, 1.0, (2 * k, d))[draws.integers(0, 2 * k - 1, (n,))]


def binary(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of zeros and ones, whose probabilities depend on k latent classes."""
    chances = draws.uniform(0.05, 0.95, (k, d))
    return (draws.uniform(0.0, 1.0, (n, d)) < chances[draws.integers(0, k - 1, (n,))]).astype(
        np.float64
    )


def ring(draws: Draws, n: int, d: int, k: int) -> FloatArray:  # noqa: ARG001 - a Maker
    """Return records along a closed curve with d - 1 harmonics, which is a circle for d = 2."""
    angle = draws.uniform(0.0, 2 * np.pi, (n, 1))
    return np.concatenate(
        [np.cos(angle), np.sin(angle * np.arange(1, d))], axis=1
    ) + 0.03 * draws.normal((n, d))


def two_rings(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records along two rings, one inside another that is three times as large."""
    return ring(draws, n, d, k) * np.where(draws.uniform(0.0, 1.0, (n, 1)) < 0.5, 1.0, 3.0)


def roll(draws: Draws, n: int, d: int, k: int) -> FloatArray:  # noqa: ARG001 - a Maker
    """Return records on a rolled-up sheet, which is straight along all features after the
    second.
    """
    t = draws.uniform(1.5 * np.pi, 4.5 * np.pi, (n, 1))
    return np.concatenate(
        [t * np.cos(t), t * np.sin(t), draws.uniform(0.0, 20.0, (n, d - 2))], axis=1
    )


def sphere(draws: Draws, n: int, d: int, k: int) -> FloatArray:  # noqa: ARG001 - a Maker
    """Return records on the surface of a ball."""
    return _unit(draws, n, d)


def sheet(draws: Draws, n: int, d: int, k: int) -> FloatArray:
    """Return records of clusters in a plane that is bent into all features."""
    flat = clusters(draws, n, 2, k) / 6
    return np.sin(
        flat @ draws.normal((2, d)) + draws.uniform(0.0, 2 * np.pi, (1, d))
    ) + 0.02 * draws.normal((n, d))


def _clusters(draws: Draws, sizes: IntArray, d: int) -> FloatArray:
    """Return records of clusters with these sizes, in random order. Centres are normal with
    standard deviation 3. The standard deviations of a cluster are 0.5 to 1.5.
    """
    centres = 3 * draws.normal((len(sizes), d))
    parts = [
        centre
        + (draws.normal((int(size), d)) * draws.uniform(0.5, 1.5, (1, d))) @ draws.rotation(d)
        for centre, size in zip(centres, sizes, strict=True)
    ]
    X = np.concatenate(parts)
    return np.asarray(X[draws.permutation(len(X))])


def _student(draws: Draws, n: int, d: int, k: int, freedom: int) -> FloatArray:
    centres = 3 * draws.normal((k, d))[draws.integers(0, k - 1, (n,))]
    chi2 = (draws.normal((n, freedom)) ** 2).sum(axis=1, keepdims=True)
    return np.asarray(centres + draws.normal((n, d)) / np.sqrt(chi2 / freedom))


def _shared(n: int, weights: FloatArray) -> IntArray:
    """Return the sizes of clusters with n records in all, in proportion to the weights, at least
    two each.
    """
    sizes = np.maximum(np.floor(n * weights / weights.sum()), 2).astype(np.int64)
    sizes[0] += n - int(sizes.sum())
    return np.asarray(sizes, dtype=np.int64)


def _unit(draws: Draws, n: int, d: int) -> FloatArray:
    Z = draws.normal((n, d))
    return np.asarray(Z / np.linalg.norm(Z, axis=1, keepdims=True))


def _cases(group: str, *rows: tuple[Maker, int, int, int], **fields: float) -> list[Case]:
    return [Case(group=group, make=make, d=d, k=k, n=n, **fields) for make, d, k, n in rows]


SMALL = (
    (clusters, 1, 2, 150), (clusters, 2, 4, 300), (clusters, 4, 3, 150),
    (clusters, 8, 2, 500), (clusters, 13, 3, 200), (clusters, 20, 5, 500),
)  # fmt: skip
ORDINARY = (
    (clusters, 2, 5, 3000),
    (clusters, 6, 5, 3000),
    (clusters, 16, 4, 5000),
    (clusters, 40, 5, 5000),
)

# fmt: off
CASES: tuple[Case, ...] = (
    *_cases("small", *SMALL),
    *_cases("large", (clusters, 1, 8, 50000), (clusters, 2, 50, 50000), (clusters, 3, 20, 20000),
      (clusters, 8, 20, 20000),
            (clusters, 16, 50, 20000)),
    *_cases("some features", (clusters, 4, 8, 2000), (clusters, 8, 10, 2000),
      (clusters, 12, 5, 1000),
            (clusters, 24, 10, 10000), (clusters, 32, 4, 3000)),
    *_cases("many features", (clusters, 36, 10, 10000), (clusters, 64, 5, 3000),
      (clusters, 100, 10, 10000),
            (clusters, 400, 4, 2000)),
    *_cases("tails", (tails2, 1, 4, 2000), (tails3, 2, 5, 2000), (tails2, 3, 8, 10000),
      (tails3, 6, 4, 3000),
            (tails2, 10, 5, 10000), (tails3, 20, 8, 5000), (tails3, 50, 5, 5000),
            (lognormal, 4, 5, 3000)),
    *_cases("outliers", (outliers, 2, 6, 3000), (outliers, 3, 4, 1000), (outliers, 5, 8, 10000),
      (outliers, 10, 3, 1000),
            (outliers, 20, 10, 10000), (outliers, 40, 5, 5000)),
    *_cases("unbalanced", (unbalanced, 2, 8, 5000), (unbalanced, 3, 20, 20000),
      (unbalanced, 4, 5, 1000),
            (unbalanced, 8, 10, 10000), (unbalanced, 16, 6, 3000), (unbalanced, 40, 8, 8000)),
    *_cases("far", (far, 1, 3, 2000), (far, 2, 5, 5000), (far, 3, 6, 10000), (far, 6, 4, 3000),
      (far, 12, 8, 10000),
            (far, 40, 5, 5000)),
    *_cases("spikes", (few_values, 1, 5, 1000), (whole_numbers, 2, 4, 2000),
      (one_value, 3, 5, 5000), (zeros, 5, 4, 5000),
            (few_values, 6, 6, 1000), (binary, 20, 4, 3000), (zeros, 50, 6, 5000)),
    *_cases("curves", (ring, 2, 8, 2000), (two_rings, 2, 10, 10000), (roll, 3, 8, 3000),
      (ring, 5, 6, 3000),
            (sphere, 8, 10, 5000), (sheet, 12, 8, 5000), (sheet, 50, 8, 5000)),
    *_cases("bounds 3 times too wide", *ORDINARY, (clusters, 3, 4, 1000), (clusters, 10, 3, 20000),
      width=3.0),
    *_cases("bounds 10 times too wide", *ORDINARY, (clusters, 3, 4, 1000), (clusters, 10, 3, 20000),
      width=10.0),
    *_cases("n_expected twice as large", *ORDINARY, expected=2.0),
    *_cases("n_expected half as large", *ORDINARY, expected=0.5),
    *_cases("n_expected 10 times as large", *SMALL, *ORDINARY, expected=10.0),
    *_cases("n_expected 30 times as large", *SMALL, *ORDINARY, expected=30.0),
    *_cases("n_expected 100 times as large", *SMALL, *ORDINARY, expected=100.0),
    *_cases("delta 1e-4", *ORDINARY[:3], delta=1e-4),
    *_cases("delta 1e-10", *ORDINARY[:3], delta=1e-10),
)
# fmt: on
