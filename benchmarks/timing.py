"""Paired timings: both sides in turn, in one process, so that whatever else the machine does meets both."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

SHORTEST = 0.01  # seconds: work that takes less is repeated
PAUSE = 0.03  # seconds before each timing: threads of the other side that wait for work by turning round have gone to sleep

Work = Callable[[], object]


class Pair(NamedTuple):
    """Median seconds of both sides, and the median over pairs of peer / ours: above 1, ours is faster."""

    ours: float
    peer: float
    ratio: float


def paired(ours: Work, peer: Work, repetitions: int) -> Pair:
    """Time both in turn, `repetitions` times, after each has run once; short work is repeated within a timing."""
    _seconds(ours, 1), _seconds(peer, 1)
    inner = max(1, int(SHORTEST / _seconds(ours, 1)))
    pairs = [(_seconds(ours, inner), _seconds(peer, inner)) for _ in range(repetitions)]
    a, b = ([pair[side] / inner for pair in pairs] for side in (0, 1))
    return Pair(statistics.median(a), statistics.median(b), statistics.median(y / x for x, y in pairs))


def _seconds(work: Work, times: int) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start
