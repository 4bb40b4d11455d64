"""What a client says, what it believes, and everything a server could do to it that ends its run."""

import copy
from dataclasses import is_dataclass, replace
from fractions import Fraction
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import DataError, FastLloydError, PlanError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Client
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended, Finish, Keep, Record, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    SealedKeys,
    Upload,
)
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.keys import EphemeralKey, KeyPassage
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.transport.in_process import Drops
from federation import (
    CAP,
    BrokenNoise,
    Federation,
    among,
    client_after,
    entropy,
    identity,
    inboxes,
    injected,
    make_federation,
    make_plan,
    over_the_wire,
    same_clustering,
)

pytestmark = pytest.mark.usefixtures("repeatable_noise")

FEDERATION = make_federation(make_plan(4, max_dropouts=1), seed=5)
PLAN = FEDERATION.plan
INBOX = inboxes(FEDERATION)
DEALER, OTHER = INBOX["c0"], INBOX["c1"]  # Deal, KeyBox, 3 Broadcasts, Confirmations; the same without the Deal


def broadcast(t: int) -> Broadcast:
    message = OTHER[t]
    assert isinstance(message, Broadcast)
    assert message.round == t
    return message


def sent(actions: list[Any]) -> list[Message]:
    assert all(action.to == SERVER for action in actions if isinstance(action, Send))
    return [action.message for action in actions if isinstance(action, Send)]


def make_client(federation: Federation = FEDERATION, name: str = "c1", **changes: Any) -> ClientSession:
    given: dict[str, Any] = {
        "X": federation.X[name],
        "identity": identity(name),
        "noise": injected([]),
        "random_bytes": entropy(""),
    }
    given |= changes
    X = given.pop("X")
    return ClientSession(federation.plan, name, X, **given)


# What it takes


def test_a_client_that_is_not_in_the_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="no client 'zoe' in the plan; it names c0, c1, c2, c3"):
        ClientSession(PLAN, "zoe", FEDERATION.X["c0"], identity=identity("zoe"), noise=injected([]), random_bytes=entropy(""))


def test_an_identity_that_is_not_the_plans_is_refused() -> None:
    with pytest.raises(PlanError, match="not the one whose signing_key the plan lists for client 'c1'"):
        make_client(identity=identity("c0"))


def test_a_plan_in_which_somebody_has_no_signing_key_is_refused() -> None:
    clients = (*PLAN.clients[:3], Client(name="c3", max_records=CAP))
    federation = replace(FEDERATION, plan=msgspec.structs.replace(PLAN, clients=clients))
    with pytest.raises(PlanError, match="client 'c3' has no signing_key"):
        make_client(federation)
    with pytest.raises(PlanError, match="client 'c3' has no signing_key"):
        federation.server()


def test_more_records_than_the_cap_are_refused_without_saying_how_many() -> None:
    make_client(X=np.zeros((CAP, 2), dtype=np.int64))
    with pytest.raises(DataError) as caught:
        make_client(X=np.zeros((CAP + 7, 2), dtype=np.int64))
    assert "more records than its cap, max_records 40" in str(caught.value)
    assert str(CAP + 7) not in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [np.zeros((3, 2)), np.zeros((3, 2), dtype=np.int16), np.zeros((3, 3), dtype=np.int64), np.zeros(2, dtype=np.int64)],
    ids=["float", "int16", "wide", "flat"],
)
def test_records_that_are_no_grid_points_are_refused(X: Any) -> None:
    with pytest.raises(DataError, match="not an int32 or int64 array with 2 columns"):
        make_client(X=X)


