"""Private k-means as scikit-learn estimators: the central model, one holder of all records.

    FastLloyd(n_clusters=3, epsilon=1.0, bounds=(lower, upper),
    n_records=1000).fit(X).cluster_centers_

What is private: `cluster_centers_`, `noisy_counts_` and everything computed from them. What is not:
`labels_`, `score` and all else that reads the records again without noise, see `base.py`.
"""

# signatures in short: help and ? show `Bounds`, not what it stands for
from __future__ import annotations

import enum
from typing import Any, ClassVar

from fastlloyd.estimators.base import Estimator, Limits, plain
from fastlloyd.estimators.validation import RandomState
from fastlloyd.mechanisms.lloyd.algorithm import (
    FASTLLOYD,
    GLLOYD,
    LLOYD,
    SULLOYD,
    VARIED,
    Algorithm,
)
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, MomentAlgorithm


class FastLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy: bounded radius, relative updates,
    Gaussian noise (the paper's).

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`).
    Unit of protection: one row or, with `groups` in `fit`, one person with all rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, known without looking at X.
    epsilon : float, default=1.0
        Above 0: the privacy budget of one `fit`, all iterations together. Every further `fit`
        spends it again.
    delta : float, default=None
        In (0, 1), well below one over the number of records. None: 1 / (100 n_records).
        With preset="paper": 1 / (N ln N).
    bounds : tuple (lower, upper) or dict {column name: (lower, upper)} or "private", default=None
        What each feature can be, in the units of X, known without looking at X. Values outside are
        clipped. lower and upper are numbers, array-likes (n_features,), or pandas Series labelled
        by column. A dict has a pair for every column of a data frame. None takes the bounds from X,
        which leaks its extreme values (PrivacyLeakWarning): the result is then not private.
        "private" finds them in value_range with a part of the budget
        (docs/how-to/when-bounds-are-unknown.md).
    n_records : int, default=None
        Public upper bound on the number of records. None takes their number, which leaks it
        (PrivacyLeakWarning): the result is then not private, but for
        neighboring_relation="replace_one".
    random_state : int or RandomState instance, default=None
        Seeds the initial centroids, never the noise. None: a fresh one for every `fit`.
    n_expected : int, default=None
        Public guess of the number of records, at most n_records, used only to plan the number of
        iterations and the share of the loss. None: n_records.
    preset : {"default", "paper"}, default="default"
        "paper" for the settings of the published experiments (weaker delta, no floor under counts,
        16 bits).
    scaling : {"per-feature", "common"}, default="per-feature"
        "per-feature": each feature fills [-1, 1] by its bounds. "common": Euclidean distances of
        the original units are kept.
    neighboring_relation : {"add_or_remove_one", "replace_one"}, default="add_or_remove_one"
        What the guarantee hides about one record: whether it is in the data, or its values.
    n_iter : int, default=None
        Number of iterations. None: by the error analysis, 2 to 7.
    initialization : {"bisection", "halving"}, default=None
        Search method of the sphere packing of initial centroids. None: as in the preset.
    min_count : float, default=None
        Centroids with a smaller noisy count stay. 0 is the paper's rule. None: as the preset says.
    estimate_loss : bool, default=False
        Also estimate the loss of the final centroids, privately, from a part of the budget. See
        `noisy_loss_`.
    loss_share : float, default=None
        That part of the budget, above 0 and below 1. None: chosen from n_expected, at most a fifth.
    radius : {"none", "constant", "step"}, default=None
        Which records count. This and the four below are the axes of the paper's ablation. None
        keeps the algorithm's own.
    alpha : float, default=None
        Size of the radius, above 0 and at most 4.
    postprocessing : {"none", "truncate", "fold"}, default=None
        What is done with centroids outside the bounds.
    clipping : bool, default=None
        True to limit the move of a centroid in one iteration to the radius.
    noise : {"gaussian", "laplace"}, default=None
        Distribution of the noise.
    fraction_bits : int, default=None
        q: records are rounded to multiples of 2**-q of the half width of the domain. With
        scaling="common" a feature whose width rounds to none is refused. None: 16, as in the paper,
        on the command line and in plans. `GLloyd` has 13 unless the preset is "paper".
    unit : {"record", "person"}, default=None
        What is protected and counted. "person": all rows of one id, so that `fit` needs `groups`.
        n_records is then a cap on persons. "record": one row. `fit` refuses groups. None: a person
        if `fit` is given groups. Pass "person" together with groups. If groups then do not reach
        `fit` (a grid search does not pass them on), the fit is refused. With None it would protect
        single rows.
    value_range : as bounds, default=None
        With bounds="private": a public range that surely holds all values, in which bounds are
        found. It may be far too wide.
    dataset : str, default=None
        Name of the data set under which your ledger counts every `fit`, clones and grid searches
        too, and keeps to its limits: docs/how-to/ledger.md. None: they are not counted.

    Attributes
    ----------
    cluster_centers_ : float64 ndarray (n_clusters, n_features)
        Centroids in original units, numbered by noisy count, the largest first. Private.
    cluster_centers_std_ : float64 ndarray (n_clusters, n_features)
        Standard error of each coordinate, of noise and of moves that were shrunk or are not over
        (`uncertainty.assess`), in original units. 0 without noise, NaN if a centroid stayed.
        Private.
    cluster_status_ : str ndarray (n_clusters,)
        "settled", "moving" where a centroid may still move, or its records may form several groups,
        "few" where they may be few or none, "stayed" where it stayed in the last iteration. If the
        status is settled, the interval of two standard errors to either side contains the centre in
        nine of ten cases. The centre is the mean of those records nearest to the centroid that are
        within distance R. In a skewed column the mean of all nearest records lies farther out.
        Values outside the bounds count as the bound. With radius="none", as in `GLloyd` and
        `SuLloyd`, the centre is the mean of all nearest records. Each person counts once, whatever
        the number of rows, if `fit` is given groups. docs/accuracy.md. Private.
    interval_radius_ : float64 ndarray (n_features,) or None
        R, in the units of each feature. None if every record counts. Public.
    means_beyond_ : None
        For `MomentLloyd`: the numbers of other algorithms cannot tell how much farther out the mean
        of a skewed column may lie.
    noisy_counts_ : float64 ndarray (n_clusters,)
        Number of records of each cluster in the last iteration, plus noise. Unbiased, so it may be
        negative. Private.
    noisy_counts_std_ : float
        Standard deviation of the noise in each of noisy_counts_, records. Public.
    noisy_loss_ : float, only with estimate_loss
        Sum of squared distances to the nearest centroid in the scaled domain, with noise.
        privacy_spent_["loss_estimate"] says at which distance records are cut off. Private.
    noisy_loss_std_ : float, only with estimate_loss
        Standard deviation of the noise in noisy_loss_. Public.
    clearest_split_ : None
        For `MomentLloyd`, which asks for votes.
    finer_split_ : None
        For `MomentLloyd`, which asks for votes.
    privacy_spent_ : dict
        The machine-readable privacy statement of this fit. Shown in one line, complete for
        programs. Computed when it is first asked for, or when the model is saved or copied.
        "private" is False where bounds or n_records were taken from X. It covers ONLY the last
        `fit` of this model: not earlier ones, nor the clones that a grid search or a
        cross-validation fits, although each spends epsilon too, nor the steps of a pipeline before
        it, which `check_private_pipeline` names. "data_set" is the name under which a ledger adds
        them up, or None.
    bounds_ : float64 ndarray (n_features, 2)
        Lower and upper bound of each feature that this fit used, in original units. Public where
        they were stated, private where they were found (bounds="private"), NOT PRIVATE where they
        were taken from X.
    mechanism_ : Mechanism
        Every public setting of this fit.
    n_iter_ : int
        Iterations run.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of str (n_features_in_,), only where X had column names
        Their names.
    labels_ : int32 ndarray (n_samples,), not after X of Dask
        Cluster of each record of X, from 0. NOT PRIVATE: computed from the records without noise,
        and left out when the model is pickled, copied or drawn. There is no `inertia_` for the same
        reason.

    See Also
    --------
    MomentLloyd : usually closer to k-means without noise at the same privacy.
    """

    _algorithm: ClassVar[Algorithm] = FASTLLOYD
    mechanism_: LloydMechanism

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: Limits = None,
        n_records: int | None = None,
        random_state: RandomState | None = None,
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
        unit: str | None = None,
        value_range: Limits = None,
        dataset: str | None = None,
    ) -> None:
        self.n_clusters, self.epsilon, self.delta, self.bounds, self.n_records = (
            n_clusters,
            epsilon,
            delta,
            bounds,
            n_records,
        )
        self.random_state, self.n_expected, self.preset, self.scaling = (
            random_state,
            n_expected,
            preset,
            scaling,
        )
        self.neighboring_relation, self.n_iter, self.initialization = (
            neighboring_relation,
            n_iter,
            initialization,
        )
        self.min_count, self.estimate_loss, self.loss_share = min_count, estimate_loss, loss_share
        self.radius, self.alpha, self.postprocessing, self.clipping, self.noise = (
            radius,
            alpha,
            postprocessing,
            clipping,
            noise,
        )
        self.fraction_bits, self.unit, self.value_range, self.dataset = (
            fraction_bits,
            unit,
            value_range,
            dataset,
        )

    def _own_choices(self) -> dict[str, Any]:
        return {
            "varied": {name: getattr(self, name) for name in VARIED},
            "preset": self.preset,
            "n_iterations": self.n_iter,
            "initialization": self.initialization,
            "min_count": self.min_count,
        }

    @classmethod
    def _parameters(cls, m: LloydMechanism, *, has_names: bool) -> dict[str, Any]:
        lloyds = {
            "n_iter": m.n_iterations,
            "initialization": m.initialization.value,
            "min_count": plain(m.min_count),
        }
        ablation: dict[str, Any] = dict.fromkeys(VARIED)
        for name in VARIED:
            if (value := getattr(m.algorithm, name)) != getattr(cls._algorithm, name):
                ablation[name] = (
                    value.value
                    if isinstance(value, enum.Enum)
                    else plain(value)
                    if name == "alpha"
                    else value
                )
        return super()._parameters(m, has_names=has_names) | lloyds | ablation


class GLloyd(FastLloyd):
    """k-means with Gaussian noise on absolute sums and counts: (epsilon, delta)-DP, the paper's
    second baseline.

    Parameters, attributes and neighbouring relation as in `FastLloyd`. Departs from the paper: 13
    bits of grid instead of 16 unless the preset is "paper". So its last noise, which is larger than
    that of `FastLloyd`, rounds to zero in scikit-learn's checks at an epsilon of 1e12.
    """

    _algorithm = GLLOYD

    def _fraction_bits(self) -> int:
        return super()._fraction_bits() if self.preset == "paper" else 13


class SuLloyd(FastLloyd):
    """k-means with Laplace noise on absolute sums and counts (Su et al. 2016): pure epsilon-DP;
    delta is not used.

    Parameters, attributes and neighbouring relation as in `FastLloyd`. On the integer grid the
    noise is two-sided geometric.
    """

    _algorithm = SULLOYD


class Lloyd(FastLloyd):
    """Lloyd's algorithm on the grid of `FastLloyd`, from the same initial centroids, without any
    noise: NOT PRIVATE.

    For comparison. Parameters as in `FastLloyd`; epsilon and delta are not used.
    """

    _algorithm = LLOYD


class MomentLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy (docs/momentlloyd.md).

    First rounds ask for moments of the records, last rounds for clipped offsets from centroids.
    Usually closer to k-means without noise than `FastLloyd` at the same privacy. Its planner
    chooses all that can be chosen. There is nothing to tune. At most 1024 features.

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`).
    Unit of protection: one row or, with `groups` in `fit`, one person with all rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, known without looking at X.
    epsilon : float, default=1.0
        Above 0: the privacy budget of one `fit`, all iterations together. Every further `fit`
        spends it again.
    delta : float, default=None
        In (0, 1), well below one over the number of records. None: 1 / (100 n_records).
    bounds : tuple (lower, upper) or dict {column name: (lower, upper)} or "private", default=None
        What each feature can be, in the units of X, known without looking at X. Values outside are
        clipped. lower and upper are numbers, array-likes (n_features,), or pandas Series labelled
        by column. A dict has a pair for every column of a data frame. None takes the bounds from X,
        which leaks its extreme values (PrivacyLeakWarning): the result is then not private.
        "private" finds them in value_range with a part of the budget
        (docs/how-to/when-bounds-are-unknown.md).
    n_records : int, default=None
        Public upper bound on the number of records. None takes their number, which leaks it
        (PrivacyLeakWarning): the result is then not private, but for
        neighboring_relation="replace_one".
    random_state : int or RandomState instance, default=None
        Seeds public randomness (where the clustering starts, given noisy answers), never the noise.
        None: a fresh one for every `fit`.
    n_expected : int, default=None
        Public guess of the number of records, at most n_records, used to plan the rounds. The true
        number is counted with noise. None: n_records.
    scaling : {"per-feature", "common"}, default="per-feature"
        "per-feature": each feature fills [-1, 1] by its bounds. "common": Euclidean distances of
        the original units are kept.
    neighboring_relation : {"add_or_remove_one", "replace_one"}, default="add_or_remove_one"
        What the guarantee hides about one record: whether it is in the data, or its values.
    estimate_loss : bool, default=False
        Also estimate the loss of the final centroids, privately, from a part of the budget. See
        `noisy_loss_`.
    loss_share : float, default=None
        That part of the budget, above 0 and below 1. None: chosen from n_expected, at most a fifth.
    fraction_bits : int, default=None
        q: records are rounded to multiples of 2**-q of the half width of the domain. With
        scaling="common" a feature whose width rounds to none is refused. None: 16.
    unit : {"record", "person"}, default=None
        What is protected and counted. "person": all rows of one id, so that `fit` needs `groups`.
        n_records is then a cap on persons. "record": one row. `fit` refuses groups. None: a person
        if `fit` is given groups. Pass "person" together with groups. If groups then do not reach
        `fit` (a grid search does not pass them on), the fit is refused. With None it would protect
        single rows.
    value_range : as bounds, default=None
        With bounds="private": a public range that surely holds all values, in which bounds are
        found. It may be far too wide.
    dataset : str, default=None
        Name of the data set under which your ledger counts every `fit`, clones and grid searches
        too, and keeps to its limits: docs/how-to/ledger.md. None: they are not counted.

    Attributes
    ----------
    cluster_centers_ : float64 ndarray (n_clusters, n_features)
        Centroids in original units, numbered by noisy count, the largest first. Private.
    cluster_centers_std_ : float64 ndarray (n_clusters, n_features)
        Standard error of each coordinate, of noise and of moves that were shrunk or are not over
        (`uncertainty.assess`), in original units. 0 without noise, NaN if a centroid stayed.
        Private.
    cluster_status_ : str ndarray (n_clusters,)
        "settled", "moving" where a centroid may still move, or its records may form several groups,
        "few" where they may be few or none, "stayed" where it stayed in the last iteration. If the
        status is settled, the interval of two standard errors to either side contains the centre in
        nine of ten cases. The centre is the mean of the records nearest to the centroid; records
        farther than R count as if at distance R. In a skewed column their mean without this limit
        lies farther out. Values outside the bounds count as the bound. Each person counts once,
        whatever the number of rows, if `fit` is given groups. docs/accuracy.md. Private.
    interval_radius_ : float64 ndarray (n_features,)
        R, in the units of each feature. It follows from noisy answers. Private.
    means_beyond_ : float64 ndarray (n_clusters, n_features) or None
        How far the mean may lie above (if positive) or below (if negative) the interval of two
        standard errors. NaN where nothing is said: for clusters that are not settled, and for
        features whose bounds show no sign of skew. None with more than three features, where the
        released numbers cannot tell. Private.
    noisy_counts_ : float64 ndarray (n_clusters,)
        Number of records of each cluster in the last iteration, plus noise. Unbiased, so it may be
        negative. Private.
    noisy_counts_std_ : float
        Standard deviation of the noise in each of noisy_counts_, records. Public.
    noisy_loss_ : float, only with estimate_loss
        Sum of squared distances to the nearest centroid in the scaled domain, with noise.
        privacy_spent_["loss_estimate"] says at which distance records are cut off. Private.
    noisy_loss_std_ : float, only with estimate_loss
        Standard deviation of the noise in noisy_loss_. Public.
    clearest_split_ : int or None
        Number of groups, 2 to n_clusters, in the clearest split of the noisy votes of this fit
        (docs/how-to/choosing-parameters.md). Finer groups may exist inside them. None if no split
        is clearer than that of one Gaussian, or the votes cannot tell. Private.
    finer_split_ : int or None
        Number of groups if those of the clearest split are split in turn, at most n_clusters. None
        if none of them shows groups, or clearest_split_ is None. Private.
    privacy_spent_ : dict
        The machine-readable privacy statement of this fit. Shown in one line, complete for
        programs. Computed when it is first asked for, or when the model is saved or copied.
        "private" is False where bounds or n_records were taken from X. It covers ONLY the last
        `fit` of this model: not earlier ones, nor the clones that a grid search or a
        cross-validation fits, although each spends epsilon too, nor the steps of a pipeline before
        it, which `check_private_pipeline` names. "data_set" is the name under which a ledger adds
        them up, or None.
    bounds_ : float64 ndarray (n_features, 2)
        Lower and upper bound of each feature that this fit used, in original units. Public where
        they were stated, private where they were found (bounds="private"), NOT PRIVATE where they
        were taken from X.
    mechanism_ : Mechanism
        Every public setting of this fit.
    n_iter_ : int
        How many times the centroids moved. The statement counts all rounds. Some of these ask for
        other things first.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of str (n_features_in_,), only where X had column names
        Their names.
    labels_ : int32 ndarray (n_samples,), not after X of Dask
        Cluster of each record of X, from 0. NOT PRIVATE: computed from the records without noise,
        and left out when the model is pickled, copied or drawn. There is no `inertia_` for the same
        reason.

    See Also
    --------
    FastLloyd : the paper's algorithm, with every axis of its ablation.

    Examples
    --------
    >>> bounds = ([4, 1, 0, 0], [9, 5, 8, 3])
    >>> model = MomentLloyd(3, epsilon=1.0, bounds=bounds, n_records=200)
    >>> model.fit(X)  # doctest: +SKIP
    >>> model.cluster_centers_, model.plot()  # doctest: +SKIP
    """

    _algorithm: ClassVar[MomentAlgorithm] = MOMENTLLOYD
    mechanism_: MomentMechanism

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        bounds: Limits = None,
        n_records: int | None = None,
        random_state: RandomState | None = None,
        n_expected: int | None = None,
        scaling: str = "per-feature",
        neighboring_relation: str = "add_or_remove_one",
        estimate_loss: bool = False,
        loss_share: float | None = None,
        fraction_bits: int | None = None,
        unit: str | None = None,
        value_range: Limits = None,
        dataset: str | None = None,
    ) -> None:
        self.n_clusters, self.epsilon, self.delta, self.bounds, self.n_records = (
            n_clusters,
            epsilon,
            delta,
            bounds,
            n_records,
        )
        self.random_state, self.n_expected, self.scaling = random_state, n_expected, scaling
        self.neighboring_relation, self.estimate_loss, self.loss_share = (
            neighboring_relation,
            estimate_loss,
            loss_share,
        )
        self.fraction_bits, self.unit, self.value_range, self.dataset = (
            fraction_bits,
            unit,
            value_range,
            dataset,
        )
