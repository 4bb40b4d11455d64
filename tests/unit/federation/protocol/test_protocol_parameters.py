"""Parameters that one client works out: whose turn it is, the first that is stored, and what
clients and server refuse.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol import rounds as rounds_module
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Keep,
    Record,
    Send,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmations,
    Limits,
    Message,
    Parameters,
    Proposal,
    Turn,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.sealing import SALT_BYTES, seal_parameters
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.moment_lloyd.state import State
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import (
    BrokenNoise,
    Federation,
    entropy,
    identity,
    make_federation,
    make_plan,
    results,
    run_with_ledger,
    same_clustering,
    starts_cheaply,
)
from known_to_server import durable_in
from lies import changed, flipped, run_keys

pytestmark = pytest.mark.usefixtures("repeatable_noise")

PLANS = {
    masks: make_plan(
        3,
        trust=TrustMode.SERVER_NOISE,
        max_dropouts=1,
        algorithm=MOMENTLLOYD,
        n_clusters=1,
        n_features=1,
        masks=masks,
    )
    for masks in Masks
}
FEDERATIONS = {masks: make_federation(plan, seed=5) for masks, plan in PLANS.items()}
BOTH_MASKS = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
FEDERATION = FEDERATIONS[Masks.GROUP]
PLAN = FEDERATION.plan
assert isinstance(PLAN.mechanism, MomentMechanism)
M: MomentMechanism = PLAN.mechanism
N_ROUNDS = len(M.rounds)
LIMITS = Limits.of(PLAN)


@pytest.fixture(autouse=True)
def _cheap_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts_cheaply(monkeypatch)


T = TypeVar("T", Upload, Broadcast, Proposal, Parameters, Turn)


def sent(actions: Sequence[Action]) -> list[tuple[str, Message]]:
    return [
        (action.to, decode(encode(action.message), LIMITS))
        for action in actions
        if isinstance(action, Send)
    ]


@dataclass
class Table:
    """Parties around a table: messages go from hand to hand in order, and some are taken away.

    recorded : by party; lost : whatever `loses` says does not arrive.
    """

    federation: Federation = FEDERATION
    lost: list[tuple[str, str, Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = self.federation.server()
        self.clients = {client.name: client for client in self.federation.clients()}
        self.recorded: dict[str, list[Message]] = {name: [] for name in (SERVER, *self.clients)}
        self.secrets: dict[str, dict[str, bytes]] = {name: {} for name in self.clients}
        self.queue: list[tuple[str, str, Message]] = []
        self.seen: list[tuple[str, str, Message]] = []
        for name, client in self.clients.items():
            self.act(name, client.start())

    def act(self, party: str, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Record):
                self.recorded[party].append(action.message)
            if isinstance(action, Keep):
                self.secrets[party][action.name] = action.secret
        self.queue += [(party, to, message) for to, message in sent(actions)]

    def loses(self, _sender: str, _message: Message) -> bool:
        return False

    def deliver(self) -> None:
        sender, to, message = self.queue.pop(0)
        self.seen.append((sender, to, message))
        if self.loses(sender, message):
            self.lost.append((sender, to, message))
        elif to == SERVER:
            self.act(SERVER, self.server.receive(sender, message))
        else:
            self.act(to, self.clients[to].receive(message))

    def run(self) -> None:
        while self.queue:
            self.deliver()

    def until(self, kind: type[T], round: int, to: str | None = None) -> T:
        """Go on until such a message comes next, and take it away."""
        while self.queue:
            _, recipient, message = self.queue[0]
            if isinstance(message, kind) and message.round == round and to in (None, recipient):
                del self.queue[0]
                return message
            self.deliver()
        raise AssertionError("it was never sent")

    def restored(self, name: str) -> ClientSession:
        plan = self.federation.plan
        session = ClientSession(
            plan, name, LocalRecords(plan.mechanism.domain, self.federation.X[name]), identity=identity(name),
            noise=self.clients[name]._noise, random_bytes=entropy(f"{name}, another life"),
        )  # fmt: skip
        session.restore(self.secrets[name], [encode(message) for message in self.recorded[name]])
        return session


class Deaf(Table):
    """The first client of the first sum never proposes."""

    def loses(self, sender: str, message: Message) -> bool:
        return sender == "c0" and isinstance(message, Proposal) and message.round == 2


def rounds_of(client: ClientSession) -> ClientRounds:
    assert isinstance(client._phase, ClientRounds)
    return client._phase


def sealed_by(client: ClientSession, plain: bytes) -> Proposal:
    """What this client, which awaits parameters, would propose if these bytes were what it worked
    out.
    """
    rounds, salt = rounds_of(client), b"s" * SALT_BYTES
    keys = rounds._keys
    box = seal_parameters(keys.group_key, rounds._context(), client.name, salt, plain)
    signature = keys.own.sign(keys.key_set.proposal(client.name, rounds.number, salt, box))
    return Proposal(rounds.number, salt, box, signature)


def relayed(proposal: Proposal, client: str) -> Parameters:
    """What a server makes of a proposal."""
    return Parameters(proposal.round, client, proposal.salt, proposal.box, proposal.signature)


# Whose turn it is


@BOTH_MASKS
def test_the_first_client_of_the_last_sum_works_out_all_parameters_and_nobody_else_does(
    masks: Masks,
) -> None:
    ledger: list[tuple[str, Message]] = []
    outcome = run_with_ledger(FEDERATIONS[masks].server(), FEDERATIONS[masks].clients(), ledger)
    assert len(results(outcome.clients.values())) == 3
    proposed = [
        (party, message.round) for party, message in ledger if isinstance(message, Proposal)
    ]
    assert proposed == [("c0", number) for number in range(2, N_ROUNDS + 2)]
    settled = [
        (party, message.round) for party, message in ledger if isinstance(message, Parameters)
    ]
    assert sorted(settled) == sorted(
        (party, number) for party in (SERVER, *PLAN.names) for number in range(2, N_ROUNDS + 2)
    )


@BOTH_MASKS
def test_when_the_first_is_late_the_next_is_asked_and_the_first_answer_is_the_one_for_all(
    masks: Masks,
) -> None:
    table = Deaf(FEDERATIONS[masks])
    table.run()
    assert (table.server.state, table.server.awaited) == (ServerState.SETTLING, ("c0",))
    table.act(SERVER, table.server.deadline())
    assert table.queue == [(SERVER, "c1", Turn(2))]
    assert table.server.awaited == ("c1",)
    table.run()
    late = table.lost[0][2]
    stored = table.server.receive("c0", late)
    assert sent(stored) == [
        ("c0", next(m for m in table.recorded["c2"] if isinstance(m, Parameters)))
    ]
    assert not any(isinstance(action, Record) for action in stored)
    assert table.clients["c0"].receive(sent(stored)[0][1]) == []
    assert all(isinstance(client.outcome, ClientResult) for client in table.clients.values())
    used = [m.client for m in table.recorded[SERVER] if isinstance(m, Parameters)]
    assert used == ["c1"] + ["c0"] * (N_ROUNDS - 1)


@pytest.mark.parametrize(("masks", "n_asked"), [(Masks.GROUP, 2), (Masks.PAIRWISE, 3)])
def test_group_masks_ask_as_many_clients_as_may_be_missing_and_one_more_pairwise_ones_all(
    masks: Masks, n_asked: int
) -> None:
    table = Deaf(FEDERATIONS[masks])
    table.run()
    for n in range(1, n_asked):
        assert table.server.may_ask_another
        assert table.server.deadline() == [Send(f"c{n}", Turn(2))]
    assert not table.server.may_ask_another
    record, *_ = table.server.deadline()
    assert isinstance(record, Record)
    said = (
        f"no client computed the parameters of round 2 in time, after {n_asked} clients were asked"
    )
    assert said in str(record.message)
    assert table.server.state is ServerState.ABORTED


def test_a_client_that_comes_back_in_its_turn_learns_of_it_after_the_sum_that_it_missed() -> None:
    """What it was sent in between is lost: the sum, and that it is its turn. It is told both, in
    this order.
    """
    table = Deaf()
    missed = table.until(Broadcast, 1, "c1")
    table.run()
    table.server.deadline()
    for _, said in sent(table.restored("c1").reconnect()):
        table.act(SERVER, table.server.receive("c1", said))
    answers = [message for _, to, message in table.queue if to == "c1"]
    assert answers == [missed, Turn(2)]  # it was in the sum: it has its keys
    table.run()
    assert isinstance(table.clients["c1"].outcome, ClientResult)
    assert next(m for m in table.recorded[SERVER] if isinstance(m, Parameters)).client == "c1"


def test_who_asks_again_once_parameters_are_stored_is_told_them_and_not_that_it_is_its_turn() -> (
    None
):
    table = Deaf()
    table.run()
    table.act(SERVER, table.server.deadline())
    table.until(Parameters, 2, "c1")
    table.run()
    assert table.server.state is ServerState.AGGREGATING
    answers = [
        m
        for _, said in sent(table.clients["c1"].reconnect())
        for _, m in sent(table.server.receive("c1", said))
    ]
    assert [type(message) for message in answers] == [
        Parameters
    ]  # it was in the sum: it has its keys


@pytest.mark.parametrize("round", [2, 3, N_ROUNDS + 1])
def test_a_turn_that_comes_too_early_or_too_late_ends_no_run(round: int) -> None:
    """Whatever honest servers send may arrive late, and whoever is behind says where it is."""
    table = Table()
    while table.queue:
        for name, client in table.clients.items():
            if client.state in (
                ClientState.NEW,
                ClientState.JOINING,
                ClientState.DEALING,
                ClientState.READY,
            ):
                continue
            if client.state is ClientState.SETTLING and client.round == round:
                continue  # in time
            before, last = client.state, client.resend()
            assert client.receive(Turn(round)) == last, name
            assert client.state is before
        table.deliver()
    assert all(isinstance(client.outcome, ClientResult) for client in table.clients.values())


def test_a_turn_is_answered_once_and_then_with_the_same_bytes() -> None:
    table = Deaf()
    table.run()
    client = table.clients["c1"]
    taken, made, send = client.receive(Turn(2))
    assert isinstance(taken, Record)
    assert taken.message == Turn(2)
    assert isinstance(made, Record)
    assert client.receive(Turn(2)) == [send]
    assert client.resend() == [send]
    assert sent(table.clients["c0"].receive(Turn(2))) == [
        (SERVER, table.lost[0][2])
    ]  # it was never asked to, but had


# Restarts


@BOTH_MASKS
def test_a_client_is_restored_after_every_step_of_a_run_with_parameters(masks: Masks) -> None:
    """The same state and the same bytes, its own proposals among them; nothing is worked out or
    drawn anew.
    """
    for table in (Table(FEDERATIONS[masks]), Deaf(FEDERATIONS[masks])):
        while table.queue or not table.server.outcome:
            if not table.queue:
                table.act(SERVER, table.server.deadline())
            table.deliver()
            name = table.seen[-1][1]
            if name == SERVER:
                again = ServerSession(PLANS[masks], BrokenNoise())
                again.restore([encode(message) for message in table.recorded[SERVER]])
                assert again.state is table.server.state
                assert durable_in(again) == durable_in(table.server)
                continue
            client, restored = table.clients[name], table.restored(name)
            assert (restored.state, restored.round, restored.resend(), restored.reconnect(), restored._handled) == (
                client.state, client.round, client.resend(), client.reconnect(), client._handled,
            )  # fmt: skip
            table.clients[name] = restored  # and it goes on from there
        ends = [client.outcome for client in table.clients.values()]
        assert all(isinstance(end, ClientResult) for end in ends)
        expected = FEDERATION.plain_result([PLAN.names] * N_ROUNDS)
        assert all(same_clustering(result.clustering, expected) for result in results(ends))


def test_a_proposal_without_its_sum_and_a_sum_that_goes_on_without_its_proposal_are_no_records() -> (
    None
):
    table = Table()
    table.run()
    records = table.recorded["c0"]
    at = next(i for i, message in enumerate(records) if isinstance(message, Proposal))
    for wrong, match in [
        (
            [*records[:at], *records[at + 1 :]],
            r"Parameters, .* is settling does not send",
        ),
        (
            [*records[: at + 1], *records[at:]],
            r"Proposal, .* is settling does not accept",
        ),
        (
            [*records[: at - 1], *records[at:]],
            r"Proposal, .* is aggregating does not accept",
        ),
        (
            [*records[:at], Proposal(3, bytes(16), bytes(LIMITS.box_bytes[3]), bytes(64))],
            "Proposal belongs to",
        ),
    ]:
        table.recorded["c0"] = wrong
        with pytest.raises(LocalProtocolError, match=match):
            table.restored("c0")
    table.recorded["c2"] = [*table.recorded["c2"], records[at]]
    with pytest.raises(LocalProtocolError, match=r"Proposal,.*finished.*not accept"):
        table.restored("c2")


def test_a_server_takes_up_no_parameters_that_it_cannot_have_stored() -> None:
    table = Table()
    table.run()
    records = table.recorded[SERVER]
    at = next(i for i, message in enumerate(records) if isinstance(message, Parameters))
    for wrong, match in [
        ([*records[:at], *records[at + 1 :]], "a server that is settling cannot take the decision"),
        (
            [*records[: at + 1], *records[at:]],
            "a server that is aggregating cannot take the decision",
        ),
        ([*records[:at], msgspec.structs.replace(records[at], client="nobody")], "names 'nobody'"),
        (
            [*records[:at], msgspec.structs.replace(records[at], box=b"")],
            "the parameters for round 2 have 0 bytes",
        ),
    ]:
        with pytest.raises(LocalProtocolError, match=match):
            ServerSession(PLAN, BrokenNoise()).restore([encode(message) for message in wrong])


# What a client refuses


def settling(name: str = "c2", masks: Masks = Masks.GROUP) -> tuple[Table, ClientSession]:
    """A client that awaits the parameters of round 2, which are there, and have not reached it."""
    table = Table(FEDERATIONS[masks])
    table.until(Parameters, 2, name)
    return table, table.clients[name]


def refuses(client: ClientSession, message: Message, match: str) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        client.receive(message)
    assert isinstance(client.outcome, Ended)
    assert client.resend() == []


def test_a_client_goes_on_from_one_box_per_round_only() -> None:
    table = Deaf()
    table.run()
    other = table.clients["c1"].receive(Turn(2))
    ((_, proposed),) = sent(other)
    assert isinstance(proposed, Proposal)
    second = relayed(proposed, "c1")
    first = table.lost[0][2]
    assert isinstance(first, Proposal)
    client = table.clients["c2"]
    _, upload, _ = client.receive(relayed(first, "c0"))
    assert isinstance(upload, Record)
    assert client.receive(relayed(first, "c0")) == []
    refuses(client, second, "are not expected|were not expected")


def test_clients_that_were_shown_different_boxes_do_not_open_the_next_sum() -> None:
    """Two boxes that clients really made: each upload is masked for one of them."""
    table = Deaf()
    table.run()
    table.act(SERVER, table.server.deadline())
    table.act("c1", table.clients["c1"].receive(table.until(Turn, 2, "c1")))
    (_, _, of_c1), of_c0 = table.queue.pop(), table.lost[0][2]
    assert isinstance(of_c1, Proposal)
    assert isinstance(of_c0, Proposal)
    table.act(SERVER, table.server.receive("c1", of_c1))
    table.queue = [
        (
            sender,
            to,
            relayed(of_c0, "c0") if isinstance(message, Parameters) and to == "c2" else message,
        )
        for sender, to, message in table.queue
    ]
    with pytest.raises(RemoteProtocolError, match="does not open"):
        table.run()


@BOTH_MASKS
def test_parameters_that_their_client_did_not_sign_are_refused_before_anything_is_opened(
    masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server changes, exchanges or makes up; and the relay is blamed, not the client
    in whose name it comes.
    """
    table = Table(FEDERATIONS[masks])
    stored = table.until(Parameters, 2, "c2")
    client = table.clients["c1"]
    of_c1 = run_keys("c1").sign(
        rounds_of(client)._keys.key_set.proposal("c1", 2, stored.salt, stored.box)
    )
    of_another_round = run_keys("c0").sign(
        rounds_of(client)._keys.key_set.proposal("c0", 3, stored.salt, stored.box)
    )
    another = make_federation(msgspec.structs.replace(PLANS[masks], run_id="00" * 16), seed=5)
    of_another_run = Table(another).until(Parameters, 2, "c2")
    lies = [
        changed(stored, signature=bytes(64)),
        changed(stored, signature=flipped(stored.signature)),
        changed(stored, signature=flipped(stored.signature, 63)),
        changed(stored, signature=of_c1),
        changed(stored, signature=of_another_round),
        changed(stored, client="c1"),
        changed(stored, client="c2"),
        changed(stored, salt=bytes(16)),
        changed(stored, box=stored.box[::-1]),
        changed(stored, box=flipped(stored.box, -1 % len(stored.box))),
        of_another_run,
    ]
    for lie in lies:
        _, victim = settling(masks=masks)
        with monkeypatch.context() as patched:
            patched.setattr(
                rounds_module, "open_parameters", lambda *_: pytest.fail("a box was opened")
            )
            refuses(
                victim,
                lie,
                "for round 2 are not signed",
            )
    refuses(
        settling(masks=masks)[1], changed(stored, client="nobody"), "'nobody', which is not one"
    )


