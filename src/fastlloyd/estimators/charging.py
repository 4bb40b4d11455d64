"""Accounts that fits are charged to, in the ledger of the records' owner."""

import logging
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from fastlloyd.base.names import listing, same
from fastlloyd.errors import BudgetError, LedgerWarning
from fastlloyd.federation.admission import DataSet
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.watching import BudgetCharged, Event, LedgerNoted

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger(__name__)
_ABOVE_FIT: Final = 9  # frames between a warning of the ledger and the caller of fit
UNCOUNTED: Final = (
    "this fit is not counted in a ledger; to count it, pass dataset='NAME', or fit inside `with"
    " fastlloyd.dataset('NAME'):`"
)
BELONGS_TO: Final = "_belongs_to"
"""Name of the attribute that stores the account of the `dataset` block in which an estimator was
made.
"""
NOT_KNOWN: Final = "not known"
"""Value that stands for the account if it is unknown whether the estimator belongs to a block."""


class Nowhere(NamedTuple):
    """Mark of an estimator that was in no block when it was copied or pickled.

    process : the process that read it. A process that was forked from that one may be in a block.
    """

    process: int


def state_of(account: BudgetAccount) -> dict[str, Any]:
    """Return the state of an account for a pickle: a dict, which names no class."""
    return {
        "dataset": account.dataset.name,
        "rows_are": account.dataset.rows_are,
        "new_unit": account.dataset.is_new_unit,
        "ledger": None if account.ledger is None else str(account.ledger),
        "identity": account.identity,
    }


def account_of_state(state: Mapping[str, Any]) -> BudgetAccount:
    """Read what `state_of` returned."""
    named = DataSet(
        name=state["dataset"], rows_are=state["rows_are"], is_new_unit=state["new_unit"]
    )
    ledger = state["ledger"]
    return BudgetAccount(named, None if ledger is None else Path(ledger), state["identity"])


def heard(event: Event) -> None:
    """Pass on an event of a fit: a warning from the ledger, or a line of the log."""
    match event:
        case LedgerNoted():
            warnings.warn(event.sentence, LedgerWarning, stacklevel=_ABOVE_FIT)
        case BudgetCharged():
            _LOG.info(
                "counted in the ledger %s, which has %d runs",
                event.counted.path,
                event.counted.n_runs,
            )


class _Block(NamedTuple):
    """Open block of `with dataset(...)`. process : in which it began. outer : blocks around it."""

    account: BudgetAccount
    process: int
    outer: tuple["_Block", ...]


_AROUND: ContextVar[tuple[_Block, ...]] = ContextVar(
    "blocks of `dataset` that this thread or task is in, the innermost last", default=()
)
_OPEN: dict[int, _Block] = {}
"""All blocks that are open in any thread, by `id`. A forked process inherits the blocks of its
parent.
"""
_SAID: set[int] = set()
"""Ids of the processes (this one and those it was forked from) that have warned of an uncounted fit
since the last block ended.
"""


def dataset(
    name: str,
    *,
    rows_are: str | None = None,
    new: bool = False,
    new_unit: bool = False,
    ledger: str | os.PathLike[str] | None = None,
) -> "_Blocks":
    """Charge every fit inside to the data set of that name, as the parameter `dataset` of an
    estimator does.

    rows_are : every record is all there is of one person, such as "patient", so that a limit for
    patients can hold the fits. new : no run on these records was ever counted, so the ledger knows
    no such data set. A ledger is made if there is none. new_unit : the data set knows other
    persons, and these are none of them. ledger : the file, or None for the one that the variable
    FASTLLOYD_LEDGER names, or the one in the user's state folder.

    While the block is open, fits in all threads of this process belong to it, but those that name
    another data set. With several open blocks such a fit is refused. An estimator that is made,
    cloned, copied or pickled inside belongs to it for good, also in a worker process (`n_jobs`). It
    is refused on a machine without this very ledger. An estimator that a worker process makes by
    itself must name its data set. Collect the results inside, too: work that is handed over inside
    and carried out later may not be counted. `@dataset(...)` is for functions that return when
    their work is done. It raises TypeError for others. Raises BudgetError for a name that the
    ledger does not know, or one with `new` that it does; StateError if the ledger cannot be used.
    """
    charged = DataSet(name=name, rows_are=rows_are, is_new=new, is_new_unit=new_unit)
    return _Blocks(partial(_block, charged, None if ledger is None else Path(ledger)))


