"""The nearest of many points: float32 finds the group, exact numbers the point in it, and doubts
are decided among all.
"""

import numpy as np
import pytest

from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import finest_bits
from fastlloyd.clustering.filter import Exact, Labels, decide, relative_error
from paths import path_of

numba = pytest.importorskip("numba")
SIZE = 16


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    assert compiling.is_compiled(1 << 40)


def labelled(
    X: IntArray, C: IntArray, *, rows: int = 64, error: float | None = None
) -> tuple[Labels, int]:
    """Labels, and how many records were in doubt."""
    from fastlloyd.clustering.compiled.groups import group_labels

    labels, doubtful = np.full((2, len(X)), -1, dtype=np.int32)
    e, XT = (
        relative_error(X.shape[1]) if error is None else error,
        np.ascontiguousarray(X.T, dtype=np.int32),
    )
    width = kernels._width(X.shape[1])
    n = group_labels[len(width)](XT, 0, len(X), C, e, rows, labels, doubtful, width)
    decide(XT, 0, doubtful[:n], Exact(C), np.inf, labels)
    return labels, n


def by_definition(X: IntArray, C: IntArray) -> IntArray:
    """In integers, which 63 bits hold."""
    return np.array([((x - C) ** 2).sum(axis=1).argmin() for x in X])


@pytest.mark.parametrize("d", range(3, 9))
def test_labels_of_records_far_from_all_points_are_exact(d: int) -> None:
    """Products with small points nearly add up to 0: of the margin only the record's own part tells
    how they are rounded.
    """
    generator, B = np.random.default_rng(d), 2 ** finest_bits(d)
    X, C = B - generator.integers(0, 4, (3000, d)), generator.integers(-3, 4, (100, d))
    C[:, 0] -= C.sum(axis=1)
    assert np.array_equal(labelled(X, C)[0], by_definition(X, C))


def test_a_record_is_in_doubt_where_float32_cannot_tell_two_groups_apart() -> None:
    """Points of one group are told apart by exact distances, and leave no doubt; the same points in
    two groups do.
    """
    base = np.zeros((2 * SIZE, 1), dtype=np.int64)
    base[:, 0] = 2**24 + np.arange(2 * SIZE) * 2**20
    near = base.copy()
    near[1] = near[0] + 1
    found, doubts = labelled(near[:2], near)
    assert (found.tolist(), doubts) == ([0, 1], 0)
    far = base.copy()
    far[SIZE] = far[0] + 1
    found, doubts = labelled(far[[0, SIZE]], far)
    assert (found.tolist(), doubts) == ([0, SIZE], 2)
    found, doubts = labelled(
        far[[0, SIZE]], far, error=0.0
    )  # without the margin one of them is wrong
    assert (found.tolist(), doubts) != ([0, SIZE], 0)


def test_more_doubts_than_are_decided_at_once() -> None:
    generator = np.random.default_rng(0)
    X, C = generator.integers(-900, 900, (3000, 3)), generator.integers(-900, 900, (40, 3))
    C[SIZE:] = C[0]
    C[:SIZE] = C[0]
    found, doubts = labelled(X, C, rows=1024)
    assert (set(found.tolist()), doubts) == ({0}, len(X))


def test_no_path_is_chosen_by_the_records() -> None:
    """Python runs the same lines for records that are all in doubt; compiled code decides each of
    them once.
    """
    generator = np.random.default_rng(0)
    C = generator.integers(-900, 900, (600, 5))
    ordinary = generator.integers(-900, 900, (1000, 5)).astype(np.int32)
    halfway = np.zeros_like(ordinary)
    halfway[:] = (C[0] + C[SIZE]) // 2
    kernels.assign(ordinary, C)  # compiled code is loaded on the way
    assert path_of(lambda: kernels.assign(ordinary, C)) == path_of(
        lambda: kernels.assign(halfway, C)
    )
