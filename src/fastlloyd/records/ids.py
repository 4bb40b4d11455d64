"""Ids: whom each record of a block belongs to, where a person may have several records.

An id is a text: the cell as it stands in a text file, an integer in decimal. So 7 is the same person in every format, and "007"
is another one. A missing id is an empty text, or a word that says so (`is_missing`): records whose person is unknown cannot be
protected together, so it is refused. Ids are private, and stay out of every repr and message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fastlloyd.records.cells import is_missing

MISSING = "the id is missing, and nobody knows whose record it is; fill it in or take the record out"
FLOATS = "ids are integers or text: of numbers with a decimal point nobody can tell which are the same person"
_LONGEST_WORD = 4  # characters of a word that says that a cell is missing
_SUSPECT = np.frombuffer(b"nN?", dtype=np.uint8)  # first letters of these words


class Ids(ABC):
    """Ids of records, in their order.

    kind : what they are in the source, "integers" or "text", for messages.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @abstractmethod
    def __len__(self) -> int:
        """Number of records."""

    @abstractmethod
    def kept(self, which: npt.NDArray[np.bool_]) -> Self:
        """Those of the records that are kept, bool (n,)."""

    @abstractmethod
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which are missing, bool (n,)."""

    @abstractmethod
    def texts(self) -> list[bytes]:
        """All of them in UTF-8."""

    @abstractmethod
    def cells(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Two arrays that tell each sequence of ids of this kind from every other."""

    @abstractmethod
    def cut(self, start: int, stop: int) -> Self:
        """Those from one record to another."""

    @classmethod
    @abstractmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Those of all parts, one or more, in their order."""


class IntegerIds(Ids):
    """Integers, int64 or uint64 (n,), of which some may be `gone`, bool (n,)."""

    __slots__ = ("_gone", "_numbers")
    kind = "integers"

    def __init__(self, numbers: npt.NDArray[np.integer[Any]], gone: npt.NDArray[np.bool_] | None = None) -> None:
        self._numbers = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64, copy=False)
        self._gone = np.zeros(len(numbers), dtype=np.bool_) if gone is None else gone

    def __len__(self) -> int:
        return len(self._numbers)

    def kept(self, which: npt.NDArray[np.bool_]) -> IntegerIds:
        return IntegerIds(self._numbers[which], self._gone[which])

    def missing(self) -> npt.NDArray[np.bool_]:
        return self._gone

    def texts(self) -> list[bytes]:
        return [b"%d" % number for number in self._numbers.tolist()]

    def cells(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return self._numbers, np.empty(0, dtype=np.uint8)

    def cut(self, start: int, stop: int) -> IntegerIds:
        return IntegerIds(self._numbers[start:stop], self._gone[start:stop])

    @classmethod
    def joined(cls, parts: Sequence[IntegerIds]) -> IntegerIds:
        return cls(np.concatenate([part._numbers for part in parts]), np.concatenate([part._gone for part in parts]))


class TextIds(Ids):
    """Texts in UTF-8, one behind the other, each of so many bytes: int64 (n,)."""

    __slots__ = ("_bytes", "_lengths")
    kind = "text"

    def __init__(self, text: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> None:
        self._bytes, self._lengths = text, lengths

    @classmethod
    def of(cls, cells: Iterable[str]) -> TextIds:
        """The ids in cells of a text file."""
        texts = [cell.encode() for cell in cells]
        return cls(np.frombuffer(b"".join(texts), dtype=np.uint8), np.fromiter(map(len, texts), np.int64, len(texts)))

    def __len__(self) -> int:
        return len(self._lengths)

    def kept(self, which: npt.NDArray[np.bool_]) -> TextIds:
        return TextIds(self._bytes[np.repeat(which, self._lengths)], self._lengths[which])

    def missing(self) -> npt.NDArray[np.bool_]:
        """Only what is as short as such a word, or has spaces around it, is looked at as text."""
        found = self._lengths == 0
        ends = self._ends()
        there = np.flatnonzero(~found)
        first, last = self._bytes[(ends - self._lengths)[there]], self._bytes[ends[there] - 1]
        short = np.isin(first, _SUSPECT) & (self._lengths[there] <= _LONGEST_WORD)
        for at in there[short | (first <= ord(" ")) | (last <= ord(" "))]:
            text = self._bytes[ends[at] - self._lengths[at] : ends[at]].tobytes()
            found[at] = is_missing(text.decode())
        return found

    def texts(self) -> list[bytes]:
        data = self._bytes.tobytes()
        return [data[start:end] for start, end in pairwise([0, *self._ends().tolist()])]

    def cells(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return self._bytes, self._lengths

    def cut(self, start: int, stop: int) -> TextIds:
        ends = np.concatenate([[0], self._ends()])
        return TextIds(self._bytes[ends[start] : ends[stop]], self._lengths[start:stop])

    @classmethod
    def joined(cls, parts: Sequence[TextIds]) -> TextIds:
        return cls(np.concatenate([part._bytes for part in parts]), np.concatenate([part._lengths for part in parts]))

    def _ends(self) -> npt.NDArray[np.int64]:
        return np.cumsum(self._lengths, dtype=np.int64)
