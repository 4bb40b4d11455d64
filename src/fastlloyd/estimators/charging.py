"""Charging a fit to the ledger of whoever holds the records."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fastlloyd.mechanisms.mechanism import Mechanism


@contextmanager
def charged(dataset: str | None, mechanism: Mechanism, leaks: Sequence[str], *, by: str) -> Iterator[Callable[[int], None]]:
    """Charge the fit inside to the data set, durably and before its first noise is drawn; without a name to none.

    leaks : settings that were taken from the data. by : name of the estimator. Yields what is to be told of a round, from 0,
    before its noise is drawn. Raises BudgetError and StateError; nothing is spent then.
    """
    if dataset is None:
        yield lambda _: None
        return
    from fastlloyd.federation.admission import DataSet, check_leaks
    from fastlloyd.federation.holder import HoldersLedger, place
    from fastlloyd.federation.ledger import run_cost

    check_leaks(dataset, leaks)
    cost = run_cost(mechanism)
    with HoldersLedger(place()).charged(DataSet(name=dataset), cost, by=by, digest=mechanism.digest) as charge:
        yield charge.drawing
