"""A session restored from its records is the session that was never interrupted, and records that
do not fit are refused.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, Plan, TrustMode
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
    AllReady,
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
    decode_records,
    encode,
    message_digest,
)
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, RunKeys
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.queries.query import Query
from federation import (
    BEGINNING,
    BrokenNoise,
    Federation,
    encapsulated,
    entropy,
    identity,
    inboxes,
    make_federation,
    make_plan,
    over_the_wire,
    run_with_ledger,
    same_clustering,
)
from known_to_server import broadcasts_of
from virtual_network import Crash, Network, Watch

pytestmark = pytest.mark.usefixtures("repeatable_noise")

FEDERATIONS = {
    masks: make_federation(
        make_plan(4, max_dropouts=1, trust=TrustMode.SERVER_NOISE, masks=masks), seed=9
    )
    for masks in Masks
}
FEDERATION = FEDERATIONS[Masks.GROUP]
PLAN = FEDERATION.plan
NAMES = PLAN.names
INBOXES = {masks: inboxes(federation) for masks, federation in FEDERATIONS.items()}
INBOX = INBOXES[Masks.GROUP]
BOTH_MASKS = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
Kept = dict[str, bytes]


def no_entropy(n: int) -> bytes:
    raise AssertionError(f"{n} random bytes were asked for")


def no_encapsulation(public: bytes) -> tuple[bytes, bytes]:
    raise AssertionError(f"something was encapsulated to {public[:4].hex()}")


def life(
    name: str, n: int, masks: Masks = Masks.GROUP, inbox: Sequence[Message] | None = None
) -> tuple[ClientSession, Kept, list[Message]]:
    """A client that was sent the first n messages of its inbox, and what it asked to be made
    durable.
    """
    client = FEDERATIONS[masks].client(name)
    actions = client.start()
    for message in (INBOXES[masks][name] if inbox is None else inbox)[:n]:
        actions += client.receive(message)
    return client, kept_in(actions), recorded(actions)


def kept_in(actions: Sequence[Action]) -> Kept:
    """The secrets, as a store keeps them: by name, none replaced."""
    keeps = [action for action in actions if isinstance(action, Keep)]
    assert len({keep.name for keep in keeps}) == len(keeps)
    return {keep.name: keep.secret for keep in keeps}


def sends(actions: Sequence[Action]) -> list[Send]:
    return [action for action in actions if isinstance(action, Send)]


def recorded(actions: Sequence[Action]) -> list[Message]:
    return [over_the_wire(PLAN, action.message) for action in actions if isinstance(action, Record)]


def restored(
    name: str, kept: Kept, records: Sequence[Message], masks: Masks = Masks.GROUP, **changes: Any
) -> ClientSession:
    """Restored with noise, entropy and ML-KEM that fail when they are asked for anything."""
    given: dict[str, Any] = {
        "identity": identity(name),
        "noise": BrokenNoise(),
        "random_bytes": no_entropy,
        "encapsulate": no_encapsulation,
    } | changes
    plan = given.pop("plan", FEDERATIONS[masks].plan)
    session = ClientSession(
        plan, name, LocalRecords(plan.mechanism.domain, FEDERATION.X[name]), **given
    )
    session.restore(kept, [encode(record) for record in records])
    return session


def restored_server(records: Sequence[Message], plan: Plan = PLAN) -> ServerSession:
    session = ServerSession(plan, BrokenNoise(), random_bytes=lambda _: BEGINNING)
    session.restore([encode(record) for record in records])
    return session


# The client


@BOTH_MASKS
@pytest.mark.parametrize("n", range(8))
@pytest.mark.parametrize("name", ["c0", "c1", "c3"])
def test_a_restored_client_is_the_client_that_was_never_interrupted(
    name: str, n: int, masks: Masks
) -> None:
    client, kept, records = life(name, n, masks)
    again = restored(name, kept, records, masks)
    assert again.state is client.state
    assert [encode(s.message) for s in sends(again.resend())] == [
        encode(s.message) for s in sends(client.resend())
    ]
    assert again.reconnect() == client.reconnect()
    assert again._handled == client._handled
    assert type(again.outcome) is type(client.outcome)
    for message in INBOXES[masks][name][:n]:
        assert again.receive(message) == []
    for message in INBOXES[masks][name][n + 1 :]:
        if client.outcome is None:
            assert again.receive(message) == again.resend()


@BOTH_MASKS
@pytest.mark.parametrize("name", ["c0", "c1", "c3"])
def test_a_client_restarted_before_every_message_ends_with_the_same_result(
    name: str, masks: Masks
) -> None:
    """It draws as much noise, entropy but that of the keys in the same order, and so says the very
    same bytes.
    """
    noise, random_bytes = FEDERATIONS[masks].client(name)._noise, entropy(name)
    actions = FEDERATIONS[masks].client(name).start()
    random_bytes(128)  # what the keys were drawn from
    for message in INBOXES[masks][name]:
        draws: dict[str, Any] = {
            "noise": noise,
            "random_bytes": random_bytes,
            "encapsulate": encapsulated(name),
        }
        client = restored(name, kept_in(actions), recorded(actions), masks, **draws)
        actions += client.receive(message)
    never, kept, records = life(name, len(INBOXES[masks][name]), masks)
    assert recorded(actions) == records
    assert kept_in(actions) == kept
    assert isinstance(client.outcome, ClientResult)
    assert isinstance(never.outcome, ClientResult)
    assert same_clustering(client.outcome.clustering, never.outcome.clustering)
    assert client.outcome.included == never.outcome.included


def smaller(*names: str, masks: Masks) -> Deal:
    """The Deal of some of the clients."""
    deal = INBOXES[masks]["c0"][0]
    assert isinstance(deal, Deal)
    attempt = 1 if len(names) == len(deal.hellos) else 2
    return Deal(BEGINNING, attempt, tuple(hello for hello in deal.hellos if hello.name in names))


@BOTH_MASKS
@pytest.mark.parametrize("name", ["c0", "c1", "c2"])
def test_a_client_that_is_restarted_between_two_deals_makes_no_key_of_a_pair_twice(
    name: str, masks: Masks
) -> None:
    """Nor does it take the group key of the Deal before: nothing is encapsulated, and only a dealer
    asks for 32 bytes.
    """
    first, second = smaller(*NAMES, masks=masks), smaller("c0", "c1", "c2", masks=masks)
    client, kept, records = life(name, 1, masks)
    asked: list[int] = []

    def random_bytes(n: int) -> bytes:
        asked.append(n)
        return bytes([len(asked)] * n)

    again = restored(name, kept, records, masks, random_bytes=random_bytes)
    actions, expected = again.receive(second), client.receive(second)
    assert asked == ([32] if name == "c0" else [])
    assert [type(action) for action in actions] == [type(action) for action in expected]
    assert (
        set(kept_in(actions))
        == set(kept_in(expected))
        == ({"group-key of attempt 2"} if name == "c0" else set())
    )
    made, other = (
        [
            [pair[:CHECKED_BYTES] for pair in m.ciphertexts]
            for m in recorded(step)
            if isinstance(m, SealedKeys)
        ]
        for step in (actions, expected)
    )
    assert made == other
    # and both Deals and their answers are read again after another restart
    twice = restored(name, kept | kept_in(actions), [*records, *recorded(actions)], masks)
    assert twice.state is ClientState.DEALING
    assert twice.resend() == again.resend()
    assert twice.receive(first) in ([], twice.resend())


@BOTH_MASKS
def test_a_dealer_restarted_after_a_smaller_deal_takes_the_group_key_of_that_one(
    masks: Masks,
) -> None:
    deals = [smaller(*NAMES, masks=masks), smaller("c0", "c1", "c2", masks=masks)]
    client, kept, records = life("c0", 2, masks, deals)
    assert {"group-key of attempt 1", "group-key of attempt 2"} <= set(kept)
    deal = message_digest(deals[1])
    box = KeyBox(deal, GroupKey(kept["group-key of attempt 2"]).commitment(deal), (), None)
    client.receive(box)
    again = restored(
        "c0",
        kept,
        records,
        masks,
        noise=FEDERATION.client("c0")._noise,
        random_bytes=entropy("upload"),
    )
    again.receive(box)
    for session in (client, again):
        shared = session._phase._shared  # type: ignore[union-attr]
        assert shared is not None
        assert shared.group_key.secret == kept["group-key of attempt 2"]
    assert kept["group-key of attempt 2"] != kept["group-key of attempt 1"]


def test_a_client_reads_no_record_for_what_it_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept, records = life("c1", 6)
    monkeypatch.setattr(Query, "evaluate", lambda *_: pytest.fail("records were read"))
    assert restored("c1", kept, records).state is ClientState.CONFIRMING


def test_a_hello_is_the_same_bytes_after_a_restart_with_the_same_keys() -> None:
    client, kept, records = life("c1", 0)
    again = RunKeys.from_private_bytes(kept["run-keys"])
    assert client._roster.hello("c1", again, identity("c1")) == records[0]


@BOTH_MASKS
def test_a_client_that_ended_stays_ended_and_never_sends_again(masks: Masks) -> None:
    for n in range(7):
        client, kept, records = life("c1", n, masks)
        records += recorded(client.deadline())
        assert isinstance(client.outcome, Ended)
        for secrets in (kept, {}):
            again = restored("c1", secrets, records, masks)
            assert again.state is ClientState.ABORTED
            assert isinstance(again.outcome, Ended)
            assert again.outcome.reason == client.outcome.reason
            assert (again.outcome.unfinished is None) == (
                client.outcome.unfinished is None or not secrets
            )
            assert again.resend() == again.reconnect() == again.deadline() == again.ending() == []
            for message in INBOXES[masks]["c1"]:
                with pytest.raises(RemoteProtocolError, match="run had ended"):
                    again.receive(message)
    finished, kept, records = life("c1", 7, masks)
    again = restored("c1", kept, records, masks)
    assert again.state is finished.state is ClientState.FINISHED
    assert again.resend() == again.reconnect() == again.deadline() == []


def test_a_client_that_refused_the_server_stays_away_after_a_restart() -> None:
    client, kept, records = life("c1", 3)
    other = msgspec.structs.replace(INBOX["c2"][2], round=2)
    with pytest.raises(RemoteProtocolError, match="not expected"):
        client.receive(other)
    records += recorded(client.ending())
    again = restored("c1", kept, records)
    assert again.outcome == Ended("AllReady is not expected by a client that is aggregating")


def test_a_reason_that_cannot_be_a_message_is_made_one() -> None:
    client, kept, records = life("c1", 0)
    client.deadline()
    actions = client._end("räsons\n" + "x" * 1000)
    again = restored("c1", kept, records + recorded(actions))
    assert actions[1] == Finish(Ended("r?sons?" + "x" * 493))
    assert again.outcome == client.outcome


@BOTH_MASKS
def test_a_client_that_was_restarted_knows_the_deal_that_it_answered(masks: Masks) -> None:
    """Why a client records the Deal beside its keys: a repeated one would otherwise end its run."""
    for name in NAMES:
        client, kept, records = life(name, 1, masks)
        speaks = masks is Masks.PAIRWISE or name == "c0"
        assert [type(record) for record in records] == [
            Hello,
            Deal,
            *([SealedKeys] if speaks else []),
        ]
        again = restored(name, kept, records, masks)
        assert again.receive(INBOXES[masks][name][0]) == []
        assert again.state is client.state is ClientState.DEALING


_, KEPT, CLIENT_RECORDS = life("c0", 7)
DEALT = CLIENT_RECORDS[1].hellos  # type: ignore[union-attr]  # a Deal
ALL_READY = INBOX["c0"][2]
assert isinstance(ALL_READY, AllReady)
OTHER = make_federation(
    make_plan(4, max_dropouts=1, trust=TrustMode.SERVER_NOISE, run_id=b"another 16 bytes"), seed=9
)


KEY_FIELDS = {"exchange_key": 32, "encapsulation_key": 1184, "run_key": 32}


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


def changed_hello(field: str, value: bytes) -> list[Message]:
    return [msgspec.structs.replace(CLIENT_RECORDS[0], **{field: value}), *CLIENT_RECORDS[1:]]


def without(kind: type, number: int = 1) -> list[Message]:
    i = position(kind, number)
    return [*CLIENT_RECORDS[:i], *CLIENT_RECORDS[i + 1 :]]


def test_the_records_of_the_dealer_are_all_it_says_and_goes_by() -> None:
    rounds = [Upload, Broadcast] * 3
    expected = [
        Hello,
        Deal,
        SealedKeys,
        KeyBox,
        Ready,
        AllReady,
        *rounds,
        Confirmation,
        Confirmations,
    ]
    assert [type(record) for record in CLIENT_RECORDS] == expected


@pytest.mark.parametrize(
    ("match", "records"),
    [
        ("no entries of this run", []),
        ("1 of .*, Upload, does not fit", CLIENT_RECORDS[6:]),
        (
            "1 of .*, Hello, .* begin with its Hello",
            changed(Hello, run_id=bytes(16)),
        ),
        (
            "1 of .*, Hello, .* begin with its Hello",
            changed(Hello, plan_digest=bytes(32)),
        ),
        (
            "1 of .*, Hello, .* begin with its Hello",
            changed(Hello, name="c1"),
        ),
        ("not the keys of the recorded Hello", changed(Hello, signature=bytes(64))),
        *[
            ("not the keys of the recorded Hello", changed_hello(key, bytes(n)))
            for key, n in KEY_FIELDS.items()
        ],
        (
            "2 of .*, SealedKeys, .* is joining does not accept",
            without(Deal),
        ),
        (
            "3 of .*, KeyBox, .* is dealing does not send",
            without(SealedKeys),
        ),
        (
            "4 of .*, Ready, .* is dealing does not accept",
            without(KeyBox),
        ),
        ("5 of .*, AllReady, .* is ready does not send", without(Ready)),
        (
            "6 of .*, Upload, .* is ready does not accept",
            without(AllReady),
        ),
        ("5 of .*, Ready, .* does not send", changed(Ready, round=2)),
        (
            "5 of .*, Ready, .* does not send",
            changed(Ready, signature=bytes(64)),
        ),
        (
            "entry 6 of .*, AllReady, .* client 'c1' did not sign that it is ready",
            changed(AllReady, signatures=ALL_READY.signatures[:1] + (bytes(64),) * 3),
        ),
        (
            "entry 6 of .*, AllReady, .* expected all 4 that share keys",
            changed(AllReady, signatures=()),
        ),
        (
            "entry 4 of .*, KeyBox, .* to the group key was changed",
            changed(KeyBox, commitment=bytes(32)),
        ),
        ("7 of .*, Broadcast, .* does not send", without(Upload)),
        (
            "8 of .*, Upload, .* is aggregating does not accept",
            without(Broadcast),
        ),
        (
            "8 of .*, Broadcast, .* does not accept",
            swapped(position(Broadcast, 1), position(Broadcast, 2)),
        ),
        (
            "entry 7 of .*, Upload, .* belongs to round 2; expected round 1",
            swapped(position(Upload, 1), position(Upload, 2)),
        ),
        (
            "entry 7 of .* cannot be read: .*Expected `bytes` of length >= 8",
            changed(Upload, nonce=bytes(7)),
        ),
        (
            "entry 7 of .* cannot be read: the payload of a message has 3 bytes",
            changed(Upload, payload=bytes(3)),
        ),
        (
            "entry 8 of .*, Broadcast, .* an upload that client 'c0' did not make",
            changed(Upload, nonce=bytes(8)),
        ),
        (
            "entry 8 of .*, Broadcast, .* does not open",
            changed(Broadcast, payload=bytes(56)),
        ),
        (
            "13 of .*, Confirmation, .* does not send",
            changed(Confirmation, mac=bytes(32)),
        ),
        (
            "13 of .*, Confirmation, .* does not send",
            changed(Confirmation, signature=bytes(64)),
        ),
        (
            "entry 14 of .*, Confirmations, .* at least 3 are needed",
            changed(Confirmations, confirmed=()),
        ),
        ("end with KeyBox, in the middle of a step", CLIENT_RECORDS[: position(KeyBox) + 1]),
        (
            "15 of .*, Confirmations, .* is finished does not accept",
            [*CLIENT_RECORDS, CLIENT_RECORDS[-1]],
        ),
        ("go on after an Abort", [*CLIENT_RECORDS[:1], Abort("enough"), *CLIENT_RECORDS[1:]]),
        ("go on after an Abort", [*CLIENT_RECORDS[:1], Abort("enough"), Abort("enough")]),
        (
            "2 of .*, Deal, .* 'c0', but does not contain its Hello",
            [CLIENT_RECORDS[0], Deal(BEGINNING, 1, DEALT[1:])],
        ),
        ("3 of .*, SealedKeys, .* for other clients", changed(SealedKeys, ciphertexts=())),
        ("3 of .*, SealedKeys, .* for other clients", changed(SealedKeys, deal=bytes(32))),
        (
            "entry 4 of .*, KeyBox, .* was sent 0 keys of pairs and 1 of the group",
            changed(KeyBox, box=bytes(60)),
        ),
        (
            "4 of .*, KeyBox, .* is dealing does not accept",
            changed(KeyBox, deal=bytes(32)),
        ),
    ],
)
def test_records_that_do_not_fit_a_client_are_refused(match: str, records: list[Message]) -> None:
    assert restored("c0", KEPT, CLIENT_RECORDS).state is ClientState.FINISHED
    with pytest.raises(LocalProtocolError, match=match):
        restored("c0", KEPT, records)


def test_records_of_another_plan_or_party_or_key_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match=r"begin.*its Hello"):
        restored("c0", KEPT, CLIENT_RECORDS, plan=OTHER.plan)
    with pytest.raises(LocalProtocolError, match=r"begin.*its Hello"):
        restored("c1", KEPT, CLIENT_RECORDS)
    with pytest.raises(LocalProtocolError, match=r"keys.*recorded Hello"):
        restored("c0", KEPT | {"run-keys": bytes(range(128))}, CLIENT_RECORDS)


@BOTH_MASKS
def test_a_secret_that_is_gone_is_named(masks: Masks) -> None:
    for name in ("c0", "c2"):
        _, kept, records = life(name, 7, masks)
        needed = {
            key for key in kept if masks is Masks.PAIRWISE or not key.startswith("pair-secret")
        }
        for key in kept:
            without_it = {other: secret for other, secret in kept.items() if other != key}
            if key in needed:
                with pytest.raises(LocalProtocolError, match=f"secret '{key}' is"):
                    restored(name, without_it, records, masks)
            else:  # no mask is made of it
                assert restored(name, without_it, records, masks).state is ClientState.FINISHED


# The server


def server_life(
    joined: tuple[str, ...] = NAMES,
    *,
    stop: Callable[[ServerSession], bool] = lambda _: False,
    masks: Masks = Masks.GROUP,
) -> list[Message]:
    """What a server records until it is to stop; those who did not join are absent."""
    ledger: list[tuple[str, Message]] = []
    sessions = [client for client in FEDERATIONS[masks].clients() if client.name in joined]
    server = FEDERATIONS[masks].server()

    def link(_sender: str, _recipient: str, _message: Message, data: bytes) -> tuple[bytes, ...]:
        return () if stop(server) else (data,)

    run_with_ledger(server, sessions, ledger, link=link)
    return [message for party, message in ledger if party == SERVER]


SERVER_RECORDS = server_life()


@BOTH_MASKS
def test_the_records_of_the_server_are_its_decisions(masks: Masks) -> None:
    n_speakers = 1 if masks is Masks.GROUP else 4
    keys = [Deal, *[SealedKeys] * n_speakers, AllReady]
    kinds = [*keys, Broadcast, Broadcast, Broadcast, Confirmations]
    assert [type(record) for record in server_life(masks=masks)] == kinds
    assert server_life(NAMES[:2], masks=masks) == [
        Abort("2 of 4 clients joined in time (missing: c2, c3), and at least 3 are needed")
    ]


@BOTH_MASKS
@pytest.mark.parametrize(
    ("n", "state"),
    [
        (0, ServerState.JOINING),
        (1, ServerState.DEALING),
        (2, ServerState.AGREEING),
        (3, ServerState.AGGREGATING),
        (5, ServerState.AGGREGATING),
        (6, ServerState.CONFIRMING),
        (7, ServerState.FINISHED),
    ],
)
def test_a_restored_server_answers_whatever_was_said_to_it_as_before(
    n: int, state: ServerState, masks: Masks
) -> None:
    """Every repetition in every state, by every client; and nothing of it moves the server."""
    federation = FEDERATIONS[masks]
    n += 3 if masks is Masks.PAIRWISE and n > 1 else 0  # all four made keys
    server, clients = federation.server(), {name: federation.client(name) for name in NAMES}
    pending = [
        (name, send.message) for name, client in clients.items() for send in sends(client.start())
    ]
    said, records = [], list[Message]()
    while len(records) < n:
        said.append(pending.pop(0))
        actions = server.receive(*said[-1])
        records += recorded(actions)
        for send in sends(actions):
            pending += [
                (send.to, reply.message) for reply in sends(clients[send.to].receive(send.message))
            ]
    again = restored_server(records, federation.plan)
    assert server.state is again.state is state
    assert again.outcome == server.outcome
    for sender, message in said:
        assert again.receive(sender, message) == server.receive(sender, message)
        assert again.state is server.state is state


def test_a_restored_server_that_ended_says_why() -> None:
    records = server_life(stop=lambda server: len(broadcasts_of(server)) == 2)
    again = restored_server(records)
    assert again.state is ServerState.ABORTED
    assert again.outcome is not None
    assert (
        again.outcome.reason
        == "0 clients answered in round 3 (missing: c0, c1, c2 and 1 more), and at least 3 are"
        " needed"
    )
    assert again.outcome.included == (NAMES, NAMES)
    assert again.deadline() == []
    for name in NAMES:
        assert again.receive(name, INBOX_SAID[name]) == [Send(name, Abort(again.outcome.reason))]


INBOX_SAID = {name: life(name, 0)[2][0] for name in NAMES}


def test_a_dealer_that_was_replaced_is_turned_away_by_the_restarted_server() -> None:
    server = FEDERATION.server()
    actions = [
        action for name in NAMES for action in server.receive(name, INBOX_SAID[name])
    ] + server.deadline()
    first, second = recorded(actions)
    again = restored_server([first, second])
    assert again.state is ServerState.DEALING
    turned_away = [Send("c0", Abort("the run began without client c0"))]
    for message in life("c0", 1)[2]:
        if isinstance(message, Hello | SealedKeys):
            assert again.receive("c0", message) == server.receive("c0", message) == turned_away
    for name in NAMES[1:]:
        assert (
            again.receive(name, INBOX_SAID[name])
            == server.receive(name, INBOX_SAID[name])
            == [Send(name, second)]
        )
    # and one dealer more than can be missed ends the run, as it would have
    assert recorded(again.deadline()) == recorded(server.deadline()) != []


@BOTH_MASKS
def test_a_server_opens_no_round_before_all_have_made_keys_and_are_ready(masks: Masks) -> None:
    records = server_life(masks=masks)
    plan = FEDERATIONS[masks].plan
    agreed = next(i for i, record in enumerate(records) if isinstance(record, AllReady))
    for n in range(1, agreed + 1):
        state = "agreeing" if n == agreed else "dealing"
        for following in records[agreed], records[agreed + 1]:
            if n == agreed and isinstance(following, AllReady):
                continue
            kind = type(following).__name__
            match = f"entry {n + 1} of .*, {kind}, .* is {state} cannot take the decision"
            with pytest.raises(LocalProtocolError, match=match):
                restored_server([*records[:n], following], plan)


def test_a_server_that_was_restarted_before_it_named_a_dealer_collects_hellos_anew() -> None:
    server = restored_server([])
    assert server.state is ServerState.JOINING
    answers = [server.receive(name, INBOX_SAID[name]) for name in NAMES]
    assert recorded(answers[-1]) == SERVER_RECORDS[:1]


def server_changed(n: int, **changes: Any) -> list[Message]:
    records = list(SERVER_RECORDS)
    records[n] = msgspec.structs.replace(records[n], **changes)
    return records


OTHER_HELLO = msgspec.structs.replace(DEALT[3], plan_digest=bytes(32))
CONFIRMED = SERVER_RECORDS[6].confirmed  # type: ignore[union-attr]  # Confirmations


@pytest.mark.parametrize(
    ("match", "records"),
    [
        (
            "entry 1 of .*, SealedKeys, .* a server that is joining cannot take the decision",
            SERVER_RECORDS[1:],
        ),
        (
            "entry 2 of .*, Broadcast, .* that is dealing cannot take the decision",
            [SERVER_RECORDS[0], *SERVER_RECORDS[3:]],
        ),
        (
            "entry 2 of .*, Deal, .* not name fewer",
            [SERVER_RECORDS[0], *SERVER_RECORDS],
        ),
        (
            "entry 3 of .*, SealedKeys, .* is agreeing cannot take the decision",
            [*SERVER_RECORDS[:2], *SERVER_RECORDS[1:]],
        ),
        (
            "entry 4 of .*, AllReady, .* is aggregating cannot take the decision",
            [*SERVER_RECORDS[:3], *SERVER_RECORDS[2:]],
        ),
        (
            "entry 4 of .*, Deal, .* is aggregating cannot take the decision",
            [*SERVER_RECORDS[:3], *SERVER_RECORDS],
        ),
        (
            "entry 4 of .*, Broadcast, .* is aggregating cannot take the decision",
            [*SERVER_RECORDS[:3], *SERVER_RECORDS[4:]],
        ),
        (
            "entry 3 of .*, AllReady, .* client 'c0' did not sign that it is ready",
            server_changed(2, signatures=(bytes(64),) * 4),
        ),
        (
            "entry 2 of .*, SealedKeys, .* a client that was not asked",
            server_changed(1, ciphertexts=()),
        ),
        (
            "entry 2 of .*, SealedKeys, .* is not signed by its maker",
            server_changed(1, commitment=bytes(32)),
        ),
        (
            "entry 8 of .*, Abort, .* the run is already finished",
            [*SERVER_RECORDS, Abort("late")],
        ),
        (
            "entry 2 of .*, Deal, .* the run is already aborted",
            [Abort("early"), *SERVER_RECORDS],
        ),
        ("entry 1 of .*, Hello, .* cannot take the decision", [INBOX_SAID["c0"]]),
        (
            "entry 1 of .*, Deal, .* at least 3 are needed",
            server_changed(0, hellos=DEALT[:2]),
        ),
        (
            "entry 1 of .*, Deal, .* holds another plan",
            server_changed(0, hellos=(*DEALT[:3], OTHER_HELLO)),
        ),
        (
            "entry 2 of .*, Deal, .* at least 3",
            [SERVER_RECORDS[0], Deal(BEGINNING, 2, DEALT[:2])],
        ),
        (
            "entry 2 of .*, Deal, .* not name fewer",
            [Deal(BEGINNING, 1, DEALT[:3]), Deal(BEGINNING, 2, DEALT)],
        ),
        (
            "entry 2 of .*, SealedKeys, .* is dealing cannot take the decision",
            server_changed(1, deal=bytes(32)),
        ),
        (
            "entry 4 of .* cannot be read: .* bytes of nonces for",
            server_changed(3, nonces=bytes(8)),
        ),
        (
            "entry 4 of .*, Broadcast, .* at least 3 are needed",
            server_changed(3, members=b"\x03", nonces=bytes(16)),
        ),
        (
            "entry 4 of .* cannot be read: the payload of a message",
            server_changed(3, payload=b""),
        ),
        (
            "entry 7 of .*, Confirmations, .* 2 clients; at least 3",
            server_changed(6, confirmed=CONFIRMED[:2]),
        ),
    ],
)
def test_records_that_do_not_fit_a_server_are_refused(match: str, records: list[Message]) -> None:
    with pytest.raises(LocalProtocolError, match=match):
        restored_server(records)


# Processes that die at every point of a step

SMALL = {
    (trust, masks): make_federation(
        make_plan(
            3,
            trust=trust,
            masks=masks,
            max_dropouts=1,
            n_clusters=1,
            n_features=1,
            n_iterations=2,
            estimate_loss=True,
        ),
        seed=2,
    )
    for trust in TrustMode
    for masks in Masks
}


MOMENTS = {
    masks: make_federation(
        make_plan(
            3,
            masks=masks,
            max_dropouts=1,
            n_clusters=1,
            n_features=1,
            algorithm=MOMENTLLOYD,
            epsilon=0.05,
        ),
        seed=2,
    )
    for masks in Masks
}


def play(
    federation: Federation, watch: Watch, crashes: dict[str, tuple[int, Crash, int]]
) -> Network:
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


@BOTH_MASKS
@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize("party", [SERVER, "c0", "c1"])
def test_whoever_dies_at_whatever_point_of_whichever_step_the_run_ends_as_ever(
    trust: TrustMode, party: str, masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit, after it, and after each number of letters; before every first step too.
    Nobody is left out.
    """
    watch = Watch.install(monkeypatch)
    federation = SMALL[trust, masks]
    n_steps = play(federation, watch, {}).n_steps[party]
    n_made = 2 if masks is Masks.PAIRWISE else 0  # keys of the other two
    assert n_steps == {SERVER: 7 + n_made, "c0": 11, "c1": 11}[party]
    points = [(Crash.BEFORE_COMMIT, 0), (Crash.AFTER_COMMIT, 0)]
    points += [(Crash.AFTER_SENDING_SOME, n) for n in range(1, 4 if party == SERVER else 2)]
    for step in range(1, n_steps + 1):
        for when, n_sent in points:
            network = play(federation, watch, {party: (step, when, n_sent)})
            assert network.n_crashes.total() == 1
            assert network.server.state is ServerState.FINISHED
            assert {result.included for result in network.results.values()} == {
                (network.names,) * 3
            }
            assert set(network.results) == set(network.names)


