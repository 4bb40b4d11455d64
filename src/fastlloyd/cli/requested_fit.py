"""Fit that a file requests, for a program that watches the process.

The process reports on stdout, one JSON object a line. It does not show the result, which is in the
folder.
"""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastlloyd.base.files import check_destination
from fastlloyd.cli import results
from fastlloyd.cli.interruption import Interruption, Stage
from fastlloyd.cli.options import ResultOptions
from fastlloyd.federation.store.lock import Lock
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.jobs.watching import BudgetCharged, LedgerNoted
from fastlloyd.reports.result import Result


def report(**said: Any) -> None:
    """Print a JSON object in one line."""
    sys.stdout.write(json.dumps(said, allow_nan=False) + "\n")
    sys.stdout.flush()


def _watch(event: object) -> None:
    """Report an event. No line contains a number that must not be published."""
    match event:
        case BudgetCharged():
            report(charged=True)
            report(pid=os.getpid())
        case LedgerNoted():
            report(note=event.sentence)


def carry_out(path: Path) -> None:
    """Carry out the request in a file, which this process locks until it ends.

    Raises StateError if the file cannot be used. Errors of the request, of the fit and of its
    output pass through.
    """
    file = FitFile.read(path)  # before the lock, which makes a file beside
    lock = Lock(path)
    try:
        place = results.Destination(folder=Path(file.out))
        check_destination(Path(file.out), force=False)
        file.check_unchanged()
        request = file.request()
        with Interruption.of("fit", request.account, place) as interruption:
            prepared = request.prepare(watch=_watch)
            file.check_unchanged()
            fit = prepared.carry_out(interruption.running(_watch))
            interruption.stage = Stage.OVER
            output = ResultOptions(out=Path(file.out), json=True)
            paths = results.write(Result.of_fit(fit), output, place, fit.source.records)
        digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in paths}
        report(done=True, files=digests)
    finally:
        lock.release()
