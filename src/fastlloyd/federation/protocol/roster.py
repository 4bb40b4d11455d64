"""Clients that may take part in a run, clients that share keys, and the statements that clients
sign.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import msgspec

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import LocalProtocolError, PlanError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.masked_round import start_transcript
from fastlloyd.federation.protocol.messages import (
    AllReady,
    Confirmation,
    Deal,
    Hello,
    KeyBox,
    Parameters,
    SealedKeys,
    message_digest,
)
from fastlloyd.federation.secagg.keys import SIGNATURE_BYTES, Identity, verify
from fastlloyd.federation.secagg.masks import encode_name
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, PairContext, RunKeys, check_run_keys

_HELLO_LABEL = b"fastlloyd/v1/hello"
_PROPOSAL_LABEL = b"fastlloyd/v1/signed-proposal"
_CONFIRMATION_LABEL = b"fastlloyd/v1/signed-confirmation"
_PAIR_LABEL = b"fastlloyd/v1/signed-pair-message"
_READY_LABEL = b"fastlloyd/v1/signed-ready"
_LEAVE_LABEL = b"fastlloyd/v1/signed-leave"
_NAMED = 3  # largest number of names in a reason


@dataclass(frozen=True, slots=True)
class Roster:
    """Clients of a plan, in the form that clients and server need.

    plan_digest : SHA-256 of the plan, 32 bytes.
    run_id : random id of the run, 16 bytes.
    names : names of the clients, in the order of the plan.
    signing_keys : public signing key of each client, 32 bytes, by name, in the order of the plan.
        Do not change it.
    min_present : smallest number of clients that may share keys.
    """

    plan_digest: bytes
    run_id: bytes
    names: tuple[str, ...]
    signing_keys: dict[str, bytes]
    min_present: int

    @classmethod
    @lru_cache(maxsize=16)  # all parties of a simulation call this
    def of(cls, plan: Plan) -> Self:
        """Return the roster of `plan`.

        Raises PlanError if a client has no signing key yet, or if this version can read the plan
        but not run it.
        """
        for client in plan.clients:
            if not client.signing_key:
                raise PlanError(
                    f"client {client.name!r} has no signing_key in the plan; add the key its owner"
                    " sent"
                )
        keys = {client.name: bytes.fromhex(client.signing_key) for client in plan.clients}
        return cls(plan.digest, bytes.fromhex(plan.run_id), plan.names, keys, plan.min_present)

    def hello(self, name: str, keys: RunKeys, identity: Identity) -> Hello:
        """Return the signed Hello of client `name`: it takes part in this run with these keys."""
        public = keys.exchange_key, keys.encapsulation_key, keys.run_key
        unsigned = Hello(self.plan_digest, self.run_id, name, *public, bytes(SIGNATURE_BYTES))
        return msgspec.structs.replace(unsigned, signature=identity.sign(_statement(unsigned)))

    def checked(self, hello: Hello) -> Hello:
        """Return the Hello if it is valid. Equal Hellos give the same object, so the parties of a
        simulation share one copy.

        Raises RemoteProtocolError unless the Hello is signed by its client, belongs to this run of
        this plan, and has usable keys.
        """
        if hello.plan_digest != self.plan_digest:
            raise RemoteProtocolError(
                f"client {hello.name!r} holds another plan, with digest"
                f" {hello.plan_digest.hex()[:16]}..., not {self.plan_digest.hex()[:16]}...;"
                " everyone must be given the same plan.toml"
            )
        if hello.run_id != self.run_id:
            raise RemoteProtocolError(
                f"client {hello.name!r} is in another run, {hello.run_id.hex()}"
            )
        if hello.name not in self.signing_keys:
            raise RemoteProtocolError(f"there is no client {hello.name!r} in the plan")
        return _checked(self.signing_keys[hello.name], hello)

    def check_members(
        self, what: str, names: Sequence[str], among: Container[str], at_least: int
    ) -> None:
        """Raise RemoteProtocolError unless there are at least `at_least` names, and all are
        distinct, in the order of the plan, and contained in `among`.

        what : noun phrase for the message that contains the names, for the error.
        """
        if not all(map(among.__contains__, names)):
            stranger = next(name for name in names if name not in among)
            raise RemoteProtocolError(
                f"{what} names {stranger!r}, which is not one of the clients it may name"
            )
        # if all clients of the plan are named in its order, no further check is needed
        if tuple(names) != self.names:
            if len(set(names)) != len(names):
                raise RemoteProtocolError(f"{what} names a client twice")
            if list(names) != self.in_order(set(names)):
                raise RemoteProtocolError(f"{what} is not in the order of the plan")
        if len(names) < at_least:
            raise RemoteProtocolError(
                f"{what} has {len(names)} clients; at least {at_least} are needed"
            )

    def in_order(self, names: Container[str]) -> list[str]:
        """Return the clients in `names`, in the order of the plan."""
        return [name for name in self.signing_keys if name in names]


class KeySet:
    """Clients that share keys, in the order of the plan, and the statements that they sign with
    their run keys.

    deal : message that names the clients.
    digest : SHA-256 of `deal`, 32 bytes.
    hellos : Hello of each client, by name.
    names : names of the clients.

    Raises RemoteProtocolError unless the plan allows these clients, they are enough, and each
    signed its Hello.
    """

    __slots__ = ("_places", "_roster", "deal", "digest", "hellos", "names")

    def __init__(self, roster: Roster, deal: Deal) -> None:
        names = tuple(hello.name for hello in deal.hellos)
        roster.check_members("the Deal", names, roster.signing_keys, roster.min_present)
        self._roster, self.names, self.deal = (
            roster,
            names,
            Deal(deal.beginning, deal.attempt, tuple(map(roster.checked, deal.hellos))),
        )
        self.digest = message_digest(self.deal)
        self.hellos: dict[str, Hello] = dict(zip(names, self.deal.hellos, strict=True))
        self._places = {name: at for at, name in enumerate(names)}

    def follows(self, other: "KeySet") -> bool:
        """Return whether this key set may replace `other`.

        It may replace `other` if it belongs to a later attempt of the same start. It must also have
        fewer of the same clients, with the same Hellos.
        """
        is_same = self.deal.beginning == other.deal.beginning
        is_later = self.deal.attempt > other.deal.attempt
        return is_same and is_later and set(self.deal.hellos) < set(other.deal.hellos)

    def pair(self, one: str, other: str) -> PairContext:
        """Return the context to which the key of these two clients is bound. Their order does not
        matter.
        """
        earlier, later = sorted((one, other), key=self._places.__getitem__)
        return PairContext(
            plan_digest=self._roster.plan_digest,
            run_id=self._roster.run_id,
            earlier=earlier,
            later=later,
            earlier_hello=hello_digest(self.hellos[earlier]),
            later_hello=hello_digest(self.hellos[later]),
        )

    def check_sealed(self, client: str, sealed: SealedKeys) -> None:
        """Raise RemoteProtocolError unless `sealed` has all keys that `client` must make.

        The keys are one signed key for each client after `client` in the Deal. From the dealer
        there is also the group key, sealed for each of these clients.
        """
        at = self._places[client]
        n_later = len(self.names) - 1 - at
        n_made = len(sealed.ciphertexts), len(sealed.boxes), sealed.commitment is not None
        if n_made != ((n_later, 0, False) if at else (n_later, n_later, True)):
            raise RemoteProtocolError(
                f"client {client!r} did not make keys for exactly the clients it was asked to"
            )
        for i, message in enumerate(sealed.ciphertexts):
            box = sealed.boxes[i] if sealed.boxes else None
            self.check_made(client, self.names[at + 1 + i], message, sealed.commitment, box)

    def maker(self, sealed: SealedKeys) -> str:
        """Return the client that made these checked keys. The number of keys identifies it."""
        return self.names[len(self.names) - 1 - len(sealed.ciphertexts)]

    def key_box(self, name: str, sealed: Mapping[str, SealedKeys]) -> KeyBox:
        """Return the message to client `name` with all keys that clients before it made for it, in
        order.

        sealed : keys that each client made, by the name of the maker.

        Raises LocalProtocolError if the dealer's keys have no commitment.
        """
        at, dealt = self._places[name], sealed[self.names[0]]
        made = [(i, sealed[maker]) for i, maker in enumerate(self.names[:at]) if maker in sealed]
        if dealt.commitment is None:
            raise LocalProtocolError("the keys of the dealer were not checked")
        ciphertexts = tuple(said.ciphertexts[at - i - 1] for i, said in made)
        return KeyBox(
            self.digest, dealt.commitment, ciphertexts, dealt.boxes[at - 1] if at else None
        )

    def made(
        self,
        maker: str,
        recipient: str,
        checked: bytes,
        commitment: bytes | None,
        box: bytes | None,
    ) -> bytes:
        """Return the statement that `maker` signs about its key for `recipient`.

        checked : ciphertext of the key, and its HMAC.
        commitment : commitment to the group key if `maker` is the dealer, otherwise None.
        box : sealed group key if `maker` is the dealer, otherwise None.
        """
        dealt = commitment or b"", box or b""
        return self._statement(
            _PAIR_LABEL, maker, self.digest, encode_name(recipient), checked, *dealt
        )

    def check_made(
        self,
        maker: str,
        recipient: str,
        message: bytes,
        commitment: bytes | None,
        box: bytes | None,
    ) -> None:
        """Raise RemoteProtocolError unless `maker` signed its key for `recipient`.

        message : ciphertext, HMAC and signature. The other parameters are those of `made`.
        """
        checked, signature = message[:CHECKED_BYTES], message[CHECKED_BYTES:]
        statement = self.made(maker, recipient, checked, commitment, box)
        try:
            verify(self.hellos[maker].run_key, signature, statement)
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the key of client {maker!r} for client {recipient!r} is not signed by its"
                " maker: the key was changed on the way"
            ) from None

    def transcript(self, commitment: bytes) -> bytes:
        """Return h_0, the first transcript hash of these clients (`masked_round`), 32 bytes.

        commitment : commitment to their group key.
        """
        return start_transcript(
            self._roster.plan_digest, self._roster.run_id, self.deal, commitment
        )

    def ready(self, client: str, round: int, transcript_hash: bytes) -> bytes:
        """Return the statement that `client` signs before it answers in round `round`."""
        return self._statement(_READY_LABEL, client, round.to_bytes(8, "big"), transcript_hash)

    def check_ready(
        self, client: str, round: int, transcript_hash: bytes, signature: bytes
    ) -> None:
        """Raise RemoteProtocolError unless `signature` is the signature of `client` on the
        statement `ready`.
        """
        try:
            verify(
                self.hellos[client].run_key, signature, self.ready(client, round, transcript_hash)
            )
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"client {client!r} did not sign that it is ready for round {round} with these"
                " keys: the client was shown other keys, or its message was changed on the"
                " way"
            ) from None

    def check_all_ready(self, ready: AllReady, transcript_hash: bytes) -> None:
        """Raise RemoteProtocolError unless the message contains each client's signature on the
        statement that it is ready for round 1 of this transcript.
        """
        if ready.round != 1 or len(ready.signatures) != len(self.names):
            raise RemoteProtocolError(
                f"{len(ready.signatures)} clients are ready for round {ready.round}; expected all"
                f" {len(self.names)} that share keys, and round 1"
            )
        for name, signature in zip(self.names, ready.signatures, strict=True):
            self.check_ready(name, ready.round, transcript_hash, signature)

    def proposal(self, client: str, round: int, salt: bytes, box: bytes) -> bytes:
        """Return the statement that `client` signs about the parameters that it computed for round
        `round`.
        """
        return self._statement(_PROPOSAL_LABEL, client, round.to_bytes(8, "big"), salt, box)

    def confirmation(self, client: str, mac: bytes) -> bytes:
        """Return the statement that `client` signs about its confirmation.

        The statement does not contain the centroids, because the server could then test guesses of
        them.
        """
        return self._statement(_CONFIRMATION_LABEL, client, mac)

    def check_parameters(self, parameters: Parameters) -> None:
        """Raise RemoteProtocolError unless the client named in these parameters signed them."""
        client = parameters.client
        statement = self.proposal(client, parameters.round, parameters.salt, parameters.box)
        try:
            verify(self.hellos[client].run_key, parameters.signature, statement)
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the parameters for round {parameters.round} are not signed by the client"
                f" that they name, {client!r}: the parameters were changed on the way"
            ) from None

    def check_confirmation(self, client: str, confirmation: Confirmation) -> None:
        """Raise RemoteProtocolError unless `client` signed this confirmation."""
        try:
            verify(
                self.hellos[client].run_key,
                confirmation.signature,
                self.confirmation(client, confirmation.mac),
            )
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the confirmation of client {client!r} is not signed by that client: the"
                " confirmation was changed on the way"
            ) from None

    def _statement(self, label: bytes, client: str, *fields: bytes) -> bytes:
        return length_prefixed(
            label, self._roster.plan_digest, self._roster.run_id, encode_name(client), *fields
        )


# more than a plan has clients; all parties of a simulation check all Hellos
@lru_cache(maxsize=2048)
def _checked(signing_key: bytes, hello: Hello) -> Hello:
    try:
        verify(signing_key, hello.signature, _statement(hello))
    except RemoteProtocolError:
        raise RemoteProtocolError(
            f"the Hello of client {hello.name!r} is not signed with its key in the plan"
        ) from None
    try:
        check_run_keys(hello.exchange_key, hello.encapsulation_key, hello.run_key)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(
            f"the Hello of client {hello.name!r} has a key that cannot be used: {error}"
        ) from None
    return hello


def _statement(hello: Hello) -> bytes:
    keys = hello.exchange_key, hello.encapsulation_key, hello.run_key
    return length_prefixed(
        _HELLO_LABEL, hello.plan_digest, hello.run_id, encode_name(hello.name), *keys
    )


def leave_statement(plan_digest: bytes, run_id: bytes, name: str, hello: bytes) -> bytes:
    """Return the statement that a client signs, with its key in the plan, when a run has ended for
    it.

    name : name of the client.
    hello : digest of the Hello with which it joined the run.
    """
    return length_prefixed(_LEAVE_LABEL, plan_digest, run_id, encode_name(name), hello)


def missing_of(names: Sequence[str], there: Container[str]) -> str:
    """Return the `names` that are not in `there`, as a text in parentheses for an error message, or
    "" if there are none. A long list is shortened.
    """
    missing = [name for name in names if name not in there]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f" (missing: {', '.join(missing[:_NAMED])}{more})" if missing else ""


@lru_cache(maxsize=2048)  # more than a plan has clients; each client is in many pairs
def hello_digest(hello: Hello) -> bytes:
    """Return the SHA-256 of the Hello's encoding, 32 bytes."""
    return message_digest(hello)
