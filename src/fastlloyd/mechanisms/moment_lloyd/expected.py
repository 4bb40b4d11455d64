"""Estimate of the error that noise causes in a typical centroid of MomentLloyd.

The estimate comes from public numbers and a table. `lab/studies/expected_error.py` makes the table
by simulation, and describes the simulated records. The *signal* of a cluster determines its error.
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
SIGNALS = tuple(2.0**power for power in range(1, 13))
inf = math.inf
# rows as FEATURES, columns as SIGNALS: of ten fits one is below the first line, five below the
# second, nine below the third
# fmt: off
TABLE: tuple[tuple[tuple[float, ...], ...], ...] = (
    (
        (0.101, 0.0491, 0.0094, 0.00726, 0.00726, 0.00356, 0.00335, 0.00335, 0.000909, 0.000507,
          0.000507, 9.08e-05),
        (0.249, 0.118, 0.0568, 0.0253, 0.0206, 0.0121, 0.00993, 0.00906, 0.00744, 0.00366, 0.00316,
          0.00256),
        (inf, 0.46, 0.141, 0.0709, 0.0568, 0.0457, 0.0457, 0.0341, 0.026, 0.026, 0.0245, 0.017),
    ),
    (
        (0.181, 0.0948, 0.0417, 0.0417, 0.00873, 0.00623, 0.00443, 0.00158, 0.000722, 0.000722,
          0.000608, 0.000262),
        (0.405, 0.228, 0.122, 0.0742, 0.0283, 0.0171, 0.00905, 0.00472, 0.00301, 0.00149, 0.00149,
          0.000814),
        (inf, 0.407, 0.208, 0.131, 0.0548, 0.0374, 0.025, 0.0142, 0.00896, 0.00896, 0.00658,
          0.00523),
    ),
    (
        (0.222, 0.122, 0.0718, 0.0325, 0.011, 0.00774, 0.00447, 0.00243, 0.000921, 0.000544,
          0.000228, 0.000132),
        (0.462, 0.266, 0.171, 0.065, 0.0293, 0.0166, 0.0112, 0.00587, 0.00318, 0.00181, 0.00109,
          0.000417),
        (inf, inf, 0.317, 0.149, 0.0794, 0.0441, 0.022, 0.0153, 0.00689, 0.0037, 0.00369, 0.00127),
    ),
    (
        (0.49, 0.3, 0.0938, 0.04, 0.0211, 0.0091, 0.00449, 0.00191, 0.00115, 0.000684, 0.000476,
          0.000167),
        (inf, 0.723, 0.272, 0.137, 0.0522, 0.0214, 0.0108, 0.00498, 0.00485, 0.00168, 0.00137,
          0.000471),
        (inf, inf, inf, 0.239, 0.0875, 0.0465, 0.0292, 0.0126, 0.0126, 0.00405, 0.00343, 0.00132),
    ),
    (
        (0.435, 0.356, 0.29, 0.115, 0.0428, 0.0134, 0.00903, 0.00535, 0.00142, 0.000881, 0.000498,
          0.000322),
        (0.649, 0.57, 0.469, 0.254, 0.0964, 0.035, 0.0184, 0.0117, 0.00418, 0.00302, 0.00147,
          0.000645),
        (inf, inf, inf, inf, 0.208, 0.0905, 0.0392, 0.0224, 0.00967, 0.00604, 0.00347, 0.00313),
    ),
    (
        (0.445, 0.445, 0.354, 0.218, 0.0707, 0.0267, 0.0128, 0.00298, 0.00167, 0.00114, 0.000826,
          0.000369),
        (inf, inf, 0.593, 0.405, 0.189, 0.0904, 0.0402, 0.0173, 0.00606, 0.00293, 0.00176, 0.00152),
        (inf, inf, inf, inf, inf, inf, 0.0885, 0.0388, 0.0143, 0.00805, 0.00507, 0.00287),
    ),
)
# fmt: on


def expected_error(m: MomentFields, noise_factor: float) -> ExpectedError:
    """Return the error of a typical centroid, and the bounds of the error in 80 % of fits.

    noise_factor : scale of the noise, divided by the scale that the guarantee needs.

    Raises PlanError for more than 256 features.
    """
    row = next((at for at, (_, most) in enumerate(FEATURES) if m.n_features <= most), None)
    if row is None:
        raise PlanError(
            f"there are {m.n_features} features; the error of {m.name} is known for at most"
            f" {FEATURES[-1][1]}: ask for fastlloyd, whose error is usually larger"
        )
    low, typical, high = (between(line, signal(m) / noise_factor) for line in TABLE[row])
    return ExpectedError(typical=typical, low=low, high=high)


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
