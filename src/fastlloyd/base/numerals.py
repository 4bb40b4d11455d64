"""Numbers as people write them, in options and in texts such as NAME:CAP and LO:HI.

A number must have one meaning in every country, so 4.000 and 4,000 are not accepted as whole
numbers.
"""

import math
import re
from typing import Final

MAX_DIGITS: Final = 19
"""Largest number of digits of a whole number."""

REAL: Final = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
"""Regular expression of a real number."""

_WHOLE: Final = re.compile(rf"[0-9]{{1,{MAX_DIGITS}}}")
_REAL: Final = re.compile(REAL)
_MAX_CHARACTERS: Final = 400  # of a real number; the longest that a program writes has 330


def whole(text: str) -> int:
    """Return the whole number in a text of 1 to 19 digits 0-9 and no other character. Raises
    ValueError for any other text.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)


def real(text: str) -> float:
    """Return the finite number in a text of digits with at most one decimal point, perhaps a minus
    sign in front and an exponent behind. Raises ValueError for any other text.
    """
    if len(text) > _MAX_CHARACTERS or not _REAL.fullmatch(text):
        raise ValueError
    if math.isinf(number := float(text)):
        raise ValueError
    return number


def expected_whole(least: float | None = None, most: float | None = None) -> str:
    """Return a phrase for error messages that says that a whole number is expected, and in which
    range.
    """
    return f"a whole number{_range(least, most)}: digits only, such as 12"


def expected_real(least: float | None = None, most: float | None = None) -> str:
    """Return a phrase for error messages that says that a real number is expected, and in which
    range.
    """
    return f"a number{_range(least, most)}: digits with at most one decimal point, such as 0.5"


def _range(least: float | None, most: float | None) -> str:
    if most is not None:
        return f" from {least or 0:g} to {most:g}"
    return "" if least is None else f", {least:g} or more"
