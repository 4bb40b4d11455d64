"""Intervals that contain the records of a feature, read from noisy histograms.

The histograms of a feature form a tree. Level 1 has eight intervals (nodes), and each further level
divides every node into eight. All comparisons are between integers, so every machine has the same
result.

A node counts as occupied if its noisy count exceeds the threshold for noise. Each occupied node
without an occupied child is widened by one node of the same size on either side. All of these nodes
together span an interval. The interval is accepted if noise can explain the counts outside.
Otherwise the next attempt uses one level less, down to the first level. After an interval is
accepted, fewer levels are tried as well, because they may include the last few records. Their
interval is used unless it is much wider.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from fastlloyd.base.precision import exact, fifty_digits
from fastlloyd.mechanisms.queries.histograms import BRANCHES

# in one of so many cases noise alone makes any node of an exchange look like one with records
BY_CHANCE = 100
OUTSIDE = 50  # one of so many records may lie outside
FEWER = 4  # times as few: then nothing wider is tried
# of an interval one of so many parts is added on either side: two leaves of those it is divided
# into next
MARGIN = 256
WIDER = 4  # times as wide may be what leaves out so few

Levels = Sequence[Sequence[int]]
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds for noisy counts, as integers in units of the answer.

    node : a node is occupied if its count exceeds this threshold.
    outside : entry n is `OUTSIDE` times the allowance for the noise in a sum of the counts of n
        nodes.
    """

    node: int
    outside: tuple[int, ...]

    @classmethod
    @cache
    def of(cls, deviation: float, n_features: int, n_leaves: int) -> Self:
        """Return the thresholds for noise of deviation sigma in the count of every node.

        They are sigma sqrt(2 ln(2 n_features n_leaves / .01)) for a node, and sigma sqrt(n + 8) for
        a sum of n nodes. Both are computed with 50 digits and rounded up. The leaves below or above
        an interval are a union of at most 7 nodes of each level, so n is at most 14 for each level.

        deviation : sigma, the deviation of the total noise.
        """
        with fifty_digits() as mp:
            sigma, n_levels = (
                exact(mp, deviation),
                n_leaves.bit_length() // (BRANCHES.bit_length() - 1),
            )
            node = sigma * mp.sqrt(2 * mp.log(2 * BY_CHANCE * n_features * n_leaves))
            outside = (
                OUTSIDE * sigma * mp.sqrt(n + BRANCHES)
                for n in range(2 * (BRANCHES - 1) * n_levels + 1)
            )
            return cls(_up(mp, node), tuple(_up(mp, each) for each in outside))


def _up(mp: Any, value: Any) -> int:
    """Return the smallest integer that is not below `value`, a number with 50 digits."""
    return int(mp.ceil(value))


def interval(
    levels: Levels, thresholds: Thresholds, *, open_below: bool, open_above: bool
) -> Interval | None:
    """Return the range [first, last) of leaves with nearly all records of a feature, or None.

    None means that noise hides the records.

    levels : noisy counts of 8, 64, 512, ... nodes.
    open_below, open_above : False if the first or last leaf contains clipped values. Such a leaf
        belongs to no interval, and its records count as outside.
    """
    n_leaves, n_records = len(levels[-1]), sum(levels[0])
    least, most = int(not open_below), n_leaves - int(not open_above)
    found: Interval | None = None
    for depth in range(len(levels), 0, -1):
        ends = [*_spanning(levels[:depth], thresholds.node, n_leaves, least, most)]
        if not ends:
            continue
        first, last = (
            max(min(low for low, _ in ends), least),
            min(max(high for _, high in ends), most),
        )
        if found and last - first > WIDER * (found[1] - found[0]):
            break
        outside = _outside(levels, first, last, thresholds)
        if FEWER * outside <= n_records or (not found and outside <= n_records):
            found = first, last
        if FEWER * outside <= n_records:
            break
    if not found:
        return None
    first, last = found
    margin = (last - first) // MARGIN
    return max(first - margin, least), min(last + margin, most)


def _spanning(
    levels: Levels, node: int, n_leaves: int, least: int, most: int
) -> Iterator[Interval]:
    """Yield a range of leaves for each occupied node without an occupied child.

    The range contains the leaves of the node and of its two neighbours.

    node : a node is occupied if its count exceeds this threshold.
    least, most : occupied leaves outside [least, most) are ignored.
    """
    children: Sequence[int] = ()
    for counts in reversed(levels):
        size = n_leaves // len(counts)
        for i, count in enumerate(counts):
            is_cut = size == 1 and not least <= i < most
            if (
                count > node
                and not is_cut
                and not any(child > node for child in children[BRANCHES * i : BRANCHES * (i + 1)])
            ):
                yield size * (i - 1), size * (i + 2)
        children = counts


def _outside(levels: Levels, first: int, last: int, thresholds: Thresholds) -> int:
    """Return `OUTSIDE` times the noisy number of records outside the leaves [first, last), minus
    the allowance for noise.

    The number of records is the sum of the counts outside, or the total minus the sum inside. The
    sum with fewer noisy counts is used.
    """
    (below, n_below), (above, n_above) = (
        _total(levels, 0, first),
        _total(levels, last, len(levels[-1])),
    )
    outside, n = below + above, n_below + n_above
    inside, n_inside = _total(levels, first, last)
    if n_inside + BRANCHES < n:
        outside, n = sum(levels[0]) - inside, n_inside + BRANCHES
    return OUTSIDE * outside - thresholds.outside[n]


def _total(levels: Levels, first: int, last: int) -> tuple[int, int]:
    """Return the noisy count of the leaves [first, last), and the number of nodes that are added
    up.

    The sum has as few nodes as possible.
    """
    total = n = 0
    for counts in reversed(levels):
        # children of whole nodes
        low, high = -(-first // BRANCHES) * BRANCHES, last // BRANCHES * BRANCHES
        if counts is levels[0] or low > high:
            low = high = last
        total, n = (
            total + sum(counts[first:low]) + sum(counts[high:last]),
            n + low - first + last - high,
        )
        first, last = low // BRANCHES, high // BRANCHES
    return total, n
