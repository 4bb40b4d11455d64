"""Charging a fit to the ledger of whoever holds the records."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastlloyd.errors import BudgetError
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.settings import RunSettings

if TYPE_CHECKING:
    from fastlloyd.federation.admission import DataSet

_LOG = logging.getLogger(__name__)


class Till(NamedTuple):
    """What fits are charged to: a data set, in the ledger in that file, None for the holder's own."""

    dataset: "DataSet"
    ledger: Path | None = None

    @contextmanager
    def charged(
        self, mechanism: AnyRun, leaks: Sequence[str], *, by: str, then: RunSettings | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Charge the run inside durably, before its first noise is drawn.

        leaks : settings that were taken from the data. by : name of the estimator. then : of what is to follow from the same
        budget, for which there must be room too. Yields what is to be told of a round, from 0, before its noise is drawn.
        Raises BudgetError and StateError; nothing is spent then.
        """
        from fastlloyd.federation.admission import check_leaks
        from fastlloyd.federation.holder import HoldersLedger, place
        from fastlloyd.federation.ledger import run_cost

        check_leaks(self.dataset.name, leaks)
        rows_are = self.dataset.rows_are
        cost = run_cost(mechanism, rows_are=rows_are)
        ahead = [] if then is None else [run_cost(design(then), rows_are=rows_are)]
        ledger = HoldersLedger(place(self.ledger), _say)
        with ledger.charged(self.dataset, cost, *ahead, by=by, digest=mechanism.digest) as charge:
            yield charge.drawing


@contextmanager
def nobodys(_mechanism: AnyRun, **_: object) -> Iterator[Callable[[int], None]]:
    """What takes the place of `Till.charged` where no data set is named: nobody adds up what fits spend."""
    yield lambda _: None


_OF_ALL_FITS: ContextVar[Till | None] = ContextVar("data set of all fits", default=None)


@contextmanager
def dataset(
    name: str,
    *,
    rows_are: str | None = None,
    new: bool = False,
    new_unit: bool = False,
    ledger: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Charge every fit inside to the data set of that name, as the parameter `dataset` of an estimator does.

    rows_are : every record is all there is of one person, such as "patient", so that a limit for patients can hold the fits.
    new, new_unit : the ledger knows other data sets, or the data set knows other persons, and these are none of them.
    ledger : the file; None: the one that the variable FASTLLOYD_LEDGER names, or the one in the user's state folder.
    It holds for this thread or task, not for threads and processes that are begun inside: there, as in a grid search with
    n_jobs, use the parameter. Raises BudgetError for what cannot be a name.
    """
    from fastlloyd.federation.admission import DataSet, check_dataset, check_unit_name

    check_dataset(name)
    if rows_are is not None:
        check_unit_name(rows_are)
    till = Till(
        DataSet(name=name, rows_are=rows_are, is_new=new, is_new_unit=new_unit), None if ledger is None else Path(ledger)
    )
    before = _OF_ALL_FITS.set(till)
    try:
        yield
    finally:
        _OF_ALL_FITS.reset(before)


def till_of(name: str | None) -> Till | None:
    """Where a fit is charged whose estimator names this data set, or none. Raises BudgetError if it is inside another one."""
    from fastlloyd.federation.admission import DataSet, check_dataset

    of_all = _OF_ALL_FITS.get()
    if name is None:
        return of_all
    check_dataset(name)
    if of_all is None:
        return Till(DataSet(name=str(name)))
    if of_all.dataset.name != name:
        raise BudgetError(f"dataset is {name!r}, and the fit is inside dataset({of_all.dataset.name!r}): leave one of them out")
    return of_all


def _say(sentence: str) -> None:
    """Tell of a ledger that was made, which is rarely wanted twice: in the log if there is one, else on a terminal."""
    if _LOG.hasHandlers():
        _LOG.warning(sentence)
    elif sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{sentence}\n")
