"""One party beside an event loop: its calls, one at a time; the deadline of the present step; which
peers are there.

The party works in a thread of its own, because evaluating a round or writing to a disk may take
long, and the other streams of the loop, their keepalive and their deadlines must not wait for it.
It is one thread, always the same: a party is no more prepared for two calls at once than a database
connection is for two threads. A turn is never cut short: a client whose stream breaks while its
upload completes a round must not take the others' broadcast with it.
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
_SHORTEST_WAIT: Final = 0.02  # seconds between two looks at a deadline
LOOK: Final = (
    1.0  # seconds between two looks at the clock while a step may take no longer than so long
)
PAUSE: Final = (
    3.0  # seconds that a look comes late only where the process was stopped or the machine slept
)
# seconds in which what follows from a turn is sent, and whoever shares the core may go first
_A_MOMENT: Final = 5e-4


class Turns:
    """Calls a party, and sends what it asks for in the order of the turns.

    A thread and a queue, and no executor, lock or task per turn: those cost more than most turns
    themselves.

    Parameters
    ----------
    party : called in its own thread only. frame : encodes a message, in the party's thread. post :
    sends a frame to the party of that name, in the loop's thread. finish : is told how the run
    ended for the party, in the loop's thread. fail : is told any error that is not a
    RemoteProtocolError: the run cannot go on in this process. rest : what the party does in its
    thread between two turns, once nothing has come for a moment.
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
        # a process that ends without `close` does not wait for it: what is not on disk never
        # happened
        self._thread = threading.Thread(target=self._work, name="fastlloyd-party", daemon=True)
        self._waiting: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        self._following: deque[Callable[[], None]] = (
            deque()
        )  # what is left to do in the loop after turns that are over
        self._is_called = False
        self._timer: asyncio.TimerHandle | None = None
        self._end = 0.0  # of the present step, by the loop's clock
        self._looked: float | None = None
        self._has_slept = self._is_due = False
        self._is_closed = False

    async def ask(self, question: Callable[[], list[Request]]) -> None:
        """Have the party answer, and send what it asks for. Raises what the party raises; nothing
        is done after `close`.
        """
        await self.take(lambda: self._prepare(question()), _do_all)

    def tell(self, question: Callable[[], list[Request]]) -> None:
        """Have the party answer as `ask` does, without waiting for it."""
        if not self._is_closed:
            self._put(lambda: self._prepare(question()), _do_all)

    async def take(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do `work` in the party's thread and `then` in the loop's, both to the end even if the
        caller is cancelled.
        """
        if self._is_closed:
            return
        done = self._put(work, then)
        if self._thread.ident is None:
            # with the first turn there already: a party does not rest before it
            self._thread.start()
        await done

    def _prepare(self, requests: list[Request]) -> list[Callable[[], None]]:
        """Return what is left to do in the loop: post the frames, and say how the run ended, if it
        did.
        """
        left: list[Callable[[], None]] = []

        def send(to: str, message: Message) -> None:
            left.append(partial(self._post, to, self._frame(message)))

        if (outcome := perform(requests, send)) is not None:
            left.append(partial(self._finish, outcome))
        return left

    async def watch(self) -> None:
        """Look at the party's clock for the first time."""
        await self.take(lambda: None, lambda _: None)

    async def close(self) -> None:
        """Finish the turn in progress, what follows from it included, and take no more."""
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
        """The party's thread: one turn after another. What follows from each is done in the loop,
        in the same order.
        """
        while (turn := self._next()) is not None:
            self._let_follow(turn())

    def _next(self) -> Callable[[], Callable[[], None]] | None:
        """The next turn, None after the last. The party rests before it if none has come for a
        moment.
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
        if (
            not self._is_called
        ):  # waking the loop costs more than most turns: once, for all that it will find
            self._is_called = True
            self._loop.call_soon_threadsafe(self._follow)

    def _follow(self) -> None:
        self._is_called = False
        while self._following:
            self._following.popleft()()

    def _turn(
        self, work: Callable[[], T], then: Callable[[T], None], done: "asyncio.Future[None]"
    ) -> Callable[[], None]:
        """Do `work`, unless it comes too late; what is left to do in the loop."""
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
        if not done.done():  # no future takes a StopIteration
            done.set_exception(
                RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
            )
            done.exception()  # seen: nobody may be left to raise it at

    def _resolve(self, done: "asyncio.Future[None]") -> None:
        if not done.done():  # else whoever asked is gone
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
        """Look at the clock again and again: at the end of the step, or after a sleep, it is the
        party's turn.

        Where a process is stopped, or its machine sleeps, everybody's answers and this timer are
        due in the same moment, and the timer would win: nobody would have been given the time to
        answer that the step has.
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
        """The party's deadline, unless it slept, or a message that came first has begun another
        step.
        """
        if has_slept:
            self._party.slept()
        timeout = self._party.timeout
        return self._party.deadline() if timeout is not None and timeout <= 0 else []


def _do_all(left: list[Callable[[], None]]) -> None:
    for each in left:
        each()


class Presence:
    """Counts the streams of each peer, and reports a peer once when it has had none for the grace.

    The grace lets a peer whose connection breaks come back unnoticed, and a server that is started
    again be found by clients.

    Parameters
    ----------
    grace : seconds.
    report : told the name of a peer that is away, in the event loop's thread.

    n_streams : by peer, how many of its streams have begun and not ended, those that are left
    unread included.
    """

    def __init__(self, grace: float, report: Callable[[str], None]) -> None:
        self._grace, self._report = grace, report
        self.n_streams: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def watch(self, peers: Iterable[str]) -> None:
        """Wait for these peers, none of which has a stream yet."""
        for peer in peers:
            self._wait_for(peer)

    def came(self, peer: str) -> None:
        """Count a stream of this peer that begins."""
        self.n_streams[peer] += 1
        if (timer := self._timers.pop(peer, None)) is not None:
            timer.cancel()

    def went(self, peer: str) -> None:
        """Count a stream of this peer that has ended."""
        self.n_streams[peer] -= 1
        if self.n_streams[peer] == 0:
            self._wait_for(peer)

    def close(self) -> None:
        """Stop reporting."""
        for timer in self._timers.values():
            timer.cancel()

    def _wait_for(self, peer: str) -> None:
        self._timers[peer] = asyncio.get_running_loop().call_later(self._grace, self._report, peer)


class Pace:
    """Has a peer that says more than others need wait: it is heard `burst` times at once, and then
    once a second.

    So it is answered no faster, over however many streams it asks again and again for what it has
    had.
    """

    def __init__(self, burst: int) -> None:
        self._burst, self._heard_until = burst, -math.inf

    def pause(self, now: float) -> float:
        """Seconds from `now` until one more message of the peer is to be heard; it counts as
        heard.
        """
        self._heard_until = max(self._heard_until, now - self._burst) + 1.0
        return max(0.0, self._heard_until - now)


class Arrivals:
    """Counts connections when they come, before TLS, and again when a peer that proved who it is
    says something on one.

    gRPC tells nobody that a handshake failed, or why. So what is known is how many came and were
    never heard.

    Parameters
    ----------
    n_remembered : how many peers that were heard are told apart; more than can be connected at a
    time.
    """

    def __init__(self, n_remembered: int) -> None:
        self._lock = threading.Lock()  # they come in threads of gRPC's
        self._n_came = 0
        self._n_settled = (
            0  # of these, so many had come when it was looked last: they had the time to be heard
        )
        self._n_remembered, self._peers = n_remembered, dict[str, None]()
        self._n_heard = 0
        self.n_unheard = 0

    def came(self) -> None:
        """Count a connection."""
        with self._lock:
            self._n_came += 1

    def heard(self, peer: str) -> None:
        """A peer at this address and port, who proved who it is, said something; once counted
        however often it does.
        """
        if peer in self._peers:
            return
        self._n_heard += 1
        self._peers[peer] = None
        if len(self._peers) > self._n_remembered:
            del self._peers[next(iter(self._peers))]

    def look(self) -> int:
        """How many more than at the last look there are that had come by the look before and were
        not heard since.

        Never too many; those that come while others are heard are counted later.
        """
        more = max(0, self._n_settled - self._n_heard - self.n_unheard)
        self.n_unheard += more
        with self._lock:
            self._n_settled = self._n_came
        return more
