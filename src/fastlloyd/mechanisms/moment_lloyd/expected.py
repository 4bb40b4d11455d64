"""Standard error that a result of MomentLloyd is expected to show for a settled centroid.

The estimate comes from public numbers and a table. `lab/studies/forecast.py` makes the table by
simulation, and describes the simulated records. The *signal* of a cluster determines its error.
The signal is the cluster's number of records times mu, divided by the noise factor. The noise
factor is the deviation of the noise, divided by the deviation that the guarantee needs.
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
TABLE: tuple[tuple[tuple[float, ...], ...], ...] = (((inf,) * 7,) * 3,) * 6
# fmt: on


def expected_error(m: MomentFields, noise_factor: float) -> ExpectedError:
    """Return the standard error of a settled centroid, and its bounds in 80 % of fits.

    noise_factor : scale of the noise, divided by the scale that the guarantee needs.

    Raises PlanError for more than 256 features.
    """
    row = next((at for at, (_, most) in enumerate(FEATURES) if m.n_features <= most), None)
    if row is None:
        raise PlanError(
            f"there are {m.n_features} features; the error of {m.name} is known for at most"
            f" {FEATURES[-1][1]}: ask for fastlloyd, whose error is usually larger"
        )
    found, factor = signal(m) / noise_factor, crowding(m.n_clusters)
    low, typical, high = (between(line, found) * factor for line in TABLE[row])
    return ExpectedError(typical=typical, low=low, high=high)


def crowding(n_clusters: int) -> float:
    """Return the factor of the table for this number of clusters.

    The radius of a cluster falls faster with their number than the standard errors do.
    """
    return float((n_clusters / 4) ** 0.3)


def signal(m: MomentFields) -> float:
    """Return the number of records of a typical cluster, times mu of the clustering.

    This is the mu of one record added or removed. If persons are protected, it is the mu of one
    person at one client, because the noise must be compared with it. The mu of a person at c
    clients is c times as large.
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
