"""Charging what a command spends to its holder's ledger, and saying so."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fastlloyd.base.precision import delta_up, epsilon_up, rounded_up
from fastlloyd.cli import screen
from fastlloyd.cli.options import LedgerOptions
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.mechanisms.private_run import AnyRun

if TYPE_CHECKING:
    from fastlloyd.federation.admission import DataSet
    from fastlloyd.federation.ledger import Account
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.mechanisms.settings import RunSettings

NOBODY = "Nobody adds this up with other runs: no data set is named (--dataset NAME)."


@dataclass(slots=True)
class Charging:
    """A run that is charged, or nobody's. drawing : is called with the number of a round, from 0,
    before its noise is drawn.

    said : what is to be said of it on the screen, once it is over.
    """

    drawing: Callable[[int], None] = lambda _: None
    said: list[str] = field(default_factory=list)


def data_set(options: LedgerOptions) -> "DataSet | None":
    """Return the data set that is named, if any. Raises BudgetError, before anything is read, for
    what cannot be a name.
    """
    if options.dataset is None:
        for name, value in (
            ("--ledger", options.ledger),
            ("--new-dataset", options.new_dataset),
            ("--new-unit", options.new_unit),
            ("--rows-are", options.rows_are),
        ):
            if value:
                raise BudgetError(
                    f"{name} is about the ledger, which counts runs by data set; name it with"
                    " --dataset NAME"
                )
        return None
    return named_data_set(options.dataset, options)


def named_data_set(name: str, options: LedgerOptions) -> "DataSet":
    """Return the data set of that name, with what else the options say of it. Raises BudgetError
    for what cannot be a name.
    """
    from fastlloyd.federation.admission import DataSet

    return DataSet(
        name=name,
        rows_are=options.rows_are,
        is_new=options.new_dataset,
        is_new_unit=options.new_unit,
    )


@dataclass(frozen=True, slots=True)
class Till:
    """Where a command pays for what it spends: the ledger in the file, None for the holder's own,
    or nobody's.

    by : the command.
    """

    dataset: "DataSet | None"
    file: Path | None
    by: str

    @classmethod
    def of(cls, options: LedgerOptions, n_records: str | None, *, by: str) -> Self:
        """As the options say; n_records : of `--n-records`. Raises BudgetError, before anything is
        read.
        """
        from fastlloyd.cli.settings import FROM_DATA

        dataset = data_set(options)
        if dataset is not None and n_records == FROM_DATA:
            from fastlloyd.federation.admission import CAP_LEAK, check_leaks

            check_leaks(dataset.name, [CAP_LEAK])
        return cls(dataset, options.ledger, by)

    @contextmanager
    def charged(
        self,
        mechanism: AnyRun,
        leaks: Sequence[str],
        *,
        plan: "Plan | None" = None,
        then: "RunSettings | None" = None,
    ) -> Iterator[Charging]:
        """Charge the run inside to the data set, durably and before its first noise is drawn.

        leaks : settings that were taken from the data. plan : of a federated run. then : of what is
        to follow from the same budget, for which there must be room too. Raises BudgetError and
        StateError; nothing is spent then.
        """
        if self.dataset is None:
            yield Charging(said=[NOBODY] if mechanism.noise is not Noise.NONE else [])
            return
        from fastlloyd.federation.admission import check_leaks
        from fastlloyd.federation.holder import HoldersLedger, place
        from fastlloyd.federation.ledger import plan_cost, run_cost
        from fastlloyd.mechanisms.catalogue import design

        check_leaks(self.dataset.name, leaks)
        rows_are = self.dataset.rows_are
        cost = run_cost(mechanism, rows_are=rows_are) if plan is None else plan_cost(plan, rows_are)
        digest = mechanism.digest if plan is None else plan.digest
        ahead = [] if then is None else [run_cost(design(then), rows_are=rows_are)]
        ledger = HoldersLedger(place(self.file), screen.on_stderr)
        with ledger.charged(self.dataset, cost, *ahead, by=self.by, digest=digest) as charge:
            yield Charging(
                charge.drawing,
                [
                    f"Data set {one.dataset!r}, all runs so far: {spent(one)}."
                    for one in charge.sums
                ],
            )


def spent(one: "Account") -> str:
    """Say what is spent, for whom, and of which limit."""
    from fastlloyd.federation.ledger import finite

    limit = finite(one.limit)
    of = "there is no limit" if limit is None else f"the limit is {epsilon_up(limit.epsilon)}"
    if math.isinf(one.epsilon):
        return f"what is spent has no bound for {one.asked}; {of}"
    return (
        f"epsilon {rounded_up(one.epsilon)} is spent at delta {delta_up(one.delta)}, for"
        f" {one.asked}; {of}"
    )
