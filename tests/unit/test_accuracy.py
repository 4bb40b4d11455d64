"""Errors and status of centroids: by hand, and whether two standard errors cover what they say.

The long study is `python -m studies.coverage`; here a few of its groups, with fixed seeds.
"""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from designs import design_mechanism
from fastlloyd import MomentLloyd
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import NoisyResultWarning
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.mechanism import Clustering, Evidence
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.uncertainty import (
    BY_CHANCE,
    EXPLAINED,
    MOVED,
    OTHERS,
    OWN,
    Accuracy,
    NoiseDeviation,
    Status,
    assess,
    cautions,
    chi_squared_quantile,
    noise_deviation,
    settled,
    typical_error,
)
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, -1.0), upper=(100.0, 3.0))
NOISE = NoiseDeviation(sums=1000.0, counts=2.0)
SETTLED, MOVING, FEW, STAYED = Status


def _mechanism(algorithm: Algorithm, n_clusters: int = 2) -> LloydMechanism:
    return design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=n_clusters,
        n_records=3000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=2,
    )


def _ended(
    answer: list[list[int]], moves: list[list[int]], updated: list[bool] | None = None
) -> Clustering:
    """Where FastLloyd ended that was moved so from (100, 100); moves as they are after clipping and
    folding.
    """
    previous = np.full((len(answer), 2), 100)
    there = np.ones(len(answer), dtype=bool) if updated is None else np.array(updated)
    return Clustering(
        centroids=previous + np.array(moves),
        previous=previous,
        answer=np.array(answer),
        updated=there,
    )


# By hand


def test_an_example_by_hand() -> None:
    """One cluster of about 50 was asked to move by (3000, -400) grid units, and went half of it; no
    other cluster moved.
    """
    m = _mechanism(FASTLLOYD, 1)
    radius = math.sqrt(m.rounds[-1].squared_radius or 0)
    found = assess(m, _ended([[48 * 3000, -48 * 400, 50]], [[1500, -200]]), NOISE)
    noise = [
        math.hypot(1000, 2 * 1500) / 48,
        math.hypot(1000, 2 * 200) / 48,
    ]  # the count less its deviation is 48
    to_come = [
        math.sqrt(3000**2 - EXPLAINED**2 * noise[0] ** 2),
        math.sqrt(400**2 - EXPLAINED**2 * noise[1] ** 2),
    ]
    of_all = math.sqrt(
        min(3000**2 + 400**2 - noise[0] ** 2 - noise[1] ** 2, (MOVED * radius) ** 2) / 2
    )
    expected = [
        unit * math.sqrt(n**2 + left**2 + (OWN * own) ** 2 + (OTHERS * of_all) ** 2)
        for unit, n, left, own in zip(
            (100 / 2**17, 4 / 2**17), noise, (1500, 200), to_come, strict=True
        )
    ]
    assert np.allclose(found.errors, [expected], rtol=1e-12)
    assert found.status == (SETTLED,)
    assert MOVED * radius > 3000


def test_each_status_by_hand() -> None:
    m = _mechanism(FASTLLOYD, 6)
    far = math.ceil(1.1 * MOVED * math.sqrt(m.rounds[-1].squared_radius or 0))
    answer = [
        [0, 0, 50],
        [48 * far, 0, 50],  # 48 far / 1000 deviations of noise: no chance
        [48 * far, 0, 50],
        [0, 0, 5],  # below three deviations
        [48 * far, 0, 5],
        [0, 0, 1],
    ]
    moves = [[0, 0], [far, 0], [0, 0], [0, 0], [far, 0], [0, 0]]
    found = assess(m, _ended(answer, moves, [True] * 5 + [False]), NOISE)
    assert found.status == (SETTLED, MOVING, MOVING, FEW, FEW, STAYED)
    assert settled(found.status).tolist() == [True] + [False] * 5
    assert np.isnan(found.errors).all(axis=1).tolist() == [False] * 5 + [True]
    assert [sentence.split(":")[0] for sentence in cautions(found.status, NOISE.counts)] == [
        "Status 'moving', 2 of 6 clusters",
        "Status 'few', 2 of 6 clusters",
    ]
    assert len(cautions(found.status, 0.33)) == 1
    assert cautions([SETTLED, STAYED, FEW], 0.33) == []  # so little noise would not hide a record


