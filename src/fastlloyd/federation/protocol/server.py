"""Session of the server: it relays keys that it cannot open, adds up uploads that it cannot read,
and decides only once on each sum.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Action, Finish, Record, Send, ServerResult
from fastlloyd.federation.protocol.messages import (
    BEGINNING_BYTES,
    Abort,
    AllReady,
    Broadcast,
    Confirmations,
    Deal,
    Hello,
    Message,
    Parameters,
    SealedKeys,
    decode_records,
    fits,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster
from fastlloyd.federation.protocol.server_confirming import ServerConfirming
from fastlloyd.federation.protocol.server_joining import ServerJoining
from fastlloyd.federation.protocol.server_phases import Attendance, Decide, GoOn, ServerPhase, Step
from fastlloyd.federation.protocol.server_rounds import ServerRounds
from fastlloyd.federation.protocol.server_sharing import ServerSharing
from fastlloyd.federation.protocol.transitions import (
    PHASE_OF,
    SERVER_TRANSITIONS,
    Deadline,
    Phase,
    ServerState,
    answering,
)


@dataclass(slots=True, eq=False, repr=False)
class ServerSession:
    """The server's part in one run. It handles messages of clients and returns actions. It never
    has a key of the clients.

    Messages come from `decode`, and the transport authenticates their senders. A message that
    breaks the protocol raises RemoteProtocolError with the name of its sender, and changes nothing.
    Other clients continue. Each phase of the protocol has an object of its own. The decision that
    begins the phase makes the object. The session keeps the state, knows which clients are absent,
    and takes the steps that the phases return.

    Parameters
    ----------
    plan : Plan
        Plan of the run.
    noise : NoiseSource
        Source of the noise in trust mode `server-noise`, not used in `client-noise`.
    random_bytes : callable
        Source of the bytes that identify each start of a run.

    Attributes
    ----------
    outcome : ServerResult or Unfinished or None
        Outcome of the run, or None until it has ended.
    state : ServerState
        State of the server in the run.

    Raises
    ------
    LocalProtocolError
        If the noise is repeatable, outside `testing.repeatable_noise`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fastlloyd import Plan, ServerSession
    >>> from fastlloyd.dp.noise import SystemNoise
    >>> plan = Plan.from_toml(Path("plan.toml").read_text())
    >>> session = ServerSession(plan, SystemNoise())
    >>> session.state.value
    'joining'
    """

    plan: Plan
    noise: InitVar[NoiseSource]
    random_bytes: InitVar[Callable[[int], bytes]] = os.urandom
    state: ServerState = field(default=ServerState.JOINING, init=False)
    outcome: ServerResult | None = field(default=None, init=False)
    _noise: NoiseSource = field(init=False)
    _roster: Roster = field(init=False)
    _attendance: Attendance = field(init=False)
    _joining: ServerJoining = field(init=False)
    _sharing: ServerSharing | None = field(default=None, init=False)
    _rounds: ServerRounds | None = field(default=None, init=False)
    _confirming: ServerConfirming | None = field(default=None, init=False)

    def __post_init__(self, noise: NoiseSource, random_bytes: Callable[[int], bytes]) -> None:
        check_private(noise)
        beginning = random_bytes(BEGINNING_BYTES)
        self._noise, self._roster = noise, Roster.of(self.plan)
        self._attendance = Attendance(self.plan.names)
        self._joining = ServerJoining(self.plan, self._roster, self._attendance, beginning)

    def restore(self, recorded: Sequence[bytes]) -> None:
        """Restore the session from stored messages. It then answers every client that repeats a
        message.

        Clients send again, as the same bytes, everything that was not stored: Hellos before the
        first Deal, uploads of an open round, and confirmations. No noise is drawn.

        Parameters
        ----------
        recorded : bytes of all stored messages, in order.

        Raises
        ------
        LocalProtocolError : the messages do not come from such a session. The session cannot be
            used then.
        """
        for position, message in enumerate(decode_records(recorded, self.plan), 1):
            with fits(position, message):
                # raises an error if the state does not allow the message
                self._state_after(message)
                self._check(message)
                self._apply(message)

    @property
    def step(self) -> tuple[str, ...]:
        """Identifier of the current step. A deadline applies to one step."""
        turn = self._rounds.turn if self._rounds else 0
        return self.state.value, str(self.n_closed), str(turn), str(len(self._present))

    @property
    def progress(self) -> str:
        """Progress of the run, as text for readers."""
        n_rounds = self.plan.mechanism.n_rounds
        return (
            f"round {self.n_closed + 1} of {n_rounds}"
            if self.state is ServerState.AGGREGATING
            else self.state.value
        )

    @property
    def joined(self) -> tuple[str, ...]:
        """Clients that said Hello and have not left, in the order of their Hellos."""
        return tuple(name for name in self._joining.hellos if name not in self._attendance.gone)

    def hello_of(self, name: str) -> Hello | None:
        """Return the Hello with which client `name` joined, or None if it did not join or has left.
        Any thread may call this.
        """
        return None if name in self._attendance.gone else self._joining.hellos.get(name)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that the server waits for in this step, in the order of the plan, without absent
        ones.
        """
        return () if self._waiting is None else self._waiting.awaited

    @property
    def may_ask_another(self) -> bool:
        """Return whether the server may ask another client for the parameters, because the client
        that was asked is late. Both are clients whose answers are in the last sum.
        """
        return self.state is ServerState.SETTLING and self._opened.may_ask_another

    def receive(self, sender: str, message: Message) -> list[Action]:
        """Handle a message of client `sender`, and return the actions that answer it.

        Raises RemoteProtocolError if the protocol does not allow the message.
        """
        if sender not in self._roster.signing_keys:
            raise RemoteProtocolError(f"there is no client {sender!r:.80} in the plan")
        if (self.state, type(message)) not in SERVER_TRANSITIONS:
            raise RemoteProtocolError(
                f"client {sender!r} sent {type(message).__name__}, which is not expected by a"
                f" server that is {self.state.value}"
            )
        if self.outcome is not None and self.outcome.reason is not None:
            return [Send(sender, Abort(self.outcome.reason))]
        if self._present and sender not in self._present:
            return [Send(sender, Abort(f"the run began without client {sender}"))]
        phase = self._phase(answering(self.state, type(message)))
        return self._take(phase.receive(sender, message))

    def deadline(self) -> list[Action]:
        """Stop waiting. Continue with the clients that answered if they are enough, otherwise end
        the run.
        """
        return [] if self._waiting is None else self._take(self._waiting.deadline())

    def away(self, name: str) -> list[Action]:
        """Remember that client `name` has had no connection for a while.

        If the client was late before, the server does not wait for it until it has a connection
        again. A sum always needs enough clients. If too few are present, the server also waits for
        absent clients, until the deadline.
        """
        self._attendance.away.add(name)
        return self._go_on(Deadline)

    def left(self, name: str) -> list[Action]:
        """Remember that client `name` has left the run permanently.

        The server stops waiting for it, and ends the run if too few clients are left.
        """
        self._attendance.gone[name] = None
        return self._go_on(Deadline)

    def back(self, name: str) -> None:
        """Remember that client `name` has a connection again, so the server waits for it."""
        self._attendance.away.discard(name)

    def draw_ahead(self) -> None:
        """Draw the noise of the open round early. The driver calls this while it has no message to
        handle.
        """
        if self.state is ServerState.AGGREGATING:
            self._opened.begun()

    @property
    def _waiting(self) -> ServerPhase | None:
        """Phase that the run is in, or None once the run has ended."""
        return self._phase(PHASE_OF[self.state]) if self.state in PHASE_OF else None

    def _phase(self, phase: Phase) -> ServerPhase:
        match phase:
            case Phase.JOINING:
                return self._joining
            case Phase.SHARING:
                return self._agreed
            case Phase.ROUNDS:
                return self._opened
            case Phase.CONFIRMING:
                return self._summed

    @property
    def _agreed(self) -> ServerSharing:
        """Phase in which clients share keys. Raises LocalProtocolError before the first Deal."""
        if self._sharing is None:
            raise LocalProtocolError("no Deal was decided on")
        return self._sharing

    @property
    def _opened(self) -> ServerRounds:
        """Phase of the rounds. Raises LocalProtocolError before all clients are ready."""
        if self._rounds is None:
            raise LocalProtocolError("no round was opened")
        return self._rounds

    @property
    def _summed(self) -> ServerConfirming:
        """Phase of the confirmations. Raises LocalProtocolError before the last round is closed."""
        if self._confirming is None:
            raise LocalProtocolError("the last round was not closed")
        return self._confirming

    @property
    def _present(self) -> tuple[str, ...]:
        """Clients that share keys, or are about to. Empty before the first Deal."""
        return () if self._sharing is None else self._sharing.present

    @property
    def n_closed(self) -> int:
        """Number of rounds whose sums are known."""
        return 0 if self._rounds is None else self._rounds.n_closed

    def _go_on(self, event: type) -> list[Action]:
        """Continue if the server waits for no client, or end the run if too few are left."""
        return [] if self._waiting is None else self._take(self._waiting.go_on(event))

    def _take(self, steps: Sequence[Step]) -> list[Action]:
        """Take the steps that a phase returned, in order, and return the actions that they lead
        to.
        """
        actions: list[Action] = []
        for step in steps:
            match step:
                case Send():
                    actions.append(step)
                case GoOn(event):
                    actions += self._go_on(event)
                case Decide():
                    actions += self._decide(step)
        return actions

    def _decide(self, step: Decide) -> list[Action]:
        """Store a decision and send it to its recipients. The decision may end the run."""
        before, event = self.state, step.event
        for message in step.messages:
            following = self._state_after(message)
            if following not in SERVER_TRANSITIONS.get((before, event), ()):
                raise LocalProtocolError(
                    f"{event.__name__} does not lead from {before.value} to {following.value}"
                )
            self._apply(message)
        finish = [] if self.outcome is None else [Finish(self.outcome)]
        sends = [Send(name, message) for message in step.messages for name in step.to]
        return [*map(Record, step.messages), *sends, *finish, *self._go_on(Deadline)]

    def _state_after(self, message: Message) -> ServerState:
        """Return the state after a decision. Raises LocalProtocolError if the current state does
        not allow the decision.
        """
        m, following = self.plan.mechanism, self.n_closed + 1
        match self.state, message:
            case ServerState.JOINING | ServerState.DEALING | ServerState.AGREEING, Deal():
                return ServerState.DEALING
            case ServerState.DEALING, SealedKeys(deal) if deal == self._agreed.key_set.digest:
                is_last = self._agreed.n_to_seal == 1
                return ServerState.AGREEING if is_last else ServerState.DEALING
            case ServerState.AGREEING, AllReady(deal) if deal == self._agreed.key_set.digest:
                return ServerState.AGGREGATING
            case ServerState.AGGREGATING, Broadcast(number) if number == following:
                if m.travelling_bytes(number - 1):
                    return ServerState.SETTLING
                return ServerState.CONFIRMING if number == m.n_rounds else ServerState.AGGREGATING
            case ServerState.SETTLING, Parameters(number) if number == following:
                return ServerState.CONFIRMING if number > m.n_rounds else ServerState.AGGREGATING
            case ServerState.CONFIRMING, Confirmations():
                return ServerState.FINISHED
            case ServerState.FINISHED | ServerState.ABORTED, _:
                raise LocalProtocolError(f"the run is already {self.state.value}")
            case _, Abort():
                return ServerState.ABORTED
        raise LocalProtocolError(
            f"a server that is {self.state.value} cannot take the decision {type(message).__name__}"
        )

    def _apply(self, message: Message) -> None:
        """Apply a decision, which has just been made or is read again after a restart."""
        self.state = self._state_after(message)
        match message:
            case Deal():
                key_set = KeySet(self._roster, message)
                self._joining.take_over(key_set)
                self._sharing = ServerSharing(self.plan, self._roster, self._attendance, key_set)
            case SealedKeys():
                self._agreed.apply(message)
            case AllReady():
                self._agreed.apply(message)
                self._rounds = ServerRounds(
                    self.plan, self._roster, self._attendance, self._agreed.key_set, self._noise
                )
            case Broadcast() | Parameters():
                self._opened.apply(message)
                self._agreed.served.update(self._opened.included[-1])
            case Confirmations():
                self._summed.apply(message)
                self.outcome = ServerResult(included=self._included)
            case Abort():
                if self._rounds is not None:
                    self._rounds.forget()
                self.outcome = ServerResult(included=self._included, reason=message.reason)
        if self.state is ServerState.CONFIRMING:
            self._confirming = ServerConfirming(
                self.plan,
                self._roster,
                self._attendance,
                self._agreed.key_set,
                vouching=self._included[-1],
            )

    @property
    def _included(self) -> tuple[tuple[str, ...], ...]:
        return () if self._rounds is None else self._rounds.included

    def _check(self, message: Message) -> None:
        """Raise LocalProtocolError unless a stored decision names clients that it may name, and
        enough of them.
        """
        match message:
            case Deal():
                following = KeySet(self._roster, message)
                if self._sharing is not None and not following.follows(self._sharing.key_set):
                    raise LocalProtocolError(
                        "the new Deal does not name fewer clients than the Deal before it"
                    )
            case SealedKeys() | AllReady():
                self._agreed.check(message)
            case Broadcast() | Parameters():
                self._opened.check(message)
            case Confirmations():
                self._summed.check(message)


# a dataclass keeps the default as a class attribute, which would look like a field
del ServerSession.random_bytes  # type: ignore[attr-defined]
