"""Where the values of a named public set are had from: scikit-learn's copy, the cache, and its public home.

Nothing goes over the network but in `fetch`, which is called only where a user asks for it by name. Whatever the home, the
values are those of the catalogue's digest, or they are not used.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.evaluation.datasets import formats
from fastlloyd.evaluation.datasets.catalogue import DataSet, Home, values_digest
from fastlloyd.evaluation.datasets.folder import FOLDER_VARIABLE
from fastlloyd.records import Table, read_table

_SECONDS = 30.0  # without a byte, until a home is given up


def find(entry: DataSet) -> Table:
    """Records of a set that is on this machine already, columns x1, x2, ...

    Raises DataError, which says how to get the set, if it is not; and if the file in the cache holds other values.
    """
    for table in (_bundled(entry), _cached(entry)):
        if table is not None:
            return table
    raise DataError(
        f"data set {entry.name!r} is not on this machine: get it with `fastlloyd datasets fetch {entry.name}`, or set the "
        f"environment variable {FOLDER_VARIABLE} to a folder that holds it"
    )


def home_here(entry: DataSet) -> str | None:
    """Where `find` would look first for a set that is on this machine, in words; None if it is not. Reads no records."""
    if entry.bundled is not None and importlib.util.find_spec("sklearn") is not None:
        return "scikit-learn"
    return "cache" if cache_file(entry).is_file() else None


def fetch(entry: DataSet) -> Path:
    """Get a set from its public home into the cache, and return the file there; replaces what was there.

    The homes are tried in their order. Raises DataError with what was wrong with each if none has the set; then the cache is
    as before. Needs pooch (the extra `datasets`).
    """
    get = _downloader()
    wrong = []
    for home in entry.homes:
        try:
            values = _values_of(get(home.address), home, entry)
        except DataError as error:
            wrong.append(f"{home.address}: {error}")
        else:
            return _keep(entry, values)
    raise DataError(f"data set {entry.name!r} was not fetched, and nothing was kept. " + "; ".join(wrong))


def cache_file(entry: DataSet) -> Path:
    """Where a fetched set is kept: a NumPy array (n_records, n_features), float64, in the user's folder for caches."""
    return _cache_folder() / f"{entry.name}.npy"


def _bundled(entry: DataSet) -> Table | None:
    """scikit-learn's copy, if there is one with the same values."""
    if entry.bundled is None:
        return None
    try:
        from sklearn import datasets
    except ImportError:
        return None
    values = np.ascontiguousarray(getattr(datasets, entry.bundled)().data, dtype=np.float64)
    if values_digest(values) != entry.digest:
        return None
    columns = tuple(f"x{i}" for i in range(1, entry.n_features + 1))
    return Table(values=values, columns=columns, source=f"sklearn.datasets.{entry.bundled}")


def _cached(entry: DataSet) -> Table | None:
    path = cache_file(entry)
    if not path.is_file():
        return None
    table = read_table(path)
    if values_digest(table.values) != entry.digest:
        raise DataError(f"{path} holds other values than those of {entry.name!r}; `fastlloyd datasets fetch {entry.name}` anew")
    return table


def _cache_folder() -> Path:
    """As other programs do on each system; XDG_CACHE_HOME counts if it is absolute, as its specification says."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "fastlloyd" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fastlloyd"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "fastlloyd"


class _Limited(io.BytesIO):
    """Bytes up to a limit: what a home sends beyond it is refused."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # bytes are all it is given
        if self.tell() + len(data) > formats.MOST_BYTES:
            raise DataError(f"it sends more than {formats.MOST_BYTES} bytes, far more than the set has")
        return super().write(data)


def _downloader() -> Callable[[str], bytes]:
    """Return what gets everything behind an address, or raises DataError if that cannot be had, whole."""
    try:
        from pooch import HTTPDownloader
        from requests import HTTPError, RequestException
    except ImportError:
        raise DataError(f"fetching needs pooch, which is not installed: {extras.command('datasets')}") from None

    def get(address: str) -> bytes:
        received = _Limited()
        try:
            HTTPDownloader(timeout=_SECONDS)(address, received, None)
        except HTTPError as error:
            raise DataError(f"the answer is {getattr(error.response, 'status_code', 'an error')}") from None
        except RequestException as error:
            raise DataError(f"there is no connection, or it broke off ({type(error).__name__})") from None
        return received.getvalue()

    return get


def _values_of(data: bytes, home: Home, entry: DataSet) -> npt.NDArray[np.float64]:
    values = formats.parse(data, home, entry)
    if (digest := values_digest(values)) != entry.digest:
        raise DataError(f"the digest of its values is {digest}; expected {entry.digest}")
    return values


def _keep(entry: DataSet, values: npt.NDArray[np.float64]) -> Path:
    """Put values in the cache in one step: whoever reads meanwhile finds the old file, none, or the whole new one."""
    path = cache_file(entry)
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{entry.name}-", delete=False) as file:
            unfinished = Path(file.name)
            np.save(file, values, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror}); the set was fetched, but not kept") from None
    finally:
        if unfinished is not None:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    return path
