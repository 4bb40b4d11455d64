"""The format of a text file: what its owner states, and the readings that remain.

A text file does not say how it is to be read: `34,5` may be one number or two. A program that
decides by the first lines, or by most lines, lets one record decide how all others are read. Then
two data sets that differ in one record differ in all records, and no guarantee of differential
privacy holds. So nothing is chosen here. What is not stated has a few possible readings
(`readings`), and a file is accepted only if one of them fits all lines (`trials`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from fastlloyd.errors import DataError
from fastlloyd.records.cells import PLAIN, Notation, as_words
from fastlloyd.records.declared import LAYOUT

YES, NO = "yes", "no"
SEPARATORS: Mapping[str, str] = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Separators of a file that does not state its own, with their names."""

_NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "space": " ", "bar": "|"}
_UNUSABLE = re.compile(r"[\w\"'+.\-\r\n?]")  # parts of numbers, words or quotation marks
_THOUSANDS = {"point": ".", "comma": ",", "space": " ", "apostrophe": "'"}
_SAMPLE = 'a,b;1.5\t-2\r\n"x" ~|+&\\\'\n'
# codecs of Python that do more than to write characters as bytes, or in which the bytes of one line
# can change how the next lines are decoded
_STRANGE = {"hz", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "utf-7", "undefined"}


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Statements about the format of a text file. None means "not stated", never a guess.

    separator : character between cells, or its name (comma, semicolon, tab, space, bar).
    decimal : decimal mark of numbers, "." or ",".
    thousands : mark between groups of three digits (. , ' or a space), or its name.
    encoding : name of Python's codec of the text. If it is not stated, the text must be UTF-8.
    header : "yes" if the first line names the columns, "no" if it is a record.
    skip_lines : number of lines above the header or the first record.
    missing_words : words for a missing cell, besides an empty cell, NA, NaN, null and ?. Upper
        case, and spaces around a word, do not matter.

    Raises DataError with code "layout" for a field that cannot be used.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    header: str | None = None
    skip_lines: int = 0
    missing_words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, known in (("separator", _NAMED), ("thousands", _THOUSANDS)):
            given = getattr(self, name)
            msgspec.structs.force_setattr(self, name, known.get(str(given), given))
        _check_marks(self)
        if self.encoding is not None:
            msgspec.structs.force_setattr(self, "encoding", _codec(self.encoding))
        if self.header not in (None, YES, NO):
            raise _wrong("header", "it must be yes or no")
        if type(self.skip_lines) is not int or not 0 <= self.skip_lines <= 10_000:
            raise _wrong("skip_lines", "it must be a whole number from 0 to 10000")
        words: Any = self.missing_words
        if not isinstance(words, list | tuple) or not all(
            isinstance(word, str) and word.strip() and word.isprintable() for word in words
        ):
            raise _wrong("missing_words", "it must be a list of words, none of them empty")
        msgspec.structs.force_setattr(self, "missing_words", tuple(words))

    @property
    def stated(self) -> tuple[str, ...]:
        """Names of the fields that the user has stated: those that differ from the default."""
        plain = Layout()
        return tuple(
            name for name in self.__struct_fields__ if getattr(self, name) != getattr(plain, name)
        )


class Reading(NamedTuple):
    """One way to read a text file.

    separator : character between cells.
    notation : notation of numbers and of missing cells.
    is_stated : the separator was stated, or follows from the suffix, so there may be one column.
    barred : characters that no cell may contain, because they would separate cells in another
        reading.
    """

    separator: str
    notation: Notation = PLAIN
    is_stated: bool = False
    barred: str = ""


def readings(layout: Layout, path: str) -> list[Reading]:
    """Return the possible ways to read a file at this path, given its layout.

    If nothing is stated, there are five readings: commas with decimal points, and semicolons or
    tabs, each with decimal points or decimal commas. The suffix .tsv stands for tabs.
    """
    separator = layout.separator
    if separator is None and ".tsv" in PurePosixPath(path.lower()).suffixes[-2:]:
        separator = "\t"
    return [
        Reading(mark, _notation(layout, decimal), separator is not None)
        for mark in (SEPARATORS if separator is None else [separator])
        for decimal in ([layout.decimal] if layout.decimal else ".,")
        if decimal not in (mark, layout.thousands)
    ]


def alone(layout: Layout) -> Reading:
    """Return the reading of a file of one column, which has no separator.

    If the decimal mark is not stated, it is a point.
    """
    decimal = layout.decimal or ("," if layout.thousands == "." else ".")
    separator = ";" if decimal == "," else ","
    barred = "".join(mark for mark in SEPARATORS if mark not in (decimal, separator))
    return Reading(separator, _notation(layout, decimal), barred=barred)


def _notation(layout: Layout, decimal: str) -> Notation:
    return Notation(decimal, layout.thousands or "", as_words(layout.missing_words))


def check_no_layout(layout: Layout, path: str) -> None:
    """Raise DataError if something is stated about text, for a file of another format."""
    if stated := layout.stated:
        raise DataError(
            f"{stated[0]} has no effect on {path}, because its format is not text; leave it out",
            code=LAYOUT,
            field=stated[0],
        )


def _check_marks(layout: Layout) -> None:
    """Raise DataError for marks that cannot be used, or that contradict each other."""
    separator: Any = layout.separator
    decimal, thousands = layout.decimal, layout.thousands
    if separator is not None and (
        not isinstance(separator, str)
        or len(separator) != 1
        or not separator.isascii()
        or (not separator.isprintable() and separator != "\t")
        or _UNUSABLE.match(separator)
    ):
        raise _wrong(
            "separator", "it must be one character, or comma, semicolon, tab, space or bar"
        )
    if decimal not in (None, ".", ","):
        raise _wrong("decimal", "it must be a point (.) or a comma (,)")
    if thousands not in (None, *_THOUSANDS.values()):
        raise _wrong("thousands", "it must be a point, comma, apostrophe or space")
    if decimal is not None and decimal == separator:
        raise _wrong(
            "decimal",
            (f"the separator is the same character, {separator!r}; change one of the two"),
        )
    if thousands is not None and thousands in (decimal, separator):
        raise _wrong("thousands", "it must differ from decimal and separator")
    if thousands == "." and separator == ",":
        raise _wrong("thousands", "the comma would then be both the decimal mark and the separator")


def _codec(stated: Any) -> str:
    """Return Python's name of a codec that writes each text as bytes and back, or raise
    DataError.
    """
    fault = "it must name an encoding of text that Python knows, such as utf-8, cp1252 or utf-16"
    try:
        found = codecs.lookup(stated)
        decoder = codecs.getincrementaldecoder(stated)("strict")
        octets = _SAMPLE.encode(stated)
        back = "".join(decoder.decode(bytes([octet])) for octet in octets) + decoder.decode(
            b"", True
        )
    except (LookupError, UnicodeError, TypeError, ValueError, AttributeError):
        raise _wrong("encoding", fault) from None
    name = found.name.replace("_", "-")
    if name in _STRANGE or name.startswith("iso2022") or back != _SAMPLE:
        raise _wrong("encoding", fault)
    return found.name


def _wrong(field: str, expected: str) -> DataError:
    return DataError(f"{field} cannot be used: {expected}", code=LAYOUT, field=field)
