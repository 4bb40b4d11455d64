"""The fast kernels are the plain one bit for bit, and the plain one is the definition."""

import importlib.util
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels, parallel, reference
from fastlloyd.clustering.domain import Domain, finest_bits


def cube(d: int, q: int) -> Domain:
    return Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=q,
    )


# Ways to the same integers, which `kernels` chooses from by shape; here each is forced on every
# shape, keys on those of up to KEYED_FEATURES. Blocks of one more feature than the cache would
# like, and two threads that share small data, make every branch of them run.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"is_compiled": lambda _: False},
    "by key": {"is_compiled": lambda _: True, "is_by_feature": lambda _: True},
    "by feature": {
        "is_compiled": lambda _: True,
        "is_by_feature": lambda _: True,
        "KEYED_FEATURES": 0,
    },
    "by row": {
        "is_compiled": lambda _: True,
        "is_by_feature": lambda _: False,
        "KEYED_FEATURES": 0,
    },
}
each_way = pytest.mark.parametrize("way", WAYS)


@contextmanager
def forced(way: str) -> Iterator[None]:
    if way != "plain":
        pytest.importorskip("numba")
    with (
        mock.patch.multiple(kernels, **WAYS[way]),
        mock.patch.multiple(parallel, WORTH_THREADS=1, LEAST_RECORDS=5),
        mock.patch.dict("os.environ", OMP_NUM_THREADS="2"),
    ):
        assert way == "plain" or compiling.is_compiled(1 << 40)
        yield


def by_definition(
    X: IntArray, centroids: IntArray, squared_radius: int | None
) -> tuple[IntArray, IntArray]:
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
    return all(
        a.dtype == b.dtype == np.int64 and np.array_equal(a, b)
        for a, b in zip(found, expected, strict=True)
    )


@st.composite
def situations(draw: st.DrawFn, max_d: int = 64) -> tuple[IntArray, IntArray, int | None]:
    """Records, centroids and a radius: ties and coincident centroids in small boxes, saturated
    centroids in large ones.
    """
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


@each_way
@settings(max_examples=400)
@given(
    situations(), st.integers(1, 45), st.sampled_from([np.int32, np.int64]), st.sampled_from("CF")
)
def test_the_kernel_is_the_reference_bit_for_bit_whatever_the_block_size_and_the_layout(
    way: str,
    situation: tuple[IntArray, IntArray, int | None],
    block_rows: int,
    dtype: type,
    order: Literal["C", "F"],
) -> None:
    X, centroids, squared_radius = situation
    expected = reference.cluster_statistics(X, centroids, squared_radius)
    X = X.astype(dtype, order=order)
    with forced(way):
        assert equal(kernels.cluster_statistics(X, centroids, squared_radius), expected)
        assert equal(
            kernels.cluster_statistics(X, centroids, squared_radius, block_rows=block_rows),
            expected,
        )


@each_way
@settings(max_examples=200)
@given(
    situations(), st.integers(1, 45), st.sampled_from([np.int32, np.int64]), st.sampled_from("CF")
)
def test_assign_names_the_lowest_of_the_nearest_centroids(
    way: str,
    situation: tuple[IntArray, IntArray, int | None],
    block_rows: int,
    dtype: type,
    order: Literal["C", "F"],
) -> None:
    X, centroids, _ = situation
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2)
    X = X.astype(dtype, order=order)
    with forced(way):
        for labels in (
            kernels.assign(X, centroids),
            kernels.assign(X, centroids, block_rows=block_rows),
        ):
            assert labels.dtype == np.int32
            assert labels.tolist() == [row.tolist().index(row.min()) for row in squared]


