"""What the server decides once, what it answers again, and which client it refuses while the others
go on.
"""

from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.errors import FastLloydError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import Action, Finish, Record, Send, ServerResult
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    Ready,
    SealedKeys,
    Upload,
    message_digest,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.testing import InjectedNoise
from federation import (
    BEGINNING,
    BrokenNoise,
    Federation,
    inboxes,
    injected,
    make_federation,
    make_plan,
)
from known_to_server import broadcasts_of, uploads_of
from lies import changed, flipped, forged_hello, owned_hello, run_keys

pytestmark = pytest.mark.usefixtures("repeatable_noise")

FEDERATION = make_federation(make_plan(4, max_dropouts=1, trust=TrustMode.SERVER_NOISE), seed=9)
PAIRWISE = make_federation(make_plan(4, max_dropouts=1, masks=Masks.PAIRWISE), seed=9)
PLAN = FEDERATION.plan
NAMES = PLAN.names


def outboxes(federation: Federation) -> dict[str, list[Message]]:
    """What each client says in an undisturbed run: Hello, SealedKeys if it makes any, Ready, three
    Uploads, a Confirmation.
    """
    said: dict[str, list[Message]] = {name: [] for name in federation.plan.names}

    def watch(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        if sender in said:
            said[sender].append(message)
        return (data,)

    run_in_process(federation.server(), federation.clients(), link=watch)
    return said


SAID, PAIRWISE_SAID = outboxes(FEDERATION), outboxes(PAIRWISE)
RECEIVED = inboxes(FEDERATION)
HELLO = {name: said for name in NAMES if isinstance(said := SAID[name][0], Hello)}
SEALED = SAID["c0"][1]
DEAL = Deal(BEGINNING, 1, tuple(HELLO.values()))
READY = {name: said for name in NAMES for said in SAID[name] if isinstance(said, Ready)}
ALL_READY = RECEIVED["c0"][2]
UPLOAD: dict[tuple[str, int], Message] = {
    (name, message.round): message
    for name in NAMES
    for message in SAID[name]
    if isinstance(message, Upload)
}
CONFIRMATION: dict[str, Message] = {name: SAID[name][-1] for name in NAMES}


def upload(name: str, t: int) -> Upload:
    found = UPLOAD[name, t]
    assert isinstance(found, Upload)
    return found


def server_in(state: ServerState, t: int = 1, federation: Federation = FEDERATION) -> ServerSession:
    """A server that was led to `state` (in round t) by everybody's honest messages."""
    server, said = federation.server(), SAID if federation is FEDERATION else PAIRWISE_SAID
    if state is ServerState.JOINING:
        return server
    kinds: tuple[type, ...] = (Hello,)
    if state is not ServerState.DEALING:
        kinds += (SealedKeys,) if state is ServerState.AGREEING else (SealedKeys, Ready)
    steps = [
        (name, message)
        for kind in kinds
        for name in NAMES
        for message in said[name]
        if isinstance(message, kind)
    ]
    if state not in (ServerState.DEALING, ServerState.AGREEING):
        closed = range(1, t if state is ServerState.AGGREGATING else 4)
        for number in closed:
            steps += [
                (name, m)
                for name in NAMES
                for m in said[name]
                if isinstance(m, Upload) and m.round == number
            ]
    if state is ServerState.FINISHED:
        steps += [(name, said[name][-1]) for name in NAMES]
    for name, message in steps:
        server.receive(name, message)
    assert server.state is state
    return server


def sends(actions: list[Action]) -> dict[str, Message]:
    found = [action for action in actions if isinstance(action, Send)]
    assert len({send.to for send in found}) == len(found)
    return {send.to: send.message for send in found}


def recorded(actions: list[Action]) -> list[Message]:
    """What is recorded; everything sent must come after it."""
    kinds = [type(action) for action in actions]
    assert kinds == sorted(kinds, key=[Record, Send, Finish].index)
    return [action.message for action in actions if isinstance(action, Record)]


# What it does


def test_the_last_hello_has_all_share_keys() -> None:
    server = server_in(ServerState.JOINING)
    for name in ("c3", "c1", "c0"):
        assert server.receive(name, HELLO[name]) == []
    assert server.receive("c2", HELLO["c2"]) == [
        Record(DEAL),
        *(Send(name, DEAL) for name in NAMES),
    ]
    assert server.awaited == ("c0",)


def test_the_sealed_keys_are_recorded_and_relayed_each_to_its_client() -> None:
    actions = server_in(ServerState.DEALING).receive("c0", SEALED)
    assert isinstance(SEALED, SealedKeys)
    made = zip(SEALED.ciphertexts, SEALED.boxes, strict=True)
    digest = message_digest(DEAL)
    assert SEALED.commitment is not None
    boxes = [
        KeyBox(digest, SEALED.commitment, (), None),
        *(KeyBox(digest, SEALED.commitment, (ciphertext,), box) for ciphertext, box in made),
    ]
    assert recorded(actions) == [SEALED]
    assert sends(actions) == dict(zip(NAMES, boxes, strict=True))


def test_pairwise_each_client_gets_what_those_before_it_made_once_all_have_answered() -> None:
    server = server_in(ServerState.DEALING, federation=PAIRWISE)
    sealed = {
        name: said for name in NAMES if isinstance(said := PAIRWISE_SAID[name][1], SealedKeys)
    }
    assert [len(made.ciphertexts) for made in sealed.values()] == [3, 2, 1, 0]
    assert [len(made.boxes) for made in sealed.values()] == [3, 0, 0, 0]
    for name in ("c3", "c0", "c2"):
        assert server.receive(name, sealed[name]) == [Record(sealed[name])]
    assert server.awaited == ("c1",)
    assert server.receive("c0", sealed["c0"]) == []  # again
    actions = server.receive("c1", sealed["c1"])
    expected = {
        "c0": ((), None),
        "c1": ((sealed["c0"].ciphertexts[0],), sealed["c0"].boxes[0]),
        "c2": ((sealed["c0"].ciphertexts[1], sealed["c1"].ciphertexts[0]), sealed["c0"].boxes[1]),
        "c3": (
            (sealed["c0"].ciphertexts[2], sealed["c1"].ciphertexts[1], sealed["c2"].ciphertexts[0]),
            sealed["c0"].boxes[2],
        ),
    }
    assert {
        name: (box.ciphertexts, box.box)
        for name, box in sends(actions).items()
        if isinstance(box, KeyBox)
    } == expected
    assert recorded(actions) == [sealed["c1"]]
    assert server.state is ServerState.AGREEING


def test_the_broadcast_is_the_ring_sum_of_the_uploads_and_the_noise_but_for_the_checksum() -> None:
    server = server_in(ServerState.AGGREGATING)
    for name in ("c2", "c0", "c3"):
        assert server.receive(name, UPLOAD[name, 1]) == []
    actions = server.receive("c1", UPLOAD["c1", 1])
    (broadcast,) = recorded(actions)
    assert sends(actions) == dict.fromkeys(NAMES, broadcast)
    assert isinstance(broadcast, Broadcast)
    assert broadcast.included(NAMES) == {name: upload(name, 1).nonce for name in NAMES}
    # by hand: Python integers modulo 2^64
    noise = [*FEDERATION.server_noise[0].ravel().tolist(), 0]
    rows = [np.frombuffer(upload(name, 1).payload, "<u8").tolist() for name in NAMES]
    expected = [sum(column) % 2**64 for column in zip(noise, *rows, strict=True)]
    assert np.frombuffer(broadcast.payload, "<u8").tolist() == expected


def test_in_client_noise_the_server_adds_nothing_and_asks_for_no_noise() -> None:
    federation = make_federation(make_plan(2))
    uploads = []

    def watch(_sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        if isinstance(message, Upload | Broadcast) and message.round == 1:
            uploads.append(message)
        return (data,)

    server = ServerSession(federation.plan, InjectedNoise([]))
    run_in_process(server, federation.clients(), link=watch)
    first, second, broadcast = (np.frombuffer(message.payload, "<u8") for message in uploads[:3])
    assert np.array_equal(first + second, broadcast)


def test_a_closed_round_keeps_no_upload() -> None:
    server = server_in(ServerState.AGGREGATING, t=2)
    assert uploads_of(server) == {}
    server.receive("c0", UPLOAD["c0", 2])
    for _ in range(3):
        server.deadline()
    assert server.state is ServerState.ABORTED
    assert uploads_of(server) == {}


def test_all_confirmations_are_relayed_and_the_run_is_over() -> None:
    server = server_in(ServerState.CONFIRMING)
    for name in NAMES[:3]:
        assert server.receive(name, CONFIRMATION[name]) == []
    actions = server.receive("c3", CONFIRMATION["c3"])
    (relayed,) = recorded(actions)
    assert sends(actions) == dict.fromkeys(NAMES, relayed)
    assert actions[-1] == Finish(ServerResult(included=(NAMES,) * 3))


# What it does when time is up


def test_at_its_deadline_the_server_goes_on_with_enough_clients_and_aborts_with_fewer() -> None:
    steps: list[tuple[ServerState, list[Message]]] = [
        (ServerState.JOINING, [HELLO[name] for name in NAMES]),
        (ServerState.AGGREGATING, [UPLOAD[name, 1] for name in NAMES]),
        (ServerState.CONFIRMING, [CONFIRMATION[name] for name in NAMES]),
    ]
    for state, messages in steps:
        for n in range(4):
            server = server_in(state)
            for name, message in zip(NAMES[:n], messages[:n], strict=True):
                server.receive(name, message)
            actions = server.deadline()
            assert (server.state is ServerState.ABORTED) == (n < 3)
            if n < 3:
                (abort,) = recorded(actions)
                assert isinstance(abort, Abort)
                said = (
                    f"{n} of 4 clients joined in time"
                    if state is ServerState.JOINING
                    else f"{n} clients "
                )
                assert abort.reason.startswith(said)
                assert sends(actions) == dict.fromkeys(NAMES, abort)
                finish = actions[-1]
                assert isinstance(finish, Finish)
                assert isinstance(finish.outcome, ServerResult)
                assert finish.outcome.reason == abort.reason


def test_a_dealer_that_does_not_deal_is_turned_away_and_the_next_one_asked() -> None:
    server = server_in(ServerState.DEALING)
    answers = sends(server.deadline())
    smaller = Deal(BEGINNING, 2, tuple(HELLO[name] for name in NAMES[1:]))
    assert answers == {
        "c0": Abort("the run goes on without client c0: the client was too late"),
        **dict.fromkeys(NAMES[1:], smaller),
    }
    assert server.awaited == ("c1",)
    # its keys come too late, and are not stored
    assert sends(server.receive("c0", SEALED)) == {"c0": Abort("the run began without client c0")}
    assert server.state is ServerState.DEALING
    # with one client less than can be missed, there is nobody left to ask
    reason = "2 of 4 clients joined in time (missing: c0, c1), and at least 3 are needed"
    assert recorded(server.deadline()) == [Abort(reason)]


@pytest.mark.parametrize("late", [("c0",), ("c2",), ("c3",), ("c1", "c3")])
def test_pairwise_whoever_makes_no_keys_is_left_out_if_the_others_are_enough(
    late: tuple[str, ...],
) -> None:
    server = server_in(ServerState.DEALING, federation=PAIRWISE)
    for name in NAMES:
        if name not in late:
            server.receive(name, PAIRWISE_SAID[name][1])
    assert server.awaited == late
    actions = server.deadline()
    if len(late) == 2:
        assert recorded(actions) == [
            Abort("2 of 4 clients joined in time (missing: c1, c3), and at least 3 are needed")
        ]
        return
    others = [name for name in NAMES if name not in late]
    (deal,) = recorded(actions)
    assert isinstance(deal, Deal)
    assert [hello.name for hello in deal.hellos] == others
    assert sends(actions).keys() == set(NAMES)
    # what was made for the Deal before is answered with this one, and everybody is awaited anew
    assert server.awaited == tuple(others)
    for name in others:
        assert server.receive(name, PAIRWISE_SAID[name][1]) == [Send(name, deal)]
    assert server.awaited == tuple(others)
    assert sends(server.receive(late[0], PAIRWISE_SAID[late[0]][1])) == {
        late[0]: Abort(f"the run began without client {late[0]}")
    }


def test_pairwise_a_round_needs_everybody_who_shares_keys() -> None:
    server = server_in(ServerState.AGGREGATING, federation=PAIRWISE)
    for name in NAMES[:3]:
        server.receive(name, PAIRWISE_SAID[name][3])
    assert recorded(server.deadline()) == [
        Abort("3 clients answered in round 1 (missing: c3), and at least 4 are needed")
    ]


def test_a_server_that_is_done_lets_deadlines_pass() -> None:
    finished = server_in(ServerState.FINISHED)
    aborted = server_in(ServerState.JOINING)
    aborted.deadline()
    assert aborted.state is ServerState.ABORTED
    assert finished.deadline() == aborted.deadline() == []


# What it answers again


def test_a_repeated_message_is_answered_from_what_is_stored_and_decides_nothing() -> None:
    """The injected noise has three rounds' worth, all drawn by then: any further draw would
    raise.
    """
    joining = server_in(ServerState.JOINING)
    joining.receive("c0", HELLO["c0"])
    assert joining.receive("c0", HELLO["c0"]) == []

    dealing = server_in(ServerState.DEALING)
    for name in NAMES:
        assert dealing.receive(name, HELLO[name]) == [Send(name, DEAL)]

    waiting = server_in(ServerState.AGGREGATING)
    waiting.receive("c1", UPLOAD["c1", 1])
    assert waiting.receive("c1", UPLOAD["c1", 1]) == []

    sharing = server_in(ServerState.AGGREGATING)
    for name in NAMES:
        key_box = next(message for message in RECEIVED[name] if isinstance(message, KeyBox))
        told = [Send(name, DEAL), Send(name, key_box), Send(name, ALL_READY)]
        for message in (HELLO[name], READY[name], changed(READY[name], deal=bytes(32))):
            assert sharing.receive(name, message) == told
    told = [Send("c0", message) for message in RECEIVED["c0"][:3]]
    assert sharing.receive("c0", SEALED) == told

    agreeing = server_in(ServerState.AGREEING)
    for _ in range(2):
        assert agreeing.receive("c0", READY["c0"]) == []
    assert agreeing.receive("c0", SEALED) == told[:2]
    assert agreeing.receive("c0", HELLO["c0"]) == told[:2]

    for state in (ServerState.AGGREGATING, ServerState.CONFIRMING, ServerState.FINISHED):
        server = server_in(state, t=3)
        for name in NAMES:
            assert server.receive(name, HELLO[name]) == []  # it was in a sum: it has both
            for broadcast in RECEIVED[name]:
                if isinstance(broadcast, Broadcast) and broadcast.round <= (
                    2 if state is ServerState.AGGREGATING else 3
                ):
                    assert server.receive(name, UPLOAD[name, broadcast.round]) == [
                        Send(name, broadcast)
                    ]
        assert server.receive("c0", SEALED) == []
        assert server.state is state


def test_a_late_upload_is_answered_with_the_stored_broadcast_and_not_added() -> None:
    server = server_in(ServerState.AGGREGATING)
    for name in NAMES[:3]:
        server.receive(name, UPLOAD[name, 1])
    (broadcast,) = recorded(server.deadline())
    assert isinstance(broadcast, Broadcast)
    assert tuple(broadcast.included(NAMES)) == NAMES[:3]
    assert server.receive("c3", UPLOAD["c3", 1]) == [Send("c3", broadcast)]
    assert uploads_of(server) == {}


def test_a_late_confirmation_is_answered_with_those_relayed() -> None:
    server = server_in(ServerState.CONFIRMING)
    for name in NAMES[:3]:
        server.receive(name, CONFIRMATION[name])
    (relayed,) = recorded(server.deadline())
    assert isinstance(relayed, Confirmations)
    assert [name for name, *_ in relayed.confirmed] == ["c0", "c1", "c2"]
    assert server.receive("c3", CONFIRMATION["c3"]) == [Send("c3", relayed)]
    assert server.receive("c0", CONFIRMATION["c0"]) == [Send("c0", relayed)]


def test_confirmations_of_clients_outside_the_last_round_do_not_make_enough() -> None:
    """Found by a schedule: the server relayed what every client had to refuse, so the run ended in
    an accusation.
    """
    server = server_in(ServerState.AGGREGATING, t=3)
    for name in NAMES[:3]:
        server.receive(name, UPLOAD[name, 3])
    server.deadline()
    for name in NAMES[1:]:
        server.receive(name, CONFIRMATION[name])
    reason = (
        "2 clients of the last round confirmed the result (missing: c0), and at least 3 are needed"
    )
    assert recorded(server.deadline()) == [Abort(reason)]


def test_whoever_asks_after_an_abort_is_told_the_reason() -> None:
    server = server_in(ServerState.AGGREGATING)
    (abort,) = recorded(server.deadline())
    for message in (HELLO["c1"], UPLOAD["c1", 1], CONFIRMATION["c1"]):
        assert server.receive("c1", message) == [Send("c1", abort)]


def test_a_client_that_joins_too_late_is_turned_away() -> None:
    server = server_in(ServerState.JOINING)
    for name in NAMES[1:]:
        server.receive(name, HELLO[name])
    server.deadline()
    assert server.receive("c0", HELLO["c0"]) == [
        Send("c0", Abort("the run began without client c0"))
    ]


# Whom it refuses


def refuses(server: ServerSession, sender: str, message: Message, match: str) -> None:
    """The client is named, and all that the server holds is as it was."""

    def held() -> dict[str, Any]:
        return {slot: repr(getattr(server, slot)) for slot in ServerSession.__slots__}

    before = held()
    with pytest.raises(RemoteProtocolError, match=match) as caught:
        server.receive(sender, message)
    assert repr(sender) in str(caught.value)
    assert held() == before


def hello_of(name: str, signer: str, **changes: Any) -> Hello:
    return forged_hello(PLAN, name, signer, **changes)


def test_a_false_hello_is_refused_and_the_true_one_still_taken() -> None:
    server = server_in(ServerState.JOINING)
    refuses(server, "zoe", hello_of("zoe", "zoe"), "no client 'zoe' in the plan")
    refuses(server, "c1", hello_of("c2", "c2"), "client 'c1' said Hello in the name of 'c2'")
    refuses(server, "c1", hello_of("c1", "c2"), "Hello of client 'c1' is not signed with its key")
    refuses(
        server,
        "c1",
        hello_of("c1", "c1", plan_digest=bytes(32)),
        "client 'c1' holds another plan, with digest 0000000000000000",
    )
    refuses(server, "c1", hello_of("c1", "c1", run_id=bytes(16)), "in another run")
    server.receive("c1", HELLO["c1"])
    refuses(server, "c1", hello_of("c1", "c2"), "Hello of client 'c1' is not signed with its key")
    assert server.hello_of("c1") == HELLO["c1"]


def test_until_the_first_deal_the_last_hello_of_a_client_counts_and_then_the_one_in_it() -> None:
    """A client whose run ended unspent joins again with fresh keys, and the same server may wait
    still.
    """
    server, again = server_in(ServerState.JOINING), hello_of("c1", "c1")
    for hello in (HELLO["c1"], again):
        assert server.receive("c1", hello) == []
    server.left("c1")
    assert (server.hello_of("c1"), server.joined) == (None, ())
    assert server.receive("c1", HELLO["c1"]) == []
    assert (server.hello_of("c1"), server.joined) == (HELLO["c1"], ("c1",))
    for name in ("c0", "c2", "c3"):
        answers = server.receive(name, HELLO[name])
    assert sends(answers) == dict.fromkeys(NAMES, DEAL)
    refuses(server, "c1", again, "client 'c1' said Hello before, with another key")


@pytest.mark.parametrize(
    "said",
    [SEALED, READY["c0"], BadKeys(message_digest(DEAL), ("c0",))],
    ids=lambda m: type(m).__name__,
)
def test_a_server_that_waits_for_hellos_passes_over_words_on_keys_of_an_earlier_beginning(
    said: Message,
) -> None:
    server = server_in(ServerState.JOINING)
    for _ in range(2):
        assert server.receive("c0", said) == []
        server.receive("c0", HELLO["c0"])
    assert server.state is ServerState.JOINING
    assert server.joined == ("c0",)


def test_one_client_whose_key_nobody_can_seal_to_does_not_end_the_run_of_every_dealer_in_turn() -> (
    None
):
    """A dealer refuses a Deal that names such a key, and ends its run: the server must not put it
    into one.
    """
    server = server_in(ServerState.JOINING)
    of_low_order = owned_hello(PLAN, HELLO["c3"], exchange_key=bytes(32))
    refuses(
        server, "c3", of_low_order, "Hello of client 'c3' has a key that cannot be used: .*X25519"
    )
    no_ml_kem_key = owned_hello(PLAN, HELLO["c3"], encapsulation_key=b"\xff" * 1184)
    refuses(
        server,
        "c3",
        no_ml_kem_key,
        "Hello of client 'c3' has a key that cannot be used: .*ML-KEM-768",
    )
    for_all_to_sign = owned_hello(PLAN, HELLO["c3"], run_key=b"\1" + bytes(31))
    refuses(
        server,
        "c3",
        for_all_to_sign,
        "Hello of client 'c3' has a key that cannot be used: .*Ed25519",
    )
    for name in NAMES[:3]:
        server.receive(name, HELLO[name])
    assert sends(server.deadline()) == dict.fromkeys(
        NAMES[:3], Deal(BEGINNING, 1, tuple(HELLO[name] for name in NAMES[:3]))
    )


def test_false_keys_are_refused_and_the_dealers_still_taken() -> None:
    server = server_in(ServerState.DEALING)
    assert isinstance(SEALED, SealedKeys)
    refuses(server, "c1", SEALED, "client 'c1' sealed keys, but was not asked to")
    lies = [
        changed(SEALED, boxes=boxes)
        for boxes in (SEALED.boxes[:2], (*SEALED.boxes, SEALED.boxes[0]), ())
    ]
    lies += [
        changed(SEALED, ciphertexts=made)
        for made in (SEALED.ciphertexts[:2], (*SEALED.ciphertexts, bytes(1184)), ())
    ]
    lies += [changed(SEALED, commitment=None)]
    for lie in lies:
        refuses(server, "c0", lie, "client 'c0' did not make keys for exactly the clients")
    signed = [
        changed(SEALED, commitment=bytes(32)),
        changed(SEALED, boxes=SEALED.boxes[::-1]),
        changed(SEALED, ciphertexts=SEALED.ciphertexts[::-1]),
        changed(SEALED, ciphertexts=(*SEALED.ciphertexts[:-1], flipped(SEALED.ciphertexts[-1]))),
    ]
    for lie in signed:
        refuses(server, "c0", lie, "the key of client 'c0' for client '..' is not signed")
    other = changed(SEALED, deal=bytes(32))
    assert server.receive("c0", other) == [
        Send("c0", DEAL)
    ]  # for another Deal: it is told which one
    server.receive("c0", SEALED)
    assert server.state is ServerState.AGREEING


def test_rounds_begin_once_all_are_ready() -> None:
    server = server_in(ServerState.AGREEING)
    for name in NAMES[:3]:
        assert server.receive(name, READY[name]) == []
    assert server.awaited == ("c3",)
    actions = server.receive("c3", READY["c3"])
    digest = message_digest(DEAL)
    assert recorded(actions) == [
        AllReady(digest, 1, tuple(READY[name].signature for name in NAMES))
    ]
    assert sends(actions) == dict.fromkeys(NAMES, ALL_READY)
    assert server.state is ServerState.AGGREGATING
    # the keys are settled
    told = [Send("c3", message) for message in RECEIVED["c3"][:3]]
    assert server.receive("c3", BadKeys(digest, ("c0",))) == told


def test_a_false_word_of_readiness_is_refused_and_the_true_one_still_taken() -> None:
    server = server_in(ServerState.AGREEING)
    said = READY["c1"]
    for lie in (
        changed(said, signature=bytes(64)),
        changed(said, signature=flipped(said.signature)),
        READY["c2"],
    ):
        refuses(server, "c1", lie, "client 'c1' did not sign that it is ready")
    refuses(server, "c1", changed(said, round=2), "ready for round 2")
    for name in NAMES:
        server.receive(name, READY[name])
    assert server.state is ServerState.AGGREGATING


@pytest.mark.parametrize("silent", NAMES)
@pytest.mark.parametrize("federation", [FEDERATION, PAIRWISE], ids=["group", "pairwise"])
def test_whoever_is_silent_costs_nobody_anything_and_keys_are_shared_anew_without_it(
    federation: Federation, silent: str
) -> None:
    server = server_in(ServerState.AGREEING, federation=federation)
    said = SAID if federation is FEDERATION else PAIRWISE_SAID
    for name in NAMES:
        if name != silent:
            server.receive(name, next(m for m in said[name] if isinstance(m, Ready)))
    assert server.awaited == (silent,)
    answers = sends(server.deadline())
    others = [name for name in NAMES if name != silent]
    assert answers.pop(silent) == Abort(
        f"the run goes on without client {silent}: the client was too late"
    )
    assert list(answers) == others
    (deal,) = set(answers.values())
    assert isinstance(deal, Deal)
    assert (deal.attempt, [hello.name for hello in deal.hellos]) == (2, others)
    assert server.state is ServerState.DEALING
    # what was said of the first attempt is answered with the second
    late = next(m for m in said[others[0]] if isinstance(m, Ready))
    assert server.receive(others[0], late) == [Send(others[0], deal)]
    reason = "and at least 3 are needed"
    (abort,) = recorded(server.deadline())
    assert isinstance(abort, Abort)
    assert reason in abort.reason


def test_an_accusation_of_those_who_made_no_key_is_refused() -> None:
    server = server_in(ServerState.AGREEING)
    digest = message_digest(DEAL)
    for makers in (("c1",), ("c2",), ("c3",), ("zoe",)):
        refuses(server, "c2", BadKeys(digest, makers), "names '.*', which is not")
    refuses(server, "c0", BadKeys(digest, ("c0",)), "names 'c0', which is not")
    server.receive("c2", READY["c2"])
    refuses(server, "c2", BadKeys(digest, ("c0",)), "client 'c2' said before that")


def test_pairwise_false_keys_are_refused_and_the_true_ones_still_taken() -> None:
    server = server_in(ServerState.DEALING, federation=PAIRWISE)
    sealed = {
        name: said for name in NAMES if isinstance(said := PAIRWISE_SAID[name][1], SealedKeys)
    }
    lies = [
        ("c1", changed(sealed["c1"], boxes=sealed["c0"].boxes[1:])),  # only the first deals
        ("c1", changed(sealed["c1"], ciphertexts=sealed["c1"].ciphertexts[:1])),
        ("c3", changed(sealed["c3"], ciphertexts=sealed["c2"].ciphertexts)),
        ("c0", changed(sealed["c0"], boxes=())),
    ]
    for name, lie in lies:
        refuses(server, name, lie, f"client '{name}' did not make keys for exactly the clients")
    server.receive("c1", sealed["c1"])
    second = changed(sealed["c1"], ciphertexts=(bytes(1184), bytes(1184)))
    refuses(server, "c1", second, "two different sets")
    for name in ("c0", "c2", "c3"):
        server.receive(name, sealed[name])
    assert server.state is ServerState.AGREEING


def test_false_uploads_are_refused_and_the_others_go_on() -> None:
    server = server_in(ServerState.AGGREGATING, t=2)
    refuses(
        server,
        "c1",
        UPLOAD["c1", 3],
        "client 'c1' sent an upload for round 3, which is not open yet",
    )
    server.receive("c1", UPLOAD["c1", 2])
    for changes in ({"nonce": bytes(8)}, {"payload": bytes(len(upload("c1", 2).payload))}):
        other = msgspec.structs.replace(upload("c1", 2), **changes)
        refuses(server, "c1", other, "client 'c1' sent two different uploads for round 2")
    done = server_in(ServerState.CONFIRMING)
    after_the_last = msgspec.structs.replace(upload("c1", 3), round=4)
    refuses(
        done, "c1", after_the_last, "client 'c1' sent an upload for round 4, which is not open yet"
    )


def test_a_second_confirmation_is_refused() -> None:
    server = server_in(ServerState.CONFIRMING)
    server.receive("c1", CONFIRMATION["c1"])
    mac = bytes(32)
    signature = run_keys("c1").sign(KeySet(Roster.of(PLAN), DEAL).confirmation("c1", mac))
    refuses(
        server, "c1", Confirmation(mac, signature), "client 'c1' sent two different confirmations"
    )


def test_a_confirmation_that_its_client_did_not_sign_is_refused_and_the_true_one_still_taken() -> (
    None
):
    """The server cannot check the HMAC, but it relays nothing in a client's name that all others
    would refuse.
    """
    server, said = server_in(ServerState.CONFIRMING), CONFIRMATION["c1"]
    assert isinstance(said, Confirmation)
    for lie in (
        changed(said, mac=bytes(32)),
        changed(said, signature=bytes(64)),
        changed(said, signature=flipped(said.signature)),
        CONFIRMATION["c2"],
    ):
        refuses(server, "c1", lie, "the confirmation of client 'c1' is not signed by that client")
    for name in NAMES:
        server.receive(name, CONFIRMATION[name])
    assert server.state is ServerState.FINISHED


def test_a_failing_noise_source_releases_nothing() -> None:
    server = ServerSession(PLAN, BrokenNoise(), random_bytes=lambda _: BEGINNING)
    for name, message in [*HELLO.items(), ("c0", SEALED), *READY.items()]:
        server.receive(name, message)
    for name in NAMES:
        with pytest.raises(FastLloydError, match="random source failed"):
            server.receive(name, UPLOAD[name, 1])
    assert broadcasts_of(server) == []
    assert server.state is ServerState.AGGREGATING


def test_the_server_draws_its_noise_with_the_first_upload_of_a_round() -> None:
    """So the time at which it answers the last one says little about the noise."""
    source = injected(FEDERATION.server_noise)
    server = ServerSession(PLAN, source, random_bytes=lambda _: BEGINNING)
    for name, message in [*HELLO.items(), ("c0", SEALED), *READY.items()]:
        server.receive(name, message)
    for t in (1, 2, 3):
        assert source._given == 2 * (t - 1)
        for name in NAMES:
            server.receive(name, UPLOAD[name, t])
            assert source._given == 2 * t


def test_noise_that_is_drawn_ahead_is_that_of_the_open_round_and_drawn_once() -> None:
    source = injected(FEDERATION.server_noise)
    server = ServerSession(PLAN, source, random_bytes=lambda _: BEGINNING)
    for name, message in [*HELLO.items(), ("c0", SEALED), *READY.items()]:
        server.draw_ahead()
        assert source._given == 0  # no round is open
        server.receive(name, message)
    for t in (1, 2, 3):
        for name in NAMES:
            for _ in range(2):
                server.draw_ahead()
            assert source._given == 2 * t
            server.receive(name, UPLOAD[name, t])
    server.draw_ahead()  # all rounds are closed
    assert source._given == 6
    assert broadcasts_of(server) == [
        message for message in RECEIVED["c0"] if isinstance(message, Broadcast)
    ]


def test_the_server_draws_noise_once_per_round() -> None:
    """Whatever is repeated between, exactly the three rounds' draws are used."""
    source = injected(FEDERATION.server_noise)
    server = ServerSession(PLAN, source, random_bytes=lambda _: BEGINNING)
    for name, message in [*HELLO.items(), ("c0", SEALED), *READY.items()]:
        server.receive(name, message)
    for t in (1, 2, 3):
        for name in NAMES:
            for _ in range(3):
                server.receive(name, UPLOAD[name, t])
        for name in NAMES:
            server.receive(name, UPLOAD[name, t])
        assert source._given == 2 * t
