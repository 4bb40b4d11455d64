"""Schedules of bad luck and of attacks on a virtual network: whatever happens, what finishes is
right, and nothing is opened or masked twice.

800 schedules of at most 60 operations with both kinds of masks, 300 of them of bad luck only; who
adds the noise is drawn with each. The network delivers, drops, duplicates, delays, reorders and
replays messages and lets deadlines pass; processes die at any point of a step, and are restored
from what was durable then; the attacker also corrupts messages, misdirects them, shows clients
different key sets and different broadcasts (among them proper sums over other sets of real
uploads), deals keys it knows, and speaks in the name of others. A key set needs two clients of
three, more than half, so that no two groups can be led to different results. `make campaign` plays
as many as are asked for.
"""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.messages import Parameters
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from schedules import (
    ATTACKS,
    BAD_LUCK,
    BEGINNINGS,
    MAX_OPERATIONS,
    Schedule,
    check_after_attacks,
    check_after_bad_luck,
    often_in_order,
    play,
    subject,
)
from virtual_network import Network, Watch

TRUST = pytest.mark.parametrize("trust", TrustMode)
MASKS = pytest.mark.parametrize("masks", Masks)
DRAWN_TRUST, DRAWN_MASKS = st.sampled_from(TrustMode), st.sampled_from(Masks)
DEATHS = [
    f"{who}, {when}"
    for who in ("client", "server")
    for when in ("before commit", "after commit", "after sending some", "between steps")
]


def schedules(names: tuple[str, ...]) -> st.SearchStrategy[Schedule]:
    """Three bytes an operation, drawn at once: number by number, drawing would take as long as
    playing.
    """
    operations = often_in_order(names)

    def read(drawn: bytes) -> Schedule:
        return [
            (operations[i % len(operations)], a, b)
            for i, a, b in zip(*(drawn[of::3] for of in range(3)), strict=True)
        ]

    # the length is drawn first: bytes of bounded number are few by themselves
    random = st.integers(0, MAX_OPERATIONS).flatmap(
        lambda n: st.binary(min_size=3 * n, max_size=3 * n)
    )
    return st.tuples(st.sampled_from(BEGINNINGS), random).map(
        lambda parts: [*parts[0], *read(parts[1])]
    )


@MASKS
def test_under_bad_luck_nobody_is_accused_and_every_opened_sum_is_exact(
    masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
    @given(DRAWN_TRUST, schedules(BAD_LUCK))
    def check(trust: TrustMode, schedule: Schedule) -> None:
        network = play(subject(FASTLLOYD, trust, masks), watch, schedule)
        check_after_bad_luck(network)
        network.count(outcomes)

    check()
    expected = ("finished", "none finished", "fewer share keys", "left out", *DEATHS)
    assert min(outcomes[what] for what in expected) > 5, outcomes


@MASKS
def test_under_attack_what_finishes_is_right_and_the_same_for_all(
    masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
    @given(DRAWN_TRUST, schedules(BAD_LUCK + ATTACKS))
    def check(trust: TrustMode, schedule: Schedule) -> None:
        network = play(subject(FASTLLOYD, trust, masks), watch, schedule)
        check_after_attacks(network)
        network.count(outcomes)

    check()
    # the attacks reached every party, and did not stop every run
    assert min(outcomes[party] for party in ("(server)", "c0", "c1", "c2")) > 50, outcomes
    assert (
        min(outcomes[what] for what in ("finished", "some finished", "fewer share keys", *DEATHS))
        > 5
    ), outcomes


@pytest.mark.parametrize(
    ("names", "check_after"),
    [(BAD_LUCK, check_after_bad_luck), (BAD_LUCK + ATTACKS, check_after_attacks)],
)
def test_the_same_holds_where_parameters_travel(
    names: tuple[str, ...],
    check_after: Callable[[Network], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=75, suppress_health_check=[HealthCheck.too_slow])
    @given(DRAWN_TRUST, DRAWN_MASKS, schedules(names))
    def check(trust: TrustMode, masks: Masks, schedule: Schedule) -> None:
        network = play(subject(MOMENTLLOYD, trust, masks), watch, schedule)
        check_after(network)
        network.count(outcomes)
        outcomes["taken over"] += any(
            p.client != "c0" for p in network._recorded("(server)", Parameters)
        )

    check()
    assert min(outcomes[what] for what in ("finished", "fewer share keys", "taken over")) > 3, (
        outcomes
    )


@pytest.mark.parametrize(
    ("names", "check_after"),
    [(BAD_LUCK, check_after_bad_luck), (BAD_LUCK + ATTACKS, check_after_attacks)],
)
def test_the_same_where_two_of_five_may_be_missing_and_two_may_pool_what_they_see(
    names: tuple[str, ...], check_after: Callable[[Network], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
    @given(DRAWN_MASKS, schedules(names))
    def check(masks: Masks, schedule: Schedule) -> None:
        network = play(f"five clients, {masks.value}", watch, schedule)
        check_after(network)
        network.count(outcomes)

    check()
    assert min(outcomes[what] for what in ("finished", "fewer share keys", *DEATHS)) > 3, outcomes


@MASKS
@TRUST
def test_a_smaller_deal_that_the_server_did_not_name_makes_no_two_sessions_answer_each_other_without_end(
    trust: TrustMode, masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a server comes back with an old copy of its store: the client waits, and is left out
    in the end.
    """
    watch = Watch.install(monkeypatch)
    for number in range(7):  # each set of one to three clients
        network = play(
            subject(FASTLLOYD, trust, masks), watch, [("flow", 2, 0), ("other_deal", 1, number)]
        )
        check_after_attacks(network)
