"""Threads that share spans of the records: every record once, whoever takes it, and the right
sums.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")

from fastlloyd.base import compiling
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.threads import reading_ahead
from fastlloyd.clustering import kernels, parallel, reference
from fastlloyd.clustering.parallel import over_spans, sum_over_spans

assert compiling.is_compiled(1 << 40)


@pytest.fixture(params=["1", "2", "5"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """That many, however little there is to do."""
    monkeypatch.setenv("OMP_NUM_THREADS", request.param)
    monkeypatch.setattr(parallel, "WORTH_THREADS", 1)
    return int(request.param)


def records(n: int, d: int = 1) -> NDArray[np.int32]:
    return np.zeros((n, d), dtype=np.int32)


def span(start: int, stop: int) -> tuple[int, int]:
    return start, stop


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
@pytest.mark.parametrize("least", [1, 3, 2000])
def test_spans_cover_every_record_once(n: int, least: int, threads: int) -> None:
    found = sorted(over_spans(span, records(n, 2), least=least))
    assert [i for start, stop in found for i in range(start, stop)] == list(range(n))
    assert all(stop - start >= least for start, stop in found) or len(found) == 1
    assert len(found) == max(1, min(n // least, threads))


def test_of_long_work_threads_take_more_than_one_span_each(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "WORTH_PIECES", 1000 * (3 + parallel.READING_STEPS))
    assert len(over_spans(span, records(1000), 3, least=1)) == (2 * threads if threads > 1 else 1)
    assert len(over_spans(span, records(999), 3, least=1)) == threads


def test_what_takes_long_is_split_up_for_one_thread_too(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt waits for a span at most; and sums of a span stay exact."""
    monkeypatch.setattr(parallel, "READING_STEPS", 1)
    monkeypatch.setattr(parallel, "SPAN_STEPS", 100)
    assert len(over_spans(span, records(1000), 2, least=1)) == 30
    monkeypatch.setattr(parallel, "MOST_STEPS", 400)
    assert len(over_spans(span, records(1000), 3, least=1000)) == 10
    monkeypatch.setattr(parallel, "MOST_RECORDS", 50)
    assert len(over_spans(span, records(1000), least=1000)) == 20
    assert threads


def test_one_thread_does_what_is_small_and_several_what_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def in_spans(_task: object, _n: int, _pieces: int, threads: int) -> None:
        calls.extend([threads] if threads > 1 else [])

    monkeypatch.setattr(parallel, "in_spans", in_spans)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    X = records(1 << 16)
    k = parallel.WORTH_THREADS // len(X) - parallel.READING_STEPS
    over_spans(span, X, k - 1)
    over_spans(span, X, k, blas=True)
    assert calls == []
    over_spans(span, X, k)
    assert calls == [3]
    with reading_ahead():
        over_spans(span, X, 2 * k + parallel.READING_STEPS, blas=True)
    assert calls == [3, 2]
    monkeypatch.setattr(parallel, "is_compiled", lambda _: False)
    over_spans(span, X, 1 << 20)
    assert calls == [3, 2]


@settings(max_examples=50)
@given(
    n=st.integers(0, 500),
    least=st.integers(1, 600),
    n_threads=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_the_sum_is_that_of_all_records(n: int, least: int, n_threads: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-(2**60), 2**60, (n, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", str(n_threads))
        patch.setattr(parallel, "WORTH_THREADS", 1)
        found = sum_over_spans(
            lambda start, stop: values[start:stop].sum(axis=0), values, least=least
        )
    assert found.tolist() == values.sum(axis=0).tolist()


class Kernel:
    """A compiled function, and which spans it was called for by which thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.spans: list[tuple[int, int]] = []
        self.by: set[int] = set()

    def __call__(self, XT: Any, start: int, stop: int, *rest: Any) -> Any:
        time.sleep(0.005)  # without the interpreter's lock, as compiled code runs
        self.spans.append((start, stop))
        self.by.add(threading.get_ident())
        return self.function(XT, start, stop, *rest)


def test_an_iteration_is_one_kernel_for_each_span_and_helpers_take_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fastlloyd.clustering.compiled import distances

    kernel = Kernel(distances.feature_labels[4])
    monkeypatch.setitem(distances.feature_labels, 4, kernel)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.integers(-99, 100, (20_000, 3), dtype=np.int32))
    C = rng.integers(-99, 100, (150, 3))
    found, expected = (
        kernels.cluster_statistics(X, C, 2000),
        reference.cluster_statistics(X, C, 2000),
    )
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert sorted(kernel.spans) == [(0, 10_000), (10_000, 20_000)]
    for _ in range(100):  # a helper that is slow to wake up may find nothing left
        if len(kernel.by) == 2:
            break
        kernels.cluster_statistics(X, C, 2000)
    assert len(kernel.by) == 2


Problem = tuple[IntArray, IntArray]


def test_callers_in_several_threads_find_the_sums_of_their_own_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(parallel, "WORTH_THREADS", 1)
    monkeypatch.setattr(parallel, "LEAST_RECORDS", 10)
    problems: list[Problem] = []
    for seed, d in enumerate((3, 3, 20, 40)):
        rng = np.random.default_rng(seed)
        problems.append((rng.integers(-1000, 1001, (2000, d)), rng.integers(-1000, 1001, (5, d))))
    expected = [reference.cluster_statistics(X, C, 700_000) for X, C in problems]
    wrong: list[int] = []

    def caller(i: int) -> None:
        X, C = problems[i]
        for _ in range(50):
            found = kernels.cluster_statistics(X, C, 700_000)
            if not all(np.array_equal(a, b) for a, b in zip(found, expected[i], strict=True)):
                wrong.append(i)

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
