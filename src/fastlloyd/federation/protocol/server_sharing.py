"""Phase of the server in which clients make keys for each other. The server relays the keys until
all clients are ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Send
from fastlloyd.federation.protocol.messages import (
    MAX_REASON,
    Abort,
    AllReady,
    BadKeys,
    Deal,
    Hello,
    Message,
    Ready,
    SealedKeys,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.server_joining import share_keys
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, Step
from fastlloyd.federation.protocol.transitions import Deadline


@dataclass(slots=True, eq=False)
class ServerSharing:
    """Keys of the clients that one Deal names. Each Deal has an object of its own.

    plan : the plan.
    roster : clients of the plan.
    attendance : clients that the server does not wait for.
    key_set : clients of the Deal.
    sealed : keys that each client made for others, by the name of the maker.
    ready : Ready message of each client, by name, until all are ready.
    all_ready : message that all clients are ready, or None before.
    served : names of the clients with an upload in a sum. They have received everything that this
        phase relays.
    """

    plan: Plan
    roster: Roster
    attendance: Attendance
    key_set: KeySet
    sealed: dict[str, SealedKeys] = field(default_factory=dict)
    ready: dict[str, Ready] = field(default_factory=dict)
    all_ready: AllReady | None = None
    served: set[str] = field(default_factory=set)

    @property
    def present(self) -> tuple[str, ...]:
        """Clients that share keys, or are about to."""
        return self.key_set.names

    @property
    def n_to_seal(self) -> int:
        """Number of clients that were asked to make keys and have not done so."""
        return len(self._speakers) - len(self.sealed)

    @property
    def is_dealt(self) -> bool:
        """Return whether all clients that were asked for keys have sent them."""
        return self.n_to_seal == 0

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that the server waits for: first those that have not made their keys, then those
        that have not said that they are ready.
        """
        if not self.is_dealt:
            return tuple(name for name in self._speakers if name not in self.sealed)
        return tuple(name for name in self.present if name not in self.ready)

    def receive(self, sender: str, message: Message) -> list[Step]:
        """Answer a message of a client of the Deal. Raises RemoteProtocolError if the protocol does
        not allow the message.
        """
        match message:
            case Hello():
                return self._greet(sender, message)
            case SealedKeys():
                return self._store(sender, message)
            case Ready():
                return self._agree(sender, message)
            case BadKeys():
                return self._accuse(sender, message)
        raise AssertionError(f"{type(message).__name__} is not a message about keys")

    def deadline(self) -> list[Step]:
        """Make a new Deal without the clients that have not answered."""
        return self._deal_without(Deadline, dict.fromkeys(self.awaited, "the client was too late"))

    def go_on(self, event: type) -> list[Step]:
        """Make a new Deal if a client of the current Deal has left.

        event : message or event that caused the call.
        """
        is_whole = self.attendance.gone.keys().isdisjoint(self.present)
        return [] if is_whole else self._deal_without(event, {})

    def check(self, message: SealedKeys | AllReady) -> None:
        """Raise LocalProtocolError or RemoteProtocolError unless a stored message is valid: keys
        from a client that was asked and had made none, or the AllReady of all clients.
        """
        if isinstance(message, AllReady):
            return self.key_set.check_all_ready(message, self._transcript_hash)
        n_later = len(self.present) - 1 - len(message.ciphertexts)
        maker = self.present[n_later] if 0 <= n_later < len(self.present) else ""
        if maker not in self._speakers or maker in self.sealed:
            raise LocalProtocolError(
                "these keys come from a client that was not asked for keys,"
                " or has sent them already"
            )
        return self.key_set.check_sealed(maker, message)

    def apply(self, message: SealedKeys | AllReady) -> None:
        """Store the keys that a client made, or the message that all clients are ready."""
        match message:
            case SealedKeys():
                self.sealed[self.key_set.maker(message)] = message
            case AllReady():
                self.all_ready, self.ready = message, {}

    @property
    def _speakers(self) -> Sequence[str]:
        """Clients that must answer the Deal with keys."""
        return self.plan.masks.speakers(self.present)

    @property
    def _is_over(self) -> bool:
        """Return whether a Ready message comes too early or too late: keys are still missing, or
        all clients are ready.
        """
        return self.all_ready is not None or not self.is_dealt

    @property
    def _transcript_hash(self) -> bytes:
        """First transcript hash h_0 of the clients of the Deal, 32 bytes. Exists once the dealer
        has answered.
        """
        dealt = self.sealed[self.present[0]]
        if dealt.commitment is None:
            raise LocalProtocolError("the keys of the dealer were not checked")
        return self.key_set.transcript(dealt.commitment)

    def _greet(self, sender: str, hello: Hello) -> list[Step]:
        if hello != self.key_set.hellos[sender]:
            raise RemoteProtocolError(
                f"client {sender!r} said Hello before, with another key; it cannot join a run twice"
            )
        return self._say_again(sender)

    def _say_again(self, sender: str) -> list[Step]:
        """Send a client all earlier messages of this phase again, because it repeated a message."""
        if sender in self.served:
            return []
        said: list[Message] = [self.key_set.deal]
        if self.is_dealt:
            said.append(self.key_set.key_box(sender, self.sealed))
        if self.all_ready is not None:
            said.append(self.all_ready)
        return [Send(sender, message) for message in said]

    def _store(self, sender: str, sealed: SealedKeys) -> list[Step]:
        """Store the keys that one client made. Once all keys are there, send each client the keys
        that others made for it.
        """
        if sealed.deal != self.key_set.digest:
            return self._say_again(sender)
        if sender not in self._speakers:
            raise RemoteProtocolError(f"client {sender!r} sealed keys, but was not asked to")
        if (known := self.sealed.get(sender)) is not None:
            if known != sealed:
                raise RemoteProtocolError(f"client {sender!r} sent two different sets of keys")
            return self._say_again(sender) if self.is_dealt else []
        self.key_set.check_sealed(sender, sealed)
        made = {**self.sealed, sender: sealed}
        decided = Decide(SealedKeys, (sealed,))
        if len(made) < len(self._speakers):
            return [decided]
        boxes = [Send(name, self.key_set.key_box(name, made)) for name in self.present]
        return [decided, *boxes]

    def _agree(self, sender: str, ready: Ready) -> list[Step]:
        """Store the Ready of one client. Once all clients are ready, the rounds begin."""
        if ready.deal != self.key_set.digest or self._is_over:
            return self._say_again(sender)
        if (known := self.ready.get(sender)) is not None:
            if known != ready:
                raise RemoteProtocolError(f"client {sender!r} sent two different Ready messages")
            return []
        if ready.round != 1:
            raise RemoteProtocolError(
                f"client {sender!r} is ready for round {ready.round}, which is not expected"
            )
        self.key_set.check_ready(sender, 1, self._transcript_hash, ready.signature)
        self.ready[sender] = ready
        if len(self.ready) < len(self.present):
            return []
        signatures = tuple(self.ready[name].signature for name in self.present)
        return [Decide(Ready, (AllReady(self.key_set.digest, 1, signatures),), self.present)]

    def _accuse(self, sender: str, said: BadKeys) -> list[Step]:
        """Make a new Deal without the client that sent this message, and without the first maker of
        a bad key that it names.

        Only these two can tell whether the key is valid. The server does not know which of them
        lies, but one does. So every such Deal removes at least one dishonest client, and t
        dishonest clients remove at most t honest ones.
        """
        if said.deal != self.key_set.digest or self._is_over:
            return self._say_again(sender)
        earlier = self.present[: self.present.index(sender)]
        makers = [name for name in self._speakers if name in earlier]
        what = f"the list of bad keys of client {sender!r}"
        self.roster.check_members(what, said.makers, makers, 1)
        if sender in self.ready:
            raise RemoteProtocolError(f"client {sender!r} said before that all keys are valid")
        maker = said.makers[0]
        why = f"the key of client {maker} for client {sender} is not valid"
        return self._deal_without(BadKeys, dict.fromkeys([maker, sender], why), f"{why}; ")

    def _deal_without(self, event: type, left_out: Mapping[str, str], why: str = "") -> list[Step]:
        """Make a new Deal without some clients, and tell each of them the reason. Nothing has been
        masked yet. If too few clients remain, the run ends.

        event : message or event that caused the new Deal.
        left_out : reason for each client to leave out, by name.
        why : beginning of the reason, if the run ends.
        """
        before = self.key_set.deal
        hellos = tuple(hello for hello in before.hellos if hello.name not in left_out)
        deal = Deal(before.beginning, before.attempt + 1, hellos)
        steps = share_keys(self.plan, self.attendance, event, deal, why)
        match steps:
            case [Decide(messages=(Deal(),))]:
                reasons = {
                    name: f"the run goes on without client {name}: {reason}"[:MAX_REASON]
                    for name, reason in left_out.items()
                }
                told = [Send(name, Abort(reason)) for name, reason in reasons.items()]
                return [*steps, *told]
        return steps
