"""The account that a job is charged to: a data set in its holder's ledger."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from fastlloyd.federation.admission import CAP_LEAK, DataSet, check_leaks
from fastlloyd.federation.holder import Counted, HoldersLedger, place
from fastlloyd.federation.ledger import Account, plan_cost, run_cost, stage_costs
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.costs import PlannedCost
from fastlloyd.jobs.choices import FROM_DATA
from fastlloyd.jobs.watching import BudgetCharged, LedgerNoted, Watch, nobody
from fastlloyd.mechanisms.central import Drawing
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.two_stages import TwoStages


class Bill(NamedTuple):
    """Charge of a job.
    stages : cost of its one stage, or of its two at most.
    digest : of the settings of the first.
    """

    stages: tuple[PlannedCost, ...]
    digest: bytes

    @classmethod
    def of(cls, job: AnyRun | TwoStages | Plan, rows_are: str | None) -> "Bill":
        """Return the bill of a run, of its two stages, or of a whole federated run.

        rows_are : as in `ledger.run_cost`.

        Raises BudgetError for a run without noise.
        """
        if isinstance(job, TwoStages):
            return cls(stage_costs(job, rows_are), job.first.digest)
        if isinstance(job, Plan):
            return cls((plan_cost(job, rows_are),), job.digest)
        return cls((run_cost(job, rows_are=rows_are),), job.digest)


class Charged(NamedTuple):
    """Job that is charged, or not counted.

    drawing : called with the number of each round, from 0, before its noise is drawn.
    later : returns the same for the second stage, from its mechanism.
    accounts : sums of the data set, including this job.
    counted : the ledger, or None.
    """

    drawing: Drawing = lambda _: None
    later: Callable[[AnyRun], Drawing] = lambda _: lambda _: None
    accounts: tuple[Account, ...] = ()
    counted: Counted | None = None


class BudgetAccount(NamedTuple):
    """Data set, in its holder's ledger, that jobs are charged to.

    ledger : the file, or None for the holder's default.
    identity : of the ledger that is meant, or None for any.
    by : name of the command or estimator that charges.
    """

    dataset: DataSet
    ledger: Path | None = None
    identity: bytes | None = None
    by: str = "fit"

    def opened(self, watch: Watch) -> "BudgetAccount":
        """Add the data set to the ledger if it is new. Return an account that is bound to this
        ledger.

        In the returned account the data set is no longer new. Raises BudgetError and StateError.
        """
        holder = self.holder(watch)
        identity = holder.named(self.dataset)
        known = msgspec.structs.replace(self.dataset, is_new=False)
        return self._replace(dataset=known, ledger=holder.path, identity=identity)

    def check_cap(self, n_records: object) -> None:
        """Raise BudgetError if the number of records is to be taken from the data."""
        if n_records == FROM_DATA:
            self.check([CAP_LEAK])

    def check(self, leaks: Sequence[str]) -> None:
        """Raise BudgetError if settings were taken from the data."""
        check_leaks(self.dataset.name, leaks)

    def bill(self, job: AnyRun | TwoStages | Plan) -> Bill:
        """Return the bill for a job. Raises BudgetError for a job without noise."""
        return Bill.of(job, self.dataset.rows_are)

    def balance(self, bill: Bill) -> tuple[Account, ...]:
        """Return the sums of the data set with this bill added; nothing is written.

        Raises BudgetError and StateError as `charged` does.
        """
        holder = self.holder(nobody)
        return tuple(holder.rehearsed(self.dataset, *bill.stages, by=self.by))

    @contextmanager
    def charged(self, bill: Bill, watch: Watch) -> Iterator[Charged]:
        """Charge a job to its data set, and run the block. The charge is stored before any noise is
        drawn.

        bill : cost of each stage of the job.
        watch : receiver of the event `BudgetCharged`.

        Raises BudgetError if a limit refuses the charge or the ledger does not contain the data
        set. Raises StateError if the ledger cannot be written. After either error nothing is spent.
        """
        holder, rows_are = self.holder(watch), self.dataset.rows_are
        with holder.charged(self.dataset, *bill.stages, by=self.by, digest=bill.digest) as charge:
            accounts = tuple(charge.sums)
            watch(BudgetCharged(accounts=accounts, counted=charge.counted))
            yield Charged(
                charge.drawing,
                lambda second: charge.later(run_cost(second, rows_are=rows_are)),
                accounts,
                charge.counted,
            )

    def holder(self, watch: Watch) -> HoldersLedger:
        """Return the ledger; its notes for the holder go to the watch."""
        return HoldersLedger(
            place(self.ledger),
            lambda sentence: watch(LedgerNoted(sentence=sentence.removeprefix("Note: "))),
            self.identity,
        )


@contextmanager
def charged_to(account: BudgetAccount | None, bill: Bill | None, watch: Watch) -> Iterator[Charged]:
    """Charge a job to the account, if there is one, before the block runs it."""
    if account is None or bill is None:
        yield Charged()
        return
    with account.charged(bill, watch) as charged:
        yield charged
