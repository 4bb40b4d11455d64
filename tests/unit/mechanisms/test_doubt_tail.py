"""What noise exceeds with small probability: against exact tails, and against counted ones."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fastlloyd.base.arrays import FloatArray
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.doubt import Weighed, reach
from fastlloyd.testing import SeededNoise

SUMS = [
    [Weighed(3.0)],
    [Weighed(3.0), Weighed(2.0, 4.0)],
    [Weighed(2.0, times=20)],
    [Weighed(5.0), Weighed(1.5, 1.0, times=7)],
]
EXPONENTS = [7.0, 12.0, 55.0]


def geometric(scale: float, weight: int, size: int) -> FloatArray:
    """Probabilities of weight times a two-sided geometric value, from -size to size."""
    probabilities = np.zeros(2 * size + 1)
    x = np.arange(-(size // weight), size // weight + 1)
    probabilities[size + weight * x] = math.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)
    return probabilities


def geometric_tail(values: list[Weighed], at_least: float) -> float:
    """The probability that the weighted sum is so large, by convolution, term by term without
    cancellation.
    """
    size = math.ceil(3 * at_least)
    total = np.zeros(2 * size + 1)
    total[size] = 1.0
    for value in values:
        one = geometric(value.scale, int(value.weight), size)
        for _ in range(value.times):
            total = np.convolve(total, one)[size:-size]
    return math.fsum(total[size + math.ceil(at_least) :])


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("values", SUMS, ids=str)
def test_geometric_sums_exceed_it_with_less_than_the_probability_and_not_with_much_less(
    values: list[Weighed], exponent: float
) -> None:
    most = float(reach(Noise.LAPLACE, values, 1, exponent))
    assert geometric_tail(values, most) < math.exp(-exponent)
    assert geometric_tail(values, most / 2) > math.exp(-exponent)


@pytest.mark.parametrize("n_draws", [1, 7])
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("values", SUMS, ids=str)
def test_gaussian_sums_exceed_it_with_less_than_the_probability_and_not_with_much_less(
    values: list[Weighed], exponent: float, n_draws: int
) -> None:
    from mpmath import mp

    deviation = math.sqrt(
        sum(value.times * (value.scale * float(value.weight)) ** 2 for value in values)
    )
    rounded = n_draws * sum(value.times * float(value.weight) for value in values) / 2
    unrounded = float(reach(Noise.GAUSSIAN, values, n_draws, exponent)) - rounded
    assert mp.ncdf(-unrounded / deviation) < math.exp(-exponent)
    assert mp.ncdf(-unrounded / deviation / 2) > math.exp(-exponent)


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE])
def test_drawn_noise_exceeds_it_about_as_often_as_it_may(noise: Noise) -> None:
    """2**18 sums of three shares, each rounded: fewer than one in 2**10 are beyond, and some
    are.
    """
    source, n_draws, n = SeededNoise(11), 3 if noise is Noise.GAUSSIAN else 1, 1 << 18
    draws = source.gaussian if noise is Noise.GAUSSIAN else source.two_sided_geometric
    scales, weights = (Fraction(40), Fraction(9)), (1, 5)
    total = sum(
        w * draws(s, n) for s, w in zip(scales, weights, strict=True) for _ in range(n_draws)
    )
    values = [
        Weighed(math.sqrt(n_draws) * float(s), float(w))
        for s, w in zip(scales, weights, strict=True)
    ]
    most = float(reach(noise, values, n_draws, 10 * math.log(2)))
    assert 0 < np.count_nonzero(total > most) < n >> 10


def test_alternatives_are_reckoned_one_by_one() -> None:
    weights = np.array([0.0, 1.0, 2.5])
    for noise in (Noise.GAUSSIAN, Noise.LAPLACE):
        together = reach(noise, [Weighed(3.0), Weighed(2.0, weights)], 2, 9.0)
        alone = [
            float(reach(noise, [Weighed(3.0), Weighed(2.0, weight)], 2, 9.0))
            for weight in weights.tolist()
        ]
        assert together.tolist() == alone
    assert float(reach(Noise.NONE, [Weighed(0.0)], 1, 9.0)) == 0.0
