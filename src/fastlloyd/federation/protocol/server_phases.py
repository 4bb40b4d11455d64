"""Interface of the server's phases, one for each part of the protocol, and the attendance that they
share.

`transitions.py` says which phase answers which message in which state. A phase contains only the
data of its part of the protocol. It returns steps, and the session takes them.
"""

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastlloyd.federation.protocol.actions import Send
from fastlloyd.federation.protocol.messages import Abort, Message, printable
from fastlloyd.federation.protocol.transitions import Deadline


@dataclass(frozen=True, slots=True)
class Decide:
    """Record these messages and send them to these clients, then take the next step, as after
    `GoOn`.

    event : the message or event that caused the decision.
    """

    event: type
    messages: tuple[Message, ...]
    to: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GoOn:
    """Take the next step of the run if no client is awaited any more, or too few are left."""

    event: type


Step = Send | Decide | GoOn


@dataclass(slots=True)
class Attendance:
    """Clients that the server does not wait for, in any phase.

    late : clients that kept the others waiting before. away : clients without a connection; the
        transport reports them to every process again. gone : clients that left permanently, in this
        order.
    """

    names: tuple[str, ...]
    late: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    gone: dict[str, None] = field(default_factory=dict)

    @property
    def absent(self) -> set[str]:
        """Clients that left permanently, and clients that were late before and are away now.

        So a client that is away, even again and again, makes the others wait for only one step's
        timeout.
        """
        return self.late & self.away | self.gone.keys()

    def unanswered(self, names: Sequence[str], answers: Container[str]) -> tuple[str, ...]:
        """Return the clients of `names` that are awaited: neither absent nor among the answers."""
        absent = self.absent
        return tuple(name for name in names if name not in answers and name not in absent)

    def have_answered(self, names: Sequence[str], answers: Collection[str]) -> bool:
        """Return whether all of `names` have answered except those that are absent."""
        # most often too many are missing, and then no client is looked at
        may_have = len(names) - len(answers) <= len(self.absent)
        return may_have and not self.unanswered(names, answers)

    def left_over(self, names: Sequence[str], answers: Container[str] = ()) -> int:
        """Return the number of these clients that have not left, or that answered before they
        left.
        """
        return sum(name not in self.gone or name in answers for name in names)

    def too_few(self, event: type, what: str, needed: int) -> list[Step]:
        """End the run, because more clients are needed.

        what : says how many clients there are.
        """
        why = "".join(f"client {name} left for good: " for name in list(self.gone)[-1:])
        reason = f"{why}{what}, and at least {needed} are needed"
        return [Decide(event, (Abort(printable(reason)),), self.names)]

    def if_short(self, names: Sequence[str], answers: Container[str], needed: int) -> list[Step]:
        """End the run if clients have left and fewer than needed are left of `names`."""
        if self.gone and (n_left := self.left_over(names, answers)) < needed:
            return self.too_few(Deadline, f"{n_left} clients are left", needed)
        return []


class ServerPhase(Protocol):
    """Part of the server in one phase: it answers the messages of that phase, even late ones."""

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that the server waits for now, in the order of the plan, without absent ones."""
        ...

    def receive(self, sender: str, message: Any) -> list[Step]:
        """Answer a client of this run. Raises RemoteProtocolError if the protocol does not allow
        its message.
        """
        ...

    def deadline(self) -> list[Step]:
        """Stop waiting: continue with the clients that answered, or end the run."""
        ...

    def go_on(self, event: type) -> list[Step]:
        """Take the next step if no client is awaited, or end the run if too few are left."""
        ...
