"""The server of a run whose steps are durable: whatever it returns to be sent follows from what is on disk."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import RemoteProtocolError, StateError
from fastlloyd.plan import Plan
from fastlloyd.protocol import Message, ServerSession
from fastlloyd.protocol.actions import Action, Finish, Record, Send, ServerResult
from fastlloyd.protocol.messages import Upload, encode
from fastlloyd.protocol.restoring import decode_records
from fastlloyd.protocol.transitions import ServerState
from fastlloyd.runs.steps import Again, Clock, Footing, StepTimer
from fastlloyd.store import LogPosition, Store
from fastlloyd.store.events import Event, Outcome, PeerSeen, recorded


class DurableServer:
    """The server in one run: a `transport.party.ServerParty`.

    Uploads of an open round and confirmations are in memory only: after a restart the clients send them again. The position
    that a client reports of its store with an upload is durable before the upload is taken: after a restart an older copy of
    that store, which would answer otherwise, is refused. One transaction holds all positions that came together, and that of
    the upload that closes a round holds the sum as well. Other positions become durable with the next step. A client is known
    by its signing key: under a new one it may begin a new store.
    """

    def __init__(self, session: ServerSession, store: Store, clock: Clock = time.monotonic) -> None:
        self._session, self._store = session, store
        self._run_id = bytes.fromhex(session.plan.run_id)
        self._keys = {client.name: client.signing_key for client in session.plan.clients}
        self._seen: dict[str, LogPosition] = {}
        self._timer, self._footing = StepTimer(clock), Footing()
        self._end_is_said = False

    @classmethod
    def open(cls, plan: Plan, *, store: Store, noise: NoiseSource, clock: Clock = time.monotonic) -> Self:
        """Begin a run, or take it up where an earlier process left it. StateError if it has ended for this store."""
        run_id = bytes.fromhex(plan.run_id)
        run = store.history.runs.get(run_id)
        if run is not None and run.ended is not None:
            ending = run.ended.reason or "it finished"
            raise StateError(f"run {plan.run_id} has ended ({ending}); a plan is good for one run: renew it")
        messages = decode_records(store.messages(run_id), plan)
        session = ServerSession.restore(plan, noise, messages) if messages else ServerSession(plan, noise)
        return cls(session, store, clock)

    @property
    def outcome(self) -> ServerResult | None:
        """How the run ended."""
        return self._session.outcome

    @property
    def session(self) -> ServerSession:
        """Where the run is; to look at."""
        return self._session

    @property
    def timeout(self) -> float | None:
        """Seconds that the present step may still take; None after the end, 0 if this process has not said that it is over."""
        session, timeouts = self._session, self._session.plan.timeouts
        if session.outcome is not None:
            return None if self._end_is_said else 0.0
        allowed = {
            ServerState.JOINING: timeouts.joining,
            ServerState.DEALING: timeouts.dealing,
            ServerState.AGGREGATING: timeouts.round,
            ServerState.SETTLING: timeouts.dealing,
            ServerState.CONFIRMING: timeouts.confirming,
        }.get(session.state)
        if session.state is ServerState.JOINING and len(session.awaited) == session.plan.n_clients:
            return None  # the time to join begins with the first that comes
        return None if allowed is None else self._timer.left((session.state, session.step), allowed)

    def attach(self, name: str, log: LogPosition) -> LogPosition:
        """Client `name` is there (again), its store at `log`; the position last remembered of it.

        Raises RemoteProtocolError if the store is an old copy.
        """
        known = self._check_grown(name, log)
        self._seen[name] = log
        self._session.back(name)
        return LogPosition(0, bytes(32)) if known is None else known

    def away(self, name: str) -> list[Send | Finish]:
        """Client `name` has not been there for a while. A process that is started again is told so anew."""
        self._footing.check()
        return self._commit(self._session.away(name))

    def receive(self, name: str, log: LogPosition, message: Message) -> list[Send | Finish]:
        """Answer a client. RemoteProtocolError says what it did wrong; the others go on."""
        self._footing.check()
        self._check_grown(name, log)  # before the session moves: the store would refuse it in the midst of everyone's step
        actions = self._session.receive(name, message)
        self._seen[name] = log
        return self._commit(actions, is_taken=isinstance(message, Upload))

    def announce(self, name: str, log: LogPosition) -> None:
        """A message of client `name`, its store at `log`, waits for its turn; the next commit holds that position, too."""
        with suppress(RemoteProtocolError):  # an old copy is refused in its turn
            self._check_grown(name, log)
            self._seen[name] = log

    def draw_ahead(self) -> None:
        """As `ServerSession.draw_ahead`: in memory only, so that a process that is started again draws other noise."""
        self._session.draw_ahead()

    def deadline(self) -> list[Send | Finish]:
        """The present step has taken too long; or the run was over before this process took it up, which is said now."""
        self._footing.check()
        if self.outcome is not None and not self._end_is_said:
            return self._commit([Finish(self.outcome)])
        return self._commit(self._session.deadline())

    def slept(self) -> None:
        """Wake from a stop of this process, or a sleep of its machine: the step's time begins again."""
        self._timer.begin_again(Again.SLEPT)

    def conclude(self) -> None:
        """No client will be answered any more: end the run and wipe its messages."""
        result = self.outcome
        run = self._store.history.runs.get(self._run_id)
        if result is None or run is None or run.ended is not None:
            return
        outcome = Outcome.FINISHED if result.reason is None else Outcome.ABORTED
        self._store.append([run.end(outcome, result.reason or "")])

    def _check_grown(self, name: str, log: LogPosition) -> LogPosition | None:
        """The position last seen of a client's store; RemoteProtocolError if the one it reports now cannot follow it."""
        known = self._seen.get(name) or self._store.peer(self._keys[name])
        if known is not None and (log.length < known.length or (log.length == known.length and log.head != known.head)):
            raise RemoteProtocolError(
                f"the store of client {name!r} is an old copy: it holds {log.length} events, and {known.length} were seen; "
                "bring back the newest copy, or go on under a new identity"
            )
        return known

    def _commit(self, actions: Sequence[Action], *, is_taken: bool = False) -> list[Send | Finish]:
        """Make durable what is to be recorded, and who was seen: with a record, or where an upload was taken."""
        messages = [action.message for action in actions if isinstance(action, Record)]
        events: list[Event] = [
            PeerSeen(name=self._keys[name], position=position)
            for name, position in self._seen.items()
            if self._store.peer(self._keys[name]) != position
        ]
        events += [recorded(self._run_id, message) for message in messages]
        if messages or (is_taken and events):
            with self._footing.commit():
                self._store.append(events, messages=[encode(message) for message in messages])
            self._seen.clear()
        self._end_is_said |= any(isinstance(action, Finish) for action in actions)
        return [action for action in actions if isinstance(action, Send | Finish)]
