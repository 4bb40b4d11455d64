"""k-means of public points. All draws are fixed; hypothesis' examples are the same every time."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.base.threads import work_together
from fastlloyd.clustering import public_kmeans
from fastlloyd.clustering.public_kmeans import PublicClusters, _Lloyd, first_centroids, k_means
from fastlloyd.errors import LocalProtocolError


def _draws(number: int) -> Draws:
    return Draws(PublicSeed.from_int(number), b"fastlloyd/v1/test-of-public-points")


def _clusters(
    points: FloatArray,
    k: int,
    *,
    weights: FloatArray | None = None,
    seed: int = 1,
    n_restarts: int = 1,
    n_steps: int = 20,
) -> PublicClusters:
    w = np.ones(len(points)) if weights is None else weights
    return k_means(points, w, k, _draws(seed), n_restarts=n_restarts, n_steps=n_steps)


def _column(*numbers: float) -> FloatArray:
    return np.array(numbers, dtype=np.float64)[:, None]


def _mixture(n: int, r: int, k: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Overlapping clusters, and weights of many sizes."""
    draws = _draws(1000 + seed)
    means = draws.uniform(-1.0, 1.0, (k, r))
    points = means[draws.integers(0, k - 1, (n,))] + 0.4 / k ** (1 / r) * draws.normal((n, r))
    return points, draws.uniform(0.0, 1.0, (n,)) ** 3


def test_six_points_on_a_line_worked_by_hand() -> None:
    found = _clusters(
        _column(11, 0, 1, 10), 2, weights=np.array([3.0, 1.0, 1.0, 1.0]), n_restarts=5
    )
    order = np.argsort(found.centroids[:, 0])
    assert np.allclose(found.centroids[order, 0], [0.5, 10.75], rtol=0, atol=1e-14)
    assert np.array_equal(found.labels, order[[1, 0, 0, 1]])
    assert found.loss == pytest.approx((0.25 + 0.25 + 0.75**2 + 3 * 0.25**2) / 6, rel=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    points=st.lists(
        st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.integers(0, 3)),
        min_size=1,
        max_size=25,
    ),
    k=st.integers(1, 8),
    n_restarts=st.sampled_from([1, 7]),
    n_steps=st.integers(0, 6),
)
def test_every_step_is_sound_whatever_the_points(
    points: list[tuple[int, int, int]], k: int, n_restarts: int, n_steps: int
) -> None:
    table = np.array(points, dtype=np.float64)
    X, w = table[:, :2], table[:, 2]
    found = _clusters(X, k, weights=w, n_restarts=n_restarts, n_steps=n_steps)
    counts = w if w.any() else np.ones(len(w))
    squared = ((X[:, None, :] - found.centroids) ** 2).sum(axis=2)
    assert found.centroids.shape == (k, 2)
    assert np.isfinite(found.centroids).all()
    # labels are of nearest centroids, up to the rounding of squares below 100, and the loss is
    # theirs
    assert (squared[np.arange(len(X)), found.labels] <= squared.min(axis=1) + 1e-12).all()
    assert found.loss == pytest.approx(counts @ squared.min(axis=1) / counts.sum(), abs=1e-12)
    if n_restarts == 1:  # the same start, a step farther
        assert _clusters(X, k, weights=w, n_steps=n_steps + 1).loss <= found.loss + 1e-12


def test_after_many_steps_every_centroid_is_the_weighted_mean_of_its_points() -> None:
    points, w = _mixture(200, 3, 7, 1)
    found = _clusters(points, 7, weights=w, n_steps=100)
    for j in range(7):
        own = found.labels == j
        assert np.allclose(
            found.centroids[j], np.average(points[own], axis=0, weights=w[own]), atol=1e-13
        )


