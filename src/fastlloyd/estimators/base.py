"""Base class of the estimators: one fit of the central model, by the conventions of scikit-learn.

The guarantee covers `cluster_centers_`, `noisy_counts_` and everything computed from them. It does
not cover `labels_`, `score` and other outputs that read the records again without noise. `labels_`
is the only exact attribute of a fitted estimator. It is returned only if its name is used. Pickles,
copies and the tables of attributes in notebooks leave it out.
"""

# signatures in short: help and ? show what is written here, not what it stands for
from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from fastlloyd.base import extras
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.names import NAME, listing
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import (
    ClippedRecordsWarning,
    DataError,
    NoisyResultWarning,
    PrivacyLeakWarning,
    Problems,
    UncountedFitWarning,
    WeakGuaranteeWarning,
)
from fastlloyd.jobs.collection_source import CollectionSource
from fastlloyd.jobs.fit import FitRequest, PreparedFit
from fastlloyd.jobs.source import TableSource
from fastlloyd.mechanisms import uncertainty
from fastlloyd.mechanisms.engines.collections import is_collection
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.mechanisms.suggestion import Split
from fastlloyd.mechanisms.uncertainty import Status, Verdict, noise_deviation
from fastlloyd.records.bounds import Bounds
from fastlloyd.records.columns import numbered
from fastlloyd.records.recipe import Recipe
from fastlloyd.reports import figures, pictures
from fastlloyd.reports.facts import said, sentence
from fastlloyd.reports.names import Names
from fastlloyd.reports.outside import COVERS_ESTIMATOR
from fastlloyd.reports.picture import Picture
from fastlloyd.reports.plan_facts import cautions
from fastlloyd.reports.stored_result import StoredResult, files_of
from fastlloyd.reports.stored_statement import SealedSettings, stored_statement

try:
    from sklearn.base import ClassNamePrefixFeaturesOutMixin
    from sklearn.utils import Tags
    from sklearn.utils.validation import check_is_fitted

    from fastlloyd.estimators.charging import (
        BELONGS_TO,
        NOT_KNOWN,
        UNCOUNTED,
        account_of,
        heard,
        is_to_be_said,
    )
    from fastlloyd.estimators.choosing import Choosing
    from fastlloyd.estimators.predicting import NO_RECORD, Predicting
    from fastlloyd.estimators.recipes import (
        RawTable,
        groups_of,
        in_columns,
        in_memory,
        note_columns,
        outside_of,
        using_of,
    )
    from fastlloyd.estimators.showing import Showing
    from fastlloyd.estimators.state import EstimatorState, Spent, hidden
    from fastlloyd.estimators.validation import (
        check_numbers,
        refuse_collection,
        validate_records,
    )
except Exception as error:  # noqa: BLE001 - a package may fail in any way
    raise ImportError(
        f"the estimators need scikit-learn 1.6 or later, which {extras.why_not(error, 'sklearn')}"
    ) from None


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Limits = Bounds | str | None
_CLIPPED = (
    "2 % or more of the values of {features} lie outside the bounds and count as the bound:"
    " centroids and intervals are for the clipped values. Are the bounds in the units of X? This is"
    " an exact fact about the records: keep it to yourself."
)
# not set by every fit
_OF_ONE_FIT = "labels_", "_split", "noisy_loss_", "noisy_loss_std_", "privacy_spent_"