class _Blocks(AbstractContextManager[None]):
    """Result of `dataset(...)`: a context, or a decorator of functions, that opens a block each
    time.
    """

    def __init__(self, opened: Callable[[], AbstractContextManager[None]]) -> None:
        self._opened = opened
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        entered = self._opened()
        entered.__enter__()
        self._entered.append(entered)

    def __exit__(self, *raised: Any) -> None:
        self._entered.pop().__exit__(*raised)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return the function wrapped so that each call runs in a block of its own."""
        if any(
            kind(function)
            for kind in (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
        ):
            raise TypeError(
                f"{function.__name__} is a coroutine or a generator, so its work would run outside"
                " of the block; use `with fastlloyd.dataset(...):` inside the function"
            )

        @wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._opened():
                return function(*args, **kwargs)

        return inside


@contextmanager
def _block(charged: DataSet, ledger: Path | None) -> Iterator[None]:
    """Open a block in which fits are charged to this data set."""
    account = BudgetAccount(charged, ledger).opened(heard)
    block = _Block(account, os.getpid(), _around())
    _AROUND.set((*_AROUND.get(), block))
    _OPEN[id(block)] = block
    try:
        yield
    finally:  # by identity, as a generator may leave blocks in another order, or in another thread
        _AROUND.set(tuple(each for each in _AROUND.get() if each is not block))
        _OPEN.pop(id(block), None)
        _SAID.clear()


def _around() -> tuple[_Block, ...]:
    """Return the blocks that this thread or task is in; a forked process is in none of its
    parent's.
    """
    return tuple(block for block in _AROUND.get() if block.process == os.getpid())


def _elsewhere(*, with_parents: bool) -> list[BudgetAccount]:
    """Return the accounts of the innermost open blocks of all threads, without duplicates.

    with_parents : include blocks that were open when this process was forked.
    """
    blocks = [each for each in list(_OPEN.values()) if with_parents or each.process == os.getpid()]
    around = {id(outer) for block in blocks for outer in block.outer}
    return list(dict.fromkeys(block.account for block in blocks if id(block) not in around))


def made_inside() -> BudgetAccount | None:
    """Return the account of an estimator that this thread or task makes now, or None outside all
    blocks.
    """
    return next((block.account for block in reversed(_around())), None)


def passed_on(account: BudgetAccount | Nowhere | str) -> BudgetAccount | str | None:
    """Return the account for a new copy or pickle of an estimator with this account, or None."""
    if (inside := made_inside()) is not None:
        return inside
    if isinstance(account, BudgetAccount):
        return account
    is_known = _is_nowhere(account)
    elsewhere = _elsewhere(with_parents=not is_known)
    if len(elsewhere) > 1 or (not elsewhere and not is_known and _is_worker()):
        return NOT_KNOWN
    return next(iter(elsewhere), None)


def _is_nowhere(account: BudgetAccount | Nowhere | str) -> bool:
    """Return whether the estimator is known to belong to no block of an earlier process."""
    return isinstance(account, Nowhere) and account.process == os.getpid()


def account_of(
    name: str | None, carried: BudgetAccount | Nowhere | str, by: str
) -> BudgetAccount | None:
    """Return the account to which a fit is charged, or None if the fit is not counted.

    name : name of the data set that the estimator's parameters give, or None.
    carried : account that the estimator already has.
    by : name of the estimator.

    Raises the errors of `_found`.
    """
    found = _found(name, carried)
    return None if found is None else found._replace(by=by)


def _found(name: str | None, account: BudgetAccount | Nowhere | str) -> BudgetAccount | None:
    """Return the account of a fit whose estimator names this data set, or None if it is not
    counted.

    account : that the estimator belongs to. Raises BudgetError if a fit is inside one block and
        names another data set, or if its block cannot be found out.
    """
    inside = made_inside()
    if name is not None:
        named = DataSet(name=name)
        if inside is not None and same(inside.dataset.name) != same(named.name):
            raise BudgetError(
                f"dataset is {name!r}, and the fit is inside dataset({inside.dataset.name!r}):"
                " leave one of them out"
            )
    if inside is not None:
        return inside
    carried = [account] if isinstance(account, BudgetAccount) else []
    if name is not None:
        accounts = [
            each
            for each in carried or _elsewhere(with_parents=True)
            if same(each.dataset.name) == same(named.name)
        ]
        return _only(accounts) or BudgetAccount(named)
    is_known = _is_nowhere(account)
    found = _only(carried or _elsewhere(with_parents=not is_known))
    if found is None and not is_known and _is_worker():
        raise BudgetError(
            "this fit runs in a worker process and names no data set, and a worker cannot know"
            " whether the fit is inside a block `with fastlloyd.dataset(...):`; pass"
            " dataset='NAME', or make the estimator in the process that starts the work and hand"
            " the estimator over"
        )
    return found


def _only(accounts: Sequence[BudgetAccount]) -> BudgetAccount | None:
    if len(accounts) > 1:
        names = listing([each.dataset.name for each in accounts])
        raise BudgetError(
            f"blocks of the data sets {names} are open, and this fit may be inside any of them;"
            " pass dataset='NAME', and open only one block of this data set"
        )
    return next(iter(accounts), None)


def _is_worker() -> bool:
    """Return whether this process works for another one, which may have an open block."""
    if multiprocessing.parent_process() is not None:
        return True
    if (dask := sys.modules.get("distributed")) is None:
        return False
    try:
        dask.get_worker()
    except ValueError:
        return False
    return True


def is_to_be_said() -> bool:
    """Return whether to warn of an uncounted fit now: once in this process, and again after a
    block.
    """
    process = os.getpid()
    if process in _SAID:
        return False
    _SAID.add(process)
    return True
