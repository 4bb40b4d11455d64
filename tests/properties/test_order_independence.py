"""The exact statistics are a sum over records: order, blocks, threads, memory layout and who holds
a record change nothing.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels
from fastlloyd.mechanisms.queries.query import Query
from lloyd_queries import cube, moments

threadpoolctl = pytest.importorskip("threadpoolctl")


def queries(centroids: IntArray, squared_radius: int, count_bits: int = 0) -> list[Query]:
    return [moments(centroids, squared_radius, count_bits), moments(centroids, None, count_bits)]


@st.composite
def data(draw: st.DrawFn) -> tuple[IntArray, IntArray, int]:
    d, k, n = draw(st.integers(1, 12)), draw(st.integers(1, 6)), draw(st.integers(0, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    B = draw(st.sampled_from([1, 4, 2**16]))  # small boxes make ties
    X = generator.integers(-B, B, (n, d), endpoint=True)
    centroids = generator.integers(-B, B, (k, d), endpoint=True)
    return X, centroids, int(generator.integers(0, 2 * d * B**2 + 1))


@settings(max_examples=200)
@given(data(), st.integers(0, 2**32), st.integers(0, 8))
def test_permuting_the_records_changes_nothing(
    situation: tuple[IntArray, IntArray, int], seed: int, count_bits: int
) -> None:
    X, centroids, squared_radius = situation
    order = np.random.default_rng(seed).permutation(len(X))
    for query in queries(centroids, squared_radius, count_bits):
        assert np.array_equal(query.evaluate(X[order]), query.evaluate(X))
    assert np.array_equal(kernels.assign(X[order], centroids), kernels.assign(X, centroids)[order])


@settings(max_examples=200)
@given(data(), st.lists(st.integers(0, 3), min_size=60, max_size=60), st.integers(0, 8))
def test_answers_of_clients_add_up_to_the_answer_of_all_records_however_they_are_split(
    situation: tuple[IntArray, IntArray, int], owners: list[int], count_bits: int
) -> None:
    X, centroids, squared_radius = situation
    owner = np.array(owners[: len(X)], dtype=np.int64)
    for query in queries(centroids, squared_radius, count_bits):
        parts = [query.evaluate(X[owner == client]) for client in range(4)]
        assert np.array_equal(np.sum(parts, axis=0), query.evaluate(X))


@settings(max_examples=200)
@given(data(), data(), st.integers(1, 70))
def test_what_happens_to_a_record_does_not_depend_on_the_others(
    situation: tuple[IntArray, IntArray, int],
    strangers: tuple[IntArray, IntArray, int],
    block_rows: int,
) -> None:
    X, centroids, squared_radius = situation
    more = np.resize(strangers[0], (len(strangers[0]), X.shape[1]))
    together = np.vstack([X, more])
    labels = kernels.assign(together, centroids, block_rows=block_rows)[: len(X)]
    assert np.array_equal(labels, kernels.assign(X, centroids))
    alone = [query.evaluate(X) for query in queries(centroids, squared_radius)]
    for query, answer in zip(queries(centroids, squared_radius), alone, strict=True):
        assert np.array_equal(query.evaluate(together) - query.evaluate(more), answer)
        assert np.array_equal(
            sum((query.evaluate(x[None]) for x in X), np.zeros_like(answer)), answer
        )


def test_w19_appending_a_record_changes_no_row_of_the_distances() -> None:
    # On real numbers 88 of 29,575 rows of a BLAS product changed when another record was appended.
    generator = np.random.default_rng(19)
    changed = 0
    for d in (3, 17, 64, 200):
        B = 2**16 if d <= 64 else 2**15
        X = generator.integers(-B, B, (301, d), endpoint=True).astype(np.float64)
        C = generator.integers(-B, B, (11, d), endpoint=True).astype(np.float64)
        C[5] = C[4]
        C[5, 0] += 1  # near-ties
        labels, squared = kernels.nearest(X, C)
        for n in (1, 2, 3, 5, 8, 150, 300):
            some_labels, some_squared = kernels.nearest(X[:n], C)
            changed += int((some_labels != labels[:n]).sum() + (some_squared != squared[:n]).sum())
    assert changed == 0


def test_block_sizes_and_threads_change_no_bit() -> None:
    generator = np.random.default_rng(5)
    X = generator.integers(-(2**16), 2**16, (6000, 32))
    centroids = generator.integers(-(2**16), 2**16, (40, 32))
    centroids[7] = centroids[3]
    squared_radius = int(np.median(((X[:500, None] - centroids) ** 2).sum(axis=2).min(axis=1)))
    expected = kernels.cluster_statistics(X, centroids, squared_radius, block_rows=1)
    assert 0 < expected[1].sum() < len(X)
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(limits=threads):
            for block_rows in (None, 7, 64, 1000, 6000):
                found = kernels.cluster_statistics(
                    X, centroids, squared_radius, block_rows=block_rows
                )
                assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
            assert np.array_equal(
                kernels.assign(X, centroids), kernels.assign(X, centroids, block_rows=1)
            )


def test_memory_order_strides_and_byte_order_change_nothing() -> None:
    box = cube(5)
    generator = np.random.default_rng(6)
    values = generator.integers(-(2**15), 2**15, (400, 5)) / 2**14
    wide = np.zeros((800, 10))
    wide[::2, ::2] = values
    spelled = [
        values,
        np.asfortranarray(values),
        wide[::2, ::2],
        values[::-1][::-1],
        values.astype(">f8"),
        values.astype(np.float32),
        values.tolist(),
    ]
    grids = [box.to_grid(one) for one in spelled]
    assert all(np.array_equal(grid, grids[0]) for grid in grids)
    centroids = box.to_grid(values[:6]).astype(np.int64)
    for query in queries(centroids, 2**31) + queries(np.asfortranarray(centroids), 2**31):
        expected = query.evaluate(grids[0])
        for X in (
            np.asfortranarray(grids[0]),
            np.repeat(grids[0], 2, axis=0)[::2],
            grids[0].astype(">i8"),
        ):
            assert np.array_equal(query.evaluate(X), expected)