@st.composite
def grids(draw: st.DrawFn) -> tuple[IntArray, IntArray]:
    """Points of a grid of 1 to 3 features, the last axis fastest, and records: many halfway between
    two of them, or beyond.
    """
    axes = draw(
        st.lists(
            st.lists(st.integers(-9, 9), min_size=1, max_size=5, unique=True).map(sorted),
            min_size=1,
            max_size=3,
        )
    )
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    records = draw(st.lists(st.tuples(*[st.integers(-11, 11)] * len(axes)), max_size=20))
    return np.array(records, dtype=np.int64).reshape(-1, len(axes)), points


@settings(max_examples=300)
@given(grids(), st.sampled_from([np.int32, np.int64]), st.booleans())
def test_labels_on_a_grid_are_found_axis_by_axis_without_a_distance(
    grid: tuple[IntArray, IntArray], dtype: type, is_shuffled: bool
) -> None:
    X, points = grid
    searched: list[int] = []

    def search(*arguments: Any) -> None:
        searched.append(len(points))
        search_axes(*arguments)

    if is_shuffled:
        points = points[::-1]
    squared = ((X[:, None, :] - points) ** 2).sum(axis=2)
    search_axes = kernels._grid_labels
    with mock.patch.multiple(kernels, LEAST_POINTS=2, AXIS_ROWS=7, _grid_labels=search):
        labels = kernels.assign(X.astype(dtype), points)
    assert labels.tolist() == [row.tolist().index(row.min()) for row in squared]
    assert bool(searched) == (len(points) > 1 and not is_shuffled)


def test_what_is_no_whole_grid_is_not_searched_as_one() -> None:
    grid = np.stack(np.meshgrid(range(9), range(8), indexing="ij"), axis=-1).reshape(-1, 2)
    doubled = np.concatenate([grid[:-1], grid[:1]])
    moved = grid + np.eye(72, 2, dtype=np.int64)
    assert [
        bool(kernels._axes(C))
        for C in (grid, grid[:-1], doubled, moved, np.repeat(grid, 2, axis=1))
    ] == [
        True,
        *[False] * 4,
    ]


@each_way
@pytest.mark.parametrize(
    ("n", "k", "d", "q"),
    [(300, 3, 1024, 16), (700, 100, 8, 16), (5000, 15, 2, 24), (1000, 7, 1, 25)],
)
def test_the_kernel_is_the_reference_on_large_shapes_and_in_several_default_blocks(
    way: str, n: int, k: int, d: int, q: int
) -> None:
    generator = np.random.default_rng(n)
    box = cube(d, q)
    B = 2**q
    X = generator.integers(-B, B, (n, d), endpoint=True)
    centroids = generator.integers(-B, B, (k, d), endpoint=True)
    centroids[0] = box.saturation
    centroids[-1] = -box.saturation
    for squared_radius in (
        None,
        0,
        int(np.median(((X[:, None] - centroids[:4]) ** 2).sum(axis=2).min(axis=1))),
    ):
        with forced(way):
            found = kernels.cluster_statistics(X, centroids, squared_radius)
        assert equal(found, reference.cluster_statistics(X, centroids, squared_radius))


@each_way
@pytest.mark.parametrize("d", [1, 3, 16, 40])
@pytest.mark.parametrize("order", "CF")
def test_records_and_centroids_may_lie_in_memory_as_they_like(
    way: str, d: int, order: Literal["C", "F"]
) -> None:
    """Of any signed integers and byte order, not aligned, apart from one another, and read-only, as
    a file that is mapped.
    """
    generator = np.random.default_rng(d)
    X, centroids = generator.integers(-99, 100, (300, d)), generator.integers(-99, 100, (7, d))
    expected, labels = (
        reference.cluster_statistics(X, centroids, 3000 * d),
        kernels.assign(X, centroids),
    )
    limits = np.full(d, 99)
    limits.flags.writeable = False
    for dtype in (np.int8, np.int16, np.int32, np.int64, ">i4", ">i8"):
        plain = X.astype(dtype, order=order)
        shifted = np.ndarray(X.shape, dtype, bytearray(plain.nbytes + 1), offset=1, order=order)
        shifted[...] = plain
        for records in (plain, shifted, np.repeat(plain, 2, axis=0)[::2], plain[::-1][::-1]):
            records.flags.writeable = False
            C = centroids.astype(">i8", order=order)
            C.flags.writeable = False
            with forced(way):
                assert equal(
                    kernels.cluster_statistics(records, C, 3000 * d, limits=limits), expected
                )
                assert np.array_equal(kernels.assign(records, C, limits=limits), labels)


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
    exact = [
        [sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in C.tolist()]
        for x in X.tolist()
    ]
    assert [[int(v) for v in row] for row in kernels.squared_distances(X, C)] == exact
    labels, squared = kernels.nearest(X.astype(np.float64), C.astype(np.float64))
    assert [int(v) for v in squared] == [min(row) for row in exact]
    assert labels.tolist() == [row.index(min(row)) for row in exact]


