"""Interruption of a job by Ctrl-C or by a signal that ends the process. The message says what was
spent and which files were written until then.
"""

import enum
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from fastlloyd.base.files import free_name
from fastlloyd.cli.failures import INTERRUPTED, Interrupted
from fastlloyd.cli.results import Destination
from fastlloyd.errors import FastLloydError
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.live_job import LiveJob
from fastlloyd.jobs.watching import Watch
from fastlloyd.reports.accounts import spent

_SIGNALS: Final = ("SIGTERM", "SIGHUP")  # not all systems have both


class Stage(enum.Enum):
    """Stage of a job: nothing is charged before RUNNING, and nothing is released before OVER."""

    PREPARING = "preparing"
    RUNNING = "running"
    OVER = "over"


class _Ended(KeyboardInterrupt):
    """Signal that ends the process. It interrupts a job as Ctrl-C does.

    number : number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interruption:
    """Context of a job. If the job is interrupted, the message also says what was spent and which
    files were written.

    Inside, SIGTERM and the end of the terminal (SIGHUP) interrupt the job as Ctrl-C does. Under
    nohup, SIGHUP is ignored.

    role : the job in a word or two, for its file of progress.
    account : account that is charged, or None.
    path : file or folder for the result, or None.
    stage : stage of the job, kept up to date by the command.
    """

    def __init__(self, role: str, account: BudgetAccount | None, path: Path | None) -> None:
        self._account, self._path, self._before = account, path, _version(path)
        run_id = None if account is None else account.run_id
        self._live = LiveJob(role, path, "" if run_id is None else run_id.hex())
        self._handlers = dict[int, Any]()
        self.stage = Stage.PREPARING

    @classmethod
    def of(cls, role: str, account: BudgetAccount | None, place: Destination) -> Self:
        """Return the context of a job whose result goes to this destination."""
        folder = place.folder
        is_new = folder is not None and place.is_new
        return cls(role, account, free_name(folder) if folder and is_new else folder)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in filter(None, (getattr(signal, name, None) for name in _SIGNALS)):
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._handlers[number] = signal.signal(number, _end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._live.close()
        if isinstance(error, KeyboardInterrupt):
            code = 128 + error.number if isinstance(error, _Ended) else INTERRUPTED
            raise Interrupted(" ".join((*self._spent(), self._written())), code) from None

    def running(self, watch: Watch) -> Watch:
        """Begin the stage RUNNING, and the file of progress. Return the watch of the job, which
        passes each event on to `watch`.
        """
        self.stage = Stage.RUNNING
        return self._live.telling(watch)

    def _spent(self) -> list[str]:
        if self.stage is Stage.PREPARING:
            return ["Nothing was spent."]
        said = ["The run was over, and its epsilon is spent."] if self.stage is Stage.OVER else []
        if self._account is None:
            return [*said, "No ledger counts this run."]
        with suppress(FastLloydError):
            return [*said, *map(spent, self._account.present())]
        return [*said, "To see what was spent, run `fastlloyd ledger show`."]

    def _written(self) -> str:
        if self._path is not None and self._before != _version(self._path):
            return f"The result was written to {self._path}."
        return "No result was written."


def _end(number: int, _frame: FrameType | None) -> None:
    raise _Ended(number)


def _version(path: Path | None) -> tuple[int, int] | None:
    """Return numbers that change if a file or folder is replaced, or None if nothing is at this
    path.
    """
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns)
