"""Data for the picture of a result."""

from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.precision import epsilon_up
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import RECORD, Unit
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.names import NO_NAMES, Names
from fastlloyd.reports.telling import groups_rows
from fastlloyd.reports.units import Units, units_of

BoolArray = NDArray[np.bool_]
CONTAINS_RECORDS = "contains raw data: NOT PRIVATE"
LARGEST_MARK, SMALLEST_MARK = 600.0, 40.0  # square points
# standard errors: half width of a bar, and radius of an ellipse that a normal law leaves as rarely
BAR, ELLIPSE = 2.0, 2.486
MAX_LABELLED = 60


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers and words of a picture, in original units.

    features : names of the features.
    centroids : float64 (n_clusters, n_features).
    errors : standard errors of the centroids, float64 (n_clusters, n_features), NaN if unknown.
    noisy_counts : float64 (n_clusters,), the largest first.
    centre, half_widths : centre and half widths of the domain, float64 (n_features,).
    title : title of the picture.
    private : whether the run added noise.
    covered : whether no setting was taken from the data.
    records : records to draw, float64 (n, n_features), or None. With records, the picture says that
        it is not private.
    settled : bool (n_clusters,), True if the standard errors are reliable (`uncertainty.Status`).
        Other centroids are drawn hollow, without an ellipse. None means True for all known errors.
    counted : unit in which the clusters are counted.
    names : names that people gave.
    """

    features: tuple[str, ...]
    centroids: FloatArray
    errors: FloatArray
    noisy_counts: FloatArray
    centre: FloatArray
    half_widths: FloatArray
    title: str
    private: bool = True
    covered: bool = True  # whether no setting was taken from the data
    records: FloatArray | None = None
    settled: BoolArray | None = None
    counted: Unit = RECORD
    count_error: float = 0.0  # standard error of each count
    names: Names = NO_NAMES
    units: tuple[Units, ...] | None = None  # of the features, for labels; None: as they are

    @classmethod
    def of(
        cls,
        m: Mechanism,
        *,
        private: bool,
        epsilon: float | None = None,
        records: FloatArray | None = None,
        names: Names = NO_NAMES,
        **numbers: Any,
    ) -> Self:
        """Return the picture of a mechanism's result.

        m : settings of the run.
        private : whether the guarantee holds: there is noise, and no setting was taken from the
            data.
        epsilon : epsilon that was spent, or None for that of the mechanism.
        records : records to draw, or None.
        names : names that people gave.
        numbers : noisy results, by the name of a field of this class.
        """
        has_noise = m.noise is not Noise.NONE
        spent = m.epsilon if epsilon is None else epsilon
        return cls(
            features=m.domain.features,
            centre=m.domain.centre,
            half_widths=m.domain.units * m.domain.half_widths,
            title=_title(m, spent, names.title),
            names=names,
            private=has_noise,
            covered=private or not has_noise,
            counted=m.unit,
            records=records,
            units=units_of(m.domain),
            **numbers,
        )

    def units_at(self, feature: int) -> Units:
        """Return the units of a feature."""
        return Units() if self.units is None else self.units[feature]

    @property
    def is_known(self) -> BoolArray:
        """Bool (n_clusters,). True if the standard errors of the centroid are known and
        reliable.
        """
        known = np.asarray(np.isfinite(self.errors).all(axis=1))
        return known if self.settled is None else np.asarray(known & self.settled)

    @property
    def what_marks_say(self) -> str:
        """Words that explain the area of a mark."""
        of_persons = "" if self.counted == RECORD else f" of {self.counted.many}"
        return ("noisy count" if self.private else "count") + of_persons

    @property
    def name(self) -> str:
        """Title of the picture, followed by "NOT PRIVATE" if the picture must not be shown."""
        return self.title + (
            "" if self.private and self.covered and self.records is None else ", NOT PRIVATE"
        )


def _title(m: Mechanism, epsilon: float, title: str | None) -> str:
    """Return the title of the picture in words."""
    guarantee = Fact.of("picture_epsilon", epsilon=epsilon_up(epsilon))
    if m.noise is Noise.NONE:
        guarantee = Fact.of("picture_no_noise")
    if title is not None:
        fact = Fact.of("picture_with_title", title=title, guarantee=guarantee)
    elif m.n_clusters == 1:
        fact = Fact.of("picture_title_of_one", guarantee=guarantee)
    else:
        name = "picture_title_of_rows" if groups_rows(m) else "picture_title"
        fact = Fact.of(name, n=m.n_clusters, guarantee=guarantee)
    return sentence(fact, m.unit)


def caution(picture: Picture) -> str:
    """Return the warning above a picture that the guarantee does not cover, or "" for other
    pictures.
    """
    if picture.records is not None:
        return CONTAINS_RECORDS
    if not picture.private:
        return "no noise was added: NOT PRIVATE"
    return "" if picture.covered else "settings from the data: NOT PRIVATE"


def short(name: str) -> str:
    """Return the name of a feature. A name of more than 28 characters is cut off after 27."""
    return name if len(name) <= 28 else name[:27] + "…"