@pytest.mark.parametrize("seed", range(4))
def test_a_whole_weight_is_a_repetition(seed: int) -> None:
    points, _ = _mixture(80, 2, 4, seed)
    repeats = _draws(seed).integers(1, 4, (80,))
    weighted = _clusters(points, 4, weights=repeats.astype(np.float64), n_restarts=3)
    repeated = _clusters(np.repeat(points, repeats, axis=0), 4, n_restarts=3)
    assert np.allclose(weighted.centroids, repeated.centroids, atol=1e-12)
    assert np.array_equal(np.repeat(weighted.labels, repeats), repeated.labels)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-12)


def test_points_without_weight_have_labels_and_nothing_else() -> None:
    points, w = _mixture(100, 2, 5, 3)
    more = np.concatenate([points, [[1e6, -1e6]]])
    found, other = _clusters(points, 5, weights=w), _clusters(more, 5, weights=np.append(w, 0.0))
    assert np.allclose(found.centroids, other.centroids, atol=1e-12)
    assert np.array_equal(found.labels, other.labels[:-1])
    assert other.labels[-1] == ((found.centroids - more[-1]) ** 2).sum(axis=1).argmin()
    assert found.loss == pytest.approx(other.loss, rel=1e-12)


def test_weights_count_relative_to_each_other_only_and_none_at_all_are_equal() -> None:
    points, w = _mixture(100, 2, 5, 4)
    found, doubled = _clusters(points, 5, weights=w), _clusters(points, 5, weights=w * 2.0**1000)
    assert np.array_equal(found.centroids, doubled.centroids)
    nothing, ones = _clusters(points, 5, weights=np.zeros(100)), _clusters(points, 5)
    assert np.array_equal(nothing.centroids, ones.centroids)
    assert nothing.loss == ones.loss


def test_points_a_power_of_two_larger_have_centroids_so_much_larger_bit_for_bit() -> None:
    points, w = _mixture(150, 3, 6, 5)
    found, huge = (
        _clusters(points, 6, weights=w, n_restarts=2),
        _clusters(points * 2.0**30, 6, weights=w, n_restarts=2),
    )
    assert np.array_equal(found.centroids * 2.0**30, huge.centroids)
    assert np.array_equal(found.labels, huge.labels)
    assert found.loss * 2.0**60 == huge.loss


def test_points_far_from_zero_are_clustered_as_if_they_were_near() -> None:
    points, w = _mixture(150, 2, 4, 6)
    found, far = _clusters(points, 4, weights=w), _clusters(points + 1e9, 4, weights=w)
    assert np.allclose(found.centroids, far.centroids - 1e9, atol=1e-5)
    assert np.array_equal(found.labels, far.labels)


@pytest.mark.parametrize("r", [1, 3, 784])
def test_equal_points_are_every_centroid(r: int) -> None:
    found = _clusters(np.full((7, r), 0.3), 4, n_restarts=6)
    assert np.allclose(found.centroids, 0.3, atol=1e-15)
    assert 0 <= found.loss < 1e-28
    assert np.array_equal(
        _clusters(np.full((7, r), 0.3), 4, n_restarts=6).centroids, found.centroids
    )


@pytest.mark.parametrize(("n_points", "k"), [(9, 9), (9, 14), (1, 1), (1, 3)])
def test_with_no_more_points_than_centroids_every_point_is_one(n_points: int, k: int) -> None:
    points = _draws(7).normal((n_points, 2))
    found = _clusters(np.repeat(points, 3, axis=0), k, n_restarts=2)
    assert found.centroids.shape == (k, 2)
    distances = np.abs(found.centroids[:, None, :] - points).max(axis=2)
    assert (distances.min(axis=0) < 1e-14).all()  # every point is among the centroids,
    assert (distances.min(axis=1) < 1e-14).all()  # and every centroid among the points
    assert found.loss < 1e-28


