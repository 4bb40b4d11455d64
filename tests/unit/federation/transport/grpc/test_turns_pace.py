"""Whoever says more than is needed is heard so many times at once, and then once a second, however
it spreads its words.
"""

from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.federation.transport.grpc.turns import Pace


def test_a_burst_is_heard_at_once_and_then_one_a_second() -> None:
    pace = Pace(3)
    assert [pace.pause(100.0) for _ in range(6)] == [0, 0, 0, 1, 2, 3]
    assert pace.pause(103.5) == 0.5  # each waits for those before it, on whatever stream
    assert [pace.pause(1000.0) for _ in range(4)] == [0, 0, 0, 1]


@given(steps=st.lists(st.integers(0, 4), min_size=1, max_size=60), burst=st.integers(1, 8))
def test_no_span_of_time_holds_more_than_the_burst_and_one_a_second(
    steps: list[int], burst: int
) -> None:
    pace, now, heard = Pace(burst), 0.0, list[float]()
    for step in steps:
        now += step
        heard.append(now + pace.pause(now))
    for first in range(len(heard)):
        for last in range(first, len(heard)):
            assert last - first + 1 <= burst + heard[last] - heard[first]
