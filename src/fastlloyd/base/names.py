"""Names and numbers that people type: lists, repeated and unknown names, and likely corrections."""

import csv
import difflib
import enum
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from numbers import Number
from typing import TypeVar

from fastlloyd.base.numerals import REAL
from fastlloyd.errors import DataError, PlanError

E = TypeVar("E", bound=enum.Enum)
T = TypeVar("T")
# of an algorithm, a party, a data set, a unit of protection
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_RULE = "a-z, A-Z, 0-9, dot, dash or underscore (no umlauts, no accents), at most 64 of them"
"""Phrase that states which characters `NAME` accepts."""
_SEVERAL = re.compile(r".*[b-df-hj-np-rtv-ze]s")  # bus, boss, basis and canvas are one
_MARKS = re.compile(r"[._]")
_LISTED = 20  # names shown at most


def same(name: str) -> str:
    """Return the common form of a name's spellings, which differ only in case or in -, _ and
    dot.
    """
    return _MARKS.sub("-", name.casefold())


def is_plural(name: str) -> bool:
    """Return whether a word is probably a plural, such as patients or families."""
    return _SEVERAL.fullmatch(name) is not None


def parse_columns(text: str) -> list[str]:
    """Return column names from a list that is separated by commas.

    A name with a comma must be in double quotes. Raises DataError for an empty or repeated name.
    """
    names = split_list(text)
    if not names or "" in names:
        raise DataError(f"columns {text!r}: a name is empty; separate names by single commas")
    refuse_repeated(names, f"columns {text!r}")
    return names


def unknown_name(name: str, known: Sequence[str]) -> str:
    """Return the end of an error message that refuses `name` as unknown.

    It suggests the most similar known name, if there is one, and then lists all known names.
    """
    return f"{name!r} is unknown{nearest_name(name, known)}; the known names are {listing(known)}"


def nearest_name(name: str, known: Sequence[str]) -> str:
    """Return a question in parentheses that suggests the most similar known name, or "" if none is
    similar.
    """
    meant = nearest(name, known)
    if not meant:
        return ""
    if unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", meant):
        return (
            f" (it looks like {meant!r}, but the accents are stored in another way: copy that name)"
        )
    return f" (did you mean {meant!r}?)"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that was probably meant, or None if none is near.

    cutoff : necessary similarity. 1 accepts only the same name, and 0 accepts any.
    """
    names = list(known)
    same_letters = [each for each in names if cutoff < 1 and each.casefold() == name.casefold()]
    near = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return next(iter([*same_letters, *near]), None)


def refuse_repeated(names: Sequence[str], where: str) -> None:
    """Raise DataError if a name occurs twice.

    where : beginning of the message.
    """
    for name, occurrences in Counter(names).most_common(1):
        if occurrences > 1:
            raise DataError(
                f"{where}: {name!r} occurs {occurrences} times; every column needs a name of its"
                " own"
            )


def listing(names: Sequence[str]) -> str:
    """Return the names in quotes, at most twenty of them."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


def split_list(text: str) -> list[str]:
    """Return the items of a text that is split at commas outside double quotes. Raises DataError if
    a quotation mark has no partner or quotes a part of an item.

    Quotation marks and spaces around an item are dropped.
    """
    try:
        return [
            item.strip()
            for row in csv.reader([text], skipinitialspace=True, strict=True)
            for item in row
        ]
    except csv.Error:
        raise DataError(
            f"{text!r} cannot be split at its commas, because a quotation mark has no partner or"
            " quotes only a part of an item; if a name contains a comma, put double quotes around"
            " the whole item"
        ) from None


def joined_list(items: Iterable[str]) -> str:
    """Return the text that `split_list` splits into these items."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(items)
    return text.getvalue()


def shown(value: object) -> str:
    """Return a setting as a message shows it: text, a number, a truth value or None as written.

    Any other value may contain records, so only its type is shown.
    """
    written = value is None or isinstance(value, str | Number)
    if written and type(value).__module__ in ("builtins", "numpy", "fractions", "decimal"):
        return f"{value!r:.40}"
    return f"a value of type {type(value).__name__:.40}"


def choose(kind: type[E], value: str | E, field: str) -> E:
    """Return the member of an enum with this value.

    Raises PlanError for an unknown value. The message names the field and all values.
    """
    return (
        value
        if isinstance(value, kind)
        else named({str(member.value): member for member in kind}, value, field)
    )


def named(known: Mapping[str, T], name: object, field: str) -> T:
    """Return the value with this name.

    Raises PlanError for an unknown name. The message shows the field, the nearest name and all
    names.
    """
    if isinstance(name, str) and name in known:
        return known[name]
    meant = nearest(name.lower(), known) if isinstance(name, str) else None
    hint = f"did you mean {meant!r}? " if meant else ""
    raise PlanError(f"{field} {shown(name)} is unknown; {hint}expected one of: {', '.join(known)}")


def fraction(value: float | Fraction | str, field: str) -> Fraction:
    """Return the decimal number that a person wrote, exactly (0.8 is 4/5).

    Raises PlanError, with the name of the field, if the value is not a number.
    """
    text = str(value) if isinstance(value, str | Number) else ""
    if len(text) <= 100 and re.fullmatch(rf"{REAL}|[0-9]+/[0-9]+", text):
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(text)
    raise PlanError(f"{field} is {shown(value)}; expected a number such as 0.8")