@BOTH_MASKS
def test_parameters_that_are_signed_and_made_elsewhere_do_not_open(masks: Masks) -> None:
    """A client and the server together: the box is bound to its maker, salt, round and transcript
    besides the signature.
    """
    table, client = settling(masks=masks)
    keys, context = rounds_of(client)._keys, rounds_of(client)._context()
    honest, salt = M.write_state(0, State.start(M)), b"s" * SALT_BYTES

    def signed(box: bytes, maker: str = "c1", salt: bytes = salt) -> Parameters:
        return Parameters(
            2, maker, salt, box, run_keys(maker).sign(keys.key_set.proposal(maker, 2, salt, box))
        )

    box = seal_parameters(keys.group_key, context, "c1", salt, honest)
    client.receive(signed(box))
    assert client.state is ClientState.AGGREGATING  # made up as it is, this one opens
    elsewhere = replace(context, transcript_hash=bytes(32))
    for lie in (
        signed(box, maker="c0"),
        signed(box, salt=bytes(16)),
        signed(flipped(box)),
        signed(seal_parameters(keys.group_key, elsewhere, "c1", salt, honest)),
        signed(seal_parameters(keys.group_key, replace(context, round=3), "c1", salt, honest)),
        signed(
            seal_parameters(keys.group_key, replace(context, run_id=bytes(16)), "c1", salt, honest)
        ),
        signed(seal_parameters(GroupKey(bytes(32)), context, "c1", salt, honest)),
    ):
        refuses(settling(masks=masks)[1], lie, f"client '{lie.client}' sealed .* do not open")
    table = Table()
    table.until(Parameters, 3, "c2")
    earlier = next(m for m in table.recorded["c2"] if isinstance(m, Parameters))
    assert len(earlier.box) != LIMITS.box_bytes[3]  # and of another length than all of round 3
    with pytest.raises(RemoteProtocolError, match=r"parameters.*round 3 have"):
        decode(encode(msgspec.structs.replace(earlier, round=3)), LIMITS)


