"""Estimators of private k-means in the style of scikit-learn, for one organisation that has all
records.

    FastLloyd(n_clusters=3, epsilon=1.0, bounds=(lower, upper),
    n_records=1000).fit(X).cluster_centers_

The guarantee covers `cluster_centers_`, `noisy_counts_` and everything computed from them. It does
not cover `labels_`, `score` and other outputs that read the records again without noise
(`base.py`).
"""

# signatures in short: help and ? show `Bounds`, not what it stands for
from __future__ import annotations

import enum
from typing import Any, ClassVar

from fastlloyd.estimators.base import Estimator, Limits, plain
from fastlloyd.estimators.validation import Seed
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
from fastlloyd.records.recipe import Recipe


class FastLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy: bounded radius, relative updates,
    Gaussian noise (the paper's).

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`).
    Unit of protection: one row or, with `groups` in `fit`, all rows of one person together.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. Choose it without looking at X.
    epsilon : float, default=1.0
        Privacy budget of one `fit`, above 0. It covers all iterations together. Every further `fit`
        spends it again.
    delta : float, default=None
        In (0, 1), well below one over the number of records. None takes 1 / (100 N), and with
        preset="paper" 1 / (N ln N). Here N is n_records.
    bounds : tuple (lower, upper) or dict {column name: (lower, upper)} or "private", default=None
        Range of possible values of each feature, in the units of X. Choose it without looking at X.
        Values outside are clipped. lower and upper are numbers, array-likes (n_features,), or
        pandas Series labelled by column. A dict has a pair for every column of a data frame. None
        takes the bounds from X. This reveals extreme values of X (PrivacyLeakWarning), and the
        guarantee then does not hold. "private" finds bounds inside value_range, for a part of the
        budget (docs/how-to/when-bounds-are-unknown.md).
    n_records : int, default=None
        Public upper bound on the number of records. None takes the exact number of records. This
        reveals the number (PrivacyLeakWarning), and the guarantee then does not hold. There is one
        exception: with neighboring_relation="replace_one" the guarantee does not hide the number,
        so it still holds. The exception requires that single rows are protected, that no row is
        dropped, and that no ledger counts the fit.
    random_state : int or RandomState instance, default=None
        Seed of the initial centroids. The noise never depends on it. None draws a new seed for
        every `fit`.
    n_expected : int, default=None
        Public guess of the number of records, at most n_records. It only plans the number of
        iterations and the share of the budget for the loss. None takes n_records.
    preset : {"default", "paper"}, default="default"
        "paper" takes the settings of the published experiments: a weaker delta, no lower limit on
        counts, and 16 fraction bits.
    scaling : {"per-feature", "common"}, default="per-feature"
        "per-feature" scales each feature so that its bounds become -1 and 1. "common" scales all
        features by the same factor, so distances keep their proportions.
    neighboring_relation : {"add_or_remove_one", "replace_one"}, default="add_or_remove_one"
        Secret that the guarantee hides about one record. "add_or_remove_one" hides whether the
        record is in the data, "replace_one" hides its values.
    n_iter : int, default=None
        Number of iterations. None lets the paper's error analysis choose a number from 2 to 7.
    initialization : {"bisection", "halving"}, default=None
        Search method for the radius of the sphere packing that places the initial centroids. None
        takes the method of the preset.
    min_count : float, default=None
        A centroid with a noisy count below this number keeps its place. The paper uses 0. None
        takes the value of the preset.
    estimate_loss : bool, default=False
        Whether to estimate the loss of the final centroids, with noise, from a part of the budget.
        The result is `noisy_loss_`.
    loss_share : float, default=None
        Part of the budget for the loss, above 0 and below 1. None chooses it from n_expected, at
        most a fifth.
    radius : {"none", "constant", "step"}, default=None
        Rule for the radius within which records count. radius, alpha, postprocessing, clipping and
        noise are the settings that the paper's ablation varies. None takes the setting of the
        algorithm.
    alpha : float, default=None
        Size of the radius, above 0 and at most 4.
    postprocessing : {"none", "truncate", "fold"}, default=None
        Treatment of centroids that noise moved outside the bounds.
    clipping : bool, default=None
        Whether a centroid moves by at most the radius in one iteration.
    noise : {"gaussian", "laplace"}, default=None
        Distribution of the noise.
    fraction_bits : int, default=None
        Number of fraction bits q. Records are rounded to multiples of 2**-q of the half width of
        the domain. With scaling="common", a feature that is too narrow for this grid is refused.
        None takes 16. `GLloyd` takes 13, unless the preset is "paper".
    unit : {"record", "person"}, default=None
        Unit that is protected and counted. "person" protects all rows of one id together, so `fit`
        needs `groups`, and n_records limits the number of persons. "record" protects one row, and
        `fit` then refuses `groups`. None protects persons if `fit` is given `groups`, and single
        rows otherwise. Pass "person" whenever you pass `groups`. Some grid searches do not forward
        the groups to `fit`. The fit is then refused, instead of protecting single rows only.
    value_range : as bounds, default=None
        Public range for bounds="private", in the form of bounds. It must contain all values, and
        may be much too wide. The bounds are found inside it.
    dataset : str, default=None
        Name of the data set in your ledger. The ledger counts every `fit` under this name, also
        those of clones and grid searches. It refuses a `fit` that exceeds the limits of the data
        set (docs/how-to/ledger.md). None does not count the fit.
    recipe : Recipe, default=None
        Recipe from the columns of a raw table to features, instead of bounds
        (`fastlloyd.Recipe.load`). `fit`, `predict`, `transform` and `score` then take the raw table
        with the columns that the recipe names. Parameters left at their default take the values of
        the recipe, and the class decides the algorithm. With unit "person", or per_person, the
        column unit_column of the recipe has the ids, unless `fit` is given `groups`. A row that the
        recipe drops because of a missing value has the label -1. A pickle contains the whole
        recipe, also its local part.

    Attributes
    ----------
    cluster_centers_ : float64 ndarray (n_clusters, n_features)
        Centroids in original units, numbered by noisy count, the largest first. They contain noise.
        With a recipe, a feature that is clustered as a logarithm has its typical value (the
        geometric mean), and a date is a number of days since 1 January 1970.
    cluster_centers_std_ : float64 ndarray (n_clusters, n_features)
        Standard error of each coordinate of the centroids, in original units. It covers the noise,
        and the distance that a centroid did not yet move because its steps were shortened or were
        too few (`uncertainty.assess`). 0 without noise, NaN if a centroid stayed. Computed from
        noisy answers. For a feature that is clustered as a logarithm, it is the error of the
        logarithm. interval_radius_ and means_beyond_ are then in logarithms, too.
    cluster_status_ : str ndarray (n_clusters,)
        Reliability of each centroid. "settled": its interval can be relied on. "moving": the
        centroid may still move, or its records may form several groups. "few": the cluster may have
        few records or none. "stayed": the centroid stayed in the last iteration. If the status is
        settled, the interval of two standard errors to either side contains the centre in nine of
        ten cases. The centre is the mean of those records nearest to the centroid that are within
        distance R. In a skewed column the mean of all nearest records lies farther out. With
        radius="none", as in `GLloyd` and `SuLloyd`, the centre is the mean of all nearest records.
        Values outside the bounds count as the bound. If `fit` is given groups, each person counts
        once, whatever the number of rows (docs/accuracy.md). Computed from noisy answers.
    interval_radius_ : float64 ndarray (n_features,) or None
        Distance R in the units of each feature, or None if every record counts. It is a public
        setting.
    means_beyond_ : None
        Always None. Only `MomentLloyd` can estimate how much farther out the mean of a skewed
        column may lie.
    noisy_counts_ : float64 ndarray (n_clusters,)
        Number of records of each cluster in the last iteration, plus noise. The values are
        unbiased, so they may be negative.
    noisy_counts_std_ : float
        Standard deviation of the noise in each entry of noisy_counts_, in records. It is public.
    noisy_loss_ : float, only with estimate_loss
        Sum of squared distances to the nearest centroid in the scaled domain, plus noise. Records
        farther than a limit count as if at the limit, which privacy_spent_["loss_estimate"] states.
    noisy_loss_std_ : float, only with estimate_loss
        Standard deviation of the noise in noisy_loss_. It is public.
    clearest_split_ : None
        Always None. Only `MomentLloyd` can find this split.
    finer_split_ : None
        Always None. Only `MomentLloyd` can find this split.
    privacy_spent_ : dict
        Privacy statement of this fit, for programs. Its repr shows one line of it. It is computed
        when it is first read, or when the model is saved or copied. The entry "private" is False if
        bounds or n_records were taken from X. The statement covers ONLY the last `fit` of this
        model. It does not cover earlier fits, nor the clones that a grid search or a
        cross-validation fits, although each spends epsilon too. It does not cover earlier
        steps of a pipeline, which `check_private_pipeline` lists. The entry "data_set" is the name
        of the data set in the ledger, or None.
    bounds_ : float64 ndarray (n_features, 2)
        Lower and upper bound of each feature in this fit, in original units. Stated bounds are
        public. Bounds found by bounds="private" contain noise. Bounds taken from X are NOT PRIVATE.
    mechanism_ : Mechanism
        All public settings of this fit.
    n_iter_ : int
        Number of iterations of this fit.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of str (n_features_in_,), only where X had column names
        Names of the columns of X.
    labels_ : int32 ndarray (n_samples,), not after X of Dask
        Cluster of each record of X, from 0. NOT PRIVATE: labels are computed from the records
        without noise. They are left out when the model is pickled, copied or drawn. For the same
        reason there is no `inertia_`.

    See Also
    --------
    MomentLloyd : usually closer to k-means without noise at the same privacy.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import FastLloyd
    >>> model = FastLloyd(2, epsilon=1.0, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.cluster_centers_.shape
    (2, 2)
    >>> model.privacy_spent_["private"]
    True
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
        random_state: Seed = None,
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
        recipe: Recipe | None = None,
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
        self.fraction_bits, self.unit, self.value_range, self.dataset, self.recipe = (
            fraction_bits,
            unit,
            value_range,
            dataset,
            recipe,
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

    Parameters, attributes and neighbouring relation are those of `FastLloyd`. One default departs
    from the paper: the grid has 13 fraction bits instead of 16, unless the preset is "paper".
    scikit-learn's checks run at an epsilon of 1e12, where the noise must round to zero. The noise
    of the last round is larger than in `FastLloyd`, and rounds to zero only on the coarser grid.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import GLloyd
    >>> model = GLloyd(2, epsilon=1.0, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.cluster_centers_.shape
    (2, 2)
    """

    _algorithm = GLLOYD

    def _fraction_bits(self) -> int:
        return super()._fraction_bits() if self.preset == "paper" else 13


class SuLloyd(FastLloyd):
    """k-means with Laplace noise on absolute sums and counts (Su et al. 2016): pure epsilon-DP,
    without delta.

    Parameters, attributes and neighbouring relation are those of `FastLloyd`, but delta is ignored.
    On the integer grid, the noise is two-sided geometric.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import SuLloyd
    >>> model = SuLloyd(2, epsilon=1.0, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.privacy_spent_["delta"]
    0.0
    """

    _algorithm = SULLOYD


class Lloyd(FastLloyd):
    """Lloyd's algorithm without noise, for comparison: NOT PRIVATE.

    It uses the grid and the initial centroids of `FastLloyd`. Parameters are those of `FastLloyd`,
    but epsilon and delta are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import Lloyd
    >>> model = Lloyd(2, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.privacy_spent_["private"]
    False
    """

    _algorithm = LLOYD


class MomentLloyd(Estimator):
    """k-means with (epsilon, delta)-differential privacy (docs/momentlloyd.md).

    The first rounds ask for moments of the records, the last rounds for clipped offsets from
    centroids. The result is usually closer to k-means without noise than that of `FastLloyd` at the
    same privacy. The planner chooses all settings of the algorithm, so there is nothing to tune. It
    takes at most 1024 features.

    Neighbouring relation: one record added or removed (or replaced, by `neighboring_relation`).
    Unit of protection: one row or, with `groups` in `fit`, all rows of one person together.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. Choose it without looking at X.
    epsilon : float, default=1.0
        Privacy budget of one `fit`, above 0. It covers all iterations together. Every further `fit`
        spends it again.
    delta : float, default=None
        In (0, 1), well below one over the number of records. None: 1 / (100 n_records).
    bounds : tuple (lower, upper) or dict {column name: (lower, upper)} or "private", default=None
        Range of possible values of each feature, in the units of X. Choose it without looking at X.
        Values outside are clipped. lower and upper are numbers, array-likes (n_features,), or
        pandas Series labelled by column. A dict has a pair for every column of a data frame. None
        takes the bounds from X. This reveals extreme values of X (PrivacyLeakWarning), and the
        guarantee then does not hold. "private" finds bounds inside value_range, for a part of the
        budget (docs/how-to/when-bounds-are-unknown.md).
    n_records : int, default=None
        Public upper bound on the number of records. None takes the exact number of records. This
        reveals the number (PrivacyLeakWarning), and the guarantee then does not hold. There is one
        exception: with neighboring_relation="replace_one" the guarantee does not hide the number,
        so it still holds. The exception requires that single rows are protected, that no row is
        dropped, and that no ledger counts the fit.
    random_state : int or RandomState instance, default=None
        Seed of all public random choices, such as the start of the clustering. The noise never
        depends on it. None draws a new seed for every `fit`.
    n_expected : int, default=None
        Public guess of the number of records, at most n_records. The rounds are planned for it. The
        fit itself counts the records, with noise. None takes n_records.
    scaling : {"per-feature", "common"}, default="per-feature"
        "per-feature" scales each feature so that its bounds become -1 and 1. "common" scales all
        features by the same factor, so distances keep their proportions.
    neighboring_relation : {"add_or_remove_one", "replace_one"}, default="add_or_remove_one"
        Secret that the guarantee hides about one record. "add_or_remove_one" hides whether the
        record is in the data, "replace_one" hides its values.
    estimate_loss : bool, default=False
        Whether to estimate the loss of the final centroids, with noise, from a part of the budget.
        The result is `noisy_loss_`.
    loss_share : float, default=None
        Part of the budget for the loss, above 0 and below 1. None chooses it from n_expected, at
        most a fifth.
    fraction_bits : int, default=None
        Number of fraction bits q. Records are rounded to multiples of 2**-q of the half width of
        the domain. With scaling="common", a feature that is too narrow for this grid is refused.
        None takes 16.
    unit : {"record", "person"}, default=None
        Unit that is protected and counted. "person" protects all rows of one id together, so `fit`
        needs `groups`, and n_records limits the number of persons. "record" protects one row, and
        `fit` then refuses `groups`. None protects persons if `fit` is given `groups`, and single
        rows otherwise. Pass "person" whenever you pass `groups`. Some grid searches do not forward
        the groups to `fit`. The fit is then refused, instead of protecting single rows only.
    value_range : as bounds, default=None
        Public range for bounds="private", in the form of bounds. It must contain all values, and
        may be much too wide. The bounds are found inside it.
    dataset : str, default=None
        Name of the data set in your ledger. The ledger counts every `fit` under this name, also
        those of clones and grid searches. It refuses a `fit` that exceeds the limits of the data
        set (docs/how-to/ledger.md). None does not count the fit.
    recipe : Recipe, default=None
        Recipe from the columns of a raw table to features, instead of bounds
        (`fastlloyd.Recipe.load`). `fit`, `predict`, `transform` and `score` then take the raw table
        with the columns that the recipe names. Parameters left at their default take the values of
        the recipe, and the class decides the algorithm. With unit "person", or per_person, the
        column unit_column of the recipe has the ids, unless `fit` is given `groups`. A row that the
        recipe drops because of a missing value has the label -1. A pickle contains the whole
        recipe, also its local part.

    Attributes
    ----------
    cluster_centers_ : float64 ndarray (n_clusters, n_features)
        Centroids in original units, numbered by noisy count, the largest first. They contain noise.
        With a recipe, a feature that is clustered as a logarithm has its typical value (the
        geometric mean), and a date is a number of days since 1 January 1970.
    cluster_centers_std_ : float64 ndarray (n_clusters, n_features)
        Standard error of each coordinate of the centroids, in original units. It covers the noise,
        and the distance that a centroid did not yet move because its steps were shortened or were
        too few (`uncertainty.assess`). 0 without noise, NaN if a centroid stayed. Computed from
        noisy answers. For a feature that is clustered as a logarithm, it is the error of the
        logarithm. interval_radius_ and means_beyond_ are then in logarithms, too.
    cluster_status_ : str ndarray (n_clusters,)
        Reliability of each centroid. "settled": its interval can be relied on. "moving": the
        centroid may still move, or its records may form several groups. "few": the cluster may have
        few records or none. "stayed": the centroid stayed in the last iteration. If the status is
        settled, the interval of two standard errors to either side contains the centre in nine of
        ten cases. The centre is the mean of the records nearest to the centroid; records farther
        than R count as if at distance R. In a skewed column their mean without this limit lies
        farther out. Values outside the bounds count as the bound. If `fit` is given groups, each
        person counts once, whatever the number of rows (docs/accuracy.md). Computed from noisy
        answers.
    interval_radius_ : float64 ndarray (n_features,)
        Distance R in the units of each feature. It follows from noisy answers.
    means_beyond_ : float64 ndarray (n_clusters, n_features) or None
        Largest distance by which the mean of a cluster's records may be outside the interval of two
        standard errors: above it if positive, below it if negative. NaN for clusters that are not
        settled, and for features whose bounds show no sign of skew. None with more than three
        features, because the noisy answers then do not show it. Computed from noisy answers.
    noisy_counts_ : float64 ndarray (n_clusters,)
        Number of records of each cluster in the last iteration, plus noise. The values are
        unbiased, so they may be negative.
    noisy_counts_std_ : float
        Standard deviation of the noise in each entry of noisy_counts_, in records. It is public.
    noisy_loss_ : float, only with estimate_loss
        Sum of squared distances to the nearest centroid in the scaled domain, plus noise. Records
        farther than a limit count as if at the limit, which privacy_spent_["loss_estimate"] states.
    noisy_loss_std_ : float, only with estimate_loss
        Standard deviation of the noise in noisy_loss_. It is public.
    clearest_split_ : int or None
        Number of groups into which the data split most clearly, from 2 to n_clusters, estimated
        from noisy answers (docs/how-to/choosing-parameters.md). Finer groups may exist inside these
        groups. None if no split is clearer than that of one Gaussian distribution, or if the noise
        hides it. Computed from noisy answers.
    finer_split_ : int or None
        Number of groups, at most n_clusters, if each group of the clearest split is split again.
        None if no group splits further, or if clearest_split_ is None. Computed from noisy answers.
    privacy_spent_ : dict
        Privacy statement of this fit, for programs. Its repr shows one line of it. It is computed
        when it is first read, or when the model is saved or copied. The entry "private" is False if
        bounds or n_records were taken from X. The statement covers ONLY the last `fit` of this
        model. It does not cover earlier fits, nor the clones that a grid search or a
        cross-validation fits, although each spends epsilon too. It does not cover earlier
        steps of a pipeline, which `check_private_pipeline` lists. The entry "data_set" is the name
        of the data set in the ledger, or None.
    bounds_ : float64 ndarray (n_features, 2)
        Lower and upper bound of each feature in this fit, in original units. Stated bounds are
        public. Bounds found by bounds="private" contain noise. Bounds taken from X are NOT PRIVATE.
    mechanism_ : Mechanism
        All public settings of this fit.
    n_iter_ : int
        Number of rounds that moved the centroids. Earlier rounds ask for other statistics, and the
        privacy statement counts all rounds.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of str (n_features_in_,), only where X had column names
        Names of the columns of X.
    labels_ : int32 ndarray (n_samples,), not after X of Dask
        Cluster of each record of X, from 0. NOT PRIVATE: labels are computed from the records
        without noise. They are left out when the model is pickled, copied or drawn. For the same
        reason there is no `inertia_`.

    See Also
    --------
    FastLloyd : the paper's algorithm, with every axis of its ablation.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import MomentLloyd
    >>> model = MomentLloyd(2, epsilon=1.0, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.cluster_centers_.shape, model.noisy_counts_.shape
    ((2, 2), (2,))
    >>> model.privacy_spent_["epsilon"]
    1.0
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
        random_state: Seed = None,
        n_expected: int | None = None,
        scaling: str = "per-feature",
        neighboring_relation: str = "add_or_remove_one",
        estimate_loss: bool = False,
        loss_share: float | None = None,
        fraction_bits: int | None = None,
        unit: str | None = None,
        value_range: Limits = None,
        dataset: str | None = None,
        recipe: Recipe | None = None,
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
        self.fraction_bits, self.unit, self.value_range, self.dataset, self.recipe = (
            fraction_bits,
            unit,
            value_range,
            dataset,
            recipe,
        )
