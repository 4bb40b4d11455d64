"""Runs in child processes: their start, and their state.

The child is `fastlloyd fit --request FILE`, or `join`. It continues when the app or the browser
ends. Everything about a run is in files and in the ledger, where an app that is started later finds
it:

- the request, written with O_EXCL before the child is started, so only one press of a button starts
  a run
- a lock on the request, which the child has until it ends
- the run's id in the ledger, from the charge on
- the folder of the result, which appears whole or not at all.

A request that no child has taken is made void: it is renamed, under the same lock. A child that
comes later then finds nothing to do. To continue a study, its void request gets its name back.
"""

import os
import shutil
import signal
import subprocess  # nosec B404 - runs this very program
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from fastlloyd.app.drafts import checked_id
from fastlloyd.app.run_state import RunState
from fastlloyd.app.studies import StudyLook, plan_of, run_in_ledger, study_of
from fastlloyd.base.files import write_private
from fastlloyd.base.own_files import read_own
from fastlloyd.errors import OutputError, StateError
from fastlloyd.federation.store.lock import InUseError, Lock, is_held
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.jobs.join_file import JoinFile
from fastlloyd.jobs.live import Live, live_path, read_live
from fastlloyd.jobs.request_file import MAX_BYTES
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports.run_result import CENTROIDS, PRIVACY

PATIENCE: Final = 20.0  # seconds in which a child takes its lock; it needs about one
_REQUEST, _VOID, _OUT, _ERR, _RECIPE = (
    "request.json",
    "void.json",
    "stdout",
    "stderr",
    "recipe.toml",
)
_NOTE: Final = "Note: "
_MAX_OUTPUT: Final = 1 << 22
# Windows has no sessions: there Ctrl-C and the end of the app's console would end the child, too
_OWN_CONSOLE: Final = int(getattr(subprocess, "CREATE_NO_WINDOW", 0))


AnyRequest = FitFile | JoinFile
_FINAL: Final = (RunState.DONE, RunState.SPENT, RunState.REFUNDED)


class RunLook(NamedTuple):
    """Current state of a run.

    state : state of the run.
    file : request for the run.
    live : file of progress of a fit in progress, or None.
    notes : notes of the ledger for its owner, as sentences.
    faults : sentences with which the child ended.
    digests : SHA-256 of each file of the result, by name, as the child wrote them.
    pid : number of the child's process, or 0 if not known.
    study : state of the user's part in a study, or None for a fit.
    """

    state: RunState
    file: AnyRequest
    live: Live | None = None
    notes: Sequence[str] = ()
    faults: Sequence[str] = ()
    digests: dict[str, str] = {}  # noqa: RUF012 - never changed
    pid: int = 0
    study: StudyLook | None = None

    @property
    def folder(self) -> Path:
        """Folder of the result."""
        return Path(self.file.out)


