"""Charging a fit to the ledger of whoever holds the records."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.settings import RunSettings


@contextmanager
def charged(
    dataset: str | None, mechanism: AnyRun, leaks: Sequence[str], *, by: str, then: RunSettings | None = None
) -> Iterator[Callable[[int], None]]:
    """Charge the run inside to the data set, durably and before its first noise is drawn; without a name to none.

    leaks : settings that were taken from the data. by : name of the estimator. then : of what is to follow from the same
    budget, for which there must be room too. Yields what is to be told of a round, from 0, before its noise is drawn. Raises
    BudgetError and StateError; nothing is spent then.
    """
    if dataset is None:
        yield lambda _: None
        return
    from fastlloyd.federation.admission import DataSet, check_leaks
    from fastlloyd.federation.holder import HoldersLedger, place
    from fastlloyd.federation.ledger import run_cost

    check_leaks(dataset, leaks)
    cost, ahead = run_cost(mechanism), [] if then is None else [run_cost(design(then))]
    with HoldersLedger(place()).charged(DataSet(name=dataset), cost, *ahead, by=by, digest=mechanism.digest) as charge:
        yield charge.drawing