def test_an_empty_cluster_gets_the_point_that_adds_most_to_the_loss() -> None:
    points, far = _column(0, 1, 10, 30), 1e4
    # shares of the loss, with the centroid at 5: 25, 16, 25 w and 625; each empty cluster gets
    # another point
    for w, second in ((1.0, 0.0), (2.0, 10.0)):
        lloyd = _Lloyd(points, np.array([1.0, 1.0, w, 1.0]))
        moved = lloyd.after(1, _column(5, far, -far))
        assert moved[1:, 0].tolist() == [30.0, second]
    # once a second step has put every point in its own cluster, there is nothing left to give
    alone = _Lloyd(_column(0, 1), np.ones(2)).after(3, _column(0, 1, far))
    assert alone[:, 0].tolist() == [0.0, 1.0, far]


def test_the_same_draws_give_the_same_clusters_and_others_others() -> None:
    points, w = _mixture(200, 2, 10, 8)
    first, again, other = (
        _clusters(points, 10, weights=w, seed=s, n_restarts=2) for s in (1, 1, 2)
    )
    assert np.array_equal(first.centroids, again.centroids)
    assert first.loss == again.loss
    assert not np.array_equal(first.centroids, other.centroids)


def test_how_many_numbers_are_drawn_follows_from_the_shapes_alone() -> None:
    after = []
    for points in (np.zeros((50, 2)), _mixture(50, 2, 3, 1)[0]):
        draws = _draws(1)
        k_means(points, np.ones(50), 6, draws, n_restarts=3, n_steps=2)
        after.append(draws.integers(0, 2**62, (1,))[0])
    assert after[0] == after[1]


@contextmanager
def _forced(compiled: bool) -> Iterator[None]:
    with mock.patch.object(public_kmeans, "_is_compiled", return_value=compiled):
        yield


@settings(max_examples=100, deadline=None)
@given(
    n=st.sampled_from([1, 2, 30, 255, 256, 257, 600]),
    r=st.integers(1, 9),
    k=st.one_of(st.integers(1, 12), st.integers(30, 80)),
    grid=st.sampled_from([0, 1, 3, 1000]),
    exponent=st.sampled_from([-530, -180, 0, 300]),
    seed=st.integers(0, 2**32),
)
def test_compiled_steps_are_those_of_numpy_bit_for_bit(
    n: int, r: int, k: int, grid: int, exponent: int, seed: int
) -> None:
    """Points on a coarse grid are often as far from one centroid as from another; tiny ones lose
    digits to underflow.
    """
    pytest.importorskip("numba")
    points, w = _mixture(n, r, k, seed)
    points = (np.rint(points * grid) / grid if grid else points) * 2.0**exponent
    found = []
    for compiled in (True, False):
        with _forced(compiled):
            found.append(_clusters(points, k, weights=w, seed=seed, n_restarts=6, n_steps=16))
    assert np.array_equal(found[0].centroids, found[1].centroids)
    assert np.array_equal(found[0].labels, found[1].labels)
    assert found[0].loss == found[1].loss


@settings(max_examples=40, deadline=None)
@given(
    n=st.sampled_from([257, 600, 2000]),
    r=st.integers(1, 9),
    k=st.integers(2, 60),
    grid=st.sampled_from([0, 3, 1000]),
    seed=st.integers(0, 2**32),
)
def test_compiled_starts_are_those_of_numpy(n: int, r: int, k: int, grid: int, seed: int) -> None:
    pytest.importorskip("numba")
    points, w = _mixture(n, r, k, seed)
    points = np.rint(points * grid) / grid if grid else points
    found = []
    for compiled in (True, False):
        with _forced(compiled):
            found.append(first_centroids(points, w + 1e-9, k, _draws(seed), 7))
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize(("n", "r", "k"), [(4000, 3, 40), (300, 7, 12), (2000, 1, 60)])
def test_compiled_starts_are_sure_but_for_ties(n: int, r: int, k: int) -> None:
    pytest.importorskip("numba")
    points, w = _mixture(n, r, k, 3)
    with _forced(True), mock.patch.object(public_kmeans, "_added", side_effect=AssertionError):
        first_centroids(points, w, k, _draws(1), 10)
    with (
        _forced(True),
        mock.patch.object(public_kmeans, "_added", wraps=public_kmeans._added) as added,
    ):
        square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
        first_centroids(square, np.ones(4), 4, _draws(1), 10)
    added.assert_called_once()


