"""Status of runs, from the events of a store and from the file of progress that a running process
writes.
"""

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from fastlloyd.errors import StateError
from fastlloyd.federation.store import Role, lock, read
from fastlloyd.federation.store.events import MessageRecorded, PeerSigned, RunEnded
from fastlloyd.federation.store.files import SUFFIX
from fastlloyd.jobs.live import Live, Sight, live_path, read_live
from fastlloyd.reports.run_result import PRIVACY

JOINING: Final = "joining"
# kinds of messages that clients send
_ANSWERS: Final = (
    "Hello", "SealedKeys", "Ready", "BadKeys", "Upload", "Proposal", "Confirmation",
)  # fmt: skip


def look(path: Path) -> dict[str, Any]:
    """Return everything that is known about the runs in a store, or about the job that writes its
    result to a folder or file. The answer is plain data (for JSON).

    path : the store, the result, or the file of progress. A process may be using it.

    Raises StateError for a ledger, for a file that is not a store, and if there is no file.
    """
    file = live_path(path)
    live = read_live(file)
    is_of_job = live is not None and not live.sight.can_go_on
    if path == file or path.is_dir() or is_of_job or not (path.exists() or path.suffix == SUFFIX):
        return _of_job(path, live)
    contents, events = read(path)
    if contents.role is Role.HOLDER:
        raise StateError(
            f"{path} is a ledger, which takes no part in runs; see it with `fastlloyd ledger show`"
        )
    in_use = lock.is_held(path)
    runs = _runs(contents.history, events)
    for run in runs:
        is_it = live is not None and live.sight.run_id == run["run_id"]
        run.update(_heard(live if is_it else None, is_used=in_use))
    return {
        "role": contents.role.value,
        "events": contents.position.length,
        "in_use": in_use,
        "runs": runs,
    }


def live_of(run: dict[str, Any]) -> Live | None:
    """Return the file of progress of a run that `look` found, or None if there is none."""
    return None if run["live"] is None else msgspec.convert(run["live"], Live)


def _of_job(path: Path, live: Live | None) -> dict[str, Any]:
    """Return what is known without a store, in the form of `look`.

    live : content of the file of progress, or None. A job removes it at its end.

    Raises StateError if there is neither a file of progress nor a result.
    """
    if live is None and not (path / PRIVACY).is_file():
        raise StateError(
            f"nothing is known of a run at {path}: no store, no result and no file of progress is"
            f" there; correct the path, or name a store (NAME{SUFFIX}), the folder of a result, or"
            " NAME.live.json"
        )
    # a result alone does not say which job made it
    sight = Sight(name=path.name, role="result", run_id="", step="") if live is None else live.sight
    run: dict[str, Any] = {
        "run_id": sight.run_id,
        "client": None,
        "dataset": None,
        "rounds": None if live is None else sight.n_closed,
        "charged": [],
        "joined": None,
        "waits_for": None,
        "state": "finished" if live is None else "not finished",
        "reason": "",
    }
    runs = [run | _heard(live, is_used=None)]
    return {"role": sight.role, "events": 0, "in_use": None, "runs": runs}


def _heard(live: Live | None, *, is_used: bool | None) -> dict[str, Any]:
    """Return the part of a run's status that its file of progress says.

    live : content of the file, or None.
    is_used : as in `has_stopped`.
    """
    return {
        "live": None if live is None else msgspec.to_builtins(live),
        "has_stopped": live is not None and has_stopped(live, time.time(), is_used=is_used),
    }


def has_stopped(live: Live, now: float, *, is_used: bool | None) -> bool:
    """Return whether the process of a run has stopped before the run ended.

    live : content of the file of progress.
    now : current time, in seconds since 1970.
    is_used : whether a process uses the store, or None if that is unknown.
    """
    return not live.end and (is_used is False or live.is_old(now))


def ago(seconds: float) -> str:
    """Return an age in its largest unit, such as "3 min ago"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return f"{int(seconds)} s ago"


def clock(seconds: float) -> str:
    """Return a duration as minutes and seconds, or as hours, minutes and seconds."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def utc(seconds: float) -> str:
    """Return a time for people, such as "2026-11-26 23:40:11 UTC"."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _runs(history: Any, events: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for run_id, run in history.runs.items():
        of_run = [event for event in events if getattr(event, "run_id", None) == run_id]
        ends = [at for at, event in enumerate(of_run[:-1], 1) if isinstance(event, RunEnded)]
        kinds = [
            event.kind
            for event in of_run[max(ends, default=0) :]  # since it last began
            if isinstance(event, MessageRecorded)
        ]
        rows.append(
            {
                "run_id": run_id.hex(),
                "client": run.reserved.client if run.reserved else None,
                "dataset": run.reserved.dataset if run.reserved else None,
                "rounds": kinds.count("Broadcast"),
                "charged": list(run.charged),
                "joined": None if run.reserved else list(run.joined),
                "waits_for": None if run.ended else _waits_for(run, run_id, kinds, events),
                "state": (
                    run.ended.outcome.value
                    if run.ended
                    else _going_on(kinds, is_client=run.reserved is not None)
                ),
                "reason": run.ended.reason if run.ended else "",
            }
        )
    return rows


def _waits_for(run: Any, run_id: bytes, kinds: list[str], events: list[Any]) -> Any:
    """Return the parties that a run waits for, or None while clients join.

    At a client, they are "this client" or "the others". At a server, they are the names of the
    clients that have not answered in this step.

    run_id : id of the run.
    kinds : names of the kinds of the run's recorded messages, in order.
    events : all events of the store.
    """
    if run.reserved:
        return "the others" if kinds and kinds[-1] in _ANSWERS else "this client"
    if not kinds:
        return None
    steps = (
        at
        for at, event in enumerate(events)
        if isinstance(event, MessageRecorded)
        and event.run_id == run_id
        and event.kind not in _ANSWERS
    )
    since = events[max(steps, default=-1) + 1 :]
    heard = {event.client for event in since if isinstance(event, PeerSigned)}
    return [name for name in run.joined if name not in heard and name not in run.left]


def _going_on(kinds: list[str], *, is_client: bool) -> str:
    """Return a sentence about the progress of a run.

    kinds : names of the kinds of the run's recorded messages, in order.
    """
    last = kinds[-1] if kinds else ""
    return {
        "Hello": "waiting for the keys of the run",
        "Deal": "waiting for the keys of the run",
        "SealedKeys": "waiting for the keys of the run",
        "KeyBox": "waiting for the keys of the run",
        "BadKeys": "waiting for the keys of the run",
        "Ready": "ready; waiting until all are",
        "AllReady": "in round 1",
        "Upload": f"in round {kinds.count('Upload')}",
        "Broadcast": f"{kinds.count('Broadcast')} rounds closed",
        "Turn": f"{kinds.count('Broadcast')} rounds closed",
        "Proposal": f"{kinds.count('Broadcast')} rounds closed",
        "Parameters": f"{kinds.count('Broadcast')} rounds closed",
        "Confirmation": "waiting for the others' confirmations",
        "Confirmations": "confirmed; the result is to be written" if is_client else "confirmed",
        "Abort": "ended",
    }.get(last, JOINING)
