"""Bound on a weighted sum of noise values that holds but for a chosen small probability."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.dp.noise import Noise


class Weighed(NamedTuple):
    """`times` noise values of that scale, each with a weight of that magnitude: a number, or an
    array of alternatives.
    """

    scale: float
    weight: float | FloatArray = 1.0
    times: int = 1


def reach(noise: Noise, values: Iterable[Weighed], n_draws: int, exponent: float) -> FloatArray:
    """Return a bound that the weighted sum of independent noise values exceeds with probability
    below exp(-exponent).

    n_draws : number of separately rounded Gaussians in each value. `scale` is their total
    deviation.

    Gaussian: unrounded, the sum has the variance V = sum of w**2 s**2, and P(Z > z) < exp(-z**2 /
    2); each rounding moves it by at most w / 2. Laplace: with W the largest w b and v = V / W**2, a
    Chernoff bound at l = q / W, where q**2 = L / (L + v). A two-sided geometric X of scale b has E
    exp(l w X) = 1 / (1 - (sinh(l w / 2) / sinh(1 / 2b))**2) <= 1 / (1 - (l w b)**2), because
    sinh(x) / x increases. As -ln(1 - x) is convex and (l w b)**2 <= q**2, all factors together are
    at most exp(-v ln(1 - q**2)) = exp(v ln(1 + L / v)). So P(sum >= t) <= exp(v ln(1 + L / v) - q t
    / W) = exp(-L) at the t returned.
    """
    values = list(values)
    spreads = [np.asarray(value.weight * value.scale, dtype=np.float64) for value in values]
    squares = np.asarray(
        sum(value.times * spread**2 for value, spread in zip(values, spreads, strict=True))
    )
    match noise:
        case Noise.NONE:
            return np.zeros_like(squares)
        case Noise.GAUSSIAN:
            rounded = sum(value.times * value.weight for value in values)
            return np.asarray(np.sqrt(2 * exponent * squares) + n_draws / 2 * rounded)
        case Noise.LAPLACE:
            largest = np.asarray(np.max(np.broadcast_arrays(*spreads), axis=0))
            v = squares / largest**2
            return np.asarray(
                largest * np.sqrt(1 + v / exponent) * (exponent + v * np.log1p(exponent / v))
            )
