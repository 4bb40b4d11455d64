"""Account that a job is charged to: a data set in the ledger of its holder."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fastlloyd.base.problems import Faults
from fastlloyd.errors import BudgetError
from fastlloyd.federation.admission import CAP_LEAK, DataSet, check_leaks
from fastlloyd.federation.holder import Counted, HoldersLedger, place
from fastlloyd.federation.ledger import Account, accounts_on, plan_cost, run_cost, stage_costs
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store.costs import PlannedCost
from fastlloyd.federation.store.noted import DataFiles, Noted
from fastlloyd.jobs.choices import FROM_DATA
from fastlloyd.jobs.watching import BudgetCharged, LedgerNoted, Watch, nobody
from fastlloyd.mechanisms.central import Drawing
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.two_stages import TwoStages

REQUIRE: Final = "FASTLLOYD_REQUIRE_DATASET"


class Bill(NamedTuple):
    """Cost of a job.

    stages : cost of the job's one stage, or the largest cost of each of its two stages.
    digest : digest of the first stage's mechanism, or of the plan, 32 bytes.
    """

    stages: tuple[PlannedCost, ...]
    digest: bytes

    @classmethod
    def of(cls, job: AnyRun | TwoStages | Plan, rows_are: str | None) -> "Bill":
        """Return the bill of a job: a run, a run in two stages, or a whole federated run.

        rows_are : as in `ledger.run_cost`.

        Raises BudgetError for a run without noise.
        """
        if isinstance(job, TwoStages):
            return cls(stage_costs(job, rows_are), job.first.digest)
        if isinstance(job, Plan):
            return cls((plan_cost(job, rows_are),), job.digest)
        return cls((run_cost(job, rows_are=rows_are),), job.digest)


class Charged(NamedTuple):
    """Result of charging a job to an account. The default values of the fields are for a job that
    is charged to no account.

    drawing : function that must be called with the number of each round, from 0, before the noise
        of the round is drawn.
    later : function that takes the mechanism of the second stage, and returns a function like
        `drawing` for the second stage.
    accounts : accounts of the data set (`ledger.Account`), including this job.
    counted : ledger that counts the job, or None.
    """

    drawing: Drawing = lambda _: None
    later: Callable[[AnyRun], Drawing] = lambda _: lambda _: None
    accounts: tuple[Account, ...] = ()
    counted: Counted | None = None


class BudgetAccount(NamedTuple):
    """Data set in the ledger of its holder, to which jobs are charged.

    dataset : the data set.
    ledger : file of the ledger, or None for the holder's default.
    identity : identity that the ledger must have, or None for any.
    by : name of the command or estimator that charges.
    purpose : purpose of the runs in words, for the owner of the ledger, or "".
    files : facts about the files of the records, by which the ledger recognises them later, or
        None.
    run_id : id of the next run in the ledger, 16 bytes, or None for a new id. The ledger refuses an
        id that it already contains.
    """

    dataset: DataSet
    ledger: Path | None = None
    identity: bytes | None = None
    by: str = "fit"
    purpose: str = ""
    files: DataFiles | None = None
    run_id: bytes | None = None

    def opened(self, watch: Watch) -> "BudgetAccount":
        """Add the data set to the ledger if it is new. Return an account that is bound to this
        ledger. In this account the data set is no longer new.

        watch : function that receives the notes of the ledger.

        Raises BudgetError if the ledger does not accept the data set, and StateError if the ledger
        cannot be used.
        """
        holder = self.holder(watch)
        identity = holder.named(self.dataset)
        known = msgspec.structs.replace(self.dataset, is_new=False)
        return self._replace(dataset=known, ledger=holder.path, identity=identity)

    def check(self, leaks: Sequence[str]) -> None:
        """Raise BudgetError if settings were taken from the data.

        leaks : a sentence for each such setting.
        """
        check_leaks(self.dataset.name, leaks)

    def bill(self, job: AnyRun | TwoStages | Plan) -> Bill:
        """Return the bill for a job. Raises BudgetError for a job without noise."""
        return Bill.of(job, self.dataset.rows_are)

    def balance(self, bill: Bill) -> tuple[Account, ...]:
        """Return the accounts of the data set (`ledger.Account`) after this bill. Nothing is
        written.

        Raises BudgetError and StateError as `charged` does.
        """
        holder = self.holder(nobody)
        return tuple(holder.rehearsed(self.dataset, *bill.stages, by=self.by))

    def present(self) -> tuple[Account, ...]:
        """Return the accounts of the data set (`ledger.Account`), with all runs charged so far.

        Raises StateError if the ledger cannot be read.
        """
        history = self.holder(nobody).history()
        return tuple(accounts_on(history, history.called(self.dataset.name)))

    @contextmanager
    def charged(self, bill: Bill, watch: Watch) -> Iterator[Charged]:
        """Context manager that charges a job to its data set, and then runs its block. The charge
        is stored before any noise is drawn.

        bill : cost of each stage of the job.
        watch : function that receives the event `BudgetCharged`.

        Raises BudgetError if a limit refuses the charge or the ledger does not contain the data
        set. Raises StateError if the ledger cannot be written. After either error nothing is spent.
        """
        holder, rows_are = self.holder(watch), self.dataset.rows_are
        with holder.charged(
            self.dataset, *bill.stages, by=self.by, digest=bill.digest, run_id=self.run_id
        ) as charge:
            accounts = tuple(charge.sums)
            watch(BudgetCharged(accounts=accounts, counted=charge.counted))
            yield Charged(
                charge.drawing,
                lambda second: charge.later(run_cost(second, rows_are=rows_are)),
                accounts,
                charge.counted,
            )

    def holder(self, watch: Watch) -> HoldersLedger:
        """Return the ledger of the holder.

        watch : function that receives the notes of the ledger.
        """
        return HoldersLedger(
            place(self.ledger),
            lambda sentence: watch(LedgerNoted(sentence=sentence.removeprefix("Note: "))),
            self.identity,
            Noted(self.by, self.purpose, self.files),
        )


def check_account(account: BudgetAccount | None, n_records: object, faults: Faults) -> None:
    """Note a fault if the cap on the number of records would be taken from the data, or if the job
    has no account and the environment variable FASTLLOYD_REQUIRE_DATASET is not empty.

    n_records : cap as the request states it.
    """
    if account is not None and n_records == FROM_DATA:
        with faults.noted("n_records"):
            account.check([CAP_LEAK])
    if account is None and os.environ.get(REQUIRE):
        with faults.noted("dataset"):
            raise BudgetError(
                f"dataset is missing, and {REQUIRE} is set on this machine, so a ledger must count"
                " each run: name the data set"
            )


@contextmanager
def charged_to(account: BudgetAccount | None, bill: Bill | None, watch: Watch) -> Iterator[Charged]:
    """Context manager that charges a job to the account, and then runs its block. Without an
    account or a bill, it only runs the block.

    watch : function that receives the event `BudgetCharged`.
    """
    if account is None or bill is None:
        yield Charged()
        return
    with account.charged(bill, watch) as charged:
        yield charged
