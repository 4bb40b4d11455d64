"""Rows of persons that are read in passes.

A check makes sure that each pass reads the same points of the same persons in the same order. Each
row has a number of shares (its weight among the rows of its person), stored in the order of the
rows. If rows moved between two passes, a person could get more shares than the noise is planned
for.
"""

import os
from collections.abc import Iterator
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.poly1305 import Poly1305

from fastlloyd.base.arrays import GridArray
from fastlloyd.base.randomness import Keystreams
from fastlloyd.clustering.grid_records import Rows
from fastlloyd.clustering.gridding import is_by_feature
from fastlloyd.errors import DataError
from fastlloyd.records.ids import Ids

SPAN = 1 << 16  # rows that one tag stands for
_LABEL: Final = b"fastlloyd/v1/persons/seal"
_KEY_BYTES: Final = 32

Tag = tuple[bytes, ...]


class Seal:
    """Tags of all spans of rows in the first pass, with which later passes are compared.

    A tag is a Poly1305 tag (RFC 8439) with keys for one span alone. The keys come from a key that
    only this object has, and no tag is shown. Other rows have the same tag with a probability below
    2**-70.
    """

    def __init__(self) -> None:
        self.tags: list[Tag] | None = None
        self._keys = Keystreams(os.urandom(_KEY_BYTES), _LABEL)

    def sealing(self, span: int, n: int) -> list[Poly1305]:
        """Return n authenticators for one span of rows, one for each array of numbers in the
        span.
        """
        keys = self._keys.of(span.to_bytes(8, "big"), n * _KEY_BYTES)
        return [Poly1305(keys[at : at + _KEY_BYTES]) for at in range(0, len(keys), _KEY_BYTES)]


class SealedPass:
    """Tags (Poly1305) of the rows that one pass has read so far.

    n_rows : number of these rows.
    """

    def __init__(self, seal: Seal) -> None:
        self.n_rows = 0
        self._seal = seal
        self._open: list[Poly1305] = []
        self._tags: list[Tag] = []

    def add(self, X: GridArray, ids: Ids) -> None:
        """Add rows, grid points (n, n_features), with their ids."""
        start = 0
        while start < len(X):
            n = min(SPAN - self.n_rows % SPAN, len(X) - start)
            points = X[start : start + n]
            numbers = [
                *(points.T if is_by_feature(X) else [points]),
                *ids.cut(start, start + n).cells(),
            ]
            self._open = self._open or self._seal.sealing(len(self._tags), len(numbers))
            for sealing, cells in zip(self._open, numbers, strict=True):
                sealing.update(np.ascontiguousarray(cells).reshape(-1).view(np.uint8).data)
            start, self.n_rows = start + n, self.n_rows + n
            if self.n_rows % SPAN == 0:
                self._end_span()

    def close(self) -> None:
        """End the first pass, and store its tags in the `Seal`."""
        self._end_span()
        self._seal.tags = self._tags

    def is_unbroken(self) -> bool:
        """End a later pass. Return whether its rows equal those of the first pass."""
        self._end_span()
        return self._seal.tags == self._tags

    def _end_span(self) -> None:
        if self._open:
            self._tags.append(tuple(sealing.finalize() for sealing in self._open))
            self._open = []


class SealedRows:
    """Grid points with ids, read in passes. Every pass must read the same rows.

    source : name of the rows, for error messages.

    A pass raises DataError if its rows differ from those of the first pass, and any error of the
    rows' reader.
    """

    def __init__(self, rows: Rows, source: str) -> None:
        self.domain = rows.domain
        self._rows, self._source, self._seal, self._n_rows = rows, source, Seal(), 0

    def first(self) -> Iterator[tuple[GridArray, Ids]]:
        """Yield all rows with their ids, block by block, in the first pass."""
        sealing = SealedPass(self._seal)
        for X, ids in self._rows.with_ids():
            if ids is None:
                raise DataError(
                    f"{self._source}: the mechanism protects persons, and the records were read"
                    " without ids"
                )
            sealing.add(X, ids)
            yield X, ids
        sealing.close()
        self._n_rows = sealing.n_rows

    def again(self) -> Iterator[tuple[int, GridArray]]:
        """Yield, for each block of a later pass, the index of its first row and the block.

        Raises DataError, at the end or before, if the rows differ from those of the first pass.
        """
        sealing, n_rows = SealedPass(self._seal), 0
        for X, ids in self._rows.with_ids():
            if n_rows + len(X) > self._n_rows:
                raise self.changed()
            yield n_rows, X
            n_rows += len(X)
            if ids is not None:  # else the points are those of the first pass, kept
                sealing.add(X, ids)
        if not (self._rows.are_kept or sealing.is_unbroken()):
            raise self.changed()

    def changed(self) -> DataError:
        """Return the error which says that a pass read other rows than the first pass."""
        return DataError(
            f"{self._source}: the records or their order changed after the first pass, and"
            " every pass must see the same records in the same order; copy the file to a"
            " folder where no program changes it, and start again"
        )
