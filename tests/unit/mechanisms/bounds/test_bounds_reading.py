"""What noisy histograms are read as: thresholds by a second route, and intervals of histograms that
are easy to overlook.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.mechanisms.bounds.reading import Interval, Levels, Thresholds, _total, interval

ONLY = Thresholds(node=100, outside=(0,) * 57)  # nothing outside is put down to noise


def levels_of(leaves: Sequence[int]) -> Levels:
    """Exact levels above these leaves."""
    levels = [list(leaves)]
    while len(levels[0]) > 8:
        levels.insert(0, np.reshape(levels[0], (-1, 8)).sum(axis=1).tolist())
    return levels


def leaves_with(n: int, counts: dict[int, int]) -> Levels:
    return levels_of([counts.get(leaf, 0) for leaf in range(n)])


def read(
    levels: Levels,
    thresholds: Thresholds = ONLY,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> Interval | None:
    return interval(levels, thresholds, open_below=open_below, open_above=open_above)


@pytest.mark.parametrize("deviation", [1.0, 33.3, 79.94328308105469, 1e-3, 2.0**40])
@pytest.mark.parametrize(("d", "leaves"), [(1, 512), (2, 4096), (33, 512), (1024, 512)])
def test_thresholds_are_the_stated_numbers_rounded_up(
    deviation: float, d: int, leaves: int
) -> None:
    """By the decimal module, with as many digits."""
    found = Thresholds.of(deviation, d, leaves)
    with localcontext() as context:
        context.prec = 60
        sigma = Decimal(deviation)
        node = sigma * (2 * (Decimal(2 * d * leaves) / Decimal("0.01")).ln()).sqrt()
        outside = [50 * sigma * Decimal(n + 8).sqrt() for n in range(len(found.outside))]
        assert found.node == node.to_integral_value(ROUND_CEILING)
        assert list(found.outside) == [
            int(value.to_integral_value(ROUND_CEILING)) for value in outside
        ]
    assert (
        len(found.outside) == 2 * 7 * round(math.log(leaves, 8)) + 1
    )  # the most that a prefix and a suffix are made of
    assert all(a < b for a, b in pairwise(found.outside)) or deviation < 1


def test_a_threshold_that_is_no_integer_is_not_rounded_down() -> None:
    exact = 10.0 * math.sqrt(2 * math.log(2 * 2 * 4096 / 0.01))
    assert Thresholds.of(10.0, 2, 4096).node == math.floor(exact) + 1


def test_one_leaf_is_found_with_a_neighbour_on_either_side() -> None:
    assert read(leaves_with(512, {77: 1000})) == (76, 79)
    assert read(leaves_with(4096, {2000: 1000})) == (1999, 2002)


def test_leaves_that_noise_hides_are_found_by_the_node_above_them() -> None:
    assert read(leaves_with(512, dict.fromkeys(range(80, 88), 50))) == (72, 96)


def test_a_node_at_its_threshold_is_not_above_it() -> None:
    assert read(leaves_with(64, {30: 100})) is None
    assert read(leaves_with(64, {30: 101})) == (29, 32)


def test_what_was_cut_belongs_to_no_interval_unless_the_range_ends_there() -> None:
    levels = leaves_with(64, {0: 101, 1: 9000})
    assert read(levels) == (1, 3)
    assert read(levels, open_below=True) == (0, 3)
    mirrored = leaves_with(64, {63: 101, 62: 9000})
    assert read(mirrored) == (61, 63)
    assert read(mirrored, open_above=True) == (61, 64)


def test_many_records_that_were_cut_make_an_interval_unacceptable() -> None:
    levels = leaves_with(64, {0: 300, 30: 9000})  # more than a fiftieth
    assert read(levels) is None
    assert read(levels, open_below=True) == (0, 32)


def test_two_percent_outside_are_accepted_and_one_record_more_is_not() -> None:
    few = dict.fromkeys(range(20), 10)
    assert read(leaves_with(64, {40: 9800, **few}), Thresholds(node=250, outside=(0,) * 29)) == (
        39,
        42,
    )
    assert (
        read(leaves_with(64, {40: 9798, **few, 1: 11}), Thresholds(node=250, outside=(0,) * 29))
        is None
    )


@pytest.mark.parametrize(
    ("counts", "found", "n", "outside"),
    [
        (
            {42: 1000, 10: 90},
            (41, 44),
            11,
            90,
        ),  # 3 leaves inside and all 8 nodes: 12 would be outside
        (
            {8: 500, 55: 500, 63: 90},
            (7, 57),
            14,
            90,
        ),  # 7 leaves on either side: 8 would be inside, and all 8 nodes
    ],
)
def test_noise_outside_is_allowed_for_by_how_many_counts_are_added_up(
    counts: dict[int, int], found: Interval, n: int, outside: int
) -> None:
    levels = leaves_with(64, counts)
    needed = 50 * outside - sum(counts.values())
    allowed = [0] * 29
    allowed[n] = needed
    assert read(levels, Thresholds(node=100, outside=tuple(allowed))) == found
    allowed[n] -= 1
    assert read(levels, Thresholds(node=100, outside=tuple(allowed))) != found


def test_what_lies_outside_is_added_up_there_or_is_what_all_have_more_than_the_inside() -> None:
    """By noisy counts that contradict each other: a leaf that its node does not know, a node that
    has more than its leaves.
    """
    few = Thresholds(node=100, outside=(0,) * 29)
    near = leaves_with(64, {42: 1000})
    assert read([near[0], [*near[1][:10], 90, *near[1][11:]]], few) == (41, 44)
    assert read([[90, *near[0][1:]], near[1]], few) != (41, 44)
    wide = leaves_with(64, {8: 500, 55: 500})
    assert read([wide[0], [*wide[1][:60], 90, *wide[1][61:]]], few) != (7, 57)
    assert read([[*wide[0][:3], 90, *wide[0][4:]], wide[1]], few) == (7, 57)


@settings(max_examples=200)
@given(
    st.sampled_from([8, 64, 512]), st.integers(0, 512), st.integers(0, 512), st.integers(0, 2**32)
)
def test_leaves_are_added_up_by_the_largest_nodes_within(
    n: int, one: int, other: int, seed: int
) -> None:
    first, last = sorted((one % (n + 1), other % (n + 1)))
    leaves = np.random.default_rng(seed).integers(-99, 100, n).tolist()
    levels = levels_of(leaves)
    within = [
        [
            first <= i * n // len(level) and (i + 1) * n // len(level) <= last
            for i in range(len(level))
        ]
        for level in levels
    ]
    largest = [
        sum(w and not (depth and within[depth - 1][i // 8]) for i, w in enumerate(here))
        for depth, here in enumerate(within)
    ]
    assert _total(levels, first, last) == (sum(leaves[first:last]), sum(largest))


@pytest.mark.parametrize("end", [False, True])
def test_a_wide_interval_is_not_read_so_that_records_at_its_end_lie_in_an_end_leaf_of_what_follows(
    end: bool,
) -> None:
    """Noise makes a leaf far away look like one with records. An end leaf of the next histograms
    belongs to no interval.
    """
    counts = {1000: 9000, 3500: 500}
    first, last = read(
        leaves_with(4096, {4095 - leaf: n for leaf, n in counts.items()} if end else counts)
    ) or (0, 0)
    found = 3095 if end else 1000
    step = (last - first) / 512
    assert first + step < found
    assert found + 1 < last - step
    assert last - first < 2600
    near = {1: 9000, 3500: 500}
    first, last = read(
        leaves_with(4096, {4095 - leaf: n for leaf, n in near.items()} if end else near)
    ) or (0, 0)
    assert (last == 4095) if end else (first == 1)  # no further than to the leaves that were cut


def test_if_too_much_is_outside_a_coarser_level_is_tried() -> None:
    """90 records are hidden beside the node of one leaf with many: its neighbours hold them, those
    of the leaf do not.
    """
    levels = leaves_with(64, {8: 500} | dict.fromkeys(range(1, 7), 15))
    assert read(levels) == (1, 24)
    assert read(leaves_with(64, {8: 500})) == (7, 10)


@pytest.mark.parametrize(
    ("tail", "narrow", "wide"), [(50, 5, 6), (51, 5, 24), (200, 5, 24), (201, 24, 24)]
)
def test_a_tail_is_taken_in_if_it_takes_no_more_than_four_times_the_width(
    tail: int, narrow: int, wide: int
) -> None:
    """Two leaves with many records and their neighbours are 5 leaves or 6; their node and its
    neighbours 24.
    """
    for other, width in ((42, narrow), (43, wide)):
        levels = leaves_with(64, {40: 9000, other: 1000 - tail, 33: tail})
        first, last = read(levels, Thresholds(node=250, outside=(0,) * 29)) or (0, 0)
        assert last - first == width


def test_what_leaves_out_few_more_is_kept_where_nothing_coarser_will_do() -> None:
    levels = leaves_with(64, {30: 9900, 63: 100})  # cut at the end
    assert read(levels) == (29, 32)
    assert read(leaves_with(64, {30: 5000, 35: 4900, 63: 100})) == (29, 37)


def test_nothing_is_found_where_there_is_only_noise() -> None:
    generator = np.random.default_rng(0)
    levels = [
        np.rint(generator.normal(0, 20, 8**level)).astype(int).tolist() for level in (1, 2, 3, 4)
    ]
    assert read(levels, Thresholds.of(20.0, 1, 4096)) is None


def test_counts_near_the_ends_of_64_bits_do_not_wrap() -> None:
    huge = 2**62
    assert read(leaves_with(64, {20: huge})) == (19, 22)
    assert read([[-huge] * 8, [-huge] * 64]) is None
