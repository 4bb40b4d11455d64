"""Interface of the server's phases, one for each part of the protocol, and the list of absent
clients that they share.

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
    """Step: store these messages, send them to these clients, and then take the next step, as after
    `GoOn`.

    event : type of the message or event that caused the decision.
    messages : messages that the server decided on.
    to : names of the recipients.
    """

    event: type
    messages: tuple[Message, ...]
    to: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GoOn:
    """Step: continue the run if the server waits for no client any more, or end it if too few
    clients are left.

    event : type of the message or event that caused the step.
    """

    event: type


Step = Send | Decide | GoOn


@dataclass(slots=True)
class Attendance:
    """Clients that the server does not wait for, in any phase.

    names : names of all clients of the plan, in order.
    late : names of the clients that kept the others waiting before.
    away : names of the clients without a connection. The transport reports them again to each new
        process.
    gone : names of the clients that left permanently, in the order in which they left.
    """

    names: tuple[str, ...]
    late: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    gone: dict[str, None] = field(default_factory=dict)

    @property
    def absent(self) -> set[str]:
        """Clients that left permanently, and clients that were late before and are away now.

        A client that is away again and again makes the others wait only once, for the timeout of
        one step.
        """
        return self.late & self.away | self.gone.keys()

    def unanswered(self, names: Sequence[str], answers: Container[str]) -> tuple[str, ...]:
        """Return the clients of `names` that the server waits for: those that are not absent and
        not in `answers`.
        """
        absent = self.absent
        return tuple(name for name in names if name not in answers and name not in absent)

    def have_answered(self, names: Sequence[str], answers: Collection[str]) -> bool:
        """Return whether all clients of `names` have answered, except those that are absent."""
        # usually too many answers are missing, and this test is fast
        may_have = len(names) - len(answers) <= len(self.absent)
        return may_have and not self.unanswered(names, answers)

    def left_over(self, names: Sequence[str], answers: Container[str] = ()) -> int:
        """Return the number of those clients of `names` that have not left, or that answered before
        they left.
        """
        return sum(name not in self.gone or name in answers for name in names)

    def too_few(self, event: type, what: str, needed: int) -> list[Step]:
        """Return the steps that end the run, because more clients are needed.

        event : type of the message or event that caused the end.
        what : clause that says how many clients there are.
        needed : smallest number of clients that the run needs.
        """
        why = "".join(f"client {name} left for good: " for name in list(self.gone)[-1:])
        reason = f"{why}{what}, and at least {needed} are needed"
        return [Decide(event, (Abort(printable(reason)),), self.names)]

    def if_short(self, names: Sequence[str], answers: Container[str], needed: int) -> list[Step]:
        """Return the steps that end the run if clients have left, and fewer than `needed` of
        `names` remain. Otherwise return an empty list.
        """
        if self.gone and (n_left := self.left_over(names, answers)) < needed:
            return self.too_few(Deadline, f"{n_left} clients are left", needed)
        return []


class ServerPhase(Protocol):
    """Part of the server in one phase. It answers the messages of that phase, even if they are
    late.
    """

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that the server waits for now, in the order of the plan, without absent ones."""
        ...

    def receive(self, sender: str, message: Any) -> list[Step]:
        """Answer a message of a client. Raises RemoteProtocolError if the protocol does not allow
        the message.
        """
        ...

    def deadline(self) -> list[Step]:
        """Stop waiting. Continue with the clients that answered, or end the run."""
        ...

    def go_on(self, event: type) -> list[Step]:
        """Continue if the server waits for no client, or end the run if too few are left.

        event : type of the message or event that caused the call.
        """
        ...
