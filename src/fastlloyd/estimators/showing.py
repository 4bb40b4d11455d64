"""Show the clusters of a fitted estimator: as a data frame, and as cards in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fastlloyd.base.markup import Markup, element
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.uncertainty import Status
from fastlloyd.reports.names import NO_NAMES
from fastlloyd.reports.page.cards import groups
from fastlloyd.reports.page.document import document
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.page.view import View
from fastlloyd.reports.result import (
    CLUSTER,
    COUNT_ERROR,
    NOISY_COUNT,
    OTHER_COLUMNS,
    STATUS,
    Cluster,
)
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.reports.units import in_units

LOWER, UPPER = "lower_", "upper_"  # before the name of a feature
HEIGHT = 620  # pixels of the cards in a notebook


class Showing(BaseEstimator):
    """Part of an estimator that shows the clusters that a fit found."""

    def summary(self) -> Any:
        """Return a table with a row for each cluster, in the units of the columns.

        It is a pandas data frame, or a Polars one if only Polars is installed, or else a dict of
        lists. The columns are: the number of the cluster, three columns for each feature, the noisy
        count and its standard error, and the status. The three columns of a feature are its centre,
        and the ends `lower_...` and `upper_...` of the interval of two standard errors. The ends
        are None if they are not known. A feature with the name of another column is renamed to
        `feature_...`. The table has noisy numbers only.
        """
        check_is_fitted(self)
        return _as_frame(_columns(self.mechanism_.domain, self._clusters()))

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn, and below it the cards of the clusters."""
        drawn = str(super()._repr_html_inner())
        return f"{drawn}{self._cards()}" if is_fitted(self) else drawn

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Return the representations of the estimator that a notebook can show."""
        shown: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] = self._repr_html_inner()
        return shown

    def _clusters(self) -> tuple[Cluster, ...]:
        """Return the clusters of a fitted estimator."""
        centroids = self.mechanism_.domain.from_grid(self._centroids)
        found = zip(
            centroids.tolist(),
            self.noisy_counts_.tolist(),
            self.cluster_centers_std_.tolist(),
            self.cluster_status_.tolist(),
            strict=True,
        )
        return tuple(
            Cluster(
                cluster=number,
                centroid=tuple(centroid),
                noisy_count=count,
                noisy_count_standard_error=float(self.noisy_counts_std_),
                standard_errors=tuple(errors) if np.isfinite(errors).all() else None,
                status=Status(status),
                mean_beyond=None,
            )
            for number, (centroid, count, errors, status) in enumerate(found)
        )

    def _cards(self) -> Markup:
        """Return the cards of the clusters, in an HTML frame that the notebook's styles do not
        affect.
        """
        m, plan = self.mechanism_, self._plan
        view = View(
            run=RunView(mechanism=m, plan=plan, privacy=self.privacy_spent_, rounds=[], files=()),
            stored=StoredResult(
                mechanism=m,
                plan=plan,
                centroids=self._centroids,
                clusters=self._clusters(),
                split=None,
                radius=None,
            ),
            names=NO_NAMES,
        )
        cards = document(type(self).__name__, groups(view)).decode()
        return element(
            "iframe",
            srcdoc=cards,
            sandbox=True,
            width="100%",
            height=HEIGHT,
            title=f"Clusters of {type(self).__name__}",
        )


def is_fitted(model: Any) -> bool:
    """Return whether an estimator is fitted."""
    return hasattr(model, "mechanism_")


def _columns(domain: Domain, clusters: Sequence[Cluster]) -> dict[str, list[Any]]:
    """Return the columns of the summary by name."""
    rows = [in_units(domain, each.centroid, each.standard_errors) for each in clusters]
    columns: dict[str, list[Any]] = {CLUSTER: [each.cluster for each in clusters]}
    for j, feature in enumerate(domain.features):
        name = f"feature_{feature}" if feature in OTHER_COLUMNS else feature
        columns[name] = [row[j]["value"] for row in rows]
        columns[f"{LOWER}{name}"] = [row[j].get("lower") for row in rows]
        columns[f"{UPPER}{name}"] = [row[j].get("upper") for row in rows]
    columns[NOISY_COUNT] = [each.noisy_count for each in clusters]
    columns[COUNT_ERROR] = [each.noisy_count_standard_error for each in clusters]
    columns[STATUS] = [each.status.value for each in clusters]
    return columns


def _as_frame(columns: dict[str, list[Any]]) -> Any:
    """Return the columns as a data frame of pandas or Polars, or unchanged if neither is
    installed.
    """
    for package in ("pandas", "polars"):
        if find_spec(package) is not None:
            return import_module(package).DataFrame(columns)
    return columns
