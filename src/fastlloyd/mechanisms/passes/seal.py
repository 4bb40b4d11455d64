"""Whether a later pass sees the rows of the first: the same points of the same persons, in the same order.

Shares belong to rows by their place. If rows moved between two passes, a person could have more shares than the noise is for.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.poly1305 import Poly1305

from fastlloyd.base.randomness import Keystreams
from fastlloyd.clustering.domain import GridArray, is_by_feature
from fastlloyd.errors import DataError
from fastlloyd.records.ids import Ids

SPAN = 1 << 16  # rows that one tag stands for
_LABEL: Final = b"fastlloyd/v1/persons/seal"
_KEY_BYTES: Final = 32


class Seal:
    """The tags of all spans of rows, under a key that nothing but this object holds.

    A tag is that of Poly1305 (RFC 8439) under a key for this span alone, of the same span's numbers, never of others that
    anybody sees: two sequences of rows have the same tag with a probability below 2**-70.
    """

    def __init__(self, source: str) -> None:
        """source : of the rows, for messages."""
        self._source = source
        self._keys = Keystreams(os.urandom(_KEY_BYTES), _LABEL)
        self._tags: list[tuple[bytes, ...]] | None = None

    def over(self) -> SealedPass:
        """What is shown the rows of a pass."""
        return SealedPass(self)

    def sealing(self, span: int, n: int) -> list[Poly1305]:
        """n authenticators for the numbers of a span of rows."""
        keys = self._keys.of(span.to_bytes(8, "big"), n * _KEY_BYTES)
        return [Poly1305(keys[at : at + _KEY_BYTES]) for at in range(0, len(keys), _KEY_BYTES)]

    def close(self, tags: list[tuple[bytes, ...]]) -> None:
        """Keep the tags of the first pass; those of a later one are compared with them. Raises DataError."""
        self._tags = self._tags or tags
        if self._tags != tags:
            raise self.broken()

    def broken(self) -> DataError:
        """Say that a pass saw other rows than the first."""
        return DataError(
            f"{self._source}: the records, or their order, are not those of the first pass, and every pass must see the same; "
            "copy the file to where nobody writes, and start again"
        )


class SealedPass:
    """The rows of a pass so far."""

    def __init__(self, seal: Seal) -> None:
        self._seal, self._n_rows = seal, 0
        self._open: list[Poly1305] = []
        self._tags: list[tuple[bytes, ...]] = []

    def add(self, X: GridArray, ids: Ids) -> None:
        """Show the next rows, grid points (n, n_features), and whose they are."""
        start = 0
        while start < len(X):
            n = min(SPAN - self._n_rows % SPAN, len(X) - start)
            points = X[start : start + n]
            numbers = [*(points.T if is_by_feature(X) else [points]), *ids.cut(start, start + n).cells()]
            self._open = self._open or self._seal.sealing(len(self._tags), len(numbers))
            for sealing, cells in zip(self._open, numbers, strict=True):
                sealing.update(np.ascontiguousarray(cells).reshape(-1).view(np.uint8).data)
            start, self._n_rows = start + n, self._n_rows + n
            if self._n_rows % SPAN == 0:
                self._end_span()

    def close(self) -> None:
        """End the pass. Raises DataError if the rows were not those of the first pass."""
        if self._open:
            self._end_span()
        self._seal.close(self._tags)

    def _end_span(self) -> None:
        self._tags.append(tuple(sealing.finalize() for sealing in self._open))
        self._open = []
