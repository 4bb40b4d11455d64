"""Phase of the server in which it adds up uploads that it cannot read, decides only once on each
sum, and relays the parameters that follow from the sum.
"""

from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.quorum import Quorum
from fastlloyd.federation.protocol.actions import Send
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Message,
    Parameters,
    Proposal,
    Turn,
    Upload,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster, missing_of
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, GoOn, Step
from fastlloyd.federation.protocol.transitions import Deadline
from fastlloyd.federation.secagg.ring import RingVector


@dataclass(slots=True, eq=False, repr=False)
class ServerRounds:
    """Rounds of the clients that share keys.

    plan : the plan.
    roster : clients of the plan.
    attendance : clients that the server does not wait for.
    key_set : clients that share keys.
    noise : source of the server's noise.
    uploads : upload of each client in the open round, by name.
    broadcasts : Broadcast of each closed round.
    included : for each closed round, names of the clients in its sum, in the order of the plan.
    parameters : Parameters of each round that has any, as a dict from the number of the round.
    turn : number of clients in the last sum that were asked for parameters and did not answer.
    """

    plan: Plan
    roster: Roster
    attendance: Attendance
    key_set: KeySet
    noise: NoiseSource
    uploads: dict[str, Upload] = field(default_factory=dict)
    broadcasts: list[Broadcast] = field(default_factory=list)
    included: tuple[tuple[str, ...], ...] = ()
    parameters: dict[int, Parameters] = field(default_factory=dict)
    turn: int = 0
    _quorum: Quorum = field(init=False)
    # sum of the noise and the uploads so far
    _total: RingVector | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._quorum = self.plan.quorum(len(self.present))

    @property
    def present(self) -> tuple[str, ...]:
        """Clients that share keys."""
        return self.key_set.names

    @property
    def n_closed(self) -> int:
        """Number of closed rounds. Their sums are final."""
        return len(self.broadcasts)

    @property
    def is_settling(self) -> bool:
        """Return whether the server waits for the parameters of the next query."""
        n, m = self.n_closed, self.plan.mechanism
        return n > 0 and n + 1 not in self.parameters and bool(m.travelling_bytes(n - 1))

    @property
    def may_ask_another(self) -> bool:
        """Return whether the server may ask another client in the last sum for parameters, because
        the client that was asked is late.
        """
        most = min(self._quorum.max_turns, len(self.included[-1]) - 1) if self.included else 0
        return self.is_settling and self.turn < most

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients whose uploads the server waits for, or the client whose parameters it waits
        for.
        """
        if self.is_settling:
            return self.included[-1][self.turn : self.turn + 1]
        return self.attendance.unanswered(self.present, self.uploads)

    def receive(self, sender: str, message: Message) -> list[Step]:
        """Answer a message of a client that shares keys. Raises RemoteProtocolError if the protocol
        does not allow the message.
        """
        match message:
            case Upload():
                return self._collect(sender, message)
            case Proposal():
                return self._settle(sender, message)
        raise AssertionError(f"{type(message).__name__} is not a message of a round")

    def deadline(self) -> list[Step]:
        """Close the round with the uploads that came, or ask another client for parameters."""
        return self._next_turn() if self.is_settling else self._close(Deadline)

    def go_on(self, event: type) -> list[Step]:
        """Close the round once all clients that are not absent have answered. End the run if too
        few are left.

        If the client that was asked for parameters has left, ask the next one.

        event : message or event that caused the call.
        """
        is_summed = self.n_closed == self.plan.mechanism.n_rounds
        needed = self._quorum.confirmations if is_summed else self._quorum.needed
        if ended := self.attendance.if_short(*self._counted_on, needed):
            return ended
        if self.is_settling:
            is_there = self.attendance.gone.keys().isdisjoint(self.awaited)
            return [] if is_there else self._next_turn()
        is_complete = self.attendance.have_answered(self.present, self.uploads)
        return self._close(event) if is_complete and len(self.uploads) >= needed else []

    @property
    def _counted_on(self) -> tuple[tuple[str, ...], Container[str]]:
        """Return two groups of clients, which decide whether enough clients are left. The first
        group contains the clients that this round and all later rounds need. The second contains
        the clients that count even if they have left.

        The second group is empty except in the last round: there, the upload of a client still
        helps after the client has left. If such an upload counted in an earlier round, the round
        would close. The other clients would then pay for a next round that could not close.
        """
        match self.plan.mechanism.n_rounds - self.n_closed:
            case 0:
                return self.included[-1], ()
            case 1:
                return self.present, self.uploads
        return self.present, ()

    def check(self, message: Broadcast | Parameters) -> None:
        """Raise LocalProtocolError or RemoteProtocolError unless a stored message names only
        clients that share keys and, for a Broadcast, enough of them.
        """
        match message:
            case Broadcast():
                included = list(message.included(self.plan.names))
                self.roster.check_members(
                    "the broadcast", included, self.present, self._quorum.needed
                )
            case Parameters():
                self.roster.check_members(
                    "the message of parameters", [message.client], self.present, 0
                )

    def apply(self, message: Broadcast | Parameters) -> None:
        """Store the sum of a round, or the parameters of the next round."""
        match message:
            case Broadcast():
                included = tuple(message.included(self.plan.names))
                self.broadcasts.append(message)
                self.included = (*self.included, included)
                self.attendance.late.update(set(self.present).difference(included))
                self.turn = 0
                self.forget()
            case Parameters():
                self.parameters[message.round] = message

    def forget(self) -> None:
        """Drop the uploads of the open round."""
        self.uploads, self._total = {}, None

    def begun(self) -> RingVector:
        """Return the sum of the uploads so far in the open round. The sum starts with the server's
        noise, which is drawn at the first call.
        """
        if self._total is None:
            round = self.plan.mechanism.all_rounds[self.n_closed]
            noise = self.plan.draw_server_noise(round, self.noise).ravel()
            # the checksum word gets no noise
            self._total = self.plan.ring.wrap(np.append(noise, np.int64(0)))
        return self._total

    def _collect(self, sender: str, upload: Upload) -> list[Step]:
        """Add one client's upload to the sum. The last upload closes the round."""
        if upload.round <= self.n_closed:
            return self._catch_up(sender, upload.round)
        is_open = self.n_closed < self.plan.mechanism.n_rounds and not self.is_settling
        if upload.round != self.n_closed + 1 or not is_open:
            raise RemoteProtocolError(
                f"client {sender!r} sent an upload for round {upload.round}, which is not open yet"
            )
        if (stored := self.uploads.get(sender)) is not None:
            if upload != stored:
                raise RemoteProtocolError(
                    f"client {sender!r} sent two different uploads for round {upload.round}"
                )
            return []
        self.plan.ring.accumulate(self.begun(), upload.payload)
        self.uploads[sender] = upload
        return [GoOn(Upload)]

    def _catch_up(self, sender: str, number: int) -> list[Step]:
        """Send a client the Broadcast of a closed round again, and the message that follows it.

        number : number of the closed round, from 1.
        """
        closed, following = Send(sender, self.broadcasts[number - 1]), number + 1
        if following in self.parameters:
            return [closed, Send(sender, self.parameters[following])]
        # The client whose turn it is may have lost the Turn, and needs the sum before it. The first
        # client in the sum needs no Turn.
        is_asked = self.is_settling and self.turn > 0 and sender in self.awaited
        if is_asked and number == self.n_closed:
            return [closed, Send(sender, Turn(following))]
        return [closed]

    def _close(self, event: type) -> list[Step]:
        """Decide on the sum of the open round, and on the clients in it. End the run if they are
        too few.
        """
        number, needed = self.n_closed + 1, self._quorum.needed
        if self._total is None or len(self.uploads) < needed:
            missing = missing_of(self.present, self.uploads)
            what = f"{len(self.uploads)} clients answered in round {number}{missing}"
            return self.attendance.too_few(event, what, needed)
        nonces = {name: upload.nonce for name, upload in self.uploads.items()}
        payload = self.plan.ring.to_bytes(self._total)
        broadcast = Broadcast.of(self.plan.names, number, nonces, payload)
        return [Decide(event, (broadcast,), self.present)]

    def _settle(self, sender: str, proposal: Proposal) -> list[Step]:
        """Store the first parameters from a client that was asked, and relay them to all clients.

        A client that proposes other parameters later is sent the stored parameters. Parameters from
        a client that was not asked are ignored, otherwise the fastest client would choose them.
        After a restart the server asks the clients again, one after the other. A client that has
        answered before sends the same parameters again.
        """
        if proposal.round in self.parameters:
            return [Send(sender, self.parameters[proposal.round])]
        if not self.is_settling or proposal.round != self.n_closed + 1:
            raise RemoteProtocolError(
                f"client {sender!r} sent parameters for round {proposal.round}, which are not"
                " expected"
            )
        if sender not in self.included[-1][: self.turn + 1]:
            return []
        parameters = Parameters(
            proposal.round, sender, proposal.salt, proposal.box, proposal.signature
        )
        self.key_set.check_parameters(parameters)
        return [Decide(Proposal, (parameters,), self.present)]

    def _next_turn(self) -> list[Step]:
        """Ask another client for the parameters: the next one among the clients in the last sum.
        End the run if no further client may be asked.
        """
        asked, number = self.included[-1], self.n_closed + 1
        if not self.may_ask_another:
            reason = (
                f"no client computed the parameters of round {number} in time, after"
                f" {self.turn + 1} clients were asked"
            )
            return [Decide(Deadline, (Abort(reason),), self.plan.names)]
        self.attendance.late.add(asked[self.turn])
        self.turn += 1
        return [Send(asked[self.turn], Turn(number)), GoOn(Deadline)]