def test_a_client_is_told_parameters_before_their_sum_and_says_where_it_is() -> None:
    table = Table()
    missed = table.until(Broadcast, 1, "c2")
    table.until(Parameters, 2, "c2")
    stored = next(m for m in table.recorded[SERVER] if isinstance(m, Parameters))
    client = table.clients["c2"]
    assert client.receive(stored) == client.resend() != []
    (upload,) = client.resend()
    assert isinstance(upload, Send)
    answers = [message for _, message in sent(table.server.receive("c2", upload.message))]
    assert answers == [missed, stored]


@pytest.mark.parametrize("extra", [1, 0])
def test_after_the_last_sum_no_other_is_awaited(extra: int) -> None:
    """While the end of the clustering is awaited: a sum of a round that the run does not have, and
    another of its last.
    """
    table = Table()
    table.until(Parameters, N_ROUNDS + 1, "c2")
    last = [m for m in table.recorded["c2"] if isinstance(m, Broadcast)][-1]
    size = LIMITS.payload_bytes[0 if extra else N_ROUNDS - 1]
    lie = msgspec.structs.replace(last, round=N_ROUNDS + extra, payload=bytes(size))
    refuses(table.clients["c2"], decode(encode(lie), LIMITS), "is neither the broadcast")


def test_parameters_out_of_range_end_the_run_and_name_who_made_them() -> None:
    _, client = settling()
    honest = M.write_state(0, State.start(M))
    for plain, match in [
        (b"\xff" * len(honest), "client 'c2' are refused"),
        (honest + b"\0", "the parameters have .* bytes; expected"),
    ]:
        _, client = settling()
        lie = sealed_by(client, plain)
        refuses(client, relayed(lie, "c2"), match)
    table = Table()
    table.until(Parameters, N_ROUNDS + 1, "c2")
    client = table.clients["c2"]
    outside = np.full(M.n_clusters * M.n_features, 1 << 30, dtype="<i4").tobytes()
    size = LIMITS.box_bytes[N_ROUNDS + 1] - 16
    lie = sealed_by(client, outside + bytes(size - len(outside)))
    refuses(client, relayed(lie, "c2"), "an entry of the parameter centroids is out of its range")


