"""Run that only finds bounds: request, preparation and outcome."""

from dataclasses import dataclass
from typing import NamedTuple

from fastlloyd.base.names import choose
from fastlloyd.base.problems import Faults, raising_problems
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.errors import PlanError
from fastlloyd.federation.ledger import Account
from fastlloyd.jobs.account import Bill, BudgetAccount, Charged, charged_to, check_account
from fastlloyd.jobs.choices import MISSING, NEEDS_RANGE, GuaranteeChoices, StatedBounds
from fastlloyd.jobs.fit import find_bounds
from fastlloyd.jobs.settings import (
    bounds_settings,
    cap_of,
    check_bounds_run,
    check_stated,
    opened,
    outer_of,
)
from fastlloyd.jobs.source import Openable, Source
from fastlloyd.jobs.watching import StepBegan, StepEnded, Watch, nobody
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.catalogue import design


@dataclass(frozen=True, kw_only=True)
class BoundsRequest:
    """Request to find bounds. Fields that are not listed here are explained in `FitRequest`.

    choices : choices about the guarantee.
    value_range : range in which bounds are searched for.
    """

    records: Openable[Source]
    choices: GuaranteeChoices
    value_range: StatedBounds | None
    outside: str = Outside.CLIP.value
    account: BudgetAccount | None = None

    def prepare(self, faults: Faults | None = None) -> "PreparedBounds":
        """Open the records and design the run. No budget is spent.

        faults : faults that the caller found before, or None.

        Raises Problems with every fault.
        """
        faults = Faults() if faults is None else faults
        check_bounds_run(self.choices, faults)
        outside = faults.value(Outside.CLIP, lambda: choose(Outside, self.outside, "outside"))
        with faults.noted("value_range"):
            if self.value_range is None:
                raise PlanError(NEEDS_RANGE, code=MISSING)
            check_stated(self.value_range, "value_range")
        check_account(self.account, self.choices.n_records, faults)
        source = opened(self.records, faults, {"value_range": self.value_range})
        with raising_problems():
            return self._planned(source, outside)

    def _planned(self, source: Source, outside: Outside) -> "PreparedBounds":
        """Design the mechanism, and compute the balance of the account."""
        leaks, account = list[str](), self.account
        outer = outer_of(self.value_range, source)
        n_records = cap_of(self.choices, source, outer, leaks, is_counted=account is not None)
        mechanism = design(bounds_settings(self.choices, outer, n_records, leaks))
        bill, balance = None, tuple[Account, ...]()
        if account is not None:
            account.check(leaks)
            bill = account.bill(mechanism)
            balance = account.balance(bill)
        return PreparedBounds(self, source, outside, mechanism, tuple(leaks), bill, balance)


class BoundsOutcome(NamedTuple):
    """Result of a run that finds bounds, and its cost. Fields that are not listed here are
    explained in `FitOutcome`.

    bounds : the bounds.
    """

    mechanism: BoundsMechanism
    bounds: FoundBounds
    charged: Charged
    source: Source
    leaks: tuple[str, ...]


class PreparedBounds(NamedTuple):
    """Run that finds bounds, before any budget is spent. The fields are those of `PreparedFit`."""

    request: BoundsRequest
    source: Source
    outside: Outside
    mechanism: BoundsMechanism
    leaks: tuple[str, ...]
    bill: Bill | None
    balance: tuple[Account, ...]

    def carry_out(self, watch: Watch = nobody) -> BoundsOutcome:
        """Charge the account and search for bounds. Parameters and errors are those of
        `PreparedFit.carry_out`.
        """
        m = self.mechanism
        with charged_to(self.request.account, self.bill, watch) as charged:
            watch(StepBegan(what="searching for bounds"))
            found = find_bounds(m, self.source, self.outside, watch, SystemNoise(), charged.drawing)
            watch(StepEnded())
        return BoundsOutcome(m, found, charged, self.source, self.leaks)
