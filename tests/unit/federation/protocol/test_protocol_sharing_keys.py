"""How clients share keys, with either kind of masks: every lie that a server can tell, and what
never leaves a client.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Keep,
    Record,
    Send,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.joining import MAX_BEGINNINGS, Joining
from fastlloyd.federation.protocol.messages import (
    BEGINNING_BYTES,
    AllReady,
    BadKeys,
    Broadcast,
    Deal,
    Hello,
    KeyBox,
    Message,
    Ready,
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
    CHECKED_BYTES,
    CIPHERTEXT_BYTES,
    PAIR_MESSAGE_BYTES,
    PairKey,
    encapsulate,
)
from fastlloyd.federation.transport.in_process import run_in_process
from federation import (
    BEGINNING,
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
    all_ready: AllReady

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
        all_ready = received["c0"][2]
        assert isinstance(all_ready, AllReady)
        return cls(federation, deal, boxes, all_ready)

    @property
    def plan(self) -> Plan:
        return self.federation.plan

    def named(self, *names: str, attempt: int = 2) -> Deal:
        """The Deal of these clients."""
        return Deal(
            BEGINNING, attempt, tuple(hello for hello in self.deal.hellos if hello.name in names)
        )

    def inbox(self, name: str) -> list[Message]:
        """What a client is sent before it uploads."""
        return [self.deal, self.key_boxes[name], self.all_ready]

    def refuses(self, name: str, before: Sequence[Message], lie: Message, match: str) -> None:
        refused(self.federation, name, before, lie, match)


JOINED = {masks: Joined.of(masks) for masks in Masks}
BOTH = pytest.mark.parametrize("masks", Masks, ids=lambda masks: masks.value)
NAMES = JOINED[Masks.GROUP].plan.names
FIRST_KEY, SECOND_KEY = "group-key of attempt 1", "group-key of attempt 2"


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
    "the Deal has 2 clients; at least 3 are needed": lambda run: Deal(
        BEGINNING, 1, run.deal.hellos[:2]
    ),
    "the Deal has 0 clients; at least 3 are needed": lambda _: Deal(BEGINNING, 1, ()),
    "the Deal names a client twice": lambda run: Deal(
        BEGINNING, 1, (*run.deal.hellos[:2], *run.deal.hellos[1:3])
    ),
    "the Deal is not in the order of the plan": lambda run: Deal(
        BEGINNING, 1, (run.deal.hellos[1], run.deal.hellos[0], *run.deal.hellos[2:])
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
    "in another run": lambda run: with_hello(
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
def test_a_client_shares_keys_only_in_a_deal_that_holds_the_hello_of_this_life(
    name: str, masks: Masks
) -> None:
    """A Deal with a Hello that it signed in an earlier beginning may be on its way still."""
    run, at = JOINED[masks], NAMES.index(name)
    without = run.named(*(other for other in NAMES if other != name))
    run.refuses(name, [], without, f"'{name}', but does not contain its Hello")
    of_another_life = Roster.of(run.plan).hello(name, run_keys("another life"), identity(name))
    late = with_hello(run.deal, at, of_another_life)
    client = client_after(run.federation, name, [])
    for message in (late, changed(run.key_boxes[name], deal=message_digest(late))):
        changes_nothing(client, message)
    assert joining_of(client).key_set is None
    never_said = changed(of_another_life, signature=bytes(64))
    what = f"the Hello of client '{name}' is not signed with its key in the plan"
    run.refuses(name, [], with_hello(run.deal, at, never_said), what)


@BOTH
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_further_deal_names_no_other_clients_and_no_other_keys(name: str, masks: Masks) -> None:
    """One Hello per name for the whole run, though its owner signed another: it would be led into
    two runs at once.
    """
    run = JOINED[masks]
    smaller, match = (
        run.named("c0", "c1", "c2"),
        "must name some but not all",
    )
    second = Roster.of(run.plan).hello("c3", run_keys("another life"), identity("c3"))
    run.refuses(name, [run.deal], changed(with_hello(run.deal, 3, second), attempt=2), match)
    others = [other for other in NAMES[:3] if other != name]
    run.refuses(name, [smaller], run.named(name, others[0], "c3", attempt=3), match)
    run.refuses(name, [smaller], changed(run.deal, attempt=3), match)
    run.refuses(name, [smaller], changed(smaller, attempt=3), match)
    run.refuses(name, [run.deal], changed(smaller, attempt=1), match)  # one Deal for each number
    lies = (
        Deal(BEGINNING, 2, smaller.hellos[:2]),
        Deal(BEGINNING, 2, ()),
        Deal(BEGINNING, 2, run.deal.hellos[::-1]),
    )
    for lie in lies:
        with pytest.raises(RemoteProtocolError):
            client_after(run.federation, name, [run.deal]).receive(lie)


@BOTH
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_deal_of_an_earlier_attempt_is_late_and_changes_nothing(name: str, masks: Masks) -> None:
    """An honest server sent it before the smaller one. A client says again where it is, and the run
    goes on as it was.
    """
    run = JOINED[masks]
    client = client_after(run.federation, name, [run.named("c0", "c1", "c2")])
    key_set = joining_of(client).key_set
    for _ in range(2):
        changes_nothing(client, run.deal)
        assert joining_of(client).key_set is key_set


def of_beginning(deal: Deal, number: int) -> Deal:
    return changed(deal, beginning=bytes([number]) * BEGINNING_BYTES)


@BOTH
@pytest.mark.parametrize("name", NAMES[:3])
def test_a_deal_of_another_beginning_is_followed_with_keys_made_anew_and_none_of_an_earlier_one(
    name: str, masks: Masks
) -> None:
    """It may name more clients, and an earlier attempt; whatever comes of the one before is late
    then, also what had not come in it.
    """
    run = JOINED[masks]
    first, second = run.named("c0", "c1", "c2"), of_beginning(run.deal, 1)
    client = client_after(run.federation, name, [first])
    actions = client.receive(second)
    speaks = masks is Masks.PAIRWISE or name == "c0"
    fresh = {f"pair-secret with {other}" for other in NAMES[NAMES.index(name) + 1 :] if speaks}
    fresh |= {FIRST_KEY} if name == "c0" else set()
    assert set(kept(actions)) == {f"{known_as}, beginning 2" for known_as in fresh}
    assert [keys.deal for keys in sent(actions) if isinstance(keys, SealedKeys)] == (
        [message_digest(second)] if speaks else []
    )
    key_set = joining_of(client).key_set
    for late in (first, run.deal, changed(first, attempt=7), changed(run.deal, attempt=9)):
        changes_nothing(client, late)
        changes_nothing(client, changed(run.key_boxes[name], deal=message_digest(late)))
    assert joining_of(client).key_set is key_set


@BOTH
def test_a_client_follows_only_so_many_beginnings_with_one_hello(masks: Masks) -> None:
    run = JOINED[masks]
    deals = [of_beginning(run.deal, number) for number in range(MAX_BEGINNINGS + 1)]
    assert client_after(run.federation, "c1", deals[:-1]).outcome is None
    what = f"began the run more than {MAX_BEGINNINGS} times with this client's keys"
    run.refuses("c1", deals[:-1], deals[-1], what)


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_after_its_first_upload_a_client_takes_no_other_key_set(name: str, masks: Masks) -> None:
    run = JOINED[masks]
    client = client_after(run.federation, name, run.inbox(name))
    (upload,) = sent(client.resend())
    assert isinstance(upload, Upload)
    left_out = NAMES[1] if name == NAMES[0] else NAMES[0]
    smaller = run.named(*(other for other in NAMES if other != left_out))
    changes_nothing(client, smaller)
    changes_nothing(client, of_beginning(run.deal, 1))
    changes_nothing(client, run.deal)
    changes_nothing(client, changed(run.key_boxes[name], deal=message_digest(smaller)))
    another = changed(run.all_ready, deal=message_digest(smaller))
    run.refuses(name, run.inbox(name), another, "AllReady is not expected by a client that is agg")


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
    checked = pair.message(ciphertext)
    return checked + server.sign(key_set.made(maker, name, checked, None, None))


def instead(box: KeyBox, at: int, message: bytes) -> KeyBox:
    return changed(box, ciphertexts=(*box.ciphertexts[:at], message, *box.ciphertexts[at + 1 :]))


NOT_SIGNED = "the key of client 'c0' for client '..' is not signed by its maker"
FalseBox = Callable[[Joined, str, KeyBox], KeyBox]


def bit_of_ciphertext(at: int) -> FalseBox:
    return lambda _, _name, box: instead(box, 0, flipped(box.ciphertexts[0], at))


def bit_of_box(at: int) -> FalseBox:
    return lambda _, _name, box: changed(box, box=flipped(box.box or b"", at))


FALSE_KEY_BOXES: dict[str, tuple[str, FalseBox]] = {
    "a ciphertext for another": (
        NOT_SIGNED,
        lambda run, name, box: instead(box, 0, of_another(run, name).ciphertexts[0]),
    ),
    "another's ciphertext with this HMAC": (
        NOT_SIGNED,
        lambda run, name, box: instead(
            box,
            0,
            of_another(run, name).ciphertexts[0][:CIPHERTEXT_BYTES]
            + box.ciphertexts[0][CIPHERTEXT_BYTES:],
        ),
    ),
    "another commitment": (NOT_SIGNED, lambda _, _n, box: changed(box, commitment=bytes(32))),
    "one that the server made": (
        NOT_SIGNED,
        lambda run, name, box: instead(box, 0, made_by_server(run, "c0", name)),
    ),
    **{
        f"byte {at} of ciphertext and HMAC": (NOT_SIGNED, bit_of_ciphertext(at))
        for at in (0, CIPHERTEXT_BYTES - 1, CIPHERTEXT_BYTES, PAIR_MESSAGE_BYTES - 1)
    },
    **{f"byte {at} of nonce, box and tag": (NOT_SIGNED, bit_of_box(at)) for at in (0, 12, 44, 59)},
    "zeros for a box": (NOT_SIGNED, lambda _, _n, box: changed(box, box=bytes(60))),
    "another's box": (
        NOT_SIGNED,
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


LAST = f"byte {PAIR_MESSAGE_BYTES - 1} of ciphertext and HMAC"  # of the signature, that is


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


def signed(run: Joined, name: str, box: KeyBox, deal: Deal | None = None) -> KeyBox:
    """That box as the clients that made it would sign it, for the Deal that it is for."""
    key_set = KeySet(Roster.of(run.plan), deal or run.deal)
    messages = []
    for at, message in enumerate(box.ciphertexts):
        maker, checked = key_set.names[at], message[:CHECKED_BYTES]
        dealt = (None, None) if at else (box.commitment, box.box)
        messages.append(checked + run_keys(maker).sign(key_set.made(maker, name, checked, *dealt)))
    return changed(box, ciphertexts=tuple(messages))


def word_on(run: Joined, name: str, box: KeyBox) -> Message:
    """What a client says, and makes durable, that is sent this box."""
    client = client_after(run.federation, name, [run.deal])
    actions = client.receive(box)
    (word,) = sent(actions)
    assert client.resend() == [Send(SERVER, word)]
    recorded = [action.message for action in actions if isinstance(action, Record)]
    assert recorded == [box, word]
    return word


@BOTH
@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize(
    "lie",
    [lie for what, (match, lie) in FALSE_KEY_BOXES.items() if match == NOT_SIGNED and what != LAST],
)
def test_a_client_names_the_maker_that_signed_a_key_that_does_not_fit_and_goes_on_without_it(
    lie: FalseBox, name: str, masks: Masks
) -> None:
    """It has spent nothing, and is ready as soon as another attempt has keys that fit."""
    run = JOINED[masks]
    false = lie(run, name, run.key_boxes[name])
    assert word_on(run, name, signed(run, name, false)) == BadKeys(
        message_digest(run.deal), ("c0",)
    )
    told: list[Message] = [run.deal, signed(run, name, false)]
    client = client_after(run.federation, name, told)
    assert client.state is ClientState.DEALING
    changes_nothing(client, run.all_ready)
    client.receive(run.named("c1", "c2", "c3"))
    assert client.state is ClientState.DEALING
    assert joining_of(client).bad == ()


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_a_client_uploads_only_once_all_have_signed_that_they_are_ready_with_the_same_keys(
    name: str, masks: Masks
) -> None:
    run = JOINED[masks]
    before: list[Message] = [run.deal, run.key_boxes[name]]
    ready = run.all_ready
    assert client_after(run.federation, name, before).state is ClientState.READY
    for at, other in enumerate(NAMES):
        words = [bytes(64), ready.signatures[at - 1], flipped(ready.signatures[at])]
        for word in words:
            lie = (*ready.signatures[:at], word, *ready.signatures[at + 1 :])
            match = f"client '{other}' did not sign that it is ready"
            run.refuses(name, before, changed(ready, signatures=lie), match)
    for lie in (ready.signatures[:-1], (*ready.signatures, bytes(64)), ()):
        run.refuses(name, before, changed(ready, signatures=lie), "clients are ready for round 1")
    run.refuses(name, before, changed(ready, round=2), "ready for round 2; expected all 4 that")
    early = client_after(run.federation, name, before)
    assert early.receive(changed(ready, deal=bytes(32))) == early.resend()
    (upload,) = sent(early.receive(ready))
    assert isinstance(upload, Upload)


@BOTH
def test_a_dealer_takes_neither_a_box_nor_a_ciphertext(masks: Masks) -> None:
    run = JOINED[masks]
    commitment = run.key_boxes["c1"].commitment
    assert run.key_boxes["c0"] == KeyBox(message_digest(run.deal), commitment, (), None)
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
        run.refuses("c3", [run.deal], lie, f"the key of client '{maker}' for client 'c3' is not")
        lie = signed(run, "c3", instead(box, at, flipped(box.ciphertexts[at])))
        assert word_on(run, "c3", lie) == BadKeys(message_digest(run.deal), (maker,))
    all_of_them = changed(box, ciphertexts=tuple(map(flipped, box.ciphertexts)))
    word = word_on(run, "c3", signed(run, "c3", all_of_them))
    assert word == BadKeys(message_digest(run.deal), NAMES[:3])
    exchanged = changed(
        box, ciphertexts=(box.ciphertexts[0], box.ciphertexts[2], box.ciphertexts[1])
    )
    run.refuses("c3", [run.deal], exchanged, "the key of client 'c1' for client 'c3'")
    twice = changed(box, ciphertexts=(box.ciphertexts[0], *box.ciphertexts[:2]))
    run.refuses("c3", [run.deal], twice, "the key of client 'c1' for client 'c3'")


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
        assert client.state is ClientState.READY
    early = client_after(run.federation, name, [])
    assert early.receive(run.key_boxes[name]) == early.resend()
    assert early.state is ClientState.JOINING


@BOTH
def test_what_was_made_for_a_larger_deal_is_no_key_of_a_smaller_one(masks: Masks) -> None:
    """Relabelled by the server: its maker signed it for the other Deal. Signed anew, as a dealer
    that lies would, the box is bound to its Deal all the same.
    """
    run = JOINED[masks]
    smaller = run.named("c0", "c1", "c2")
    relabelled = changed(run.key_boxes["c1"], deal=message_digest(smaller))
    run.refuses("c1", [run.deal, smaller], relabelled, "is not signed by its maker")
    client = client_after(run.federation, "c1", [run.deal, smaller])
    word = sent(client.receive(signed(run, "c1", relabelled, smaller)))
    assert word == [BadKeys(message_digest(smaller), ("c0",))]
    of_dealer = client_after(run.federation, "c0", [run.deal, smaller])
    changes_nothing(of_dealer, run.key_boxes["c0"])
    assert of_dealer.state is ClientState.DEALING


@BOTH
def test_a_client_adopts_one_group_key_per_run(masks: Masks) -> None:
    """Even one that its rightful dealer sealed and signed, to the same Deal: as the first it is
    fine, but with it all others cannot be ready.
    """
    run, deal = JOINED[masks], message_digest(JOINED[masks].deal)
    pair = pair_of(run.plan, run.deal, "c0", "c1", run.key_boxes["c1"].ciphertexts[0])
    another = GroupKey(bytes(32))
    second = signed(
        run,
        "c1",
        changed(
            run.key_boxes["c1"], box=pair.seal(another, deal), commitment=another.commitment(deal)
        ),
    )
    assert isinstance(word_on(run, "c1", second), Ready)
    match = "client 'c0' did not sign that it is ready for round 1 with these keys"
    run.refuses("c1", [run.deal, second], run.all_ready, match)
    match = "different keys came"
    run.refuses("c1", [run.deal, run.key_boxes["c1"]], second, match)
    changes_nothing(client_after(run.federation, "c1", run.inbox("c1")), second)


# Sums over all of the key set


def test_pairwise_a_sum_needs_everybody_and_the_first_ones_nonce() -> None:
    run = JOINED[Masks.PAIRWISE]
    before = inboxes(run.federation)["c1"][:4]
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
        "names an upload that",
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
    curious = rounds_of(client_after(run.federation, "c1", run.inbox("c1")))
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
        actions = client.start()
        for message in run.inbox(name):
            actions += client.receive(message)
        secrets[name] = kept(actions)
        recorded += [encode(action.message) for action in actions if isinstance(action, Record)]
        assert rounds_of(client)._keys.group_key.secret == secrets["c0"][FIRST_KEY]
    assert {name for name in NAMES if FIRST_KEY in secrets[name]} == {"c0"}
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
    for message, name in zip(after.ciphertexts, others, strict=True):
        assert message[:CHECKED_BYTES] == made[name][:CHECKED_BYTES]
        assert message != made[name]  # signed for this Deal
    assert not set(before.boxes) & set(after.boxes)
    assert list(kept(second)) == [SECOND_KEY]
    assert kept(second)[SECOND_KEY] != kept(first)[FIRST_KEY]
    assert after.commitment is not None
    dealer.receive(KeyBox(after.deal, after.commitment, (), None))
    shared = joining_of(dealer)._shared
    assert shared is not None
    assert shared.group_key.secret == kept(second)[SECOND_KEY]


def test_pairwise_every_client_sends_the_ciphertexts_it_made_before() -> None:
    run = JOINED[Masks.PAIRWISE]
    smaller = run.named("c0", "c1", "c3")
    for name, n_later in [("c0", 2), ("c1", 1), ("c3", 0)]:
        client = run.federation.client(name)
        client.start()
        first, second = client.receive(run.deal), client.receive(smaller)
        assert len(sealed_in(second).ciphertexts) == n_later
        made = [
            {message[:CHECKED_BYTES] for message in sealed_in(actions).ciphertexts}
            for actions in (first, second)
        ]
        assert made[1] <= made[0]
        assert not [key for key in kept(second) if key.startswith("pair-secret")]


@BOTH
def test_when_the_dealer_is_gone_the_next_one_draws_a_group_key_of_its_own(masks: Masks) -> None:
    run = JOINED[masks]
    client = run.federation.client("c1")
    client.start()
    first = client.receive(run.deal)
    assert FIRST_KEY not in kept(first)
    second = client.receive(run.named("c1", "c2", "c3"))
    assert SECOND_KEY in kept(second)
    sealed = sealed_in(second)
    assert len(sealed.boxes) == len(sealed.ciphertexts) == 2
    if masks is Masks.PAIRWISE:
        made = [
            [message[:CHECKED_BYTES] for message in said.ciphertexts]
            for said in (sealed, sealed_in(first))
        ]
        assert made[0] == made[1]
        assert list(kept(second)) == [SECOND_KEY]
    else:
        assert sent(first) == []
        assert list(kept(second)) == [
            "pair-secret with c2",
            "pair-secret with c3",
            SECOND_KEY,
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
    assert key_set.ready("c1", 7, b"h" * 32) == length_prefixed(
        b"fastlloyd/v1/signed-ready", *start, b"c1", (7).to_bytes(8, "big"), b"h" * 32
    )
    of_pair = b"fastlloyd/v1/signed-pair-message", *start, b"c1", key_set.digest, b"c2", b"checked"
    assert key_set.made("c1", "c2", b"checked", None, None) == length_prefixed(*of_pair, b"", b"")
    assert key_set.made("c1", "c2", b"checked", b"C", b"box") == length_prefixed(
        *of_pair, b"C", b"box"
    )