class Estimator(EstimatorState, Showing, Choosing, ClassNamePrefixFeaturesOutMixin, Predicting):
    """Base class of all estimators of private k-means. A subclass states its algorithm and adds
    parameters.
    """

    _algorithm: ClassVar[AnyAlgorithm]
    # this and the next two, of models that were pickled before there was a choice
    unit: str | None = None
    value_range: Limits = None
    dataset: str | None = None

    @classmethod
    def from_result(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the fitted estimator of a result that `fit`, `simulate` or `join` wrote. This
        spends nothing.

        The estimator can predict, transform and plot. It has all attributes of a fitted estimator
        except `labels_`, because a result has no labels. Its parameters are those of a central fit
        with the same settings. Features have the names of the file, or x1, x2, ... if the file has
        none.

        folder : folder with centroids.json, the settings and privacy.json.

        Raises PlanError if the settings were changed. Raises DataError if the folder is not a
        complete result, or is the result of another algorithm.
        """
        path = Path(folder)
        files = files_of(path)
        stored = StoredResult.of(files)
        m = stored.mechanism
        if m.name != cls._algorithm.name:
            raise DataError(
                f"{path} is a result of {m.name}, not of {cls._algorithm.name}; load it with the"
                f" estimator for {m.name}"
            )
        sealed = SealedSettings.of(files, m, stored.plan)
        statement = stored_statement(files, sealed)
        using = using_of(None, m.domain)
        names = m.domain.features if using is None else using.names
        has_names = list(names) != numbered(m.n_features)
        model = cls(**cls._parameters(m, has_names=has_names))
        model.mechanism_ = m
        model._plan, model._first = sealed.plan, sealed.first
        model.privacy_spent_ = statement
        model._centroids, model._split = stored.centroids, stored.split or Split()
        model.cluster_centers_ = in_columns(m.domain, m.domain.from_grid(stored.centroids))
        model.cluster_centers_std_ = stored.standard_errors
        model.cluster_status_ = stored.status
        model.interval_radius_, model.means_beyond_ = stored.radius, stored.beyond
        model.noisy_counts_ = stored.noisy_counts
        model.noisy_counts_std_ = stored.count_error
        if (loss := statement["loss_estimate"]) is not None:
            model.noisy_loss_, model.noisy_loss_std_ = loss["value"], loss["standard_error"]
        model.n_iter_ = m.n_iterations
        model.n_features_in_ = len(names)
        if has_names:
            model.feature_names_in_ = np.array(names, dtype=object)
        model._n_features_out = m.n_clusters
        return model

    @classmethod
    def _parameters(cls, m: Any, *, has_names: bool) -> dict[str, Any]:
        """Return the parameters of an estimator whose fit would design this mechanism.

        m : mechanism.
        has_names : whether the features have names, so that bounds are given by name.
        """
        ends = zip(m.domain.lower, m.domain.upper, strict=True)
        bounds = (
            dict(zip(m.domain.features, ends, strict=True))
            if has_names
            else (list(m.domain.lower), list(m.domain.upper))
        )
        return {
            "n_clusters": m.n_clusters,
            "epsilon": 1.0 if m.noise is Noise.NONE else m.epsilon,
            "delta": m.delta if m.noise is Noise.GAUSSIAN else None,
            "bounds": bounds if m.domain.recipe is None else None,
            "recipe": None if m.domain.recipe is None else Recipe(features=m.domain.recipe),
            "n_records": m.n_records,
            "random_state": int(m.public_seed, 16),
            "n_expected": m.n_expected,
            "scaling": m.domain.scaling.value,
            "neighboring_relation": m.neighboring_relation.value,
            "estimate_loss": m.loss is not None,
            "loss_share": None if m.loss is None or m.noise is Noise.NONE else plain(m.loss_share),
            "fraction_bits": m.domain.fraction_bits,
            "unit": None if m.persons is None else m.persons.name,
        }

    def plot(
        self,
        X: ArrayLike | None = None,
        *,
        title: str | None = None,
        names: Mapping[int, str] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Return a matplotlib Figure of the noisy centroids, with error bars or ellipses.

        A notebook shows the figure, and `savefig` saves it. It is the picture that the commands
        write.

        X : records to draw as well, or None. With X the picture is NOT PRIVATE, and says so.
            Without X it contains noisy numbers only, and may be shown wherever `cluster_centers_`
            may.
        title : title of the picture, or None for a title in words.
        names : names of clusters by their number, or None. The guarantee does not cover names.
        ax : matplotlib Axes to draw into, or None for a new figure. The figure of `ax` is then
            returned. The caption is left out: a bar is two standard errors to either side, an
            ellipse 2.5, a dashed line a bound, and the area of a mark the noisy count. With three
            or more features a row of panels fills `ax`.

        Raises OutputError if matplotlib is not installed, and DataError for a name that cannot be
        shown, and if `ax` is no Axes with straight axes.
        """
        check_is_fitted(self)
        given = Names(title, names or {})
        given.check(self.mechanism_.n_clusters, "plot")
        drawn = Picture.of(
            self.mechanism_,
            private=self.privacy_spent_["private"],
            records=None if X is None else self._drawn(X),
            centroids=self.mechanism_.domain.from_grid(self._centroids),
            errors=self.cluster_centers_std_,
            settled=self.cluster_status_ == Status.SETTLED.value,
            noisy_counts=self.noisy_counts_,
            count_error=float(self.noisy_counts_std_),
            names=given,
        )
        if ax is not None:
            return pictures.draw_into(ax, drawn)
        return pictures.figure_of(drawn, "the picture", figures.ON_SCREEN)

    def _drawn(self, X: ArrayLike) -> FloatArray:
        if (records := self._raw(X)) is not None:
            return records.values
        return np.asarray(validate_records(self, X, reset=False), dtype=np.float64)

    # scikit-learn passes y
    def fit(
        self,
        X: ArrayLike,
        y: object = None,  # noqa: ARG002
        *,
        groups: Any = None,
        **unknown: object,
    ) -> Self:
        """Cluster the records with the guarantee of the class, and return this estimator.

        X : array or data frame (n_samples, n_features) of finite real numbers. The declared type of
            a column decides whether it has numbers (docs/input.md). Values outside the bounds are
            clipped.
        y : ignored.
        groups : id of the person of each row, text or integers (n_samples,), or None. All rows of
            one id are protected together, as one person. n_records, n_expected, delta and
            noisy_counts_ then count persons (docs/how-to/several-rows.md). Set unit="person" too,
            so that a fit without groups is refused. If X and groups are pandas objects, their
            indexes must be equal.

        There is no sample_weight, because a weight would multiply the influence of one record.

        With the parameter recipe, X is a raw table with the columns that the recipe names.

        X may be a Dask data frame or array. Its records then stay on the connected Dask cluster,
        whose workers see records and exact sums. Without a cluster, this process computes the
        partitions one after the other. bounds or a recipe must be stated, and also n_records,
        unless the relation is replace_one. `labels_` would take one more pass, so it is not set;
        `X.map_partitions(model.predict)` returns the labels.

        Warnings about the guarantee: PrivacyLeakWarning names each public parameter that was taken
        from X. WeakGuaranteeWarning says that delta is above 1 / (100 n_records), or that epsilon
        is large.

        Warnings about the result: ClippedRecordsWarning says that 2 % or more of the values of a
        feature lie outside the bounds. It is exact, so it is for the owner of X only.
        NoisyResultWarning says that the noise dominates the centroids, or that some standard errors
        cannot be relied on (`cluster_status_`). It follows from noisy answers. UncountedFitWarning
        says that no ledger counts the fit.

        Raises DataError, PlanError or BudgetError for one fault, and Problems for several. All of
        them are ValueErrors. Raises TypeError for sparse X and for an unknown keyword. With
        `dataset`, raises BudgetError if the fit exceeds the limits of the data set, and StateError
        if the ledger cannot be written. If fit fails, the estimator stays as it was.
        """
        self._refuse("fit", unknown)
        # this model is as it was until all is done, however that ends
        anew = object.__new__(type(self))
        anew.__dict__.update(self.__dict__)
        cautions = anew._fit(X, groups)
        self.__dict__ = anew.__dict__
        for caution in cautions:
            warnings.warn(caution, stacklevel=2)
        return self

    def _fit(self, X: Any, groups: Any) -> list[Warning]:
        """Fit this new copy of the estimator. Return the warnings that the caller must issue."""
        stated = self._stated()
        check_numbers(vars(stated))
        account = account_of(stated.dataset, self.__dict__.get(BELONGS_TO, NOT_KNOWN), self._name)
        using = None if is_collection(X) else using_of(self.recipe)
        if using is not None:
            X = in_memory(X)
            if groups is None:
                is_person = stated.unit not in (None, "record")
                groups = groups_of(X, using, is_person=is_person)
        persons = stated._persons(groups)  # noqa: SLF001 - of a copy
        table = None if using is None else RawTable(X, using, groups)
        if using is not None:
            note_columns(self, X, using)
        request = FitRequest[TableSource | CollectionSource](
            records=self._records(X, groups) if table is None else table,
            choices=stated._choices(persons),  # noqa: SLF001
            account=account,
            outside=outside_of(self.recipe),
        )
        try:
            prepared = request.prepare()
            self._warn_before(prepared)
            fit = prepared.carry_out(heard)
        except Problems as problems:
            raise problems.plain from None
        for name in _OF_ONE_FIT:  # of an earlier fit, whose centroids are gone
            self.__dict__.pop(name, None)
        m = fit.mechanism
        doubts = [*hidden(fit.first), *self._found(m, fit.clustering)]
        if isinstance(fit.source, TableSource) and fit.source.grid is not None:
            labels = self._labels(fit.source.grid)
            self.labels_ = labels if table is None else table.by_row(labels, NO_RECORD)
        self._plan, self._first = None, None if fit.first is None else fit.first.mechanism
        data_set = None if account is None else account.dataset.name
        self._spent = Spent(m, fit.first, data_set, self.interval_radius_)
        often = listing(list(fit.source.clipped.often(m.domain.features)))
        clipped = [ClippedRecordsWarning(_CLIPPED.format(features=often))] if often else []
        is_uncounted = account is None and fit.has_noise
        uncounted = [UncountedFitWarning(UNCOUNTED)] if is_uncounted and is_to_be_said() else []
        return [*uncounted, *clipped, *map(NoisyResultWarning, doubts)]

    def _warn_before(self, prepared: PreparedFit[Any]) -> None:
        """Warn, before any budget is spent, if the guarantee does not hold or is weak."""
        if prepared.leaks and prepared.has_noise:
            warnings.warn(
                f"{'; '.join(prepared.leaks)}. privacy_spent_ says that the result is not private.",
                PrivacyLeakWarning,
                stacklevel=4,
            )
        for caution in said(cautions(prepared.mechanism), prepared.mechanism.unit):
            warnings.warn(caution, WeakGuaranteeWarning, stacklevel=4)

    def _found(self, mechanism: Mechanism, clustering: Clustering) -> list[str]:
        """Set the attributes of a finished fit, and return warnings about the noise in them."""
        noise = noise_deviation(mechanism)
        found = uncertainty.assess(mechanism, clustering, noise)
        self.mechanism_ = mechanism
        domain = mechanism.domain
        self.cluster_centers_ = in_columns(domain, domain.from_grid(clustering.centroids))
        self.cluster_centers_std_ = found.errors
        self.cluster_status_ = np.array([status.value for status in found.status])
        self.interval_radius_, self.means_beyond_ = found.radius, found.beyond
        self.noisy_counts_ = clustering.noisy_counts(mechanism.number_bits)
        self.noisy_counts_std_ = noise.counts
        if mechanism.loss is not None and clustering.loss is not None:
            self.noisy_loss_ = clustering.loss * mechanism.loss_unit
            self.noisy_loss_std_ = mechanism.loss_deviation
        self.n_iter_ = mechanism.n_iterations
        self._centroids, self._votes = clustering.centroids, clustering.votes
        self._n_features_out = mechanism.n_clusters
        verdict = uncertainty.verdict(mechanism, found, self.noisy_counts_, noise.counts)
        dominates = verdict is Verdict.MOSTLY_NOISE
        doubts = uncertainty.cautions(found.status, noise.counts)
        return said([*doubts, *([Fact.of("noise_dominates")] if dominates else [])], mechanism.unit)

    @property
    def _name(self) -> str:
        """Name of the estimator in a ledger.

        It is the name of the class, or of the nearest base class whose name a ledger accepts.
        """
        kinds = [kind.__name__ for kind in type(self).__mro__ if issubclass(kind, Estimator)]
        return next(name for name in kinds if NAME.fullmatch(name))

    @property
    def bounds_(self) -> FloatArray:
        """Lower and upper bound of each feature, float64 (n_features, 2). The docstrings of the
        estimators describe them.
        """
        check_is_fitted(self)
        domain = self.mechanism_.domain
        ends = np.array([domain.lower, domain.upper], dtype=np.float64)
        return in_columns(domain, ends).T

    @property
    def inertia_(self) -> float:
        """Loss on the records, which no fitted estimator has, because an exact loss is not private.

        Raises AttributeError.
        """
        raise AttributeError(
            f"{type(self).__name__} has no inertia_, because an exact loss is not private; pass"
            " estimate_loss=True for noisy_loss_, or call score(X) on records that you may see"
        )

    def fit_predict(self, X: ArrayLike, y: object = None, **unknown: object) -> IntArray:
        """Cluster the records as `fit` does, and return `labels_`. The labels are NOT PRIVATE.

        Raises the errors of `fit`, and DataError if X is a Dask collection.
        """
        refuse_collection(X)
        return np.asarray(super().fit_predict(X, y, **unknown))

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn. An estimator with noise is not deterministic, whatever
        the random_state.
        """
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self._algorithm.noise is not Noise.NONE
        return tags

    def _sk_visual_block_(self) -> object:
        """Return the block that scikit-learn draws for this estimator, also inside a pipeline.

        Its caption says what the guarantee covers.
        """
        try:
            from sklearn.utils._repr_html.estimator import _VisualBlock
        except ImportError:  # before scikit-learn 1.7
            from sklearn.utils._estimator_html_repr import _VisualBlock

        return _VisualBlock(
            "single",
            self,
            names=type(self).__name__,
            name_details=str(self),
            name_caption=sentence(COVERS_ESTIMATOR)
            if self._algorithm.noise is not Noise.NONE
            else None,
        )

    def __dir__(self) -> list[str]:
        """Return all names of attributes except `labels_`.

        scikit-learn draws every attribute listed here into notebooks, and notebooks are passed on.
        """
        return [name for name in super().__dir__() if name != "labels_"]


def plain(value: Fraction) -> float | Fraction:
    """Return the number as a float if some float equals it, otherwise unchanged."""
    return float(value) if Fraction(float(value)) == value else value
