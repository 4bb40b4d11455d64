"""Connections on which nobody of the plan was heard are counted: never too many, and in the end
all.
"""

from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.federation.transport.grpc.turns import Arrivals


def test_who_came_and_was_not_heard_by_the_second_look_is_counted_once() -> None:
    arrivals = Arrivals(10)
    for _ in range(5):
        arrivals.came()
    arrivals.heard("ipv4:10.0.0.1:5000")
    arrivals.heard("ipv4:10.0.0.1:5000")  # says more on the same connection
    assert arrivals.look() == 0  # they may just have come
    arrivals.heard("ipv4:10.0.0.1:5001")
    assert [arrivals.look() for _ in range(3)] == [3, 0, 0]
    assert arrivals.n_unheard == 3


@given(st.lists(st.sampled_from(["heard", "unheard", "look"]), max_size=60))
def test_none_that_is_heard_is_counted_and_in_the_end_all_others_are(steps: list[str]) -> None:
    arrivals, n_unheard = Arrivals(60), 0
    for number, step in enumerate(steps):
        if step == "look":
            arrivals.look()
            continue
        arrivals.came()
        if step == "heard":
            arrivals.heard(str(number))
        n_unheard += step == "unheard"
        assert arrivals.n_unheard <= n_unheard
    arrivals.look()
    arrivals.look()
    assert arrivals.n_unheard == n_unheard


def test_what_is_remembered_of_peers_is_bounded() -> None:
    arrivals = Arrivals(3)
    for number in range(100):
        arrivals.came()
        arrivals.heard(str(number))
    assert len(arrivals._peers) == 3
