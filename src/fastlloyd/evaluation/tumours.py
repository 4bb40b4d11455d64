"""Public tumour measurements for demonstrations, with bounds.

The bounds are constants. They are round numbers that suit the measured quantities, not the extremes
of the records. But their author knew the ranges of this data set, which has been public for
decades, and chose bounds that include all records. So they show which form bounds have, but not how
to find them. For other records, bounds must come from the instrument's manual or the literature
alone, and values outside are clipped.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.records import Table

TUMOUR_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        # Distance from a nucleus's centre to its outline, averaged, in the unit of the digitised
        # image: an outline much smaller than 5 cannot be traced in it, and 30 is six times that.
        "mean radius": (5.0, 30.0),
        # Standard deviation of grey levels: at most 127.5 on a scale from 0 to 255, of which a
        # stain spans a part.
        "mean texture": (0.0, 50.0),
        # Severity of the outline's dents, without a unit: 0 if there are none; nuclei are round, so
        # far below 1.
        "mean concavity": (0.0, 0.5),
    }
)
"""Public bounds (lower, upper) of the columns of `load_tumours`, in their order and units."""


def load_tumours() -> Table:
    """Return the data set Breast Cancer Wisconsin (Diagnostic): 569 tumours with three features.

    The features are radius, texture and concavity, averaged over the cell nuclei (Street, Wolberg
    and Mangasarian 1993). The copy is that of scikit-learn, reduced to the columns of
    `TUMOUR_BOUNDS`. Raises DataError if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_breast_cancer
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise DataError(
            f"the tumours ship with scikit-learn, which {extras.why_not(error, 'sklearn')}"
        ) from None
    bunch: Any = load_breast_cancer()
    names = [str(name) for name in bunch.feature_names]
    values = np.ascontiguousarray(
        bunch.data[:, [names.index(name) for name in TUMOUR_BOUNDS]], dtype=np.float64
    )
    return Table(
        values=values, columns=tuple(TUMOUR_BOUNDS), source="sklearn.datasets.load_breast_cancer"
    )
