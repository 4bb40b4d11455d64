"""Standard error that a result of MomentLloyd is expected to show for a centroid whose interval is
reliable (settled).

The estimate comes from public numbers and a table. `lab/studies/forecast.py` makes the table by
simulation, and describes the simulated records. The *signal* of a cluster determines its error. The
signal is the cluster's number of records times mu, divided by the noise factor. The noise factor is
the deviation of the noise, divided by the deviation that the guarantee needs.
"""

import math
from fractions import Fraction
from itertools import pairwise

from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.mechanism import ExpectedError
from fastlloyd.mechanisms.moment_lloyd.state import MomentFields
from fastlloyd.mechanisms.persons import max_clients

FEATURES = ((1, 1), (2, 3), (4, 8), (9, 32), (33, 64), (65, 256))
SIGNALS = tuple(2.0**power for power in range(3, 16, 2))
inf = math.inf
# rows as FEATURES, columns as SIGNALS, for 4 clusters: of ten fits with a settled cluster one is
# below the first line, five below the second, nine below the third
# fmt: off
TABLE: tuple[tuple[tuple[float, ...], ...], ...] = (
    (
        (inf, 0.0221, 0.00861, 0.00394, 0.0032, 0.00262, 0.00166),
        (inf, 0.0306, 0.0144, 0.00831, 0.00579, 0.00464, 0.00283),
        (inf, 0.0445, 0.0234, 0.0146, 0.0131, 0.00721, 0.00499),
    ),
    (
        (inf, 0.0272, 0.0102, 0.00295, 0.00248, 0.00193, 0.00175),
        (inf, 0.0395, 0.0146, 0.00527, 0.00351, 0.00351, 0.0035),
        (inf, 0.0619, 0.0189, 0.0115, 0.00739, 0.00739, 0.00739),
    ),
    (
        (inf, 0.03, 0.013, 0.00545, 0.00429, 0.00344, 0.00278),
        (inf, 0.0461, 0.0195, 0.00968, 0.00578, 0.00471, 0.00471),
        (inf, 0.0648, 0.0303, 0.0249, 0.0119, 0.0119, 0.0119),
    ),
    (
        (0.0524, 0.0447, 0.0195, 0.00887, 0.00563, 0.00532, 0.00532),
        (0.0727, 0.0727, 0.0318, 0.0126, 0.00786, 0.00663, 0.00642),
        (0.106, 0.106, 0.0453, 0.0268, 0.0164, 0.0164, 0.0164),
    ),
    (
        (inf, 0.124, 0.0476, 0.0305, 0.0305, 0.0301, 0.0222),
        (inf, 0.197, 0.0645, 0.036, 0.036, 0.0356, 0.033),
        (inf, 0.341, 0.0972, 0.0545, 0.0545, 0.0493, 0.0359),
    ),
    (
        (inf, 0.144, 0.0522, 0.0339, 0.0339, 0.0333, 0.0281),
        (inf, 0.22, 0.0778, 0.0471, 0.0433, 0.0393, 0.0359),
        (inf, 0.415, 0.181, 0.088, 0.088, 0.088, 0.0755),
    ),
)
# fmt: on


def expected_error(m: MomentFields, noise_factor: float) -> ExpectedError:
    """Return the expected standard error of a centroid whose interval is reliable, and the limits
    between which this error lies in 80 % of fits.

    noise_factor : scale of the noise, divided by the scale that the guarantee needs.

    Raises PlanError for more than 256 features.
    """
    row = next((at for at, (_, most) in enumerate(FEATURES) if m.n_features <= most), None)
    if row is None:
        raise PlanError(
            f"there are {m.n_features} features; the error of {m.name} is known for at most"
            f" {FEATURES[-1][1]}: forecast the algorithm fastlloyd, whose error is usually larger"
        )
    found, factor = signal(m) / noise_factor, crowding(m.n_clusters)
    low, typical, high = (between(line, found) * factor for line in TABLE[row])
    return ExpectedError(typical=typical, low=low, high=high)


def crowding(n_clusters: int) -> float:
    """Return the factor by which the table's errors grow with this number of clusters.

    The errors are in units of the radius of a cluster. With more clusters the radius shrinks faster
    than the standard errors do, so these errors grow.
    """
    return float((n_clusters / 4) ** 0.3)


def signal(m: MomentFields) -> float:
    """Return the number of records of a typical cluster, times mu of the clustering.

    That mu is for one record added or removed. If persons are protected, it is the mu of one person
    at one client, because the noise must be compared with it. The mu of a person at c clients is c
    times as large.
    """
    costs = [
        m.accountant_of(round, NeighboringRelation.ADD_OR_REMOVE_ONE).mu_squared
        for round in m.rounds
    ]
    return m.n_expected / m.n_clusters * math.sqrt(sum(costs, Fraction(0))) / max_clients(m.persons)


def between(line: tuple[float, ...], signal: float) -> float:
    """Return the value of the table at a signal, by linear interpolation on logarithmic axes.

    It is infinite before the first signal of the table, and constant after the last one.
    """
    if signal < SIGNALS[0]:
        return inf
    for (start, end), (first, second) in zip(pairwise(SIGNALS), pairwise(line), strict=True):
        if signal < end:
            part = math.log(signal / start) / math.log(end / start)
            return inf if math.isinf(first) else first ** (1 - part) * second**part
    return line[-1]
