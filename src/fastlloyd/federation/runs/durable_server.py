"""Server of a run with durable steps: it sends only messages that follow from what is on disk."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import OldCopyError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import Action, Finish, Record, Send, ServerResult
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.federation.protocol.roster import hello_digest, leave_statement
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.federation.runs.steps import Clock, DurableParty, check_goes_on
from fastlloyd.federation.secagg.keys import verify
from fastlloyd.federation.store import LogPosition, Store
from fastlloyd.federation.store.events import (
    ClientJoined,
    ClientLeft,
    Event,
    Outcome,
    PeerSigned,
    recorded,
)


class DurableServer(DurableParty[ServerSession]):
    """Server in one run, for a transport (`transport.party.ServerParty`).

    Uploads of an open round and confirmations are only in memory. After a restart, the clients send
    them again. With each upload a client reports the position of its own store, and the position is
    durable before the upload is used. So after a restart the server refuses an older copy of the
    client's store, which would answer differently. One transaction contains all positions that came
    together. If an upload closes a round, the same transaction also contains the sum. Other
    positions become durable with the next step. A client is identified by its signing key: with a
    new key it may begin a new store.
    """

    def __init__(self, session: ServerSession, store: Store, clock: Clock = time.monotonic) -> None:
        super().__init__(session, store, clock)
        self._keys = {client.name: client.signing_key for client in session.plan.clients}
        self._planned = {client.name: client.store for client in session.plan.clients}
        self._seen: dict[str, SignedPosition] = {}
        self._before: dict[str, SignedPosition | None] = {}  # position before each client attached
        self._end_is_said = False

    @classmethod
    def open(
        cls, plan: Plan, *, store: Store, noise: NoiseSource, clock: Clock = time.monotonic
    ) -> Self:
        """Begin a run, or continue it where an earlier process stopped.

        plan : plan of the run.
        store : store of the server.
        noise : source of the server's noise.
        clock : function that returns the time in seconds.

        Raises StateError if the run has ended in this store.
        """
        run_id = bytes.fromhex(plan.run_id)
        run = store.history.runs.get(run_id)
        if run is not None:
            check_goes_on(run, "")
        session = ServerSession(plan, noise)
        session.restore(store.messages(run_id))
        server = cls(session, store, clock)
        server._commit([action for name in server.gone for action in session.left(name)])
        server._end_is_said = False
        return server

    @property
    def outcome(self) -> ServerResult | None:
        """Outcome of the run, or None while it goes on."""
        return self._session.outcome

    @property
    def timeout(self) -> float | None:
        """Seconds left for the current step, or None without a limit. After the end it is None, or
        0 if this process has not yet reported the end.
        """
        session, plan, timeouts = self._session, self._session.plan, self._session.plan.timeouts
        if session.outcome is not None:
            return None if self._end_is_said else 0.0
        allowed = {
            ServerState.JOINING: timeouts.joining,
            ServerState.DEALING: plan.patience,
            ServerState.AGREEING: timeouts.round,
            ServerState.AGGREGATING: timeouts.round,
            ServerState.SETTLING: timeouts.dealing if session.may_ask_another else plan.patience,
            ServerState.CONFIRMING: timeouts.confirming,
        }.get(session.state)
        if session.state is ServerState.JOINING and len(session.awaited) == plan.n_clients:
            return None  # the time to join starts when the first client comes
        return None if allowed is None else self._timer.left((session.state, session.step), allowed)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Clients that have not answered in this step."""
        return self._session.awaited

    def attach(self, name: str, log: SignedPosition) -> LogPosition:
        """Remember that client `name` is connected, with its store at position `log`. Return the
        latest position of this store that the server or the plan knows.

        Raises RemoteProtocolError if the store is an old copy, or if the client did not sign the
        position.
        """
        known = self._check_grown(name, log)
        self._before[name], self._seen[name] = self._seen.get(name), log
        self._session.back(name)
        return max(known, key=lambda position: position.length, default=LogPosition(0, bytes(32)))

    def disowned(self, name: str) -> list[Send | Finish]:
        """Forget the last position of client `name`. The client stopped, because its store does not
        match the position that this server knows.

        The client can then continue with its correct store. The position remains if this server has
        already stored a step since the client connected, because the step contains the position.
        """
        before = self._before.pop(name, None)
        if self._seen.pop(name, None) is not None and before is not None:
            self._seen[name] = before
        return []

    def away(self, name: str) -> list[Send | Finish]:
        """Remember that client `name` has not been connected for a while. The absence is remembered
        only in memory: after a restart the transport reports it again.
        """
        self._check_footing()
        return self._commit(self._session.away(name))

    def receive(self, name: str, log: SignedPosition, message: Message) -> list[Send | Finish]:
        """Handle a message of client `name`, and return the actions that answer it.

        log : position of the client's store, signed by the client.

        Raises RemoteProtocolError if the client broke the protocol. Other clients continue.
        """
        self._check_footing()
        # check before the session changes: the store would refuse the position in the middle of the
        # step
        self._check_grown(name, log)
        actions = self._session.receive(name, message)
        self._seen[name] = log
        return self._commit(actions, is_taken=isinstance(message, Upload))

    def announce(self, name: str, log: SignedPosition) -> None:
        """Remember that a message of client `name` is waiting for its turn. The next commit also
        stores `log`.

        log : position of the client's store when it sent the message, signed by the client.
        """
        with suppress(RemoteProtocolError):
            # an old copy, or an unsigned position, is refused when the message is handled
            self._check_grown(name, log)
            self._seen[name] = log

    @property
    def gone(self) -> frozenset[str]:
        """Clients that have left, according to this store."""
        run = self._store.history.runs.get(self._run_id)
        return frozenset(() if run is None or run.ended is not None else run.left)

    def left(self, name: str) -> list[Send | Finish]:
        """Store that the run has ended for client `name`. The server stops waiting for this
        client.
        """
        self._check_footing()
        run = self._store.history.runs.get(self._run_id)
        is_news = run is not None and run.ended is None and name not in run.left
        return self._commit(
            self._session.left(name),
            [ClientLeft(run_id=self._run_id, client=name)] if is_news else (),
        )

    def leave(self, name: str, hello: bytes, signature: bytes) -> list[Send | Finish]:
        """Handle the Leave of client `name` in one turn: the run has ended for it.

        hello : digest of the Hello with which the client joined.
        signature : the client's signature on `roster.leave_statement`.

        Raises RemoteProtocolError if the signature is invalid, or if the client has joined with
        another Hello.
        """
        statement = leave_statement(self._session.plan.digest, self._run_id, name, hello)
        try:
            verify(bytes.fromhex(self._keys[name]), signature, statement)
        except RemoteProtocolError:
            raise RemoteProtocolError(
                f"the Leave of client {name!r} is not signed with its key in the plan"
            ) from None
        now = self._session.hello_of(name)
        if self.outcome is None and now is not None and hello_digest(now) != hello:
            raise RemoteProtocolError(
                f"the Leave of client {name!r} names other keys than the keys with which the"
                " client joined"
            )
        return self.left(name)

    def draw_ahead(self) -> None:
        """Draw noise early, as `ServerSession.draw_ahead` does. The noise is only in memory, so a
        restarted process draws other noise.
        """
        self._session.draw_ahead()

    def deadline(self) -> list[Send | Finish]:
        """Continue or end the run, because the current step has taken too long. If the run had
        ended before this process started, report the end.
        """
        self._check_footing()
        if self.outcome is not None and not self._end_is_said:
            return self._commit([Finish(self.outcome)])
        return self._commit(self._session.deadline())

    def conclude(self) -> None:
        """End the run and wipe its messages. The server then answers no client any more."""
        result = self.outcome
        run = self._store.history.runs.get(self._run_id)
        if result is None or run is None or run.ended is not None:
            return
        outcome = Outcome.FINISHED if result.reason is None else Outcome.ABORTED
        self._store.append([run.end(outcome, result.reason or "")])

    def _check_grown(self, name: str, log: SignedPosition) -> list[LogPosition]:
        """Return the known positions of a client's store: the last position that this server saw,
        and the position in the plan.

        log : position that the client reports now.

        Raises RemoteProtocolError if the client did not sign `log`, or if `log` cannot follow the
        known positions.
        """
        if self._seen.get(name) != log:
            try:
                log.check(bytes.fromhex(self._keys[name]))
            except RemoteProtocolError:
                raise RemoteProtocolError(
                    f"the position of the store of client {name!r} is not signed with its key in"
                    " the plan; this server did not store the position"
                ) from None
        seen, stored, planned = (
            self._seen.get(name),
            self._store.history.peers.get(self._keys[name]),
            self._planned[name],
        )
        here = stored if seen is None else LogPosition(seen.length, seen.head)
        there = (
            None if planned is None else LogPosition(planned.length, bytes.fromhex(planned.head))
        )
        known = [position for position in (here, there) if position is not None]
        for position in known:
            is_as_long = log.length == position.length
            if log.length < position.length or (is_as_long and log.head != position.head):
                raise OldCopyError(
                    (
                        f"the store of client {name!r} is an old copy: its events differ from"
                        f" the {position.length} seen before"
                        if is_as_long
                        else f"the store of client {name!r} is an old copy: it has {log.length}"
                        f" events, and {position.length} were seen before"
                    ),
                    "bring back the newest copy, or go on under a new identity",
                )
        return known

    def _commit(
        self, actions: Sequence[Action], first: Sequence[Event] = (), *, is_taken: bool = False
    ) -> list[Send | Finish]:
        """Make the stored messages of a step durable, and return the actions for the transport.

        The step also stores the positions of clients' stores if it contains a message or an event
        of `first`, if a client joined, or if an upload came.

        actions : actions of the session.
        first : events to store before the messages.
        is_taken : whether the step used an upload.
        """
        messages = [action.message for action in actions if isinstance(action, Record)]
        signed = self._store.history.signed
        run, joined = self._store.history.runs.get(self._run_id), list[Event]()
        if self._session.state in (
            ServerState.JOINING,
            ServerState.DEALING,
            ServerState.AGREEING,
        ):
            # stored for commands that read the store meanwhile
            noted = () if run is None or run.ended is not None else run.joined
            joined = [
                ClientJoined(run_id=self._run_id, client=name)
                for name in self._session.joined
                if name not in noted or (run is not None and name in run.left)
            ]
        events: list[Event] = [
            PeerSigned(name=self._keys[name], client=name, position=position)
            for name, position in self._seen.items()
            if (known := signed.get(self._keys[name])) is None or known.position != position
        ]
        events += [*first, *joined, *(recorded(self._run_id, message) for message in messages)]
        if messages or first or joined or (is_taken and events):
            self._append(events, messages)
            self._seen.clear()
            # these positions are durable now, so `disowned` cannot forget them
            self._before.clear()
        self._log.write(messages)
        self._end_is_said |= any(isinstance(action, Finish) for action in actions)
        return [action for action in actions if isinstance(action, Send | Finish)]