def test_a_long_move_that_noise_explains_is_no_sign_of_moving() -> None:
    """The same move, 1.1 tenths of the radius, once with the noise of a large count and once with
    that of a small one.
    """
    m = _mechanism(FASTLLOYD, 1)
    far = math.ceil(1.1 * MOVED * math.sqrt(m.rounds[-1].squared_radius or 0))
    loud = NoiseDeviation(sums=48 * far / 3.0, counts=2.0)
    assert assess(m, _ended([[48 * far, 0, 50]], [[far, 0]]), NOISE).status == (MOVING,)
    assert assess(m, _ended([[48 * far, 0, 50]], [[far, 0]]), loud).status == (SETTLED,)


def test_without_noise_errors_are_zero_and_all_is_settled() -> None:
    m = _mechanism(LLOYD)
    none = NoiseDeviation(sums=0.0, counts=0.0)
    found = assess(m, _ended([[900, 0, 9], [0, 0, 0]], [[100, 0], [0, 0]], [True, False]), none)
    assert not found.errors[0].any()
    assert np.isnan(found.errors[1]).all()
    assert found.status == (SETTLED, STAYED)


def test_absolute_sums_ask_for_the_way_from_where_the_centroid_was() -> None:
    """50 records at (1100, 100), asked from (100, 100): a move of 1000 and 0. Noise of the count
    moves both coordinates.
    """
    m = _mechanism(GLLOYD, 1)
    answer, counts = [[50 * 1100, 50 * 100, 50]], NoiseDeviation(sums=1.0, counts=0.5)
    found = assess(m, _ended(answer, [[1000, 0]]), counts)
    asked = np.array([50 * 1000 / 49.5, 0.0])
    noise = np.hypot(1, 0.5 * np.array([1100, 100])) / 49.5
    own = np.maximum(asked**2 - (EXPLAINED * noise) ** 2, 0)
    of_all = min((asked**2 - noise**2).sum(), (MOVED * m.planned_radius) ** 2) / 2
    squares = noise**2 + (asked - [1000, 0]) ** 2 + OWN**2 * own + OTHERS**2 * of_all
    assert np.allclose(found.errors[0], m.domain.units * np.sqrt(squares), rtol=1e-12)


def test_what_all_rounds_showed_takes_the_place_of_the_last_answer() -> None:
    """The mean that they show lies 300 and 400 grid units from the centroid; votes hide 50, and see
    one cluster crowded.
    """
    m = design_mechanism(
        MOMENTLLOYD,
        DOMAIN,
        n_clusters=2,
        n_records=3000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    ended = _ended([[0, 0, 50], [0, 0, 50]], [[0, 0], [0, 0]])
    shown = Evidence(
        means=ended.centroids + np.array([[300.0, 400.0], [0.0, 0.0]]), deviations=np.full((2, 2), 12.0),
        sizes=np.array([50.0, 50.0]), radius=1e5, hidden=np.array([[50.0, 0.0], [0.0, 0.0]]), crowded=np.array([False, True]),
    )  # fmt: skip
    found = assess(
        m,
        Clustering(ended.centroids, ended.previous, ended.answer, ended.updated, evidence=shown),
        NOISE,
    )
    squares = [[300**2 + 12**2 + 50**2, 400**2 + 12**2], [12**2, 12**2]]
    assert np.allclose(found.errors, m.domain.units * np.sqrt(squares), rtol=1e-12)
    assert found.status == (SETTLED, MOVING)


@pytest.mark.parametrize(
    ("deviation", "updated", "counts", "expected"),
    [
        (5.0, [True, True, True], [90, 90, 90], 2.0),
        (5.0, [True, False, True], [90, 90, 90], 3.0),
        (5.0, [True, True, True], [90, 14, 90], 3.0),  # few
        (5.0, [True, False, False], [90, 90, 90], math.inf),
        (
            0.34,
            [True, False, False],
            [90, 0, 0],
            math.inf,
        ),  # three deviations are more than a record
        (0.33, [True, False, False], [90, 0, -0.5], 0.0),  # a cluster that is known to be empty
        (
            0.33,
            [True, False, False],
            [90, 47, 48],
            math.inf,
        ),  # one of many records, whose floor was set too high
        (0.33, [True, True, True], [90, 0.5, 0.5], math.inf),  # moved by noise over noise
    ],
)
def test_the_typical_error_is_the_median_and_unknown_ones_are_large(
    deviation: float, updated: list[bool], counts: list[float], expected: float
) -> None:
    m = _mechanism(FASTLLOYD, 3)
    lengths = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]) * m.domain.units * m.planned_radius
    found = Accuracy(
        errors=lengths, status=tuple(SETTLED if there else STAYED for there in updated)
    )
    assert typical_error(m, found, np.array(counts, dtype=float), deviation) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 100, 1024])
