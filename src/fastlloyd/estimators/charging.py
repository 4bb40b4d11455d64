"""Charging a fit to the ledger of whoever holds the records."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastlloyd.base.notes import note
from fastlloyd.errors import BudgetError
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.settings import RunSettings

if TYPE_CHECKING:
    from fastlloyd.federation.admission import DataSet

_LOG = logging.getLogger(__name__)


class Till(NamedTuple):
    """What fits are charged to: a data set, in the ledger in that file, None for the holder's
    own.
    """

    dataset: "DataSet"
    ledger: Path | None = None

    @contextmanager
    def charged(
        self, mechanism: AnyRun, leaks: Sequence[str], *, by: str, then: RunSettings | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Charge the run inside durably, before its first noise is drawn.

        leaks : settings that were taken from the data. by : name of the estimator. then : of what
        is to follow from the same budget, for which there must be room too. Yields what is to be
        told of a round, from 0, before its noise is drawn. Raises BudgetError and StateError;
        nothing is spent then.
        """
        from fastlloyd.federation.admission import check_leaks
        from fastlloyd.federation.holder import HoldersLedger, place
        from fastlloyd.federation.ledger import run_cost

        check_leaks(self.dataset.name, leaks)
        rows_are = self.dataset.rows_are
        cost = run_cost(mechanism, rows_are=rows_are)
        ahead = [] if then is None else [run_cost(design(then), rows_are=rows_are)]
        ledger = HoldersLedger(place(self.ledger), partial(note, _LOG, logging.WARNING))
        with ledger.charged(self.dataset, cost, *ahead, by=by, digest=mechanism.digest) as charge:
            yield charge.drawing


@contextmanager
def nobodys(_mechanism: AnyRun, **_: object) -> Iterator[Callable[[int], None]]:
    """What takes the place of `Till.charged` where no data set is named: nobody adds up what fits
    spend.
    """
    yield lambda _: None


_OPEN: ContextVar[tuple[Till, ...]] = ContextVar(
    "blocks of `dataset` that are open, the innermost last", default=()
)


@contextmanager
def dataset(
    name: str,
    *,
    rows_are: str | None = None,
    new: bool = False,
    new_unit: bool = False,
    ledger: str | os.PathLike[str] | None = None,
) -> Iterator[None]:
    """Charge every fit inside to the data set of that name, as the parameter `dataset` of an
    estimator does.

    rows_are : every record is all there is of one person, such as "patient", so that a limit for
    patients can hold the fits. new, new_unit : the ledger knows other data sets, or the data set
    knows other persons, and these are none of them. ledger : the file; None: the one that the
    variable FASTLLOYD_LEDGER names, or the one in the user's state folder. It holds for this thread
    or task. Fits of other threads and processes, as in a grid search with n_jobs, are not charged:
    use the parameter there. Raises BudgetError for what cannot be a name.
    """
    from fastlloyd.federation.admission import DataSet

    charged = DataSet(name=name, rows_are=rows_are, is_new=new, is_new_unit=new_unit)
    till = Till(charged, None if ledger is None else Path(ledger).expanduser().absolute())
    _OPEN.set((*_OPEN.get(), till))
    try:
        yield
    finally:  # by identity, as a generator may leave blocks in another order, or in another thread
        _OPEN.set(tuple(each for each in _OPEN.get() if each is not till))


def till_of(name: str | None) -> Till | None:
    """Where a fit is charged whose estimator names this data set, or none. Raises BudgetError if it
    is inside another one.
    """
    from fastlloyd.federation.admission import DataSet

    innermost = next(reversed(_OPEN.get()), None)
    if name is None:
        return innermost
    named = DataSet(name=name)
    if innermost is None:
        return Till(named)
    if innermost.dataset.name != name:
        other = innermost.dataset.name
        raise BudgetError(
            f"dataset is {name!r}, and the fit is inside dataset({other!r}): leave one of them out"
        )
    return innermost
