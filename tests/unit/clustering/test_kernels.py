"""The fast kernel is the plain one bit for bit, and the plain one is the definition."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.clustering import kernels, reference
from fastlloyd.clustering.domain import Domain, IntArray


def cube(d: int, q: int) -> Domain:
    return Domain(features=tuple(f"f{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d, fraction_bits=q)


def by_definition(X: IntArray, centroids: IntArray, squared_radius: int | None) -> tuple[IntArray, IntArray]:
    """Section 4.1 in Python integers, one record at a time."""
    sums, counts = [[0] * centroids.shape[1] for _ in centroids], [0] * len(centroids)
    for x in X.tolist():
        offsets = [[a - b for a, b in zip(x, c, strict=True)] for c in centroids.tolist()]
        squared = [sum(v * v for v in offset) for offset in offsets]
        j = squared.index(min(squared))
        if squared_radius is None or squared[j] <= squared_radius:
            sums[j] = [a + b for a, b in zip(sums[j], offsets[j], strict=True)]
            counts[j] += 1
    return np.array(sums, dtype=np.int64).reshape(centroids.shape), np.array(counts, dtype=np.int64)


def equal(found: tuple[IntArray, IntArray], expected: tuple[IntArray, IntArray]) -> bool:
    return all(a.dtype == b.dtype == np.int64 and np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@st.composite
def situations(draw: st.DrawFn, max_d: int = 64) -> tuple[IntArray, IntArray, int | None]:
    """Records, centroids and a radius: ties and coincident centroids in small boxes, saturated centroids in large ones."""
    n, k, d = draw(st.integers(0, 40)), draw(st.integers(1, 8)), draw(st.integers(1, max_d))
    box = cube(d, draw(st.integers(1, 16)))
    B, c = 2**box.fraction_bits, box.saturation
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    reach = min(B, draw(st.sampled_from([1, 2, B])))
    X = generator.integers(-reach, reach, (n, d), endpoint=True)
    centroids = generator.integers(-reach, reach, (k, d), endpoint=True)
    far = generator.random((k, d)) < draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    centroids = np.where(far, generator.choice([-c, c], (k, d)), centroids)
    if draw(st.booleans()):
        centroids[-1] = centroids[0]
    kind = draw(st.sampled_from(["none", "zero", "any", "boundary"]))
    if kind == "none":
        return X, centroids, None
    if kind == "zero":
        return X, centroids, 0
    if kind == "any" or n == 0:
        return X, centroids, draw(st.integers(0, 4 * d * B**2))
    nearest = min(((X[0] - centroids) ** 2).sum(axis=1).tolist())
    return X, centroids, max(0, nearest - draw(st.integers(0, 1)))


@settings(max_examples=300)
@given(situations(max_d=12))
def test_the_reference_is_the_definition(situation: tuple[IntArray, IntArray, int | None]) -> None:
    assert equal(reference.cluster_statistics(*situation), by_definition(*situation))


@settings(max_examples=600)
@given(situations(), st.integers(1, 45))
def test_the_kernel_is_the_reference_bit_for_bit_whatever_the_block_size(
    situation: tuple[IntArray, IntArray, int | None], block_rows: int
) -> None:
    expected = reference.cluster_statistics(*situation)
    assert equal(kernels.cluster_statistics(*situation), expected)
    assert equal(kernels.cluster_statistics(*situation, block_rows=block_rows), expected)


@settings(max_examples=200)
@given(situations(), st.integers(1, 45))
def test_assign_names_the_lowest_of_the_nearest_centroids(
    situation: tuple[IntArray, IntArray, int | None], block_rows: int
) -> None:
    X, centroids, _ = situation
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2)
    for labels in (kernels.assign(X, centroids), kernels.assign(X, centroids, block_rows=block_rows)):
        assert labels.dtype == np.int64
        assert labels.tolist() == [row.tolist().index(row.min()) for row in squared]


@pytest.mark.parametrize(("n", "k", "d", "q"), [(300, 3, 1024, 16), (700, 100, 8, 16), (5000, 15, 2, 24), (1000, 7, 1, 25)])
def test_the_kernel_is_the_reference_on_large_shapes_and_in_several_default_blocks(n: int, k: int, d: int, q: int) -> None:
    generator = np.random.default_rng(n)
    box = cube(d, q)
    B = 2**q
    X = generator.integers(-B, B, (n, d), endpoint=True)
    centroids = generator.integers(-B, B, (k, d), endpoint=True)
    centroids[0] = box.saturation
    centroids[-1] = -box.saturation
    for squared_radius in (None, 0, int(np.median(((X[:, None] - centroids[:4]) ** 2).sum(axis=2).min(axis=1)))):
        assert equal(
            kernels.cluster_statistics(X, centroids, squared_radius),
            reference.cluster_statistics(X, centroids, squared_radius),
        )


def test_a_record_exactly_at_the_radius_is_kept_and_one_unit_farther_is_not() -> None:
    # 46**2 + 33**2 + 7**2 = 3254 is no square, as a squared radius need not be
    X, centroids = np.array([[46, -33, 7]]), np.zeros((1, 3), dtype=np.int64)
    for count in (kernels.cluster_statistics, reference.cluster_statistics):
        assert equal(count(X, centroids, 3254), (X, np.array([1])))
        assert equal(count(X, centroids, 3253), (0 * X, np.array([0])))


@given(st.integers(1, 300), st.integers(0, 2**32))
def test_squared_distances_are_exact_at_the_largest_magnitudes(d: int, seed: int) -> None:
    finest = max(q for q in range(1, 26) if d * (2 << q) ** 2 < 1 << 53)
    box = cube(d, finest)
    generator = np.random.default_rng(seed)
    X = generator.choice([-(2**finest), 2**finest - 1], (3, d))
    C = generator.choice([-box.saturation, box.saturation], (2, d))
    exact = [[sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in C.tolist()] for x in X.tolist()]
    assert [[int(v) for v in row] for row in kernels.squared_distances(X, C)] == exact
    labels, squared = kernels.nearest(X.astype(np.float64), C.astype(np.float64))
    assert [int(v) for v in squared] == [min(row) for row in exact]
    assert labels.tolist() == [row.index(min(row)) for row in exact]


@given(st.integers(0, 5000), st.integers(1, 10**7), st.none() | st.integers(1, 600))
def test_blocks_cover_every_record_once_and_bound_the_larger_matrix(n: int, width: int, block_rows: int | None) -> None:
    ranges = kernels.blocks(n, width, block_rows)
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(n))
    limit = block_rows or max(256, kernels.BLOCK_ELEMENTS // width)
    assert all(stop - start <= limit for start, stop in ranges)


def test_w32_no_array_of_records_times_clusters_exists() -> None:
    # n k d float64 would be 320 MB here, n k alone 160 MB; the limit is 8 blocks.
    n, k, d = 200_000, 100, 2
    X = np.random.default_rng(0).integers(-(2**16), 2**16, (n, d))
    centroids = X[:k].copy()
    tracemalloc.start()
    try:
        for squared_radius in (2**30, None):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            kernels.cluster_statistics(X, centroids, squared_radius)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 8 * kernels.BLOCK_ELEMENTS * 8 < n * k * 8 / 9
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        kernels.assign(X, centroids)
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < n * 8 + 8 * kernels.BLOCK_ELEMENTS * 8
    finally:
        tracemalloc.stop()
