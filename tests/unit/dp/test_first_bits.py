"""Values that the first 32 or 40 bits decide: the bounds that a proof gives, what they must catch,
and the probabilities that follow.

Oracle: mpmath with 300 bits, and for the normal law Newton's method on its distribution function.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base import compiling
from fastlloyd.dp import first_bits
from fastlloyd.dp.first_bits import CELL_BITS, LARGEST_SCALES, Cubics, cubics_of
from fastlloyd.dp.noise import rounded_gaussian, two_sided_geometric
from fastlloyd.dp.quantiles import EXPONENTIAL, NORMAL, Law, cells_of
from fastlloyd.testing import SeededNoise

LAWS = {"normal": NORMAL, "exponential": EXPONENTIAL}
DRAWS = {"normal": rounded_gaussian, "exponential": two_sided_geometric}
PER_PLACE = 2**CELL_BITS
N_PLACES = 24  # u from 2^-24 on has a cell


def normal_quantile(u: mpmath.mpf) -> mpmath.mpf:
    z = mpmath.mpf(NORMAL.guess(float(u)))
    for _ in range(6):  # from 2^-26 or so, twice as many digits in each
        z -= (mpmath.ncdf(z) - u) / mpmath.npdf(z)
    return z


QUANTILES: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "normal": normal_quantile,
    "exponential": mpmath.log,
}
CDFS: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "normal": mpmath.ncdf,
    "exponential": mpmath.exp,
}


def starts(law: Law, n_bits: int) -> list[int]:
    """The first number of each cell, of those with `n_bits` bits after the point."""
    places = range(n_bits - N_PLACES, n_bits - law.mirrored)
    return [(PER_PLACE + j) << place >> CELL_BITS for place in places for j in range(PER_PLACE)]


def cubic(cubics: Cubics, n_bits: int, known: int) -> tuple[mpmath.mpf, float]:
    """The cubic in the middle of a number, without rounding, and the bound on its error."""
    place = known.bit_length() - 1
    cell, within = divmod(2 * known + 1 - (2 << place), 2 << place >> CELL_BITS)
    column = 1 + (place - n_bits + N_PLACES) * PER_PLACE + cell
    t = mpmath.mpf(within) / (2 << place >> CELL_BITS)
    c = [float(coefficient) for coefficient in cubics.table[:, column]]
    return c[0] + t * (c[1] + t * (c[2] + t * c[3])), c[4]


def worst(law: str, n_bytes: int, cubics: Cubics, every: int) -> float:
    """The largest error in units of its bound: at both ends and in the middle of every so manieth
    cell, for both ends of a number.
    """
    n_bits, ratio = 8 * n_bytes, 0.0
    first = starts(LAWS[law], n_bits)
    with mpmath.workprec(300):
        for start, end in list(pairwise([*first, 2 ** (n_bits - LAWS[law].mirrored)]))[::-every]:
            eighths = {start + (end - start) * i // 8 for i in range(8)}
            for known in {*eighths, end - 1}:
                value, bound = cubic(cubics, n_bits, known)
                for u in (known, known + 1):
                    error = abs(QUANTILES[law](mpmath.ldexp(u, -n_bits)) - value)
                    ratio = max(ratio, float(error / bound))
    return ratio


# Bounds


@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_no_quantile_is_farther_from_its_cubic_than_the_bound(law: str, n_bytes: int) -> None:
    # every 61st cell; where the width of a number makes up the bound, it is nearly reached
    assert 0.5 < worst(law, n_bytes, cubics_of(LAWS[law], n_bytes), 61) < 1


@pytest.mark.audit
@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_no_quantile_of_any_cell_is_farther_from_its_cubic_than_the_bound(
    law: str, n_bytes: int
) -> None:
    assert 0.5 < worst(law, n_bytes, cubics_of(LAWS[law], n_bytes), 1) < 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("row", "factor"), [(0, 1 + 2.0**-26), (1, 1 + 2.0**-18), (2, 1 + 2.0**-8), (3, 0.0)]
)
def test_a_coefficient_that_is_off_or_missing_violates_the_bound(
    law: str, row: int, factor: float
) -> None:
    cubics = cubics_of(LAWS[law], 5)
    table = cubics.table.copy()
    table[row] *= factor
    assert worst(law, 5, replace(cubics, table=table), 397) > 1


@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_the_ends_of_cells_and_what_lies_below_them_fall_where_they_belong(
    law: str, n_bytes: int
) -> None:
    # a table that names its columns: at the first number of a cell t is nearly 0
    cubics, first = cubics_of(LAWS[law], n_bytes), starts(LAWS[law], 8 * n_bytes)
    named = np.zeros_like(cubics.table)
    named[0] = -np.arange(named.shape[1])
    end = 2 ** (8 * n_bytes - LAWS[law].mirrored)
    known = np.array([first[0] - 1, *first, *(start - 1 for start in first[1:]), end - 1])
    values, is_open = replace(cubics, table=named).look(known << LAWS[law].mirrored, 1.0, 0.0)
    columns = np.arange(1, len(first) + 1)
    assert named.shape == (5, len(first) + 1)
    assert not is_open.any()
    assert np.array_equal(-values, [0, *columns, *columns])


# What is decided


@pytest.mark.parametrize("law", LAWS)
@settings(max_examples=150, deadline=None)
@given(st.floats(0, 30), st.integers(0, 2**40 - 1), st.integers(0, 24), st.integers(-3, 3))
def test_what_the_first_bits_decide_is_the_answer_for_all_numbers_that_begin_with_them(
    law: str, power: float, number: int, halvings: int, nudge: int
) -> None:
    # any scale; numbers anywhere, in the tail, and next to a value's end
    scale, mirrored = Fraction(2**power), LAWS[law].mirrored
    n_bytes = 4 if scale <= 2**24 else 5
    n_bits = 8 * n_bytes
    known = (number >> halvings) % 2 ** (n_bits - mirrored)
    with mpmath.workprec(300):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        m = int(mpmath.ceil(s * QUANTILES[law]((mpmath.mpf(known) + 1) / 2**n_bits)))
        edge = int(mpmath.ldexp(CDFS[law]((m - mpmath.mpf(mirrored) / 2) / s), n_bits)) + nudge
        tried = [known, min(max(edge, 0), 2 ** (n_bits - mirrored) - 1)]
        firsts = np.array(tried) << mirrored
        values, is_open = cubics_of(LAWS[law], n_bytes).look(firsts, float(scale), mirrored / 2)
        for at, value, undecided in zip(tried, values.tolist(), is_open.tolist(), strict=True):
            if undecided:
                continue
            for end in (at + mpmath.mpf(2) ** -200, at + 1 - mpmath.mpf(2) ** -200):
                q = QUANTILES[law](end / 2**n_bits)
                assert int(mpmath.ceil(s * q - mpmath.mpf(mirrored) / 2)) == value


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3), Fraction(1000, 7)])
def test_as_many_numbers_have_a_value_as_its_exact_probability_says(
    law: str, scale: Fraction
) -> None:
    # the number that holds F(m) is open, the second on either side is decided: so floor(2^32 F(m))
    # numbers have a value of at most m, but for that one and perhaps its neighbours
    cubics, mirrored = cubics_of(LAWS[law], 4), LAWS[law].mirrored
    with mpmath.workprec(300):
        s = mpmath.mpf(scale.numerator) / scale.denominator
        edges = {}
        for m in range(-1, -20 * int(scale), -1):
            edge = int(mpmath.ldexp(CDFS[law]((m + mpmath.mpf(mirrored) / 2) / s), 32))
            if edge < 2**9 * scale:
                break
            edges[m] = edge
    assert len(edges) > 3 * scale
    ms, below = np.array(list(edges)), np.array(list(edges.values()))
    for place, expected in ((below - 2, ms), (below + 2, ms + 1)):
        values, is_open = cubics.look(place << mirrored, float(scale), mirrored / 2)
        assert not is_open.any()
        assert np.array_equal(values, expected)
    assert cubics.look(below << mirrored, float(scale), mirrored / 2)[1].all()


@pytest.mark.parametrize("law", LAWS)
def test_no_number_below_the_cells_is_decided(law: str) -> None:
    for n_bytes in LARGEST_SCALES:
        known = np.arange(2 ** (8 * n_bytes - N_PLACES), step=2 ** (8 * n_bytes - 32))
        _, is_open = cubics_of(LAWS[law], n_bytes).look(known << LAWS[law].mirrored, 1.0, 0.5)
        assert is_open.all()


# Bytes that are drawn


def requests(law: str, scale: Fraction, size: int, seed: int = 3) -> list[int]:
    asked, source = [], SeededNoise(seed)

    def counted(n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return source._bytes(n_bytes)

    DRAWS[law](scale, size, counted)
    return asked


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("scale", "n_bytes"),
    [
        (Fraction(2**20 - 1, 2**20), 8),
        (Fraction(1), 4),
        (Fraction(2**24), 4),
        (Fraction(2**24) + Fraction(1, 1000), 5),
        (Fraction(2**30), 5),
        (Fraction(2**30) + Fraction(1, 1000), 8),
        (Fraction(2**44), 8),
    ],
)
def test_the_scale_alone_decides_how_many_bytes_are_drawn_first(
    law: str, scale: Fraction, n_bytes: int
) -> None:
    n = 1000 if law == "normal" else 2000
    first, *others = requests(law, scale, 1000)
    assert first == n_bytes * n
    assert others == (
        [8 * cubics_of(LAWS[law], n_bytes).n_completed(n, float(scale))] if n_bytes < 8 else []
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 2**16, 2**20, 2**24, 2**30])
@pytest.mark.parametrize("size", [1, 10, 100, 3000])
def test_w33_what_is_asked_of_the_random_source_tells_nothing_of_the_values(
    law: str, scale: int, size: int
) -> None:
    """Requests follow from size and scale: values far from 0, which are mostly open after the
    first bits, take no more of them. (A value that is open after 64 bits would; none is, seeded.)
    """
    assert len({tuple(requests(law, Fraction(scale), size, seed)) for seed in range(30)}) == 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
def test_the_bound_of_each_cell_is_above_the_sum_of_its_parts(law: str, n_bytes: int) -> None:
    """The parts that the values of a table cannot show: the errors of the points, what rounding
    loses, and the hundredth for second-order terms.
    """
    cells, bound = cells_of(LAWS[law]), cubics_of(LAWS[law], n_bytes).table[4, 1:]
    words = np.array(starts(LAWS[law], 64), dtype=np.uint64)
    widths = np.uint64(1) << np.array([int(w).bit_length() - 8 for w in words], dtype=np.uint64)
    quarters = widths // np.uint64(4)
    points = [words, words + quarters, words + 3 * quarters, words + 4 * quarters - 1]
    errors = np.max([cells.approximate(point)[1] for point in points], axis=0)
    bits = 2.0 ** -(8 * n_bytes + 1) / cells.least_density[cells.cell_of(words)]
    assert (bound > 1.01 * (2 * errors + bits) + 2.0**-46).all()
    assert not cubics_of(LAWS[law], n_bytes).table.flags.writeable


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
def test_as_many_values_are_completed_as_are_open_and_a_few_more(law: str, n_bytes: int) -> None:
    n, scale, cubics = 2**18, LARGEST_SCALES[n_bytes], cubics_of(LAWS[law], n_bytes)
    data = np.frombuffer(SeededNoise(6)._bytes(8 * n), dtype="<u8")
    firsts = (data >> np.uint64(64 - 8 * n_bytes)).astype(np.int64)
    _, is_open = cubics.look(firsts, float(scale), LAWS[law].mirrored / 2)
    n_open, completed = np.count_nonzero(is_open), cubics.n_completed(n, scale)
    # 9 deviations and 12 above the mean: n_open is 4 to 14 deviations below
    assert n_open + 4 * n_open**0.5 < completed < n_open + 14 * n_open**0.5 + 12
    assert cubics.chances.sum() == pytest.approx(1)


@pytest.mark.parametrize("law", LAWS)
def test_at_most_one_value_in_30_is_left_open(law: str) -> None:
    # of 2^18, one in 38 at the largest scales; the deviation of a share of a thirtieth is
    # 0.00035
    for n_bytes, largest in LARGEST_SCALES.items():
        data = np.frombuffer(SeededNoise(5)._bytes(2**21), dtype="<u8")
        firsts = (data >> np.uint64(64 - 8 * n_bytes)).astype(np.int64)
        cubics = cubics_of(LAWS[law], n_bytes)
        _, is_open = cubics.look(firsts, float(largest), LAWS[law].mirrored / 2)
        assert is_open.mean() < 1 / 30


# Two versions


@pytest.mark.parametrize("n_bytes", LARGEST_SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_compiled_code_decides_the_same_values_as_numpy(
    law: str, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")
    if not compiling.is_compiled(1 << 40):
        pytest.skip("compiled code cannot be loaded")
    cubics, first = cubics_of(LAWS[law], n_bytes), starts(LAWS[law], 8 * n_bytes)
    data = np.frombuffer(SeededNoise(6)._bytes(200_008), dtype="<u8")
    firsts = (data >> np.uint64(64 - 8 * n_bytes)).astype(np.int64)
    ends = np.array(first) << LAWS[law].mirrored
    firsts = np.concatenate([firsts, firsts >> 20, ends, ends - 1, ends + 1, [0, 1]])
    for scale in (1.0, 3.7, 2.0**21, float(LARGEST_SCALES[n_bytes])):
        found = []
        for compiled in (True, False):
            monkeypatch.setattr(first_bits, "is_compiled", lambda _, compiled=compiled: compiled)
            found.append(cubics.look(firsts, scale, LAWS[law].mirrored / 2))
        assert np.array_equal(found[0][0], found[1][0])
        assert np.array_equal(found[0][1], found[1][1])


def test_compiled_code_is_used_for_many_values_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(steps: int) -> bool:
        asked.append(steps)
        return False

    monkeypatch.setattr(first_bits, "is_compiled", noted)
    for size in (1, 4095, 4096):
        rounded_gaussian(Fraction(8), size, os.urandom)
    assert asked == [2 * 4096]


def test_a_compiled_version_that_differs_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")
    from fastlloyd.dp.compiled import first_bits as compiled

    def off_by_one(*given: Any) -> None:
        first_bits._look(*given)
        given[-2][given[-1].argmin()] += 1  # one of the values that are decided

    for version, expected in ((first_bits._look, 0), (off_by_one, 1)):
        first_bits._compiled_look.cache_clear()
        monkeypatch.setattr(compiled, "look", version)
        caplog.clear()
        assert first_bits._compiled_look() is first_bits._look
        assert [record.levelname for record in caplog.records] == ["WARNING"] * expected
    first_bits._compiled_look.cache_clear()
