"""The central driver lets only grid points in, as every sensitivity is that of a point in the box;
it tells before it draws.
"""

from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster, rehearse, release
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.queries.query import Query
from fastlloyd.mechanisms.settings import AnyAlgorithm

DOMAIN = Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 1.0))
B = 1 << 16


def mechanism(algorithm: Algorithm) -> LloydMechanism:
    return design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=2,
        n_records=50,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(0),
    )


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD])
@pytest.mark.parametrize(
    "X",
    [
        np.array([[1 << 40, -(1 << 40)]]),
        np.array([[B + 1, 0]]),
        np.array([[0, -B - 1]]),
        np.zeros((3, 2)),
        np.zeros((3, 2), dtype=np.uint64),
        np.zeros((3, 3), dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.ma.masked_array([[1 << 45, 0]], mask=[[True, False]]),
        [[0, 0]],
    ],
    ids=[
        "far away",
        "above",
        "below",
        "floats",
        "unsigned",
        "three columns",
        "one dimension",
        "masked",
        "a list",
    ],
)
def test_what_is_not_a_grid_point_of_the_domain_is_refused(algorithm: Algorithm, X: Any) -> None:
    with pytest.raises(DataError, match=r"use Domain\.to_grid") as refused:
        cluster(mechanism(algorithm), LocalRecords(DOMAIN, X), SystemNoise())
    assert not any(digits in str(refused.value) for digits in (str(1 << 40), str(1 << 45)))


@pytest.mark.parametrize("corner", [B, -B])
def test_the_walls_of_the_box_are_inside(corner: int) -> None:
    found = cluster(mechanism(GLLOYD), LocalRecords(DOMAIN, np.full((3, 2), corner)), SystemNoise())
    assert found.centroids.shape == (2, 2)


def test_more_records_than_the_cap_are_refused_without_their_number() -> None:
    with pytest.raises(DataError, match=r"records.*cap of 50") as refused:
        cluster(
            mechanism(FASTLLOYD),
            LocalRecords(DOMAIN, np.zeros((77, 2), dtype=np.int64)),
            SystemNoise(),
        )
    assert "77" not in str(refused.value)


def test_no_records_at_all_are_clustered_like_any_others() -> None:
    found = cluster(
        mechanism(FASTLLOYD), LocalRecords(DOMAIN, np.zeros((0, 2), dtype=np.int64)), SystemNoise()
    )
    assert found.centroids.shape == (2, 2)


class Elsewhere:
    """Records that say how many they are, and answer zeros."""

    share_bits = 0

    def __init__(self, *counts: int | None, domain: Domain = DOMAIN) -> None:
        self.domain = domain
        self.n, *self._counts = counts

    def answer(self, query: Query) -> tuple[IntArray, int]:
        n = self._counts.pop(0)
        assert n is not None
        return np.zeros(query.question.shape, dtype=np.int64), n


@pytest.mark.parametrize("counts", [(51,), (None, 51), (50, 51), (None, 50, 51)])
def test_wherever_records_lie_more_than_the_cap_are_refused_in_the_first_pass_that_finds_them(
    counts: Any,
) -> None:
    with pytest.raises(DataError, match=r"records.*cap of 50"):
        cluster(mechanism(FASTLLOYD), Elsewhere(*counts), SystemNoise())


@pytest.mark.parametrize("counts", [(40, 41), (40, 39), (None, 40, 41), (None, 40, 39)])
def test_wherever_records_lie_another_number_of_them_than_before_is_refused(counts: Any) -> None:
    with pytest.raises(DataError, match="between two passes"):
        cluster(mechanism(FASTLLOYD), Elsewhere(*counts), SystemNoise())


def test_records_of_another_domain_are_refused() -> None:
    other = Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 2.0))
    with pytest.raises(DataError, match="another domain"):
        cluster(mechanism(FASTLLOYD), Elsewhere(40, domain=other), SystemNoise())


def test_records_know_their_number_from_the_first_pass_on() -> None:
    m, X = mechanism(FASTLLOYD), np.zeros((7, 2), dtype=np.int64)
    held, read = LocalRecords(DOMAIN, X), LocalRecords(DOMAIN, [X[:3], X[3:]])
    assert (held.n, read.n) == (7, None)
    query = m.query(0, m.start())
    (one, n), (other, m_too) = held.answer(query), read.answer(query)
    assert (n, m_too, read.n) == (7, 7, 7)
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    "algorithm",
    [FASTLLOYD, GLLOYD, SULLOYD, LLOYD, MOMENTLLOYD],
    ids=lambda algorithm: algorithm.name,
)
@pytest.mark.parametrize("n_clusters", [1, 2, 5])
def test_a_rehearsal_has_the_questions_of_the_run(algorithm: AnyAlgorithm, n_clusters: int) -> None:
    m = design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=n_clusters,
        n_records=50,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(0),
        estimate_loss=True,
    )
    assert [query.question for query in rehearse(m)] == [
        round.question(m) for round in m.all_rounds
    ]


class Watched(SystemNoise):
    """The system's noise, which notes in `heard` that it is drawn."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        self._heard.append("drawn")
        return super().gaussian(scale, size)

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        self._heard.append("drawn")
        return super().two_sided_geometric(scale, size)


def of_bounds() -> AnyRun:
    outer = outer_range(DOMAIN.features, [-100.0, -100.0], [100.0, 100.0])
    return design(
        BoundsSettings(
            domain=outer, n_records=5000, epsilon=1.0, public_seed=PublicSeed.from_int(0)
        )
    )


def of_clusters(algorithm: AnyAlgorithm) -> AnyRun:
    common: dict[str, Any] = {
        "n_clusters": 2,
        "n_records": 50,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(0),
    }
    return design_mechanism(algorithm, DOMAIN, **common, estimate_loss=True)


@pytest.mark.parametrize(
    "m",
    [*map(of_clusters, (FASTLLOYD, GLLOYD, SULLOYD, MOMENTLLOYD)), of_bounds()],
    ids=["fastlloyd", "glloyd", "sulloyd", "momentlloyd", "bounds"],
)
def test_of_every_round_is_told_before_its_noise_is_drawn(m: AnyRun) -> None:
    heard: list[str] = []
    release(
        m,
        LocalRecords(m.domain, np.zeros((7, 2), dtype=np.int64)),
        Watched(heard),
        lambda n: heard.append(f"round {n}"),
    )
    assert m.n_rounds > 1
    assert [event for event, _ in groupby(heard)] == [
        each for n in range(m.n_rounds) for each in (f"round {n}", "drawn")
    ]
