"""Numbers and words of a result that several parts of the page use."""

import math
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.markup import Markup
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.uncertainty import Status
from fastlloyd.records.recipe import columns_of
from fastlloyd.reports.names import Names
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.picture import Picture
from fastlloyd.reports.profile import BoolArray, Centres, Claim, Profile
from fastlloyd.reports.run_result import NAMES
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.reports.telling import groups_rows, not_settled, side
from fastlloyd.reports.units import SIDES, Units, units_of

LISTED = 4  # features in one sentence
EXACT_COUNTS = 0.5  # a smaller standard error of a count hides nothing
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class View(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Result, with the run that made it and the names that people gave.

    run : run that made it.
    stored : result of the clustering.
    names : names that people gave.
    """

    run: RunView
    stored: StoredResult
    names: Names

    @classmethod
    def of(cls, files: StoredFiles) -> Self:
        """Return the view of the files of a result. Raises the errors of `StoredResult.read`."""
        stored = StoredResult.of(files)
        source = str(files.folder / NAMES)
        names = Names.of(files.contents.get(NAMES), stored.mechanism.n_clusters, source)
        return cls(
            run=RunView.of(
                files, stored.plan.mechanism if stored.plan else stored.mechanism, stored.plan
            ),
            stored=stored,
            names=names,
        )

    @property
    def mechanism(self) -> Mechanism:
        """Settings of the clustering."""
        return self.stored.mechanism

    @property
    def unit(self) -> Unit:
        """Words for the unit that is counted and protected: a record or a person."""
        return self.mechanism.unit

    @property
    def has_noise(self) -> bool:
        """Return whether the run added noise."""
        return self.run.has_noise

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.mechanism.n_clusters

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.mechanism.domain.features

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the features for people: the labels of a recipe where it has any."""
        domain = self.mechanism.domain
        labels = {
            column.name: feature.name
            for feature in domain.recipe or ()
            for column in columns_of((feature,))
            if column.name == feature.key
        }
        return tuple(labels.get(name, name) for name in domain.features)

    @cached_property
    def units(self) -> tuple[Units, ...]:
        """Units of the features."""
        return units_of(self.mechanism.domain)

    @cached_property
    def centroids(self) -> FloatArray:
        """Centroids in the numbers that are clustered, float64 (n_clusters, n_features)."""
        return np.array([cluster.centroid for cluster in self.stored.clusters])

    @cached_property
    def errors(self) -> FloatArray:
        """Standard errors of the centroids, float64 (n_clusters, n_features), NaN if unknown."""
        return self.stored.standard_errors

    @cached_property
    def counts(self) -> FloatArray:
        """Noisy counts, float64 (n_clusters,), the largest first."""
        return self.stored.noisy_counts

    @cached_property
    def settled(self) -> BoolArray:
        """Bool (n_clusters,). True if the standard errors of the centroid are known and
        reliable.
        """
        is_settled = self.stored.status == Status.SETTLED.value
        return np.asarray(is_settled & np.isfinite(self.errors).all(axis=1))

    @cached_property
    def profile(self) -> Profile:
        """Statements about differences between clusters that the noise allows."""
        return Profile.of(
            Centres(
                values=self.centroids,
                errors=self.errors,
                counts=self.counts,
                count_error=self.stored.count_error,
                settled=self.settled,
                half_widths=self.half_widths,
            )
        )

    @cached_property
    def half_widths(self) -> FloatArray:
        """Half the range between the bounds, float64 (n_features,)."""
        domain = self.mechanism.domain
        half: FloatArray = (np.array(domain.upper) - np.array(domain.lower)) / 2
        return half

    @property
    def has_rows(self) -> bool:
        """Return whether one person may have rows in several groups."""
        return groups_rows(self.mechanism)

    @property
    def compares(self) -> bool:
        """Return whether there is a mean of centres with which a centre can be compared."""
        return int(self.settled.sum()) > 1

    def error(self, cluster: int, feature: int) -> float:
        """Return the standard error of a coordinate, or NaN if it is not known."""
        return float(self.errors[cluster, feature]) if self.settled[cluster] else math.nan

    def ends(self, cluster: int, feature: int) -> tuple[float, float]:
        """Return the ends of the interval of two standard errors to either side of a coordinate.

        The centre of records within the bounds is within the bounds. If the algorithm keeps its
        centroids there, too, the interval ends at the bounds and loses no coverage.
        """
        number, half = float(self.centroids[cluster, feature]), SIDES * self.error(cluster, feature)
        low, high = number - half, number + half
        domain = self.mechanism.domain
        if self.mechanism.may_leave_bounds:
            return low, high
        return max(low, domain.lower[feature]), min(high, domain.upper[feature])

    def at_bounds(self, cluster: int) -> list[int]:
        """Return the features of a settled group whose centre is within its error of a bound.
        Columns of categories, and of texts with numbers, have no values beyond their bounds.
        """
        domain = self.mechanism.domain
        of_texts = {
            column.name
            for feature in domain.recipe or ()
            if feature.categories or feature.values
            for column in columns_of((feature,))
        }
        found = list[int]()
        for j, name in enumerate(self.features):
            number, half = float(self.centroids[cluster, j]), SIDES * self.error(cluster, j)
            is_near = number - half <= domain.lower[j] or number + half >= domain.upper[j]
            if name not in of_texts and half > 0 and is_near:
                found.append(j)
        return found

    def value(self, cluster: int, feature: int) -> str:
        """Return a coordinate of a centroid, in the units of its column."""
        number = float(self.centroids[cluster, feature])
        return self.units[feature].brief(number, self.error(cluster, feature))

    def share(self, cluster: int) -> float:
        """Return the count of a cluster as a fraction of the sum of all counts, from 0 to 1."""
        counts = np.maximum(self.counts, 0.0)
        return float(counts[cluster] / max(counts.sum(), math.ulp(1.0)))

    def group(self, cluster: int) -> Fact:
        """Return the fact about the number and name of a group."""
        name = self.names.clusters.get(cluster)
        if name is None:
            return Fact.of("group_number", number=cluster)
        return Fact.of("group_with_name", number=cluster, name=name)

    def picture(self) -> Picture:
        """Return the picture of the result, without records."""
        return Picture.of(
            self.mechanism,
            private=self.run.is_private,
            epsilon=self.run.privacy["epsilon"],
            centroids=self.centroids,
            errors=self.errors,
            settled=self.settled,
            noisy_counts=self.counts,
            count_error=self.stored.count_error,
            names=self.names,
        )

    def told(self, cluster: int) -> list[Fact]:
        """Return facts about the features that distinguish a group, and about the number of
        features without a statement.
        """
        if (fact := not_settled(str(self.stored.status[cluster]))) is not None:
            return [fact]
        if self.n_clusters == 1:
            return [Fact.of("lead_one_group")]
        claims = self.profile.claims[cluster]
        if not claims:
            return [Fact.of("group_silent" if self.has_noise else "group_alike")]
        named = [self._claim(cluster, claim, n) for n, claim in enumerate(claims)]
        found = [Fact.of("claims", claims=named)]
        sides, named_already = self.profile.sides[cluster], {each.feature for each in claims}
        for way, which in (("above", sides > 0), ("below", sides < 0)):
            more = [j for j in np.flatnonzero(which).tolist() if j not in named_already]
            found += self._listed(f"also_{way}", f"also_{way}_in", more)
        if self.has_noise:
            found += self._listed("not_clear", "not_clear_in", np.flatnonzero(sides == 0).tolist())
        return found

    def _listed(self, name: str, of_many: str, features: list[int]) -> list[Fact]:
        """Return a fact that names these features, or a fact with only their number if there are
        too many to name. The list is empty if there are no features.

        name : name of the fact that names the features.
        of_many : name of the fact that contains only their number.
        """
        if not features:
            return []
        if len(features) > LISTED:
            return [Fact.of(of_many, n=len(features))]
        return [
            Fact.of(name, features=[Fact.of("feature", feature=self.features[j]) for j in features])
        ]

    def _claim(self, cluster: int, claim: Claim, number: int) -> Fact:
        j, units = claim.feature, self.units[claim.feature]
        error = max(self.error(cluster, j), float(self.profile.together_errors[j]))
        return Fact.of(
            "claim_next" if number else "claim_first",
            side=side(claim, units),
            feature=self.features[j],
            value=units.brief(float(self.centroids[cluster, j]), error),
            together=units.brief(float(self.profile.together[j]), error),
        )

    def said(self, name: str, /, **values: Any) -> Markup:
        """Return the sentence of a fact as HTML."""
        return self.run.said(name, **values)

    def text(self, name: str, /, **values: Any) -> str:
        """Return the sentence of a fact as text, for attributes."""
        return self.run.text(name, **values)
