"""The named public data sets of `catalogue.toml`: content, origin and digest of the values.

A set is known by the digest of its values, so it does not matter in which format, or from where, it
came. Nothing here reads or fetches anything: `homes.py` does.
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
    """How the file of a home is written. Either may be compressed by gzip."""

    TEXT = "one record a line, cells separated by commas or white space, no header"
    IDX = "idx3-ubyte: images of unsigned bytes, one record an image, row by row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A public file, pinned to one version, that holds a set.

    has_class : the last cell of a line is a class, and left out; what stands before the features is
    an id, and left out, too. missing : what stands for "?", None where there is none.
    """

    address: str
    form: Form = Form.TEXT
    has_class: bool = False
    missing: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A named public set of records.

    n_records, n_features : its shape; n_clusters : how many clusters are usually asked of it;
    digest : `values_digest` of its records in their order; bundled : the function of
    sklearn.datasets that has the set, if one does; corrected : cells in which that copy differs,
    each a record and a feature, from 1, and the value; homes : where it can be fetched from,
    tried in this order. The others are sentences.
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
    """SHA-256, as hex digits, of a matrix (n, d): n and d as 64 bits each, then its float64 cells
    row by row, little-endian.

    The same numbers in the same order have the same digest, whatever file they came in.
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
