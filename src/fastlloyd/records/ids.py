"""Ids, which say to which person each record of a block belongs.

An id is a text: the cell of a text file, or an integer in decimal. So 7 is the same person in every
format, and "007" is another person. A missing id is an empty text, or a word for a missing value
(`is_missing`). It is refused, because records of an unknown person cannot be protected together. No
repr and no message shows an id.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fastlloyd.errors import DataError
from fastlloyd.records.cells import WORDS, is_missing

MISSING = (
    "the id is missing, so it is unknown whose record it is; fill it in or take the record out"
)
BROKEN = "text that is not valid Unicode; read its source again, in the right encoding"
FLOATS = "ids must be integers or text, because rounding can make the ids of two persons equal"
SHORTENED = (
    "the id is a number with a power of ten, such as 1.2E+15; a spreadsheet may turn the long ids"
    " of several persons into one such number: export the ids as text"
)
_POWER_OF_TEN = re.compile(rb" *[0-9](\.[0-9]+)?[eE]\+[0-9]+ *")
_PLUS = ord("+")
_LONGEST_WORD = max(map(len, WORDS))
_INITIALS = np.frombuffer(
    "".join({letter for word in WORDS for letter in word[:1] + word[:1].upper()}).encode(), np.uint8
)
_MOST_SIGNED = (1 << 63) - 1
_SPACE = ord(" ")  # what ASCII has below is space too, or nothing to see


def in_utf8(texts: Sequence[str]) -> list[bytes] | None:
    """Return the texts in UTF-8, or None if UTF-8 cannot encode one of them.

    Python's own error would show the text.
    """
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError:
        return None


class Ids(ABC):
    """Ids of records, in their order.

    kind : kind of the ids in the source, "integers" or "text", for error messages.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def kept(self, which: npt.NDArray[np.bool_]) -> Self:
        """Return the ids of the records that are kept.

        which : whether each record is kept, bool (n,).
        """

    @abstractmethod
    def cut(self, start: int, stop: int) -> Self:
        """Return the ids at the positions `start` to `stop` - 1."""

    @abstractmethod
    def missing(self) -> npt.NDArray[np.bool_]:
        """Return whether each id is missing, bool (n,)."""

    @abstractmethod
    def shortened(self) -> npt.NDArray[np.intp]:
        """Return the positions of ids that a spreadsheet has shortened, such as 1.2E+15.

        Such an id may stand for several persons.
        """

    @abstractmethod
    def texts(self) -> list[bytes]:
        """Return all ids in UTF-8."""

    @abstractmethod
    def cells(self) -> tuple[npt.NDArray[Any], ...]:
        """Return arrays that together distinguish these ids from all other ids of this kind."""

    @classmethod
    @abstractmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the ids of all parts in their order. There is at least one part."""


class IntegerIds(Ids):
    """Ids that are integers, int64 or uint64 (n,). An array of bool (n,) marks missing ids."""

    __slots__ = ("_gaps", "_numbers")
    kind = "integers"

    def __init__(
        self, numbers: npt.NDArray[Any], gaps: npt.NDArray[np.bool_] | None = None
    ) -> None:
        self._numbers = numbers.astype(
            np.uint64 if numbers.dtype.kind == "u" else np.int64, copy=False
        )
        self._gaps = np.zeros(len(numbers), dtype=np.bool_) if gaps is None else gaps

    def __len__(self) -> int:
        return len(self._numbers)

    def kept(self, which: npt.NDArray[np.bool_]) -> IntegerIds:
        """Return the chosen ids, with their marks for missing ids."""
        return IntegerIds(self._numbers[which], self._gaps[which])

    def cut(self, start: int, stop: int) -> IntegerIds:
        """Return the ids at the positions `start` to `stop` - 1, with their marks for missing
        ids.
        """
        return IntegerIds(self._numbers[start:stop], self._gaps[start:stop])

    def missing(self) -> npt.NDArray[np.bool_]:
        """Return the marks of missing ids, bool (n,)."""
        return self._gaps

    def shortened(self) -> npt.NDArray[np.intp]:
        """Return no positions, because integers are never shortened."""
        return np.empty(0, dtype=np.intp)

    def texts(self) -> list[bytes]:
        """Return the integers in decimal."""
        return [b"%d" % number for number in self._numbers.tolist()]

    def cells(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the integers, (n,)."""
        return (self._numbers,)

    @classmethod
    def joined(cls, parts: Sequence[IntegerIds]) -> IntegerIds:
        """Return the integers of all parts in their order.

        Raises DataError if neither int64 nor uint64 can represent all of them.
        """
        numbers = [part.cells()[0] for part in parts]
        if (
            len({each.dtype for each in numbers}) > 1
        ):  # NumPy makes floats of both, which take several persons for one
            signed = any((each < 0).any() for each in numbers)
            if signed and any((each > _MOST_SIGNED).any() for each in numbers):
                raise DataError(
                    f"some ids are negative and some are above {_MOST_SIGNED}; write all ids as"
                    " text"
                )
            numbers = [each.astype(np.int64 if signed else np.uint64) for each in numbers]
        return cls(np.concatenate(numbers), np.concatenate([part.missing() for part in parts]))


