"""Division, clipping, folding and saturation against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.update import (
    Postprocessing,
    clip_to_radius,
    divide,
    fold,
    is_large_enough,
    postprocess,
    saturate,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
SIZES = st.sampled_from([2, 10, 1000, 2**20, 2**40, 2**62])


def column(*values: int) -> IntArray:
    return np.array(values, dtype=np.int64).reshape(-1, 1)


def rounded(value: Fraction) -> int:
    """Half up."""
    return math.floor(value + Fraction(1, 2))


@st.composite
def quotients(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(SIZES)
    numerators = draw(st.lists(st.integers(-size, size), min_size=1, max_size=6))
    smaller = draw(SIZES)
    counts = [draw(st.integers(-smaller, smaller).filter(bool)) for _ in numerators]
    return numerators, counts


# Division


@settings(max_examples=500)
@given(quotients(), st.integers(0, 32))
def test_division_is_the_rational_quotient_rounded_half_up(
    quotient: tuple[list[int], list[int]], count_bits: int
) -> None:
    numerators, counts = quotient
    exact = [
        rounded(Fraction(r * 2**count_bits, c)) for r, c in zip(numerators, counts, strict=True)
    ]
    assert divide(column(*numerators), np.array(counts), count_bits)[:, 0].tolist() == exact


@given(INT64, INT64.filter(bool), st.integers(0, 32))
def test_division_is_exact_for_every_pair_of_64_bit_integers(
    r: int, c: int, count_bits: int
) -> None:
    assert divide(column(r), np.array([c]), count_bits)[0, 0] == rounded(
        Fraction(r * 2**count_bits, c)
    )


def test_division_at_the_least_integer_does_not_wrap() -> None:
    # np.abs(-2**63) is -2**63: a size taken from it would send the row down the int64 path
    least = -(2**63)
    assert divide(column(least, 5), np.array([1, 2]), 0)[:, 0].tolist() == [least, 3]
    assert divide(column(7, 5), np.array([least, 2]), 3)[:, 0].tolist() == [0, 20]
    assert divide(column(least), np.array([least]), 0)[0, 0] == 1


@given(
    st.lists(
        st.tuples(st.integers(-1000, 1000), st.integers(-50, 50).filter(bool)),
        min_size=1,
        max_size=5,
    )
)
def test_the_int64_path_and_the_path_of_python_integers_agree(pairs: list[tuple[int, int]]) -> None:
    numerators, counts = column(*[r for r, _ in pairs]), np.array([c for _, c in pairs])
    narrow = divide(numerators, counts, 4)
    # one huge row sends all of them down the other path
    wide = divide(np.vstack([numerators, column(2**62)]), np.append(counts, 1), 4)
    assert narrow.dtype == np.int64
    assert wide.dtype == object
    assert narrow[:, 0].tolist() == wide[:-1, 0].tolist()


def test_halves_go_up_and_a_negative_count_turns_the_direction_around() -> None:
    numerators = column(1, -1, 3, -3, 1, -1, 3, -3)
    counts = np.array([2, 2, 2, 2, -2, -2, -2, -2])
    assert divide(numerators, counts, 0)[:, 0].tolist() == [1, 0, 2, -1, 0, 1, -1, 2]
    assert divide(column(7), np.array([-1]), 0)[0, 0] == -7


# Clipping to the radius


@settings(max_examples=300)
@given(
    st.integers(1, 6).flatmap(
        lambda d: st.lists(st.lists(INT64, min_size=d, max_size=d), min_size=1, max_size=4)
    ),
    st.integers(0, 2**53),
    st.integers(0, 62),
)
def test_a_clipped_move_is_no_longer_than_the_radius_and_keeps_its_direction(
    moves: list[list[int]], squared_radius: int, shift: int
) -> None:
    rows = [[m >> shift for m in row] for row in moves]
    radius = math.isqrt(squared_radius)
    for row, clipped in zip(
        rows, clip_to_radius(np.array(rows, dtype=object), squared_radius).tolist(), strict=True
    ):
        squared_norm = sum(m * m for m in row)
        assert sum(m * m for m in clipped) <= squared_radius
        if squared_norm <= squared_radius:
            assert clipped == row
            continue
        # every coordinate is the exact one, shortened by less than a unit and toward zero
        scale = Fraction(radius, math.isqrt(squared_norm) + 1)
        assert clipped == [(1 if m >= 0 else -1) * math.floor(abs(m) * scale) for m in row]
        assert (
            math.sqrt(sum(m * m for m in clipped))
            >= radius * (1 - 1 / math.isqrt(squared_norm)) - math.sqrt(len(row)) - 1
        )


@given(
    st.integers(1, 4).flatmap(
        lambda d: st.lists(st.lists(INT64, min_size=d, max_size=d), min_size=1, max_size=4)
    ),
    st.integers(0, 2**53),
    st.integers(28, 62),
)
def test_clipping_in_int64_and_in_python_integers_agree(
    moves: list[list[int]], squared_radius: int, shift: int
) -> None:
    rows = [
        [m >> shift for m in row] for row in moves
    ]  # up to 2**35: on both sides of where squares fit
    narrow = clip_to_radius(np.array(rows, dtype=np.int64), squared_radius)
    assert np.array_equal(narrow, clip_to_radius(np.array(rows, dtype=object), squared_radius))


def test_a_radius_of_zero_allows_no_move_and_no_row_is_no_row() -> None:
    assert clip_to_radius(np.array([[3, -4], [0, 0]]), 0).tolist() == [[0, 0], [0, 0]]
    assert clip_to_radius(np.zeros((0, 2), dtype=np.int64), 25).shape == (0, 2)
    assert clip_to_radius(np.array([[3, -4], [3, -5]]), 25).tolist() == [[3, -4], [2, -4]]


# Back into the domain


@given(
    st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.integers(1, 2**25)), min_size=1, max_size=8
    ),
    st.integers(-3, 3),
)
def test_folding_reflects_at_the_walls_with_period_four_half_widths(
    cases: list[tuple[int, int]], turns: int
) -> None:
    points, B = np.array([[x for x, _ in cases]]), np.array([b for _, b in cases])
    folded = fold(points, B)
    assert (np.abs(folded) <= B).all()
    assert np.array_equal(fold(points + 4 * B * turns, B), folded)
    assert np.array_equal(fold(2 * B - points, B), folded)  # the wall is a mirror
    assert np.array_equal(fold(folded, B), folded)


@given(st.integers(1, 300), st.integers(-300, 300))
def test_folding_is_reached_by_reflecting_step_by_step(B: int, x: int) -> None:
    y = x
    while abs(y) > B:
        y = 2 * B - y if y > B else -2 * B - y
    assert fold(np.array([[x]]), np.array([B]))[0, 0] == y


@given(st.integers(1, 2**25), st.data())
def test_w28_folding_is_the_identity_on_the_domain_where_the_printed_formula_is_not(
    B: int, data: st.DataObject
) -> None:
    x = data.draw(st.integers(-B, B))
    assert fold(np.array([[x]]), np.array([B]))[0, 0] == x


def test_w28_the_printed_formula_maps_one_half_to_minus_one_half() -> None:
    def printed(x: float) -> float:
        y = (x + 1) % 2
        return (2 - y if y > 1 else y) - 1

    B = 2**16
    for x in (0.5, 0.9):
        assert printed(x) == pytest.approx(-x)
        assert fold(np.array([[int(x * B)]]), np.array([B]))[0, 0] == int(x * B)
    assert fold(np.array([[B + 1, -B - 1, 3 * B, 2 * B]]), np.array([B] * 4)).tolist() == [
        [B - 1, 1 - B, -B, 0]
    ]


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=2),
    st.lists(st.integers(1, 2**20), min_size=2, max_size=2),
)
def test_the_three_rules_agree_inside_the_domain_and_two_of_them_return_to_it(
    points: list[int], widths: list[int]
) -> None:
    B = np.array(widths)
    limited = saturate(np.array([points]), 2**26)
    assert (np.abs(limited) <= 2**26).all()
    results = {rule: postprocess(limited, B, rule) for rule in Postprocessing}
    assert np.array_equal(results[Postprocessing.NONE], limited)
    assert np.array_equal(
        results[Postprocessing.TRUNCATE],
        [[max(-b, min(b, x)) for x, b in zip(limited[0], B, strict=True)]],
    )
    assert all(
        (np.abs(results[rule]) <= B).all()
        for rule in (Postprocessing.TRUNCATE, Postprocessing.FOLD)
    )
    if (np.abs(limited) <= B).all():
        assert all(np.array_equal(result, limited) for result in results.values())


@given(st.integers(-(10**40), 10**40), st.integers(1, 2**26))
def test_saturation_takes_integers_of_any_size_to_int64(x: int, limit: int) -> None:
    saturated = saturate(np.array([[x, 0]], dtype=object), limit)
    assert saturated.dtype == np.int64
    assert saturated.tolist() == [[max(-limit, min(limit, x)), 0]]


# The floor under counts


@given(
    st.lists(INT64, min_size=1, max_size=6),
    st.integers(0, 32),
    st.fractions(0, 10**6, max_denominator=1000),
)
def test_counts_at_or_above_the_floor_are_worth_a_division(
    counts: list[int], count_bits: int, min_count: Fraction
) -> None:
    assume(min_count > 0)
    expected = [Fraction(c, 2**count_bits) >= min_count for c in counts]
    assert is_large_enough(np.array(counts), count_bits, min_count).tolist() == expected


def test_w27_the_floor_keeps_centroids_that_the_papers_rule_would_throw_away() -> None:
    # count + 1e-9 sent count 0 to 3e9, and count -2 away from the data
    counts = np.array([-2, -1, 0, 1, 17, 18, 19])
    assert is_large_enough(counts, 0, Fraction(18)).tolist() == [False] * 5 + [True] * 2
    assert is_large_enough(counts, 0, Fraction(0)).tolist() == [
        True,
        True,
        False,
        True,
        True,
        True,
        True,
    ]
    assert is_large_enough(counts, 0, Fraction(1, 1000)).tolist() == [False] * 3 + [True] * 4
    assert not is_large_enough(counts, 4, Fraction(10**30)).any()
