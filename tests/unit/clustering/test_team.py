"""Threads that work together: every span once, whoever takes it, and nothing kept afterwards."""

import gc
import os
import threading
import time
import warnings
import weakref
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

pytest.importorskip("numba", reason="compiled code is not installed: the extra `fast`")

from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import IntArray
from fastlloyd.clustering.team import share_statistics, work_together


def spans(n: int, pieces: int) -> list[tuple[int, int]]:
    return list(pairwise(n * piece // pieces for piece in range(pieces + 1)))


@settings(max_examples=30)
@given(n=st.integers(1, 1000), pieces=st.integers(1, 20), n_threads=st.integers(2, 4))
def test_every_span_is_worked_on_once(n: int, pieces: int, n_threads: int) -> None:
    found = work_together(lambda start, stop: list(range(start, stop)), spans(n, pieces), n_threads)
    assert sorted(i for part in found for i in part) == list(range(n))


def a_helper_comes() -> bool:
    """Within a minute: one that has just been started, or is busy, does not come, and that is allowed."""

    def who(_start: int, _stop: int) -> int:
        time.sleep(0.02)
        return threading.get_ident()

    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(set(work_together(who, spans(4, 4), 2))) == 2:
            return True
    return False


def test_a_helper_comes_when_it_is_looking_and_when_it_sleeps() -> None:
    for pause in (0.0, 0.05):  # far longer than it looks
        time.sleep(pause)
        assert a_helper_comes()


def test_a_helper_that_sleeps_uses_no_processor_time() -> None:
    work_together(lambda *_: None, spans(2, 2), 2)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15


@pytest.mark.parametrize("failing", [0, 3])
def test_what_fails_in_any_thread_is_raised_to_the_caller(failing: int) -> None:
    def task(start: int, _: int) -> int:
        if start == failing:
            raise ValueError("the span that fails")
        return start

    with pytest.raises(ValueError, match="the span that fails"):
        work_together(task, spans(4, 4), 2)
    assert sorted(work_together(lambda a, _: a, spans(4, 4), 2)) == [0, 1, 2, 3]


def test_callers_in_several_threads_get_their_own_results() -> None:
    results: dict[int, list[list[int]]] = {}

    def caller(i: int) -> None:
        def task(start: int, _: int) -> int:
            return 100 * i + start

        results[i] = [sorted(work_together(task, spans(7, 7), 3)) for _ in range(50)]

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {i: [[100 * i + a for a in range(7)]] * 50 for i in range(4)}


def part(records: NDArray[np.float64], start: int, stop: int) -> float:
    return float(records[start:stop].sum())


def test_nothing_of_a_job_is_kept() -> None:
    records = np.zeros(10)
    watched = weakref.ref(records)
    work_together(partial(part, records), spans(10, 10), 2)
    del records
    for _ in range(200):  # a helper that came late lets go a moment later
        gc.collect()
        if watched() is None:
            break
        time.sleep(0.01)
    assert watched() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_child_has_helpers_of_its_own() -> None:
    assert a_helper_comes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with threads: that is the point
        child = os.fork()
    if child == 0:
        os._exit(0 if a_helper_comes() else 1)
    assert os.waitpid(child, 0)[1] == 0


Problem = tuple[NDArray[np.int32], IntArray, int]


def problem(seed: int, n: int = 2000, k: int = 5, d: int = 3) -> Problem:
    rng = np.random.default_rng(seed)
    return rng.integers(-1000, 1001, (d, n), dtype=np.int32), rng.integers(-1000, 1001, (k, d)), 500_000


def absolute(problem: Problem, start: int, stop: int) -> tuple[IntArray, IntArray]:
    """By the definition: the sums themselves, not relative to centroids."""
    XT, centroids, squared_radius = problem
    sums, counts = reference.cluster_statistics(XT.T[start:stop].astype(np.int64), centroids, squared_radius)
    return sums + counts[:, None] * centroids, counts


def shared(problem: Problem, start: int, stop: int, chunk: int, n_threads: int) -> tuple[IntArray, IntArray]:
    XT, centroids, squared_radius = problem
    group = 1 << (len(centroids) - 1).bit_length()
    found = share_statistics(XT, (start, stop), chunk, centroids, group, float(squared_radius), 16, n_threads)
    assert found is not None
    return found


@settings(max_examples=60)
@given(
    seed=st.integers(0, 99),
    ends=st.tuples(st.integers(0, 2000), st.integers(0, 2000)),
    chunk=st.integers(1, 3000),
    n_threads=st.integers(2, 4),
    k=st.integers(1, 7),
    d=st.integers(1, 5),
)
def test_threads_share_a_computation_and_find_what_one_finds(
    seed: int, ends: tuple[int, int], chunk: int, n_threads: int, k: int, d: int
) -> None:
    asked = problem(seed, k=k, d=d)
    found, expected = shared(asked, min(ends), max(ends), chunk, n_threads), absolute(asked, min(ends), max(ends))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_callers_in_several_threads_share_at_the_same_time_and_each_finds_its_own() -> None:
    """Helpers are offered to one caller, called by another, asleep or at work: nobody's sums are mixed up or lost."""
    problems = [problem(seed) for seed in range(4)]
    expected = [absolute(asked, 0, 2000) for asked in problems]
    wrong: list[int] = []

    def caller(i: int) -> None:
        for repetition in range(200):
            if i == 3 and repetition % 2:
                work_together(lambda a, _: a, spans(4, 4), 3)
            found = shared(problems[i], 0, 2000, 1 + (repetition * 37) % 300, 3)
            if not all(np.array_equal(a, b) for a, b in zip(found, expected[i], strict=True)):
                wrong.append(i)
            if repetition % 50 == 49:
                time.sleep(0.01)

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_a_helper_takes_a_part_when_it_is_looking_and_when_it_sleeps() -> None:
    """Seen by the sums themselves: those of the helper are not those of the caller."""
    from fastlloyd.clustering import compiled, team

    asked = problem(0, n=400_000)
    (helper,) = team._team(1).helpers
    XT, centroids, squared_radius = asked
    for pause in (0.0, 0.05):
        for _ in range(2000):  # one that is just falling asleep may come too late
            time.sleep(pause)
            numbers = np.zeros(2 + 20, dtype=np.int64)
            at = numbers.__array_interface__["data"][0]
            arrays = [XT.__array_interface__["data"][0], 3, XT.shape[1], 5, at, centroids.__array_interface__["data"][0]]
            ticket = np.array([*arrays, at + 16, at + 16 + 8 * 15, 0, XT.shape[1], 4096, 256, 8])
            helper.offer(ticket, float(squared_radius))
            time.sleep(0.02)
            compiled.withdraw(team._team(1).states, at)
            if numbers[2:].any():
                break
        expected = np.concatenate([part.ravel() for part in absolute(asked, 0, 400_000)])
        assert np.array_equal(numbers[2:], expected)
        assert numbers[0] > 400_000 // 4096
