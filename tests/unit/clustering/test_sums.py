"""Sums by label in 32 bits are those of Python's integers, whatever the values, their order and the
number of clusters.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")

from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels, reference
from fastlloyd.clustering.sums import MASKED_CLUSTERS, ClusterSums

LARGEST = (1 << 31) - 1


@st.composite
def situations(draw: st.DrawFn) -> tuple[IntArray, IntArray, int, int]:
    """Vectors (n, d), most of them as large as may be and of one sign, their labels, k, and the
    bound of coordinates.
    """
    n, d = draw(st.integers(0, 1200)), draw(st.integers(1, 21))
    k = draw(st.sampled_from([1, 2, MASKED_CLUSTERS, MASKED_CLUSTERS + 1, 60]))
    largest = draw(st.sampled_from([1, 1 << 16, LARGEST // 700, 1 << 30, LARGEST]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    signs = rng.choice([-1, 1], d) * rng.choice(
        [1, draw(st.sampled_from([1, -1]))], (n, d), p=[0.95, 0.05]
    )
    labels = (
        rng.integers(0, k + 1, n) if draw(st.booleans()) else np.full(n, draw(st.integers(0, k)))
    )
    return signs * largest, labels, k, largest


@settings(max_examples=150, deadline=None)
@given(
    situation=situations(),
    by_feature=st.booleans(),
    start=st.integers(0, 3),
    cut=st.integers(0, 1200),
)
def test_sums_and_counts_are_those_of_exact_arithmetic(
    situation: Any, by_feature: bool, start: int, cut: int
) -> None:
    X, labels, k, largest = situation
    n, d = X.shape
    expected = np.zeros((k + 1, d + 1), dtype=object)
    for record, label in zip(X.tolist(), labels.tolist(), strict=True):
        expected[label] += np.array([*record, 1], dtype=object)
    Z = np.vstack([np.full((start, d), largest), X]).astype(np.int32)
    Z = np.ascontiguousarray(Z.T) if by_feature else Z
    sums = ClusterSums((k, d), largest, by_feature=by_feature)
    for first, last in ((0, min(cut, n)), (min(cut, n), n)):
        sums.add(Z, start + first, labels[first:last].astype(np.int32))
    assert sums.totals().tolist() == expected[:k].tolist()


@pytest.mark.parametrize("k", [1, 60])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_of_the_largest_vectors_fits_and_no_second(k: int, sign: int) -> None:
    sums = ClusterSums((k, 3), LARGEST, by_feature=True)
    sums.add(np.full((3, 5), sign * LARGEST, dtype=np.int32), 0, np.zeros(5, dtype=np.int32))
    assert sums.totals()[0].tolist() == [5 * sign * LARGEST] * 3 + [5]


@pytest.mark.parametrize("d", [1, 9])
@pytest.mark.parametrize("k", [1, 30])
def test_sums_of_far_records_are_exact_where_nobody_knows_how_far_they_lie(d: int, k: int) -> None:
    assert compiling.is_compiled(1 << 40)
    X = np.full((300, d), -(1 << 24))
    C = X[:1] + np.arange(k)[:, np.newaxis]
    for found, expected in zip(
        kernels.cluster_statistics(X.astype(np.int32), C, None),
        reference.cluster_statistics(X, C, None),
        strict=True,
    ):
        assert found.tolist() == expected.tolist()
