"""What a client says, what it believes, and everything a server could do to it that ends its
run.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import DataError, FastLloydError, PlanError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Client, Masks
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Finish,
    Keep,
    Record,
    Send,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Confirmations,
    Deal,
    Hello,
    Message,
    Upload,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.pairs import RunKeys
from fastlloyd.federation.transport.in_process import Drops
from fastlloyd.mechanisms.answering import LocalRecords
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
from lies import changed, refused, run_keys

pytestmark = pytest.mark.usefixtures("repeatable_noise")

FEDERATION = make_federation(make_plan(4, max_dropouts=1), seed=5)
PLAN = FEDERATION.plan
INBOX = inboxes(FEDERATION)
DEALER, OTHER = INBOX["c0"], INBOX["c1"]  # Deal, KeyBox, AllReady, 3 Broadcasts, Confirmations


def broadcast(t: int) -> Broadcast:
    message = OTHER[t + 2]
    assert isinstance(message, Broadcast)
    assert message.round == t
    return message


def sent(actions: list[Any]) -> list[Message]:
    assert all(action.to == SERVER for action in actions if isinstance(action, Send))
    return [action.message for action in actions if isinstance(action, Send)]


def make_client(
    federation: Federation = FEDERATION, name: str = "c1", **changes: Any
) -> ClientSession:
    given: dict[str, Any] = {
        "X": federation.X[name],
        "identity": identity(name),
        "noise": injected([]),
        "random_bytes": entropy(""),
    }
    given |= changes
    records = LocalRecords(federation.plan.mechanism.domain, given.pop("X"))
    return ClientSession(federation.plan, name, records, **given)


# What it takes


def test_a_client_that_is_not_in_the_plan_is_refused() -> None:
    records = LocalRecords(PLAN.mechanism.domain, FEDERATION.X["c0"])
    with pytest.raises(PlanError, match=r"'zoe'.*clients are c0"):
        ClientSession(
            PLAN,
            "zoe",
            records,
            identity=identity("zoe"),
            noise=injected([]),
            random_bytes=entropy(""),
        )


def test_an_identity_that_is_not_the_plans_is_refused() -> None:
    with pytest.raises(PlanError, match=r"not the.*client 'c1'"):
        make_client(identity=identity("c0"))


def test_a_plan_in_which_somebody_has_no_signing_key_is_refused() -> None:
    clients = (*PLAN.clients[:3], Client(name="c3", max_records=CAP))
    federation = replace(FEDERATION, plan=msgspec.structs.replace(PLAN, clients=clients))
    with pytest.raises(PlanError, match=r"'c3'.*no signing_key"):
        make_client(federation)
    with pytest.raises(PlanError, match=r"'c3'.*no signing_key"):
        federation.server()


def test_more_records_than_the_cap_are_refused_without_saying_how_many() -> None:
    make_client(X=np.zeros((CAP, 2), dtype=np.int64))
    with pytest.raises(DataError) as caught:
        make_client(X=np.zeros((CAP + 7, 2), dtype=np.int64))
    assert "more records than its cap, max_records 40" in str(caught.value)
    assert str(CAP + 7) not in str(caught.value)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((3, 2)),
        np.zeros((3, 2), dtype=np.int16),
        np.zeros((3, 3), dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    ],
    ids=["float", "int16", "wide", "flat"],
)
def test_records_that_are_no_grid_points_are_refused(X: Any) -> None:
    with pytest.raises(DataError, match=r"int32.*int64.*2 columns"):
        make_client(X=X)


@pytest.mark.parametrize("value", [257, -257, np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_records_outside_the_domain_are_refused_without_showing_them(value: int) -> None:
    make_client(X=np.array([[256, -256]]))
    with pytest.raises(DataError, match="outside the bounds") as caught:
        make_client(X=np.array([[0, value]]))
    assert str(value) not in str(caught.value)


# What it says


PAIRS_OF_C0 = [f"Keep pair-secret with {name}" for name in PLAN.names[1:]]


@pytest.mark.parametrize(
    ("masks", "name", "answers_to_the_deal"),
    [
        (
            Masks.GROUP,
            "c0",
            [*PAIRS_OF_C0, "Keep group-key of attempt 1", "Record SealedKeys", "Send SealedKeys"],
        ),
        (Masks.GROUP, "c2", []),
        (
            Masks.PAIRWISE,
            "c0",
            [*PAIRS_OF_C0, "Keep group-key of attempt 1", "Record SealedKeys", "Send SealedKeys"],
        ),
        (
            Masks.PAIRWISE,
            "c2",
            ["Keep pair-secret with c3", "Record SealedKeys", "Send SealedKeys"],
        ),
        (Masks.PAIRWISE, "c3", ["Record SealedKeys", "Send SealedKeys"]),  # empty: its sign of life
    ],
)
def test_a_client_says_hello_makes_keys_uploads_confirms_and_finishes(
    masks: Masks, name: str, answers_to_the_deal: list[str]
) -> None:
    federation = make_federation(make_plan(4, max_dropouts=1, masks=masks), seed=5)
    client = federation.client(name)
    keep, record, send = client.start()
    assert isinstance(keep, Keep)
    assert isinstance(record, Record)
    assert isinstance(record.message, Hello)
    assert send == Send(SERVER, record.message)
    keys = RunKeys.from_private_bytes(keep.secret)
    said = record.message
    assert (said.exchange_key, said.encapsulation_key, said.run_key) == (
        keys.exchange_key,
        keys.encapsulation_key,
        keys.run_key,
    )

    def in_words(action: Action) -> str:
        match action:
            case Keep():
                return f"Keep {action.name}"
            case Finish(outcome):
                return f"Finish {type(outcome).__name__}"
        return f"{type(action).__name__} {type(action.message).__name__}"

    steps = []
    for message in inboxes(federation)[name]:
        actions = client.receive(message)
        steps.append([in_words(action) for action in actions])
        assert not sent(actions) or client.resend() == [
            action for action in actions if isinstance(action, Send)
        ]
    assert steps == [
        ["Record Deal", *answers_to_the_deal],
        ["Record KeyBox", "Record Ready", "Send Ready"],
        ["Record AllReady", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Upload", "Send Upload"],
        ["Record Broadcast", "Record Confirmation", "Send Confirmation"],
        ["Record Confirmations", "Finish ClientResult"],
    ]
    assert client.resend() == []
    assert client.deadline() == []


def test_a_resend_is_the_same_bytes_and_draws_nothing() -> None:
    """The injected noise is used up after three rounds and refuses a fourth draw, so every draw
    shows.
    """
    client = client_after(FEDERATION, "c1", OTHER[:3])
    first = client.resend()
    for _ in range(3):
        assert client.resend() == first
    for message in OTHER[3:]:
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
        for later in OTHER[n + 1 :]:
            assert client.receive(later) == client.resend() != []
        for message in OTHER[n:]:
            client.receive(message)
        assert client.state is ClientState.FINISHED


def test_a_client_that_missed_rounds_reads_their_broadcasts_in_order_and_goes_on() -> None:
    """The third client's uploads of rounds 1 and 2 are lost, its broadcasts come late; it ends as
    everybody does.
    """
    inbox = inboxes(FEDERATION, Drops({("c2", 1), ("c2", 2)}))
    everybody = ("c0", "c1", "c2", "c3")
    included = (("c0", "c1", "c3"), ("c0", "c1", "c3"), everybody)
    assert (
        tuple(tuple(m.included(PLAN.names)) for m in inbox["c2"] if isinstance(m, Broadcast))
        == included
    )
    client = client_after(FEDERATION, "c2", inbox["c2"][:3])
    (upload,) = sent(client.resend())
    assert isinstance(upload, Upload)
    assert upload.round == 1
    for t in (1, 2):
        (upload,) = sent(client.receive(inbox["c2"][t + 2]))
        assert isinstance(upload, Upload)
        assert upload.round == t + 1
    client.receive(inbox["c2"][5])
    _, finish = client.receive(inbox["c2"][6])
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.included == included
    assert same_clustering(finish.outcome.clustering, FEDERATION.plain_result(included))


def test_at_its_deadline_a_client_gives_up_with_a_reason() -> None:
    for n, state in [
        (0, "joining"),
        (1, "dealing"),
        (2, "ready"),
        (3, "aggregating"),
        (6, "confirming"),
    ]:
        client = client_after(FEDERATION, "c1", OTHER[:n])
        reason = f"nothing came from the server in time while this client was {state}"
        record, finish = client.deadline()
        assert record == Record(Abort(reason))
        assert isinstance(finish, Finish)
        assert finish.outcome is client.outcome is not None
        assert isinstance(client.outcome, Ended)
        assert client.outcome.reason == reason
        assert (client.outcome.unfinished is not None) == (n > 3)
        assert client.state is ClientState.ABORTED
        assert client.resend() == client.deadline() == []


def test_an_abort_ends_the_run_with_the_servers_reason() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:4])
    reason = "the server ended the run: power cut"
    record, finish = client.receive(Abort("power cut"))
    assert record == Record(Abort(reason))
    assert isinstance(finish, Finish)
    assert finish.outcome is client.outcome
    assert isinstance(client.outcome, Ended)
    assert client.outcome.reason == reason
    assert client.outcome.unfinished is not None
    assert client.outcome.unfinished.included == (PLAN.names,)
    assert client.ending() == []
    assert client.receive(Abort("too few are left")) == []  # which is said to all, also to this one
    assert client.outcome.reason == reason
    with pytest.raises(
        RemoteProtocolError,
        match=r"Broadcast.*ended.*power cut",
    ):
        client.receive(broadcast(2))


def test_a_failing_noise_source_ends_the_run_without_an_upload() -> None:
    client = make_client(noise=BrokenNoise(), random_bytes=entropy("c1"))
    client.start()
    client.receive(OTHER[0])
    client.receive(OTHER[1])
    with pytest.raises(FastLloydError, match="random source failed"):
        client.receive(OTHER[2])
    assert client.state is ClientState.ABORTED
    assert client.resend() == []


def test_an_error_that_is_not_ours_is_not_quoted_where_it_is_made_durable() -> None:
    class Foreign:
        private = False

        def gaussian(self, scale: Fraction, size: int) -> IntArray:
            raise ValueError(
                f"4.7 is the value of a record, {size} of scale {scale} were asked for"
            )

        two_sided_geometric = gaussian

    client = make_client(noise=Foreign(), random_bytes=entropy("c1"))
    client.start()
    client.receive(OTHER[0])
    client.receive(OTHER[1])
    with pytest.raises(ValueError, match=r"value.*a record"):
        client.receive(OTHER[2])
    assert client.ending()[0] == Record(Abort("an unexpected ValueError"))


def test_a_session_shows_no_secret() -> None:
    client = client_after(FEDERATION, "c1", OTHER[:4])
    assert repr(client) == "ClientSession(<secret>)"
    assert not hasattr(client, "__dict__")
    keep = FEDERATION.client("c1").start()[0]
    assert repr(keep) == "Keep(<secret>)"
    assert not hasattr(keep, "__dict__")
    with pytest.raises(TypeError, match="Keep is secret"):
        copy.deepcopy(keep)
    with pytest.raises(TypeError):
        msgspec.msgpack.encode(keep)
    rounds = client._phase
    # private, and of a union of phases
    assert "GroupMasks(<secret>)" in repr(getattr(rounds, "_masked"))  # noqa: B009
    assert {name for name in vars(rounds) if not name.startswith("_")} == {"plan", "roster", "name"}
    assert not is_dataclass(client)  # serialisers write out what they know


# What it refuses from a server


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            "has 2 clients; at least 3 are needed",
            among(PLAN.names, broadcast(1), {"c2": None, "c3": None}),
        ),
        (
            "has 0 clients; at least 3 are needed",
            among(PLAN.names, broadcast(1), dict.fromkeys(PLAN.names)),
        ),
        (
            "names an upload that client 'c1' did not",
            among(PLAN.names, broadcast(1), {"c1": bytes(8)}),
        ),
        ("does not open", among(PLAN.names, broadcast(1), {"c3": None})),
        ("does not open", among(PLAN.names, broadcast(1), {"c3": bytes(8)})),
        ("does not open", changed(broadcast(1), payload=bytes(len(broadcast(1).payload)))),
        ("does not open", changed(broadcast(2), round=1, nonces=broadcast(1).nonces)),
        (
            "round 1000 is neither the broadcast of",
            changed(broadcast(1), round=1000),
        ),
        ("round 4 is neither the broadcast of", changed(broadcast(1), round=4)),
    ],
)
def test_a_client_opens_nothing_but_the_sum_of_the_round(match: str, message: Broadcast) -> None:
    refused(FEDERATION, "c1", OTHER[:3], message, match)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            "expected one bit for each of its 4 clients",
            changed(broadcast(1), members=b"\x1f", nonces=bytes(40)),
        ),
        (
            "expected one bit for each of its 4 clients",
            changed(broadcast(1), members=b"\x0f\x00"),
        ),
        ("expected one bit for each of its 4 clients", changed(broadcast(1), members=b"")),
        (
            "has 24 bytes of nonces for 4 clients",
            changed(broadcast(1), nonces=broadcast(1).nonces[:24]),
        ),
        (
            "has 40 bytes of nonces for 4 clients",
            changed(broadcast(1), nonces=broadcast(1).nonces + bytes(8)),
        ),
    ],
)
def test_a_set_that_no_plan_has_is_refused_on_the_wire_and_by_the_session(
    match: str, message: Broadcast
) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        over_the_wire(PLAN, message)
    client = client_after(FEDERATION, "c1", OTHER[:3])
    with pytest.raises(RemoteProtocolError, match=match):
        client.receive(message)
    assert client.state is ClientState.ABORTED


def test_a_client_opens_one_set_per_round() -> None:
    """A second broadcast of a round, itself a proper sum of proper uploads over another set, is not
    opened.
    """
    second = inboxes(FEDERATION, Drops({("c3", 1)}))["c1"][3]
    assert isinstance(second, Broadcast)
    assert tuple(second.included(PLAN.names)) == ("c0", "c1", "c2")
    assert (
        client_after(FEDERATION, "c1", [*OTHER[:3], second]).state is ClientState.AGGREGATING
    )  # as the first it is fine
    refused(
        FEDERATION,
        "c1",
        OTHER[:4],
        second,
        "round 1 is neither the broadcast of",
    )


def test_clients_outside_the_key_set_are_in_no_sum() -> None:
    late = inboxes(FEDERATION, lambda sender, _to, _m, data: () if sender == "c3" else (data,))[
        "c1"
    ]
    assert isinstance(late[0], Deal)
    assert [hello.name for hello in late[0].hellos] == ["c0", "c1", "c2"]
    assert isinstance(late[3], Broadcast)
    refused(
        FEDERATION,
        "c1",
        late[:3],
        among(PLAN.names, late[3], {"c3": bytes(8)}),
        "names 'c3', which is not",
    )


def test_a_sum_too_large_to_be_honest_is_refused() -> None:
    """W15: masks and checksum are right, but words were added that no records and noise can
    give.
    """
    shown, ring = broadcast(1), PLAN.ring
    words = ring.from_bytes(shown.payload, PLAN.n_words(PLAN.mechanism.rounds[0])).copy()
    words[0] += np.uint64(1 << 40)
    lie = changed(shown, payload=ring.to_bytes(words))
    refused(FEDERATION, "c1", OTHER[:3], lie, "larger than its clients' caps and the noise allow")


@dataclass(frozen=True)
class Confirming:
    """A run that is over but for its confirmations, with either kind of masks."""

    federation: Federation
    before: list[Message]
    said: Confirmations

    @classmethod
    def of(cls, masks: Masks) -> "Confirming":
        federation = make_federation(make_plan(4, max_dropouts=1, masks=masks), seed=5)
        *before, said = inboxes(federation)["c1"]
        assert isinstance(said, Confirmations)
        return cls(federation, before, said)

    def signed(self, name: str, mac: bytes, signer: str | None = None) -> tuple[str, bytes, bytes]:
        """An entry in the name of a client, signed with its run key, or another's."""
        deal = self.before[0]
        assert isinstance(deal, Deal)
        statement = KeySet(Roster.of(self.federation.plan), deal).confirmation(name, mac)
        return name, mac, run_keys(signer or name).sign(statement)


