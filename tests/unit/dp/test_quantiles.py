"""The bounds of the quantiles' polynomials, which a proof gives: what tries to violate them, and
what they must catch.

Oracle: mpmath with 300 bits, and for the normal law Newton's method on its distribution function.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from fastlloyd.dp.quantiles import EXPONENTIAL, LOWEST_BIT, NORMAL, Cells, Law, cells_of

LAWS = {"normal": NORMAL, "exponential": EXPONENTIAL}
ENDS = {"normal": 2**63, "exponential": 2**64}


def normal_quantile(p: mpmath.mpf) -> mpmath.mpf:
    z = mpmath.mpf(NORMAL.guess(float(p)))
    for _ in range(6):  # from 2^-26 or so, twice as many digits in each
        z -= (mpmath.ncdf(z) - p) / mpmath.npdf(z)
    return z


QUANTILES: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "normal": normal_quantile,
    "exponential": mpmath.log,
}


def places(cells: Cells, end: int) -> list[tuple[int, int]]:
    """First and last word of each cell."""
    starts = [
        (1 << e) + (j << (e - 5))
        for e in range(LOWEST_BIT, end.bit_length() - 1)
        for j in range(32)
    ]
    assert len(starts) == cells.coarse.size
    return list(zip(starts, [*(start - 1 for start in starts[1:]), end - 1], strict=True))


def computed(cells: Cells, cell: int, word: int) -> mpmath.mpf:
    """What float64 makes of the quantile, its whole part and its rest added without rounding."""
    t = (float(word - int(cells.centre[cell])) + float(cells.rest[cell])) / float(cells.width[cell])
    offset = 0.0
    for coefficient in reversed(cells.coefficients):
        offset = (offset + float(coefficient[cell])) * t
    return mpmath.mpf(int(cells.coarse[cell])) / 2**20 + offset


def worst(law: str, cells: Cells, every: int) -> float:
    """The largest error in units of its bound: at both ends, in the middle and at two other words
    of every so manieth cell.
    """
    generator = np.random.default_rng(1)
    ratio = 0.0
    with mpmath.workprec(300):
        for cell, (first, last) in list(enumerate(places(cells, ENDS[law])))[::-every]:
            others = [int(first + x * (last - first)) for x in generator.random(2)]
            for word in (first, last, (first + last) // 2, int(cells.centre[cell]), *others):
                value = computed(cells, cell, word)
                for u in (word, min(word + 1, ENDS[law] - 1)):
                    error = abs(QUANTILES[law](mpmath.mpf(u) / 2**64) - value)
                    ratio = max(ratio, float(error / mpmath.mpf(float(cells.bound[cell]))))
    return ratio


@pytest.mark.parametrize("law", LAWS)
def test_no_quantile_is_farther_from_its_polynomial_than_the_bound(law: str) -> None:
    # every eighth cell; in the outermost the word's own width makes up the bound, so it is nearly
    # reached
    assert 0.5 < worst(law, cells_of(LAWS[law]), 8) < 1


@pytest.mark.audit
@pytest.mark.parametrize("law", LAWS)
def test_no_quantile_of_any_cell_is_farther_from_its_polynomial_than_the_bound(law: str) -> None:
    assert 0.5 < worst(law, cells_of(LAWS[law]), 1) < 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("power", "factor"), [(1, 1 + 2.0**-20), (3, 1 + 2.0**-20), (6, 0.0)])
def test_a_coefficient_that_is_off_by_a_millionth_or_missing_violates_the_bound(
    law: str, power: int, factor: float
) -> None:
    cells = cells_of(LAWS[law])
    coefficients = [c * factor if n == power else c for n, c in enumerate(cells.coefficients, 1)]
    assert worst(law, replace(cells, coefficients=np.array(coefficients)), 64) > 1


@pytest.mark.parametrize("law", LAWS)
def test_a_centre_that_is_off_by_a_millionth_of_a_cell_violates_the_bound(law: str) -> None:
    cells = cells_of(LAWS[law])
    moved = cells.centre + (cells.width * 2.0**-20).astype(np.uint64)
    assert worst(law, replace(cells, centre=moved), 64) > 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "scale", [Fraction(1, 3), Fraction(2**30 + 7, 3), Fraction(2) ** 44, Fraction(2**60 - 1, 65536)]
)
def test_brackets_enclose_what_exact_arithmetic_makes_of_both_ends_of_a_word(
    law: str, scale: Fraction
) -> None:
    generator = np.random.default_rng(3)
    shift = 0.5 if law == "normal" else 0.0
    least, end = 2**LOWEST_BIT, ENDS[law]
    top = end.bit_length() - 1
    words = [int(2**x) for x in generator.uniform(LOWEST_BIT, top, 40)]
    words += [end - int(2**x) for x in generator.uniform(1, 58, 40)]
    words += [least, least + 1, end - 1, end // 2, end // 2 - 1, end - 2**10]
    words += cells_of(LAWS[law]).centre[::50].tolist()
    low, high = cells_of(LAWS[law]).brackets(np.array(words, dtype=np.uint64), scale, shift)
    with mpmath.workprec(300):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        for word, below, above in zip(words, low.tolist(), high.tolist(), strict=True):
            for u in (word, min(word + 1, end - 1)):
                assert (
                    below
                    <= int(mpmath.ceil(s * QUANTILES[law](mpmath.mpf(u) / 2**64) - shift))
                    <= above
                )


def test_blocks_change_nothing() -> None:
    words = np.random.default_rng(5).integers(2**LOWEST_BIT, 2**63, 20_000, dtype=np.uint64)
    cells = cells_of(NORMAL)
    whole = cells.brackets(words, Fraction(2) ** 44, 0.5)
    assert np.array_equal(
        whole[:, 8000:9000], cells.brackets(words[8000:9000], Fraction(2) ** 44, 0.5)
    )


def test_nothing_rests_on_the_guess() -> None:
    # centres elsewhere in their cells, by up to a hundredth of a cell: other polynomials, and the
    # bounds hold
    def elsewhere(u: float) -> float:
        return NORMAL.guess(u * (1 + 2.0**-12))

    moved = Law(
        cdf=NORMAL.cdf, density=NORMAL.density, guess=elsewhere, slope=NORMAL.slope, top=NORMAL.top
    )
    cells = cells_of(moved)
    assert not np.array_equal(cells.coarse, cells_of(NORMAL).coarse)
    assert worst("normal", cells, 64) < 1


def test_a_guess_out_of_its_cell_is_refused() -> None:
    with pytest.raises(AssertionError, match="not contain its"):
        cells_of(
            Law(
                cdf=NORMAL.cdf,
                density=NORMAL.density,
                guess=lambda u: NORMAL.guess(u * 1.1),
                slope=(0, 1),
                top=63,
            )
        )
