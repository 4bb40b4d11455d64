"""Phase of a client in which the clients of a run agree on shared keys, which the server does not
have.

Each client signs fresh keys into its Hello. The server relays the Hellos of the clients that are
present to all of them (`Deal`). Some pairs of clients need a common key, a pair key. Of two such
clients, the one that is earlier in the plan makes the key, with the public keys of the later one.
With pairwise masks every pair needs a key, otherwise only the pairs with the first client. The
first client, the dealer, also draws the group key and seals it for the others.

Every client checks the keys made for it. If all are valid, the client is ready, and signs
everything on which the clients must agree. If a signed key is invalid, the client names its maker,
and the server makes a new Deal without both of them. Until all clients are ready, no client masks
anything.

A run that ended before any budget was spent may start again: the server, a client or both start it
again. The Deals of each start (`Deal.beginning`) contain other random bytes. A client that missed
the end of one start joins the next with the same Hello. A client that ended the run says Hello with
fresh keys, and ignores Deals with its earlier Hello.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.client_phases import not_handled, not_said
from fastlloyd.federation.protocol.messages import (
    AllReady,
    BadKeys,
    Broadcast,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    Parameters,
    Ready,
    SealedKeys,
    message_digest,
)
from fastlloyd.federation.protocol.own_keys import Encapsulate, OwnKeys
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.secagg.masks import (
    GroupKey,
    GroupMasks,
    MaskScheme,
    PairwiseMasks,
    Secret,
)
from fastlloyd.federation.secagg.pairs import CIPHERTEXT_BYTES, PairKey, RunKeys
from fastlloyd.federation.secagg.ring import Ring

MAX_BEGINNINGS: Final = 8
"""Largest number of starts of a run that a client accepts with one Hello. Without this limit, a
server could start the run again for ever.
"""
MakeMasks = Callable[[GroupKey, Ring], GroupMasks]


class SharedKeys(Secret):
    """Keys of a client that has joined.

    key_set : clients that share keys.
    group_key : key that all of them share.
    masks : masks of this client's uploads.
    own : this client's own keys of the run.
    transcript_hash : h_0, the first transcript hash (`masked_round`), 32 bytes.
    """

    __slots__ = ("group_key", "key_set", "masks", "own", "transcript_hash")

    def __init__(
        self,
        key_set: KeySet,
        group_key: GroupKey,
        masks: MaskScheme,
        own: RunKeys,
        transcript_hash: bytes,
    ) -> None:
        self.key_set, self.group_key, self.masks, self.own = key_set, group_key, masks, own
        self.transcript_hash = transcript_hash


class Joining(Secret):
    """Phase of a client until it shares keys with the others.

    hello : Hello of this client.
    key_set : clients of the last accepted Deal, or None before.
    bad : names of the clients in `key_set` that made invalid keys for this client.

    Parameters
    ----------
    plan : the plan.
    roster : clients of the plan.
    name : name of this client.
    identity : private key of this client, which signs the Hello.
    kept : secrets that an earlier process stored, by name.
    random_bytes : source of the group key.
    encapsulate : as in `OwnKeys`.
    group_masks : makes the masks, if the plan has group masks. In a simulation the clients may
        share them.
    """

    __slots__ = (
        "_before",
        "_group_masks",
        "_late",
        "_name",
        "_own",
        "_plan",
        "_random_bytes",
        "_roster",
        "_shared",
        "bad",
        "hello",
        "key_set",
    )

    def __init__(
        self,
        plan: Plan,
        roster: Roster,
        name: str,
        identity: Identity,
        kept: Mapping[str, bytes],
        random_bytes: Callable[[int], bytes],
        encapsulate: Encapsulate,
        group_masks: MakeMasks,
    ) -> None:
        self._plan, self._roster, self._name = plan, roster, name
        self._group_masks, self._random_bytes = group_masks, random_bytes
        self._own = OwnKeys(name, kept, encapsulate)
        self.key_set: KeySet | None = None
        self._late = set[bytes]()  # digests of Deals before the accepted one
        self._before = set[bytes]()  # earlier starts of the run
        self._shared: SharedKeys | None = None  # keys of `key_set`, once they are checked
        self.bad: tuple[str, ...] = ()  # clients of `key_set` with invalid keys
        # signatures are deterministic: after a restart with the same keys this is the same Hello
        self.hello: Hello = roster.hello(name, self._own.run, identity)

    @property
    def state(self) -> ClientState:
        """State of the client: it waits for a Deal that names it, for valid keys, or until all are
        ready.
        """
        if self.key_set is None:
            return ClientState.JOINING
        return ClientState.DEALING if self._shared is None else ClientState.READY

    def say(self) -> Hello | SealedKeys | Ready | BadKeys:
        """Return the message for the state that the client has just entered. Call it once per
        state.
        """
        if self.state is ClientState.JOINING:
            return self.hello
        is_asked = self.state is ClientState.DEALING and not self.bad
        return self.seal(self._random_bytes) if is_asked else self.answer()

    def recall(self, said: Message) -> None:
        """Continue after a restart, with a message that the client made before. Call this instead
        of `say`.
        """
        match self.state, said:
            case ClientState.JOINING, Hello() if said == self.hello:
                pass
            case ClientState.DEALING, SealedKeys() if not self.bad:
                self._recall_keys(said)
            case _, Ready() | BadKeys() if said == self.answer():
                pass
            case _:
                raise not_said(self.state)

    def take(self, message: Message) -> None:
        """Handle a Deal, or the keys that other clients made. Raises RemoteProtocolError if the
        client refuses the message.
        """
        match message:
            case Deal():
                self.accept(message)
            case KeyBox():
                self.check(message)
            case _:
                raise not_handled(message, self.state)

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message. It answers every KeyBox, and a Deal for
        which it makes keys.
        """
        return isinstance(message, KeyBox) or self._name in self._plan.masks.speakers(
            self._agreed.names
        )

    def is_early(self, message: Message) -> bool:
        """Return whether this message belongs to a later step, which shows that an earlier message
        was lost.
        """
        match message:
            case Broadcast() | Parameters() | Confirmations():
                return True
            case KeyBox(deal):
                return self.key_set is None or deal != self.key_set.digest
            case AllReady(deal):
                is_of_these = self.key_set is not None and deal == self.key_set.digest
                return self.state is not ClientState.READY or not is_of_these
        return False

    def accept(self, deal: Deal) -> None:
        """Prepare to share keys with the clients of this Deal.

        Raises RemoteProtocolError unless the Deal contains this client's Hello, and only clients
        with which it may share keys.
        """
        key_set = KeySet(self._roster, deal)
        if key_set.hellos.get(self._name) != self.hello:
            raise RemoteProtocolError(
                f"the Deal was sent to client {self._name!r}, but does not contain its Hello"
            )
        if self.key_set is not None:
            self._leave(self.key_set, key_set)
        self.key_set, self._shared, self.bad = key_set, None, ()

    def _leave(self, before: KeySet, key_set: KeySet) -> None:
        """Drop the keys of an earlier Deal, and share keys with the clients of a new Deal.

        Nothing was masked with keys of the earlier Deal. So after a new start of the run, the new
        Deal may name any set of clients.

        before : key set of the earlier Deal.
        key_set : key set of the new Deal.

        Raises RemoteProtocolError if `key_set` must not follow `before`, or if the run was started
        too often.
        """
        if key_set.deal.beginning != before.deal.beginning:
            self._before.add(before.deal.beginning)
            if len(self._before) >= MAX_BEGINNINGS:
                raise RemoteProtocolError(
                    f"the server began the run more than {MAX_BEGINNINGS} times with this client's"
                    " keys"
                )
        elif not key_set.follows(before):
            raise RemoteProtocolError(
                "a further Deal must name some but not all of the clients of the Deal before it,"
                " with the same keys, and must have a higher attempt number"
            )
        self._late.add(before.digest)

    def is_late(self, message: Message) -> bool:
        """Return whether this message belongs to an earlier Deal, or to a Deal with an earlier
        Hello of this client.
        """
        match message:
            case Deal():
                is_late = self._is_before(message)
                if is_late:
                    self._late.add(message_digest(message))
                return is_late
            case KeyBox(deal) | AllReady(deal):
                return deal in self._late
        return False

    def _is_before(self, deal: Deal) -> bool:
        own = next((hello for hello in deal.hellos if hello.name == self._name), self.hello)
        if own != self.hello:
            self._roster.checked(own)  # raises an error: this client never sent that Hello
            return True
        if self.key_set is None:
            return False
        now = self.key_set.deal
        is_earlier = deal.beginning == now.beginning and deal.attempt < now.attempt
        return deal.beginning in self._before or is_earlier

    def seal(self, random_bytes: Callable[[int], bytes]) -> SealedKeys:
        """Return the keys that this client makes for others: its pair keys and, from the dealer,
        the group key.

        The next call of `keep` returns the secrets that a restart needs.
        """
        agreed, checked, pairs = self._agreed, list[bytes](), list[PairKey]()
        for name in self._recipients:
            known_as = self._pair_secret(name)
            pairs.append(self._own.make(agreed, name, known_as))
            checked.append(pairs[-1].message(self._own.ciphertexts[known_as]))
        boxes, commitment = tuple[bytes, ...](), None
        # A group key is drawn for one set of clients. Clients that a later Deal leaves out never
        # have its key.
        if self._is_dealer:
            group_key = GroupKey.draw(random_bytes)
            self._own.keep(self._group_key_name, group_key.secret)
            boxes = tuple(pair.seal(group_key, agreed.digest) for pair in pairs)
            commitment = group_key.commitment(agreed.digest)
        made = zip(self._recipients, checked, boxes or [None] * len(checked), strict=True)
        signed = tuple(
            message + self._own.run.sign(agreed.made(self._name, name, message, commitment, box))
            for name, message, box in made
        )
        return SealedKeys(agreed.digest, commitment, signed, boxes)

    def _recall_keys(self, sealed: SealedKeys) -> None:
        """Continue after a restart, with keys that the client made before. Call this instead of
        `seal`.
        """
        recipients = self._recipients
        if sealed.deal != self._agreed.digest or len(sealed.ciphertexts) != len(recipients):
            raise LocalProtocolError("the keys were made for other clients than the Deal names")
        for name, message in zip(recipients, sealed.ciphertexts, strict=True):
            self._own.ciphertexts[self._pair_secret(name)] = message[:CIPHERTEXT_BYTES]

    def keep(self) -> list[Keep]:
        """Return the secrets made since the last call."""
        return self._own.fresh()

    def check(self, keys: KeyBox) -> None:
        """Check the keys that other clients made for this one. List the makers of invalid keys in
        `bad`.

        Raises RemoteProtocolError if a maker did not sign its key, or if the keys are not for this
        client.
        """
        agreed, dealer = self._agreed, self._agreed.names[0]
        if self._shared is not None or self.bad:
            raise RemoteProtocolError(
                "different keys came for the same Deal; a correct server sends one set"
            )
        at = agreed.names.index(self._name)
        earlier = set(agreed.names[:at])
        makers = [name for name in self._plan.masks.speakers(agreed.names) if name in earlier]
        if len(keys.ciphertexts) != len(makers) or (keys.box is None) != self._is_dealer:
            raise RemoteProtocolError(
                f"client {self._name!r} was sent {len(keys.ciphertexts)} keys of pairs and"
                f" {int(keys.box is not None)} of the group; expected {len(makers)} and"
                f" {int(not self._is_dealer)}"
            )
        sent = dict(zip(makers, keys.ciphertexts, strict=True))
        for name, message in sent.items():
            dealt = (keys.commitment, keys.box) if name == dealer else (None, None)
            agreed.check_made(name, self._name, message, *dealt)
        pairs, bad = dict[str, PairKey](), list[str]()
        for name, message in sent.items():
            try:
                pairs[name] = self._own.with_earlier(agreed, name, message)
            except RemoteProtocolError:
                bad.append(name)
        group_key = self._group_key(keys, pairs.get(dealer))
        if group_key is None:
            bad = list(dict.fromkeys([dealer, *bad]))
        self.bad = tuple(bad)
        if group_key is not None and not bad:
            masks, transcript = self._masks(group_key, pairs), agreed.transcript(keys.commitment)
            self._shared = SharedKeys(agreed, group_key, masks, self._own.run, transcript)

    def _group_key(self, keys: KeyBox, pair: PairKey | None) -> GroupKey | None:
        """Return the group key, or None if the dealer's key is invalid. The dealer itself reads the
        key that it stored.

        keys : message with the sealed group key.
        pair : pair key with the dealer, or None if it is invalid.

        Raises RemoteProtocolError if the dealer's own commitment was changed on the way.
        """
        deal = self._agreed.digest
        if keys.box is None:
            own = GroupKey(self._own.secret(self._group_key_name))
            if own.commitment(deal) != keys.commitment:
                raise RemoteProtocolError(
                    "the commitment of this client to the group key was changed on the way"
                )
            return own
        if pair is None:
            return None
        try:
            group_key = pair.open(keys.box, deal)
        except RemoteProtocolError:
            return None
        return group_key if group_key.commitment(deal) == keys.commitment else None

    def _masks(self, group_key: GroupKey, pairs: dict[str, PairKey]) -> MaskScheme:
        if self._plan.masks is Masks.GROUP:
            return self._group_masks(group_key, self._plan.ring)
        later = {
            name: self._own.with_later(self._agreed, name, self._pair_secret(name))
            for name in self._recipients
        }
        pair_keys = {name: pair.secret for name, pair in (pairs | later).items()}
        return PairwiseMasks(group_key, self._plan.ring, self._agreed.names, self._name, pair_keys)

    def answer(self) -> Ready | BadKeys:
        """Return a message that says whether the last keys were valid. It has the same bytes at
        every call.
        """
        agreed, deal = self._agreed, self._agreed.digest
        if self._shared is None:
            return BadKeys(deal, self.bad)
        statement = agreed.ready(self._name, 1, self._shared.transcript_hash)
        return Ready(deal, 1, self._own.run.sign(statement))

    def open(self, ready: AllReady) -> SharedKeys:
        """Return the keys of the run, once all clients that share them are ready.

        Raises RemoteProtocolError if a client is not ready.
        """
        agreed = self._agreed
        if self._shared is None:
            raise LocalProtocolError(
                "this client has checked no keys of the run, so the clients cannot be ready"
            )
        agreed.check_all_ready(ready, self._shared.transcript_hash)
        return self._shared

    @property
    def _agreed(self) -> KeySet:
        if self.key_set is None:
            raise LocalProtocolError(
                "no Deal has arrived, so the clients that share keys are not known"
            )
        return self.key_set

    @property
    def _is_dealer(self) -> bool:
        return self._agreed.names[0] == self._name

    @property
    def _recipients(self) -> Sequence[str]:
        """Clients for which this client makes pair keys."""
        return self._plan.masks.recipients(self._name, self._agreed.names)

    @property
    def _group_key_name(self) -> str:
        return self._in_beginning(f"group-key of attempt {self._agreed.deal.attempt}")

    def _pair_secret(self, name: str) -> str:
        """Return the name under which the pair secret with client `name` is stored. Each start of
        the run has a name of its own.
        """
        return self._in_beginning(f"pair-secret with {name}")

    def _in_beginning(self, what: str) -> str:
        n = len(self._before)
        return f"{what}, beginning {n + 1}" if n else what
