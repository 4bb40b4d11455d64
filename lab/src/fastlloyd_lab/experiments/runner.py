"""Run those trials of a specification whose results are not yet in a folder, in several processes.
A run may be stopped at any time.
"""

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastlloyd.base.files import write_file
from fastlloyd.base.sealed_toml import load_text, to_builtins
from fastlloyd.base.version import __version__
from fastlloyd.errors import FastLloydError, OutputError
from fastlloyd_lab.datasets.named import absent, check_at_hand
from fastlloyd_lab.experiments import spec as specifications
from fastlloyd_lab.experiments.methods import load_method, sampler_digest
from fastlloyd_lab.experiments.problem import check_own
from fastlloyd_lab.experiments.reading import SPECIFICATION, Cells
from fastlloyd_lab.experiments.references import code_digest
from fastlloyd_lab.experiments.results import Folder, earlier_provenance, n_failed, read_rows
from fastlloyd_lab.experiments.spec import Spec
from fastlloyd_lab.experiments.trial import Trial
from fastlloyd_lab.experiments.workers import Pool, Schedule

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of an experiment: the number of all trials, of finished trials, and of those
    finished trials that failed.
    """

    total: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        """Number of trials that are not finished."""
        return self.total - self.done


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Content of the folder after a session, and facts about this session.

    progress : progress of the experiment.
    others : number of rows that belong to no trial of the specification. They are from earlier
        sessions.
    paths : files of the folder.
    session : facts about this session in the provenance.
    """

    progress: Progress
    others: int
    paths: list[Path]
    session: dict[str, Any]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def outlook(path: Path, out: Path, *, quick: bool) -> tuple[Progress, list[str]]:
    """Return the progress of a folder, and the data sets of unfinished trials that are not on this
    machine.

    Nothing is run or written. Raises the errors of `run`, except for missing data sets.
    """
    every, _ = _asked(path, out, quick=quick)
    done = read_rows(out)
    return _progress(done, every), absent(trial.dataset for trial in every if trial.key not in done)


def run(
    path: Path,
    out: Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    watch: Callable[[Progress], None] = lambda _: None,
) -> Summary:
    """Run the trials whose results are not yet in the folder, and write its tables.

    On KeyboardInterrupt or SIGTERM, finished trials are kept. The same call then continues the run.

    path : file of the specification.
    out : folder of results.
    quick : whether to use the smaller settings of `[quick]`.
    workers : number of processes.
    watch : function that is called with the progress at the beginning, and after every trial.

    Before the first trial, raises PlanError if the specification is wrong, DataError if a data set
    is wrong or missing, and OutputError if the folder cannot be used.
    """
    every, provenance = _asked(path, out, quick=quick)
    source = path.resolve().parent
    done = read_rows(out)
    # before anything is made: a set that is not there, or cannot be clustered, would be a row that
    # fails for each of its trials
    wanted = list(dict.fromkeys(trial.dataset for trial in every if trial.key not in done))
    check_at_hand(wanted)
    for name in wanted:
        check_own(name, source)
    with Folder(out, provenance) as folder:
        write_file(out / SPECIFICATION, load_text(path))
        now = _progress(folder.rows, every)
        watch(now)
        missing = [trial for trial in every if trial.key not in folder.rows]
        n_workers = min(cores() if workers is None else workers, len(missing))
        started, clock, spent = datetime.now(UTC), time.perf_counter(), list[tuple[float, float]]()
        try:
            with (
                _terminable(),
                closing(Pool(Schedule(missing), source, n_workers).reports()) as reports,
            ):
                for report in reports:
                    if report.digest:
                        folder.note_set(report.row, report.digest)
                    folder.append(report.row)
                    spent.append((report.preparing, report.busy))
                    now = replace(
                        now, done=now.done + 1, failed=now.failed + n_failed([report.row])
                    )
                    watch(now)
        finally:
            session = _session(n_workers, started, clock, spent)
            paths = folder.finish(every, session if missing else None)
        return Summary(
            progress=now, others=len(folder.rows) - now.done, paths=paths, session=session
        )