@BOTH_MASKS
@pytest.mark.parametrize("party", [SERVER, "c0", "c1"])
def test_the_same_holds_where_parameters_travel(
    party: str, masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step, at one point of it in turn. A round has two steps and a step three points, so
    all meet within three.
    """
    watch = Watch.install(monkeypatch)
    n_rounds = len(MOMENTS[masks].plan.mechanism.all_rounds)
    n_steps = play(MOMENTS[masks], watch, {}).n_steps[party]
    assert (
        n_steps
        == {
            SERVER: (6 if masks is Masks.PAIRWISE else 4) + 2 * n_rounds,
            "c0": 5 + 3 * n_rounds,
            "c1": 5 + 2 * n_rounds,
        }[party]
    )
    points = [(Crash.BEFORE_COMMIT, 0), (Crash.AFTER_COMMIT, 0), (Crash.AFTER_SENDING_SOME, 1)]
    for step in range(1, n_steps + 1):
        when, n_sent = points[step % 3]
        network = play(MOMENTS[masks], watch, {party: (step, when, n_sent)})
        assert network.n_crashes.total() == 1
        assert {result.included for result in network.results.values()} == {
            (network.names,) * n_rounds
        }
        assert set(network.results) == set(network.names)


def test_without_fresh_nonces_a_lost_step_would_hide_two_answers_under_one_mask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the check of masks is worth: entropy that repeats itself, and an upload that was never
    committed.
    """
    watch = Watch.install(monkeypatch)
    monkeypatch.setattr("virtual_network.entropy", lambda _name: bytes)
    network = Network(
        SMALL[TrustMode.CLIENT_NOISE, Masks.GROUP], watch, {"c1": (4, Crash.BEFORE_COMMIT, 0)}
    )
    network.settle()
    assert sorted(map(len, watch.hidden.values()))[-2:] == [1, 2]
    with pytest.raises(AssertionError):
        network.check_one_plaintext_per_mask()


@BOTH_MASKS
@pytest.mark.parametrize("trust", TrustMode)
def test_everybody_dies_in_the_same_step(
    trust: TrustMode, masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch.install(monkeypatch)
    for when in Crash:
        for step in range(1, 7):
            network = play(
                SMALL[trust, masks],
                watch,
                dict.fromkeys((SERVER, "c0", "c1", "c2"), (step, when, 1)),
            )
            assert network.n_crashes.total() == 4
            assert set(network.results) == set(network.names)


def test_a_stored_record_that_this_version_cannot_read_is_named() -> None:
    """As after an update in the middle of a run, if the bytes of messages have changed."""
    older = b"\x04\x95\x07\x01\x91\x92\xa2c0\xc4\x08nonce678\xc4\x00"
    stored = [encode(record) for record in SERVER_RECORDS[:2]]
    assert decode_records(stored, PLAN) == SERVER_RECORDS[:2]
    with pytest.raises(LocalProtocolError, match=r"entry 3.*be read.*Nothing"):
        decode_records([*stored, older], PLAN)