class TextIds(Ids):
    """Ids that are texts in UTF-8.

    letters : bytes of all texts, one after the other, uint8.
    lengths : number of bytes of each text, int64 (n,).
    """

    __slots__ = ("_lengths", "_letters")
    kind = "text"

    def __init__(self, letters: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> None:
        self._letters, self._lengths = letters, lengths

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> TextIds:
        """Return the ids with these texts."""
        return cls(
            np.frombuffer(b"".join(texts), dtype=np.uint8),
            np.fromiter(map(len, texts), np.int64, len(texts)),
        )

    def __len__(self) -> int:
        return len(self._lengths)

    def kept(self, which: npt.NDArray[np.bool_]) -> TextIds:
        """Return the chosen ids."""
        return TextIds(self._letters[np.repeat(which, self._lengths)], self._lengths[which])

    def cut(self, start: int, stop: int) -> TextIds:
        """Return the texts at the positions `start` to `stop` - 1."""
        before, within = int(self._lengths[:start].sum()), int(self._lengths[start:stop].sum())
        return TextIds(self._letters[before : before + within], self._lengths[start:stop])

    def missing(self) -> npt.NDArray[np.bool_]:
        """Return whether each id is missing, bool (n,).

        Only texts as short as a word for a missing value, or with a space at one end, are converted
        for the check.
        """
        found = self._lengths == 0
        ends, there = np.cumsum(self._lengths), np.flatnonzero(~found)
        starts = ends - self._lengths
        first, last = self._letters[starts[there]], self._letters[ends[there] - 1]
        short = np.isin(first, _INITIALS) & (self._lengths[there] <= _LONGEST_WORD)
        for at in there[short | (first <= _SPACE) | (last <= _SPACE)]:
            found[at] = is_missing(
                self._letters[starts[at] : ends[at]].tobytes().decode(errors="replace")
            )
        return np.asarray(found)

    def begin_with_a_space(self) -> npt.NDArray[np.bool_]:
        """Return whether each id begins with a space, bool (n,)."""
        there = self._lengths > 0
        there[there] = self._letters[(np.cumsum(self._lengths) - self._lengths)[there]] == _SPACE
        return np.asarray(there)

    def shortened(self) -> npt.NDArray[np.intp]:
        """Return the positions of ids that a spreadsheet has shortened.

        Only texts with a plus sign are converted for the check.
        """
        ends = np.cumsum(self._lengths)
        there = np.unique(
            np.searchsorted(ends, np.flatnonzero(self._letters == _PLUS), side="right")
        )
        texts = [self._letters[ends[at] - self._lengths[at] : ends[at]].tobytes() for at in there]
        return (
            there[[bool(_POWER_OF_TEN.fullmatch(text)) for text in texts]] if len(there) else there
        )

    def texts(self) -> list[bytes]:
        """Return the texts in UTF-8 as a list."""
        letters = self._letters.tobytes()
        return [
            letters[start:end] for start, end in pairwise([0, *np.cumsum(self._lengths).tolist()])
        ]

    def cells(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the bytes of all texts, uint8, and the length of each text, int64 (n,)."""
        return self._letters, self._lengths

    @classmethod
    def joined(cls, parts: Sequence[TextIds]) -> TextIds:
        """Return the texts of all parts in their order. There is at least one part."""
        letters, lengths = zip(*(part.cells() for part in parts), strict=True)
        return cls(np.concatenate(letters), np.concatenate(lengths))
