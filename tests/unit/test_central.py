"""The central driver lets only grid points in: every sensitivity is that of a point in the box."""

from typing import Any

import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import DataError
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism

DOMAIN = Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 1.0))
B = 1 << 16


def mechanism(algorithm: Algorithm) -> LloydMechanism:
    return design_mechanism(algorithm, DOMAIN, n_clusters=2, n_records=50, epsilon=1.0, public_seed=PublicSeed.from_int(0))


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
    ids=["far away", "above", "below", "floats", "unsigned", "three columns", "one dimension", "masked", "a list"],
)
def test_what_is_not_a_grid_point_of_the_domain_is_refused(algorithm: Algorithm, X: Any) -> None:
    with pytest.raises(DataError, match=r"use Domain\.to_grid") as refused:
        cluster(mechanism(algorithm), X, SystemNoise())
    assert not any(digits in str(refused.value) for digits in (str(1 << 40), str(1 << 45)))


@pytest.mark.parametrize("corner", [B, -B])
def test_the_walls_of_the_box_are_inside(corner: int) -> None:
    assert cluster(mechanism(GLLOYD), np.full((3, 2), corner), SystemNoise()).centroids.shape == (2, 2)


def test_more_records_than_the_cap_are_refused_without_their_number() -> None:
    with pytest.raises(DataError, match="more records than the cap of 50") as refused:
        cluster(mechanism(FASTLLOYD), np.zeros((77, 2), dtype=np.int64), SystemNoise())
    assert "77" not in str(refused.value)


def test_no_records_at_all_are_clustered_like_any_others() -> None:
    assert cluster(mechanism(FASTLLOYD), np.zeros((0, 2), dtype=np.int64), SystemNoise()).centroids.shape == (2, 2)
