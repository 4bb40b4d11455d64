"""Names in short: braces expand as in a shell."""

import math
import re
from collections.abc import Iterator

from fastlloyd.errors import PlanError

MAX_NAMES = 10_000
MAX_LETTERS, MAX_DEPTH = 1000, 20
_RANGE = re.compile(r"(-?[0-9]{1,100})\.\.(-?[0-9]{1,100})")


def expand(text: str) -> list[str]:
    """The names that "synth-{2,4}-{1..3}" stands for, the last brace running fastest; braces may stand within braces.

    Raises PlanError where a brace has no partner or holds a single item, or where the names are more than 10,000; they are
    counted before any is made.
    """
    if len(text) > MAX_LETTERS:
        raise PlanError(f"{text!r:.80}... has {len(text):,} letters; expected a name of at most {MAX_LETTERS:,}")
    if (n := _count(text)) > MAX_NAMES:
        raise PlanError(
            f"{text!r:.80} stands for {n:,} names; expected at most {MAX_NAMES:,}: write it as several shorter ones"
        )
    return _expanded(text)


def _count(text: str) -> int:
    """How many names a text stands for, by arithmetic alone."""
    return math.prod(
        abs(items.stop - items.start) if isinstance(items, range) else sum(_count(item) for item in items)
        for brace, items in _factors(text)
        if brace
    )


def _expanded(text: str) -> list[str]:
    names = [""]
    for brace, items in _factors(text):
        if isinstance(items, range):
            parts = [str(number) for number in items]
        else:
            parts = [name for item in items for name in _expanded(item)] if brace else items
        names = [name + part for name in names for part in parts]
    return names


def _factors(text: str) -> Iterator[tuple[bool, list[str] | range]]:
    """From left to right: literal text, as one item, and braces (True), as the items they hold, which may hold braces."""
    start = 0
    while (opening := text.find("{", start)) >= 0:
        closing = _partner(text, opening)
        yield False, [_literal(text, text[start:opening])]
        yield True, _items(text, text[opening + 1 : closing])
        start = closing + 1
    yield False, [_literal(text, text[start:])]


def _items(text: str, inner: str) -> list[str] | range:
    if (span := _RANGE.fullmatch(inner)) is not None:
        first, last = int(span[1]), int(span[2])
        step = 1 if first <= last else -1
        return range(first, last + step, step)
    parts = _split(inner)
    if len(parts) < 2:
        raise PlanError(f"{text!r:.80} has a brace that holds one item; expected several, as in {{2,4}} or {{1..3}}")
    return parts


def _split(inner: str) -> list[str]:
    """Items at the commas that stand within no other brace."""
    parts, depth = [""], 0
    for character in inner:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _partner(text: str, opening: int) -> int:
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth > MAX_DEPTH:
            raise PlanError(f"{text!r:.80} has braces within braces, {depth} deep; expected at most {MAX_DEPTH}")
        if depth == 0:
            return place
    raise PlanError(f"{text!r:.80} has a brace without a partner; write it as in {{2,4}}")


def _literal(text: str, part: str) -> str:
    if "}" in part:
        raise PlanError(f"{text!r:.80} has a brace without a partner; write it as in {{2,4}}")
    return part
