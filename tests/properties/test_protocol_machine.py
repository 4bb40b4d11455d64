"""Schedules of bad luck and of attacks on a virtual network: whatever happens, what finishes is right, and nothing is opened
or masked twice.

2,000 schedules of at most 60 operations, half of them bad luck only. The network delivers, drops, duplicates, delays,
reorders and replays messages and lets deadlines pass; processes die at any point of a step, and are restored from what was
durable then; the attacker also corrupts messages, misdirects them, shows clients different broadcasts (among them proper sums
over other sets of real uploads), deals keys it knows, and speaks in the name of others. A round needs two clients of three,
more than half, so that no two groups can be led to different results. `make campaign` plays as many as are asked for.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.messages import Parameters
from schedules import (
    ATTACKS,
    BAD_LUCK,
    MAX_OPERATIONS,
    Schedule,
    check_after_attacks,
    check_after_bad_luck,
    often_in_order,
    play,
)
from virtual_network import Network, Watch

TRUST = pytest.mark.parametrize("trust", TrustMode)
DEATHS = [
    f"{who}, {when}"
    for who in ("client", "server")
    for when in ("before commit", "after commit", "after sending some", "between steps")
]


def schedules(names: tuple[str, ...]) -> st.SearchStrategy[Schedule]:
    small = st.integers(0, 255)
    operation = st.tuples(st.sampled_from(often_in_order(names)), small, small)
    # the length is drawn first: lists of bounded size are short by themselves
    return st.integers(0, MAX_OPERATIONS).flatmap(lambda n: st.lists(operation, min_size=n, max_size=n))


@TRUST
def test_under_bad_luck_nobody_is_accused_and_every_opened_sum_is_exact(
    trust: TrustMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
    @given(schedules(BAD_LUCK))
    def check(schedule: Schedule) -> None:
        network = play(trust.value, watch, schedule)
        check_after_bad_luck(network)
        network.count(outcomes)

    check()
    assert min(outcomes[what] for what in ("finished", "none finished", "left out", *DEATHS)) > 5, outcomes


@TRUST
def test_under_attack_what_finishes_is_right_and_the_same_for_all(trust: TrustMode, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
    @given(schedules(BAD_LUCK + ATTACKS))
    def check(schedule: Schedule) -> None:
        network = play(trust.value, watch, schedule)
        check_after_attacks(network)
        network.count(outcomes)

    check()
    # the attacks reached every party, and did not stop every run
    assert min(outcomes[party] for party in ("(server)", "c0", "c1", "c2")) > 50, outcomes
    assert min(outcomes[what] for what in ("finished", "some finished", "left out", *DEATHS)) > 5, outcomes


@pytest.mark.parametrize(
    ("names", "check_after"), [(BAD_LUCK, check_after_bad_luck), (BAD_LUCK + ATTACKS, check_after_attacks)]
)
@TRUST
def test_the_same_where_parameters_travel(
    trust: TrustMode, names: tuple[str, ...], check_after: Callable[[Network], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
    @given(schedules(names))
    def check(schedule: Schedule) -> None:
        network = play(f"momentlloyd, {trust.value}", watch, schedule)
        check_after(network)
        network.count(outcomes)
        outcomes["taken over"] += any(p.client != "c0" for p in network._recorded("(server)", Parameters))

    check()
    assert min(outcomes[what] for what in ("finished", "left out", "taken over")) > 3, outcomes
