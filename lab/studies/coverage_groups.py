"""Groups of records for the study of standard errors: far, small, close or uneven groups, and more
or fewer groups than clusters.

All records are within the public bounds 0 to 100 of every feature, which are wider than the range
of the records. The constants of `mechanisms/uncertainty.py` and
`mechanisms/moment_lloyd/evidence.py` were chosen with the groups of `TUNING`. The groups of `CASES`
have other shapes, and are used for the table.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Rng = np.random.Generator
Maker = Callable[[Rng, int], FloatArray]  # records of so many features, original units

LOW, HIGH = 0.0, 100.0
TRIES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Row of the table: groups of records, and the settings of their clustering.

    make : function of a random generator and d that returns records of d features.
    k : number of clusters.
    clients : number of clients that add shares of noise, or 0 for the central model. One of the
        clients misses an upload in one round.
    """

    section: str
    name: str
    make: Maker
    d: int
    k: int
    epsilon: float = 1.0
    algorithm: str = "momentlloyd"
    clients: int = 0

    def records(self, rng: Rng) -> FloatArray:
        """Return the records (n, d), clipped to the bounds, in random order."""
        X = np.clip(self.make(rng, self.d), LOW, HIGH)
        return np.asarray(X[rng.permutation(len(X))])


def centres(
    rng: Rng, k: int, d: int, distance: float, low: float = 12.0, high: float = 88.0
) -> FloatArray:
    """Return k random points at least `distance` apart, (k, d). If there is no room, the distance
    is reduced by a tenth, as often as needed.
    """
    found: list[FloatArray] = []
    tries = 0
    while len(found) < k:
        point = rng.uniform(low, high, d)
        if all(math.dist(point, other) >= distance for other in found):
            found.append(point)
        elif (tries := tries + 1) > TRIES:
            found, tries, distance = [], 0, 0.9 * distance
    return np.array(found)


def around(k: int, distance: float, offsets: Callable[[Rng, int, int], FloatArray]) -> Maker:
    """Return a function that makes k groups around random centres.

    distance : least distance between centres.
    offsets : function of a random generator, d and the index of a group that returns the offsets of
        its records from the centre, (n, d).
    """

    def make(rng: Rng, d: int) -> FloatArray:
        places = centres(rng, k, d, distance)
        return np.concatenate([place + offsets(rng, d, i) for i, place in enumerate(places)])

    return make


def normal(sizes: Sequence[int], apart: float, sd: float = 3.5) -> Maker:
    """Return a function that makes spherical normal groups.

    sizes : number of records of each group.
    apart : least distance between centres, in standard deviations.
    """
    return around(len(sizes), apart * sd, lambda rng, d, i: sd * rng.normal(size=(sizes[i], d)))


def oval(k: int, size: int, apart: float) -> Maker:
    """Return a function that makes k normal groups. Each has its own axes, with standard deviations
    from 1.5 to 5.5.
    """
    return around(
        k,
        3.5 * apart,
        lambda rng, d, _: (
            (rng.normal(size=(size, d)) * rng.uniform(1.5, 5.5, d))
            @ np.linalg.qr(rng.normal(size=(d, d)))[0]
        ),
    )


def far(many: int, few: int, sd: float = 2.0) -> Maker:
    """Return a function that makes many records around 20 and few around 80, in every feature."""

    def make(rng: Rng, d: int) -> FloatArray:
        return np.concatenate(
            [20 + sd * rng.normal(size=(many, d)), 80 + sd * rng.normal(size=(few, d))]
        )

    return make


def one(size: int) -> Maker:
    """Return a function that makes a single group, which all clusters divide."""
    return lambda rng, d: 50 + 12 * rng.normal(size=(size, d))


def uniform(size: int) -> Maker:
    """Return a function that makes uniform records, without groups."""
    return lambda rng, d: rng.uniform(10, 90, (size, d))


def skewed(k: int, size: int) -> Maker:
    """Return a function that makes exponential groups, with long tails to one side in every
    feature.
    """
    return around(k, 20.0, lambda rng, d, _: 3.5 * (rng.exponential(size=(size, d)) - 1))


def tailed(k: int, size: int) -> Maker:
    """Return a function that makes groups of Student's t with three degrees of freedom."""
    return around(k, 20.0, lambda rng, d, _: 2.5 * rng.standard_t(3, size=(size, d)))


def with_outliers(k: int, size: int, outliers: int) -> Maker:
    """Return a function that makes spherical groups in one corner of the bounds, and a few records
    in the opposite corner. They are too few to get a cluster of their own.
    """

    def make(rng: Rng, d: int) -> FloatArray:
        near = normal([size] * k, 6)(rng, d) / 2
        return np.concatenate([near, 94 + 1.5 * rng.normal(size=(outliers, d))])

    return make


