"""Private k-means as scikit-learn estimators: the central model, one holder of all records.

    FastLloyd(n_clusters=3, epsilon=1.0, bounds=(lower, upper), n_records=1000).fit(X).cluster_centers_

What is private: `cluster_centers_`, `noisy_counts_` and everything computed from them. What is not: `labels_`, `score` and
whatever else touches the records again without noise; see `estimator.py`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fastlloyd.algorithms import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm, Noise
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.initialization import RadiusSearch
from fastlloyd.design import design_mechanism
from fastlloyd.design_moments import design_moments
from fastlloyd.estimator import Estimator
from fastlloyd.lloyd_mechanism import LloydMechanism
from fastlloyd.momentlloyd.mechanism import MomentMechanism
from fastlloyd.presets import choose, fraction, preset, specialise


class FastLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy: bounded radius, relative updates, Gaussian noise (the paper's).

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`). Unit of protection: one row.

    Parameters
    ----------
    n_clusters : int, number of clusters.
    epsilon : float > 0, the privacy budget of one `fit`, all iterations together.
    delta : float in (0, 1) or None: 1 / (100 n_records).
    bounds : (lower, upper), each a number or array-like (n_features,), in the units of X; or {column name: (lower, upper)}
        for every column of a data frame. Chosen without looking at X. None takes them from X, which leaks the extreme values
        (PrivacyLeakWarning).
    n_records : public upper bound on the number of records; None takes it from X, which leaks it (PrivacyLeakWarning).
    random_state : seeds the initial centroids, never the noise; int, RandomState instance or None (fresh).
    n_expected : public guess of the number of records, at most n_records, used only to plan the number of iterations and the
        share of the loss; None: n_records.
    preset : "default", or "paper" for the settings of the published experiments (weaker delta, no floor under counts, 16 bits).
    scaling : "per-feature" (each feature fills [-1, 1]) or "common" (keeps Euclidean distances of the original units).
    neighboring_relation : "add_or_remove_one" or "replace_one".
    n_iter : number of iterations; None: by the error analysis, 2 to 7.
    initialization : sphere packing by "bisection" or "halving"; None: as the preset says.
    min_count : centroids with a smaller noisy count stay; 0 is the paper's rule; None: as the preset says.
    estimate_loss : also estimate the loss of the final centroids, privately, from a part of the budget; see `noisy_loss_`.
    loss_share : that part of the budget, above 0 and below 1; None: chosen from n_expected, at most a fifth.
    radius, alpha, postprocessing, clipping, noise : the axes of the paper's ablation; None keeps the algorithm's own.
        "none" | "constant" | "step"; number; "none" | "truncate" | "fold"; bool; "gaussian" | "laplace".
    fraction_bits : q; records are rounded to multiples of 2**-q of the half width of the domain; with scaling="common" a
        feature whose width rounds to none is refused. None: 16, as in the paper, on the command line and in plans; of `GLloyd`
        13 unless the preset is "paper".

    Attributes
    ----------
    cluster_centers_ : float64 (n_clusters, n_features), original units. Private.
    cluster_centers_std_ : float64 (n_clusters, n_features), original units: how far the noise of the last iteration moved each
        coordinate, one standard deviation; NaN where a centroid stayed (`uncertainty.standard_errors`). Private.
    noisy_counts_ : float64 (n_clusters,), records per cluster in the last iteration and noise, as they came: unbiased, so they
        may be negative. Private.
    noisy_counts_std_ : float, the standard deviation of the noise in each of noisy_counts_, records. Public.
    noisy_loss_ : float, only with estimate_loss: sum of squared distances to the nearest centroid in the scaled domain, with
        noise; privacy_spent_["loss_estimate"] says at which distance records are cut off. Private.
    noisy_loss_std_ : float, only with estimate_loss: the standard deviation of the noise in noisy_loss_. Public.
    privacy_spent_ : dict, the machine-readable privacy statement of this fit; shown in one line, complete for programs.
        "private" is False where bounds or n_records were taken from X. It speaks of the last `fit` of this very model ALONE:
        not of earlier ones, nor of the clones that a grid search or a cross-validation fits, each of which spends epsilon too.
    mechanism_ : Mechanism, every public setting of this fit.
    n_iter_ : int, iterations run.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn; the names only where X had some.
    labels_ : int32 (n_samples,), cluster of each record of X. NOT PRIVATE: computed from the records without noise, and
        left out when the model is pickled, copied or drawn. There is no `inertia_` for the same reason.
    """

    _algorithm: ClassVar[Algorithm] = FASTLLOYD
    _noise = Noise.GAUSSIAN
    mechanism_: LloydMechanism

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | Mapping[str, tuple[float, float]] | None = None,
        n_records: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_expected: int | None = None,
        preset: str = "default",
        scaling: str = "per-feature",
        neighboring_relation: str = "add_or_remove_one",
        n_iter: int | None = None,
        initialization: str | None = None,
        min_count: float | None = None,
        estimate_loss: bool = False,
        loss_share: float | None = None,
        radius: str | None = None,
        alpha: float | None = None,
        postprocessing: str | None = None,
        clipping: bool | None = None,
        noise: str | None = None,
        fraction_bits: int | None = None,
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
        self.estimate_loss = estimate_loss
        self.loss_share = loss_share
        self.radius = radius
        self.alpha = alpha
        self.postprocessing = postprocessing
        self.clipping = clipping
        self.noise = noise
        self.fraction_bits = fraction_bits

    def _design(self, domain: Domain, n_records: int, common: dict[str, Any]) -> LloydMechanism:
        chosen = preset(self.preset)
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
            **common,
            delta=chosen.delta(n_records) if self.delta is None else float(self.delta),
            n_iterations=self.n_iter,
            initialization=chosen.initialization
            if self.initialization is None
            else choose(RadiusSearch, self.initialization, "initialization"),
            min_count=chosen.min_count if self.min_count is None else fraction(self.min_count, "min_count"),
        )