@given(st.integers(0, 5000), st.integers(1, 10**7), st.none() | st.integers(1, 600))
def test_blocks_cover_every_record_once_and_bound_the_larger_matrix(
    n: int, width: int, block_rows: int | None
) -> None:
    ranges = kernels.blocks(n, width, block_rows)
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(n))
    limit = block_rows or max(256, kernels.BLOCK_ELEMENTS // width)
    assert all(stop - start <= limit for start, stop in ranges)


@each_way
def test_w32_no_array_of_records_times_clusters_exists(way: str) -> None:
    # n k d float64 would be 320 MB here, n k alone 160 MB; the limit is 8 blocks.
    n, k, d = 200_000, 100, 2
    X = np.random.default_rng(0).integers(-(2**16), 2**16, (n, d))
    centroids = X[:k].copy()
    with forced(way):
        (
            kernels.cluster_statistics(X[:9], centroids, None),
            kernels.assign(X[:9], centroids),
        )  # loads compiled code
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


LIMITS = ("none", "box", "reach")


def known(limits: str, X: IntArray, box: Domain) -> IntArray | None:
    """Nothing; the box of the domain; or no more than where records happen to lie."""
    if limits == "none":
        return None
    return box.half_widths if limits == "box" else np.abs(X).max(axis=0, initial=0)


@each_way
@settings(max_examples=200)
@given(situations(), st.sampled_from(LIMITS), st.sampled_from("CF"))
def test_whatever_is_known_of_the_range_of_records_the_integers_are_the_same(
    way: str,
    situation: tuple[IntArray, IntArray, int | None],
    limits: str,
    order: Literal["C", "F"],
) -> None:
    X, centroids, squared_radius = situation
    known_limits = known(limits, X, cube(X.shape[1], 16))
    squared = ((X[:, None, :] - centroids) ** 2).sum(axis=2)
    expected = reference.cluster_statistics(X, centroids, squared_radius)
    X = X.astype(np.int32, order=order)
    with forced(way):
        assert equal(
            kernels.cluster_statistics(X, centroids, squared_radius, limits=known_limits), expected
        )
        assert kernels.assign(X, centroids, limits=known_limits).tolist() == [
            row.tolist().index(row.min()) for row in squared
        ]


@settings(max_examples=300)
@given(
    st.integers(1, 40), st.integers(1, 20), st.integers(1, 25), st.integers(0, 2**32), st.booleans()
)
def test_as_many_centroids_share_a_key_as_stay_exact_for_every_record_of_the_range(
    k: int, d: int, q: int, seed: int, saturated: bool
) -> None:
    pytest.importorskip("numba")
    q = min(q, finest_bits(d))
    box, generator = cube(d, q), np.random.default_rng(seed)
    reach = box.saturation if saturated else 2**q
    C = generator.integers(-reach, reach, (k, d), endpoint=True)
    L = int(kernels._group_size(C, box.half_widths))
    # the largest sum of magnitudes on the way to a key: of a record in the corner opposite to the
    # centroid
    largest = max(sum(c * c + 2 * abs(c) * 2**q for c in centroid) for centroid in C.tolist())
    assert L & (L - 1) == 0
    assert L * (largest + 1) <= 2**53
    assert k <= L < 2 * k or 2 * L * (largest + 1) > 2**53
    assert kernels._group_size(C, None) == 1  # and this is exact wherever distances are


@pytest.mark.parametrize(("d", "k"), [(1, 40), (2, 3), (2, 15), (3, 9), (5, 7), (16, 10), (20, 37)])
@pytest.mark.parametrize("way", ["by key", "by feature", "by row"])
def test_at_the_finest_grid_records_and_centroids_in_the_corners_are_told_apart(
    way: str, d: int, k: int
) -> None:
    """Where few or no two centroids share a key, and ties are between groups."""
    q = finest_bits(d)
    box, generator = cube(d, q), np.random.default_rng(d)
    X = generator.choice([-(2**q), -(2**q) + 1, 2**q], (500, d))
    C = generator.choice([-box.saturation, -(2**q), 2**q, 2**q - 1], (k, d))
    C[k // 2 :] = C[: k - k // 2]  # each a second time, in another group
    squared = ((X[:, None, :] - C) ** 2).sum(axis=2)
    with forced(way):
        assert kernels._group_size(C, box.half_widths) < k
        for limits in (box.half_widths, None):
            found = kernels.assign(X.astype(np.int32), C, limits=limits)
            assert found.tolist() == squared.argmin(axis=1).tolist()
            found_sums = kernels.cluster_statistics(
                X.astype(np.int32), C, int(np.median(squared.min(axis=1))), limits=limits
            )
            assert equal(
                found_sums, reference.cluster_statistics(X, C, int(np.median(squared.min(axis=1))))
            )


def test_the_domains_of_the_paper_have_one_key_for_all_clusters() -> None:
    # q = 16 and centroids in the box, 784 features and 16 clusters: 784 (B^2 + 2 B^2) 16 < 2^53
    pytest.importorskip("numba")
    B, k, d = 2**16, 16, 784
    assert kernels._group_size(np.full((k, d), -B), np.full(d, B)) == k


@pytest.mark.parametrize("way", ["by key", "by feature", "by row"])
@settings(max_examples=100)
@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from([0, 1, 2**20]), st.booleans())
def test_a_record_out_of_every_range_gets_some_label_and_no_number_beyond(
    way: str, k: int, d: int, limit: int, rows: bool
) -> None:
    """A label says where compiled code writes. Nobody may pass such a record; who does spoils sums,
    not memory.
    """
    X = (
        np.random.default_rng(k)
        .choice([-(2**31), 2**31 - 1, 0], (30, d))
        .astype(np.int32, order="C" if rows else "F")
    )
    C = np.random.default_rng(d).choice([-(2**40), 2**40 + 1, 3], (k, d))
    with forced(way):
        labels = kernels.assign(X, C, limits=np.full(d, limit))
        assert labels.min() >= 0
        assert labels.max() < k
        _, counts = kernels.cluster_statistics(X, C, None, limits=np.full(d, limit))
        assert counts.sum() == 30


@pytest.mark.skipif(
    importlib.util.find_spec("threadpoolctl") is None, reason="threadpoolctl is not installed"
)
def test_threads_that_overlap_leave_blas_as_many_threads_as_it_had() -> None:
    """The second comes before the first leaves, and leaves after it: each on its own would restore
    what the other set.
    """
    from threadpoolctl import ThreadpoolController

    def threads() -> set[int]:
        return {
            library["num_threads"]
            for library in ThreadpoolController().info()
            if library["user_api"] == "blas"
        }

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        first, second = parallel.one_blas_thread(), parallel.one_blas_thread()
        with ExitStack() as later:
            with first:
                assert threads() == {1}
                later.enter_context(second)
            assert threads() == {1}
        assert threads() == {2}
