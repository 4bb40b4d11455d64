"""What sums of squares of standard normal variables exceed by chance: enough for marks, with nothing heavy to import."""

import math
from statistics import NormalDist


def quantile(degrees: int, exceeded: float) -> float:
    """What a chi-squared variable of so many degrees of freedom exceeds with this probability, to three percent.

    Wilson and Hilferty 1931. With one degree it is twice the normal quantile's square, exactly up to rounding. degrees >= 1.
    """
    if degrees == 1:
        return NormalDist().inv_cdf(1 - exceeded / 2) ** 2
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + NormalDist().inv_cdf(1 - exceeded) * math.sqrt(spread)) ** 3
