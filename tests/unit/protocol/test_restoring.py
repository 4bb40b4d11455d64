"""A session restored from its records is the session that was never interrupted, and records that do not fit are refused."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Ended, Finish, Keep, Record, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    SealedKeys,
    Upload,
    decode_records,
    encode,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.keys import EphemeralKey
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.queries.query import Query
from federation import (
    BrokenNoise,
    Federation,
    entropy,
    identity,
    inboxes,
    make_federation,
    make_plan,
    over_the_wire,
    run_with_ledger,
    same_clustering,
)
from virtual_network import Crash, Network, Watch

pytestmark = pytest.mark.usefixtures("repeatable_noise")

FEDERATION = make_federation(make_plan(4, max_dropouts=1, trust=TrustMode.SERVER_NOISE), seed=9)
PLAN = FEDERATION.plan
NAMES = PLAN.names
INBOX = inboxes(FEDERATION)


def no_entropy(n: int) -> bytes:
    raise AssertionError(f"{n} random bytes were asked for")


def life(name: str, n: int) -> tuple[ClientSession, EphemeralKey, list[Message]]:
    """A client that was sent its first n messages, and what it asked to be made durable."""
    client = FEDERATION.client(name)
    actions = client.start()
    for message in INBOX[name][:n]:
        actions += client.receive(message)
    (secret,) = [action.secret for action in actions if isinstance(action, Keep)]
    return client, secret, recorded(actions)


def sends(actions: Sequence[Action]) -> list[Send]:
    return [action for action in actions if isinstance(action, Send)]


def recorded(actions: Sequence[Action]) -> list[Message]:
    return [over_the_wire(PLAN, action.message) for action in actions if isinstance(action, Record)]


def restored(name: str, secret: EphemeralKey | None, records: Sequence[Message], **changes: Any) -> ClientSession:
    """Restored with noise and entropy that fail when they are asked for anything."""
    given: dict[str, Any] = {"identity": identity(name), "noise": BrokenNoise(), "random_bytes": no_entropy} | changes
    plan = given.pop("plan", PLAN)
    session = ClientSession(plan, name, FEDERATION.X[name], **given)
    session.restore(secret, [encode(record) for record in records])
    return session


def restored_server(records: Sequence[Message]) -> ServerSession:
    session = ServerSession(PLAN, BrokenNoise())
    session.restore([encode(record) for record in records])
    return session


# The client


@pytest.mark.parametrize("n", range(7))
@pytest.mark.parametrize("name", ["c0", "c1"])
def test_a_restored_client_is_the_client_that_was_never_interrupted(name: str, n: int) -> None:
    client, secret, records = life(name, n)
    again = restored(name, EphemeralKey.from_private_bytes(secret.private_bytes()), records)
    assert again.state is client.state
    assert [encode(s.message) for s in sends(again.resend())] == [encode(s.message) for s in sends(client.resend())]
    assert again.reconnect() == client.reconnect()
    assert again._handled == client._handled
    assert type(again.outcome) is type(client.outcome)
    for message in INBOX[name][:n]:
        assert again.receive(message) == []
    for message in INBOX[name][n + 1 :]:
        if client.outcome is None and not isinstance(message, KeyBox):
            assert again.receive(message) == again.resend()


@pytest.mark.parametrize("name", ["c0", "c1"])
def test_a_client_restarted_before_every_message_ends_with_the_same_result(name: str) -> None:
    """It draws as much noise, entropy but that of the key in the same order, and so says the very same bytes."""
    noise, random_bytes = FEDERATION.client(name)._noise, entropy(name)
    (keep, *actions) = FEDERATION.client(name).start()
    random_bytes(32)  # what the key was drawn from
    assert isinstance(keep, Keep)
    for message in INBOX[name]:
        client = restored(name, keep.secret, recorded(actions), noise=noise, random_bytes=random_bytes)
        actions += client.receive(message)
    never, _, records = life(name, len(INBOX[name]))
    assert recorded(actions) == records
    assert isinstance(client.outcome, ClientResult)
    assert isinstance(never.outcome, ClientResult)
    assert same_clustering(client.outcome.clustering, never.outcome.clustering)
    assert client.outcome.included == never.outcome.included


def test_a_client_reads_no_record_for_what_it_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret, records = life("c1", 4)
    monkeypatch.setattr(Query, "evaluate", lambda *_: pytest.fail("records were read"))
    assert restored("c1", secret, records).state is ClientState.CONFIRMING


def test_a_hello_is_the_same_bytes_after_a_restart_with_the_same_key() -> None:
    client, secret, records = life("c1", 0)
    again = EphemeralKey.from_private_bytes(secret.private_bytes())
    assert client._roster.hello("c1", again.public, identity("c1")) == records[0]


def test_a_client_that_ended_stays_ended_and_never_sends_again() -> None:
    for n in range(6):
        client, secret, records = life("c1", min(n, 4))
        records += recorded(client.deadline())
        for kept in (secret, None):
            again = restored("c1", kept, records)
            assert again.state is ClientState.ABORTED
            assert again.outcome == client.outcome
            assert again.resend() == again.reconnect() == again.deadline() == again.ending() == []
            for message in INBOX["c1"]:
                with pytest.raises(RemoteProtocolError, match="came after the run had ended"):
                    again.receive(message)
    finished, secret, records = life("c1", 5)
    again = restored("c1", secret, records)
    assert again.state is finished.state is ClientState.FINISHED
    assert again.resend() == again.reconnect() == again.deadline() == []


def test_a_client_that_refused_the_server_stays_away_after_a_restart() -> None:
    client, secret, records = life("c1", 1)
    with pytest.raises(RemoteProtocolError, match="not expected"):
        client.receive(Deal(()))
    records += recorded(client.ending())
    again = restored("c1", secret, records)
    assert again.outcome == Ended("Deal is not expected by a client that is aggregating")


def test_a_reason_that_cannot_be_a_message_is_made_one() -> None:
    client, secret, records = life("c1", 0)
    client.deadline()
    actions = client._end("räsons\n" + "x" * 1000)
    again = restored("c1", secret, records + recorded(actions))
    assert actions[1] == Finish(Ended("r?sons?" + "x" * 493))
    assert again.outcome == client.outcome


def test_a_dealer_that_was_restarted_knows_the_deal_that_it_answered() -> None:
    """Why a dealer records the Deal beside its keys: a repeated one would otherwise end its run."""
    _, secret, records = life("c0", 1)
    assert [type(record) for record in records] == [Hello, Deal, SealedKeys]
    again = restored("c0", secret, records)
    assert again.receive(INBOX["c0"][0]) == []
    assert again.state is ClientState.DEALING


CLIENT_RECORDS = life("c0", 6)[2]
SECRET = life("c0", 6)[1]
OTHER = make_federation(make_plan(4, max_dropouts=1, trust=TrustMode.SERVER_NOISE, run_id=b"another 16 bytes"), seed=9)


def position(kind: type, number: int = 1) -> int:
    """Where the number-th record of that kind stands."""
    return [i for i, record in enumerate(CLIENT_RECORDS) if isinstance(record, kind)][number - 1]


def swapped(i: int, j: int) -> list[Message]:
    records = list(CLIENT_RECORDS)
    records[i], records[j] = records[j], records[i]
    return records


def changed(kind: type, number: int = 1, **changes: Any) -> list[Message]:
    records, i = list(CLIENT_RECORDS), position(kind, number)
    records[i] = msgspec.structs.replace(records[i], **changes)
    return records


def without(kind: type, number: int = 1) -> list[Message]:
    i = position(kind, number)
    return [*CLIENT_RECORDS[:i], *CLIENT_RECORDS[i + 1 :]]


def test_the_records_of_the_dealer_are_all_it_says_and_goes_by() -> None:
    rounds = [Upload, Broadcast] * 3
    expected = [Hello, Deal, SealedKeys, KeyBox, *rounds, Confirmation, Confirmations]
    assert [type(record) for record in CLIENT_RECORDS] == expected


@pytest.mark.parametrize(
    ("match", "records"),
    [
        ("nothing is recorded", []),
        ("record 1 of this run, Upload, does not fit", CLIENT_RECORDS[4:]),
        ("record 1 of this run, Hello, .* begin with its Hello of this run", changed(Hello, run_id=bytes(16))),
        ("record 1 of this run, Hello, .* begin with its Hello of this run", changed(Hello, plan_digest=bytes(32))),
        ("record 1 of this run, Hello, .* begin with its Hello of this run", changed(Hello, name="c1")),
        ("not that of the Hello that was recorded", changed(Hello, signature=bytes(64))),
        ("not that of the Hello that was recorded", changed(Hello, ephemeral_public=bytes(32))),
        ("record 2 of this run, SealedKeys, .* a client that is joining did not take this", without(Deal)),
        ("record 3 of this run, KeyBox, .* not what a client says that is dealing", without(SealedKeys)),
        ("record 4 of this run, Upload, .* a client that is dealing did not take this", without(KeyBox)),
        ("record 5 of this run, Broadcast, .* not what a client says", without(Upload)),
        ("record 6 of this run, Upload, .* a client that is aggregating did not take", without(Broadcast)),
        ("record 6 of this run, Broadcast, .* did not take this", swapped(position(Broadcast, 1), position(Broadcast, 2))),
        ("record 5 of this run, Upload, .* Upload of round 2 stands", swapped(position(Upload, 1), position(Upload, 2))),
        ("record 5 of this run cannot be read: .*Expected `bytes` of length >= 8", changed(Upload, nonce=bytes(7))),
        ("record 5 of this run cannot be read: the payload of a message has 3 bytes", changed(Upload, payload=bytes(3))),
        ("record 6 of this run, Broadcast, .* an upload of client 'c0' that it did not make", changed(Upload, nonce=bytes(8))),
        ("record 6 of this run, Broadcast, .* does not open", changed(Broadcast, payload=bytes(56))),
        ("record 11 of this run, Confirmation, .* not what a client says", changed(Confirmation, mac=bytes(32))),
        ("record 12 of this run, Confirmations, .* at least 3 are needed", changed(Confirmations, macs=())),
        ("end with KeyBox, in the middle of a step", CLIENT_RECORDS[: position(KeyBox) + 1]),
        (
            "record 13 of this run, Confirmations, .* a client that is finished did not take this",
            [*CLIENT_RECORDS, CLIENT_RECORDS[-1]],
        ),
        ("go on after an Abort", [*CLIENT_RECORDS[:1], Abort("enough"), *CLIENT_RECORDS[1:]]),
        ("go on after an Abort", [*CLIENT_RECORDS[:1], Abort("enough"), Abort("enough")]),
        ("record 2 of this run, Deal, .* not the first", [CLIENT_RECORDS[0], Deal(CLIENT_RECORDS[1].hellos[1:])]),  # type: ignore[union-attr]  # a Deal
        ("record 3 of this run, SealedKeys, .* not for those", changed(SealedKeys, boxes=())),
        ("record 4 of this run, KeyBox, .* that it did not deal", changed(KeyBox, box=bytes(60))),
    ],
)
def test_records_that_do_not_fit_a_client_are_refused(match: str, records: list[Message]) -> None:
    assert restored("c0", SECRET, CLIENT_RECORDS).state is ClientState.FINISHED
    with pytest.raises(LocalProtocolError, match=match):
        restored("c0", SECRET, records)


def test_records_of_another_plan_or_party_or_key_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="begin with its Hello of this run of this plan"):
        restored("c0", SECRET, CLIENT_RECORDS, plan=OTHER.plan)
    with pytest.raises(LocalProtocolError, match="begin with its Hello of this run of this plan"):
        restored("c1", SECRET, CLIENT_RECORDS)
    with pytest.raises(LocalProtocolError, match="not that of the Hello that was recorded"):
        restored("c0", EphemeralKey.generate(), CLIENT_RECORDS)
    with pytest.raises(LocalProtocolError, match="the key that it kept is gone"):
        restored("c0", None, CLIENT_RECORDS)


# The server


def server_life(joined: tuple[str, ...] = NAMES, *, stop: Callable[[ServerSession], bool] = lambda _: False) -> list[Message]:
    """What a server records until it is to stop; those who did not join are absent."""
    ledger: list[tuple[str, Message]] = []
    sessions = [client for client in FEDERATION.clients() if client.name in joined]
    server = FEDERATION.server()

    def link(_sender: str, _recipient: str, _message: Message, data: bytes) -> tuple[bytes, ...]:
        return () if stop(server) else (data,)

    run_with_ledger(server, sessions, ledger, link=link)
    return [message for party, message in ledger if party == SERVER]


SERVER_RECORDS = server_life()


def test_the_records_of_the_server_are_its_decisions() -> None:
    assert [type(record) for record in SERVER_RECORDS] == [Deal, SealedKeys, Broadcast, Broadcast, Broadcast, Confirmations]
    assert server_life(NAMES[:2]) == [Abort("2 of 4 clients were there in time, and at least 3 are needed")]


@pytest.mark.parametrize(
    ("n", "state"),
    [
        (0, ServerState.JOINING),
        (1, ServerState.DEALING),
        (2, ServerState.AGGREGATING),
        (4, ServerState.AGGREGATING),
        (5, ServerState.CONFIRMING),
        (6, ServerState.FINISHED),
    ],
)
def test_a_restored_server_answers_whatever_was_said_to_it_as_before(n: int, state: ServerState) -> None:
    """Every repetition in every state, by every client; and nothing of it moves the server."""
    server, clients = FEDERATION.server(), {name: FEDERATION.client(name) for name in NAMES}
    pending = [(name, send.message) for name, client in clients.items() for send in sends(client.start())]
    said, records = [], list[Message]()
    while len(records) < n:
        said.append(pending.pop(0))
        actions = server.receive(*said[-1])
        records += recorded(actions)
        for send in sends(actions):
            pending += [(send.to, reply.message) for reply in sends(clients[send.to].receive(send.message))]
    again = restored_server(records)
    assert server.state is again.state is state
    assert again.outcome == server.outcome
    for sender, message in said:
        assert again.receive(sender, message) == server.receive(sender, message)
        assert again.state is server.state is state


def test_a_restored_server_that_ended_says_why() -> None:
    records = server_life(stop=lambda server: len(server._broadcasts) == 2)
    again = restored_server(records)
    assert again.state is ServerState.ABORTED
    assert again.outcome is not None
    assert again.outcome.reason == "0 clients answered in round 3, and at least 3 are needed"
    assert again.outcome.included == (NAMES, NAMES)
    assert again.deadline() == []
    for name in NAMES:
        assert again.receive(name, INBOX_SAID[name]) == [Send(name, Abort(again.outcome.reason))]


INBOX_SAID = {name: life(name, 0)[2][0] for name in NAMES}


def test_a_dealer_that_was_replaced_is_turned_away_by_the_restarted_server() -> None:
    server = FEDERATION.server()
    actions = [action for name in NAMES for action in server.receive(name, INBOX_SAID[name])] + server.deadline()
    first, second = recorded(actions)
    again = restored_server([first, second])
    assert again.state is ServerState.DEALING
    turned_away = [Send("c0", Abort("the run began without client c0"))]
    for message in life("c0", 1)[2]:
        if isinstance(message, Hello | SealedKeys):
            assert again.receive("c0", message) == server.receive("c0", message) == turned_away
    assert again.receive("c1", INBOX_SAID["c1"]) == server.receive("c1", INBOX_SAID["c1"]) == [Send("c1", second)]
    for name in NAMES[2:]:
        assert again.receive(name, INBOX_SAID[name]) == []
    # and one dealer more than can be missed ends the run, as it would have
    assert recorded(again.deadline()) == recorded(server.deadline()) != []


def test_a_server_that_was_restarted_before_it_named_a_dealer_collects_hellos_anew() -> None:
    server = restored_server([])
    assert server.state is ServerState.JOINING
    answers = [server.receive(name, INBOX_SAID[name]) for name in NAMES]
    assert recorded(answers[-1]) == SERVER_RECORDS[:1]


def server_changed(n: int, **changes: Any) -> list[Message]:
    records = list(SERVER_RECORDS)
    records[n] = msgspec.structs.replace(records[n], **changes)
    return records


DEALT = SERVER_RECORDS[0].hellos  # type: ignore[union-attr]  # a Deal
OTHER_HELLO = msgspec.structs.replace(DEALT[3], plan_digest=bytes(32))
MACS = SERVER_RECORDS[5].macs  # type: ignore[union-attr]  # Confirmations


@pytest.mark.parametrize(
    ("match", "records"),
    [
        ("record 1 of this run, SealedKeys, .* a server that is joining does not decide it", SERVER_RECORDS[1:]),
        ("record 2 of this run, Broadcast, .* a server that is dealing does not", [SERVER_RECORDS[0], *SERVER_RECORDS[2:]]),
        ("record 2 of this run, Deal, .* without the dealer before", [SERVER_RECORDS[0], *SERVER_RECORDS]),
        ("record 3 of this run, SealedKeys, .* is aggregating does not", [*SERVER_RECORDS[:2], *SERVER_RECORDS[1:]]),
        ("record 3 of this run, Broadcast, .* is aggregating does not", [*SERVER_RECORDS[:2], *SERVER_RECORDS[3:]]),
        ("record 7 of this run, Abort, .* the run was finished before", [*SERVER_RECORDS, Abort("late")]),
        ("record 2 of this run, Deal, .* the run was aborted before", [Abort("early"), *SERVER_RECORDS]),
        ("record 1 of this run, Hello, .* does not decide it", [INBOX_SAID["c0"]]),
        ("record 1 of this run, Deal, .* at least 3 are needed", server_changed(0, hellos=DEALT[:2])),
        ("record 1 of this run, Deal, .* holds another plan", server_changed(0, hellos=(*DEALT[:3], OTHER_HELLO))),
        ("record 2 of this run, SealedKeys, .* is dealing does not", server_changed(1, boxes=())),
        ("record 3 of this run cannot be read: .* bytes of nonces for", server_changed(2, nonces=bytes(8))),
        ("record 3 of this run, Broadcast, .* at least 3 are needed", server_changed(2, members=b"\x03", nonces=bytes(16))),
        ("record 3 of this run cannot be read: the payload of a message", server_changed(2, payload=b"")),
        ("record 6 of this run, Confirmations, .* 2 clients; at least 3", server_changed(5, macs=MACS[:2])),
    ],
)
def test_records_that_do_not_fit_a_server_are_refused(match: str, records: list[Message]) -> None:
    with pytest.raises(LocalProtocolError, match=match):
        restored_server(records)


# Processes that die at every point of a step

SMALL = {
    trust: make_federation(
        make_plan(3, trust=trust, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, estimate_loss=True), seed=2
    )
    for trust in TrustMode
}


MOMENTS = make_federation(make_plan(3, max_dropouts=1, n_clusters=1, n_features=1, algorithm=MOMENTLLOYD, epsilon=0.2), seed=2)


def play(trust: TrustMode, watch: Watch, crashes: dict[str, tuple[int, Crash, int]]) -> Network:
    return play_out(SMALL[trust], watch, crashes)


def play_out(federation: Federation, watch: Watch, crashes: dict[str, tuple[int, Crash, int]]) -> Network:
    """A run without any other bad luck, in which these processes die."""
    network = Network(federation, watch, crashes)
    network.settle()
    network.check_one_plaintext_per_mask()
    network.check_one_set_per_round()
    network.check_one_box_per_round()
    network.check_one_noise_per_sum()
    network.check_write_ahead()
    network.check_exact(lambda _name: True)
    network.check_agreement()
    network.check_everybody_opens_the_same()
    assert network.accusations == []
    return network


@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize("party", [SERVER, "c0", "c1"])
def test_whoever_dies_at_whatever_point_of_whichever_step_the_run_ends_as_ever(
    trust: TrustMode, party: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit, after it, and after each number of letters; before every first step too. Nobody is left out."""
    watch = Watch.install(monkeypatch)
    n_steps = play(trust, watch, {}).n_steps[party]
    assert n_steps == {SERVER: 6, "c0": 10, "c1": 9}[party]
    points = [(Crash.BEFORE_COMMIT, 0), (Crash.AFTER_COMMIT, 0)]
    points += [(Crash.AFTER_SENDING_SOME, n) for n in range(1, 4 if party == SERVER else 2)]
    for step in range(1, n_steps + 1):
        for when, n_sent in points:
            network = play(trust, watch, {party: (step, when, n_sent)})
            assert network.n_crashes.total() == 1
            assert network.server.state is ServerState.FINISHED
            assert {result.included for result in network.results.values()} == {(network.names,) * 3}
            assert set(network.results) == set(network.names)


