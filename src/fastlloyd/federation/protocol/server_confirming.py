"""Phase of the server in which clients confirm the result, and the server relays their
confirmations.
"""

from collections.abc import Container
from dataclasses import dataclass, field

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Send
from fastlloyd.federation.protocol.messages import Confirmation, Confirmations
from fastlloyd.federation.protocol.roster import KeySet, Roster, missing_of
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, GoOn, Step
from fastlloyd.federation.protocol.transitions import Deadline


@dataclass(slots=True, eq=False)
class ServerConfirming:
    """Confirmations of a result.

    plan : the plan.
    roster : clients of the plan.
    attendance : clients that the server does not wait for.
    key_set : clients that share keys.
    vouching : names of the clients in the last sum. Clients accept confirmations from no others, so
        the server counts only theirs.
    confirmations : confirmation of each client, by name.
    relayed : message with the confirmations that the server sent, or None before.
    """

    plan: Plan
    roster: Roster
    attendance: Attendance
    key_set: KeySet
    vouching: tuple[str, ...]
    confirmations: dict[str, Confirmation] = field(default_factory=dict)
    relayed: Confirmations | None = None

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that have not confirmed and are not absent."""
        return self.attendance.unanswered(self.key_set.names, self.confirmations)

    def receive(self, sender: str, message: Confirmation) -> list[Step]:
        """Store one client's confirmation, and relay all confirmations once they are complete.

        Raises RemoteProtocolError if the client did not sign it, or sent another confirmation
        before.
        """
        self.key_set.check_confirmation(sender, message)
        stored = self.confirmations.setdefault(sender, message)
        if stored != message:
            raise RemoteProtocolError(f"client {sender!r} sent two different confirmations")
        return [GoOn(Confirmation)] if self.relayed is None else [Send(sender, self.relayed)]

    def deadline(self) -> list[Step]:
        """Relay the confirmations that came."""
        return self._relay(Deadline)

    def go_on(self, event: type) -> list[Step]:
        """Relay the confirmations once all clients that are not absent have confirmed. End the run
        if too few are left.

        event : message or event that caused the call.
        """
        if ended := self.attendance.if_short(self.vouching, self.confirmations, self._needed):
            return ended
        if not self.attendance.have_answered(self.key_set.names, self.confirmations):
            return []
        is_enough = self._n_vouching(self.confirmations) >= self._needed
        return self._relay(event) if is_enough else []

    def check(self, message: Confirmations) -> None:
        """Raise LocalProtocolError or RemoteProtocolError if a stored message names a client that
        shares no keys, or too few clients of the last sum.
        """
        confirmed = [name for name, _, _ in message.confirmed]
        self.roster.check_members(
            "the list of confirmations", confirmed, self.key_set.names, self._needed
        )
        if self._n_vouching(confirmed) < self._needed:
            raise LocalProtocolError(
                "the confirmations come from too few clients of the last round"
            )

    def apply(self, message: Confirmations) -> None:
        """Store the confirmations that were sent to clients."""
        self.relayed = message
        self.confirmations |= {
            name: Confirmation(mac, signature) for name, mac, signature in message.confirmed
        }

    @property
    def _needed(self) -> int:
        return self.plan.quorum(len(self.key_set.names)).confirmations

    def _n_vouching(self, answers: Container[str]) -> int:
        """Return the number of clients in `answers` that are in the last sum."""
        return sum(name in answers for name in self.vouching)

    def _relay(self, event: type) -> list[Step]:
        said = self.confirmations
        n_confirmed = self._n_vouching(said)
        if n_confirmed < self._needed:
            missing = missing_of(self.vouching, said)
            what = f"{n_confirmed} clients of the last round confirmed the result{missing}"
            return self.attendance.too_few(event, what, self._needed)
        confirmed = tuple(
            (name, said[name].mac, said[name].signature)
            for name in self.key_set.names
            if name in said
        )
        return [Decide(event, (Confirmations(confirmed),), self.key_set.names)]