CONFIRMING = {masks: Confirming.of(masks) for masks in Masks}
BOTH_MASKS = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
Entries = tuple[tuple[str, bytes, bytes], ...]
UNCONFIRMED: dict[str, Callable[[Confirming, Entries], Entries]] = {
    # clients really said something else
    "client 'c2' ended the run with different": lambda run, e: (
        *e[:2],
        run.signed("c2", bytes(32)),
        e[3],
    ),
    "client 'c1' ended the run with different": lambda run, e: (
        e[0],
        run.signed("c1", bytes(32)),
        *e[2:],
    ),
    "client 'c3' ended the run with different": lambda run, e: (
        *e[:3],
        run.signed("c3", e[2][1]),
    ),
    # or the server made it up
    "confirmation of client 'c2' is not signed by that client": lambda _, e: (
        *e[:2],
        ("c2", bytes(32), e[2][2]),
        e[3],
    ),
    "of client 'c2' is not signed by that client": lambda _, e: (
        *e[:2],
        ("c2", e[2][1], bytes(64)),
        e[3],
    ),
    "client 'c2' is not signed by that client": lambda _, e: (
        *e[:2],
        ("c2", e[3][1], e[3][2]),
        e[3],
    ),
    "the confirmation of client 'c2' is not signed": lambda _, e: (
        *e[:2],
        ("c2", e[2][1], e[3][2]),
        e[3],
    ),
    "client 'c3' is not signed by that client": lambda run, e: (
        *e[:3],
        run.signed("c3", e[3][1], signer="c2"),
    ),
    "names 'zoe', which is not": lambda _, e: (*e, ("zoe", bytes(32), bytes(64))),
    "names a client twice": lambda _, e: (*e, e[3]),
    "not in the order of the plan": lambda _, e: (e[1], e[0], *e[2:]),
    "2 clients of the last round confirmed the result; at least 3 are needed": lambda _, e: e[:2],
    "1 clients of the last round confirmed the result; at least 3 are needed": lambda *_: (),
}


