"""A clock of an event loop that stands still until a test moves it."""

import asyncio
from collections.abc import Awaitable, Callable


async def _settled() -> None:
    """Let the loop do what is due, and what follows from that at once."""
    for _ in range(3):
        await asyncio.sleep(0)


class Clock:
    """Time of the running loop, in seconds.

    Nothing waits in real time: `pass_time` fires each timer at its own instant, `stop` moves the
    clock as for a process that is stopped meanwhile.

    Parameters
    ----------
    settled : waits until nothing more follows from the timers of an instant. A test whose timers
    give work to a thread waits for it here.
    """

    def __init__(self, settled: Callable[[], Awaitable[None]] = _settled) -> None:
        self._loop, self._settled = asyncio.get_running_loop(), settled
        self.now = self._loop.time()
        self._loop.time = lambda: self.now  # type: ignore[method-assign]

    async def pass_time(self, seconds: float) -> None:
        """Let time pass as for a process that runs."""
        end = self.now + seconds
        while (due := self._next()) is not None and due <= end:
            self.now = max(self.now, due)
            await _settled()
            await self._settled()
        self.now = end
        await self._settled()

    def stop(self, seconds: float) -> None:
        """Let time pass in which the process does nothing."""
        self.now += seconds

    def _next(self) -> float | None:
        """Return the instant of the next timer, or None without any."""
        timers: list[asyncio.TimerHandle] = self._loop._scheduled  # type: ignore[attr-defined]
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)
