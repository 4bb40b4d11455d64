"""One party, one thing at a time, beside an event loop: its calls, their order, and the deadline of the present step.

The party works in a thread of its own, because evaluating a round or writing to a disk may take long, and the other streams of
the loop, their keepalive and their deadlines must not wait for it. It is one thread, always the same: a party is no more
prepared for two calls at once than a database connection is for two threads. A turn is never cut short: a client whose stream
breaks while its upload completes a round must not take the others' broadcast with it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, TypeVar

from fastlloyd.errors import RemoteProtocolError
from fastlloyd.transport.party import Party, Request

T = TypeVar("T")
Prepared = TypeVar("Prepared")
_SHORTEST_WAIT: Final = 0.02  # seconds between two looks at a deadline


class Turns(Generic[Prepared]):
    """Calls a party, and hands on what it asks for before anyone else's turn begins.

    Parameters
    ----------
    party : called in its own thread only.
    prepare : makes of what the party asks for what `dispatch` is given, in the party's thread.
    dispatch : sends it, in the loop's thread.
    fail : is told any error that is not a RemoteProtocolError: the run cannot go on in this process.
    """

    def __init__(
        self,
        party: Party,
        *,
        prepare: Callable[[list[Request]], Prepared],
        dispatch: Callable[[Prepared], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._party, self._prepare, self._dispatch, self._fail = party, prepare, dispatch, fail
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fastlloyd-party")
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def ask(self, question: Callable[[], list[Request]]) -> None:
        """Have the party answer, and dispatch what it asks for. Raises what the party raises; nothing is done after `close`."""
        await self.take(lambda: self._prepare(question()), self._dispatch)

    async def take(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do `work` in the party's thread and `then` in the loop's, both to the end even if the caller is cancelled."""
        await asyncio.shield(self._start(self._turn(work, then)))

    async def watch(self) -> None:
        """Look at the party's clock for the first time."""
        await self.take(lambda: None, lambda _: None)

    async def close(self) -> None:
        """Finish the turn in progress, what follows from it included, and take no more."""
        async with self._lock:
            self._is_closed = True
            self._disarm()
        await asyncio.to_thread(self._thread.shutdown)

    async def _turn(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        async with self._lock:
            if self._is_closed:
                return
            loop = asyncio.get_running_loop()
            found, timeout = await loop.run_in_executor(self._thread, lambda: (work(), self._party.timeout))
            then(found)
            self._arm(timeout)

    def _start(self, turn: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(turn)
        self._running.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RemoteProtocolError):
            self._fail(error)

    def _arm(self, timeout: float | None) -> None:
        self._disarm()
        if timeout is not None:
            self._timer = asyncio.get_running_loop().call_later(max(timeout, _SHORTEST_WAIT), self._due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._start(self._turn(lambda: self._prepare(self._deadline()), self._dispatch))

    def _deadline(self) -> list[Request]:
        """The party's deadline, unless a message that came first has begun another step."""
        timeout = self._party.timeout
        return self._party.deadline() if timeout is not None and timeout <= 0 else []