def _session(
    workers: int, started: datetime, clock: float, reports: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """Return the facts about one call of `run` for the provenance.

    One of these facts is `busy`, the share of the processes' time that clustering and measures
    took.

    workers : number of processes.
    started : time in UTC at which the call began.
    clock : the same time, in seconds of `time.perf_counter`.
    reports : for each trial, seconds of preparation, and seconds of clustering and measures.
    """
    seconds = time.perf_counter() - clock
    preparing, trying = (
        (sum(spent) for spent in zip(*reports, strict=True)) if reports else (0.0, 0.0)
    )
    return {
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "workers": workers,
        "trials": len(reports),
        "seconds": seconds,
        "trial_seconds": trying,
        "preparing_seconds": preparing,
        "busy": trying / (seconds * workers) if workers else 0.0,
    }


def _asked(path: Path, out: Path, *, quick: bool) -> tuple[list[Trial], dict[str, Any]]:
    """Return the trials of a specification, and the provenance of their results.

    Raises OutputError if the folder contains other files, or rows of a trial with other settings.
    The key of a trial has set, method, epsilon, options, clients and run. It lacks delta, preset,
    measures and seed, so rows with the same key must agree in these.
    """
    spec, source = specifications.read(path, quick=quick), path.resolve().parent
    every = specifications.trials(spec, source)
    provenance = _provenance(spec, path, every, quick=quick)
    now = {trial.key: trial for trial in every}
    for before in _earlier_trials(earlier_provenance(out, provenance) or {}, source, out):
        if (trial := now.get(before.key, before)) != before:
            name = min(
                name
                for name in Trial.__struct_fields__
                if getattr(trial, name) != getattr(before, name)
            )
            other = (
                f"{'the ' if name == 'seed' else ''}{name.replace('_', ' ')}"
                f" {getattr(before, name)!r:.80}"
            )
            raise OutputError(
                f"{out} holds results of {trial.method} on {trial.dataset} with {other}; choose"
                " another folder for these"
            )
    return every, provenance


def _earlier_trials(earlier: Mapping[str, Any], source: Path, out: Path) -> list[Trial]:
    """Return the trials for which a folder of results was made, read from its provenance `earlier`.

    source : folder of the code files that specifications name.
    """
    try:
        asked = [
            *earlier.get("earlier_specifications", []),
            *filter(None, [earlier.get("specification")]),
        ]
        contents = [one["content"] for one in asked]
    except (TypeError, KeyError):
        raise OutputError(
            f"the provenance of {out} has no specification of an experiment; choose another folder"
        ) from None
    try:
        return [
            trial
            for content in contents
            for trial in specifications.trials(specifications.from_content(content), source)
        ]
    except FastLloydError as error:
        raise OutputError(
            f"code that made {out} is no longer there ({error}); choose another folder"
        ) from None


def _progress(found: dict[str, Cells], every: list[Trial]) -> Progress:
    rows = [found[trial.key] for trial in every if trial.key in found]
    return Progress(total=len(every), done=len(rows), failed=n_failed(rows))


def _provenance(spec: Spec, path: Path, every: list[Trial], *, quick: bool) -> dict[str, Any]:
    source = path.resolve().parent
    names = dict.fromkeys(trial.method_source for trial in every)
    methods = [load_method(name, source) for name in names]
    return {
        "note": "public records and exact measures: NOT PRIVATE",
        "fastlloyd": __version__,
        "sampler": sampler_digest(),
        "specification": {"file": path.name, "quick": quick, "content": to_builtins(spec)},
        "code": {name: code_digest(name, source) for name in specifications.references(spec)},
        "methods": {method.name: method.label for method in methods},
        "central": {method.name: method.central for method in methods},
        "datasets": {},
        "libraries": {name: found for name in LIBRARIES if (found := installed(name))},
        "machine": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": cores(),
        },
        "sessions": [],
    }


def installed(name: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


@contextmanager
def _terminable() -> Iterator[None]:
    """Context manager in which SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
