"""e^x, Phi and phi between integers, against mpmath, which shares nothing with them."""

import inspect
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastlloyd.dp import enclosures
from fastlloyd.dp.enclosures import exponential, normal_cdf, normal_density

BITS = [1, 2, 64, 128, 192, 4096]


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def check(enclosure: tuple[int, int], value: mpmath.mpf, bits: int) -> None:
    below, above = enclosure
    assert below <= mpmath.ldexp(value, bits) <= above
    assert above - below <= 2


@settings(max_examples=60, deadline=None)
@example(Fraction(-1, 2**70), 64)
@example(Fraction(-(2**12), 3), 4096)
@example(Fraction(5), 64)
@example(Fraction(-64), 64)
@given(st.fractions(-200, 1, max_denominator=2**70), st.sampled_from(BITS))
def test_the_exponential_lies_in_its_enclosure(x: Fraction, bits: int) -> None:
    with mpmath.workprec(bits + 200):
        check(exponential(x, bits), min(mpmath.mpf(1), mpmath.exp(real(x))), bits)


@settings(max_examples=60, deadline=None)
@example(Fraction(-1, 2**46), 64)
@example(Fraction(-13), 128)
@example(Fraction(-90), 4096)
@example(Fraction(-1, 10**400), 64)
@given(st.fractions(-16, 16, max_denominator=2**70), st.sampled_from(BITS))
def test_the_normal_distribution_function_lies_in_its_enclosure(x: Fraction, bits: int) -> None:
    with mpmath.workprec(bits + 400):
        check(normal_cdf(x, bits), mpmath.ncdf(real(x)), bits)


@settings(max_examples=60, deadline=None)
@example(Fraction(-30), 4096)
@given(st.fractions(-12, 12, max_denominator=2**70), st.sampled_from(BITS))
def test_the_normal_density_lies_in_its_enclosure(x: Fraction, bits: int) -> None:
    with mpmath.workprec(bits + 400):
        check(normal_density(x, bits), mpmath.npdf(real(x)), bits)


@pytest.mark.parametrize("work", [65, 66, 100, 200, 777, 5000])
def test_two_pi_is_never_too_large_and_less_than_two_units_too_small(work: int) -> None:
    with mpmath.workprec(work + 100):
        assert 0 <= mpmath.ldexp(2 * mpmath.pi, work) - enclosures._tau(work) < 2


def test_far_out_enclosures_are_the_trivial_ones() -> None:
    assert exponential(Fraction(10) ** 400, 64) == (2**64, 2**64)
    assert (
        exponential(-(Fraction(10) ** 400), 64) == normal_cdf(-(Fraction(10) ** 400), 64) == (0, 1)
    )
    assert normal_cdf(Fraction(10) ** 400, 64) == (2**64 - 1, 2**64)


def test_enclosures_never_fall_where_the_function_rises() -> None:
    points = [Fraction(i, 37) for i in range(-300, 40)]
    for function in (exponential, normal_cdf):
        ends = [function(x, 128) for x in points]
        assert all(a[1] >= a[0] and b[1] >= a[0] for a, b in pairwise(ends))


def test_no_float_and_no_library_of_real_numbers_takes_part() -> None:
    source = inspect.getsource(enclosures)
    assert [line for line in source.splitlines() if "import" in line] == [
        "from fractions import Fraction",
        "from functools import lru_cache",
        "from math import isqrt",
    ]
    code = source.split('"""', 2)[2]
    assert "float" not in code
    assert " / " not in "".join(
        line.split("#")[0] for line in code.splitlines() if '"""' not in line
    ).replace("x * x / 2", "")