def test_compiled_starts_leave_a_draw_at_the_border_of_two_points_to_the_caller() -> None:
    pytest.importorskip("numba")
    from fastlloyd.clustering.compiled import public_kmeans as compiled

    def is_sure(points: FloatArray, uniform: float, chosen: IntArray) -> bool:
        blocks, weights = compiled.blocks_of(points), compiled.row_blocks_of(np.ones(len(points)))
        squares, room = compiled.squares_of(blocks), compiled.room_for_choice(blocks, 1)
        scale = float(len(points) * squares.max())
        return compiled.add_centroids(
            blocks, squares, points, weights, scale, *room, np.array([[uniform]]), chosen
        )

    square = np.array(
        [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]]
    )  # seen from the first: 0, 4, 8, 4
    for uniform, sure in ((0.25, False), (0.26, True), (0.75, False), (0.74, True)):
        chosen = np.array([0, 9])
        assert is_sure(square, uniform, chosen) == sure
        assert chosen[1] == (2 if sure else 9)
    line = np.array([0.0] + 256 * [1.0])[
        :, None
    ]  # the last stands alone in its block, behind distances of 255 in all
    for uniform, sure in ((255 / 256, False), (255.5 / 256, True)):
        assert is_sure(line, uniform, np.array([0, 9])) == sure


@settings(max_examples=60, deadline=None)
@given(
    r=st.integers(1, 6),
    k=st.integers(32, 60),
    wide=st.floats(0.1, 3.0),
    steps=st.integers(1, 8),
    seed=st.integers(0, 2**32),
)
def test_compiled_steps_from_a_poor_start_are_those_of_numpy(
    r: int, k: int, wide: float, steps: int, seed: int
) -> None:
    """Centroids among the points of one corner move far, and some of them much farther than
    others.
    """
    pytest.importorskip("numba")
    points, w = _mixture(600, r, 5, seed)
    order = np.argsort(points @ np.full(r, 1.0) + wide * _draws(seed).normal((600,)))
    lloyd, found = _Lloyd(points, w + 0.01), []
    for compiled in (True, False):
        with _forced(compiled):
            found.append(lloyd.after(steps, points[order[:k]]))
    assert np.array_equal(found[0], found[1])


def test_threads_that_share_the_starts_change_nothing_whoever_ends_first() -> None:
    pytest.importorskip("numba")
    points, w = _mixture(600, 3, 9, 2)
    lloyd, starts, found = _Lloyd(points, w + 0.01), [points[i : i + 9] for i in range(7)], []
    for threads in (1, 3):
        with (
            _forced(True),
            mock.patch.object(public_kmeans, "WORTH_THREADS", 0),
            mock.patch.object(public_kmeans, "n_threads", return_value=threads),
            mock.patch.object(public_kmeans, "work_together", side_effect=_last_first) as shared,
        ):
            found.append(lloyd.all_after(5, starts))
        assert shared.call_count == (threads > 1)
    assert np.array_equal(found[0], found[1])


def _last_first(pieces: Iterable[Callable[[], Any]], threads: int) -> list[Any]:
    assert threads == 3
    return work_together(pieces, threads)[::-1]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 4000])
def test_blocks_begin_at_a_line_of_the_cache_and_hold_every_point_once(n: int) -> None:
    pytest.importorskip("numba")
    from fastlloyd.clustering.compiled import public_kmeans as compiled

    points = _draws(3).normal((n, 3))
    blocks = compiled.blocks_of(points)
    of_blocks = compiled.room_for_steps(compiled.weighted_rows(points, np.ones(n)), 2)[-1]
    tables = blocks, compiled.squares_of(blocks), compiled.row_blocks_of(points[:, 0]), of_blocks
    assert [
        table.ctypes.data % 64 for table in (*tables, compiled.room_for_choice(blocks, 3)[0])
    ] == [0] * 5
    rows = blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])
    assert np.array_equal(rows[:n, :3], points)
    assert not rows[n:].any()
    assert not rows[:, 3:].any()


