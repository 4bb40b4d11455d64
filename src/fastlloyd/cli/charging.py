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
from fastlloyd.cli.times import utc
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError
from fastlloyd.federation.store.events import seconds_now
from fastlloyd.mechanisms.private_run import AnyRun

if TYPE_CHECKING:
    from fastlloyd.federation.admission import DataSet
    from fastlloyd.federation.holder import Counted
    from fastlloyd.federation.ledger import Account
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.mechanisms.two_stages import TwoStages

NOBODY = "Nobody adds this up with other runs: no data set is named (--dataset NAME)."


@dataclass(slots=True)
class Charging:
    """A run that is charged, or nobody's. drawing : is called with the number of a round, from 0,
    before its noise is drawn.

    later : what takes the place of `drawing` in a second stage, of that mechanism. said : what is
    to be said of it on the screen, once it is over.
    """

    drawing: Callable[[int], None] = lambda _: None
    later: Callable[[AnyRun], Callable[[int], None]] = lambda _: lambda _: None
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
        stages: "TwoStages | None" = None,
    ) -> Iterator[Charging]:
        """Charge the run inside to the data set, durably and before its first noise is drawn.

        leaks : settings that were taken from the data. plan : of a federated run. stages : both, of
        which the mechanism is the first. Raises BudgetError and StateError; nothing is spent then.
        """
        if self.dataset is None:
            yield Charging(said=[NOBODY] if mechanism.noise is not Noise.NONE else [])
            return
        from fastlloyd.federation.admission import check_leaks
        from fastlloyd.federation.holder import HoldersLedger, place
        from fastlloyd.federation.ledger import plan_cost, run_cost, stage_costs

        check_leaks(self.dataset.name, leaks)
        rows_are = self.dataset.rows_are
        costs = (
            stage_costs(stages, rows_are)
            if stages is not None
            else (plan_cost(plan, rows_are),)
            if plan is not None
            else (run_cost(mechanism, rows_are=rows_are),)
        )
        digest = mechanism.digest if plan is None else plan.digest
        ledger = HoldersLedger(place(self.file), screen.on_stderr)
        with ledger.charged(self.dataset, *costs, by=self.by, digest=digest) as charge:
            yield Charging(
                charge.drawing,
                lambda second: charge.later(run_cost(second, rows_are=rows_are)),
                [
                    *(
                        f"Data set {one.dataset!r}, all runs so far: {spent(one)}."
                        for one in charge.sums
                    ),
                    counted(charge.counted),
                ],
            )


def counted(where: "Counted") -> str:
    """Say in which ledger a run counts, since when it is kept, and when it is new."""
    if where.n_runs == 1:
        return f"Counted in the ledger {where.path}; this is its first run."
    days = (seconds_now() - where.began) // 86_400
    age = "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"
    return (
        f"Counted in the ledger {where.path}, which was begun {age} ({utc(where.began)}) and holds"
        f" {where.n_runs} runs."
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
