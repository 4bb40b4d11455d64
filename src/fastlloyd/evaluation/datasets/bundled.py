"""Two public data sets that ship with scikit-learn, with public bounds.

The bounds are constants: round figures with a reason in what is measured, not the extremes of the records. But whoever set
them knew the ranges of these two sets, which have been public for decades, and saw to it that they hold all records. So they
are an example of bounds, not of how to find them: for private records such figures come from the instrument's manual or the
literature alone, and what lies outside is clipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.records import Table

TUMOUR_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        # Distance from a nucleus's centre to its outline, averaged, in the unit of the digitised image: an outline much
        # smaller than 5 cannot be traced in it, and 30 is six times that.
        "mean radius": (5.0, 30.0),
        # Standard deviation of grey levels: at most 127.5 on a scale from 0 to 255, of which a stain spans a part.
        "mean texture": (0.0, 50.0),
        # Severity of the outline's dents, without a unit: 0 if there are none; nuclei are round, so far below 1.
        "mean concavity": (0.0, 0.5),
    }
)
"""Public bounds (lower, upper) of the columns of `load_tumours`, in their order and units."""

IRIS_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        # Whole centimetres with room to spare: a flower of these species is smaller than a hand.
        "sepal length (cm)": (4.0, 9.0),
        "sepal width (cm)": (1.0, 5.0),
        "petal length (cm)": (0.0, 8.0),
        "petal width (cm)": (0.0, 3.0),
    }
)
"""Public bounds (lower, upper) of the columns of `load_iris`, in their order and units."""


def load_tumours() -> Table:
    """Breast Cancer Wisconsin (Diagnostic): 569 tumours, radius, texture and concavity averaged over the cell nuclei.

    Street, Wolberg and Mangasarian 1993; the copy in scikit-learn, reduced to the columns of `TUMOUR_BOUNDS`.
    Raises DataError if scikit-learn is not installed.
    """
    return _columns_of("load_breast_cancer", TUMOUR_BOUNDS)


def load_iris() -> Table:
    """Iris (Fisher 1936): 150 flowers of three species, four lengths in centimetres.

    The copy in scikit-learn, columns as in `IRIS_BOUNDS`. Raises DataError if scikit-learn is not installed.
    """
    return _columns_of("load_iris", IRIS_BOUNDS)


def _columns_of(loader: str, bounds: Mapping[str, tuple[float, float]]) -> Table:
    try:
        from sklearn import datasets
    except ImportError:
        raise DataError(
            f"the bundled data sets ship with scikit-learn, which is not installed: {extras.command('sklearn')}"
        ) from None
    bunch: Any = getattr(datasets, loader)()
    names = [str(name) for name in bunch.feature_names]
    values = np.ascontiguousarray(bunch.data[:, [names.index(name) for name in bounds]], dtype=np.float64)
    return Table(values=values, columns=tuple(bounds), source=f"sklearn.datasets.{loader}")