@pytest.mark.parametrize("exceeded", [0.1, BY_CHANCE])
def test_the_quantile_of_a_sum_of_squares_is_right_to_three_percent(
    degrees: int, exceeded: float
) -> None:
    assert chi_squared_quantile(degrees, exceeded) == pytest.approx(
        stats.chi2.isf(exceeded, degrees), rel=0.03
    )


# On groups


def _groups(seed: int, places: list[float], sizes: list[int], d: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [place + 2 * rng.normal(size=(size, d)) for place, size in zip(places, sizes, strict=True)]
    )


def _coverage(
    places: list[float], sizes: list[int], d: int, runs: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of MomentLloyd at epsilon 1: what is settled, bool; which coordinates are covered, bool; and
    errors; of all clusters.
    """
    domain = Domain(features=tuple(f"x{i}" for i in range(d)), lower=(0.0,) * d, upper=(100.0,) * d)
    kept, covered, errors = [], [], []
    for seed in range(runs):
        X = domain.to_grid(_groups(seed, places, sizes, d))
        m = design_mechanism(
            MOMENTLLOYD,
            domain,
            n_clusters=len(sizes),
            n_records=len(X),
            epsilon=1.0,
            public_seed=PublicSeed.from_int(seed),
        )
        ended = cluster(m, LocalRecords(m.domain, X), SeededNoise(seed))
        found = assess(m, ended, noise_deviation(m))
        labels = kernels.assign(X, ended.centroids)
        means = np.array(
            [
                X[labels == j].mean(axis=0) if (labels == j).any() else [np.nan] * d
                for j in range(m.n_clusters)
            ]
        )
        kept.append(settled(found.status))
        covered.append(np.abs(means - ended.centroids) * domain.units <= 2 * found.errors)
        errors.append(found.errors)
    return np.concatenate(kept), np.concatenate(covered), np.concatenate(errors)


@pytest.mark.parametrize(
    ("places", "sizes", "d"),
    [
        ([20.0, 80.0], [9900, 100], 1),
        ([20.0, 80.0], [4950, 50], 1),
        ([20.0, 80.0], [4750, 250], 5),
        ([20.0, 40.0, 80.0], [1000, 1000, 1000], 2),
        ([20.0, 50.0, 60.0, 80.0], [400, 400, 400, 400], 3),
    ],
    ids=["100 far from 9900", "50 far from 4950", "250 far from 4750", "3 of 1000", "4 of 400"],
)
def test_two_standard_errors_cover_the_mean_of_the_records_where_a_cluster_is_settled(
    places: list[float], sizes: list[int], d: int
) -> None:
    """Before errors spoke of anything but noise they covered none of the small groups in the first
    three.
    """
    kept, covered, _ = _coverage(places, sizes, d, runs=12)
    assert covered[kept].mean() >= 0.9
    assert kept.sum() >= 12  # the large group, at least, is settled


def test_at_most_one_in_ten_of_well_separated_groups_of_a_thousand_is_marked_and_its_error_is_small() -> (
    None
):
    """The error of about a thousand records of deviation 2 at epsilon 1 is .1 to .2; three times as
    much would be no use.
    """
    kept, _, errors = _coverage([20.0, 40.0, 80.0], [1000, 1000, 1000], 2, runs=12)
    assert kept.mean() >= 0.9
    assert np.median(errors) < 0.5


def test_small_groups_far_away_are_not_all_taken_for_settled_in_silence() -> None:
    """Of 50 records among 5,000 the count is about its deviation: false silence in one fit of
    twenty, in all six below 1e-7.
    """
    X = _groups(1, [20.0, 80.0], [4950, 50], 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = [
            MomentLloyd(2, epsilon=1.0, bounds=(0, 100), n_records=5000).fit(X) for _ in range(6)
        ]
    said = [warning for warning in caught if warning.category is NoisyResultWarning]
    assert len(said) >= 1
    for model in fitted:
        assert model.cluster_status_.shape == (2,)
        assert set(model.cluster_status_) <= {status.value for status in Status}