@pytest.mark.parametrize("value", [257, -257, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_records_outside_the_domain_are_refused_without_showing_them(value: int) -> None:
    make_client(X=np.array([[256, -256]]))
    with pytest.raises(DataError, match="outside the bounds") as caught:
        make_client(X=np.array([[0, value]]))
    assert str(value) not in str(caught.value)


# What it says


def test_a_client_says_hello_deals_uploads_confirms_and_finishes() -> None:
    client = FEDERATION.client("c0")
    keep, record, send = client.start()
    assert isinstance(keep, Keep)
    assert isinstance(record, Record)
    assert isinstance(record.message, Hello)
    assert send == Send(SERVER, record.message)
    assert record.message.ephemeral_public == keep.secret.public
    kinds = []
    for message in DEALER:
        actions = client.receive(message)
        kinds.append([(type(action), type(getattr(action, "message", getattr(action, "outcome", None)))) for action in actions])
        assert not sent(actions) or client.resend() == [action for action in actions if isinstance(action, Send)]
    assert [[f"{action.__name__} {what.__name__}" for action, what in step] for step in kinds] == [
        ["Record Deal", "Record SealedKeys", "Send SealedKeys"],
        ["Record KeyBox", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Confirmation", "Send Confirmation"],
        ["Record Confirmations", "Finish ClientResult"],
    ]
    assert client.resend() == []
    assert client.deadline() == []


def test_a_resend_is_the_same_bytes_and_draws_nothing() -> None:
    """The injected noise is used up after three rounds and refuses a fourth draw, so every draw shows."""
    client = client_after(FEDERATION, "c1", OTHER[:1])
    first = client.resend()
    for _ in range(3):
        assert client.resend() == first
    for message in OTHER[1:]:
        client.receive(message)
    assert client.state is ClientState.FINISHED


def test_what_a_client_handled_before_changes_nothing() -> None:
    client = client_after(FEDERATION, "c0", DEALER[:1])
    for n in range(1, len(DEALER)):
        client.receive(DEALER[n])
        state, said = client.state, client.resend()
        for old in DEALER[: n + 1]:
            assert client.receive(old) == []
        assert (client.state, client.resend()) == (state, said)


def test_a_message_from_a_later_step_makes_a_client_say_again_where_it_is() -> None:
    for n in range(len(OTHER)):
        client = client_after(FEDERATION, "c1", OTHER[:n])
        for later in OTHER[max(n + 1, 1) :]:
            if not isinstance(later, KeyBox):
                assert client.receive(later) == client.resend() != []
        for message in OTHER[n:]:
            client.receive(message)
        assert client.state is ClientState.FINISHED


def test_a_client_that_missed_rounds_reads_their_broadcasts_in_order_and_goes_on() -> None:
    """The third client's uploads of rounds 1 and 2 are lost, its broadcasts come late; it ends as everybody does."""
    inbox = inboxes(FEDERATION, Drops({("c2", 1), ("c2", 2)}))
    everybody = ("c0", "c1", "c2", "c3")
    included = (("c0", "c1", "c3"), ("c0", "c1", "c3"), everybody)
    assert tuple(tuple(m.included(PLAN.names)) for m in inbox["c2"] if isinstance(m, Broadcast)) == included
    client = client_after(FEDERATION, "c2", inbox["c2"][:1])
    (upload,) = sent(client.resend())
    assert isinstance(upload, Upload)
    assert upload.round == 1
    for t in (1, 2):
        (upload,) = sent(client.receive(inbox["c2"][t]))
        assert isinstance(upload, Upload)
        assert upload.round == t + 1
    client.receive(inbox["c2"][3])
    _, finish = client.receive(inbox["c2"][4])
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.included == included
    assert same_clustering(finish.outcome.clustering, FEDERATION.plain_result(included))


def test_at_its_deadline_a_client_gives_up_with_a_reason() -> None:
    for n, state in [(0, "joining"), (1, "aggregating"), (4, "confirming")]:
        client = client_after(FEDERATION, "c1", OTHER[:n])
        reason = f"nothing came from the server in time while this client was {state}"
        assert client.deadline() == [Record(Abort(reason)), Finish(Ended(reason))]
        assert client.state is ClientState.ABORTED
        assert client.resend() == client.deadline() == []


def test_an_abort_ends_the_run_with_the_servers_reason() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:2])
    reason = "the server ended it: power cut"
    assert client.receive(Abort("power cut")) == [Record(Abort(reason)), Finish(Ended(reason))]
    assert client.ending() == []
    with pytest.raises(RemoteProtocolError, match="Broadcast came after the run had ended: the server ended it: power cut"):
        client.receive(broadcast(2))


def test_a_failing_noise_source_ends_the_run_without_an_upload() -> None:
    client = make_client(noise=BrokenNoise(), random_bytes=entropy("c1"))
    client.start()
    with pytest.raises(FastLloydError, match="random source failed"):
        client.receive(OTHER[0])
    assert client.state is ClientState.ABORTED
    assert client.resend() == []


def test_an_error_that_is_not_ours_is_not_quoted_where_it_is_made_durable() -> None:
    class Foreign:
        private = False

        def gaussian(self, scale: Fraction, size: int) -> IntArray:
            raise ValueError(f"4.7 is the value of a record, {size} of scale {scale} were asked for")

        two_sided_geometric = gaussian

    client = make_client(noise=Foreign(), random_bytes=entropy("c1"))
    client.start()
    with pytest.raises(ValueError, match="is the value of a record"):
        client.receive(OTHER[0])
    assert client.ending()[0] == Record(Abort("an unexpected ValueError"))


def test_a_session_shows_no_secret() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:2])
    assert repr(client) == "ClientSession(<secret>)"
    assert not hasattr(client, "__dict__")
    keep = FEDERATION.client("c1").start()[0]
    assert repr(keep) == "Keep(secret=EphemeralKey(<secret>))"
    with pytest.raises(TypeError, match="EphemeralKey is secret"):
        copy.deepcopy(keep)
    with pytest.raises(TypeError):
        msgspec.msgpack.encode(keep)
    rounds = client._phase
    assert "GroupMasks(<secret>)" in repr(getattr(rounds, "_masked"))  # noqa: B009 - private, and of a union of phases
    assert {name for name in vars(rounds) if not name.startswith("_")} == {"plan", "roster", "name"}
    assert not is_dataclass(client)  # serialisers write out what they know


