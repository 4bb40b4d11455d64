"""How the clients of one run come to share a group key that the server never sees.

Each client signs a fresh X25519 key into its Hello. The first of those present, in the order of the plan, draws the group key
and seals it to every one of them, itself included; it counts once the server has sent it back as the stored one.
"""

from collections.abc import Callable

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.protocol.messages import Deal, Hello, KeyBox, SealedKeys
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.secagg.keys import EphemeralKey, Identity, KeyPassage
from fastlloyd.federation.secagg.masks import GroupKey


class Joining:
    """A client's part of a run until it holds the group key."""

    __slots__ = ("_ephemeral", "_name", "_recipients", "_roster", "_sealed", "hello")

    def __init__(self, roster: Roster, name: str, identity: Identity, ephemeral: EphemeralKey) -> None:
        self._roster, self._name, self._ephemeral = roster, name, ephemeral
        self._recipients: tuple[Hello, ...] = ()
        self._sealed: SealedKeys | None = None
        # signatures are deterministic: after a restart with the same key this is the same Hello
        self.hello = roster.hello(name, ephemeral.public, identity)

    def accept(self, deal: Deal) -> None:
        """Be dealer to these; RemoteProtocolError unless they are whom the plan allows, each by its own signed word."""
        present = [hello.name for hello in deal.hellos]
        self._roster.check_members("the Deal", present, self._roster.signing_keys, self._roster.min_included)
        if deal.hellos[0] != self.hello:
            raise RemoteProtocolError(f"client {self._name!r} was named dealer, but is not the first of those present")
        for hello in deal.hellos[1:]:
            self._roster.check_hello(hello)
        self._recipients = deal.hellos

    def deal(self, random_bytes: Callable[[int], bytes]) -> SealedKeys:
        """Draw the group key and seal it to all present. It is not kept: it comes back in the dealer's own box."""
        group_key = GroupKey.draw(random_bytes)
        passages = [self._passage(self.hello, to) for to in self._recipients]
        boxes = tuple((passage.recipient_name, passage.seal(group_key, self._ephemeral)) for passage in passages)
        self._sealed = SealedKeys(boxes)
        return self._sealed

    def recall(self, sealed: SealedKeys) -> None:
        """Take what was dealt before a restart in place of a new group key."""
        if [name for name, _ in sealed.boxes] != [hello.name for hello in self._recipients]:
            raise LocalProtocolError("the keys that were dealt are not for those who were to be dealt them")
        self._sealed = sealed

    def open(self, keys: KeyBox) -> GroupKey:
        """The group key in this client's box; RemoteProtocolError unless it is from the dealer that all must accept."""
        self._roster.check_members("the key set", keys.present, self._roster.signing_keys, self._roster.min_included)
        if self._name not in keys.present:
            raise RemoteProtocolError(f"client {self._name!r} was sent a key set that leaves it out")
        if keys.dealer.name != keys.present[0]:
            raise RemoteProtocolError(f"client {keys.dealer.name!r} dealt the keys, but is not the first of those present")
        if keys.dealer.name != self._name:
            self._roster.check_hello(keys.dealer)
        else:
            mine = dict(self._sealed.boxes) if self._sealed else {}
            if keys.dealer != self.hello or keys.present != tuple(mine) or keys.box != mine[self._name]:
                raise RemoteProtocolError(f"client {self._name!r} was sent a key set in its own name that it did not deal")
        return self._passage(keys.dealer, self.hello).open(keys.box, self._ephemeral)

    def _passage(self, sender: Hello, recipient: Hello) -> KeyPassage:
        return KeyPassage(
            plan_digest=self._roster.plan_digest,
            run_id=self._roster.run_id,
            sender_name=sender.name,
            sender_public=sender.ephemeral_public,
            recipient_name=recipient.name,
            recipient_public=recipient.ephemeral_public,
        )
