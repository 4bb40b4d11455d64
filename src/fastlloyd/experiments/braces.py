"""Names in short: braces expand as in a shell."""

import re
from collections.abc import Iterator

from fastlloyd.errors import PlanError

MAX_NAMES = 10_000
_RANGE = re.compile(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})")


def expand(text: str) -> list[str]:
    """The names that "synth-{2,4}-{1..3}" stands for, the last brace running fastest; braces may stand within braces.

    Raises PlanError where a brace has no partner or holds a single item, or where the names are more than 10,000.
    """
    names = [""]
    for parts in _factors(text):
        if len(names) * len(parts) > MAX_NAMES:
            raise PlanError(f"{text!r:.80} stands for more than {MAX_NAMES} names; write it as several shorter ones")
        names = [name + part for name in names for part in parts]
    return names


def _factors(text: str) -> Iterator[list[str]]:
    """Literal text, as one item, and braces, as the items they hold, from left to right."""
    start = 0
    while (opening := text.find("{", start)) >= 0:
        closing = _partner(text, opening)
        yield [_literal(text, text[start:opening])]
        yield _items(text, text[opening + 1 : closing])
        start = closing + 1
    yield [_literal(text, text[start:])]


def _items(text: str, inner: str) -> list[str]:
    if (span := _RANGE.fullmatch(inner)) is not None:
        first, last = int(span[1]), int(span[2])
        if abs(last - first) >= MAX_NAMES:
            raise PlanError(f"{text!r:.80} stands for more than {MAX_NAMES} names; write it as several shorter ones")
        step = 1 if first <= last else -1
        return [str(number) for number in range(first, last + step, step)]
    parts = _split(inner)
    if len(parts) < 2:
        raise PlanError(f"{text!r:.80} has a brace that holds one item; expected several, as in {{2,4}} or {{1..3}}")
    return [name for part in parts for name in expand(part)]


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
        if depth == 0:
            return place
    raise PlanError(f"{text!r:.80} has a brace without a partner; write it as in {{2,4}}")


def _literal(text: str, part: str) -> str:
    if "}" in part:
        raise PlanError(f"{text!r:.80} has a brace without a partner; write it as in {{2,4}}")
    return part
