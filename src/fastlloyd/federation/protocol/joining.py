"""How the clients of one run come to share keys that the server never sees.

Each client signs fresh keys into its Hello. The server relays the Hellos of those present to all of
them (`Deal`). Of every two who need a key, the earlier in the plan makes it with the keys of the
later; the first of all, the dealer, also draws the group key and seals it to the others. Where
masks are pairwise every two need one, otherwise the dealer and each of the others.
"""

from collections.abc import Callable, Mapping, Sequence

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.messages import Deal, Hello, KeyBox, SealedKeys, message_digest
from fastlloyd.federation.protocol.roster import KeySet, Roster
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

RUN_KEYS = "run-keys"
Encapsulate = Callable[[bytes], tuple[bytes, bytes]]
"""ML-KEM: (public key) -> (secret, ciphertext), fresh ones at every call."""
MakeMasks = Callable[[GroupKey, Ring], GroupMasks]


class SharedKeys(Secret):
    """What a client has once it has joined: who shares keys, the group key, the masks, and its own
    keys of the run.
    """

    __slots__ = ("group_key", "key_set", "masks", "own")

    def __init__(
        self, key_set: KeySet, group_key: GroupKey, masks: MaskScheme, own: RunKeys
    ) -> None:
        self.key_set, self.group_key, self.masks, self.own = key_set, group_key, masks, own


