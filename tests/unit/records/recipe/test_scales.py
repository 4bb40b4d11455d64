"""Logarithms that are the same on every machine."""

import decimal
import math
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.records.recipe import scales
from fastlloyd.records.recipe.scales import STEP, natural_log


def nearest_step(value: float) -> float:
    """Return the logarithm by exact arithmetic, rounded to a multiple of STEP."""
    with decimal.localcontext(prec=120):
        scaled = decimal.Decimal(value).ln() * (1 << 32)
        return float(int(scaled.to_integral_value(decimal.ROUND_HALF_EVEN))) * STEP


def beside_a_border(step: int, away: int) -> float:
    """Return a float about `away` floats from the border between this step and the next one."""
    with decimal.localcontext(prec=60):
        border = ((decimal.Decimal(step) + decimal.Decimal("0.5")) / (1 << 32)).exp()
    value = float(border)
    for _ in range(abs(away)):
        value = math.nextafter(value, math.inf if away > 0 else 0)
    return value


@given(st.floats(min_value=5e-324, allow_infinity=False, exclude_min=False))
def test_a_logarithm_is_the_nearest_step_of_the_exact_one(value: float) -> None:
    assert natural_log(np.array([value]))[0] == nearest_step(value)


def test_a_doubtful_number_is_decided_once_in_however_many_records_it_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided = Mock(side_effect=scales._steps)
    monkeypatch.setattr(scales, "_steps", decided)
    value = beside_a_border(1 << 33, 0)
    found = natural_log(np.array([value, 2.0] * 1000))
    assert found.tolist() == [nearest_step(value), nearest_step(2.0)] * 1000
    decided.assert_called_once_with(value)


@given(st.integers(-(1 << 33), 1 << 33), st.integers(-3, 3))
def test_beside_a_border_exact_arithmetic_decides(step: int, away: int) -> None:
    value = beside_a_border(step, away)
    assert natural_log(np.array([value]))[0] == nearest_step(value)


@given(st.integers(-(1 << 33), 1 << 33), st.integers(-2, 2), st.integers(-4, 4))
def test_an_error_of_four_units_in_the_last_place_changes_nothing(
    step: int, away: int, units: int
) -> None:
    value = np.array([beside_a_border(step, away)])
    exact = natural_log(value)
    with pytest.MonkeyPatch.context() as patch:
        other = np.log(value) + units * np.spacing(np.log(value))
        patch.setattr("fastlloyd.records.recipe.scales.np.log", lambda _: other)
        assert natural_log(value)[0] == exact[0]


def test_of_a_million_numbers_few_are_decided_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    decided = list[float]()
    steps = scales._steps

    def counted(value: float) -> int:
        decided.append(value)
        return steps(value)

    monkeypatch.setattr(scales, "_steps", counted)
    values = np.linspace(0.2, 400, 1_000_000)
    found = natural_log(values)
    assert len(decided) < 200
    assert np.abs(found - np.log(values)).max() <= STEP / 2 * (1 + 1e-6)


def test_one_is_zero() -> None:
    assert natural_log(np.array([1.0]))[0] == 0