@BOTH_MASKS
@pytest.mark.parametrize("match", UNCONFIRMED)
def test_a_client_keeps_no_result_that_is_not_confirmed(match: str, masks: Masks) -> None:
    run = CONFIRMING[masks]
    lie = UNCONFIRMED[match](run, run.said.confirmed)
    refused(run.federation, "c1", run.before, Confirmations(lie), match)


@BOTH_MASKS
def test_confirmations_of_another_run_or_of_another_end_of_this_one_are_refused(
    masks: Masks,
) -> None:
    """Signatures are bound to plan and run, tags to what was shown: neither of another run fits
    here.
    """
    run = CONFIRMING[masks]
    other = make_federation(
        make_plan(4, max_dropouts=1, masks=masks, run_id=b"another 16 bytes"), seed=5
    )
    refused(
        run.federation,
        "c1",
        run.before,
        inboxes(other)["c1"][-1],
        "confirmation of client 'c0' is not signed by that client",
    )
    elsewhere = inboxes(make_federation(run.federation.plan, seed=6))["c1"][
        -1
    ]  # same keys, other records
    refused(run.federation, "c1", run.before, elsewhere, "client 'c0' ended the run with different")


@BOTH_MASKS
def test_one_missing_confirmation_is_named(masks: Masks) -> None:
    run = CONFIRMING[masks]
    client = client_after(run.federation, "c1", run.before)
    _, finish = client.receive(Confirmations(run.said.confirmed[:3]))
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.unconfirmed == ("c3",)


