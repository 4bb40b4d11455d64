"""Progress of a run, in a file beside the store of its party or beside its result.

The file `NAME.live.json` contains names, rounds, bytes and times, and nothing about records. It is
replaced as a whole at each change, and every few seconds. So a file that was not replaced for long
belongs to a process that has stopped, or that cannot write.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from fastlloyd.base.files import replacing, to_json

PERIOD: Final = 3.0
"""Seconds between two writes while nothing changes."""

OLD: Final = 9.0
"""Seconds after which a file that was not written again is old."""

SUFFIX: Final = ".live.json"
_MAX_BYTES: Final = 1 << 20

# limits for the file of a stranger: times that have a date, and texts that command no terminal
Seconds = Annotated[float, Meta(ge=-1e11, le=1e11)]
Number = Annotated[int, Meta(ge=0, le=1 << 62)]
Words = Annotated[str, Meta(pattern=r"\A[^\x00-\x08\x0b-\x1f\x7f-\x9f]*\Z")]


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Public view of a run, as one of its parties sees it at one moment.

    name : name of the party, or of the result.
    role : "client", "server", or the job, such as "fit".
    run_id : id of the run, in hexadecimal, or "" if it is not known.
    step : current step in words, such as "round 2 of 7".
    n_rounds, n_clients : number of rounds and of clients in the plan, or 0.
    n_closed : number of rounds whose sums are known.
    n_awaited : number of clients that have not answered in this step.
    awaited : names of these clients. Only the server knows them. None at a client.
    connected : names of the clients that are connected to the server, or None at a client.
    not_told : names of the clients that do not yet know that the run is over.
    seconds_left : seconds after which this step is given up, or None if there is no limit.
    sent, received : bytes that this process sent and received.
    can_go_on : whether the same command continues the run after its process has stopped.
    """

    name: Words
    role: Words
    run_id: Words
    step: Words
    n_rounds: Number = 0
    n_clients: Number = 0
    n_closed: Number = 0
    n_awaited: Number = 0
    awaited: tuple[Words, ...] | None = None
    connected: tuple[Words, ...] | None = None
    not_told: tuple[Words, ...] = ()
    seconds_left: Seconds | None = None
    sent: Number = 0
    received: Number = 0
    can_go_on: bool = True


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a file of progress. Times are seconds since 1970 in UTC.

    sight : last view of the run.
    began : start of the process.
    since : start of the current step.
    written : time of this content.
    steps : earlier steps of this process with their seconds, in order.
    pid : number of the process.
    end : sentence about the end of the process, or "" while it runs.
    """

    sight: Sight
    began: Seconds
    since: Seconds
    written: Seconds
    steps: tuple[tuple[Words, float], ...] = ()
    pid: int = 0
    end: Words = ""

    def age(self, now: float) -> float:
        """Return the seconds since the content was written, at least 0."""
        return max(0.0, now - self.written)

    def is_old(self, now: float) -> bool:
        """Return whether the content is older than a running process would leave it.

        Content that states the end of its process is never old. Content whose time is far in the
        future is old, too: if the clock is set back, a running process replaces the file soon.
        """
        return not self.end and abs(now - self.written) > OLD


class LiveFile:
    """File of progress that one process keeps up to date. If it cannot be written, the run goes on
    without it.

    path : the file, or None to keep none.
    clock : function that returns the time, in seconds since 1970.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._live: Live | None = None

    @property
    def present(self) -> Live | None:
        """Content that was last written to the file, or None if nothing was written yet."""
        return self._live

    def see(self, sight: Sight) -> None:
        """Accept a new view of the run. Write it if the step or the parties changed, or if the last
        write was `PERIOD` seconds ago or more.
        """
        now, before = self._clock(), self._live
        if before is None:
            live = Live(sight=sight, began=now, since=now, written=now, pid=os.getpid())
        else:
            is_new = before.sight.step != sight.step
            done = ((before.sight.step, now - before.since),) if is_new else ()
            live = msgspec.structs.replace(
                before,
                sight=sight,
                since=now if is_new else before.since,
                steps=before.steps + done,
                written=now,
            )
            is_soon = 0 <= now - before.written < PERIOD  # a clock may jump back
            if is_soon and _parties(before.sight) == _parties(sight):
                return
        self._live = live
        self._write(live)

    def end(self, words: str) -> None:
        """Write a sentence about the end of the process. Do nothing if no view of the run was
        written.
        """
        if self._live is not None:
            self._live = msgspec.structs.replace(self._live, written=self._clock(), end=words)
            self._write(self._live)

    def remove(self) -> None:
        """Remove the file, if it was written."""
        if self._live is not None and self._path is not None:
            with suppress(OSError):
                self._path.unlink()

    def _write(self, live: Live) -> None:
        if self._path is None:
            return
        # a disk may take longer than OLD to confirm, and a power cut ends the run anyway
        with suppress(OSError), replacing(self._path, private=True, durable=False) as file:
            file.write(to_json(msgspec.to_builtins(live)).encode())


def live_path(named: Path) -> Path:
    """Return the path of the file of progress beside a store or a result.

    named : the store, the result, or the file of progress itself.
    """
    whole = named if named.name else named.absolute()  # the current folder has no name
    if whole.name.endswith(SUFFIX):
        return whole
    return whole.with_name(whole.name.removesuffix(".store") + SUFFIX)


def read_live(path: Path) -> Live | None:
    """Return the content of a file of progress, or None if there is none that can be used."""
    try:
        # O_NONBLOCK: a pipe in the place of the file must not hold the program up
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Live)
    except (OSError, ValueError):
        return None


def _parties(sight: Sight) -> tuple[object, ...]:
    """Return the step and the parties of a view. If they change, the file is written without
    delay.
    """
    return sight.step, sight.n_awaited, sight.awaited, sight.connected, sight.not_told
