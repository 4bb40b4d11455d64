"""Paired timings: both sides in turn, in one process, so that whatever else the machine does meets both."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SHORTEST = 0.05  # seconds: work that takes less is repeated; the system takes some ms to put two threads on two cores
PAUSE = 0.03  # seconds before each timing: threads of the other side that wait for work by turning round have gone to sleep

Work = Callable[[], object]


class Pair(NamedTuple):
    """Median seconds of both sides, and the median over pairs of peer / ours: above 1, ours is faster."""

    ours: float
    peer: float
    ratio: float


def paired(ours: Work, peer: Work, repetitions: int) -> Pair:
    """Time both in turn, `repetitions` times, after each has run once; what is shorter than `SHORTEST` is repeated."""
    _seconds(ours, 1), _seconds(peer, 1)
    times = [max(1, int(SHORTEST / _seconds(work, 1))) for work in (ours, peer)]
    a = np.array([[_seconds(work, n) / n for work, n in zip((ours, peer), times, strict=True)] for _ in range(repetitions)])
    medians = np.median(a, axis=0)
    return Pair(float(medians[0]), float(medians[1]), float(np.median(a[:, 1] / a[:, 0])))


def _seconds(work: Work, times: int) -> float:
    time.sleep(PAUSE)
    start = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - start
