"""A clustering by one holder of all records: request, what is known before anything is spent, and
outcome.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

from fastlloyd.base.names import choose
from fastlloyd.base.precision import epsilon_up, rounded_up
from fastlloyd.clustering.grid_records import OUTSIDE_BOUNDS, Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.noise import Noise, NoiseSource, SystemNoise
from fastlloyd.errors import DataError, FastLloydError
from fastlloyd.federation.ledger import Account
from fastlloyd.jobs.account import Bill, BudgetAccount, Charged, charged_to
from fastlloyd.jobs.choices import ClusteringChoices
from fastlloyd.jobs.forecast import Forecast
from fastlloyd.jobs.problems import Faults, raising_problems
from fastlloyd.jobs.settings import (
    cap_of,
    check_clustering,
    check_clusters_are_fewer,
    clustering_settings,
    domain_of,
    opened,
    outer_of,
)
from fastlloyd.jobs.source import Openable, Source
from fastlloyd.jobs.watching import (
    BoundsFound,
    RoundAnswered,
    RunBegan,
    StepBegan,
    StepEnded,
    Watch,
    nobody,
)
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import Drawing
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.two_stages import FirstStage, TwoStages

S = TypeVar("S", bound=Source)

MANY_CLUSTERS = 150  # placing so many takes about a second, and longer with more features
OUTSIDE_RANGE = (
    "the value lies outside value_range; correct it, state a wider range from public knowledge, or"
    " clip such values with --outside clip"
)


@dataclass(frozen=True, kw_only=True)
class FitRequest(Generic[S]):
    """Request for a clustering. Nothing is read or checked before `prepare`.

    records : source of the records.
    choices : for the clustering.
    outside : "clip" or "refuse", for a value outside the bounds.
    account : charged for the fit, or None.
    """

    records: Openable[S]
    choices: ClusteringChoices
    outside: str = Outside.CLIP.value
    account: BudgetAccount | None = None

    def prepare(self, faults: Faults | None = None, watch: Watch = nobody) -> "PreparedFit[S]":
        """Read what may be read, and plan the fit; spends nothing.

        faults : those that the caller has noted before.

        Raises Problems with every fault.
        """
        faults = Faults() if faults is None else faults
        check_clustering(self.choices, faults)
        outside = faults.value(Outside.CLIP, lambda: choose(Outside, self.outside, "outside"))
        if self.account is not None:
            with faults.noted("n_records"):
                self.account.check_cap(self.choices.n_records)
        source = opened(self.records, faults, self.choices.stated)
        with raising_problems():
            settings, leaks = planned_settings(
                self.choices, source, is_counted=self.account is not None
            )
            return PreparedFit.of(self, settings, source, outside, leaks, watch)


def planned_settings(
    choices: ClusteringChoices, source: Source, *, is_counted: bool, cap_factor: int = 1
) -> tuple[Settings[AnyAlgorithm], tuple[str, ...]]:
    """Return the settings for the design of the clustering, and a sentence for each setting that
    was taken from the data.

    cap_factor : multiplies the cap.

    Raises DataError, PlanError or BudgetError.
    """
    leaks = list[str]()
    domain = domain_of(choices, source, leaks)
    n_records = cap_of(choices, source, domain, leaks, is_counted=is_counted)
    check_clusters_are_fewer(choices, n_records)
    settings = clustering_settings(choices, domain, cap_factor * n_records, leaks)
    return settings, tuple(leaks)


class FitOutcome(NamedTuple, Generic[S]):
    """Result of a fit, and what it cost.

    first : stage that found bounds, or None.
    charged : the account, with this fit.
    source : of the records, which knows how many were clipped or dropped.
    leaks : a sentence for each setting that was taken from the data.
    clipped_by_range : numbers of values outside the range in which bounds were found: private.
    """

    mechanism: Mechanism
    clustering: Clustering
    first: FirstStage | None
    charged: Charged
    source: S
    leaks: tuple[str, ...]
    clipped_by_range: Clipped

    @property
    def has_noise(self) -> bool:
        """Return whether noise was added."""
        return self.mechanism.noise is not Noise.NONE


class PreparedFit(NamedTuple, Generic[S]):
    """A fit before anything is spent.

    mechanism : the design. If bounds are still to be found, its box stands for them.
    stages : both, if bounds are to be found.
    bill, balance : charge of the account, and its sums with that, or None and () without an
        account.
    leaks : as of `FitOutcome`.
    """

    request: FitRequest[S]
    source: S
    outside: Outside
    mechanism: Mechanism
    stages: TwoStages | None
    leaks: tuple[str, ...]
    bill: Bill | None
    balance: tuple[Account, ...]

    @classmethod
    def of(
        cls,
        request: FitRequest[S],
        settings: Settings[AnyAlgorithm],
        source: S,
        outside: Outside,
        leaks: tuple[str, ...],
        watch: Watch,
    ) -> Self:
        """Design the mechanism, and look up the account. Raises PlanError, BudgetError or
        StateError.
        """
        value_range, account = request.choices.value_range, request.account
        with placing(settings.n_clusters, watch):
            stages = (
                None
                if value_range is None
                else TwoStages.of(settings, outer_of(value_range, source))
            )
            mechanism = design(settings if stages is None else stages.later)
        bill, balance = None, tuple[Account, ...]()
        if account is not None:
            account.check(leaks)
            bill = account.bill(stages or mechanism)
            balance = account.balance(bill)
        return cls(request, source, outside, mechanism, stages, leaks, bill, balance)

    @property
    def has_noise(self) -> bool:
        """Return whether the result is private."""
        return self.mechanism.noise is not Noise.NONE

    @property
    def forecast(self) -> Forecast:
        """Return the expected error and noise of the result."""
        return Forecast.of(self.mechanism)

    def carry_out(self, watch: Watch = nobody, noise: NoiseSource | None = None) -> FitOutcome[S]:
        """Charge the account and cluster the records.

        noise : a source other than the system's, only for tests.

        Raises BudgetError, StateError, DataError and EngineError; rounds whose noise was not drawn
        are refunded.
        """
        noise = SystemNoise() if noise is None else noise
        if self.stages is not None:
            return self._in_two_stages(self.stages, watch, noise)
        m = self.mechanism
        with (
            self.source.answering(m, self.outside, watch) as answering,
            charged_to(self.request.account, self.bill, watch) as charged,
            watched(m, watch, charged.drawing) as drawing,
        ):
            clustering = central.cluster(m, answering, noise, drawing)
        return FitOutcome(m, clustering, None, charged, self.source, self.leaks, Clipped())

    def _in_two_stages(self, stages: TwoStages, watch: Watch, noise: NoiseSource) -> FitOutcome[S]:
        account = self.request.account
        with charged_to(account, self.bill, watch) as charged:
            watch(StepBegan(what="searching for bounds"))
            found = find_bounds(
                stages.first, self.source, self.outside, watch, noise, charged.drawing
            )
            clipped = self.source.clipped
            first = FirstStage(mechanism=stages.first, bounds=found, epsilon=stages.epsilon)
            watch(BoundsFound(mechanism=stages.first, bounds=found))
            with after(first):
                settings = stages.second(found)
                with placing(settings.n_clusters, watch):
                    m: Mechanism = design(settings)
                with (
                    self.source.answering(m, Outside.CLIP, watch) as answering,
                    watched(m, watch, charged.later(m)) as drawing,
                ):
                    clustering = central.cluster(m, answering, noise, drawing)
        return FitOutcome(m, clustering, first, charged, self.source, self.leaks, clipped)


def find_bounds(
    mechanism: BoundsMechanism,
    source: Source,
    outside: Outside,
    watch: Watch,
    noise: NoiseSource,
    drawing: Drawing,
) -> FoundBounds:
    """Search for bounds within the outer range, which is the domain of the mechanism."""
    try:
        with (
            source.answering(mechanism, outside, watch) as answering,
            watched(mechanism, watch, drawing) as told,
        ):
            return central.release(mechanism, answering, noise, told)
    except DataError as error:
        sentence = str(error).replace(OUTSIDE_BOUNDS, OUTSIDE_RANGE)
        raise type(error)(sentence, code=error.code, field=error.field) from None


@contextmanager
def watched(run: AnyRun, watch: Watch, drawing: Drawing) -> Iterator[Drawing]:
    """Report the events of a run to `watch`. Yield a function to call before the noise of each
    round.

    The yielded function takes the number of the round, from 0. It calls `drawing`, and then reports
    the round to `watch`.
    """

    def told(number: int) -> None:
        drawing(number)
        watch(RoundAnswered(number=number + 1, n_rounds=run.n_rounds))

    watch(RunBegan(mechanism=run))
    try:
        yield told
    finally:
        watch(StepEnded())


@contextmanager
def placing(n_clusters: int, watch: Watch) -> Iterator[None]:
    """Notify the watch that initial centroids are being placed, if that takes long."""
    if n_clusters >= MANY_CLUSTERS:
        watch(StepBegan(what=f"placing {n_clusters:,} initial centroids"))
    try:
        yield
    finally:
        watch(StepEnded())


@contextmanager
def after(first: FirstStage) -> Iterator[None]:
    """Add to an error in the block the epsilon that the first stage spent."""
    try:
        yield
    except FastLloydError as error:
        own, both = rounded_up(first.mechanism.epsilon), epsilon_up(first.epsilon)
        sentence = (
            f"{error}; finding the bounds has spent epsilon {own} of {both}, which stays spent"
        )
        raise type(error)(sentence, code=error.code, field=error.field) from None
