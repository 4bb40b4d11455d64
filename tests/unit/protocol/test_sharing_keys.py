"""How clients share keys, with either kind of masks: every lie that a server can tell, and what
never leaves a client.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import Action, ClientResult, Keep, Record, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.joining import Joining
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Deal,
    Hello,
    KeyBox,
    Message,
    SealedKeys,
    Upload,
    encode,
    message_digest,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.pairs import (
    CIPHERTEXT_BYTES,
    PAIR_MESSAGE_BYTES,
    PairKey,
    encapsulate,
)
from fastlloyd.federation.transport.in_process import run_in_process
from federation import (
    Federation,
    among,
    client_after,
    identity,
    inboxes,
    make_federation,
    make_plan,
)
from lies import changed, flipped, forged_hello, owned_hello, pair_of, refused, run_keys, with_hello

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@dataclass(frozen=True)
class Joined:
    """A federation of four, of whom three are enough, and all that its clients are sent while they
    join.
    """

    federation: Federation
    deal: Deal
    key_boxes: dict[str, KeyBox]

    @classmethod
    def of(cls, masks: Masks) -> "Joined":
        federation = make_federation(make_plan(4, max_dropouts=1, masks=masks), seed=5)
        received = inboxes(federation)
        deal = received["c0"][0]
        assert isinstance(deal, Deal)
        boxes = {
            name: box
            for name, inbox in received.items()
            for box in inbox
            if isinstance(box, KeyBox)
        }
        return cls(federation, deal, boxes)

    @property
    def plan(self) -> Plan:
        return self.federation.plan

    def named(self, *names: str) -> Deal:
        """The Deal of these clients."""
        return Deal(tuple(hello for hello in self.deal.hellos if hello.name in names))

    def refuses(self, name: str, before: Sequence[Message], lie: Message, match: str) -> None:
        refused(self.federation, name, before, lie, match)


JOINED = {masks: Joined.of(masks) for masks in Masks}
BOTH = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
NAMES = JOINED[Masks.GROUP].plan.names


def sent(actions: Sequence[Action]) -> list[Message]:
    return [action.message for action in actions if isinstance(action, Send)]


def kept(actions: Sequence[Action]) -> dict[str, bytes]:
    return {action.name: action.secret for action in actions if isinstance(action, Keep)}


def sealed_in(actions: Sequence[Action]) -> SealedKeys:
    (sealed,) = sent(actions)
    assert isinstance(sealed, SealedKeys)
    return sealed


def rounds_of(client: ClientSession) -> ClientRounds:
    assert isinstance(client._phase, ClientRounds)
    return client._phase


def joining_of(client: ClientSession) -> Joining:
    assert isinstance(client._phase, Joining)
    return client._phase


def changes_nothing(client: ClientSession, message: Message) -> None:
    """Nothing is recorded, kept or drawn; at most the client says again what it said last."""
    state, said = client.state, client.resend()
    assert client.receive(message) in ([], said)
    assert (client.state, client.resend()) == (state, said)


# Who is named


INVALID_ML_KEM = b"\xff" * 1184  # numbers of 4095, where all are below 3329
Lie = Callable[[Joined], Deal]
FALSE_DEALS: dict[str, Lie] = {
    "the Deal has 2 clients; at least 3 are needed": lambda run: Deal(run.deal.hellos[:2]),
    "the Deal has 0 clients; at least 3 are needed": lambda _: Deal(()),
    "the Deal names a client twice": lambda run: Deal(
        (*run.deal.hellos[:2], *run.deal.hellos[1:3])
    ),
    "the Deal is not in the order of the plan": lambda run: Deal(
        (run.deal.hellos[1], run.deal.hellos[0], *run.deal.hellos[2:])
    ),
    "names 'zoe', which is not": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "zoe", "zoe")
    ),
    # made in another's name: by another client, or by whoever has no key of the plan at all
    "Hello of client 'c3' is not signed": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "c3", "c2")
    ),
    "the Hello of client 'c3' is not signed": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "c3", "server")
    ),
    "of client 'c3' is not signed with its key": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "c3", "c3", signature=bytes(64))
    ),
    "client 'c3' holds another plan": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "c3", "c3", plan_digest=bytes(32))
    ),
    "client 'c3' speaks of another run": lambda run: with_hello(
        run.deal, 3, forged_hello(run.plan, "c3", "c3", run_id=bytes(16))
    ),
    # signed by its owner, and of no use to anybody
    "'c3' has a key that cannot be used: .* X25519": lambda run: with_hello(
        run.deal, 3, owned_hello(run.plan, run.deal.hellos[3], exchange_key=bytes(32))
    ),
    "'c3' has a key that cannot be used: .* ML-KEM-768": lambda run: with_hello(
        run.deal, 3, owned_hello(run.plan, run.deal.hellos[3], encapsulation_key=INVALID_ML_KEM)
    ),
}


@BOTH
@pytest.mark.parametrize("name", ["c0", "c1"])
@pytest.mark.parametrize("match", FALSE_DEALS)
def test_nobody_makes_keys_for_a_false_deal(match: str, name: str, masks: Masks) -> None:
    run = JOINED[masks]
    run.refuses(name, [], FALSE_DEALS[match](run), match)


@BOTH
@pytest.mark.parametrize("field", ["exchange_key", "encapsulation_key", "run_key", "signature"])
def test_no_key_of_a_hello_can_be_exchanged_on_the_way(field: str, masks: Masks) -> None:
    run = JOINED[masks]
    for lie in (flipped(getattr(run.deal.hellos[2], field)), getattr(run.deal.hellos[3], field)):
        hello = changed(run.deal.hellos[2], **{field: lie})
        run.refuses(
            "c1",
            [],
            with_hello(run.deal, 2, hello),
            "Hello of client 'c2' is not signed with its key",
        )


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_a_client_shares_keys_only_in_a_deal_that_holds_its_own_hello(
    name: str, masks: Masks
) -> None:
    run, at = JOINED[masks], NAMES.index(name)
    without = run.named(*(other for other in NAMES if other != name))
    run.refuses(name, [], without, f"does not hold the Hello of client '{name}'")
    of_another_life = Roster.of(run.plan).hello(name, run_keys("another life"), identity(name))
    run.refuses(
        name,
        [],
        with_hello(run.deal, at, of_another_life),
        f"does not hold the Hello of client '{name}'",
    )


@BOTH
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_further_deal_names_no_other_clients_and_no_other_keys(name: str, masks: Masks) -> None:
    """One Hello per name for the whole run, though its owner signed another: it would be led into
    two runs at once.
    """
    run = JOINED[masks]
    smaller, match = (
        run.named("c0", "c1", "c2"),
        "names clients, or keys of clients, that the one before did not",
    )
    second = Roster.of(run.plan).hello("c3", run_keys("another life"), identity("c3"))
    run.refuses(name, [run.deal], with_hello(run.deal, 3, second), match)
    others = [other for other in NAMES[:3] if other != name]
    run.refuses(name, [smaller], run.named(name, others[0], "c3"), match)
    for lie in (Deal(smaller.hellos[:2]), Deal(()), Deal(run.deal.hellos[::-1])):
        with pytest.raises(RemoteProtocolError):
            client_after(run.federation, name, [run.deal]).receive(lie)


@BOTH
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_larger_deal_is_late_and_changes_nothing(name: str, masks: Masks) -> None:
    """An honest server sent it before the smaller one. A client says again where it is, and the run
    goes on as it was.
    """
    run = JOINED[masks]
    client = client_after(run.federation, name, [run.named("c0", "c1", "c2")])
    key_set = joining_of(client).key_set
    for _ in range(2):
        changes_nothing(client, run.deal)
        assert joining_of(client).key_set is key_set


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_after_its_first_upload_a_client_takes_no_other_key_set(name: str, masks: Masks) -> None:
    run = JOINED[masks]
    client = client_after(run.federation, name, [run.deal, run.key_boxes[name]])
    (upload,) = sent(client.resend())
    assert isinstance(upload, Upload)
    left_out = NAMES[1] if name == NAMES[0] else NAMES[0]
    smaller = run.named(*(other for other in NAMES if other != left_out))
    changes_nothing(client, smaller)
    changes_nothing(client, run.deal)
    another = changed(run.key_boxes[name], deal=message_digest(smaller))
    run.refuses(
        name,
        [run.deal, run.key_boxes[name]],
        another,
        "KeyBox is not expected by a client that is aggregating",
    )


# What is made for whom


def made_by_server(run: Joined, maker: str, name: str) -> bytes:
    """A pair message for a client, by one who knows all that travels and has an X25519 key of its
    own.
    """
    key_set, server = KeySet(Roster.of(run.plan), run.deal), run_keys("server")
    secret, ciphertext = encapsulate(key_set.hellos[name].encapsulation_key)
    exchanged = server.exchange(key_set.hellos[name].exchange_key)
    pair = PairKey.agree(
        key_set.pair(maker, name),
        exchange_secret=exchanged,
        kem_secret=secret,
        ciphertext=ciphertext,
    )
    return pair.message(ciphertext)


def instead(box: KeyBox, at: int, message: bytes) -> KeyBox:
    return changed(box, ciphertexts=(*box.ciphertexts[:at], message, *box.ciphertexts[at + 1 :]))


DOES_NOT_FIT = (
    "the key that client 'c0' made for this client, as the server relayed it, does not fit"
)
DOES_NOT_OPEN = (
    "the group key that client 'c0' sealed for this client, as the server relayed it, does not open"
)
FalseBox = Callable[[Joined, str, KeyBox], KeyBox]


def bit_of_ciphertext(at: int) -> FalseBox:
    return lambda _, _name, box: instead(box, 0, flipped(box.ciphertexts[0], at))


def bit_of_box(at: int) -> FalseBox:
    return lambda _, _name, box: changed(box, box=flipped(box.box or b"", at))


FALSE_KEY_BOXES: dict[str, tuple[str, FalseBox]] = {
    "a ciphertext for another": (
        DOES_NOT_FIT,
        lambda run, name, box: instead(box, 0, of_another(run, name).ciphertexts[0]),
    ),
    "another's ciphertext with this HMAC": (
        DOES_NOT_FIT,
        lambda run, name, box: instead(
            box, 0, of_another(run, name).ciphertexts[0][:-32] + box.ciphertexts[0][-32:]
        ),
    ),
    "one that the server made": (
        DOES_NOT_FIT,
        lambda run, name, box: instead(box, 0, made_by_server(run, "c0", name)),
    ),
    **{
        f"byte {at} of ciphertext and HMAC": (DOES_NOT_FIT, bit_of_ciphertext(at))
        for at in (0, CIPHERTEXT_BYTES - 1, CIPHERTEXT_BYTES, PAIR_MESSAGE_BYTES - 1)
    },
    **{
        f"byte {at} of nonce, box and tag": (DOES_NOT_OPEN, bit_of_box(at))
        for at in (0, 12, 44, 59)
    },
    "zeros for a box": (DOES_NOT_OPEN, lambda _, _n, box: changed(box, box=bytes(60))),
    "another's box": (
        DOES_NOT_OPEN,
        lambda run, name, box: changed(box, box=of_another(run, name).box),
    ),
    "no box": ("and 0 of the group; expected . and 1", lambda _, _n, box: changed(box, box=None)),
    "a ciphertext too few": (
        "was sent . keys of pairs",
        lambda _, _n, box: changed(box, ciphertexts=box.ciphertexts[:-1]),
    ),
    "a ciphertext too many": (
        "was sent . keys of pairs",
        lambda _, _n, box: changed(box, ciphertexts=(*box.ciphertexts, box.ciphertexts[-1])),
    ),
    "no ciphertext": ("was sent 0 keys of pairs", lambda _, _n, box: changed(box, ciphertexts=())),
}


def of_another(run: Joined, name: str) -> KeyBox:
    """What the server was given for another client than that one."""
    return run.key_boxes["c2" if name == "c3" else "c3"]


@BOTH
@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize(("match", "lie"), FALSE_KEY_BOXES.values(), ids=FALSE_KEY_BOXES)
def test_a_client_uploads_under_no_key_that_does_not_fit(
    match: str, lie: FalseBox, name: str, masks: Masks
) -> None:
    run = JOINED[masks]
    run.refuses(name, [run.deal], lie(run, name, run.key_boxes[name]), match)


@BOTH
def test_a_dealer_takes_neither_a_box_nor_a_ciphertext(masks: Masks) -> None:
    run = JOINED[masks]
    assert run.key_boxes["c0"] == KeyBox(message_digest(run.deal), (), None)
    for lie in (
        changed(run.key_boxes["c0"], box=run.key_boxes["c1"].box),
        changed(run.key_boxes["c0"], box=bytes(60)),
        changed(run.key_boxes["c0"], ciphertexts=run.key_boxes["c1"].ciphertexts[:1]),
    ):
        run.refuses(
            "c0",
            [run.deal],
            lie,
            "client 'c0' was sent . keys of pairs and . of the group; expected 0 and 0",
        )


def test_every_ciphertext_of_a_client_is_checked_and_its_maker_named() -> None:
    """Pairwise, c3 has one from each of three: one changed is enough, and so are two exchanged."""
    run = JOINED[Masks.PAIRWISE]
    box = run.key_boxes["c3"]
    assert len(box.ciphertexts) == 3
    for at, maker in enumerate(NAMES[:3]):
        lie = instead(box, at, flipped(box.ciphertexts[at]))
        run.refuses("c3", [run.deal], lie, f"the key that client '{maker}' made for this client")
    exchanged = changed(
        box, ciphertexts=(box.ciphertexts[0], box.ciphertexts[2], box.ciphertexts[1])
    )
    run.refuses("c3", [run.deal], exchanged, "the key that client 'c1' made for this client")
    twice = changed(box, ciphertexts=(box.ciphertexts[0], *box.ciphertexts[:2]))
    run.refuses("c3", [run.deal], twice, "the key that client 'c1' made for this client")


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_a_key_box_of_another_deal_is_not_for_this_one(name: str, masks: Masks) -> None:
    """It belongs to another step: the client says again where it is and shares no key. With the
    right Deal, it does.
    """
    run = JOINED[masks]
    for deal in (bytes(32), message_digest(run.named("c0", "c1", "c2"))):
        client = client_after(run.federation, name, [run.deal])
        said = client.resend()
        assert client.receive(changed(run.key_boxes[name], deal=deal)) == said != []
        assert client.state.value == "dealing"
        client.receive(run.key_boxes[name])
        assert client.state.value == "aggregating"
    early = client_after(run.federation, name, [])
    assert early.receive(run.key_boxes[name]) == early.resend()
    assert early.state is ClientState.JOINING


@BOTH
def test_what_was_made_for_a_larger_deal_is_no_key_of_a_smaller_one(masks: Masks) -> None:
    """Relabelled by the server: the box is bound to its Deal, though the key of the pair is the
    same.
    """
    run = JOINED[masks]
    smaller = run.named("c0", "c1", "c2")
    relabelled = changed(run.key_boxes["c1"], deal=message_digest(smaller))
    run.refuses("c1", [run.deal, smaller], relabelled, DOES_NOT_OPEN)
    of_dealer = client_after(run.federation, "c0", [run.deal, smaller])
    changes_nothing(of_dealer, run.key_boxes["c0"])
    assert of_dealer.state is ClientState.DEALING


@BOTH
def test_a_client_adopts_one_group_key_per_run(masks: Masks) -> None:
    """Even one that its rightful dealer sealed, under the same key of the pair, to the same
    Deal.
    """
    run = JOINED[masks]
    pair = pair_of(run.plan, run.deal, "c0", "c1", run.key_boxes["c1"].ciphertexts[0])
    second = changed(
        run.key_boxes["c1"], box=pair.seal(GroupKey(bytes(32)), message_digest(run.deal))
    )
    assert (
        client_after(run.federation, "c1", [run.deal, second]).state is ClientState.AGGREGATING
    )  # as the first it is fine
    match = "KeyBox is not expected by a client that is aggregating"
    run.refuses("c1", [run.deal, run.key_boxes["c1"]], second, match)


# Sums over all of the key set


def test_pairwise_a_sum_needs_everybody_and_the_first_ones_nonce() -> None:
    run = JOINED[Masks.PAIRWISE]
    before = inboxes(run.federation)["c1"][:3]
    shown = before.pop()
    assert isinstance(shown, Broadcast)
    for name in NAMES:
        lie = among(NAMES, shown, {name: None})
        run.refuses("c1", before, lie, "has 3 clients; at least 4 are needed")
    run.refuses("c1", before, among(NAMES, shown, {"c0": bytes(8)}), "does not open")
    run.refuses(
        "c1",
        before,
        among(NAMES, shown, {"c1": bytes(8)}),
        "names an upload of client 'c1' that it did not make",
    )


def test_pairwise_no_part_of_the_uploads_opens_whoever_holds_the_group_key() -> None:
    """What the server and one client pool: the sum of fewer uploads than all is uniform to them."""
    run = JOINED[Masks.PAIRWISE]
    uploads: dict[str, Upload] = {}

    def watch(sender: str, _recipient: str, message: Message, data: bytes) -> tuple[bytes]:
        if isinstance(message, Upload) and message.round == 1:
            uploads[sender] = message
        return (data,)

    run_in_process(run.federation.server(), run.federation.clients(), link=watch)
    curious = rounds_of(client_after(run.federation, "c1", [run.deal, run.key_boxes["c1"]]))
    ring, n_words = run.plan.ring, run.plan.n_words(run.plan.mechanism.all_rounds[0])

    def summed(names: Sequence[str]) -> bytes:
        total = ring.zeros(n_words)
        for name in names:
            total = ring.add(total, ring.from_bytes(uploads[name].payload, n_words))
        return ring.to_bytes(total)

    nonces = {name: upload.nonce for name, upload in uploads.items()}
    assert curious._masked.open(summed(NAMES), nonces, n_words) is not None
    for left_out in NAMES:
        others = [name for name in NAMES if name != left_out]
        with pytest.raises(RemoteProtocolError, match="does not open"):
            curious._masked.open(summed(others), nonces, n_words)
        with pytest.raises(RemoteProtocolError, match="does not open"):
            curious._masked.open(summed([left_out]), nonces, n_words)


# What leaves a client, and what does not


@BOTH
def test_the_group_key_is_among_the_dealers_secrets_and_in_no_message(masks: Masks) -> None:
    run = JOINED[masks]
    travelled: list[bytes] = []

    def watch(_sender: str, _recipient: str, _message: Message, data: bytes) -> tuple[bytes]:
        travelled.append(data)
        return (data,)

    outcome = run_in_process(run.federation.server(), run.federation.clients(), link=watch)
    assert all(isinstance(end, ClientResult) for end in outcome.clients.values())
    secrets: dict[str, dict[str, bytes]] = {}
    recorded: list[bytes] = []
    for name in NAMES:
        client = run.federation.client(name)
        actions = [*client.start(), *client.receive(run.deal), *client.receive(run.key_boxes[name])]
        secrets[name] = kept(actions)
        recorded += [encode(action.message) for action in actions if isinstance(action, Record)]
        assert rounds_of(client)._keys.group_key.secret == secrets["c0"]["group-key for 4"]
    assert {name for name in NAMES if "group-key for 4" in secrets[name]} == {"c0"}
    of_pairs = {
        name: [key for key in secrets[name] if key.startswith("pair-secret")] for name in NAMES
    }
    speaks = NAMES if masks is Masks.PAIRWISE else NAMES[:1]
    assert of_pairs == {
        name: [f"pair-secret with {later}" for later in NAMES[at + 1 :]] if name in speaks else []
        for at, name in enumerate(NAMES)
    }
    said = b"".join([*travelled, *recorded])
    assert len(travelled) > 4 * 5
    for name in NAMES:
        for secret in secrets[name].values():
            for start in range(0, len(secret), 32):
                assert secret[start : start + 32] not in said
    # each box is for one of the others: there is none that the dealer itself could open
    assert [box.box is None for box in run.key_boxes.values()] == [True, False, False, False]


@BOTH
@pytest.mark.parametrize("left_out", NAMES[1:])
def test_a_smaller_deal_has_a_fresh_group_key_and_the_same_keys_of_pairs(
    left_out: str, masks: Masks
) -> None:
    """Whoever is left out was sealed the group key before, or may have been: it must not open what
    comes now.
    """
    run = JOINED[masks]
    dealer, others = run.federation.client("c0"), [name for name in NAMES[1:] if name != left_out]
    dealer.start()
    smaller = run.named("c0", *others)
    first, second = dealer.receive(run.deal), dealer.receive(smaller)
    before, after = sealed_in(first), sealed_in(second)
    assert after.deal == message_digest(smaller) != before.deal
    made = dict(zip(NAMES[1:], before.ciphertexts, strict=True))
    assert after.ciphertexts == tuple(made[name] for name in others)
    assert not set(before.boxes) & set(after.boxes)
    assert list(kept(second)) == ["group-key for 3"]
    assert kept(second)["group-key for 3"] != kept(first)["group-key for 4"]
    dealer.receive(KeyBox(after.deal, (), None))
    assert rounds_of(dealer)._keys.group_key.secret == kept(second)["group-key for 3"]


def test_pairwise_every_client_sends_the_ciphertexts_it_made_before() -> None:
    run = JOINED[Masks.PAIRWISE]
    smaller = run.named("c0", "c1", "c3")
    for name, n_later in [("c0", 2), ("c1", 1), ("c3", 0)]:
        client = run.federation.client(name)
        client.start()
        first, second = client.receive(run.deal), client.receive(smaller)
        assert len(sealed_in(second).ciphertexts) == n_later
        assert set(sealed_in(second).ciphertexts) <= set(sealed_in(first).ciphertexts)
        assert not [key for key in kept(second) if key.startswith("pair-secret")]


@BOTH
def test_when_the_dealer_is_gone_the_next_one_draws_a_group_key_of_its_own(masks: Masks) -> None:
    run = JOINED[masks]
    client = run.federation.client("c1")
    client.start()
    first = client.receive(run.deal)
    assert "group-key for 4" not in kept(first)
    second = client.receive(run.named("c1", "c2", "c3"))
    assert "group-key for 3" in kept(second)
    sealed = sealed_in(second)
    assert len(sealed.boxes) == len(sealed.ciphertexts) == 2
    if masks is Masks.PAIRWISE:
        assert sealed.ciphertexts == sealed_in(first).ciphertexts
        assert list(kept(second)) == ["group-key for 3"]
    else:
        assert sent(first) == []
        assert list(kept(second)) == [
            "pair-secret with c2",
            "pair-secret with c3",
            "group-key for 3",
        ]


@BOTH
def test_a_run_that_goes_on_without_a_client_that_made_no_keys_equals_the_plain_one(
    masks: Masks,
) -> None:
    """The dealer, or with pairwise masks any other, says Hello and is gone; the others share keys
    anew and finish.
    """
    run = JOINED[masks]
    for silent in NAMES if masks is Masks.PAIRWISE else NAMES[:1]:

        def link(
            sender: str, _recipient: str, message: Message, data: bytes, silent: str = silent
        ) -> tuple[bytes, ...]:
            return () if sender == silent and not isinstance(message, Hello) else (data,)

        outcome = run_in_process(run.federation.server(), run.federation.clients(), link=link)
        others = tuple(name for name in NAMES if name != silent)
        assert outcome.server.included == (others,) * 3
        assert [
            name for name, end in outcome.clients.items() if isinstance(end, ClientResult)
        ] == list(others)


@BOTH
def test_a_key_of_a_pair_is_bound_to_plan_run_names_hellos_and_ciphertext(masks: Masks) -> None:
    """By the context that clients hand to the derivation: each part of it changes with what it
    stands for.
    """
    run = JOINED[masks]
    key_set = KeySet(Roster.of(run.plan), run.deal)
    context = key_set.pair("c2", "c0")
    assert context == key_set.pair("c0", "c2")
    assert (context.earlier, context.later) == ("c0", "c2")
    assert (context.plan_digest, context.run_id) == (
        run.plan.digest,
        bytes.fromhex(run.plan.run_id),
    )
    hellos = [message_digest(run.deal.hellos[at]) for at in (0, 2)]
    assert [context.earlier_hello, context.later_hello] == hellos


@BOTH
def test_what_the_run_key_signs_names_its_purpose_the_run_and_the_client(masks: Masks) -> None:
    run = JOINED[masks]
    key_set = KeySet(Roster.of(run.plan), run.deal)
    start = run.plan.digest, bytes.fromhex(run.plan.run_id)
    said = key_set.proposal("c1", 7, b"s" * 16, b"box")
    assert said == length_prefixed(
        b"fastlloyd/v1/signed-proposal", *start, b"c1", (7).to_bytes(8, "big"), b"s" * 16, b"box"
    )
    assert key_set.confirmation("c1", b"m" * 32) == length_prefixed(
        b"fastlloyd/v1/signed-confirmation", *start, b"c1", b"m" * 32
    )
