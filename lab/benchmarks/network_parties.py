"""Parties of a run for the network benchmarks: without computation, without a store, or with a
clock.
"""

import time
from collections.abc import Mapping, Sequence

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.actions import SERVER, Action, Ended, Finish, Send, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Broadcast, Message, Upload
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.runs import DurableClient, DurableServer
from fastlloyd.federation.store import Store
from fastlloyd.federation.store.events import Event, LogPosition
from fastlloyd.federation.transport.party import Request

UNSIGNED = SignedPosition(0, bytes(32), bytes(64))


class _Patient:
    """Part of a party that has no time limit."""

    timeout = None

    def deadline(self) -> list[Request]:
        return []

    def slept(self) -> None:
        pass


class _Server(_Patient):
    """Base class of servers that do not check the logs of clients."""

    gone: frozenset[str] = frozenset()
    awaited: tuple[str, ...] = ()

    def attach(self, _name: str, log: SignedPosition) -> LogPosition:
        return LogPosition(log.length, log.head)

    def disowned(self, _name: str) -> list[Request]:
        return []

    def leave(self, _name: str, _hello: bytes, _signature: bytes) -> list[Request]:
        """Do nothing, because these servers sign nothing."""
        return []

    def away(self, _name: str) -> list[Request]:
        return []

    def announce(self, _name: str, _log: SignedPosition) -> None:
        pass

    def draw_ahead(self) -> None:
        pass


class _Client(_Patient):
    """Base class of clients without a log."""

    position = UNSIGNED
    farewell = bytes(32), bytes(64)

    def attached(self, _log: LogPosition) -> None:
        pass


class Barrier(_Server):
    """Server that answers a round when all clients have sent their uploads, and adds up nothing. So
    only the time of the network is measured.
    """

    def __init__(self, plan: Plan) -> None:
        self.names, self.n_rounds, self.n_waiting = plan.names, len(plan.mechanism.rounds), 0

    def receive(self, _name: str, _log: SignedPosition, message: Message) -> list[Request]:
        assert isinstance(message, Upload)
        self.n_waiting += 1
        if self.n_waiting < len(self.names):
            return []
        self.n_waiting = 0
        broadcast = Broadcast.of(
            self.names, message.round, dict.fromkeys(self.names, message.nonce), message.payload
        )
        end: list[Request] = (
            [Finish(ServerResult(included=()))] if message.round == self.n_rounds else []
        )
        return [*(Send(name, broadcast) for name in self.names), *end]


class Pulse(_Client):
    """Client that sends its next upload as soon as it has the answer to the last one.

    seconds : seconds from each upload to its answer.
    """

    def __init__(self, plan: Plan) -> None:
        rounds = plan.mechanism.rounds
        self.n_rounds, self.payload = (
            len(rounds),
            bytes(plan.n_words(rounds[0]) * plan.ring.itemsize),
        )
        self.seconds: list[float] = []

    def begin(self) -> list[Request]:
        return self.send(1)

    def receive(self, message: Message) -> list[Request]:
        assert isinstance(message, Broadcast)
        self.seconds.append(time.perf_counter() - self.begun)
        return (
            self.send(message.round + 1)
            if message.round < self.n_rounds
            else [Finish(Ended("done"))]
        )

    def send(self, number: int) -> list[Request]:
        self.begun = time.perf_counter()
        return [Send(SERVER, Upload(number, bytes(8), self.payload))]


class TimedStore(Store):
    """Store that measures its commits.

    seconds : seconds of each commit.
    """

    __slots__ = ("seconds",)

    seconds: list[float]

    def append(
        self,
        events: Sequence[Event],
        *,
        messages: Sequence[bytes] = (),
        secrets: Mapping[tuple[bytes, str], bytes] | None = None,
    ) -> None:
        begun = time.perf_counter()
        super().append(events, messages=messages, secrets=secrets)
        self.seconds.append(time.perf_counter() - begun)


class TimedServer(DurableServer):
    """Server with a store that measures its commits.

    commits : seconds of each commit.
    """

    commits: list[float]


class VolatileServer(_Server):
    """Server around a session, without a store. So only the run itself is measured.

    pause : seconds of sleep at the end of each round, where a store would commit.
    commits : seconds that each sleep really took.
    """

    def __init__(self, session: ServerSession, pause: float = 0.0) -> None:
        self.session, self.pause = session, pause
        self.commits: list[float] = []

    def receive(self, name: str, _log: SignedPosition, message: Message) -> list[Request]:
        requests = _requests(self.session.receive(name, message))
        if self.pause and isinstance(message, Upload) and requests:
            self.commits.append(_slept(self.pause))
        return requests

    def draw_ahead(self) -> None:
        self.session.draw_ahead()


class Clocked:
    """Part of a client that measures its rounds.

    seconds : seconds from one sum to the next.
    commits : seconds of the commits of the client.
    """

    seconds: list[float]
    commits: list[float]
    last = 0.0

    def hear(self, message: Message) -> None:
        if isinstance(message, Broadcast):
            now = time.perf_counter()
            if self.last:
                self.seconds.append(now - self.last)
            self.last = now


class TimedClient(Clocked, DurableClient):
    """Client with a store that measures its rounds and its commits."""

    def receive(self, message: Message) -> list[Request]:
        self.hear(message)
        return super().receive(message)


class VolatileClient(Clocked, _Client):
    """Client around a session, without a store, that measures its rounds.

    pause : seconds of sleep before each upload except the first, where a store would commit.
    commits : seconds that each sleep really took.
    """

    def __init__(self, session: ClientSession, pause: float = 0.0) -> None:
        self.session, self.pause = session, pause
        self.seconds, self.commits = [], []

    def begin(self) -> list[Request]:
        return _requests(self.session.start())

    def receive(self, message: Message) -> list[Request]:
        self.hear(message)
        requests = _requests(self.session.receive(message))
        if self.pause and isinstance(message, Broadcast):
            self.commits.append(_slept(self.pause))
        return requests


def _slept(seconds: float) -> float:
    begun = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - begun


def _requests(actions: list[Action]) -> list[Request]:
    return [action for action in actions if isinstance(action, Send | Finish)]
