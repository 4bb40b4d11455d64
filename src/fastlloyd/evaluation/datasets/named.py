"""Data sets by name: those of one's own folder, then the catalogue's, then those that are
generated; and two to demonstrate.

A name means the same records everywhere, but for a folder of one's own, whose manifest answers for
them. In particular a set of the catalogue is never generated instead, nor fetched without being
asked for.

The bounds of the two sets for demonstrations are constants: round figures with a reason in what is
measured, not the extremes of the records. But whoever set them knew the ranges of these two sets,
which have been public for decades, and saw to it that they hold all records. So they are an example
of bounds, not of how to find them: for private records such figures come from the instrument's
manual or the literature alone, and what lies outside is clipped.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fastlloyd.base import extras
from fastlloyd.base.names import listing, unknown_name
from fastlloyd.errors import DataError
from fastlloyd.evaluation.datasets import homes, synthetic
from fastlloyd.evaluation.datasets.catalogue import CATALOGUE
from fastlloyd.evaluation.datasets.homes import FOLDER_VARIABLE, own_sets
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

SHOWN = 12  # names in a command to copy


def load(name: str) -> Table:
    """Records of the data set `name`, columns x1, x2, ... in raw units.

    Looked for in the folder of FASTLLOYD_DATA, among scikit-learn's copies, in the cache; generated
    if that is what the name says. Raises DataError if there is no such set, if it is not on this
    machine (and says how to get it), or if the file that should hold it is absent, damaged or
    another one.
    """
    if (own := own_sets().get(name)) is not None:
        return own.read(name)
    if (entry := CATALOGUE.get(name)) is not None:
        return homes.find(entry)
    if synthetic.is_generated(name):
        return synthetic.generate(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def n_clusters(name: str) -> int:
    """Return the number of clusters usually asked of the data set `name`. Raises DataError if there
    is no such set.
    """
    if (known := own_sets().get(name) or CATALOGUE.get(name)) is not None:
        return known.n_clusters
    if synthetic.is_generated(name):
        return synthetic.n_clusters(name)
    raise DataError(f"data set {unknown_name(name, names())}")


def absent(wanted: Iterable[str]) -> list[str]:
    """The sets that `load` would not find on this machine, each once. Reads no records."""
    own = own_sets()

    def is_here(name: str) -> bool:
        if name in own:
            return own[name].path.is_file()
        return name not in CATALOGUE or homes.home_here(CATALOGUE[name]) is not None

    return [name for name in dict.fromkeys(wanted) if not is_here(name)]


def check_at_hand(wanted: Iterable[str]) -> None:
    """Raise one DataError that names all sets that `load` would not find on this machine, and says
    how to get them.
    """
    missing = absent(wanted)
    own = own_sets()
    said = []
    if public := [name for name in missing if name not in own]:
        command = (
            "fastlloyd datasets fetch"
            f" {' '.join(public[:SHOWN])}{' ...' if len(public) > SHOWN else ''}"
        )
        said.append(
            f"not on this machine: {listing(public)}; get them with `{command}`, or set the"
            f" environment variable {FOLDER_VARIABLE} to a folder that holds them"
        )
    if listed := [name for name in missing if name in own]:
        said.append(
            f"the manifest in {own[listed[0]].path.parent} lists {listing(listed)}, and there is no"
            f" such file; put {own[listed[0]].path.name} there, or take it out of the manifest"
        )
    if said:
        raise DataError("; ".join(said))


def names() -> tuple[str, ...]:
    """Names of the folder's sets, in its manifest's order, then of the catalogue's others;
    generated sets are not listed.

    Whether a set is on this machine is another matter. Raises DataError if there is a folder
    without a sound manifest.
    """
    return tuple(dict.fromkeys((*own_sets(), *CATALOGUE)))


def load_tumours() -> Table:
    """Breast Cancer Wisconsin (Diagnostic): 569 tumours, radius, texture and concavity averaged
    over the cell nuclei.

    Street, Wolberg and Mangasarian 1993; the copy in scikit-learn, reduced to the columns of
    `TUMOUR_BOUNDS`. Raises DataError if scikit-learn is not installed.
    """
    return _columns_of("load_breast_cancer", TUMOUR_BOUNDS)


def load_iris() -> Table:
    """Iris (Fisher 1936): 150 flowers of three species, four lengths in centimetres.

    The copy in scikit-learn, columns as in `IRIS_BOUNDS`. Raises DataError if scikit-learn is not
    installed.
    """
    return _columns_of("load_iris", IRIS_BOUNDS)


def _columns_of(loader: str, bounds: Mapping[str, tuple[float, float]]) -> Table:
    try:
        from sklearn import datasets
    except Exception as error:  # noqa: BLE001 - a package may fail in any way
        raise DataError(
            "the bundled data sets ship with scikit-learn, which"
            f" {extras.why_not(error, 'sklearn')}"
        ) from None
    bunch: Any = getattr(datasets, loader)()
    names = [str(name) for name in bunch.feature_names]
    values = np.ascontiguousarray(
        bunch.data[:, [names.index(name) for name in bounds]], dtype=np.float64
    )
    return Table(values=values, columns=tuple(bounds), source=f"sklearn.datasets.{loader}")
