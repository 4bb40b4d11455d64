"""Names that people type: lists of them, repeated ones, unknown ones and what was probably meant."""

import csv
import difflib
from collections import Counter
from collections.abc import Iterable, Sequence

from fastlloyd.errors import DataError

_LISTED = 20  # names shown at most


def parse_columns(text: str) -> list[str]:
    """Column names from a list separated by commas; a name that holds a comma stands in double quotes."""
    names = split_list(text)
    if not names or "" in names:
        raise DataError(f"columns {text!r}: a name is empty; separate names by single commas")
    refuse_repeated(names, f"columns {text!r}")
    return names


def unknown_name(name: str, known: Sequence[str]) -> str:
    """Say, after the kind of thing `name` should be, that it is none of the `known`, and which of them is nearest."""
    return f"{name!r} is unknown{nearest_name(name, known)}; there are {listing(known)}"


def nearest_name(name: str, known: Sequence[str]) -> str:
    """A question in brackets, whether the nearest of the `known` names was meant; "" if none is near."""
    meant = nearest(name, known)
    return f" (did you mean {meant!r}?)" if meant else ""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant, None if none is near; cutoff : 1 asks for the same name, 0 takes any."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def refuse_repeated(names: Sequence[str], where: str) -> None:
    """Raise DataError if a name occurs twice."""
    for name, occurrences in Counter(names).most_common(1):
        if occurrences > 1:
            raise DataError(f"{where}: {name!r} occurs {occurrences} times; every column needs its own name")


def listing(names: Sequence[str]) -> str:
    """Names in quotes, cut off after twenty."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


def split_list(text: str) -> list[str]:
    """Split at commas outside double quotes; quotation marks and spaces around an item are dropped."""
    try:
        return [item.strip() for row in csv.reader([text], skipinitialspace=True, strict=True) for item in row]
    except csv.Error:
        raise DataError(f"{text!r} cannot be split at its commas; a quotation mark has no partner") from None