# What it refuses from a server


def refused(name: str, before: list[Message], message: Message, match: str, federation: Federation = FEDERATION) -> None:
    """The message ends the run of a client that came so far honestly, it says why, and the client never speaks again."""
    client = client_after(federation, name, before)
    with pytest.raises(RemoteProtocolError, match=match):
        client.receive(over_the_wire(federation.plan, message))
    assert client.state is ClientState.ABORTED
    assert client.resend() == client.reconnect() == []
    assert client._phase is None
    record, finish = client.ending()
    assert isinstance(record, Record)
    assert isinstance(finish, Finish)
    assert finish.outcome == client.outcome == Ended(cast("Abort", record.message).reason)
    for anything in INBOX[name]:
        with pytest.raises(RemoteProtocolError, match="came after the run had ended"):
            client.receive(anything)
    assert client.ending() == []


def deal() -> Deal:
    assert isinstance(DEALER[0], Deal)
    return DEALER[0]


def forged_hello(name: str, signer: str, **changes: Any) -> Hello:
    roster = Roster.of(PLAN)
    hello = roster.hello(name, EphemeralKey.draw(entropy("forger")).public, identity(signer))
    return msgspec.structs.replace(hello, **changes)


def with_hello(position: int, hello: Hello) -> Deal:
    hellos = list(deal().hellos)
    hellos[position] = hello
    return Deal(tuple(hellos))


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("has 2 clients; at least 3 are needed", Deal(deal().hellos[:2])),
        ("names a client twice", Deal((*deal().hellos[:2], *deal().hellos[1:3]))),
        ("not in the order of the plan", Deal((deal().hellos[0], deal().hellos[2], deal().hellos[1]))),
        ("names 'zoe', which is not", with_hello(3, forged_hello("zoe", "zoe"))),
        ("client 'c0' was named dealer, but is not the first", Deal(deal().hellos[1:])),
        ("client 'c0' was named dealer, but is not the first", with_hello(0, forged_hello("c0", "c0"))),
        ("the Hello of client 'c2' is not signed with its key", with_hello(2, forged_hello("c2", "c1"))),
        ("the Hello of client 'c2' is not signed", with_hello(2, forged_hello("c2", "c2", signature=bytes(64)))),
        (
            "the Hello of client 'c2' is not signed",
            with_hello(2, msgspec.structs.replace(deal().hellos[2], ephemeral_public=bytes(31) + b"\x01")),
        ),
        ("client 'c2' holds another plan", with_hello(2, forged_hello("c2", "c2", plan_digest=bytes(32)))),
        ("client 'c2' speaks of another run", with_hello(2, forged_hello("c2", "c2", run_id=bytes(16)))),
    ],
)
def test_a_dealer_seals_nothing_on_a_false_deal(match: str, message: Deal) -> None:
    refused("c0", [], message, match)


