"""Schedules of bad luck and of attacks on a virtual network: whatever happens, what finishes is right, and nothing is opened
or masked twice.

2,000 schedules of at most 60 operations, half of them bad luck only. The network delivers, drops, duplicates, delays,
reorders and replays messages and lets deadlines pass; the attacker also corrupts them, misdirects them, shows clients
different broadcasts (among them proper sums over other sets of real uploads), deals keys it knows, and speaks in the name of
others. A round needs two clients of three, more than half, so that no two groups can be led to different results.
"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastlloyd.plan import TrustMode
from fastlloyd.protocol.transitions import ServerState
from federation import make_federation, make_plan
from virtual_network import Network, Watch

FEDERATIONS = {
    trust: make_federation(
        make_plan(3, trust=trust, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, estimate_loss=True), seed=2
    )
    for trust in TrustMode
}
BAD_LUCK = ("deliver", "flow", "drop", "duplicate", "delay", "replay", "resend", "deadline", "crash_client", "crash_server")
ATTACKS = (
    "corrupt",
    "misdirect",
    "second_set",
    "equivocate",
    "wrong_plan",
    "forge_hello",
    "false_keys",
    "false_confirmations",
    "false_abort",
    "give_up",
)
Schedule = list[tuple[str, int, int]]
TRUST = pytest.mark.parametrize("trust", TrustMode)


def schedules(names: tuple[str, ...]) -> st.SearchStrategy[Schedule]:
    # ordered delivery is listed again and again, or few schedules would get beyond the first round
    operations = st.sampled_from(names + ("flow",) * (len(names) // 2))
    small = st.integers(0, 255)
    operation = st.tuples(operations, small, small)
    # the length is drawn first: lists of bounded size are short by themselves
    return st.integers(0, 60).flatmap(lambda n: st.lists(operation, min_size=n, max_size=n))


def play(trust: TrustMode, watch: Watch, schedule: Schedule) -> Network:
    network = Network(FEDERATIONS[trust], watch)
    for operation, a, b in schedule:
        getattr(network, operation)(a, b)
    network.settle()
    return network


@TRUST
def test_under_bad_luck_nobody_is_accused_and_every_opened_sum_is_exact(
    trust: TrustMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
    @given(schedules(BAD_LUCK))
    def check(schedule: Schedule) -> None:
        network = play(trust, watch, schedule)
        assert network.accusations == []
        assert network.server.state in (ServerState.FINISHED, ServerState.ABORTED)
        network.check_one_plaintext_per_mask()
        network.check_one_set_per_round()
        network.check_one_noise_per_sum()
        network.check_write_ahead()
        network.check_exact(lambda _name: True)
        network.check_agreement()
        network.check_everybody_opens_the_same()
        if network.server.state is ServerState.FINISHED:
            assert len(network.results) >= network.plan.min_included
        network.count(outcomes)

    check()
    assert min(outcomes["finished"], outcomes["none finished"], outcomes["left out"]) > 5, outcomes


@TRUST
def test_under_attack_what_finishes_is_right_and_the_same_for_all(trust: TrustMode, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, outcomes = Watch.install(monkeypatch), Counter[str]()

    @settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow])
    @given(schedules(BAD_LUCK + ATTACKS))
    def check(schedule: Schedule) -> None:
        network = play(trust, watch, schedule)
        network.check_one_plaintext_per_mask()
        network.check_one_set_per_round()
        network.check_one_noise_per_sum()
        network.check_write_ahead()
        network.check_exact(network.results.__contains__)
        network.check_agreement()
        network.count(outcomes)

    check()
    # the attacks reached every party, and did not stop every run
    assert min(outcomes[party] for party in ("(server)", "c0", "c1", "c2")) > 50, outcomes
    assert min(outcomes["finished"], outcomes["some finished"], outcomes["left out"]) > 5, outcomes
