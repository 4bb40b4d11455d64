"""Letters, measured as they are drawn: names come from users, and none may run off its place or into another."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from fastlloyd.reports.pictures import DOTS_PER_INCH

LEAST = 3  # letters of a name that is cut


@contextmanager
def boxes_for_letters_the_font_lacks() -> Iterator[None]:
    """A name in a script the font lacks is drawn as boxes, and nobody is warned."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


@lru_cache(maxsize=4096)
def width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches of a line of text at a size in points."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    with boxes_for_letters_the_font_lacks():
        renderer: Any = RendererAgg
        dots, _, _ = renderer(1, 1, DOTS_PER_INCH).get_text_width_height_descent(text, font, ismath=False)
    return float(dots) / DOTS_PER_INCH


def fitted(text: str, size: float, inches: float, *, bold: bool = False) -> str:
    """The text if it is no wider, or else its beginning and its end: names often differ there."""
    if width(text, size, bold=bold) <= inches:
        return text
    fits, most = LEAST, len(text)
    while most - fits > 1:
        tried = (fits + most) // 2
        fits, most = (tried, most) if width(_cut(text, tried), size, bold=bold) <= inches else (fits, tried)
    return _cut(text, fits)


def wrapped(text: str, size: float, inches: float, *, bold: bool = False) -> list[str]:
    """The text in lines that are no wider; a word that is, is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width(longer, size, bold=bold) <= inches:
            lines[-1] = longer
        else:
            lines.append(fitted(word, size, inches, bold=bold))
    return lines


def _cut(text: str, n: int) -> str:
    """n letters of the text, two thirds of them from its beginning."""
    tail = n // 3
    return f"{text[: n - tail]}…{text[len(text) - tail :]}"
