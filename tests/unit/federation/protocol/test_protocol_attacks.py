"""Known weaknesses of published code and of the paper, one test each: numbers as in the
documentation's list of weaknesses.
"""

import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import Ended, Keep
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Limits,
    Message,
    SealedKeys,
    Upload,
    decode,
    encode,
    message_digest,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.server_confirming import ServerConfirming
from fastlloyd.federation.protocol.server_joining import ServerJoining
from fastlloyd.federation.protocol.server_phases import Attendance
from fastlloyd.federation.protocol.server_rounds import ServerRounds
from fastlloyd.federation.protocol.server_sharing import ServerSharing
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, PairwiseMasks
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, PairContext, PairKey, RunKeys
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.queries.query import Query, ask
from federation import (
    BEGINNING,
    Federation,
    among,
    client_after,
    inboxes,
    make_federation,
    make_plan,
    results,
)
from lies import pair_of, run_keys

BOTH_MASKS = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)


def letters(federation: Federation) -> list[tuple[str, str, Message]]:
    """Everything that travels in an honest run: (sender, recipient, message)."""
    travelled: list[tuple[str, str, Message]] = []

    def watch(sender: str, recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        travelled.append((sender, recipient, message))
        return (data,)

    run_in_process(federation.server(), federation.clients(), link=watch)
    return travelled


def uploads(federation: Federation, t: int) -> dict[str, Upload]:
    found = letters(federation)
    return {
        sender: message
        for sender, _, message in found
        if isinstance(message, Upload) and message.round == t
    }


def everything_reachable(start: object) -> Iterator[object]:
    """All objects that can be reached from `start` through references, but for classes, modules and
    functions.
    """
    seen, frontier = {id(start)}, [start]
    while frontier:
        found = frontier.pop()
        yield found
        for referent in gc.get_referents(found):
            is_data = (
                not isinstance(referent, type)
                and not hasattr(referent, "__code__")
                and not hasattr(referent, "__spec__")
            )
            if id(referent) not in seen and is_data:
                seen.add(id(referent))
                frontier.append(referent)


@BOTH_MASKS
def test_w04_server_holds_no_key(masks: Masks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing the server can reach at any time of a run is a key, or holds the bytes of the group's
    or a pair's; clients do.
    """
    drawn: list[GroupKey] = []

    def draw(source: Callable[[int], bytes]) -> GroupKey:
        drawn.append(GroupKey(source(32)))
        return drawn[-1]

    def agree(context: PairContext, **agreed: bytes) -> PairKey:
        pairs.append(genuine(context, **agreed))
        return pairs[-1]

    pairs: list[PairKey] = []
    genuine = PairKey.agree
    monkeypatch.setattr(GroupKey, "draw", draw)
    monkeypatch.setattr(PairKey, "agree", agree)
    federation = make_federation(make_plan(3, trust=TrustMode.SERVER_NOISE, masks=masks))
    server, clients = federation.server(), federation.clients()
    ours = GroupKey, PairKey, GroupMasks, PairwiseMasks, Identity, RunKeys
    secrets = (*ours, Ed25519PrivateKey, X25519PrivateKey, MLKEM768PrivateKey)
    n_looks = 0

    def shared() -> set[bytes]:
        return {*(key.secret for key in drawn), *(key.secret for key in pairs)}

    def holds_a_key(party: object) -> bool:
        return any(
            isinstance(found, secrets)
            or (isinstance(found, bytes) and any(secret in found for secret in shared()))
            for found in everything_reachable(party)
        )

    def look(_sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        nonlocal n_looks
        assert not holds_a_key(server)
        if isinstance(message, Broadcast):
            assert all(
                holds_a_key(client) for client in clients if client.state is not ClientState.ABORTED
            )
        n_looks += 1
        return (data,)

    run_in_process(server, clients, link=look)
    assert len(drawn) == 1
    assert len({key.secret for key in pairs}) == (2 if masks is Masks.GROUP else 3)
    assert n_looks > 20
    phases = ServerSession, ServerJoining, ServerSharing, ServerRounds, ServerConfirming, Attendance
    assert {name for phase in phases for name in phase.__slots__} == {
        "_attendance",
        "_confirming",
        "_joining",
        "_noise",
        "_quorum",
        "_roster",
        "_rounds",
        "_sharing",
        "_total",
        "all_ready",
        "attendance",
        "away",
        "beginning",
        "broadcasts",
        "confirmations",
        "gone",
        "hellos",
        "included",
        "key_set",
        "late",
        "names",
        "noise",
        "outcome",
        "parameters",
        "plan",
        "ready",
        "relayed",
        "roster",
        "sealed",
        "served",
        "state",
        "turn",
        "uploads",
        "vouching",
    }
    # and when the run is over, no client keeps one but its own identity, which lives outside the
    # session
    assert not any(holds_a_key(client) for client in clients)


def test_w05_a_server_that_sees_the_result_has_exact_sums_in_server_noise_only() -> None:
    """The documented limit of the paper's mode, and that the default mode does not have it.

    A published answer less the noise the server itself drew is the exact sum in server-noise. In
    client-noise the server drew none: with everything it holds and the published answer it is left
    with the sum of the clients' shares.
    """
    for trust in TrustMode:
        federation = make_federation(make_plan(3, trust=trust))
        outcome = run_in_process(federation.server(), federation.clients())
        published = results(outcome.clients.values())[0].clustering
        exact = (
            federation.plain_result(outcome.server.included).answer
            - federation.total_noise(outcome.server.included)[-1]
        )
        own_noise = federation.server_noise[-1] if trust is TrustMode.SERVER_NOISE else 0
        left = published.answer - own_noise - exact
        assert (not left.any()) == (trust is TrustMode.SERVER_NOISE)


def test_w10_what_one_client_and_the_server_pool_opens_every_upload() -> None:
    """The documented limit of the shared group key: in client-noise what they find carries one
    share of noise.
    """
    federation = make_federation(make_plan(3))
    inbox = inboxes(federation)
    curious = client_after(federation, "c1", inbox["c1"][:3])
    masked = curious._phase._masked  # type: ignore[union-attr]  # it holds the group key now
    seen = uploads(federation, 1)["c2"]
    opened = masked.open(
        seen.payload,
        {"c2": seen.nonce},
        federation.plan.n_words(federation.plan.mechanism.rounds[0]),
    )
    m: Mechanism = federation.plan.clustering
    query_answer = opened.reshape(m.n_clusters, m.n_features + 1) - federation.client_noise["c2"][0]
    assert np.array_equal(query_answer, m.query(0, m.start()).evaluate(federation.X["c2"]))
    # but a client alone sees no upload but its own
    for sender, recipient, message in letters(federation):
        assert not (isinstance(message, Upload) and recipient != "(server)"), sender


@BOTH_MASKS
def test_w12_two_runs_never_share_masks(masks: Masks) -> None:
    """The same records, noise and entropy, and only another run id: no word stays, and differences
    tell nothing.
    """
    first = make_federation(make_plan(3, run_id=b"a" * 16, masks=masks))
    second = make_federation(make_plan(3, run_id=b"b" * 16, masks=masks))
    assert first.plan.digest != second.plan.digest
    for t in (1, 2, 3):
        one, two = uploads(first, t), uploads(second, t)
        for name in first.plan.names:
            assert one[name].nonce == two[name].nonce  # the entropy really was the same
            words = [np.frombuffer(upload[name].payload, "<u8") for upload in (one, two)]
            assert (words[0] != words[1]).all()
            # a reused mask would leave the difference of small numbers
            assert (np.abs((words[0] - words[1]).view(np.int64)) > 1 << 40).all()


@BOTH_MASKS
def test_w12_two_uploads_of_one_run_never_share_masks(masks: Masks) -> None:
    federation = make_federation(make_plan(3, masks=masks))
    seen = [upload for t in (1, 2, 3) for upload in uploads(federation, t).values()]
    words = np.array([np.frombuffer(upload.payload, "<u8") for upload in seen])
    for i in range(len(words)):
        for j in range(i):
            assert (np.abs((words[i] - words[j]).view(np.int64)) > 1 << 40).all()


@BOTH_MASKS
def test_w13_clients_shown_different_sums_fail_to_unmask_the_next(masks: Masks) -> None:
    """The server adds 1 to one word for c1 alone: that round opens, the transcript differs, and
    round 2 opens for nobody.
    """
    federation = make_federation(make_plan(3, masks=masks))
    plan = federation.plan

    def equivocate(_sender: str, recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        if recipient == "c1" and isinstance(message, Broadcast) and message.round == 1:
            words = np.frombuffer(message.payload, "<u8").copy()
            words[0] += np.uint64(1)
            return (encode(msgspec.structs.replace(message, payload=words.tobytes())),)
        return (data,)

    outcome = run_in_process(federation.server(), federation.clients(), link=equivocate)
    for name in plan.names:
        ended = outcome.clients[name]
        assert isinstance(ended, Ended)
        assert ended.reason.startswith("the sum of round 2 does not open")


@BOTH_MASKS
def test_w13_in_the_last_round_the_confirmations_show_it(masks: Masks) -> None:
    federation = make_federation(make_plan(3, masks=masks))
    inbox = inboxes(federation)["c1"]
    last = inbox[5]
    assert isinstance(last, Broadcast)
    assert last.round == 3
    words = np.frombuffer(last.payload, "<u8").copy()
    words[0] += np.uint64(1)
    client = client_after(
        federation, "c1", [*inbox[:5], msgspec.structs.replace(last, payload=words.tobytes())]
    )
    assert client.state is ClientState.CONFIRMING  # one wrong sum opens; nothing is kept of it
    with pytest.raises(
        RemoteProtocolError,
        match="'c0' ended the",
    ):
        client.receive(inbox[6])


@BOTH_MASKS
def test_w13_a_client_whose_centroids_diverged_is_noticed_in_the_next_round(
    masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever made c1's second query differ (another version, a fault in memory), its masks
    differ, and nothing opens.
    """
    federation = make_federation(make_plan(3, masks=masks))
    query, second = LloydMechanism.query, 0

    def diverging(mechanism: LloydMechanism, number: int, state: Clustering) -> Query:
        nonlocal second
        asked, second = query(mechanism, number, state), second + (number == 1)
        if number != 1 or second != 2:
            return asked
        values = {name: value + 1 for name, value in asked.values.items()}
        return ask(asked.question, **values)

    monkeypatch.setattr(LloydMechanism, "query", diverging)
    outcome = run_in_process(federation.server(), federation.clients())
    assert second == 3
    for name in federation.plan.names:
        ended = outcome.clients[name]
        assert isinstance(ended, Ended)
        assert ended.reason.startswith("the sum of round 2 does not open")


@BOTH_MASKS
@pytest.mark.parametrize("dealer_helps", [False, True])
def test_w13_clients_dealt_different_sets_have_no_sum_together(
    dealer_helps: bool, masks: Masks
) -> None:
    """The server tells c2 of a smaller key set than the others, and the dealer may help it: c2 then
    signs another transcript. Nobody is ready with it, so nobody pays, and the others begin anew.
    """
    federation = make_federation(make_plan(4, max_dropouts=1, masks=masks))
    dealer = federation.client("c0")
    dealer.start()
    (dealt,) = [message for message in inboxes(federation)["c0"] if isinstance(message, Deal)]
    (group_key,) = [
        GroupKey(a.secret)
        for a in dealer.receive(dealt)
        if isinstance(a, Keep) and a.name.startswith("group-key")
    ]
    key_set = KeySet(Roster.of(federation.plan), Deal(BEGINNING, 2, dealt.hellos[:3]))
    told, commitment = key_set.digest, group_key.commitment(key_set.digest)

    def lie(_sender: str, recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        match message:
            case Deal(attempt=1) if recipient == "c2":
                return (encode(key_set.deal),)
            case KeyBox() if recipient == "c2":
                if not dealer_helps:
                    return (encode(msgspec.structs.replace(message, deal=told)),)
                pair = pair_of(federation.plan, dealt, "c0", "c2", message.ciphertexts[0])
                box = pair.seal(group_key, told)
                checked = message.ciphertexts[0][:CHECKED_BYTES]
                statement = key_set.made("c0", "c2", checked, commitment, box)
                signed = checked + run_keys("c0").sign(statement)
                return (encode(KeyBox(told, commitment, (signed,), box)),)
        return (data,)

    outcome = run_in_process(federation.server(), federation.clients(), link=lie)
    found = results(outcome.clients.values())
    assert [result.included for result in found] == [(("c0", "c1", "c3"),) * 3] * 3
    ended = outcome.clients["c2"]
    assert isinstance(ended, Ended)
    if masks is Masks.GROUP and not dealer_helps:
        assert "is not signed by its maker" in ended.reason
    else:
        assert "the run goes on without client c2" in ended.reason


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize(("max_dropouts", "n_results"), [(2, 4), (1, 0)])
def test_w13_a_server_can_lead_two_groups_apart_only_where_half_the_clients_are_enough(
    masks: Masks, max_dropouts: int, n_results: int
) -> None:
    """The documented limit: each half is told that the other is absent. Its result names only the
    clients that are in it.
    """
    federation = make_federation(make_plan(4, max_dropouts=max_dropouts, masks=masks))
    halves = [federation.clients()[:2], federation.clients()[2:]]
    outcomes = [run_in_process(federation.server(), half) for half in halves]
    found = [result for outcome in outcomes for result in results(outcome.clients.values())]
    assert len(found) == n_results
    assert {S for result in found for S in result.included} == (
        {("c0", "c1"), ("c2", "c3")} if n_results else set()
    )


def test_w14_no_session_reads_or_becomes_a_pickle() -> None:
    """Bytes that would run code as a pickle are refused as any others, and no session can be
    pickled.
    """

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("a pickle was executed",))

    federation = make_federation(make_plan(3))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for beginning in (b"", b"\x01"):
            with pytest.raises(RemoteProtocolError):
                decode(beginning + pickle.dumps(Bomb(), protocol), Limits.of(federation.plan))
    for session in (
        federation.client("c1"),
        client_after(federation, "c1", inboxes(federation)["c1"][:3]),
    ):
        with pytest.raises(TypeError, match="ClientSession is secret"):
            pickle.dumps(session)


def test_w15_missing_client_detected() -> None:
    """A sum that lacks an upload it names does not open, whichever is missing; with a server that
    says so, it does.
    """
    federation = make_federation(make_plan(3, max_dropouts=1))
    plan, inbox = federation.plan, inboxes(federation)["c1"]
    broadcast = inbox[3]
    assert isinstance(broadcast, Broadcast)
    ring = plan.ring
    for missing, upload in uploads(federation, 1).items():
        less = ring.subtract(
            ring.from_bytes(broadcast.payload, plan.n_words(plan.mechanism.rounds[0])),
            ring.from_bytes(upload.payload, plan.n_words(plan.mechanism.rounds[0])),
        )
        silent = msgspec.structs.replace(broadcast, payload=ring.to_bytes(less))
        with pytest.raises(RemoteProtocolError, match=r"sum.*1 does not"):
            client_after(federation, "c1", [*inbox[:3], silent])
        said = among(plan.names, silent, {missing: None})
        assert client_after(federation, "c1", [*inbox[:3], said]).state is ClientState.AGGREGATING
    outcome = run_in_process(federation.server(), federation.clients(), link=Drops(gone={"c2": 2}))
    assert [result.included for result in results(outcome.clients.values())] == [
        (plan.names, ("c0", "c1"), ("c0", "c1"))
    ] * 2


@BOTH_MASKS
def test_w16_a_replay_in_the_same_run_changes_nothing(masks: Masks) -> None:
    federation = make_federation(make_plan(3, masks=masks))
    inbox = inboxes(federation)["c1"]
    for n in range(2, len(inbox) + 1):
        client = client_after(federation, "c1", inbox[:n])
        state, said = client.state, client.resend()
        for old in inbox[:n]:
            assert client.receive(old) == []
        assert (client.state, client.resend()) == (state, said)


@BOTH_MASKS
def test_w16_messages_of_another_round_do_not_pass_for_this_one(masks: Masks) -> None:
    federation = make_federation(make_plan(3, masks=masks))
    inbox = inboxes(federation)["c1"]
    first = inbox[3]
    assert isinstance(first, Broadcast)
    again = msgspec.structs.replace(first, round=2)
    client = client_after(federation, "c1", inbox[:4])
    with pytest.raises(RemoteProtocolError, match="names an upload"):
        client.receive(again)
    # not even to a client that is not in it
    (upload,) = (u for u in client_after(federation, "c1", inbox[:4]).resend())
    nonce = upload.message.nonce  # type: ignore[union-attr]  # a Send of an Upload
    with pytest.raises(RemoteProtocolError, match=r"sum.*2 does not"):
        client_after(federation, "c1", inbox[:4]).receive(
            among(federation.plan.names, again, {"c1": nonce})
        )


@BOTH_MASKS
@pytest.mark.parametrize("kind", [Deal, KeyBox, Broadcast, Confirmations])
def test_w16_messages_of_another_run_are_refused(kind: type, masks: Masks) -> None:
    """The same clients, records, noise and entropy under a fresh run id: no message of the one
    serves in the other.
    """
    here, there = (
        make_federation(make_plan(3, run_id=run * 16, masks=masks)) for run in (b"a", b"b")
    )
    mine, other = inboxes(here)["c1"], inboxes(there)["c1"]
    n = next(i for i, message in enumerate(mine) if isinstance(message, kind))
    client = client_after(here, "c1", mine[:n])
    lie = other[n]
    if isinstance(lie, KeyBox):  # it names a Deal of its own run; as if it were for this one
        assert client.receive(lie) == client.resend()
        lie = msgspec.structs.replace(lie, deal=message_digest(mine[0]))
    with pytest.raises(RemoteProtocolError):
        client.receive(lie)
    assert client.state is ClientState.ABORTED
    assert client_after(here, "c1", mine[: n + 1]).state is not ClientState.ABORTED


@BOTH_MASKS
@pytest.mark.parametrize("kind", [Hello, SealedKeys, Upload, Confirmation])
def test_w16_what_clients_sent_in_another_run_spoils_no_result(kind: type, masks: Masks) -> None:
    """A server that mixes in what clients sent elsewhere ends the run; it never gets a result from
    it.
    """
    here, there = (
        make_federation(make_plan(3, run_id=run * 16, masks=masks)) for run in (b"a", b"b")
    )
    elsewhere = {(sender, type(m), getattr(m, "round", 0)): m for sender, _, m in letters(there)}

    def mix(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        if isinstance(message, kind) and (sender == "c0" or kind is SealedKeys):
            return (encode(elsewhere[sender, type(message), getattr(message, "round", 0)]),)
        return (data,)

    outcome = run_in_process(here.server(), here.clients(), link=mix)
    assert results(outcome.clients.values()) == []


def test_public_seeds_never_stand_in_for_keys() -> None:
    """The seed of the initial centroids is no mask key: there is no oracle that ties them (W7)."""
    plan = make_plan(3)
    with pytest.raises(LocalProtocolError, match="expected a GroupKey"):
        # the point
        GroupMasks(PublicSeed.from_hex(plan.clustering.public_seed), plan.ring)  # type: ignore[arg-type]


# The loss


def last_words(federation: Federation) -> tuple[list[Message], Broadcast]:
    """What client c0 is sent before the broadcast of the loss, and that broadcast."""
    inbox = inboxes(federation)["c0"]
    [at] = [
        i
        for i, m in enumerate(inbox)
        if isinstance(m, Broadcast) and m.round == federation.plan.mechanism.n_rounds
    ]
    broadcast = inbox[at]
    assert isinstance(broadcast, Broadcast)
    return inbox[:at], broadcast


@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize("ring_bits", [32, 64])
def test_the_loss_is_uploaded_and_opened_once_whatever_the_server_says_again(
    trust: TrustMode, ring_bits: int
) -> None:
    federation = make_federation(
        make_plan(3, trust=trust, max_dropouts=1, estimate_loss=True, ring_bits=ring_bits)
    )
    before, broadcast = last_words(federation)
    client = client_after(federation, "c0", before)
    first, again = client.resend(), client.resend()
    assert (
        first == again
    )  # the same bytes, under the same noise: the injected noise holds one draw for the loss
    assert client.receive(before[-1]) == []  # the round before, once more
    assert client.resend() == first
    client.receive(broadcast)
    assert client.receive(broadcast) == []
    for second in (
        among(federation.plan.names, broadcast, {"c2": None}),  # another set
        msgspec.structs.replace(broadcast, round=broadcast.round + 1),  # a second loss
    ):
        fresh = client_after(federation, "c0", [*before, broadcast])
        with pytest.raises(RemoteProtocolError):
            fresh.receive(second)
        assert fresh.state is ClientState.ABORTED


def test_a_server_cannot_pass_another_sum_for_that_of_the_loss() -> None:
    federation = make_federation(make_plan(3, max_dropouts=1, estimate_loss=True))
    before, broadcast = last_words(federation)
    plan = federation.plan
    round_before = before[-1]
    assert isinstance(round_before, Broadcast)
    lies = {
        "does not open": among(plan.names, broadcast, {"c2": None}),  # the sum is of three
        "elements is 16 bytes long": msgspec.structs.replace(
            broadcast, payload=round_before.payload
        ),
        "at least 2 are needed": among(plan.names, broadcast, {"c1": None, "c2": None}),
        "names an upload that": among(plan.names, broadcast, {"c0": bytes(8)}),
    }
    for match, lie in lies.items():
        client = client_after(federation, "c0", before)
        with pytest.raises(RemoteProtocolError, match=match):
            client.receive(lie)
        assert client.state is ClientState.ABORTED
    # an offset is believed up to what caps and noise allow, and no farther
    loss = plan.clustering.loss
    assert loss is not None
    words = plan.ring.from_bytes(broadcast.payload, 2).copy()
    words[0] += np.uint64(2**40)
    client = client_after(federation, "c0", before)
    with pytest.raises(RemoteProtocolError, match=r"larger.*clients' caps"):
        client.receive(msgspec.structs.replace(broadcast, payload=plan.ring.to_bytes(words)))


def test_a_server_takes_one_upload_for_the_loss_and_none_before_its_turn() -> None:
    federation = make_federation(make_plan(3, max_dropouts=1, estimate_loss=True))
    T = len(federation.plan.mechanism.rounds)
    late = uploads(federation, T + 1)["c1"]
    server = federation.server()
    clients = {client.name: client for client in federation.clients()}
    sent: list[tuple[str, Message]] = []

    def link(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes, ...]:
        if isinstance(message, Upload) and sender == "c1":
            sent.append((sender, message))
            if message.round == 1:
                with pytest.raises(RemoteProtocolError, match=f"round {T + 1},.*open yet"):
                    server.receive("c1", late)
            if message.round == T + 1:
                other = msgspec.structs.replace(message, nonce=bytes(8))
                server.receive("c1", message)
                with pytest.raises(RemoteProtocolError, match="two different uploads"):
                    server.receive("c1", other)
        return (data,)

    outcome = run_in_process(server, list(clients.values()), link=link)
    assert len(results(outcome.clients.values())) == 3
    assert [message.round for _, message in sent if isinstance(message, Upload)] == list(
        range(1, T + 2)
    )