def test_a_dealer_refuses_a_public_key_that_makes_any_secret_zero() -> None:
    roster = Roster.of(PLAN)
    hello = roster.hello("c2", bytes(32), identity("c2"))  # signed by its owner, but of low order
    refused("c0", [], with_hello(2, hello), "not a valid X25519 key")


def test_a_dealer_deals_once() -> None:
    refused("c0", DEALER[:1], Deal(deal().hellos[:3]), "Deal is not expected by a client that is dealing")


def key_box(name: str = "c1") -> KeyBox:
    message = INBOX[name][1 if name == "c0" else 0]
    assert isinstance(message, KeyBox)
    return message


def false_box(dealer: str, signer: str, recipient: str = "c1", present: tuple[str, ...] = PLAN.names) -> KeyBox:
    """A group key the server drew itself, sealed to a client in the name of a dealer."""
    roster, key = Roster.of(PLAN), EphemeralKey.draw(entropy("false"))
    ephemeral = client_hello(recipient).ephemeral_public
    passage = KeyPassage(
        plan_digest=PLAN.digest,
        run_id=bytes.fromhex(PLAN.run_id),
        sender_name=dealer,
        sender_public=key.public,
        recipient_name=recipient,
        recipient_public=ephemeral,
    )
    box = passage.seal(GroupKey(b"known to the server 32 bytes lon"), key)
    return KeyBox(roster.hello(dealer, key.public, identity(signer)), present, box)


def client_hello(name: str) -> Hello:
    (hello,) = sent(FEDERATION.client(name).start())
    assert isinstance(hello, Hello)
    return hello


def changed(message: Message, **changes: Any) -> Any:
    return msgspec.structs.replace(message, **changes)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("the Hello of client 'c0' is not signed with its key", false_box("c0", signer="server")),
        ("there is no client 'zoe'|names 'zoe'", false_box("zoe", signer="zoe", present=("zoe", *PLAN.names))),
        ("the sealed group key does not open", changed(key_box(), box=key_box("c2").box)),
        ("the sealed group key does not open", changed(key_box(), box=bytes(60))),
        ("the key set names a client twice", changed(key_box(), present=("c0", "c0", "c1", "c2"))),
        ("the key set is not in the order", changed(key_box(), present=("c1", "c0", "c2"))),
        ("the key set has 2 clients; at least 3", changed(key_box(), present=("c0", "c1"))),
        ("'c1' was sent a key set that leaves it out", changed(key_box(), present=("c0", "c2", "c3"))),
        ("client 'c0' dealt the keys, but is not the first", changed(key_box(), present=("c1", "c2", "c3"))),
        ("client 'c2' dealt the keys, but is not the first", changed(key_box(), dealer=client_hello("c2"))),
        ("in its own name that it did not deal", changed(key_box(), dealer=client_hello("c1"), present=("c1", "c2", "c3"))),
        ("client 'c0' holds another plan", changed(key_box(), dealer=changed(key_box().dealer, plan_digest=bytes(32)))),
        ("client 'c0' speaks of another run", changed(key_box(), dealer=changed(key_box().dealer, run_id=bytes(16)))),
    ],
)
def test_a_client_adopts_no_false_group_key(match: str, message: KeyBox) -> None:
    refused("c1", [], message, match)