@BOTH_MASKS
def test_a_clients_own_confirmation_counts_though_the_server_left_it_out(masks: Masks) -> None:
    run = CONFIRMING[masks]
    client = client_after(run.federation, "c1", run.before)
    _, finish = client.receive(Confirmations((run.said.confirmed[0], run.said.confirmed[2])))
    assert isinstance(finish, Finish)
    assert isinstance(finish.outcome, ClientResult)
    assert finish.outcome.unconfirmed == ("c3",)


def test_who_was_not_in_the_last_round_does_not_help_to_confirm_it() -> None:
    inbox = inboxes(FEDERATION, Drops({("c1", 3)}))["c1"]
    assert isinstance(inbox[5], Broadcast)
    assert tuple(inbox[5].included(PLAN.names)) == ("c0", "c2", "c3")
    last = inbox[6]
    assert isinstance(last, Confirmations)
    assert [name for name, *_ in last.confirmed] == ["c0", "c1", "c2", "c3"]
    too_few = Confirmations(last.confirmed[:3])
    refused(FEDERATION, "c1", inbox[:6], too_few, "2 clients of the last round confirmed")
    client = client_after(FEDERATION, "c1", inbox[:6])
    client.receive(Confirmations((last.confirmed[0], *last.confirmed[2:])))
    assert client.state is ClientState.FINISHED


def test_records_are_not_changed() -> None:
    X = FEDERATION.X["c1"].copy()
    client_after(FEDERATION, "c1", OTHER)
    assert np.array_equal(X, FEDERATION.X["c1"])


@pytest.mark.parametrize("masks", Masks)
def test_a_client_that_confirms_records_no_further_sum(masks: Masks) -> None:
    """Else a process that dies before it refuses the sum could not be taken up again."""
    federation = make_federation(make_plan(3, masks=masks, n_iterations=2))
    client, last = federation.client("c1"), None
    client.start()
    for message in inboxes(federation)["c1"]:
        if isinstance(message, Confirmations):
            break
        last = message if isinstance(message, Broadcast) else last
        client.accept(message)
        client.receive(message)
    assert client.state is ClientState.CONFIRMING
    assert last is not None
    n_rounds = federation.plan.mechanism.n_rounds
    assert client.accept(msgspec.structs.replace(last, round=n_rounds + 1)) == []
