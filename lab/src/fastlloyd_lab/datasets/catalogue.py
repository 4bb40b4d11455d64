"""Named public data sets of `catalogue.toml`: description, origin, and digest of the values.

A set is identified by the digest of its values, whatever the format or the source of its file. This
module reads and downloads no records; `homes.py` does.
"""

import enum
import hashlib
import struct
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt


class Form(enum.Enum):
    """Format of the public file of a data set (`Home`). The file may also be compressed by gzip."""

    TEXT = "one record a line, cells separated by commas or white space, no header"
    IDX = "idx3-ubyte: images of unsigned bytes, one record an image, row by row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Public file with the values of a set, fixed to one version.

    has_class : whether each line ends with a class. The class, and ids in front of the features,
        are left out.
    missing : number that replaces the cell "?", or None if there is none.
    """

    address: str
    form: Form = Form.TEXT
    has_class: bool = False
    missing: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Named public set of records.

    n_records, n_features : shape of the set.
    n_clusters : usual number of clusters.
    digest : `values_digest` of the records in their order.
    bundled : function of sklearn.datasets that contains the set, or None.
    corrected : cells that scikit-learn's copy has wrong. Each is a record and a feature, from 1,
        with the correct value.
    homes : public files of the set, in the order in which they are tried.

    The other fields are sentences.
    """

    name: str
    n_records: int
    n_features: int
    n_clusters: int
    about: str
    citation: str
    digest: str
    homes: tuple[Home, ...]
    licence: str = "not stated"
    changes: str = "none"
    bundled: str | None = None
    corrected: tuple[tuple[int, int, float], ...] = ()


def values_digest(values: npt.NDArray[np.float64]) -> str:
    """Return the SHA-256, in hex, of a matrix (n, d).

    The hash covers n and d as 64 bits each, then the float64 cells row by row, little-endian. The
    same numbers in the same order have the same digest, whatever file they come from.
    """
    digest = hashlib.sha256(struct.pack("<QQ", *values.shape))
    digest.update(np.ascontiguousarray(values, dtype="<f8").data)
    return digest.hexdigest()


_MEASUREMENTS = (
    "https://raw.githubusercontent.com/nefagi-01/DIAS-semester-project/"
    "33ff06cb3fab4d927bc406e0f6b86861c2fbe673/datasets/"
)
_NOT_STATED = "not stated; published for research, and its makers ask to be cited"
_BENCHMARK = (
    "Fränti and Sieranoja, K-means properties on six clustering benchmark datasets, Applied"
    " Intelligence 48(12), 2018"
)
_WRITTEN = tomllib.loads(files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8"))


def _g2(name: str) -> DataSet:
    _, n_features, deviation = name.split("-")
    return DataSet(
        name=name,
        n_records=2048,
        n_features=int(n_features),
        n_clusters=2,
        about=(
            "two Gaussian clusters of 1,024 points about (500, ...) and (600, ...), standard"
            f" deviation {deviation}, sorted"
        ),
        citation=_BENCHMARK,
        licence=_NOT_STATED,
        digest=_WRITTEN["g2"][name],
        homes=(Home(address=f"{_MEASUREMENTS}{name}.csv"),),
    )


CATALOGUE: Mapping[str, DataSet] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            *msgspec.convert(_WRITTEN["sets"], tuple[DataSet, ...]),
            *map(_g2, _WRITTEN["g2"]),
        )
    }
)
"""The sets by name: those of the paper, then the members of G2 that are published as files."""
