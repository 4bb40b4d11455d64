"""Check whether a noisy answer can come from records.

The check is for sums that contain the answers and the noise of other clients. It compares noisy
answers with public numbers. The guarantee covers the noisy answers of all rounds, and everything
computed from them. So the check is post-processing and costs no privacy. Its outcome is part of the
result, and of no message of a run.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.inequalities import Inequality
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round

FALSE_ALARM_BITS = 40
# of either side: each is a few operations on integers that float64 holds but for 2**-53
ROUNDING = 2.0**-50


def is_doubtful(
    m: AnyRun, round: Round, answer: Answer, n_records: int, noise: AnswerNoise, n_draws: int
) -> bool:
    """Return whether this answer is too unlikely to come from at most `n_records` records and the
    planned noise.

    noise : noise scales of the answer.
    n_draws : number of separately rounded draws in the noise of every entry.

    If all parties follow the protocol, a run has a doubtful round with probability below 2**-40.
    Every exact answer satisfies certain inequalities: for example, a count is at most `n_records`.
    The answers of a run contain K numbers, and so at most 2 K inequalities are tested. Noise breaks
    each inequality with probability below 2**-41 / (2 K) (docs/proofs/doubt.md), so any of them
    with probability below 2**-41. The other half of 2**-40 covers rounding in this function.
    Rounding changes a threshold by less than 2**-44 of its value.
    """
    exponent = (FALSE_ALARM_BITS + 1) * math.log(2) + math.log(2 * m.n_released)

    def fails(inequality: Inequality) -> bool:
        values = [
            Weighed(noise.deviations[term.part], term.weight, term.times)
            for term in inequality.terms
        ]
        left, right = inequality.left, inequality.right
        slack = reach(m.noise, values, n_draws, exponent) + ROUNDING * (
            np.abs(left) + np.abs(right)
        )
        return bool((left - right > slack).any())

    return any(map(fails, m.question(round).inequalities(answer, n_records)))


class Weighed(NamedTuple):
    """Several independent noise values with the same scale and the same weight.

    scale : scale of each value.
    weight : absolute value of the weight. If it is an array, each entry is an alternative weight,
        for which `reach` returns a bound of its own.
    times : number of values.
    """

    scale: float
    weight: float | FloatArray = 1.0
    times: int = 1


def reach(noise: Noise, values: Iterable[Weighed], n_draws: int, exponent: float) -> FloatArray:
    """Return a bound that a weighted sum of noise values exceeds with probability below
    exp(-exponent).

    values : noise values in the sum, which are independent.
    n_draws : number of separately rounded Gaussians in each value, whose total deviation is
        `scale`.

    Gaussian noise: without rounding, the sum has the variance V, the sum of w**2 s**2, and P(Z > z)
    < exp(-z**2 / 2). Each rounding moves the sum by at most w / 2.

    Laplace noise: let W be the largest w b, let v = V / W**2, and L = exponent. The bound is a
    Chernoff bound at l = q / W, where q**2 = L / (L + v). A two-sided geometric X of scale b has E
    exp(l w X) = 1 / (1 - (sinh(l w / 2) / sinh(1 / 2b))**2) <= 1 / (1 - (l w b)**2), because
    sinh(x) / x increases. The function -ln(1 - x) is convex and (l w b)**2 <= q**2. So the product
    of all factors is at most exp(-v ln(1 - q**2)) = exp(v ln(1 + L / v)). Hence P(sum >= t) <=
    exp(v ln(1 + L / v) - q t / W), which is exp(-L) for the returned t.
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
