"""Dates in text, in formats that consist of numbers, and their conversion to days since 1 January
1970.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from fastlloyd.base.names import shown

FIRST_DAY: Final = dt.date(1970, 1, 1).toordinal()
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIRECTIVES: Final = {
    "%Y": r"(?P<Y>[0-9]{4})",
    "%m": r"(?P<m>[0-9]{1,2})",
    "%d": r"(?P<d>[0-9]{1,2})",
    "%H": r"(?P<H>[0-9]{1,2})",
    "%M": r"(?P<M>[0-9]{1,2})",
    "%S": r"(?P<S>[0-9]{1,2})",
}
_NEEDED: Final = ("%Y", "%m", "%d")
_SECONDS = 86_400  # seconds of a day
_LONGEST = 60


def day_of(text: str) -> float:
    """Return the days from 1 January 1970 to a date as YYYY-MM-DD. Raises ValueError for any other
    text.
    """
    if not _ISO.fullmatch(text):
        raise ValueError(text)
    return float(dt.date.fromisoformat(text).toordinal() - FIRST_DAY)


def is_day(text: object) -> bool:
    """Return whether a value is the text of a date as YYYY-MM-DD."""
    try:
        return isinstance(text, str) and day_of(text) is not None
    except ValueError:
        return False


def date_of(day: float) -> dt.date | None:
    """Return the date that is `day` days after 1 January 1970, or None if no calendar has such a
    date.
    """
    ordinal = FIRST_DAY + round(day) if np.isfinite(day) else 0
    return dt.date.fromordinal(ordinal) if 1 <= ordinal <= dt.date.max.toordinal() else None


def check_format(form: object) -> None:
    """Raise ValueError, with a sentence, unless `form` is a format of dates."""
    example = 'such as "%d.%m.%Y"'
    if not isinstance(form, str) or not 0 < len(form) <= _LONGEST or not form.isprintable():
        raise ValueError(f"the format of dates is {shown(form)}; expected a text {example}")
    found = re.findall(r"%.?", form)
    if unknown := [each for each in found if each not in _DIRECTIVES]:
        raise ValueError(
            f"the format of dates has {unknown[0]!r}; expected only {', '.join(_DIRECTIVES)}"
        )
    if repeated := [each for each in _DIRECTIVES if found.count(each) > 1]:
        raise ValueError(f"the format of dates has {repeated[0]} twice; leave one out")
    if lacking := [each for each in _NEEDED if each not in found]:
        raise ValueError(f"the format of dates lacks {lacking[0]}; write it in full, {example}")
    if re.search(r"[0-9]", form):
        raise ValueError(f"the format of dates has a digit; expected a text {example}")


def reader_of(form: str) -> Callable[[str], float | None]:
    """Return a function from a text to days since 1 January 1970, or to None if the text is not a
    date in this format.

    form : as `check_format` accepts it. A time of the day is a fraction of the day. Days and months
        may have one digit, unless the next part follows without a sign between.
    """
    parts = re.split(r"(%.)", form)
    pattern = "".join(_DIRECTIVES.get(part) or re.escape(part) for part in parts)
    if re.search(r"%.%", form):
        pattern = pattern.replace("{1,2}", "{2}")
    matches = re.compile(pattern).fullmatch

    def day(text: str) -> float | None:
        found = matches(text)
        if found is None:
            return None
        part = {name: int(digits) for name, digits in found.groupdict().items()}
        try:
            date = dt.date(part["Y"], part["m"], part["d"])
            time = dt.time(part.get("H", 0), part.get("M", 0), part.get("S", 0))
        except ValueError:
            return None
        seconds = 3600 * time.hour + 60 * time.minute + time.second
        return date.toordinal() - FIRST_DAY + seconds / _SECONDS

    return day
