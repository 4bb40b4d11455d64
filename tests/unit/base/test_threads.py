"""Threads that share pieces of work: every piece once, whoever takes it, and nothing kept
afterwards.
"""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from fastlloyd.base.threads import shared, work_together


def numbers(n: int) -> list[Callable[[], int]]:
    return [partial(int, i) for i in range(n)]


def a_helper_comes() -> bool:
    """Within a minute: one that has just been started, or is busy, does not come, and that is
    allowed.
    """

    def who() -> int:
        time.sleep(0.02)
        return threading.get_ident()

    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(set(work_together([who] * 4, 2))) == 2:
            return True
    return False


def test_a_helper_that_waits_uses_no_processor_time() -> None:
    assert a_helper_comes()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15


@pytest.mark.parametrize("failing", [0, 3])
def test_what_fails_in_any_thread_is_raised_to_the_caller(failing: int) -> None:
    def piece(i: int) -> int:
        if i == failing:
            raise ValueError("the piece that fails")
        return i

    for _ in range(20):
        with pytest.raises(ValueError, match="piece that fails"):
            work_together([partial(piece, i) for i in range(4)], 2)
        assert sorted(work_together(numbers(4), 2)) == [0, 1, 2, 3]


def test_after_a_failure_nothing_more_is_begun_and_what_was_begun_has_ended() -> None:
    begun: list[int] = []
    ended: list[int] = []

    def piece(i: int) -> None:
        begun.append(i)
        time.sleep(0.01)
        if i == 1:
            raise ValueError(i)
        time.sleep(0.05)
        ended.append(i)

    with pytest.raises(ValueError, match="1"):
        work_together([partial(piece, i) for i in range(50)], 3)
    assert sorted([*ended, 1]) == sorted(begun)
    assert len(begun) < 10


def test_callers_in_several_threads_get_their_own_results() -> None:
    results: dict[int, list[list[int]]] = {}

    def caller(i: int) -> None:
        results[i] = [
            sorted(work_together([partial(int, 100 * i + j) for j in range(7)], 3))
            for _ in range(200)
        ]

    threads = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {i: [[100 * i + a for a in range(7)]] * 200 for i in range(4)}


def test_nobody_waits_for_what_a_helper_does_for_another() -> None:
    """All helpers are busy with somebody else's work until ours is done."""
    done = threading.Event()

    def busy() -> bool:
        return done.wait(60)

    other = threading.Thread(target=work_together, args=([busy] * 10, 4))
    other.start()
    found = work_together(numbers(7), 3)
    done.set()
    other.join(60)
    assert sorted(found) == list(range(7))


def test_nothing_of_a_job_is_kept() -> None:
    values = np.zeros(10)
    watched = weakref.ref(values)
    work_together([values.sum] * 10, 2)
    del values
    for _ in range(200):  # a helper that came late lets go a moment later
        gc.collect()
        if watched() is None:
            break
        time.sleep(0.01)
    assert watched() is None


class Result:
    """A result that can be watched."""


def test_a_helper_that_comes_late_finds_no_results() -> None:
    """All helpers are busy while the results are forgotten."""
    done = threading.Event()
    other = threading.Thread(target=work_together, args=([partial(done.wait, 60)] * 10, 4))
    other.start()
    found = work_together([Result] * 4, 3)
    watched = [weakref.ref(each) for each in found]
    del found
    gc.collect()
    kept = [each() is not None for each in watched]
    done.set()
    other.join(60)
    assert kept == [False] * 4


@pytest.mark.parametrize(
    ("nanoseconds", "wanted"), [(0, 1), (499_999, 1), (500_000, 2), (749_999, 2), (10**9, 5)]
)
def test_every_thread_has_work_that_repays_it(
    nanoseconds: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    spans = sorted(shared(lambda start, stop: (start, stop), 1000, nanoseconds))
    assert len(spans) == (1 if wanted == 1 else 2 * wanted)
    assert [i for start, stop in spans for i in range(start, stop)] == list(range(1000))
