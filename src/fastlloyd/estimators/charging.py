"""Charging a fit to the ledger of whoever holds the records."""

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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from fastlloyd.base.names import listing, same
from fastlloyd.errors import BudgetError, LedgerWarning
from fastlloyd.mechanisms.private_run import AnyRun

if TYPE_CHECKING:
    from fastlloyd.federation.admission import DataSet
    from fastlloyd.federation.holder import HoldersLedger
    from fastlloyd.mechanisms.two_stages import TwoStages

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger(__name__)
UNCOUNTED: Final = (
    "nobody adds this fit up with others, for it names no data set: pass dataset='NAME', or fit"
    " inside `with fastlloyd.dataset('NAME'):`"
)
NOT_KNOWN: Final = "not known"
"""In place of a till: it is not known whether the estimator belongs to a block."""


class Nowhere(NamedTuple):
    """Mark of an estimator that belonged to no block when it was copied or pickled.

    process : in which it was read. A process that was forked from that one may be in a block.
    """

    process: int


class Drawing(NamedTuple):
    """What is to be told of a round, from 0, before its noise is drawn; later : what takes its
    place in a second stage, of that mechanism.
    """

    first: Callable[[int], None]
    later: Callable[[AnyRun], Callable[[int], None]]


class Till(NamedTuple):
    """What fits are charged to: a data set, in the ledger in that file, None for the holder's own.

    identity : of the very ledger that is meant; None: whichever is there.
    """

    dataset: "DataSet"
    ledger: Path | None = None
    identity: bytes | None = None

    @contextmanager
    def charged(
        self, mechanism: AnyRun, leaks: Sequence[str], *, by: str, stages: "TwoStages | None" = None
    ) -> Iterator[Drawing]:
        """Charge the run inside durably, before its first noise is drawn.

        leaks : settings that were taken from the data. by : name of the estimator. stages : both,
        of which the mechanism is the first. Raises BudgetError and StateError; nothing is spent
        then.
        """
        from fastlloyd.federation.admission import check_leaks
        from fastlloyd.federation.ledger import run_cost, stage_costs

        check_leaks(self.dataset.name, leaks)
        rows_are = self.dataset.rows_are
        costs = (
            (run_cost(mechanism, rows_are=rows_are),)
            if stages is None
            else stage_costs(stages, rows_are)
        )
        with _ledger(self.ledger, self.identity).charged(
            self.dataset, *costs, by=by, digest=mechanism.digest
        ) as charge:
            _LOG.info(
                "counted in the ledger %s, which holds %d runs",
                charge.counted.path,
                charge.counted.n_runs,
            )
            yield Drawing(
                charge.drawing, lambda second: charge.later(run_cost(second, rows_are=rows_are))
            )

    def state(self) -> dict[str, Any]:
        """What a pickle holds of it: a dict, which names no class."""
        return {
            "dataset": self.dataset.name,
            "rows_are": self.dataset.rows_are,
            "new_unit": self.dataset.is_new_unit,
            "ledger": None if self.ledger is None else str(self.ledger),
            "identity": self.identity,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Read what `state` returned."""
        from fastlloyd.federation.admission import DataSet

        named = DataSet(
            name=state["dataset"], rows_are=state["rows_are"], is_new_unit=state["new_unit"]
        )
        return cls(
            named, None if state["ledger"] is None else Path(state["ledger"]), state["identity"]
        )


@contextmanager
def nobodys(_mechanism: AnyRun, **_: object) -> Iterator[Drawing]:
    """What takes the place of `Till.charged` where no data set is named: nobody adds up what fits
    spend.
    """
    yield Drawing(lambda _: None, lambda _: lambda _: None)


def _ledger(file: Path | None, identity: bytes | None = None) -> "HoldersLedger":
    """The ledger, which tells its holder in warnings."""
    from fastlloyd.federation.holder import HoldersLedger, place

    def warn(sentence: str) -> None:
        warnings.warn(sentence.removeprefix("Note: "), LedgerWarning, stacklevel=7)

    return HoldersLedger(place(file), warn, identity)


class _Block(NamedTuple):
    """One `with dataset(...)`. process : in which it was begun. outer : those around it."""

    till: Till
    process: int
    outer: tuple["_Block", ...]


_AROUND: ContextVar[tuple[_Block, ...]] = ContextVar(
    "blocks of `dataset` that this thread or task is in, the innermost last", default=()
)
_OPEN: dict[int, _Block] = {}
"""All blocks that are open in any thread, by `id`; a process that was forked inherits those of its
parent.
"""
_SAID: set[int] = set()
"""The processes, this one and those that it was forked from, that have said that a fit is not
counted since the last block ended.
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
    no such data set; it is made if it is not there. new_unit : the data set knows other persons,
    and these are none of them. ledger : the file; None: the one that the variable FASTLLOYD_LEDGER
    names, or the one in the user's state folder.

    While the block is open, fits in all threads of this process belong to it, but those that name
    another data set; with several open blocks such a fit is refused. An estimator that is made,
    cloned, copied or pickled inside belongs to it for good, also in a worker process (`n_jobs`); it
    is refused on a machine without this very ledger. An estimator that a worker process makes by
    itself must name its data set. Collect the results inside, too: work that is handed over inside
    and carried out later may not be counted. `@dataset(...)` is for functions that return when
    their work is done; it raises TypeError for others. Raises BudgetError for a name that the
    ledger does not know, or one with `new` that it does; StateError if the ledger cannot be used.
    """
    from fastlloyd.federation.admission import DataSet

    charged = DataSet(name=name, rows_are=rows_are, is_new=new, is_new_unit=new_unit)
    return _Blocks(partial(_block, charged, None if ledger is None else Path(ledger)))


class _Blocks(AbstractContextManager[None]):
    """`dataset(...)`: a context, or a decorator of functions, that opens a block each time."""

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
        """Return the function with a block around each call of it."""
        if any(
            kind(function)
            for kind in (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
        ):
            raise TypeError(
                f"{function.__name__} returns before its work is done, outside of the block: use"
                " `with fastlloyd.dataset(...):` inside it"
            )

        @wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._opened():
                return function(*args, **kwargs)

        return inside


@contextmanager
def _block(charged: "DataSet", ledger: Path | None) -> Iterator[None]:
    """Open a block in which fits are charged to this data set."""
    held = _ledger(ledger)
    identity = held.named(charged)
    later = msgspec.structs.replace(charged, is_new=False)
    block = _Block(Till(later, held.path, identity), os.getpid(), _around())
    _AROUND.set((*_AROUND.get(), block))
    _OPEN[id(block)] = block
    try:
        yield
    finally:  # by identity, as a generator may leave blocks in another order, or in another thread
        _AROUND.set(tuple(each for each in _AROUND.get() if each is not block))
        _OPEN.pop(id(block), None)
        _SAID.clear()


def _around() -> tuple[_Block, ...]:
    """The blocks that this thread or task is in; a forked process is in none of its parent's."""
    return tuple(block for block in _AROUND.get() if block.process == os.getpid())


def _elsewhere(*, with_parents: bool) -> list[Till]:
    """What the innermost open blocks of all threads charge, each once; with_parents : also those
    that were open when this process was forked.
    """
    blocks = [each for each in list(_OPEN.values()) if with_parents or each.process == os.getpid()]
    around = {id(outer) for block in blocks for outer in block.outer}
    return list(dict.fromkeys(block.till for block in blocks if id(block) not in around))


def made_inside() -> Till | None:
    """What an estimator belongs to that this thread or task makes now; None outside all blocks."""
    return next((block.till for block in reversed(_around())), None)


def passed_on(till: Till | Nowhere | str) -> Till | str | None:
    """Return what a copy or a pickle belongs to, made now of an estimator that belongs to `till`,
    or None if it belongs to nothing.
    """
    if (inside := made_inside()) is not None:
        return inside
    if isinstance(till, Till):
        return till
    is_known = _is_nowhere(till)
    elsewhere = _elsewhere(with_parents=not is_known)
    if len(elsewhere) > 1 or (not elsewhere and not is_known and _is_worker()):
        return NOT_KNOWN
    return next(iter(elsewhere), None)


def _is_nowhere(till: Till | Nowhere | str) -> bool:
    """Return whether the estimator is known to belong to no block of an earlier process."""
    return isinstance(till, Nowhere) and till.process == os.getpid()


def till_of(name: str | None, till: Till | Nowhere | str) -> Till | None:
    """Return the till of a fit whose estimator names this data set, or None if it is not counted.

    till : what the estimator belongs to. Raises BudgetError where a fit is inside one block and
    names another data set, or it cannot be known to which block it belongs.
    """
    from fastlloyd.federation.admission import DataSet

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
    carried = [till] if isinstance(till, Till) else []
    if name is not None:
        tills = [
            each
            for each in carried or _elsewhere(with_parents=True)
            if same(each.dataset.name) == same(named.name)
        ]
        return _only(tills) or Till(named)
    is_known = _is_nowhere(till)
    found = _only(carried or _elsewhere(with_parents=not is_known))
    if found is None and not is_known and _is_worker():
        raise BudgetError(
            "this fit runs in a worker process, which cannot know whether it is inside a block"
            " `with fastlloyd.dataset(...):` and names no data set: pass dataset='NAME', or make"
            " the estimator in the process that starts the work and hand it over"
        )
    return found


def _only(tills: Sequence[Till]) -> Till | None:
    if len(tills) > 1:
        names = listing([each.dataset.name for each in tills])
        raise BudgetError(
            f"several blocks are open, dataset of {names}, and this fit may be inside any of them:"
            " pass dataset='NAME', and have one block open for each name"
        )
    return next(iter(tills), None)


def _is_worker() -> bool:
    """Whether this process does work for another one, in which a block may be open."""
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
    """Whether it was not said in this process since the last block that a fit is not counted; it is
    said then.
    """
    process = os.getpid()
    if process in _SAID:
        return False
    _SAID.add(process)
    return True