@pytest.mark.parametrize(
    "message",
    [
        changed(key_box("c0"), box=key_box("c1").box),
        changed(key_box("c0"), present=("c0", "c1", "c2")),
        changed(key_box("c0"), dealer=forged_hello("c0", "c0")),
    ],
    ids=["another box", "a smaller set", "another key"],
)
def test_a_dealer_takes_back_only_the_set_it_dealt(message: KeyBox) -> None:
    refused("c0", DEALER[:1], message, "in its own name that it did not deal")


def test_a_client_adopts_one_group_key_per_run() -> None:
    """Even one that its rightful dealer sealed: the same dealer's session, run again with other entropy."""
    dealer = FEDERATION.client("c0", seed="again")
    (hello,) = sent(dealer.start())
    assert isinstance(hello, Hello)
    dealt = sent(dealer.receive(with_hello(0, hello)))[0]
    assert isinstance(dealt, SealedKeys)
    second = KeyBox(hello, PLAN.names, dict(dealt.boxes)["c1"])
    assert client_after(FEDERATION, "c1", [second]).state is ClientState.AGGREGATING  # as a first key it is fine
    refused("c1", OTHER[:1], second, "KeyBox is not expected by a client that is aggregating")


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("has 2 clients; at least 3 are needed", among(PLAN.names, broadcast(1), {"c2": None, "c3": None})),
        ("has 0 clients; at least 3 are needed", among(PLAN.names, broadcast(1), dict.fromkeys(PLAN.names))),
        ("names an upload of client 'c1' that it did not make", among(PLAN.names, broadcast(1), {"c1": bytes(8)})),
        ("does not open", among(PLAN.names, broadcast(1), {"c3": None})),
        ("does not open", among(PLAN.names, broadcast(1), {"c3": bytes(8)})),
        ("does not open", changed(broadcast(1), payload=bytes(len(broadcast(1).payload)))),
        ("does not open", changed(broadcast(2), round=1, nonces=broadcast(1).nonces)),
        ("round 1000 is neither that of the open round, 1, nor one", changed(broadcast(1), round=1000)),
        ("round 4 is neither that of the open round, 1, nor one", changed(broadcast(1), round=4)),
    ],
)
def test_a_client_opens_nothing_but_the_sum_of_the_round(match: str, message: Broadcast) -> None:
    refused("c1", OTHER[:1], message, match)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("names a set that is not one of 4 clients", changed(broadcast(1), members=b"\x1f", nonces=bytes(40))),
        ("names a set that is not one of 4 clients", changed(broadcast(1), members=b"\x0f\x00")),
        ("names a set that is not one of 4 clients", changed(broadcast(1), members=b"")),
        ("has 24 bytes of nonces for 4 clients", changed(broadcast(1), nonces=broadcast(1).nonces[:24])),
        ("has 40 bytes of nonces for 4 clients", changed(broadcast(1), nonces=broadcast(1).nonces + bytes(8))),
    ],
)
def test_a_set_that_no_plan_has_is_refused_on_the_wire_and_by_the_session(match: str, message: Broadcast) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        over_the_wire(PLAN, message)
    client = client_after(FEDERATION, "c1", OTHER[:1])
    with pytest.raises(RemoteProtocolError, match=match):
        client.receive(message)
    assert client.state is ClientState.ABORTED


