"""Numbers as people write them have one meaning, whatever the country."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.numerals import real, whole

AMBIGUOUS = [
    "4,000",
    "20_000",
    "\uff14",
    "4 000",
    " 4",
    "4 ",
    "+4",
    "",
    "4\n",
    "0x4",
    "four",
    "nan",
]


@pytest.mark.parametrize("text", [*AMBIGUOUS, "4.000", "4.", "4e3", "-4", "9" * 20])
def test_a_whole_number_is_digits_only(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the option says what is wrong
        whole(text)


@pytest.mark.parametrize(
    "text", [*AMBIGUOUS, "1.0.0", ".", "e5", "1e", "inf", "-inf", "1e999", "1e+-5", "1" * 401]
)
def test_a_real_number_has_digits_one_point_and_an_exponent_only(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        real(text)


def test_a_point_with_three_digits_behind_it_is_a_decimal_point() -> None:
    assert real("1.000") == 1


@given(st.integers(0, 10**19 - 1))
def test_every_whole_number_is_read_as_it_is_written(number: int) -> None:
    assert whole(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_as_python_writes_it(number: float) -> None:
    assert real(repr(number)) == number


@given(st.text("0123456789.,_e+- \u0664", max_size=8))
def test_a_text_is_refused_or_means_what_python_says(text: str) -> None:
    try:
        number = real(text)
    except ValueError:
        return
    assert number == float(text)
    assert math.isfinite(number)
    assert not set(text) & set(",_ \u0664")