def test_compiled_steps_end_where_a_label_is_not_sure_and_where_a_cluster_is_empty() -> None:
    pytest.importorskip("numba")
    with _forced(True):
        # a point is in the middle between the centroids in the first step, in the second, or never
        for points, made in (((0, 2, 3, 8), 0), ((0, 2, 4, 10), 1), ((0, 1, 5, 8), 3)):
            assert _Lloyd(_column(*points), np.ones(4))._sure_steps(2, _column(0, 6))[0] == made
        assert _Lloyd(_column(0, 1), np.ones(2))._sure_steps(2, _column(0, 1, 9))[0] == 0
        found, labels = _Lloyd(_column(0, 1), np.ones(2))._sure_steps(0, _column(0, 1, 9))
    assert found == 1
    assert labels.tolist() == [0, 1]


@pytest.mark.parametrize("k", [31, 32, 33, 40])
def test_compiled_steps_of_many_centroids_are_made_and_end_where_bounds_or_distances_leave_a_doubt(
    k: int,
) -> None:
    pytest.importorskip("numba")
    origin, others = (
        1e6,
        100.0 * np.arange(1, k - 1),
    )  # so far away that squares below .03 are in doubt
    with _forced(True):
        # a point at 1, whose centroid stays at 0, while the nearest other one goes from 3 to where
        # its only point is
        for nearest, made in ((2.5, 3), (2.0065, 1)):
            points, centroids = ([-1.0, 1.0, nearest, *others], [0.0, 3.0, *others])
            lloyd = _Lloyd(_column(*points) + origin, np.ones(len(points)))
            assert lloyd._sure_steps(2, _column(*centroids) + origin)[0] == made


def test_compiled_labels_of_far_points_are_not_sure_between_centroids_whose_squares_underflow() -> (
    None
):
    pytest.importorskip("numba")
    draws = _draws(5)
    for _ in range(20):
        between = draws.normal((5,))  # as far from one as from the other, up to rounding
        far = draws.normal((1, 5))
        far -= far @ between / (between @ between) * between[None, :]
        one = draws.normal((1, 5))
        with _forced(True):
            assert not _Lloyd(far * 2.0**399, _ONE)._sure_steps(
                0, np.vstack([one, one + between]) * 2.0**-541
            )[0]
            assert _Lloyd(far * 2.0**399, _ONE)._sure_steps(
                0, np.vstack([one, one + far]) * 2.0**-541
            )[0]


_ONE, _TWO = np.ones(1), np.ones(2)


@pytest.mark.parametrize(
    ("points", "weights", "k", "message"),
    [
        (np.ones(2), _TWO, 1, "expected"),
        (np.ones((0, 2)), np.ones(0), 1, "expected"),
        (np.ones((2, 0)), _TWO, 1, "expected"),
        (np.ones((2, 2)), np.ones(3), 1, "expected"),
        (np.ones((2, 2)), _TWO, 0, "n_clusters"),
        (np.full((2, 2), np.nan), _TWO, 1, "finite"),
        (np.full((2, 2), 2.0**400), _TWO, 1, "beyond"),
        (np.ones((2, 2)), np.array([1.0, -1.0]), 1, "weight"),
        (np.ones((2, 2)), np.array([1.0, np.inf]), 1, "weight"),
    ],
)
def test_what_cannot_be_clustered_is_refused(
    points: FloatArray, weights: FloatArray, k: int, message: str
) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        _clusters(points, k, weights=weights)


def test_the_largest_points_and_smallest_weights_stay_finite() -> None:
    points = _draws(9).uniform(-(2.0**400), 2.0**400, (30, 3))
    found = _clusters(
        points, 4, weights=np.append(5e-324, _draws(9).uniform(0.0, 1e-300, (29,))), n_restarts=2
    )
    assert np.isfinite(found.centroids).all()
    assert np.isfinite(found.loss)
