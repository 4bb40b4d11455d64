"""Joining phase of the server: it collects Hellos until keys can be shared."""

from dataclasses import dataclass, field

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Deal, Hello, Message
from fastlloyd.federation.protocol.roster import KeySet, Roster, missing_of
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, GoOn, Step
from fastlloyd.federation.protocol.transitions import Deadline


@dataclass(slots=True, eq=False)
class ServerJoining:
    """Hellos of one beginning of a run.

    beginning : random bytes that identify it. hellos : by name, in the order in which they came.
    """

    plan: Plan
    roster: Roster
    attendance: Attendance
    beginning: bytes
    hellos: dict[str, Hello] = field(default_factory=dict)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that have not said Hello."""
        return tuple(name for name in self.plan.names if name not in self.hellos)

    def receive(self, sender: str, message: Message) -> list[Step]:
        """Take a Hello. Any other message belongs to an earlier beginning, whose end its sender
        missed.
        """
        if not isinstance(message, Hello) or message == self.hellos.get(sender):
            return []
        if message.name != sender:
            raise RemoteProtocolError(
                f"client {sender!r} said Hello in the name of {message.name!r}"
            )
        self.hellos[sender] = self.roster.checked(message)
        # what it said before was with other keys, of no use now
        self.attendance.gone.pop(sender, None)
        return [GoOn(Hello)]

    def deadline(self) -> list[Step]:
        """Share keys among those that said Hello."""
        return self._close(Deadline)

    def go_on(self, event: type) -> list[Step]:
        """Share keys once each client has said Hello or left, or end the run if too few are
        left.
        """
        gone = self.attendance.gone
        is_short = bool(gone) and self.attendance.left_over(self.plan.names) < self.plan.min_present
        is_complete = len(self.hellos.keys() | gone.keys()) == self.plan.n_clients
        return self._close(event) if is_short or is_complete else []

    def take_over(self, key_set: KeySet) -> None:
        """Take the Hellos and the beginning of a Deal, which an earlier process may have made."""
        self.beginning = key_set.deal.beginning
        self.hellos |= key_set.hellos

    def _close(self, event: type) -> list[Step]:
        named = [self.hellos[name] for name in self.roster.in_order(self.hellos)]
        return share_keys(self.plan, self.attendance, event, Deal(self.beginning, 1, tuple(named)))


def share_keys(
    plan: Plan, attendance: Attendance, event: type, deal: Deal, why: str = ""
) -> list[Step]:
    """Have the clients of `deal` that have not left make keys for each other.

    If they are too few, the run ends, for the reason `why`.
    """
    hellos = tuple(hello for hello in deal.hellos if hello.name not in attendance.gone)
    present = [hello.name for hello in hellos]
    n, least = len(present), plan.min_present
    if n < least:
        missing = missing_of(plan.names, present)
        what = f"{why}{n} of {plan.n_clients} clients joined in time{missing}"
        return attendance.too_few(event, what, least)
    return [Decide(event, (Deal(deal.beginning, deal.attempt, hellos),), present)]
