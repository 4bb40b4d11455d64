"""Whoever is gone for good from whichever step on: the run ends exactly as the plain integers of
those who were there, or for everybody with the reason and what the rounds before had led to.

Steps: joining (0), dealing (1), each round, confirming. A client that is gone from a step on sends
and receives nothing of it. All subsets of one to five clients at each step; and all ways in which
each of three clients leaves at a step of its own.
"""

from itertools import combinations, product

import pytest
from numpy.testing import assert_equal

from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Confirmation,
    Confirmations,
    Hello,
    Message,
    Upload,
)
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


def small_federation(n_clients: int, trust: TrustMode, masks: Masks) -> Federation:
    plan = make_plan(
        n_clients,
        trust=trust,
        masks=masks,
        max_dropouts=(n_clients - 1) // 2,
        n_clusters=1,
        n_features=1,
        n_iterations=T,
        ring_bits=32 if n_clients % 2 else 64,
    )
    return make_federation(plan, seed=n_clients)


def key_set(plan: Plan, gone: dict[str, int]) -> tuple[str, ...]:
    """Who shares keys: those that said Hello, without those that were to make keys for others and
    did not.
    """
    joined = tuple(name for name in plan.names if gone.get(name, NEVER) > JOINING)
    while late := [
        name for name in plan.masks.speakers(joined) if gone.get(name, NEVER) <= DEALING
    ]:
        joined = tuple(name for name in joined if name not in late)
    return joined


def expected(plan: Plan, gone: dict[str, int]) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """The included sets of the rounds that are closed, and whether there is a result."""
    present = key_set(plan, gone)
    if len(present) < plan.min_present:
        return (), False
    included: list[tuple[str, ...]] = []
    for step in range(DEALING + 1, CONFIRMING):
        there = tuple(name for name in present if gone.get(name, NEVER) > step)
        if len(there) < plan.quorum(len(present)).needed:
            return tuple(included), False
        included.append(there)
    confirming = [name for name in included[-1] if gone.get(name, NEVER) > CONFIRMING]
    return tuple(included), len(confirming) >= plan.quorum(len(present)).confirmations


def check(federation: Federation, gone: dict[str, int]) -> bool:
    """Run it with each client gone from its step on; whether there was a result."""
    plan, names = federation.plan, federation.plan.names

    def link(sender: str, recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        client = recipient if sender == SERVER else sender
        return (data,) if step_of(message) < gone.get(client, NEVER) else ()

    outcome = run_in_process(federation.server(), federation.clients(), link=link)
    included, is_result = expected(plan, gone)
    assert outcome.refused == ()
    assert outcome.server.included == included
    assert outcome.clients.keys() == set(names)
    result = federation.plain_result(included) if is_result else None
    centroids = None if is_result else federation.plain_centroids(included)
    for name, end in outcome.clients.items():
        if gone.get(name, NEVER) < NEVER:
            assert isinstance(end, Ended)
        elif result is not None:
            assert isinstance(end, ClientResult)
            assert end.included == included
            assert end.unconfirmed == tuple(
                name for name in included[-1] if gone.get(name, NEVER) <= CONFIRMING
            )
            assert same_clustering(end.clustering, result)
        else:
            assert isinstance(end, Ended)
            assert end.reason == f"the server ended the run: {outcome.server.reason}"
            assert (end.unfinished is None) == (not included)
            if end.unfinished is not None:
                assert end.unfinished.included == included
                assert_equal(end.unfinished.centroids, centroids)
    assert (outcome.server.reason is None) == is_result
    return is_result


# For every commit each trust mode and each kind of masks with five clients once; `make campaign`
# plays the other two pairs.
OF_FIVE = ((TrustMode.CLIENT_NOISE, Masks.PAIRWISE), (TrustMode.SERVER_NOISE, Masks.GROUP))
KINDS = [
    pytest.param(
        trust,
        masks,
        n_clients,
        marks=[pytest.mark.campaign] * (n_clients == 5 and (trust, masks) not in OF_FIVE),
    )
    for trust in TrustMode
    for masks in Masks
    for n_clients in range(1, 6)
    if trust is TrustMode.SERVER_NOISE or n_clients > 1
]


@pytest.mark.parametrize(("trust", "masks", "n_clients"), KINDS)
def test_any_subset_may_be_gone_from_any_step_on(
    trust: TrustMode, masks: Masks, n_clients: int
) -> None:
    """With pairwise masks the first D may be gone while keys are shared; later only from the
    confirmations, if enough come.
    """
    federation = small_federation(n_clients, trust, masks)
    plan, max_dropouts = federation.plan, (n_clients - 1) // 2
    for n_gone in range(n_clients + 1):
        for missing in combinations(plan.names, n_gone):
            for step in STEPS:
                if masks is Masks.GROUP or step <= DEALING:
                    may_be_gone = max_dropouts
                else:
                    may_be_gone = (
                        n_clients - plan.quorum(n_clients).confirmations
                        if step == CONFIRMING
                        else 0
                    )
                assert check(federation, dict.fromkeys(missing, step)) == (n_gone <= may_be_gone)


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("trust", TrustMode)
def test_each_of_three_clients_may_leave_at_a_step_of_its_own(
    trust: TrustMode, masks: Masks
) -> None:
    federation = small_federation(3, trust, masks)
    finished = 0
    for steps in product([*STEPS, NEVER], repeat=3):
        finished += check(federation, dict(zip(federation.plan.names, steps, strict=True)))
    if masks is Masks.GROUP:
        assert finished == 1 + 3 * len(STEPS)
    # one is missing while keys are shared; where nobody may pool what they see, one at the
    # confirmations as well
    else:
        assert finished == 1 + 3 * 2 + 3 * (trust is TrustMode.SERVER_NOISE)