class GLloyd(FastLloyd):
    """k-means with Gaussian noise on absolute sums and counts: (epsilon, delta)-DP, the paper's second baseline.

    Parameters, attributes and neighbouring relation as in `FastLloyd`.
    Departs from the paper: 13 bits of grid instead of 16 unless the preset is "paper". So its last noise, which is larger
    than that of `FastLloyd`, rounds to zero in scikit-learn's checks at an epsilon of 1e12.
    """

    _algorithm = GLLOYD

    def _fraction_bits(self) -> int:
        return super()._fraction_bits() if self.preset == "paper" else 13


class SuLloyd(FastLloyd):
    """k-means with Laplace noise on absolute sums and counts (Su et al. 2016): pure epsilon-DP; delta is not used.

    Parameters, attributes and neighbouring relation as in `FastLloyd`. On the integer grid the noise is two-sided geometric.
    """

    _algorithm = SULLOYD
    _noise = Noise.LAPLACE


class Lloyd(FastLloyd):
    """Lloyd's algorithm on the grid of `FastLloyd`, from the same initial centroids, without any noise: NOT PRIVATE.

    For comparison. Parameters as in `FastLloyd`; epsilon and delta are not used.
    """

    _algorithm = LLOYD
    _noise = Noise.NONE


class MomentLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy by moments first and tight offsets last (docs/momentlloyd.md).

    Usually closer to k-means without noise than `FastLloyd` at the same privacy.
    Its planner chooses all that can be chosen; there is nothing to tune. At most 1024 features.

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`). Unit of protection: one row.

    Parameters
    ----------
    n_clusters, epsilon, delta, bounds, n_records, scaling, neighboring_relation, estimate_loss, loss_share, fraction_bits :
        as for `FastLloyd`.
    random_state : seeds public randomness (where the clustering starts, given noisy answers), never the noise.
    n_expected : public guess of the number of records, at most n_records, used to plan the rounds and to steady the noisy
        count; None: n_records. The true number is counted with noise.

    Attributes
    ----------
    As of `FastLloyd`; n_iter_ : int, how many times the centroids moved.
    """

    _noise = Noise.GAUSSIAN
    mechanism_: MomentMechanism

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | Mapping[str, tuple[float, float]] | None = None,
        n_records: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_expected: int | None = None,
        scaling: str = "per-feature",
        neighboring_relation: str = "add_or_remove_one",
        estimate_loss: bool = False,
        loss_share: float | None = None,
        fraction_bits: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_records = n_records
        self.random_state = random_state
        self.n_expected = n_expected
        self.scaling = scaling
        self.neighboring_relation = neighboring_relation
        self.estimate_loss = estimate_loss
        self.loss_share = loss_share
        self.fraction_bits = fraction_bits

    def _design(self, domain: Domain, n_records: int, common: dict[str, Any]) -> MomentMechanism:  # noqa: ARG002 - in common too
        return design_moments(domain, **common, delta=None if self.delta is None else float(self.delta))
