"""What is said unasked goes to the log if that takes it, else to a terminal, and into no file."""

import io
import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from fastlloyd import FastLloyd, NoisyResultWarning, dataset
from fastlloyd.base.notes import note
from fastlloyd.errors import LedgerWarning


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_log(level: int | None) -> tuple[logging.Logger, io.StringIO]:
    """A log that takes what is at least of that level, and what is written to it; None: nobody
    configured any.
    """
    log, written = (
        logging.Logger("a log of nobody's"),  # noqa: LOG001
        io.StringIO(),
    )
    if level is not None:
        log.setLevel(level)
        log.addHandler(logging.StreamHandler(written))
    return log, written


@pytest.mark.parametrize(
    ("level", "stderr", "in_log", "on_terminal"),
    [
        (logging.INFO, Terminal(), "100 % said\n", ""),
        (logging.INFO, None, "100 % said\n", ""),
        (logging.WARNING, Terminal(), "", "100 % said\n"),
        (None, Terminal(), "", "100 % said\n"),
        (None, io.StringIO(), "", ""),
        (None, None, "", ""),
    ],
)
def test_a_note_goes_to_the_log_or_to_a_terminal_or_nowhere(
    level: int | None,
    stderr: io.StringIO | None,
    in_log: str,
    on_terminal: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, written = a_log(level)
    monkeypatch.setattr(sys, "stderr", stderr)
    note(log, logging.INFO, "100 % said")
    assert written.getvalue() == in_log
    assert stderr is None or stderr.getvalue() == on_terminal


@pytest.mark.filterwarnings(
    f"ignore::{NoisyResultWarning.__module__}.{NoisyResultWarning.__name__}"
)
def test_fits_warn_once_of_the_ledger_that_they_made(ledger_of_its_own: Path) -> None:
    def fits() -> None:
        with dataset("patients", new=True):
            for _ in range(2):
                FastLloyd(2, bounds=(0.0, 1.0), n_records=100).fit(np.linspace(0, 1, 60)[:, None])

    with pytest.warns(LedgerWarning) as warned:
        fits()
    (said,) = [str(each.message) for each in warned if each.category is LedgerWarning]
    assert said.startswith(f"made {ledger_of_its_own}, a new ledger")
