"""Earlier runs on the same files, for the owner of a ledger."""

import math

from fastlloyd.base.names import listing
from fastlloyd.base.precision import delta_up, rounded_up
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.federation.ledger import counted_of, records_of
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store.costs import PersonRunCost, PlannedCost
from fastlloyd.federation.store.history import History
from fastlloyd.federation.store.noted import DataFiles


def earlier_use(history: History, files: DataFiles | None, cost: PlannedCost) -> str | None:
    """Return a sentence on the earlier runs on these files, under any data set name. Return None if
    there were none.

    history : history of the whole ledger, before the new run.
    files : files of the new run, or None if they are unknown.
    cost : cost of the new run. The earlier costs are added up for the same neighbours.
    """
    if files is None:
        return None
    runs = [
        run
        for run in history.runs.values()
        if run.counted
        and run.noted is not None
        and run.noted.files is not None
        and files.is_unchanged(run.noted.files)
    ]
    if not runs:
        return None
    counted = counted_of(runs)
    asked = (
        Neighbours(cost.neighboring_relation, cost.unit, max(cost.max_clients, 1))
        if isinstance(cost, PersonRunCost)
        else records_of(counted)
    )
    spent = Spending.of(counted, asked)
    epsilon = spent.epsilon(spent.delta)
    what = "This file, unchanged, was" if files.n_files == 1 else "These files, unchanged, were"
    names = sorted({history.called(run.reserved.dataset) for run in runs if run.reserved})
    used = (
        f"{what} used in {len(runs)} earlier run{'' if len(runs) == 1 else 's'}, counted on"
        f" {listing(names)}: together"
    )
    if math.isinf(epsilon):
        return f"{used} no finite epsilon is known for {asked}."
    return f"{used} epsilon {rounded_up(epsilon)} at delta {delta_up(spent.delta)}, for {asked}."