class ChildRuns:
    """Runs that the app started for this user, each in a process of its own.

    folder : folder that has a folder for each run. It is made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._children = dict[str, subprocess.Popen[bytes]]()
        self._ended = dict[str, RunLook]()  # such a run does not change any more
        self._starting = threading.Lock()  # of two presses of a button one is first

    def path(self, name: str) -> Path:
        """Return the folder of a run. Raises StateError for a text that is not an id."""
        return self.folder / checked_id(name)

    def is_begun(self, name: str) -> bool:
        """Return whether the run was ever started, even if it has ended or failed."""
        folder = self.path(name)
        return (folder / _REQUEST).exists() or (folder / _VOID).exists()

    def start(self, file: AnyRequest, secret: str | None = None) -> None:
        """Start a run, unless it was started before. A study that is not under way may be started
        with a new request.

        secret : passphrase that the child gets on standard input, or None.

        Raises OutputError if its files cannot be written, and OSError if no process can be started.
        """
        with self._starting:
            self._start(file, secret)

    def _start(self, file: AnyRequest, secret: str | None) -> None:
        folder = self.path(file.run_id)
        folder.mkdir(exist_ok=True, mode=0o700)
        void = folder / _VOID
        if (folder / _REQUEST).exists() or (void.exists() and isinstance(file, FitFile)):
            return
        _emptied(folder)
        self._children.pop(file.run_id, None)  # an earlier child says nothing about this one
        try:
            file.write(folder / _REQUEST)
        except OutputError:
            if (folder / _REQUEST).exists():  # another tab was faster
                return
            raise
        void.unlink(missing_ok=True)
        if recipe := _recipe_of(file):
            with suppress(OutputError):
                write_private(folder / _RECIPE, recipe, replace=True)
        self._begin(file, secret)

    def go_on(self, name: str, secret: str | None = None) -> None:
        """Start a child for the request of a study again, unless one is at work.

        secret : passphrase that the child gets on standard input, or None.

        Raises StateError if there is no such run, and OSError if no process can be started.
        """
        folder = self.path(name)
        with self._starting:
            if self.look(name).state not in (RunState.PAUSED, RunState.NOT_SPENT):
                return
            file, void = _found(folder)[0], folder / _VOID
            _emptied(folder)
            os.utime(void)  # the child has time to come
            self._children.pop(name, None)  # an earlier child says nothing about this one
            void.rename(folder / _REQUEST)
            self._begin(file, secret)

    def stop(self, name: str) -> None:
        """Ask the process of a run to end (SIGTERM). If no process carries out the run, do
        nothing.
        """
        look, child = self.look(name), self._children.get(name)
        if child is not None and child.poll() is None:
            child.terminate()  # also before it has its lock
        elif (
            look.state is RunState.RUNNING
            and look.pid
            and _is_alive(
                self.path(name) / _REQUEST
            )  # the process that has the lock wrote the number
        ):
            with suppress(OSError):
                os.kill(look.pid, signal.SIGTERM)

    def _begin(self, file: AnyRequest, secret: str | None) -> None:
        """Start the child process for a request whose file was written."""
        folder = self.path(file.run_id)
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        out, err = (os.open(folder / name, flags) for name in (_OUT, _ERR))
        try:
            # this very program; the file has all the rest
            child = subprocess.Popen(  # noqa: S603  # nosec B603
                [
                    sys.executable,
                    *("-P", "-m", "fastlloyd", file.command, "--request"),
                    str(folder / _REQUEST),
                ],
                stdin=subprocess.DEVNULL if secret is None else subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=folder,
                start_new_session=True,  # it outlives the app, and Ctrl-C is not for it
                creationflags=_OWN_CONSOLE,
            )
        finally:
            os.close(out)
            os.close(err)
        self._children[file.run_id] = child
        self._ended.pop(file.run_id, None)
        if child.stdin is not None:
            with suppress(OSError), child.stdin as given:
                given.write(f"{secret}\n".encode())

    def recipe(self, name: str) -> Path:
        """Return the path of the recipe of a run."""
        return self.path(name) / _RECIPE

    def names(self) -> list[str]:
        """Return the ids of all runs that were started, the newest first."""
        found = list[tuple[float, str]]()
        for entry in os.scandir(self.folder):
            with suppress(StateError, OSError):
                if self.is_begun(entry.name):
                    found.append((entry.stat().st_ctime, entry.name))
        return [name for _, name in sorted(found, reverse=True)]

    def look(self, name: str) -> RunLook:
        """Return the current state of a run. Raises StateError if there is no such run, or if its
        files cannot be used.
        """
        if name in self._ended:
            return self._ended[name]
        folder = self.path(name)
        request = folder / _REQUEST
        file, is_void = _found(folder)
        study: StudyLook | None = None
        if not is_void and (_is_alive(request) or self._may_come(file.run_id, request)):
            study = study_of(file) if isinstance(file, JoinFile) else None
            return _Said.of(folder).look(RunState.RUNNING, file, study)
        # the process has ended, if there was one: what it left does not change any more
        if isinstance(file, JoinFile):
            study = study_of(file)
        state = _state(file) if study is None else study.state
        is_to_end = state is RunState.NOT_SPENT or state is RunState.PAUSED
        if is_to_end and not is_void and not self._made_void(request):
            return _Said.of(folder).look(RunState.RUNNING, file, study)
        look = _Said.of(folder).look(state, file, study)
        if state in _FINAL or study is None:
            self._ended[name] = look
        return look

    def remove(self, name: str) -> None:
        """Forget a run that has ended. Its result and its entry in the ledger stay."""
        if self.look(name).state not in (RunState.RUNNING, RunState.PAUSED):
            shutil.rmtree(self.path(name), ignore_errors=True)
            self._ended.pop(name, None)

    def _may_come(self, name: str, request: Path) -> bool:
        """Return whether a child that does not have the lock on the request yet may still take
        it.
        """
        if (child := self._children.get(name)) is not None:
            return child.poll() is None
        out = request.with_name(_OUT)
        # a later time is that of a clock that was set back since
        is_new = abs(time.time() - request.stat().st_mtime) < PATIENCE
        return is_new and not (out.exists() and out.stat().st_size)

    def _made_void(self, request: Path) -> bool:
        """Rename a request that no process carries out. Return whether it is void now: no process
        will carry it out.
        """
        try:
            lock = Lock(request)
        except InUseError:
            return False
        try:
            with suppress(FileNotFoundError):
                request.rename(request.with_name(_VOID))
        finally:
            lock.release()
        return True


class _Said(NamedTuple):
    """Report that a child has written so far."""

    lines: list[dict[str, Any]]
    faults: list[str]

    @classmethod
    def of(cls, folder: Path) -> "_Said":
        out, err = (_content(folder / name) for name in (_OUT, _ERR))
        lines = list[dict[str, Any]]()
        for line in out.splitlines():
            with suppress(ValueError):  # the last line may be half
                lines.append(msgspec.json.decode(line, type=dict[str, Any]))
        # the log of a part in a study is JSON, too
        logged = list[dict[str, Any]]()
        for line in err.splitlines():
            with suppress(ValueError):
                logged.append(msgspec.json.decode(line, type=dict[str, Any]))
        said = [str(each.get("message", "")) for each in logged]
        lines += [{"note": text.removeprefix(_NOTE)} for text in said if text.startswith(_NOTE)]
        connected = [at for at, text in enumerate(said) if text.startswith("connected to ")]
        later = logged[connected[-1] if connected else 0 :]  # an older warning is settled
        warned = [str(each["message"]) for each in later if each.get("level") == "warning"]
        errors = [line for line in err.splitlines() if line.startswith("Error:")]
        return cls(lines, [*errors, *warned[-1:]])

    def look(self, state: RunState, file: AnyRequest, study: StudyLook | None) -> RunLook:
        heard = read_live(live_path(Path(file.out)))
        is_its = heard is not None and heard.sight.run_id == file.run_id
        return RunLook(
            state=state,
            file=file,
            live=heard if is_its else None,
            notes=[str(line["note"]) for line in self.lines if "note" in line],
            faults=[line.removeprefix("Error: ") for line in self.faults],
            digests=next((line["files"] for line in self.lines if "files" in line), {}),
            pid=next((int(line["pid"]) for line in self.lines if "pid" in line), 0),
            study=study,
        )


def _is_alive(request: Path) -> bool:
    """Return whether a process carries out a request."""
    if (held := is_held(request)) is not None:
        return held
    try:
        Lock(request).release()
    except InUseError:
        return True
    return False


def _content(path: Path) -> str:
    try:
        return read_own(path, _MAX_OUTPUT).decode("utf-8", "replace")
    except StateError:
        return ""


def is_result(folder: Path) -> bool:
    """Return whether a folder has a result."""
    return (folder / PRIVACY).is_file() and (folder / CENTROIDS).is_file()


def _state(file: AnyRequest) -> RunState:
    """Return the state of a fit whose process has ended. Raises StateError if the ledger cannot be
    read.
    """
    run = run_in_ledger(file)
    if run is None:
        return RunState.NOT_SPENT
    if is_result(Path(file.out)):
        return RunState.DONE
    return RunState.SPENT if run.counted else RunState.REFUNDED


def _found(folder: Path) -> tuple[AnyRequest, bool]:
    """Return the request in a folder, and whether it is void. Raises StateError if the folder has
    no request, or if the request cannot be read.

    A request may be renamed meanwhile, so each name is tried again.
    """
    for name in (_REQUEST, _VOID, _REQUEST):
        if (folder / name).exists():
            with suppress(StateError):
                return _read(folder / name), name == _VOID
    return _read(folder / _VOID), True


def _read(path: Path) -> AnyRequest:
    """Return the request in a file. Raises StateError if it cannot be read."""
    kind: type[AnyRequest] = AnyRequest  # type: ignore[assignment]
    try:
        return msgspec.json.decode(read_own(path, MAX_BYTES), type=kind)
    except (ValueError, RecursionError):
        raise StateError(f"{path} is not a request that this version knows") from None


def _emptied(folder: Path) -> None:
    """Make the files for the output of a child. If an earlier child left such files, empty them."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    for name in (_OUT, _ERR):
        os.close(os.open(folder / name, flags, 0o600))


def _recipe_of(file: AnyRequest) -> str:
    """Return the text of the recipe of a request, or "" without a recipe. The text includes the
    local part of the recipe (`Here`).
    """
    if isinstance(file, FitFile):
        return file.recipe
    agreed = plan_of(file.plan).mechanism.domain.recipe
    return "" if agreed is None else Recipe(features=tuple(agreed), here=file.here).to_toml()