def test_whatever_a_leader_makes_up_within_the_ranges_all_go_on_from_it_to_the_bit() -> None:
    """It costs utility: the others cannot tell. Nobody uploads for anything else."""

    class Lying(Table):
        def act(self, party: str, actions: Sequence[Action]) -> None:
            super().act(
                party, [self.made_up(action) if party == "c0" else action for action in actions]
            )

        def made_up(self, action: Action) -> Action:
            match action:
                case Record(Proposal() as honest):
                    return Record(sealed_by(self.clients["c0"], bytes(len(honest.box) - 16)))
                case Send(to, Proposal() as honest):
                    return Send(to, sealed_by(self.clients["c0"], bytes(len(honest.box) - 16)))
            return action

    table = Lying()
    table.run()
    ends = results(client.outcome for client in table.clients.values())
    assert len(ends) == 3
    assert all(
        not end.clustering.centroids.any() and not end.clustering.previous.any() for end in ends
    )


# What the server refuses


@BOTH_MASKS
def test_a_server_relays_no_parameters_that_their_sender_did_not_sign(masks: Masks) -> None:
    """Every client would refuse them, blame the server and end its run: one client would end the
    run of all.
    """
    table = Table(FEDERATIONS[masks])
    proposal = table.until(Proposal, 2)
    for sender, lie in [
        ("c0", changed(proposal, signature=flipped(proposal.signature))),
        ("c0", changed(proposal, salt=bytes(16))),
        ("c0", changed(proposal, box=flipped(proposal.box))),
    ]:
        with pytest.raises(RemoteProtocolError, match=f"round 2.*not signed.*'{sender}'"):
            table.server.receive(sender, lie)
        assert table.server.state.value == "settling"
    assert table.server.receive("c1", proposal) == []  # nobody asked it: not even looked at
    table.act(SERVER, table.server.receive("c0", proposal))
    assert table.server.state.value == "aggregating"