class Joining(Secret):
    """A client's part of a run until it shares keys with the others.

    Parameters
    ----------
    kept : the secrets that an earlier process kept, by name; `keep` makes them. encapsulate :
    `secagg.pairs.encapsulate`; tests may know what it draws. group_masks : makes the masks where
    they are of the
        group; in a simulation the clients may share what they derive.
    """

    __slots__ = (
        "_encapsulate",
        "_fresh",
        "_group_masks",
        "_kept",
        "_keys",
        "_late",
        "_name",
        "_pairs",
        "_plan",
        "_roster",
        "_sealed",
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
        encapsulate: Encapsulate,
        group_masks: MakeMasks,
    ) -> None:
        self._plan, self._roster, self._name = plan, roster, name
        self._encapsulate, self._group_masks = encapsulate, group_masks
        self._kept, self._fresh, self._sealed = dict(kept), list[Keep](), dict[str, bytes]()
        self._pairs: dict[str, PairKey] = {}
        self._keys = RunKeys.from_private_bytes(self._known(RUN_KEYS))
        self.key_set: KeySet | None = None
        self._late = set[bytes]()  # digests of Deals that another has replaced
        # signatures are deterministic: after a restart with the same keys this is the same Hello
        self.hello: Hello = roster.hello(name, self._keys, identity)

    @property
    def speaks(self) -> bool:
        """Whether this client answers the Deal that it accepted last."""
        return self._name in self._plan.masks.speakers(self._agreed.names)

    def accept(self, deal: Deal) -> None:
        """Share keys with these; RemoteProtocolError unless they are this client and others that it
        may share them with.
        """
        key_set = KeySet(self._roster, deal)
        if key_set.hellos.get(self._name) != self.hello:
            raise RemoteProtocolError(
                f"the Deal does not hold the Hello of client {self._name!r}, to which it was sent"
            )
        if self.key_set is not None and not key_set.is_within(self.key_set):
            raise RemoteProtocolError(
                "a further Deal names clients, or keys of clients, that the one before did not"
            )
        if self.key_set is not None:
            self._late.add(self.key_set.digest)
        self.key_set = key_set

    def is_late(self, message: Deal | KeyBox) -> bool:
        """Whether this is a Deal before the one that was accepted, or the keys of such a one, if
        the Deal came as well.
        """
        match message:
            case Deal(hellos) if self.key_set is not None and set(hellos) > set(
                self.key_set.deal.hellos
            ):
                self._late.add(message_digest(message))
                return True
            case KeyBox(deal):
                return deal in self._late
        return False

    def seal(self, random_bytes: Callable[[int], bytes]) -> SealedKeys:
        """Make this client's part of the keys of its pairs and, as dealer, the group key. `keep`
        has what a restart needs.
        """
        agreed, ciphertexts, pairs = self._agreed, list[bytes](), list[PairKey]()
        for name in self._recipients:
            if name not in self._sealed:  # else made for a Deal before, which named more
                secret, self._sealed[name] = self._encapsulate(
                    agreed.hellos[name].encapsulation_key
                )
                self._keep(_pair_secret(name), secret)
            pairs.append(self._pair_with_later(name))
            ciphertexts.append(pairs[-1].message(self._sealed[name]))
        boxes = tuple[bytes, ...]()
        # a group key is drawn for one set of clients: those who are left out of another never have
        # it
        if self._is_dealer:
            group_key = GroupKey.draw(random_bytes)
            self._keep(self._group_key_name, group_key.secret)
            boxes = tuple(pair.seal(group_key, agreed.digest) for pair in pairs)
        return SealedKeys(agreed.digest, tuple(ciphertexts), boxes)

    def recall(self, sealed: SealedKeys) -> None:
        """Take what was made before a restart in place of what `seal` would make."""
        recipients = self._recipients
        if sealed.deal != self._agreed.digest or len(sealed.ciphertexts) != len(recipients):
            raise LocalProtocolError(
                "the keys that were made are not for those whom the Deal names"
            )
        for name, message in zip(recipients, sealed.ciphertexts, strict=True):
            self._sealed[name] = message[:CIPHERTEXT_BYTES]

    def keep(self) -> list[Keep]:
        """The secrets made since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def open(self, keys: KeyBox) -> SharedKeys:
        """The keys that this client shares with others; RemoteProtocolError if one does not fit
        what was said before.
        """
        agreed = self._agreed
        at = agreed.names.index(self._name)
        earlier = set(agreed.names[:at])
        makers = [name for name in self._plan.masks.speakers(agreed.names) if name in earlier]
        if len(keys.ciphertexts) != len(makers) or (keys.box is None) != self._is_dealer:
            raise RemoteProtocolError(
                f"client {self._name!r} was sent {len(keys.ciphertexts)} keys of pairs and"
                f" {int(keys.box is not None)} of the group; expected {len(makers)} and"
                f" {int(not self._is_dealer)}"
            )
        pairs = {
            name: self._pair_with_earlier(name, sent)
            for name, sent in zip(makers, keys.ciphertexts, strict=True)
        }
        if keys.box is None:
            group_key = GroupKey(self._known(self._group_key_name))
        else:
            group_key = pairs[agreed.names[0]].open(keys.box, agreed.digest)
        masks: MaskScheme
        if self._plan.masks is Masks.GROUP:
            masks = self._group_masks(group_key, self._plan.ring)
        else:
            pairs |= {name: self._pair_with_later(name) for name in self._recipients}
            pair_keys = {name: pair.secret for name, pair in pairs.items()}
            masks = PairwiseMasks(group_key, self._plan.ring, agreed.names, self._name, pair_keys)
        return SharedKeys(agreed, group_key, masks, self._keys)

    @property
    def _agreed(self) -> KeySet:
        if self.key_set is None:
            raise LocalProtocolError("no Deal has come that says who shares keys")
        return self.key_set

    @property
    def _is_dealer(self) -> bool:
        return self._agreed.names[0] == self._name

    @property
    def _recipients(self) -> Sequence[str]:
        """For whom this client makes the key of the pair."""
        return self._plan.masks.recipients(self._name, self._agreed.names)

    @property
    def _group_key_name(self) -> str:
        return f"group-key for {len(self._agreed.names)}"  # a further Deal names fewer

    def _pair_with_later(self, name: str) -> PairKey:
        """The key of the pair with a client for which this one encapsulated."""
        if name not in self._pairs:
            self._pairs[name] = self._agree_with_later(name)
        return self._pairs[name]

    def _agree_with_later(self, name: str) -> PairKey:
        hello, secret = self._agreed.hellos[name], self._known(_pair_secret(name))
        context, exchanged = (
            self._agreed.pair(self._name, name),
            self._keys.exchange(hello.exchange_key),
        )
        return PairKey.agree(
            context, exchange_secret=exchanged, kem_secret=secret, ciphertext=self._sealed[name]
        )

    def _pair_with_earlier(self, name: str, message: bytes) -> PairKey:
        """The key of the pair with a client that encapsulated for this one; RemoteProtocolError if
        its HMAC does not fit.
        """
        hello, ciphertext = self._agreed.hellos[name], message[:CIPHERTEXT_BYTES]
        exchanged, secret = (
            self._keys.exchange(hello.exchange_key),
            self._keys.decapsulate(ciphertext),
        )
        context = self._agreed.pair(self._name, name)
        pair = PairKey.agree(
            context, exchange_secret=exchanged, kem_secret=secret, ciphertext=ciphertext
        )
        pair.check(message)
        return pair

    def _keep(self, name: str, secret: bytes) -> None:
        self._kept[name] = secret
        self._fresh.append(Keep(name, secret))

    def _known(self, name: str) -> bytes:
        if name not in self._kept:
            raise LocalProtocolError(
                f"the records do not say that this run ended, but the secret kept as {name!r} is"
                " gone"
            )
        return self._kept[name]


def _pair_secret(name: str) -> str:
    return f"pair-secret with {name}"