@pytest.mark.parametrize("party", [SERVER, "c0", "c1"])
def test_the_same_where_parameters_travel(party: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step, at one point of it in turn. A round has two steps and a step three points, so all meet within three."""
    watch = Watch.install(monkeypatch)
    n_rounds = len(MOMENTS.plan.mechanism.all_rounds)
    n_steps = play_out(MOMENTS, watch, {}).n_steps[party]
    assert n_steps == {SERVER: 3 + 2 * n_rounds, "c0": 4 + 3 * n_rounds, "c1": 3 + 2 * n_rounds}[party]
    points = [(Crash.BEFORE_COMMIT, 0), (Crash.AFTER_COMMIT, 0), (Crash.AFTER_SENDING_SOME, 1)]
    for step in range(1, n_steps + 1):
        when, n_sent = points[step % 3]
        network = play_out(MOMENTS, watch, {party: (step, when, n_sent)})
        assert network.n_crashes.total() == 1
        assert {result.included for result in network.results.values()} == {(network.names,) * n_rounds}
        assert set(network.results) == set(network.names)


def test_without_fresh_nonces_a_lost_step_would_hide_two_answers_under_one_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the check of masks is worth: entropy that repeats itself, and an upload that was never committed."""
    watch = Watch.install(monkeypatch)
    monkeypatch.setattr("virtual_network.entropy", lambda _name: bytes)
    network = Network(SMALL[TrustMode.CLIENT_NOISE], watch, {"c1": (2, Crash.BEFORE_COMMIT, 0)})
    network.settle()
    assert sorted(map(len, watch.hidden.values()))[-2:] == [1, 2]
    with pytest.raises(AssertionError):
        network.check_one_plaintext_per_mask()


@pytest.mark.parametrize("trust", TrustMode)
def test_everybody_dies_in_the_same_step(trust: TrustMode, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch.install(monkeypatch)
    for when in Crash:
        for step in range(1, 7):
            network = play(trust, watch, dict.fromkeys((SERVER, "c0", "c1", "c2"), (step, when, 1)))
            assert network.n_crashes.total() == 4
            assert set(network.results) == set(network.names)


def test_a_stored_record_that_this_version_cannot_read_is_named() -> None:
    """As after an update in the middle of a run, if the bytes of messages have changed."""
    older = b"\x02\x95\x07\x01\x91\x92\xa2c0\xc4\x08nonce678\xc4\x00"
    stored = [encode(record) for record in SERVER_RECORDS[:2]]
    assert decode_records(stored, PLAN) == SERVER_RECORDS[:2]
    with pytest.raises(LocalProtocolError, match=r"record 3 of this run cannot be read: .* Nothing was sent"):
        decode_records([*stored, older], PLAN)
