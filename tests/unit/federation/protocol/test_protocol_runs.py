"""Whole runs in one process: honest ones equal the central model bit for bit, interrupted ones a
plain-integer driver.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from fastlloyd.dp.noise import SystemNoise
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Deal,
    KeyBox,
    Message,
    SealedKeys,
    Upload,
    message_digest,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.in_process import (
    Drops,
    InProcessOutcome,
    Link,
    everything_arrives,
    run_in_process,
)
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, SULLOYD, Algorithm
from federation import (
    Federation,
    identity,
    injected,
    make_federation,
    make_plan,
    results,
    run_with_ledger,
    same_clustering,
)

pytestmark = pytest.mark.usefixtures("repeatable_noise")

HONEST = [
    (trust, masks, n_clients, ring_bits)
    for trust in TrustMode
    for masks in Masks
    for n_clients in range(1, 6)
    for ring_bits in (32, 64)
    if (trust is TrustMode.SERVER_NOISE and masks is Masks.GROUP)
    or n_clients > 1  # else a share of noise would be its own
]
BOTH_MASKS = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)


def run(federation: Federation, link: Link = everything_arrives) -> InProcessOutcome:
    return run_in_process(federation.server(), federation.clients(), link=link)


def finished(outcome: InProcessOutcome) -> list[ClientResult]:
    """All results, after checking that they are the same."""
    found = results(outcome.clients.values())
    for result in found:
        assert same_clustering(result.clustering, found[0].clustering)
        assert result.included == found[0].included == outcome.server.included
    return found


@pytest.mark.parametrize(("trust", "masks", "n_clients", "ring_bits"), HONEST)
def test_an_honest_run_equals_the_central_model_bit_for_bit(
    trust: TrustMode, masks: Masks, n_clients: int, ring_bits: int
) -> None:
    plan = make_plan(n_clients, trust=trust, masks=masks, ring_bits=ring_bits)
    federation = make_federation(plan, seed=n_clients)
    outcome = run(federation)
    everyone = (plan.names,) * len(plan.mechanism.rounds)
    pooled = np.concatenate(list(federation.X.values()))
    central = cluster(
        plan.clustering,
        LocalRecords(plan.clustering.domain, pooled),
        injected(federation.total_noise(everyone)),
    )

    found = finished(outcome)
    assert len(found) == n_clients
    assert same_clustering(found[0].clustering, central)
    assert outcome.server.included == everyone
    assert outcome.server.reason is None
    assert outcome.refused == ()
    assert all(result.unconfirmed == () for result in found)


@BOTH_MASKS
@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda algorithm: algorithm.name
)
def test_every_private_algorithm_runs_federated_as_it_runs_centrally(
    algorithm: Algorithm, masks: Masks
) -> None:
    plan = make_plan(3, trust=TrustMode.SERVER_NOISE, algorithm=algorithm, masks=masks)
    federation = make_federation(plan)
    central = cluster(
        plan.clustering,
        LocalRecords(plan.mechanism.domain, np.concatenate(list(federation.X.values()))),
        injected(federation.server_noise),
    )
    found = finished(run(federation))
    assert len(found) == 3
    assert same_clustering(found[0].clustering, central)


@BOTH_MASKS
@pytest.mark.parametrize("trust", TrustMode)
def test_a_run_with_the_production_noise_and_entropy_finishes(
    trust: TrustMode, masks: Masks
) -> None:
    import os

    federation = make_federation(make_plan(3, trust=trust, masks=masks))
    plan = federation.plan
    clients = [
        ClientSession(
            plan,
            name,
            LocalRecords(plan.mechanism.domain, X),
            identity=identity(name),
            noise=SystemNoise(),
            random_bytes=os.urandom,
        )
        for name, X in federation.X.items()
    ]
    outcome = run_in_process(ServerSession(plan, SystemNoise()), clients)
    assert len(finished(outcome)) == 3


@BOTH_MASKS
def test_clients_without_records_take_part(masks: Masks) -> None:
    federation = make_federation(make_plan(2, masks=masks))
    empty = np.zeros((0, 2), dtype=np.int64)
    federation = replace(federation, X=dict.fromkeys(federation.X, empty))
    everyone = (federation.plan.names,) * 3
    found = finished(run(federation))
    assert len(found) == 2
    assert same_clustering(found[0].clustering, federation.plain_result(everyone))


@pytest.mark.parametrize("trust", TrustMode)
def test_whichever_clients_miss_a_round_the_sum_is_that_of_the_others(trust: TrustMode) -> None:
    """All subsets of four clients that leave at least two, in every round of three."""
    plan = make_plan(4, trust=trust, max_dropouts=2)
    federation = make_federation(plan, seed=7)
    for n in (1, 2):
        for missing in combinations(plan.names, n):
            for t in (1, 2, 3):
                outcome = run(federation, Drops({(name, t) for name in missing}))
                S = tuple(name for name in plan.names if name not in missing)
                included = tuple(S if t == number else plan.names for number in (1, 2, 3))
                found = finished(outcome)
                assert len(found) == 4
                assert found[0].included == included
                assert same_clustering(found[0].clustering, federation.plain_result(included))


@pytest.mark.parametrize("since", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("gone", ["c0", "c2"])
def test_a_client_that_is_gone_for_good_is_left_out_from_then_on(gone: str, since: int) -> None:
    federation = make_federation(make_plan(4, max_dropouts=1), seed=since)
    names = federation.plan.names
    outcome = run(federation, Drops(gone={gone: since}))
    others = tuple(name for name in names if name != gone)
    included = tuple(names if number < since else others for number in (1, 2, 3))
    found = finished(outcome)
    assert len(found) == 3
    assert same_clustering(found[0].clustering, federation.plain_result(included))
    assert outcome.server.included == included
    assert isinstance(outcome.clients[gone], Ended)
    # one that is in the last sum and does not confirm is named; one that is not in it is not
    assert {result.unconfirmed for result in found} == {(gone,) if since == 4 else ()}


def test_too_few_clients_end_the_run_for_everybody_with_the_reason() -> None:
    federation = make_federation(make_plan(4, max_dropouts=1))
    for since, reason in [
        (0, "2 of 4 clients joined in time"),
        (2, "2 clients answered in round 2"),
        (4, "2 clients of the last round confirmed the result"),
    ]:
        outcome = run(federation, Drops(gone={"c0": since, "c3": since}))
        assert outcome.server.reason == f"{reason} (missing: c0, c3), and at least 3 are needed"
        assert results(outcome.clients.values()) == []
        ended = outcome.clients["c1"]
        assert isinstance(ended, Ended)
        assert ended.reason == f"the server ended the run: {outcome.server.reason}"
        assert len(outcome.server.included) == max(0, min(since, 4) - 1)


@BOTH_MASKS
def test_when_the_dealer_disappears_the_next_client_deals(masks: Masks) -> None:
    federation = make_federation(make_plan(4, max_dropouts=1, masks=masks))

    def loses_sealed_keys(
        sender: str, _recipient: str, message: Message, data: bytes
    ) -> tuple[bytes, ...]:
        return () if sender == "c0" and isinstance(message, SealedKeys) else (data,)

    ledger: list[tuple[str, Message]] = []
    outcome = run_with_ledger(
        federation.server(), federation.clients(), ledger, link=loses_sealed_keys
    )
    found = finished(outcome)
    assert outcome.clients["c0"] == Ended(
        "the server ended the run: the run goes on without client c0: the client was too late"
    )
    assert len(found) == 3
    assert found[0].included == (("c1", "c2", "c3"),) * 3
    deals = [entry for party, entry in ledger if party == SERVER and isinstance(entry, Deal)]
    assert [[hello.name for hello in deal.hellos] for deal in deals] == [
        ["c0", "c1", "c2", "c3"],
        ["c1", "c2", "c3"],
    ]
    adopted = {
        party: entry for party, entry in ledger if isinstance(entry, KeyBox) and party != SERVER
    }
    assert set(adopted) == {"c1", "c2", "c3"}
    assert {keys.deal for keys in adopted.values()} == {message_digest(deals[1])}
    assert [name for name, keys in adopted.items() if keys.box is None] == ["c1"]


@BOTH_MASKS
def test_the_ledger_holds_every_decision_before_the_message_that_follows_from_it(
    masks: Masks,
) -> None:
    federation = make_federation(make_plan(3, masks=masks))
    ledger: list[tuple[str, Message]] = []
    decided_first = []

    def watch(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        if not isinstance(message, KeyBox):  # follows from SealedKeys that the server has
            decided_first.append((sender, message) in ledger)
        return (data,)

    run_with_ledger(federation.server(), federation.clients(), ledger, link=watch)
    n_speakers = 1 if masks is Masks.GROUP else 3
    assert len(decided_first) == 3 + 3 + n_speakers + 3 + 3 + 3 * (3 + 3) + 3 + 3
    assert all(decided_first)
    assert [
        entry.round for party, entry in ledger if party == SERVER and isinstance(entry, Broadcast)
    ] == [1, 2, 3]
    for name in federation.plan.names:
        assert [
            entry.round for party, entry in ledger if party == name and isinstance(entry, Upload)
        ] == [1, 2, 3]


@BOTH_MASKS
def test_clients_of_the_plan_that_have_no_session_are_simply_absent(masks: Masks) -> None:
    federation = make_federation(make_plan(4, max_dropouts=1, masks=masks))
    outcome = run_in_process(federation.server(), federation.clients()[1:])
    found = finished(outcome)
    assert len(found) == 3
    assert same_clustering(
        found[0].clustering, federation.plain_result([federation.plan.names[1:]] * 3)
    )


@pytest.mark.parametrize("since", [0, 1, 2, 3, 4])
def test_pairwise_a_client_may_be_lost_before_the_first_round_and_after_the_last_but_not_between(
    since: int,
) -> None:
    """Pair masks cancel only if all upload, so a client that is lost for good ends the run."""
    federation = make_federation(make_plan(4, max_dropouts=1, masks=Masks.PAIRWISE), seed=since)
    names = federation.plan.names
    outcome = run(federation, Drops(gone={"c2": since}))
    if since in (0, 4):
        everyone = names if since else tuple(name for name in names if name != "c2")
        found = finished(outcome)
        assert len(found) == 3
        assert same_clustering(found[0].clustering, federation.plain_result((everyone,) * 3))
        assert {result.unconfirmed for result in found} == {("c2",) if since else ()}
    else:
        assert results(outcome.clients.values()) == []
        assert (
            outcome.server.reason
            == f"3 clients answered in round {since} (missing: c2), and at least 4 are needed"
        )
        assert outcome.server.included == (names,) * (since - 1)


def test_a_message_that_cannot_be_read_is_refused_and_the_run_goes_on_without_it() -> None:
    federation = make_federation(make_plan(3, max_dropouts=1))

    def garble(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        return (
            (b"\xff" + data,)
            if sender == "c2" and isinstance(message, Upload) and message.round == 2
            else (data,)
        )

    outcome = run(federation, garble)
    assert [(refusal.recipient, refusal.sender) for refusal in outcome.refused] == [(SERVER, "c2")]
    assert finished(outcome)[0].included[1] == ("c0", "c1")
