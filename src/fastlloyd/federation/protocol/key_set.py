"""The clients of a run that share keys: the Hellos of their Deal, and what each signs with the run key in its own."""

from collections.abc import Mapping
from functools import lru_cache

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.messages import Confirmation, Deal, Hello, KeyBox, Parameters, SealedKeys, message_digest
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.secagg.keys import verify
from fastlloyd.federation.secagg.masks import encode_name
from fastlloyd.federation.secagg.pairs import PairContext

_PROPOSAL_LABEL = b"fastlloyd/v1/signed-proposal"
_CONFIRMATION_LABEL = b"fastlloyd/v1/signed-confirmation"


class KeySet:
    """Who shares keys, in the order of the plan.

    deal : the message that named them; digest : of that message; hellos : by name.

    Raises RemoteProtocolError unless they are whom the plan allows, enough, each by its own signed word.
    """

    __slots__ = ("_places", "_roster", "deal", "digest", "hellos", "names")

    def __init__(self, roster: Roster, deal: Deal) -> None:
        names = tuple(hello.name for hello in deal.hellos)
        roster.check_members("the Deal", names, roster.signing_keys, roster.min_present)
        self._roster, self.names, self.deal = roster, names, Deal(tuple(map(roster.checked, deal.hellos)))
        self.digest = message_digest(self.deal)
        self.hellos: dict[str, Hello] = dict(zip(names, self.deal.hellos, strict=True))
        self._places = {name: at for at, name in enumerate(names)}

    def is_within(self, other: "KeySet") -> bool:
        """Whether all of these clients, with these very Hellos, are in the other set."""
        return set(self.deal.hellos) <= set(other.deal.hellos)

    def pair(self, one: str, other: str) -> PairContext:
        """What the key of these two clients is bound to, whichever of them asks."""
        earlier, later = sorted((one, other), key=self._places.__getitem__)
        return PairContext(
            plan_digest=self._roster.plan_digest,
            run_id=self._roster.run_id,
            earlier=earlier,
            later=later,
            earlier_hello=_digest(self.hellos[earlier]),
            later_hello=_digest(self.hellos[later]),
        )

    def check_sealed(self, client: str, sealed: SealedKeys) -> None:
        """Raise RemoteProtocolError unless `client` made a key for each client after it, and as dealer sealed the group key."""
        n_later = len(self.names) - 1 - self._places[client]
        if (len(sealed.ciphertexts), len(sealed.boxes)) != (n_later, 0 if self._places[client] else n_later):
            raise RemoteProtocolError(f"client {client!r} did not make keys for exactly the clients it was asked to")

    def key_boxes(self, sealed: Mapping[str, SealedKeys]) -> dict[str, KeyBox]:
        """What each client is sent: all that those before it made for it, in order."""
        boxes = {}
        for at, name in enumerate(self.names):
            made = [(i, sealed[maker]) for i, maker in enumerate(self.names[:at]) if maker in sealed]
            ciphertexts = tuple(said.ciphertexts[at - i - 1] for i, said in made)
            boxes[name] = KeyBox(self.digest, ciphertexts, made[0][1].boxes[at - 1] if at else None)
        return boxes

    def proposal(self, client: str, round: int, salt: bytes, box: bytes) -> bytes:
        """What `client` signs of the parameters that it worked out for that round."""
        return self._statement(_PROPOSAL_LABEL, client, round.to_bytes(8, "big"), salt, box)

    def confirmation(self, client: str, mac: bytes) -> bytes:
        """What `client` signs of its confirmation: never the centroids, at which the server could guess."""
        return self._statement(_CONFIRMATION_LABEL, client, mac)

    def check_parameters(self, parameters: Parameters) -> None:
        """Raise RemoteProtocolError unless the client they name signed them."""
        client = parameters.client
        statement = self.proposal(client, parameters.round, parameters.salt, parameters.box)
        try:
            verify(self.hellos[client].run_key, parameters.signature, statement)
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the parameters for round {parameters.round} are not signed by client {client!r}, whom they name: "
                "they were changed on the way"
            ) from None

    def check_confirmation(self, client: str, confirmation: Confirmation) -> None:
        """Raise RemoteProtocolError unless that client signed it."""
        try:
            verify(self.hellos[client].run_key, confirmation.signature, self.confirmation(client, confirmation.mac))
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the confirmation of client {client!r} is not signed by it: it was changed on the way"
            ) from None

    def _statement(self, label: bytes, client: str, *fields: bytes) -> bytes:
        return length_prefixed(label, self._roster.plan_digest, self._roster.run_id, encode_name(client), *fields)


@lru_cache(maxsize=2048)  # more than a plan has clients, each of which is in many pairs
def _digest(hello: Hello) -> bytes:
    return message_digest(hello)
