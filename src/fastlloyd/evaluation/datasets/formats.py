"""From the bytes of a public file to the records of a data set. They come from the network, so nothing is believed of them."""

from __future__ import annotations

import gzip
import io
import struct
import zlib

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.evaluation.datasets.catalogue import DataSet, Form, Home

MOST_BYTES = 1 << 26
"""Files are refused beyond this, packed or unpacked: the largest of the catalogue has 8 million bytes unpacked."""

_GZIP = b"\x1f\x8b"
_IDX3_UBYTE = 0x0803


def parse(data: bytes, home: Home, entry: DataSet) -> npt.NDArray[np.float64]:
    """Records (n_records, n_features) of `entry` from the bytes of its `home`. Raises DataError if they are not in there."""
    data = _unpacked(data)
    values = _images(data) if home.form is Form.IDX else _cells(data, home, entry.n_features)
    if values.shape != (entry.n_records, entry.n_features):
        raise DataError(
            f"the file holds {values.shape[0]} records of {values.shape[1]} features; expected {entry.n_records} of "
            f"{entry.n_features}"
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
        raise DataError(f"the file unpacks to more than {MOST_BYTES} bytes, far more than the set has")
    return unpacked


def _cells(data: bytes, home: Home, n_features: int) -> npt.NDArray[np.float64]:
    """Numbers of a text: of a line all cells, or the last `n_features` before its class."""
    rows = []
    for number, line in enumerate(data.decode("ascii", errors="replace").splitlines(), start=1):
        cells = line.replace(",", " ").split()
        if not cells:
            continue
        if len(cells) <= n_features if home.has_class else len(cells) != n_features:
            expected = f"{n_features} and a class" if home.has_class else n_features
            raise DataError(f"line {number} of the file has {len(cells)} cells; expected {expected}")
        features = cells[-n_features - 1 : -1] if home.has_class else cells
        try:
            rows.append([_number(cell, home.missing) for cell in features])
        except ValueError:
            raise DataError(f"line {number} of the file has a cell that is not a number") from None
    return np.array(rows, dtype=np.float64).reshape(-1, n_features)


def _number(cell: str, missing: float | None) -> float:
    return missing if cell == "?" and missing is not None else float(cell)


def _images(data: bytes) -> npt.NDArray[np.float64]:
    if len(data) < 16:
        raise DataError("the file ends within its header")
    magic, n, height, width = struct.unpack(">4I", data[:16])
    if magic != _IDX3_UBYTE:
        raise DataError("the file does not begin as images of unsigned bytes do")
    if len(data) != 16 + n * height * width:
        raise DataError(f"the file has {len(data)} bytes, and {n} images of {height} x {width} need {16 + n * height * width}")
    return np.frombuffer(data, dtype=np.uint8, offset=16).reshape(n, height * width).astype(np.float64)
