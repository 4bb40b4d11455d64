"""float32 proposes, exact numbers decide: the bound, what is in doubt, and what is decided."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import filter as proposed
from fastlloyd.clustering import kernels, reference
from fastlloyd.clustering.domain import finest_bits
from fastlloyd.clustering.filter import Nearest, relative_error

numba = pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    assert compiling.is_compiled(1 << 40)


def labelled(
    X: IntArray,
    C: IntArray,
    H2: float = np.inf,
    *,
    by_feature: bool = True,
    rows: int | None = None,
) -> tuple[Any, int]:
    """Labels, and how many records were in doubt."""
    near = Nearest(C, H2, by_feature=by_feature, block_rows=rows)
    Z = np.ascontiguousarray((X.T if by_feature else X).astype(np.int32))
    found = [(labels.copy(), doubts) for _, labels, doubts in near.labels(Z, 0, len(X))]
    return np.concatenate([labels for labels, _ in found]), sum(doubts for _, doubts in found)


def by_definition(X: IntArray, C: IntArray, H2: float = np.inf) -> list[int]:
    """In integers, which 63 bits hold."""
    squared = ((X[:, None, :] - C) ** 2).sum(axis=2)
    return [int(j) for j in np.where(squared.min(axis=1) <= H2, squared.argmin(axis=1), len(C))]


@st.composite
def hard(draw: st.DrawFn) -> tuple[IntArray, IntArray, float]:
    """Ties, near ties, binary and coincident points, grids up to the finest, coordinates above
    2**24, radii at a record.
    """
    d, k, n = draw(st.integers(1, 40)), draw(st.integers(1, 30)), draw(st.integers(1, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    B = 2 ** draw(st.integers(1, finest_bits(d)))
    kind = draw(st.sampled_from(["any", "binary", "near ties", "coincident"]))
    X, C = (
        generator.integers(-B, B, (n, d), endpoint=True),
        generator.integers(-B, B, (k, d), endpoint=True),
    )
    if kind == "binary":
        X, C = np.where(X > 0, B, -B), np.where(C > 0, B, -B)
    if kind == "coincident":
        C[:] = C[0]
    if kind == "near ties":  # between two centroids, up to one unit in each coordinate
        pairs = generator.integers(0, k, (2, n))
        X = (C[pairs[0]] + C[pairs[1]]) // 2 + generator.integers(-1, 2, (n, d))
        X = X.clip(-B, B)
    squared = ((X[0] - C) ** 2).sum(axis=1).min()
    return (
        X,
        C,
        draw(
            st.sampled_from([np.inf, 0.0, float(squared), float(squared - 1), float(squared) * 1.3])
        ),
    )


@settings(max_examples=300)
@given(
    hard(), st.sampled_from(["by feature", "by row", "turned"]), st.sampled_from([None, 1, 7, 32])
)
def test_labels_are_those_of_exact_integers(
    situation: tuple[IntArray, IntArray, float], way: str, rows: int | None
) -> None:
    X, C, H2 = situation
    with mock.patch.object(proposed, "TURNED_CLUSTERS", 0 if way == "turned" else 128):
        found, _ = labelled(X, C, H2, by_feature=way == "by feature", rows=rows)
    assert found.tolist() == by_definition(X, C, H2)


@settings(max_examples=100)
@given(hard())
def test_sums_are_those_of_the_reference(situation: tuple[IntArray, IntArray, float]) -> None:
    X, C, H2 = situation
    squared_radius = None if np.isinf(H2) else max(0, int(H2))
    expected = reference.cluster_statistics(X, C, squared_radius)
    with mock.patch.object(kernels, "KEYED_FEATURES", 0):
        for limits in (None, np.abs(X).max(axis=0), np.full(X.shape[1], 2**31 - 1)):
            found = kernels.cluster_statistics(X.astype(np.int32), C, squared_radius, limits=limits)
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def one_by_one(A: Any, B: Any, **options: Any) -> Any:
    """A matrix product that adds in the order of the features: as good as any other, and the worst
    for `absorbing`.
    """
    found = np.zeros(
        (*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), A.shape[-2], B.shape[-1]),
        dtype=np.float32,
    )
    for j in range(A.shape[-1]):
        found += A[..., :, j, None] * B[..., None, j, :]
    if "out" in options:
        options["out"][...] = found
    return found


def absorbing(d: int) -> tuple[IntArray, IntArray]:
    """A record, itself as a centroid, and one with its first coordinate alone: beside that all
    others are too small to add.
    """
    x = np.full(d, 253)
    x[0] = 2**20
    return x[None], np.array([np.where(np.arange(d) == 0, x, 0), x])


def scores(X: IntArray, C: IntArray) -> Iterator[tuple[list[int], list[int], Any, Any, float]]:
    """Records and centroids with their scores, added up in two orders, and |x|^2, as float32 gives
    them.
    """
    near = Nearest(C, np.inf, by_feature=True)
    A, x = near.A.reshape(-1, C.shape[1])[: len(C)], X.astype(np.float32)
    for multiply in (np.matmul, one_by_one):
        found = multiply(A, x.T) + near.constants[: len(C), None]
        squares = multiply(x, x.T).diagonal()
        for i, row in enumerate(X.tolist()):
            for j, c in enumerate(C.tolist()):
                yield row, c, found[j, i], squares[i], near.e


def worst(d: int, B: int, seed: int) -> tuple[IntArray, IntArray]:
    """Coordinates whose conversion rounds by nearly half a unit, and products that cancel: what
    float32 likes least.
    """
    generator = np.random.default_rng(seed)
    odd = (1 << generator.integers(1, B.bit_length(), (8, d))) + 1
    X = np.where(odd > B, B, odd) * generator.choice([-1, 1], (8, d))
    return X, np.concatenate([X[:4] + generator.integers(-1, 2, (4, d)), -X[4:]]).clip(-B, B)


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(0, 2**32), st.sampled_from(["any", "worst", "absorbing"]))
def test_a_score_is_as_near_to_the_exact_one_as_is_claimed(d: int, seed: int, kind: str) -> None:
    B = 2 ** finest_bits(d)
    generator = np.random.default_rng(seed)
    X, C = generator.integers(-B, B, (2, 4, d))
    if kind != "any":
        X, C = worst(d, B, seed) if kind == "worst" else absorbing(d)
    for x, c, score, square, e in scores(X, C):
        xx, cc, xc = (
            sum(a * a for a in x),
            sum(a * a for a in c),
            sum(a * b for a, b in zip(x, c, strict=True)),
        )
        claimed = (Fraction(e) - Fraction(5, 1 << 24)) * (xx + cc)
        assert abs(Fraction(float(score)) - ((1 - 2 * Fraction(e)) * cc - 2 * xc)) <= claimed
        assert abs(Fraction(float(square)) - xx) <= (Fraction(e) - Fraction(5, 1 << 24)) * xx


def last_infinite(constant: float) -> Any:
    """A constant, and those of three centroids infinitely far away."""
    return np.array([constant, *[np.inf] * 3], dtype=np.float32)


def added_up(A: Any, x: Any, constants: Any) -> Any:
    """Scores as the loops for few features add them up: with the constant from the start."""
    from fastlloyd.clustering.compiled.distances import columns, least_keys

    (k, d), n = A.shape, x.shape[1]
    block: Any = np.zeros((columns(d), 64), dtype=np.float32)
    rows: Any = np.zeros((k, 4, columns(d)), dtype=np.float32)
    block[:d, :n], rows[:, 0, :d] = x, A
    found: Any = np.empty((k, 64), dtype=np.float32)
    for row, constant, scores in zip(rows, constants, found, strict=True):
        least_keys(block, row, last_infinite(constant), scores, n, kernels._width(d))
    return found[:, :n]


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(0, 2**32), st.sampled_from(["any", "worst", "absorbing"]))
def test_compiled_loops_keep_scores_as_near(d: int, seed: int, kind: str) -> None:
    B = 2 ** finest_bits(d)
    X, C = np.random.default_rng(seed).integers(-B, B, (2, 4, d))
    if kind != "any":
        X, C = worst(d, B, seed) if kind == "worst" else absorbing(d)
    near = Nearest(C, np.inf, by_feature=True)
    found = added_up(
        near.A.reshape(-1, d)[: len(C)], X.T.astype(np.float32), near.constants[: len(C)]
    )
    e = Fraction(near.e) - Fraction(5, 1 << 24)
    for j, c in enumerate(C.tolist()):
        for i, x in enumerate(X.tolist()):
            xx, cc, xc = (
                sum(a * a for a in x),
                sum(a * a for a in c),
                sum(a * b for a, b in zip(x, c, strict=True)),
            )
            exact = (1 - 2 * Fraction(near.e)) * cc - 2 * xc
            assert abs(Fraction(float(found[j, i])) - exact) <= e * (xx + 2 * cc)


def near_ties(n: int, d: int, B: int) -> tuple[IntArray, IntArray]:
    """Records half-way between two far centroids, but for a few units in one coordinate."""
    generator = np.random.default_rng(d)
    C = generator.integers(-B, B, (2, d))
    X = np.tile((C[0] + C[1]) // 2, (n, 1))
    X[np.arange(n), generator.integers(0, d, n)] += generator.integers(-40, 41, n)
    return X, C


@pytest.mark.parametrize("d", [64, 256, 4096])
def test_an_eighth_of_the_bound_would_give_a_wrong_label(d: int) -> None:
    X, C = absorbing(d)
    with mock.patch.object(np, "matmul", one_by_one):
        assert labelled(X, C, rows=1)[0].tolist() == [1]
        with mock.patch.object(proposed, "relative_error", lambda d: relative_error(d) / 8):
            assert labelled(X, C, rows=1)[0].tolist() == [0]


@pytest.mark.parametrize("by_feature", [False, True])
@pytest.mark.parametrize(("share", "label"), [(0.99, 1), (1.01, 0)])
def test_a_centroid_may_be_the_nearest_if_its_score_exceeds_the_least_by_less_than_the_margin(
    by_feature: bool, share: float, label: int
) -> None:
    x, C = np.full((1, 12), 100), np.array([[100, -100], [99, 90]]).repeat(6, axis=1)
    near = Nearest(C, np.inf, by_feature=by_feature)
    square, top = float((x**2).sum()), 4 * near.e * float((C**2).sum(axis=1).max())
    margin = 2.02 * near.e * square + min(top, 8.4 * near.e * square)

    def wrong(_A: Any, _B: Any, out: Any) -> None:
        out[0, 0, :2] = (-square + np.array([0, share * margin]) - near.constants[:2])[
            :, np.newaxis
        ]

    with mock.patch.object(np, "matmul", wrong):
        assert labelled(x, C, by_feature=by_feature)[0].tolist() == [label]


@pytest.mark.parametrize("by_feature", [False, True])
def test_records_between_two_centroids_are_in_doubt_and_no_others(by_feature: bool) -> None:
    generator = np.random.default_rng(0)
    C = np.array([[-1000, 0, 0], [1000, 0, 0], [1000, 0, 0]])[:2].repeat(4, axis=1)
    X = C[generator.integers(0, 2, 500)] + generator.integers(-99, 100, (500, 12))
    assert labelled(X, C, by_feature=by_feature)[1] == 0
    X[::7] = 0
    assert labelled(X, C, by_feature=by_feature)[1] == len(X[::7])
    radius = float(((X[3] - C) ** 2).sum(axis=1).min())
    labels, n = labelled(X[:5], C, radius, by_feature=by_feature)
    assert n >= 2  # the first lies between both, the fourth at the radius
    assert labels.tolist() == by_definition(X[:5], C, radius)


def test_what_is_decided_of_a_record_does_not_depend_on_the_others() -> None:
    X, C = near_ties(300, 20, 2**16)
    alone = [labelled(x[None], C) for x in X]
    labels, doubts = labelled(X, C)
    assert labels.tolist() == [label.item() for label, _ in alone]
    assert doubts == sum(n for _, n in alone)


def rounding_to(bits: int, only: tuple[int, ...] | None = None) -> Any:
    """A matrix product whose factors are first rounded to so many bits, or those of one shape
    `only`.
    """
    multiply = np.matmul

    def rounded(A: Any, B: Any, **options: Any) -> Any:
        if only and (A.shape[-2], *B.shape[-2:]) != only:
            return multiply(A, B, **options)
        short = []
        for factor in (A, B):
            mantissa, exponent = np.frexp(factor)
            short.append(
                np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent).astype(np.float32)
            )
        return multiply(*short, **options)

    return rounded


@pytest.fixture
def anew() -> Iterator[None]:
    """Ask matrix products anew how they round."""
    proposed._float32_is_whole.cache_clear()
    yield
    proposed._float32_is_whole.cache_clear()


def is_certain(k: int, d: int, by_feature: bool = True) -> bool:
    return Nearest(np.zeros((k, d), dtype=np.int64), np.inf, by_feature=by_feature).is_certain


@pytest.mark.parametrize("bits", [8, 11, 19, 23])
@pytest.mark.usefixtures("anew")
def test_products_of_fewer_bits_are_noticed_and_done_without(bits: int) -> None:
    with mock.patch.object(np, "matmul", rounding_to(bits)):
        assert not is_certain(2, 20)
        X, C = near_ties(300, 20, 2**16)
        found = kernels.assign(X.astype(np.int32), C)
        assert found.tolist() == by_definition(X, C)
        sums = kernels.cluster_statistics(X.astype(np.int32), C, None)
        assert all(
            np.array_equal(a, b)
            for a, b in zip(sums, reference.cluster_statistics(X, C, None), strict=True)
        )


@pytest.mark.parametrize("by_feature", [False, True])
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 20), (3, 64), (200, 9), (200, 300), (9, 5000)])
@pytest.mark.usefixtures("anew")
def test_products_are_asked_in_the_shape_that_is_used(k: int, d: int, by_feature: bool) -> None:
    near = Nearest(np.zeros((k, d), dtype=np.int64), np.inf, by_feature=by_feature)
    with mock.patch.object(np, "matmul", rounding_to(23, only=(near.size, d, near.rows))):
        assert not near.is_certain
        assert is_certain(k + 8, d + 1, by_feature)


def test_more_features_than_the_proof_allows_are_done_without_float32() -> None:
    assert is_certain(1, proposed.MOST_FEATURES)
    assert not is_certain(1, proposed.MOST_FEATURES + 1)