def narrow(k: int, size: int, apart: float, width: float) -> Maker:
    """Return a function that makes groups in a part of the bounds.

    width : number of times that the bounds are wider than this part.
    """
    return lambda rng, d: 40 + normal([size] * k, apart)(rng, d) / width


def case_of(section: str, name: str, make: Maker, d: int, k: int, **fields: object) -> Case:
    """Return a case.

    fields : further fields of the case.
    """
    return Case(section=section, name=name, make=make, d=d, k=k, **fields)  # type: ignore[arg-type]


# fmt: off
APART, SMALL, CLOSE, WRONG, OTHERS, UNSEEN = (
    "Well separated", "Small beside large", "Close together", "More or fewer groups than clusters",
    "Other algorithms, and clients that add noise", "What it does not see",
)
PAPERS = ("fastlloyd", "glloyd", "sulloyd")
# clusters, records of each, deviations between their centres, features, epsilon
EQUAL = (
    (3, 50, 7, 2, 1.0), (3, 100, 7, 5, 1.0), (3, 200, 7, 1, 1.0), (4, 200, 7, 10, 1.0),
    (3, 500, 7, 2, 0.5),
    (5, 500, 7, 5, 1.0), (8, 400, 7, 16, 3.0), (2, 1000, 7, 1, 1.0), (4, 1000, 7, 2, 1.0),
    (5, 1000, 7, 5, 1.0),
    (3, 1000, 7, 10, 1.0), (4, 1000, 7, 16, 1.0), (3, 1000, 7, 48, 1.0), (10, 1000, 7, 2, 1.0),
    (15, 1000, 7, 5, 3.0),
    (3, 2000, 7, 2, 0.5), (5, 2000, 7, 5, 0.5), (3, 5000, 7, 1, 1.0), (5, 5000, 7, 10, 3.0),
    (5, 5000, 7, 2, 3.0),
)
NEAR = (
    (2, 2000, 2.0, 1, 1.0), (3, 1000, 2.0, 2, 1.0), (5, 2000, 2.5, 2, 3.0), (4, 1000, 2.0, 5, 1.0),
    (4, 2000, 2.0, 10, 1.0),
    (8, 1000, 3.0, 3, 1.0), (12, 500, 3.0, 2, 1.0),
)
# many, few, features, epsilon
FAR = (
    (950, 50, 1, 1.0), (4950, 50, 1, 1.0), (9900, 100, 1, 1.0), (1900, 100, 1, 1.0),
    (4750, 250, 2, 1.0), (4500, 500, 5, 1.0),
    (2700, 300, 10, 1.0), (2800, 200, 16, 3.0), (9500, 500, 2, 0.5), (19800, 200, 1, 3.0),
)
CASES: tuple[Case, ...] = (
    *(case_of(APART, f"{k} of {size}", normal([size] * k, apart), d, k, epsilon=e)
      for k, size, apart, d, e in EQUAL),
    case_of(APART, "4 of 1000, oval", oval(4, 1000, 9), 2, 4),
    case_of(APART, "5 of 1000, oval", oval(5, 1000, 9), 10, 5),
    case_of(APART, "4 of 1000, bounds 5 times too wide", narrow(4, 1000, 7, 5.0), 2, 4),
    *(case_of(SMALL, f"{few} far from {many}", far(many, few), d, 2, epsilon=e) for many, few, d,
      e in FAR),
    case_of(SMALL, "4 of 1000 and 1 of 150", normal([1000] * 4 + [150], 7), 2, 5),
    case_of(SMALL, "5 of 1500 and 1 of 300", normal([1500] * 5 + [300], 6), 5, 6),
    case_of(SMALL, "2000, 1000, 500, 250, 125", normal([2000, 1000, 500, 250, 125], 6), 3, 5),
    case_of(SMALL, "10 of 800 and 2 of 120", normal([800] * 10 + [120] * 2, 6), 2, 12, epsilon=3.0),
    *(case_of(CLOSE, f"{k} of {size}, {apart:g} deviations apart", normal([size] * k, apart, 8.0),
      d, k, epsilon=e)
      for k, size, apart, d, e in NEAR),
    case_of(CLOSE, "skewed, 4 of 1500", skewed(4, 1500), 2, 4),
    case_of(CLOSE, "skewed, 4 of 1500", skewed(4, 1500), 5, 4, epsilon=3.0),
    case_of(CLOSE, "heavy tails, 4 of 1500", tailed(4, 1500), 2, 4, epsilon=3.0),
    case_of(WRONG, "1 of 8000", one(8000), 2, 6),
    case_of(WRONG, "1 of 8000", one(8000), 5, 4, epsilon=3.0),
    case_of(WRONG, "uniform, 6000", uniform(6000), 2, 7),
    case_of(WRONG, "6 of 800", normal([800] * 6, 7), 2, 4),
    case_of(WRONG, "6 of 800", normal([800] * 6, 7), 5, 5),
    case_of(WRONG, "3 of 2000", normal([2000] * 3, 7), 2, 6),
    *(case_of(OTHERS, f"4 of 1000, {name}", normal([1000] * 4, 7), 2, 4, algorithm=name)
      for name in PAPERS),
    *(case_of(OTHERS, f"100 far from 1900, {name}", far(1900, 100), 1, 2, algorithm=name)
      for name in PAPERS),
    *(case_of(OTHERS, f"1 of 8000, {name}", one(8000), 2, 5, algorithm=name, epsilon=3.0)
      for name in PAPERS),
    case_of(OTHERS, "5 of 600, fastlloyd", normal([600] * 5, 7), 5, 5, algorithm="fastlloyd"),
    case_of(OTHERS, "4 of 1000, 5 clients", normal([1000] * 4, 7), 2, 4, clients=5),
    case_of(OTHERS, "250 far from 4750, 5 clients", far(4750, 250), 2, 2, clients=5),
    case_of(UNSEEN, "3 of 2000, and 1 percent far away", with_outliers(3, 2000, 60), 2, 3),
    case_of(UNSEEN, "1 of 5000, and 2 percent far away", with_outliers(1, 5000, 100), 2, 1),
)
TUNED_EQUAL = (
    (3, 1000, 8, 2, 1.0), (5, 300, 8, 2, 1.0), (3, 1000, 6, 1, 1.0), (3, 1000, 8, 5, 1.0),
    (3, 1000, 8, 10, 1.0),
    (5, 1000, 8, 16, 1.0), (5, 2000, 8, 2, 3.0), (8, 1000, 8, 5, 3.0), (3, 150, 8, 5, 1.0),
    (3, 50, 8, 2, 1.0),
    (4, 500, 8, 3, 0.5),
    (3, 200, 8, 10, 1.0), (4, 400, 5, 16, 0.5), (4, 1000, 8, 40, 1.0), (15, 300, 6, 5, 1.0),
    (15, 1000, 4, 2, 3.0),
    (3, 1000, 3, 2, 1.0), (3, 1000, 3, 1, 1.0), (4, 1000, 3, 10, 1.0), (6, 3000, 2.5, 2, 3.0),
)
TUNED_FAR = (
    (950, 50, 1, 1.0), (4950, 50, 1, 1.0), (9900, 100, 1, 1.0), (1900, 100, 1, 1.0),
    (4750, 250, 2, 1.0), (4750, 250, 5, 1.0),
    (4750, 250, 10, 1.0), (4500, 500, 16, 0.5), (9000, 1000, 2, 0.5), (19800, 200, 2, 3.0),
    (2850, 150, 16, 3.0),
)
TUNING: tuple[Case, ...] = (
    *(case_of(APART, f"{k} of {size}, {apart:g} deviations apart", normal([size] * k, apart, 4.0),
      d, k, epsilon=e)
      for k, size, apart, d, e in TUNED_EQUAL),
    *(case_of(SMALL, f"{few} far from {many}", far(many, few), d, 2, epsilon=e) for many, few, d,
      e in TUNED_FAR),
    case_of(SMALL, "4 of 1000 and 1 of 100", normal([1000] * 4 + [100], 8, 4.0), 2, 5),
    case_of(SMALL, "7 of 500 and 1 of 100", normal([500] * 7 + [100], 8, 4.0), 2, 8, epsilon=3.0),
    case_of(SMALL, "3 of 2000 and 1 of 100", normal([2000] * 3 + [100], 8, 4.0), 10, 4),
    case_of(CLOSE, "skewed, 3 of 3000", skewed(3, 3000), 2, 3, epsilon=3.0),
    case_of(CLOSE, "skewed, 5 of 2000", skewed(5, 2000), 1, 5, epsilon=3.0),
    case_of(CLOSE, "heavy tails, 5 of 2000", tailed(5, 2000), 2, 5, epsilon=3.0),
    case_of(WRONG, "1 of 5000", one(5000), 2, 4),
    case_of(WRONG, "1 of 10000", one(10000), 2, 8, epsilon=3.0),
    case_of(WRONG, "1 of 3000", one(3000), 1, 6),
    case_of(WRONG, "7 of 500", normal([500] * 7, 8, 4.0), 2, 5),
    case_of(WRONG, "6 of 1000", normal([1000] * 6, 8, 4.0), 5, 4),
    *(case_of(OTHERS, f"5 of 1000, {name}", normal([1000] * 5, 3, 4.0), 2, 5, algorithm=name)
      for name in PAPERS),
    *(case_of(OTHERS, f"1 of 10000, {name}", one(10000), 2, 8, epsilon=3.0, algorithm=name)
      for name in PAPERS),
)
# fmt: on
