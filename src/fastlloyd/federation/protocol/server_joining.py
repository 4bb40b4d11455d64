"""Phase of the server in which it collects Hellos, until clients can share keys."""

from dataclasses import dataclass, field

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import Deal, Hello, Message
from fastlloyd.federation.protocol.roster import KeySet, Roster, missing_of
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, GoOn, Step
from fastlloyd.federation.protocol.transitions import Deadline


@dataclass(slots=True, eq=False)
class ServerJoining:
    """Hellos of one start of a run.

    plan : the plan.
    roster : clients of the plan.
    attendance : clients that the server does not wait for.
    beginning : random bytes that identify this start.
    hellos : Hello of each client, by name, in the order in which the Hellos came.
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
        """Store a client's Hello. Ignore any other message: it belongs to an earlier attempt to
        start the run, and its sender does not know yet that this attempt has ended.

        Raises RemoteProtocolError if the Hello is invalid or names another client.
        """
        if not isinstance(message, Hello) or message == self.hellos.get(sender):
            return []
        if message.name != sender:
            raise RemoteProtocolError(
                f"client {sender!r} said Hello in the name of {message.name!r}"
            )
        self.hellos[sender] = self.roster.checked(message)
        # if it left, it left with other keys, and now joins again
        self.attendance.gone.pop(sender, None)
        return [GoOn(Hello)]

    def deadline(self) -> list[Step]:
        """Let the clients that said Hello share keys."""
        return self._close(Deadline)

    def go_on(self, event: type) -> list[Step]:
        """Let clients share keys once each has said Hello or left. End the run if too few are left.

        event : message or event that caused the call.
        """
        gone = self.attendance.gone
        is_short = bool(gone) and self.attendance.left_over(self.plan.names) < self.plan.min_present
        is_complete = len(self.hellos.keys() | gone.keys()) == self.plan.n_clients
        return self._close(event) if is_short or is_complete else []

    def take_over(self, key_set: KeySet) -> None:
        """Use the Hellos and the random bytes of a Deal, which an earlier process of the server may
        have made.
        """
        self.beginning = key_set.deal.beginning
        self.hellos |= key_set.hellos

    def _close(self, event: type) -> list[Step]:
        named = [self.hellos[name] for name in self.roster.in_order(self.hellos)]
        return share_keys(self.plan, self.attendance, event, Deal(self.beginning, 1, tuple(named)))


def share_keys(
    plan: Plan, attendance: Attendance, event: type, deal: Deal, why: str = ""
) -> list[Step]:
    """Return the steps that send `deal`, so that its clients share keys. Clients that have left the
    run are taken out first. If too few clients remain, the steps end the run.

    event : message or event that caused this decision.
    deal : Deal to send. It may still name clients that have left.
    why : beginning of the reason, if the run ends.
    """
    hellos = tuple(hello for hello in deal.hellos if hello.name not in attendance.gone)
    present = [hello.name for hello in hellos]
    n, least = len(present), plan.min_present
    if n < least:
        missing = missing_of(plan.names, present)
        what = f"{why}{n} of {plan.n_clients} clients joined in time{missing}"
        return attendance.too_few(event, what, least)
    return [Decide(event, (Deal(deal.beginning, deal.attempt, hellos),), present)]
