"""Timings of several sides by turns, so that other load on the machine affects all sides alike. The
module imports only NumPy, because environments of rivals use it, too.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# seconds: work that takes less is repeated; the system takes some ms to put two threads on two
# cores
SHORTEST = 0.05
# seconds before each timing: threads of the other side that wait for work by turning round have
# gone to sleep
PAUSE = 0.03

Work = Callable[[], object]


class Spent(NamedTuple):
    """Seconds of wall time, and of CPU time in all threads of the process."""

    wall: float
    cpu: float


class Pair(NamedTuple):
    """Median seconds of both sides, and the median of the ratio peer / ours. If the ratio is above
    1, ours is faster.
    """

    ours: float
    peer: float
    ratio: float


def spent(work: Work, times: int) -> Spent:
    """Do the work `times` times, and return the mean time."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        work()
    return Spent((time.perf_counter() - wall) / times, (time.process_time() - cpu) / times)


def in_turn(timers: Sequence[Callable[[int], Spent]], repetitions: int) -> NDArray[np.float64]:
    """Time all sides by turns, `repetitions` times, after a first turn that is not counted. Work
    that takes less than `SHORTEST` seconds is repeated within a turn.

    timers : for each side, a function that does the work a given number of times, and returns the
        mean time.

    Returns float64 (repetitions, sides, 2), with wall and CPU seconds.
    """
    for timer in timers:
        timer(1)
    times = [max(1, int(SHORTEST / _rested(timer, 1).wall)) for timer in timers]
    return np.array(
        [
            [_rested(timer, n) for timer, n in zip(timers, times, strict=True)]
            for _ in range(repetitions)
        ]
    )


def paired(ours: Work, peer: Work, repetitions: int) -> Pair:
    """Return the wall times of two kinds of work, measured by turns in this process."""
    a = in_turn([lambda times: spent(ours, times), lambda times: spent(peer, times)], repetitions)[
        :, :, 0
    ]
    medians = np.median(a, axis=0)
    return Pair(float(medians[0]), float(medians[1]), float(np.median(a[:, 1] / a[:, 0])))


def _rested(timer: Callable[[int], Spent], times: int) -> Spent:
    time.sleep(PAUSE)
    return timer(times)
