"""What noisy histograms say of where the records of a feature lie: comparisons of integers, the same on every machine.

A node whose count is above what noise reaches holds records. Those of them without such children span an interval, with one
more node of their size on either side. It is accepted if hardly more records lie outside than noise could pretend; otherwise
the same is tried with one level less, down to the eight nodes of the first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.mechanisms.queries.histograms import BRANCHES

BY_CHANCE = 20  # in one of so many cases noise alone makes any node of an exchange look like one with records
OUTSIDE = 50  # one of so many records may lie outside

Levels = Sequence[Sequence[int]]
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Integers in units of the answer. A node counts if it is above `node`; `outside[n]` times `OUTSIDE` allows for n nodes."""

    node: int
    outside: tuple[int, ...]

    @classmethod
    @cache
    def of(cls, deviation: float, n_features: int, n_leaves: int) -> Self:
        """For noise of that total deviation in every node: sigma sqrt(2 ln(2 d leaves / .05)), and sigma sqrt(n + 8).

        Both rounded up, from 50 digits. Of a prefix of the leaves and a suffix, at most 7 nodes of each level are added up.
        """
        with fifty_digits() as mp:
            sigma, n_levels = exact(mp, deviation), n_leaves.bit_length() // (BRANCHES.bit_length() - 1)
            node = sigma * mp.sqrt(2 * mp.log(2 * BY_CHANCE * n_features * n_leaves))
            outside = (OUTSIDE * sigma * mp.sqrt(n + BRANCHES) for n in range(2 * (BRANCHES - 1) * n_levels + 1))
            return cls(_up(mp, node), tuple(_up(mp, each) for each in outside))


def _up(mp: Any, value: Any) -> int:
    """The least integer that is not below a number of 50 digits."""
    return int(mp.ceil(value))


def interval(levels: Levels, thresholds: Thresholds, *, open_below: bool, open_above: bool) -> Interval | None:
    """The leaves [first, last) that hold nearly all records of a feature; None where noise hides them.

    levels : noisy counts of 8, 64, 512, ... nodes. open_below, open_above : whether the first and the last leaf are leaves like
    any other. Otherwise they hold what was cut there, belong to no interval, and count as outside.
    """
    n_leaves = len(levels[-1])
    least, most = int(not open_below), n_leaves - int(not open_above)
    for depth in range(len(levels), 0, -1):
        ends = [*_spanning(levels[:depth], thresholds.node, n_leaves, least, most)]
        if ends:
            first, last = max(min(low for low, _ in ends), least), min(max(high for _, high in ends), most)
            if _is_enough(levels, first, last, thresholds):
                return first, last
    return None


def _spanning(levels: Levels, node: int, n_leaves: int, least: int, most: int) -> Iterator[Interval]:
    """Leaves of the nodes that hold records and have no such children, each with its neighbours on either side."""
    children: Sequence[int] = ()
    for counts in reversed(levels):
        size = n_leaves // len(counts)
        for i, count in enumerate(counts):
            is_cut = size == 1 and not least <= i < most
            if count > node and not is_cut and not any(child > node for child in children[BRANCHES * i : BRANCHES * (i + 1)]):
                yield size * (i - 1), size * (i + 2)
        children = counts


def _is_enough(levels: Levels, first: int, last: int, thresholds: Thresholds) -> bool:
    """Whether the noisy number of records outside is at most a share of all, and noise."""
    below, n_below = _before(levels, first)
    above, n_above = _before([counts[::-1] for counts in levels], len(levels[-1]) - last)
    return OUTSIDE * (below + above) <= sum(levels[0]) + thresholds.outside[n_below + n_above]


def _before(levels: Levels, leaf: int) -> tuple[int, int]:
    """The noisy count of all leaves before one, by the fewest nodes, and how many these are."""
    total = n = first = 0
    for counts in levels:
        last = leaf * len(counts) // len(levels[-1])
        total, n = total + sum(counts[first:last]), n + last - first
        first = BRANCHES * last
    return total, n
