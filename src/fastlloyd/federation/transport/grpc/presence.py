"""Which peers have a stream, and which have had none for so long that they are reported."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable


class Presence:
    """Counts the streams of each peer, and reports a peer once when it has had none for the grace.

    The grace lets a peer whose connection breaks come back unnoticed, and a server that is started again be found by clients.

    Parameters
    ----------
    grace : seconds.
    report : told the name of a peer that is away, in the event loop's thread.
    """

    def __init__(self, grace: float, report: Callable[[str], None]) -> None:
        self._grace, self._report = grace, report
        self._n_streams: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def watch(self, peers: Iterable[str]) -> None:
        """Wait for these peers, none of which has a stream yet."""
        for peer in peers:
            self._wait_for(peer)

    def n_streams(self, peer: str) -> int:
        """How many streams of this peer have begun and not ended, those that are left unread included."""
        return self._n_streams[peer]

    def came(self, peer: str) -> None:
        """A stream of this peer begins."""
        self._n_streams[peer] += 1
        if (timer := self._timers.pop(peer, None)) is not None:
            timer.cancel()

    def went(self, peer: str) -> None:
        """A stream of this peer has ended."""
        self._n_streams[peer] -= 1
        if self._n_streams[peer] == 0:
            self._wait_for(peer)

    def close(self) -> None:
        """Report nobody any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _wait_for(self, peer: str) -> None:
        self._timers[peer] = asyncio.get_running_loop().call_later(self._grace, self._report, peer)