@BOTH_MASKS
def test_a_server_takes_parameters_only_from_clients_that_it_asked(masks: Masks) -> None:
    """Else whoever hurries works them out, and the order of the plan, in which the most trusted
    comes first, means nothing.
    """
    table = Table(FEDERATIONS[masks])
    of_c0 = table.until(Proposal, 2)
    table.run()
    hasty = {
        name: sealed_by(table.clients[name], bytes(len(of_c0.box) - 16)) for name in ("c1", "c2")
    }
    for name, proposal in hasty.items():
        assert table.server.receive(name, proposal) == []
    assert table.server.awaited == ("c0",)
    table.act(SERVER, table.server.deadline())
    assert table.server.receive("c2", hasty["c2"]) == []
    assert table.until(Turn, 2, "c1") == Turn(2)
    table.act(SERVER, table.server.receive("c0", of_c0))  # asked first, and late
    assert table.until(Parameters, 2) == relayed(of_c0, "c0")
    assert sent(table.server.receive("c2", hasty["c2"])) == [("c2", relayed(of_c0, "c0"))]


@BOTH_MASKS
def test_a_server_started_again_takes_parameters_in_the_turn_of_whom_the_process_before_had_asked(
    masks: Masks,
) -> None:
    table = Deaf(FEDERATIONS[masks])
    table.run()
    table.act(SERVER, table.server.deadline())
    assert table.until(Turn, 2, "c1") == Turn(2)
    table.act("c1", table.clients["c1"].receive(Turn(2)))
    _, _, of_c1 = table.queue.pop()
    assert isinstance(of_c1, Proposal)
    table.server = ServerSession(PLANS[masks], table.server._noise)
    table.server.restore([encode(message) for message in table.recorded[SERVER]])
    assert table.server.receive("c1", of_c1) == []
    table.act(SERVER, table.server.deadline())
    table.run()
    assert {client.state for client in table.clients.values()} == {ClientState.FINISHED}
    assert table.recorded[SERVER].count(relayed(of_c1, "c1")) == 1


