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
    """Charge of a job. stages : cost of its one stage, or of its two at most. digest : of the
    settings of the first.
    """

    stages: tuple[PlannedCost, ...]
    digest: bytes

    @classmethod
    def of(cls, job: AnyRun | TwoStages | Plan, rows_are: str | None) -> "Bill":
        """Return the bill of a run, of two stages, or of a whole federated run. rows_are : as of
        `ledger.run_cost`. Raises BudgetError for a run without noise.
        """
        if isinstance(job, TwoStages):
            return cls(stage_costs(job, rows_are), job.first.digest)
        if isinstance(job, Plan):
            return cls((plan_cost(job, rows_are),), job.digest)
        return cls((run_cost(job, rows_are=rows_are),), job.digest)


class Charged(NamedTuple):
    """A job that is charged, or not counted. drawing : is told of each round, from 0, before its
    noise is drawn. later : returns that for the second stage, by its mechanism. accounts : sums of
    the data set, with this job. counted : the ledger, or None.
    """

    drawing: Drawing = lambda _: None
    later: Callable[[AnyRun], Drawing] = lambda _: lambda _: None
    accounts: tuple[Account, ...] = ()
    counted: Counted | None = None


class BudgetAccount(NamedTuple):
    """A data set, in its holder's ledger, that jobs are charged to.

    ledger : the file, or None for the holder's own. identity : of the very ledger that is meant, or
    None for any. by : the command or estimator that charges, a word.
    """

    dataset: DataSet
    ledger: Path | None = None
    identity: bytes | None = None
    by: str = "fit"

    def opened(self, watch: Watch) -> "BudgetAccount":
        """Have the ledger know the data set from now on, and return the account in that very
        ledger, whose data set is no longer new. Raises BudgetError and StateError.
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
        """Raise BudgetError for settings that were taken from the data."""
        check_leaks(self.dataset.name, leaks)

    def bill(self, job: AnyRun | TwoStages | Plan) -> Bill:
        """Return what a job is to be charged. Raises BudgetError for one without noise."""
        return Bill.of(job, self.dataset.rows_are)

    def balance(self, bill: Bill) -> tuple[Account, ...]:
        """Return the sums of the data set as they would be with this bill; nothing is written.

        Raises BudgetError and StateError as `charged`.
        """
        holder = self.holder(nobody)
        return tuple(holder.rehearsed(self.dataset, *bill.stages, by=self.by))

    @contextmanager
    def charged(self, bill: Bill, watch: Watch) -> Iterator[Charged]:
        """Charge the job inside to the data set, durably and before its first noise is drawn.

        Raises BudgetError if a limit refuses it or the ledger does not know the data set,
        StateError if the ledger cannot be written; nothing is spent then.
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
        """Return the ledger, which tells the watch what its holder must know."""
        return HoldersLedger(
            place(self.ledger),
            lambda sentence: watch(LedgerNoted(sentence=sentence.removeprefix("Note: "))),
            self.identity,
        )


@contextmanager
def charged_to(account: BudgetAccount | None, bill: Bill | None, watch: Watch) -> Iterator[Charged]:
    """Charge the job inside to the account, if there is one."""
    if account is None or bill is None:
        yield Charged()
        return
    with account.charged(bill, watch) as charged:
        yield charged
