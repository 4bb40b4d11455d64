"""Accounts that fits are charged to. An account is a data set in the ledger of the
records' owner.
"""

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
    """Mark of an estimator that was outside every `with fastlloyd.dataset(...)` block when it was
    copied or pickled.

    process : id of the process that read the copy or pickle. The mark is not valid in processes
        that are forked later, because these may be inside a block.
    """

    process: int


def state_of(account: BudgetAccount) -> dict[str, Any]:
    """Return the content of an account as a dict for a pickle, so that the pickle names
    no class.
    """
    return {
        "dataset": account.dataset.name,
        "rows_are": account.dataset.rows_are,
        "new_unit": account.dataset.is_new_unit,
        "ledger": None if account.ledger is None else str(account.ledger),
        "identity": account.identity,
    }


def account_of_state(state: Mapping[str, Any]) -> BudgetAccount:
    """Return the account whose content `state_of` returned."""
    named = DataSet(
        name=state["dataset"], rows_are=state["rows_are"], is_new_unit=state["new_unit"]
    )
    ledger = state["ledger"]
    return BudgetAccount(named, None if ledger is None else Path(ledger), state["identity"])


def heard(event: Event) -> None:
    """Handle an event of a fit: issue a warning from the ledger, or log that the fit
    was counted.
    """
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
    """Open block of `with dataset(...)`.

    account : account that fits in the block are charged to.
    process : id of the process that opened the block.
    outer : blocks that were open around this one.
    """

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
    """Charge every fit inside the block to a data set, as the parameter `dataset` of an estimator
    does.

    While the block is open, fits in all threads of this process belong to it. A fit that names
    another data set is refused in the block's own thread. In another thread, such a fit does not
    belong to the block. If several blocks are open, and a thread is inside none of them, a fit in
    this thread is refused.

    An estimator that is made, cloned, copied or pickled inside the block belongs to it permanently,
    also in a worker process (`n_jobs`). On a machine without this ledger, such an estimator is
    refused. An estimator that a worker process makes must name its data set.

    Collect the results inside the block, too. Work that is submitted inside the block and carried
    out after it may not be counted. `@dataset(...)` is for functions that return when their work is
    done; for generators and coroutines it raises TypeError.

    Parameters
    ----------
    name : str
        Name of the data set in the ledger.
    rows_are : str, default=None
        Kind of person, such as "patient", if each record contains everything about one person.
        Limits for patients then apply to the fits.
    new : bool, default=False
        Confirm that no run on these records was ever counted, so the ledger does not know the data
        set. The ledger is made if it is missing.
    new_unit : bool, default=False
        Confirm that earlier runs on this data set protected another kind of person. What is spent
        for this kind is then counted separately.
    ledger : str or path, default=None
        File of the ledger. None takes the file that the variable FASTLLOYD_LEDGER names, or else
        the file in the user's state folder.

    Raises
    ------
    BudgetError
        If the ledger does not know the name, or if `new` is set and the ledger knows it.
    StateError
        If the ledger cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> import fastlloyd
    >>> with fastlloyd.dataset("visits", new=True, ledger="ledger.store"):
    ...     model = fastlloyd.MomentLloyd(2, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> model.privacy_spent_["data_set"]
    'visits'
    """
    charged = DataSet(name=name, rows_are=rows_are, is_new=new, is_new_unit=new_unit)
    return _Blocks(partial(_block, charged, None if ledger is None else Path(ledger)))


class _Blocks(AbstractContextManager[None]):
    """Result of `dataset(...)`: a context manager and a decorator of functions.

    Each `with` statement, and each call of a decorated function, opens its own block.
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
        """Return the function wrapped so that each call runs in its own `with dataset(...)`
        block.
        """
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
    """Context manager: open a block in which fits are charged to this data set."""
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
    """Return the blocks around the current code in this thread or task, the innermost last.

    A forked process is in none of the blocks of its parent.
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
    """Return the account of the innermost block around the current code, or None outside all
    blocks.

    An estimator that is made now belongs to this account.
    """
    return next((block.account for block in reversed(_around())), None)


def passed_on(account: BudgetAccount | Nowhere | str) -> BudgetAccount | str | None:
    """Return the account that a new copy or pickle of an estimator belongs to.

    account : account that the original belongs to, a mark `Nowhere`, or NOT_KNOWN.

    Returns None if the copy belongs to no block, and NOT_KNOWN if it is unknown whether it belongs
    to one.
    """
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
    """Return whether `account` is a `Nowhere` mark that is valid in this process: the estimator is
    in no block.
    """
    return isinstance(account, Nowhere) and account.process == os.getpid()


def account_of(
    name: str | None, carried: BudgetAccount | Nowhere | str, by: str
) -> BudgetAccount | None:
    """Return the account that a fit is charged to, or None if the fit is not counted.

    name : data set that the estimator's parameters name, or None.
    carried : account that the estimator belongs to, a mark `Nowhere`, or NOT_KNOWN.
    by : name of the estimator.

    Raises BudgetError if the fit is inside a block and names another data set, or if it is unknown
    to which block the fit belongs.
    """
    found = _found(name, carried)
    return None if found is None else found._replace(by=by)


def _found(name: str | None, account: BudgetAccount | Nowhere | str) -> BudgetAccount | None:
    """Return the account of a fit, or None if the fit is not counted.

    name : data set that the estimator's parameters name, or None.
    account : account that the estimator belongs to, a mark `Nowhere`, or NOT_KNOWN.

    Raises BudgetError if the fit is inside a block and names another data set, or if it is unknown
    to which block the fit belongs.
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
            " close all but one, or pass dataset='NAME' to the estimator and open at most one"
            " block of that data set"
        )
    return next(iter(accounts), None)


def _is_worker() -> bool:
    """Return whether this process does work for another process, which may have an open block."""
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
    """Return whether the warning about an uncounted fit is due: once in a process, and again after
    each block.
    """
    process = os.getpid()
    if process in _SAID:
        return False
    _SAID.add(process)
    return True
