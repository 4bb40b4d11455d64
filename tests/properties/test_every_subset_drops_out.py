"""Whoever is gone for good from whichever step on: the run ends exactly as the plain integers of those who were there, or for
everybody with the reason.

Steps: joining (0), dealing (1), each round, confirming. A client that is gone from a step on sends and receives nothing of it.
All subsets of one to six clients at each step; and all ways in which each of three clients leaves at a step of its own.
"""

from itertools import combinations, product

import pytest

from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended
from fastlloyd.federation.protocol.messages import Abort, Broadcast, Confirmation, Confirmations, Hello, Message, Upload
from fastlloyd.federation.transport.in_process import run_in_process
from federation import Federation, make_federation, make_plan, same_clustering

T = 2
STEPS = range(T + 3)
NEVER = T + 3
JOINING, DEALING, CONFIRMING = 0, 1, T + 2


def step_of(message: Message) -> int:
    match message:
        case Hello():
            return JOINING
        case Upload() | Broadcast():
            return DEALING + message.round
        case Confirmation() | Confirmations():
            return CONFIRMING
        case Abort():
            return NEVER - 1
    return DEALING


def small_federation(n_clients: int, trust: TrustMode) -> Federation:
    plan = make_plan(
        n_clients,
        trust=trust,
        max_dropouts=(n_clients - 1) // 2,
        n_clusters=1,
        n_features=1,
        n_iterations=T,
        ring_bits=32 if n_clients % 2 else 64,
    )
    return make_federation(plan, seed=n_clients)


def check(federation: Federation, gone: dict[str, int]) -> bool:
    """Run it with each client gone from its step on; whether there was a result."""
    plan, names = federation.plan, federation.plan.names

    def link(sender: str, recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        client = recipient if sender == SERVER else sender
        return (data,) if step_of(message) < gone.get(client, NEVER) else ()

    outcome = run_in_process(federation.server(), federation.clients(), link=link)
    there = {step: tuple(name for name in names if gone.get(name, NEVER) > step) for step in STEPS}
    lacking = [step for step in STEPS if len(there[step]) < plan.min_included]
    rounds = [DEALING + t for t in range(1, T + 1)]
    included = tuple(there[step] for step in rounds if not lacking or step < lacking[0])
    assert outcome.refused == ()
    assert outcome.server.included == included
    assert outcome.clients.keys() == set(names)
    for name, end in outcome.clients.items():
        if gone.get(name, NEVER) < NEVER:
            assert isinstance(end, Ended)
        elif lacking:
            assert end == Ended(f"the server ended it: {outcome.server.reason}")
        else:
            assert isinstance(end, ClientResult)
            assert end.included == included
            assert end.unconfirmed == tuple(name for name in included[-1] if name not in there[CONFIRMING])
            assert same_clustering(end.clustering, federation.plain_result(included))
    assert (outcome.server.reason is None) == (not lacking)
    return not lacking


@pytest.mark.parametrize(
    ("trust", "n_clients"),
    [(trust, n) for trust in TrustMode for n in range(1, 7) if trust is TrustMode.SERVER_NOISE or n > 1],
)
def test_any_subset_may_be_gone_from_any_step_on(trust: TrustMode, n_clients: int) -> None:
    federation = small_federation(n_clients, trust)
    names, max_dropouts = federation.plan.names, (n_clients - 1) // 2
    for n_gone in range(n_clients + 1):
        for missing in combinations(names, n_gone):
            for step in STEPS:
                assert check(federation, dict.fromkeys(missing, step)) == (n_gone <= max_dropouts)


@pytest.mark.parametrize("trust", TrustMode)
def test_each_of_three_clients_may_leave_at_a_step_of_its_own(trust: TrustMode) -> None:
    federation = small_federation(3, trust)
    finished = 0
    for steps in product([*STEPS, NEVER], repeat=3):
        finished += check(federation, dict(zip(federation.plan.names, steps, strict=True)))
    assert finished == 1 + 3 * len(STEPS)
