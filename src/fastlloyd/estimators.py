"""Private k-means as scikit-learn estimators: the central model, one holder of all records.

    FastLloyd(n_clusters=3, epsilon=1.0, bounds=(lower, upper), n_records=1000).fit(X).cluster_centers_

What is private: `cluster_centers_`, `noisy_counts_` and everything computed from them. What is not: `labels_`, `score` and
whatever else touches the records again without noise.
"""

import numbers
import os
import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fastlloyd import central
from fastlloyd.algorithms import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm, Noise
from fastlloyd.bounds import data_bounds
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain, FloatArray, GridArray, IntArray, Scaling
from fastlloyd.clustering.initialization import RadiusSearch
from fastlloyd.design import design_mechanism
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError, PlanError, PrivacyLeakWarning, WeakGuaranteeWarning
from fastlloyd.expander import PublicSeed
from fastlloyd.guarantees import cautions, mechanism_statement
from fastlloyd.mechanism import Mechanism
from fastlloyd.presets import choose, fraction, preset, specialise

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("the estimators need scikit-learn 1.6 or later: pip install 'fastlloyd[sklearn]'") from None


class _Estimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """What the four estimators share; they differ in `_algorithm`, a record."""

    _algorithm: ClassVar[Algorithm]

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002 - scikit-learn passes it
        """Cluster the records privately.

        X : array-like (n_samples, n_features), finite real numbers; values outside the bounds are clipped. y is ignored.
        Warns PrivacyLeakWarning naming each public parameter that had to be taken from X, and WeakGuaranteeWarning where delta
        is above 1 / (100 n_records). Raises DataError, PlanError or BudgetError (all ValueErrors).
        """
        self._check_parameters()
        values = self._validated(X, ensure_min_samples=1)
        leaks: list[str] = []
        domain = self._domain(values, leaks)
        mechanism = self._mechanism(domain, len(values), leaks)
        if leaks and mechanism.algorithm.noise is not Noise.NONE:
            warnings.warn(
                f"{'; '.join(leaks)}. The guarantee does not cover what these reveal about the records: pass public values.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        for caution in cautions(mechanism):
            warnings.warn(caution, WeakGuaranteeWarning, stacklevel=2)
        grid = domain.to_grid(values)
        clustering = central.cluster(mechanism, grid, SystemNoise())
        self.mechanism_ = mechanism
        self.cluster_centers_ = domain.from_grid(clustering.centroids)
        self.noisy_counts_ = clustering.answer[:, -1] / 2**mechanism.count_bits
        self.n_iter_ = len(mechanism.rounds)
        self.privacy_spent_ = mechanism_statement(mechanism) | {"taken_from_the_data": leaks}
        self._centroids = clustering.centroids
        self.labels_ = kernels.assign(grid, clustering.centroids).astype(np.int32)
        self._n_features_out = mechanism.n_clusters
        return self

    def predict(self, X: ArrayLike) -> IntArray:
        """Index of the nearest centroid of each record in the scaled domain, int32 (n_samples,). NOT PRIVATE."""
        grid = self._grid(X)
        return kernels.assign(grid, self._centroids).astype(np.int32)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Distances to the centroids in the scaled domain, float64 (n_samples, n_clusters). NOT PRIVATE.

        Unit: half the width of a feature's bounds (of the widest one with scaling="common"); the nearest by `transform`
        is the one of `predict`.
        """
        squared = kernels.squared_distances(self._grid(X), self._centroids)
        distances: FloatArray = np.sqrt(squared) / 2**self.mechanism_.domain.fraction_bits
        return distances

    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: ARG002 - scikit-learn passes it
        """Minus the sum of squared distances to the nearest centroid in the scaled domain. Exact on X: NOT PRIVATE."""
        grid = self._grid(X)
        offsets = grid - self._centroids[kernels.assign(grid, self._centroids)]
        return -float((offsets.astype(np.float64) ** 2).sum() / 4**self.mechanism_.domain.fraction_bits)

    def _grid(self, X: ArrayLike) -> GridArray:
        check_is_fitted(self)
        return self.mechanism_.domain.to_grid(self._validated(X, reset=False))

    def _validated(self, X: ArrayLike, **options: Any) -> FloatArray:
        """What scikit-learn makes of X, float64; a message that quotes cells of X becomes one that does not."""
        try:
            return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], **options), dtype=np.float64)
        except ValueError as error:
            text = str(error)
            if not any(quoting in text for quoting in ("could not convert", "array=", "Complex data")):
                raise
        if "could not convert" in text:
            raise DataError("X holds text that is not a number; select numeric columns")
        raise DataError(f"{text.splitlines()[0].rstrip(':')}. Reshape your data to (n_samples, n_features), real numbers")

    def _domain(self, values: FloatArray, leaks: list[str]) -> Domain:
        d = values.shape[1]
        if self.bounds is None:
            leaks.append("bounds were taken from the data, so the smallest and largest value of each feature leak")
            lower, upper = data_bounds(values)
        else:
            lower, upper = _given_bounds(self.bounds, d)
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(d)])
        return Domain(
            features=tuple(str(name) for name in names),
            lower=tuple(lower.tolist()),
            upper=tuple(upper.tolist()),
            scaling=choose(Scaling, self.scaling, "scaling"),
            fraction_bits=int(self.fraction_bits),
        )

    def _mechanism(self, domain: Domain, n_samples: int, leaks: list[str]) -> Mechanism:
        n_records = self.n_records
        relation = choose(NeighboringRelation, self.neighboring_relation, "neighboring_relation")
        if n_records is None:
            if self.n_clusters > n_samples:  # said without their number
                raise DataError(f"n_clusters is {self.n_clusters}, and there are fewer records; ask for fewer clusters")
            n_records = n_samples
            also = " and delta, which depends on it," if self._delta is None else ""
            if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:  # replace_one takes the number of records as known
                leaks.append(f"n_records{also} was taken from the data, so the number of records leaks")
        elif n_samples > n_records:
            central.check_cap(n_samples, n_records)
        chosen = preset(self.preset)
        delta = self._delta
        return design_mechanism(
            specialise(
                self._algorithm,
                noise=self.noise,
                radius=self.radius,
                postprocessing=self.postprocessing,
                clipping=self.clipping,
                alpha=self.alpha,
            ),
            domain,
            n_clusters=self.n_clusters,
            n_records=n_records,
            epsilon=self._epsilon,
            delta=chosen.delta(n_records) if delta is None else delta,
            public_seed=_public_seed(self.random_state),
            n_expected=self.n_expected,
            n_iterations=self.n_iter,
            initialization=chosen.initialization
            if self.initialization is None
            else choose(RadiusSearch, self.initialization, "initialization"),
            neighboring_relation=relation,
            min_count=chosen.min_count if self.min_count is None else fraction(self.min_count, "min_count"),
        )

    @property
    def _epsilon(self) -> float:
        return float(self.epsilon)

    @property
    def _delta(self) -> float | None:
        return None if self.delta is None else float(self.delta)

    def _check_parameters(self) -> None:
        for name in ("n_clusters", "fraction_bits"):
            _check_integer(name, getattr(self, name))
        for name in ("n_records", "n_expected", "n_iter"):
            if getattr(self, name) is not None:
                _check_integer(name, getattr(self, name))
        for name in ("epsilon", "delta", "alpha", "min_count"):
            value = getattr(self, name, None)
            if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
                raise PlanError(f"{name} is {value!r:.40}; expected a number")

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but `labels_`: they are exact outputs of the records."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "labels_"}


class FastLloyd(_Estimator):
    """k-means with (epsilon, delta)-differential privacy: bounded radius, relative updates, Gaussian noise (the paper's).

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`). Unit of protection: one row.

    Parameters
    ----------
    n_clusters : int, number of clusters.
    epsilon : float > 0, the privacy budget of one `fit`, all iterations together.
    delta : float in (0, 1) or None: 1 / (100 n_records).
    bounds : (lower, upper), each a number or array-like (n_features,), in the units of X; chosen without looking at X. None
        takes them from X, which leaks the extreme values (PrivacyLeakWarning).
    n_records : public upper bound on the number of records; None takes it from X, which leaks it (PrivacyLeakWarning).
    random_state : seeds the initial centroids, never the noise; int, RandomState instance or None (fresh).
    n_expected : public guess of the number of records, used only to plan the number of iterations; None: n_records.
    preset : "default", or "paper" for the settings of the published experiments (weaker delta, no floor under counts).
    scaling : "per-feature" (each feature fills [-1, 1]) or "common" (keeps Euclidean distances of the original units).
    neighboring_relation : "add_or_remove_one" or "replace_one".
    n_iter : number of iterations; None: by the error analysis, 2 to 7.
    initialization : sphere packing by "bisection" or "halving"; None: as the preset says.
    min_count : centroids with a smaller noisy count stay; 0 is the paper's rule; None: as the preset says.
    radius, alpha, postprocessing, clipping, noise : the axes of the paper's ablation; None keeps the algorithm's own.
        "none" | "constant" | "step"; number; "none" | "truncate" | "fold"; bool; "gaussian" | "laplace".
    fraction_bits : q; records are rounded to multiples of 2**-q of the half width of the domain.

    Attributes
    ----------
    cluster_centers_ : float64 (n_clusters, n_features), original units. Private.
    noisy_counts_ : float64 (n_clusters,), records per cluster in the last iteration, with noise. Private.
    privacy_spent_ : dict, the machine-readable privacy statement of this fit.
    mechanism_ : Mechanism, every public setting of this fit.
    n_iter_ : int, iterations run.
    labels_ : int32 (n_samples,), cluster of each record of X. NOT PRIVATE: computed from the records without noise, and
        left out when the model is pickled. There is no `inertia_` for the same reason.
    """

    _algorithm = FASTLLOYD

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        n_records: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_expected: int | None = None,
        preset: str = "default",
        scaling: str = "per-feature",
        neighboring_relation: str = "add_or_remove_one",
        n_iter: int | None = None,
        initialization: str | None = None,
        min_count: float | None = None,
        radius: str | None = None,
        alpha: float | None = None,
        postprocessing: str | None = None,
        clipping: bool | None = None,
        noise: str | None = None,
        fraction_bits: int = 16,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_records = n_records
        self.random_state = random_state
        self.n_expected = n_expected
        self.preset = preset
        self.scaling = scaling
        self.neighboring_relation = neighboring_relation
        self.n_iter = n_iter
        self.initialization = initialization
        self.min_count = min_count
        self.radius = radius
        self.alpha = alpha
        self.postprocessing = postprocessing
        self.clipping = clipping
        self.noise = noise
        self.fraction_bits = fraction_bits


class GLloyd(FastLloyd):
    """k-means with Gaussian noise on absolute sums and counts: (epsilon, delta)-DP, the paper's second baseline.

    Parameters, attributes and neighbouring relation as in `FastLloyd`.
    """

    _algorithm = GLLOYD


class SuLloyd(FastLloyd):
    """k-means with Laplace noise on absolute sums and counts (Su et al. 2016): pure epsilon-DP; delta is not used.

    Parameters, attributes and neighbouring relation as in `FastLloyd`. On the integer grid the noise is two-sided geometric.
    """

    _algorithm = SULLOYD


class Lloyd(FastLloyd):
    """Lloyd's algorithm on the same grid, from the same initial centroids, without any noise: NOT PRIVATE.

    For comparison. Parameters as in `FastLloyd`; epsilon and delta are not used.
    """

    _algorithm = LLOYD


def _given_bounds(bounds: tuple[ArrayLike, ArrayLike], d: int) -> tuple[FloatArray, FloatArray]:
    try:
        lower, upper = (np.asarray(end, dtype=np.float64) for end in bounds)
        return np.broadcast_to(lower, (d,)), np.broadcast_to(upper, (d,))
    except (TypeError, ValueError):
        raise PlanError(
            f"bounds are not a pair (lower, upper) of numbers or arrays of length {d}, the number of features of X"
        ) from None


def _check_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise PlanError(f"{name} is {value!r:.40}; expected an integer")


def _public_seed(random_state: int | np.random.RandomState | None) -> PublicSeed:
    """The seed of the initial centroids; the noise has none."""
    if random_state is None:
        return PublicSeed(os.urandom(32))
    if isinstance(random_state, numbers.Integral):
        return PublicSeed.from_int(int(random_state))
    return PublicSeed(check_random_state(random_state).bytes(32))
