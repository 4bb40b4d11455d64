"""Sources of the values of a set: the user's own folder, scikit-learn's copy, the cache, and the
public files of the set (`Home`).

The environment variable FASTLLOYD_DATA names the user's own folder. The folder has one file
`NAME.csv.gz` per set, with numbers only and without a header. It also has `MANIFEST.csv`, a CSV
file with at least the columns `name`, `k` (usual number of clusters) and `sha256` (of the
compressed file). A file is used only if its checksum is that of the manifest, so a result can be
traced to the bytes of its data.

Only `fetch` uses the network, and only if a user asks for a set by name. Values of a set of the
catalogue are used only if they have the digest in the catalogue.
"""

import csv
import gzip
import hashlib
import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.files import replacing
from fastlloyd.errors import DataError
from fastlloyd.records import Layout, Table, read_csv, read_table
from fastlloyd_lab.datasets.catalogue import DataSet, Form, Home, values_digest

FOLDER_VARIABLE = "FASTLLOYD_DATA"
# files are refused beyond, packed or unpacked: the largest of the catalogue has 8 million unpacked
MOST_BYTES = 1 << 26
_SECONDS = 30.0  # without a byte, until a home is given up
_GZIP = b"\x1f\x8b"
_IDX3_UBYTE = 0x0803


@dataclass(frozen=True, slots=True)
class OwnSet:
    """Row of the manifest: one set in the user's own folder."""

    path: Path
    n_clusters: int
    sha256: str

    def read(self, name: str) -> Table:
        """Return the records of the set, with columns x1, x2, ...

        name : name of the set, for error messages.

        Raises DataError if the file is missing, or differs from the manifest.
        """
        try:
            with self.path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(
                f"{self.path}: the data set {name!r} cannot be read ({error.strerror})"
            ) from None
        if sha256 != self.sha256:
            raise DataError(
                f"{self.path}: the SHA-256 of the file is {sha256}, and {self.sha256} in the"
                " manifest; get the file anew"
            )
        return read_csv(self.path, layout=Layout(header="no"))


def own_sets() -> dict[str, OwnSet]:
    """Return the sets of the user's own folder by name, in the order of the manifest.

    The dict is empty if the variable is not set. Raises DataError if it is set, but the manifest is
    missing or incomplete.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return {}
    path = Path(folder) / "MANIFEST.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {
                row["name"]: OwnSet(
                    path.with_name(f"{row['name']}.csv.gz"), int(row["k"]), row["sha256"].lower()
                )
                for row in csv.DictReader(file, strict=True)
            }
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); does {FOLDER_VARIABLE} name the right"
            " folder?"
        ) from None
    except (KeyError, TypeError, AttributeError, ValueError, csv.Error):
        raise DataError(
            f"{path}: every row needs a name, a whole number k and a sha256, and the first line"
            " must be a header with these names"
        ) from None


def find(entry: DataSet) -> Table:
    """Return the records of a data set that is on this machine, with columns x1, x2, ...

    Raises DataError if the set is not on this machine, and says how to get it. Also raises
    DataError if the cached file contains other values.
    """
    if _is_bundled(entry):
        from sklearn import datasets

        values = np.array(getattr(datasets, str(entry.bundled))().data, dtype=np.float64, order="C")
        for record, feature, value in entry.corrected:
            values[record - 1, feature - 1] = value
        if values_digest(values) == entry.digest:
            columns = tuple(f"x{i}" for i in range(1, entry.n_features + 1))
            return Table(values=values, columns=columns, source=f"sklearn.datasets.{entry.bundled}")
    if (path := cache_file(entry)).is_file():
        table = read_table(path)
        if values_digest(table.values) == entry.digest:
            return table
        raise DataError(
            f"{path} has other values than {entry.name!r}; get it again with `fastlloyd datasets"
            f" fetch {entry.name}`"
        )
    raise DataError(
        f"data set {entry.name!r} is not on this machine: get it with `fastlloyd datasets fetch"
        f" {entry.name}`, or set the environment variable {FOLDER_VARIABLE} to a folder that"
        " holds it"
    )


def home_here(entry: DataSet) -> str | None:
    """Return a word for the source from which `find` reads the set, or None if the set is not on
    this machine.

    No records are read.
    """
    if _is_bundled(entry):
        return "scikit-learn"
    return "cache" if cache_file(entry).is_file() else None


def _is_bundled(entry: DataSet) -> bool:
    return entry.bundled is not None and find_spec("sklearn") is not None


def fetch(entry: DataSet) -> Path:
    """Download a set from one of its public files (`Home`) into the cache, and return the path of
    the cached file.

    An earlier file is replaced. The public files are tried in their order. If none has the set,
    raises DataError with the fault of each public file. The cache then stays as it was.
    """
    get = _downloader()
    wrong = []
    for home in entry.homes:
        try:
            values = parse(get(home.address), home, entry)
        except DataError as error:
            wrong.append(f"{home.address}: {error}")
            continue
        if (digest := values_digest(values)) == entry.digest:
            return _keep(entry, values)
        wrong.append(
            f"{home.address}: the digest of its values is {digest}; expected {entry.digest}"
        )
    raise DataError(
        f"data set {entry.name!r} was not fetched, and nothing was kept. " + "; ".join(wrong)
    )


def cache_file(entry: DataSet) -> Path:
    """Return the path of the cached file of a set: a NumPy array (n_records, n_features), float64.

    The file is in the user's cache folder.
    """
    return _cache_folder() / f"{entry.name}.npy"


def _cache_folder() -> Path:
    return user_cache_path("fastlloyd", appauthor=False)


class _Limited(io.BytesIO):
    """Buffer of bytes that refuses more bytes than its limit."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # bytes are all it is given
        if self.tell() + len(data) > MOST_BYTES:
            raise DataError(
                f"the server sends more than {MOST_BYTES} bytes, far more than the set has"
            )
        return super().write(data)


