"""Check whether a noisy answer can come from records at all, for sums that contain the answers and
noise of other clients.

It compares noisy answers with public numbers. The guarantee covers the noisy answers of all rounds,
and so whatever is computed from them: the check is post-processing and costs nothing. Its outcome
is part of the result, and no message of a run.
"""

import math

import numpy as np

from fastlloyd.dp.tail import Weighed, reach
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.inequalities import Inequality
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round

FALSE_ALARM_BITS = 40
# of either side: each is a few operations on integers that float64 holds but for 2**-53
ROUNDING = 2.0**-50


def is_doubtful(
    m: AnyRun, round: Round, answer: Answer, n_records: int, noise: AnswerNoise, n_draws: int
) -> bool:
    """Return whether the answer cannot be that of at most `n_records` records with the planned
    noise, for any records.

    noise : of the answer. n_draws : number of separately rounded draws in every entry. If all
    parties follow the protocol, a run has a doubtful round with probability below 2**-40: with K
    numbers in all its answers there are at most 2 K inequalities, and noise breaks each with
    probability below 2**-41 / 2 K (docs/proofs/doubt.md). That is half of what is allowed; the rest
    covers the rounding of what follows, which moves a threshold by less than 2**-44 of itself.
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