@BOTH_MASKS
def test_a_server_takes_parameters_for_the_open_round_only(masks: Masks) -> None:
    table = Table(FEDERATIONS[masks])
    proposal = table.until(Proposal, 3)
    for number in (4, N_ROUNDS + 1):
        lie = Proposal(number, bytes(16), bytes(LIMITS.box_bytes[number]), bytes(64))
        with pytest.raises(
            RemoteProtocolError,
            match=f"'c1' sent parameters.*{number},",
        ):
            table.server.receive("c1", lie)
    assert table.server.awaited == ("c0",)
    with pytest.raises(RemoteProtocolError, match=r"upload.*3,.*open yet"):
        table.server.receive("c1", Upload(3, bytes(8), bytes(LIMITS.payload_bytes[2])))
    table.act(SERVER, table.server.receive("c0", proposal))
    table.run()
    assert table.server.state is ServerState.FINISHED
    assert sent(table.server.receive("c0", proposal)) == [("c0", relayed(proposal, "c0"))]


def test_the_server_sees_boxes_of_lengths_that_the_plan_fixes() -> None:
    lengths = []
    for seed in (1, 2):
        table = Table(make_federation(PLAN, seed))
        table.run()
        lengths.append([len(m.box) for m in table.recorded[SERVER] if isinstance(m, Parameters)])
    travelling = [n for number in range(M.n_rounds) if (n := M.travelling_bytes(number))]
    assert (
        lengths[0] == lengths[1] == list(LIMITS.box_bytes.values()) == [n + 16 for n in travelling]
    )


def test_a_run_of_clients_whose_caps_are_0_goes_on() -> None:
    """Caps weigh the sums of clients that are missing; where there is nothing to weigh all sums are
    alike.
    """
    algorithms: tuple[AnyAlgorithm, ...] = (FASTLLOYD, MOMENTLLOYD)
    for algorithm in algorithms:
        plan = make_plan(3, max_dropouts=1, n_clusters=1, n_features=1, algorithm=algorithm)
        clients = tuple(
            msgspec.structs.replace(client, max_records=0) for client in plan.clients[:2]
        )
        plan = msgspec.structs.replace(plan, clients=(*clients, plan.clients[2]))
        federation = make_federation(plan)
        X = {name: x[: plan.client(name).max_records] for name, x in federation.X.items()}
        federation = Federation(plan, X, federation.client_noise, federation.server_noise)
        outcome = run_in_process(federation.server(), federation.clients()[:2])
        assert len(results(outcome.clients.values())) == 2


def test_confirmations_before_the_end_is_settled_are_early() -> None:
    table = Table()
    table.until(Parameters, N_ROUNDS + 1, "c2")
    client = table.clients["c2"]
    assert client.receive(Confirmations(())) == client.resend() != []
    assert client.state is ClientState.SETTLING