def _downloader() -> Callable[[str], bytes]:
    """Return a function that downloads the content of an address. It raises DataError if the
    download fails.
    """
    from pooch import HTTPDownloader
    from requests import HTTPError, RequestException

    def get(address: str) -> bytes:
        received = _Limited()
        try:
            HTTPDownloader(timeout=_SECONDS)(address, received, None)
        except HTTPError as error:
            raise DataError(
                f"the answer is {getattr(error.response, 'status_code', 'an error')}"
            ) from None
        except RequestException as error:
            raise DataError(
                f"there is no connection, or it broke off ({type(error).__name__})"
            ) from None
        return received.getvalue()

    return get


def _keep(entry: DataSet, values: FloatArray) -> Path:
    """Write values to the cache in one step. A reader finds no file, the old file, or the complete
    new file.
    """
    path = cache_file(entry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            np.save(file, values, allow_pickle=False)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({error.strerror}); the set was fetched, but not kept"
        ) from None
    return path


def parse(data: bytes, home: Home, entry: DataSet) -> FloatArray:
    """Return the records in the bytes of a public file, (n_records, n_features).

    data : bytes of the file.
    home : public file that they come from.
    entry : set that they should contain.

    Raises DataError if the bytes do not contain the records.
    """
    data = _unpacked(data)
    values = _images(data) if home.form is Form.IDX else _cells(data, home, entry.n_features)
    if values.shape != (entry.n_records, entry.n_features):
        raise DataError(
            f"the file holds {values.shape[0]} records of {values.shape[1]} features; expected"
            f" {entry.n_records} of {entry.n_features}"
        )
    return values


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.open(io.BytesIO(data)) as file:
            unpacked = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise DataError("the file is compressed, and damaged or cut short") from None
    if len(unpacked) > MOST_BYTES:
        raise DataError(
            f"the file unpacks to more than {MOST_BYTES} bytes, far more than the set has"
        )
    return unpacked


def _cells(data: bytes, home: Home, n_features: int) -> FloatArray:
    """Return the numbers in a text: all cells of each line, or the last `n_features` cells before
    the class.
    """
    rows = []
    for number, line in enumerate(data.decode("ascii", errors="replace").splitlines(), start=1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        if len(cells) <= n_features if home.has_class else len(cells) != n_features:
            expected = f"{n_features} and a class" if home.has_class else n_features
            raise DataError(
                f"line {number} of the file has {len(cells)} cells; expected {expected}"
            )
        features = cells[-n_features - 1 : -1] if home.has_class else cells
        try:
            rows.append(
                [
                    home.missing if cell == "?" and home.missing is not None else float(cell)
                    for cell in features
                ]
            )
        except ValueError:
            raise DataError(f"line {number} of the file has a cell that is not a number") from None
    return np.array(rows, dtype=np.float64).reshape(-1, n_features)


def _images(data: bytes) -> FloatArray:
    if len(data) < 16:
        raise DataError("the file ends within its header")
    magic, n, height, width = struct.unpack(">4I", data[:16])
    if magic != _IDX3_UBYTE:
        raise DataError("the file does not begin as images of unsigned bytes do")
    if len(data) != 16 + n * height * width:
        raise DataError(
            f"the file has {len(data)} bytes, and {n} images of {height} x {width} need"
            f" {16 + n * height * width}"
        )
    return (
        np.frombuffer(data, dtype=np.uint8, offset=16).reshape(n, height * width).astype(np.float64)
    )
