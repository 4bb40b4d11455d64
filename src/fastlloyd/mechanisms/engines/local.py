"""Engine that uses processes of this machine. They receive nothing from this process but
messages.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

from fastlloyd.base.processes import forbid_core_dumps, uninterrupted
from fastlloyd.base.threads import n_threads
from fastlloyd.errors import EngineError
from fastlloyd.mechanisms.engines.engine import PULSE, Result

KEPT_BYTES = 1 << 28  # bytes that each process may keep
_PATIENCE = 10.0  # seconds that a process has to end by itself


class LocalEngine:
    """Engine that uses several processes of this machine.

    The processes share the cores, and end with the process that started them.
    """

    def __init__(self, n_workers: int) -> None:
        self.name, self.n_workers, self.kept_bytes = (
            f"local:{n_workers}",
            n_workers,
            n_workers * KEPT_BYTES,
        )
        threads = max(1, n_threads() // n_workers)
        self._workers = [_Worker.started(threads) for _ in range(n_workers)]
        self._n_kept = 0
        self._busy: dict[Connection, tuple[int, int]] = {}  # worker, and its piece

    def map(
        self, function: Callable[[Any], Result], pieces: Sequence[Any]
    ) -> Iterator[tuple[int, Result] | None]:
        """Yield results as `Engine.map` does. Raises EngineError if a process dies.

        A dead process is not replaced, because its cause of death, such as too little memory, would
        end the next process too.
        """
        busy = self._busy
        # with a pass that was given up: who is asked and still answers would wait for us, and we
        # for them
        while busy:
            for ready in wait(list(busy), timeout=PULSE):
                self._workers[busy.pop(ready)[0]].received(self.name)  # type: ignore[call-overload]
            yield None
        own: list[deque[int]] = [deque() for _ in self._workers]  # what only that process has
        others = deque[int]()
        for number, piece in enumerate(pieces):
            (own[piece.worker] if isinstance(piece, _Kept) else others).append(number)

        def feed(worker: int) -> None:
            if queue := own[worker] or others:
                number = queue.popleft()
                busy[self._workers[worker].connection] = worker, number
                with suppress(OSError):  # that it has died is seen when it is read
                    self._workers[worker].connection.send((function, pieces[number]))

        for worker in range(self.n_workers):
            feed(worker)
        while busy:
            arrived = wait(list(busy), timeout=PULSE)
            if not arrived:
                yield None
            for ready in arrived:
                # `ready` is one of the connections in `busy`
                worker, number = busy.pop(ready)  # type: ignore[call-overload]
                found = self._workers[worker].received(self.name)
                feed(worker)
                yield number, found

    def keep(self, function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        """Keep results as `Engine.keep` does. A process computes a result at its first use."""
        first, self._n_kept = self._n_kept, self._n_kept + len(pieces)
        return [
            _Kept(i, i % self.n_workers, function, piece) for i, piece in enumerate(pieces, first)
        ]

    def close(self) -> None:
        """End the worker processes."""
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_PATIENCE)


class _Kept(NamedTuple):
    """Handle of the result function(piece), which one process keeps.

    number : index of the result among all kept results.
    worker : index of the process.
    """

    number: int
    worker: int
    function: Callable[[Any], Any]
    piece: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection

    @classmethod
    def started(cls, threads: int) -> "_Worker":
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, threads), daemon=True)
        with uninterrupted():
            process.start()
        theirs.close()
        return cls(process, ours)

    def received(self, name: str) -> Any:
        """Return the next message that the process sent. Raises EngineError if the process has
        ended.
        """
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_PATIENCE)
            raise EngineError(
                f"a process of {name} ended in the middle of its work (exit code"
                f" {self.process.exitcode}; -9 is often too little memory): use fewer processes,"
                " or leave --engine out"
            ) from None


def _work(connection: Connection, threads: int) -> None:
    """Compute the requested results, one after the other, until the connection closes."""
    forbid_core_dumps()
    # Ctrl-C reaches the whole group; the parent ends us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    sys.stdout = sys.stderr
    kept: dict[int, Any] = {}
    with suppress(EOFError, OSError):  # the parent has ended
        while True:
            function, piece = connection.recv()
            if isinstance(piece, _Kept):
                if piece.number not in kept:
                    kept[piece.number] = piece.function(piece.piece)
                piece = kept[piece.number]
            connection.send(function(piece))
