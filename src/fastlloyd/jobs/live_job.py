"""File of progress of a job that runs in this process, such as a fit."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from fastlloyd.jobs.live import LiveFile, Sight, live_path, read_live
from fastlloyd.jobs.watching import RoundAnswered, RunBegan, StepBegan, Watch

_PAUSE: Final = 1.0  # seconds between two looks at the time


class LiveJob:
    """File of progress beside the result of a job. It is removed when the job ends, also after an
    error. So only a process that was killed leaves it behind.

    role : the job in a word or two, such as "fit".
    out : file or folder for the result, or None to keep no file of progress.
    run_id : id of the run in hexadecimal, or "" if it is not known.
    """

    def __init__(self, role: str, out: Path | None, run_id: str = "") -> None:
        path = None if out is None else live_path(out)
        if path is not None and os.path.lexists(path) and read_live(path) is None:
            path = None  # a file of somebody else
        self._path, self._file = path, LiveFile(path)
        name = "" if out is None else out.absolute().name
        self._sight = Sight(
            name=name, role=role, run_id=run_id, step="reading the records", can_go_on=False
        )
        self._lock, self._over = threading.Lock(), threading.Event()
        self._writer: threading.Thread | None = None

    def close(self) -> None:
        """Remove the file of progress."""
        self._over.set()
        if self._writer is not None:
            self._writer.join()
        self._file.remove()

    def telling(self, watch: Watch) -> Watch:
        """Write the file from now on. Return a watch that keeps the file up to date, and passes
        each event on to `watch`.
        """
        if self._path is not None:
            with suppress(OSError):  # the result makes its folder, too
                self._path.parent.mkdir(parents=True, exist_ok=True)
            self._show(lambda sight: sight)
            self._writer = threading.Thread(target=self._keep, daemon=True, name="progress")
            self._writer.start()

        def told(event: object) -> None:
            self._hear(event)
            watch(event)

        return told

    def _hear(self, event: object) -> None:
        """Update the view of the job from an event. Ignore numbers of records and pieces, which the
        file must not show.
        """
        match event:
            case StepBegan():
                self._show(lambda sight: replace(sight, step=event.what))
            case RunBegan():
                n = event.mechanism.n_rounds
                self._show(
                    lambda sight: replace(sight, step=f"round 1 of {n}", n_rounds=n, n_closed=0)
                )
            case RoundAnswered():
                n, of = event.number, event.n_rounds
                step = f"round {n + 1} of {of}" if n < of else "the last round is answered"
                self._show(lambda sight: replace(sight, step=step, n_rounds=of, n_closed=n))

    def _keep(self) -> None:
        """Write the file again and again while no event comes."""
        while not self._over.wait(_PAUSE):
            self._show(lambda sight: sight)

    def _show(self, change: Callable[[Sight], Sight]) -> None:
        with self._lock:
            self._sight = change(self._sight)
            self._file.see(self._sight)
