"""Calls of one party from an event loop, one call at a time, with the deadline of the current step.
The module also tracks which peers are connected, and limits how fast they may send.

The party works in a thread of its own. It may take long to answer a round's query, or to write to a
disk. The other streams of the loop, their keepalive and their deadlines must not wait for that. The
thread is always the same: like a database connection, a party cannot be used from two threads. One
call with everything that follows from it is a turn. A turn is never interrupted: if a client's
stream breaks while its upload completes a round, the others still get the broadcast.
"""

import asyncio
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.messages import Message
from fastlloyd.federation.transport.party import Outcome, Party, Request, perform

T = TypeVar("T")
_SHORTEST_WAIT: Final = 0.02  # shortest time, in seconds, until a deadline is checked
# largest number of seconds between two checks of the clock
LOOK: Final = 1.0
# if a check is late by more seconds, the process was stopped or the machine slept
PAUSE: Final = 3.0
# seconds to wait before the party rests: messages are sent, and processes on this core go first
_A_MOMENT: Final = 5e-4


class Turns:
    """Queue of calls to a party. The messages that the party returns are sent in the order of the
    calls.

    It uses one thread and a queue. An executor, lock or task for each turn would cost more than
    most turns.

    Parameters
    ----------
    party : the party, called only in its own thread.
    frame : encodes a message, in the party's thread.
    post : sends a frame to the party with a given name, in the loop's thread.
    finish : called with the outcome of the run, in the loop's thread.
    fail : called with any error other than RemoteProtocolError, because this process cannot
        continue the run then.
    rest : called in the party's thread between two turns, after a moment without work, or None.
    """

    def __init__(
        self,
        party: Party,
        *,
        frame: Callable[[Message], bytes],
        post: Callable[[str, bytes], None],
        finish: Callable[[Outcome], None],
        fail: Callable[[BaseException], None],
        rest: Callable[[], None] | None = None,
    ) -> None:
        self._party, self._frame, self._post, self._finish = party, frame, post, finish
        self._fail, self._rest = fail, rest
        self._loop = asyncio.get_running_loop()
        # A daemon thread: a process that ends without `close` does not wait for it. A step that is
        # not on disk never happened.
        self._thread = threading.Thread(target=self._work, name="fastlloyd-party", daemon=True)
        self._waiting: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        # calls that the loop still has to make after finished turns
        self._following: deque[Callable[[], None]] = deque()
        self._is_called = False
        self._timer: asyncio.TimerHandle | None = None
        self._end = 0.0  # end of the current step, by the loop's clock
        self._looked: float | None = None
        self._has_slept = self._is_due = False
        self._is_closed = False

    async def ask(self, question: Callable[[], list[Request]]) -> None:
        """Call `question` in the party's thread, and send the messages that it returns. After
        `close`, nothing happens.

        Errors of the party pass through.
        """
        await self.take(lambda: self._prepare(question()), _do_all)

    def tell(self, question: Callable[[], list[Request]]) -> None:
        """Call `question` and send the messages as `ask` does, but do not wait."""
        if not self._is_closed:
            self._put(lambda: self._prepare(question()), _do_all)

    async def take(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Call `work` in the party's thread and then `then` with the result in the loop's thread.
        Both calls are completed even if the caller is cancelled.
        """
        if self._is_closed:
            return
        done = self._put(work, then)
        if self._thread.ident is None:
            # start it only now, with a turn waiting, so that the party does not rest first
            self._thread.start()
        await done

    def _prepare(self, requests: list[Request]) -> list[Callable[[], None]]:
        """Return the calls that the loop must make: they post the frames and, if the run has ended,
        report the outcome.
        """
        left: list[Callable[[], None]] = []

        def send(to: str, message: Message) -> None:
            left.append(partial(self._post, to, self._frame(message)))

        if (outcome := perform(requests, send)) is not None:
            left.append(partial(self._finish, outcome))
        return left

    async def watch(self) -> None:
        """Start to watch the time of the party's current step."""
        await self.take(lambda: None, lambda _: None)

    async def close(self) -> None:
        """Finish the turn in progress and all that follows from it. Start no more turns."""
        self._is_closed = True
        self._disarm()
        if self._thread.is_alive():
            self._waiting.put(None)
            await asyncio.to_thread(self._thread.join)

    def _put(self, work: Callable[[], T], then: Callable[[T], None]) -> "asyncio.Future[None]":
        done = self._loop.create_future()
        self._waiting.put(lambda: self._turn(work, then, done))
        return done

    def _work(self) -> None:
        """Run the party's thread: one turn after another. The event loop then carries out the
        actions of each turn, in the same order.
        """
        while (turn := self._next()) is not None:
            self._let_follow(turn())

    def _next(self) -> Callable[[], Callable[[], None]] | None:
        """Wait for the next turn and return it, or return None after the last one. If no turn comes
        for a moment, call the party's `rest` once.
        """
        if self._rest is not None:
            with suppress(Empty):
                return self._waiting.get(timeout=_A_MOMENT)
            try:
                self._rest()
            except BaseException as error:  # noqa: BLE001 - whoever drives the party is told
                self._let_follow(partial(self._fail, error))
        return self._waiting.get()

    def _let_follow(self, what: Callable[[], None]) -> None:
        self._following.append(what)
        if not self._is_called:
            # waking the loop costs more than most turns, so it is done once for all waiting calls
            self._is_called = True
            self._loop.call_soon_threadsafe(self._follow)

    def _follow(self) -> None:
        self._is_called = False
        while self._following:
            self._following.popleft()()

    def _turn(
        self, work: Callable[[], T], then: Callable[[T], None], done: "asyncio.Future[None]"
    ) -> Callable[[], None]:
        """Call `work`, unless `close` was called before. Return the call that the loop must make:
        it calls `then` with the result, and completes `done`.
        """
        if self._is_closed:
            return lambda: self._resolve(done)
        try:
            found, timeout = work(), self._party.timeout
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was asked
            reason = error
            return lambda: self._reject(done, reason)
        return lambda: self._accept(done, then, found, timeout)

    def _accept(
        self,
        done: "asyncio.Future[None]",
        then: Callable[[T], None],
        found: T,
        timeout: float | None,
    ) -> None:
        try:
            then(found)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was asked
            self._reject(done, error)
        else:
            self._arm(timeout)
            self._resolve(done)

    def _reject(self, done: "asyncio.Future[None]", error: BaseException) -> None:
        if not isinstance(error, RemoteProtocolError):
            self._fail(error)
        if not done.done():  # a future does not accept StopIteration
            done.set_exception(
                RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
            )
            done.exception()  # mark the error as read, because the caller may be gone

    def _resolve(self, done: "asyncio.Future[None]") -> None:
        if not done.done():  # otherwise the caller is gone
            done.set_result(None)

    def _arm(self, timeout: float | None) -> None:
        self._disarm()
        if timeout is None or self._is_closed:
            self._looked = None
            return
        self._end, self._is_due = self._loop.time() + max(timeout, _SHORTEST_WAIT), False
        self._look()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Check the clock at intervals. Call the party if the time of its step is over, or if this
        process slept.

        If a process was stopped, or its machine slept, all answers and this timer are due at once,
        and the timer would come first. The clients would then lose the time that the step gives
        them to answer.
        """
        now = self._loop.time()
        self._has_slept |= self._looked is not None and now - self._looked > LOOK + PAUSE
        self._looked = now
        if (self._has_slept or now >= self._end) and not self._is_due:
            self._is_due = True
            self.tell(partial(self._due, self._has_slept))
            self._has_slept = False
        self._timer = self._loop.call_at(
            now + LOOK if self._is_due else min(self._end, now + LOOK), self._look
        )

    def _due(self, has_slept: bool) -> list[Request]:
        """Call the party's `deadline`, if the time of its step is over. After a sleep, first let
        that time start again.

        has_slept : whether the process was stopped or its machine slept.
        """
        if has_slept:
            self._party.slept()
        timeout = self._party.timeout
        return self._party.deadline() if timeout is not None and timeout <= 0 else []


def _do_all(left: list[Callable[[], None]]) -> None:
    for each in left:
        each()


class Presence:
    """Counter of the streams of each peer. It reports a peer that had no stream for the grace
    period, once.

    So a peer whose connection breaks can come back unnoticed, and clients can find a restarted
    server.

    n_streams : for each peer, number of its open streams, including those that are not read.

    Parameters
    ----------
    grace : length of the grace period, in seconds.
    report : called with the name of a peer that is away, in the event loop's thread.
    """

    def __init__(self, grace: float, report: Callable[[str], None]) -> None:
        self._grace, self._report = grace, report
        self.n_streams: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def watch(self, peers: Iterable[str]) -> None:
        """Watch these peers, which have no stream yet."""
        for peer in peers:
            self._wait_for(peer)

    def came(self, peer: str) -> None:
        """Count a stream that this peer opens."""
        self.n_streams[peer] += 1
        if (timer := self._timers.pop(peer, None)) is not None:
            timer.cancel()

    def went(self, peer: str) -> None:
        """Count the end of a stream of this peer."""
        self.n_streams[peer] -= 1
        if self.n_streams[peer] == 0:
            self._wait_for(peer)

    def close(self) -> None:
        """Stop all reports of absent peers."""
        for timer in self._timers.values():
            timer.cancel()

    def _wait_for(self, peer: str) -> None:
        self._timers[peer] = asyncio.get_running_loop().call_later(self._grace, self._report, peer)


class Pace:
    """Limit on the messages of one peer: `burst` at once, then one each second.

    A peer that asks again and again gets no faster answers, over any number of streams.
    """

    def __init__(self, burst: int) -> None:
        self._burst, self._heard_until = burst, -math.inf

    def pause(self, now: float) -> float:
        """Return the seconds from `now` until the peer's next message may be handled, and count
        that message.
        """
        self._heard_until = max(self._heard_until, now - self._burst) + 1.0
        return max(0.0, self._heard_until - now)


class Arrivals:
    """Counter of new connections, before TLS, and of connections on which an authenticated peer
    sent a message.

    gRPC does not report failed handshakes. The difference between the two counts shows them.

    n_unheard : number of connections reported so far on which no message came.

    Parameters
    ----------
    n_remembered : number of peers to remember, more than can be connected at a time.
    """

    def __init__(self, n_remembered: int) -> None:
        self._lock = threading.Lock()  # `came` is called in threads of gRPC
        self._n_came = 0
        # number that had come at the last `look`; their messages have had time to come
        self._n_settled = 0
        self._n_remembered, self._peers = n_remembered, dict[str, None]()
        self._n_heard = 0
        self.n_unheard = 0

    def came(self) -> None:
        """Count a new connection."""
        with self._lock:
            self._n_came += 1

    def heard(self, peer: str) -> None:
        """Count a connection of an authenticated peer, once.

        peer : address and port of the peer, which identify the connection.
        """
        if peer in self._peers:
            return
        self._n_heard += 1
        self._peers[peer] = None
        if len(self._peers) > self._n_remembered:
            del self._peers[next(iter(self._peers))]

    def look(self) -> int:
        """Return the number of connections that came before the last call and on which no message
        came. Connections returned earlier are not counted again.

        The number is never too large. If other connections are heard meanwhile, some are counted
        only at a later call.
        """
        more = max(0, self._n_settled - self._n_heard - self.n_unheard)
        self.n_unheard += more
        with self._lock:
            self._n_settled = self._n_came
        return more
