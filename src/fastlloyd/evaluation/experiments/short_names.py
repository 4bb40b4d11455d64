"""Names that are short for many: braces expand as in a shell."""

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from fastlloyd.errors import PlanError

MAX_NAMES = 10_000  # that one name with braces stands for
MAX_LETTERS, MAX_DEPTH = 1000, 20

_Parts = list[Any]  # of a name, from left to right: (text,), a range of numbers, or a list of alternatives, `_Parts` themselves
_RANGE = re.compile(r"(-?[0-9]{1,100})\.\.(-?[0-9]{1,100})")


def expand(text: str) -> list[str]:
    """The names that "synth-{2,4}-{1..3}" stands for, the last brace running fastest; braces may stand within braces.

    Raises PlanError where a brace has no partner or holds a single item, or where the names are more than 10,000; they are
    counted before any is made.
    """
    if len(text) > MAX_LETTERS:
        raise PlanError(f"{text!r:.80}... has {len(text):,} letters; expected a name of at most {MAX_LETTERS:,}")
    (parts,) = _alternatives(iter(re.split("([{},])", text)), text)
    if (n := _count(parts)) > MAX_NAMES:
        raise PlanError(
            f"{text!r:.80} stands for {n:,} names; expected at most {MAX_NAMES:,}: write it as several shorter ones"
        )
    return list(_names(parts))


def _count(parts: _Parts) -> int:
    """How many names there are, by arithmetic alone."""
    return math.prod(
        abs(part.stop - part.start) if isinstance(part, range) else sum(map(_count, part))
        for part in parts
        if not isinstance(part, tuple)
    )


def _names(parts: _Parts) -> Iterator[str]:
    choices = (itertools.chain.from_iterable(map(_names, part)) if isinstance(part, list) else part for part in parts)
    return ("".join(map(str, chosen)) for chosen in itertools.product(*choices))


def _alternatives(pieces: Iterator[str], text: str, depth: int = 0) -> list[_Parts]:
    """What stands between commas, up to the brace that closes; outside of all braces, the one name."""
    if depth > MAX_DEPTH:
        raise PlanError(f"{text!r:.80} has braces within braces, {depth} deep; expected at most {MAX_DEPTH}")
    found: list[_Parts] = [[]]
    closed = False
    for piece in pieces:
        if closed := piece == "}":
            break
        if piece == "{":
            found[-1].append(_brace(_alternatives(pieces, text, depth + 1), text))
        elif piece == "," and depth:
            found.append([])
        elif piece:
            found[-1].append((piece,))
    if closed is not bool(depth):
        raise PlanError(f"{text!r:.80} has a brace without a partner; write it as in {{2,4}}")
    return found


def _brace(items: list[_Parts], text: str) -> list[_Parts] | range:
    if len(items) > 1:
        return items
    span = _RANGE.fullmatch(items[0][0][0]) if len(items[0]) == 1 and isinstance(items[0][0], tuple) else None
    if span is None:
        raise PlanError(f"{text!r:.80} has a brace that holds one item; expected several, as in {{2,4}} or {{1..3}}")
    first, last = int(span[1]), int(span[2])
    step = 1 if first <= last else -1
    return range(first, last + step, step)
