"""Outbox of one peer, which keeps a few frames in order, and a counter of the bytes in both
directions.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

MAX_WAITING: Final = 8  # for an honest peer that reads, at most two or three frames wait


@dataclass(slots=True)
class Meter:
    """Bytes of frames that one process sent and received over all its connections. The overhead of
    TLS and HTTP/2 is not included.
    """

    sent: int = 0
    received: int = 0

    def __str__(self) -> str:
        """Return both numbers with their units, for the line of progress."""
        return f"{_size(self.sent)} sent, {_size(self.received)} received"


class Outbox:
    """Frames that wait to be written to one stream.

    If more than `MAX_WAITING` frames wait, the stream is closed. The peer can connect again, and is
    then answered from the store. So a slow reader neither delays others nor fills the memory of
    this process.
    """

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self.closed = asyncio.Event()

    def put(self, frame: bytes) -> None:
        """Add a frame after the waiting ones. If the outbox is closed, nothing happens."""
        if self.closed.is_set():
            return
        self._frames.append(frame)
        if len(self._frames) > MAX_WAITING:
            self._frames.clear()
            self.closed.set()
        self._changed.set()

    def close(self, *last: bytes) -> None:
        """Write the waiting frames, then `last`, then nothing more."""
        for frame in last:
            self.put(frame)
        self.closed.set()
        self._changed.set()

    async def write_all(self, write: Callable[[bytes], Awaitable[None]], meter: Meter) -> None:
        """Write each frame, as fast as the peer reads, until the outbox is closed and empty.

        write : function that writes one frame to the stream.
        meter : counter of the bytes.
        """
        while True:
            while self._frames:
                meter.sent += len(self._frames[0])
                await write(self._frames.popleft())
            if self.closed.is_set():
                return
            self._changed.clear()
            await self._changed.wait()


def _size(n_bytes: int) -> str:
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}" if size < 999.5 else f"{size:.0f} {units[0]}"