def test_a_client_opens_one_set_per_round() -> None:
    """A second broadcast of a round, itself a proper sum of proper uploads over another set, is not opened."""
    second = inboxes(FEDERATION, Drops({("c3", 1)}))["c1"][1]
    assert isinstance(second, Broadcast)
    assert tuple(second.included(PLAN.names)) == ("c0", "c1", "c2")
    assert client_after(FEDERATION, "c1", [OTHER[0], second]).state is ClientState.AGGREGATING  # as the first it is fine
    refused("c1", OTHER[:2], second, "round 1 is neither that of the open round, 2, nor one that came before")


def test_clients_outside_the_key_set_are_in_no_sum() -> None:
    federation = replace(FEDERATION, plan=PLAN)
    late = inboxes(federation, lambda sender, _to, _m, data: () if sender == "c3" else (data,))["c1"]
    assert isinstance(late[0], KeyBox)
    assert late[0].present == ("c0", "c1", "c2")
    assert isinstance(late[1], Broadcast)
    refused("c1", late[:1], among(PLAN.names, late[1], {"c3": bytes(8)}), "names 'c3', which is not")


def test_a_sum_too_large_to_be_honest_is_refused() -> None:
    """W15: masks and checksum are right, but words were added that no records and noise can give."""
    shown, ring = broadcast(1), PLAN.ring
    words = ring.from_bytes(shown.payload, PLAN.n_words(PLAN.mechanism.rounds[0])).copy()
    words[0] += np.uint64(1 << 40)
    refused("c1", OTHER[:1], changed(shown, payload=ring.to_bytes(words)), "larger than its clients' caps and the noise allow")


def confirmations() -> Confirmations:
    message = OTHER[4]
    assert isinstance(message, Confirmations)
    return message


MACS = confirmations().macs


@pytest.mark.parametrize(
    ("match", "macs"),
    [
        ("client 'c2' ended the run with other messages", (*MACS[:2], ("c2", bytes(32)), MACS[3])),
        ("client 'c1' ended the run with other messages", (MACS[0], ("c1", bytes(32)), *MACS[2:])),
        ("client 'c2' ended the run with other messages", (*MACS[:2], ("c2", MACS[3][1]))),
        ("names 'zoe', which is not", (*MACS, ("zoe", bytes(32)))),
        ("names a client twice", (*MACS, MACS[3])),
        ("not in the order of the plan", (MACS[1], MACS[0], *MACS[2:])),
        ("2 clients of the last round confirmed the result; at least 3 are needed", MACS[:2]),
        ("1 clients of the last round confirmed the result; at least 3 are needed", ()),
    ],
)
def test_a_client_keeps_no_result_that_is_not_confirmed(match: str, macs: tuple[tuple[str, bytes], ...]) -> None:
    refused("c1", OTHER[:4], Confirmations(macs), match)


def test_one_missing_confirmation_is_named() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:4])
    _, finish = client.receive(Confirmations(MACS[:3]))
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.unconfirmed == ("c3",)


def test_a_clients_own_confirmation_counts_though_the_server_left_it_out() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:4])
    _, finish = client.receive(Confirmations((MACS[0], MACS[2])))
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.unconfirmed == ("c3",)


def test_who_was_not_in_the_last_round_does_not_help_to_confirm_it() -> None:
    inbox = inboxes(FEDERATION, Drops({("c1", 3)}))["c1"]
    assert isinstance(inbox[3], Broadcast)
    assert tuple(inbox[3].included(PLAN.names)) == ("c0", "c2", "c3")
    last = inbox[4]
    assert isinstance(last, Confirmations)
    assert [name for name, _ in last.macs] == ["c0", "c1", "c2", "c3"]
    refused("c1", inbox[:4], Confirmations(last.macs[:3]), "2 clients of the last round confirmed")
    client = client_after(FEDERATION, "c1", inbox[:4])
    client.receive(Confirmations((last.macs[0], *last.macs[2:])))
    assert client.state is ClientState.FINISHED


def test_records_are_not_changed() -> None:
    X = FEDERATION.X["c1"].copy()
    client_after(FEDERATION, "c1", OTHER)
    assert np.array_equal(X, FEDERATION.X["c1"])
