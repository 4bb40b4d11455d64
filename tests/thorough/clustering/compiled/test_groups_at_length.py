"""Labels found by groups beside exact integers, at many shapes."""

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import finest_bits
from fastlloyd.clustering.filter import Exact, Labels, decide, relative_error

SIZE = 16


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


@st.composite
def hard(draw: st.DrawFn) -> tuple[IntArray, IntArray]:
    """Ties, near ties, binary and coincident points, points that group by group are equal, grids up
    to the finest.
    """
    d, k, n = draw(st.integers(1, 8)), draw(st.integers(1, 100)), draw(st.integers(1, 600))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    B = 2 ** draw(st.integers(1, finest_bits(d)))
    kind = draw(st.sampled_from(["any", "binary", "near ties", "coincident", "equal groups"]))
    X, C = (
        generator.integers(-B, B, (n, d), endpoint=True),
        generator.integers(-B, B, (k, d), endpoint=True),
    )
    if kind == "binary":
        X, C = np.where(X > 0, B, -B), np.where(C > 0, B, -B)
    if kind == "coincident":
        C[:] = C[0]
    if kind == "equal groups":
        C = np.concatenate([C[:SIZE]] * 4)
    if kind == "near ties":  # between two points, up to one unit in each coordinate
        pairs = generator.integers(0, k, (2, n))
        X = ((C[pairs[0]] + C[pairs[1]]) // 2 + generator.integers(-1, 2, (n, d))).clip(-B, B)
    return X, C


@settings(max_examples=300)
@given(hard(), st.sampled_from([1, 7, 64, 1024]))
def test_labels_are_those_of_exact_integers(
    situation: tuple[IntArray, IntArray], rows: int
) -> None:
    X, C = situation
    found, doubts = labelled(X, C, rows=rows)
    assert np.array_equal(found, by_definition(X, C))
    assert 0 <= doubts <= len(X)


def test_labels_are_those_of_the_other_loops() -> None:
    generator = np.random.default_rng(0)
    for d in range(1, 9):
        X, C = (
            generator.integers(-3000, 3000, (5000, d)).astype(np.int32),
            generator.integers(-3000, 3000, (700, d)),
        )
        C[350:] = C[
            :350
        ]  # of every pair of equal points the first, in another group, has the record
        found = {}
        for least in (1, 1 << 20):
            with (
                mock.patch.object(kernels, "GROUPED_POINTS", least),
                mock.patch.object(kernels, "MOST_AXES", 0),
            ):
                found[least] = kernels.assign(X, C, limits=np.full(d, 3000))
        assert np.array_equal(found[1], found[1 << 20])
        assert found[1].max() < 350
