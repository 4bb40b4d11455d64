"""Clustering by one holder of all records: request, preparation and outcome."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, TypeVar

from fastlloyd.base.names import choose
from fastlloyd.base.precision import epsilon_up, rounded_up
from fastlloyd.base.problems import Faults, raising_problems
from fastlloyd.clustering.grid_records import OUTSIDE_BOUNDS, Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.noise import Noise, NoiseSource, SystemNoise
from fastlloyd.errors import DataError, FastLloydError
from fastlloyd.federation.ledger import Account
from fastlloyd.jobs.account import Bill, BudgetAccount, Charged, charged_to, check_account
from fastlloyd.jobs.choices import ClusteringChoices, RecipeFeatures
from fastlloyd.jobs.forecast import Forecast
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

# placing this many centroids takes about a second, or longer with more features
MANY_CLUSTERS = 150
OUTSIDE_RANGE = (
    "the value lies outside value_range; correct it, state a wider range from public knowledge, or"
    " clip such values with --outside clip"
)


@dataclass(frozen=True, kw_only=True)
class FitRequest(Generic[S]):
    """Request for a clustering. Nothing is read or checked before `prepare`.

    records : records to open.
    choices : choices about the clustering.
    outside : treatment of a value outside the bounds, "clip" or "refuse".
    account : account that is charged for the fit, or None.
    """

    records: Openable[S]
    choices: ClusteringChoices
    outside: str = Outside.CLIP.value
    account: BudgetAccount | None = None

    def prepare(self, faults: Faults | None = None, watch: Watch = nobody) -> "PreparedFit[S]":
        """Open the records and design the clustering. No budget is spent.

        faults : faults that the caller found before, or None.
        watch : function that receives events of the job.

        Raises Problems with every fault.
        """
        faults = Faults() if faults is None else faults
        check_clustering(self.choices, faults)
        outside = faults.value(Outside.CLIP, lambda: choose(Outside, self.outside, "outside"))
        check_account(self.account, self.choices.n_records, faults)
        source = opened(self.records, faults, self.choices.stated)
        with raising_problems():
            settings, leaks = planned_settings(
                self.choices, source, is_counted=self.account is not None
            )
            return PreparedFit.of(self, settings, source, outside, leaks, watch)


def planned_settings(
    choices: ClusteringChoices, source: Source, *, is_counted: bool, cap_factor: int = 1
) -> tuple[Settings[AnyAlgorithm], tuple[str, ...]]:
    """Return the settings for the design of a clustering, and a sentence for each setting that was
    taken from the data.

    is_counted : whether a ledger adds this job up with others.
    cap_factor : factor by which the cap is multiplied.

    Raises DataError, PlanError or BudgetError for settings that cannot be used.
    """
    leaks = list[str]()
    domain = domain_of(choices, source, leaks)
    n_records = cap_of(choices, source, domain, leaks, is_counted=is_counted)
    check_clusters_are_fewer(choices, n_records)
    settings = clustering_settings(choices, domain, cap_factor * n_records, leaks)
    return settings, tuple(leaks)


class FitOutcome(NamedTuple, Generic[S]):
    """Result of a fit, and its cost.

    mechanism : mechanism that ran.
    clustering : the clustering.
    first : stage that found the bounds, or None.
    charged : charge of this fit, with the accounts of the data set after it.
    source : records, with the numbers of records that were clipped or dropped.
    leaks : a sentence for each setting that was taken from the data.
    clipped_by_range : exact counts (`Clipped`) of records and values outside the range in which
        bounds were found. Do not publish them.
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
    """Fit before any budget is spent.

    request : request for the fit.
    source : opened records.
    outside : treatment of a value outside the bounds.
    mechanism : designed mechanism. If bounds are still to be found, it has a placeholder for them.
    stages : both stages, if bounds are to be found, or None.
    leaks : a sentence for each setting that was taken from the data.
    bill : cost of the fit, or None without an account.
    balance : accounts of the data set (`ledger.Account`) after this bill, or () without an account.
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
        """Return the fit, with its designed mechanism and the balance of its account.

        settings : settings of the mechanism.
        watch : function that receives events of the job.

        The other parameters are the fields of the same names.

        Raises PlanError if the settings cannot be used, BudgetError if a limit refuses the bill,
        and StateError if the ledger cannot be used.
        """
        value_range, account = request.choices.value_range, request.account
        searched = value_range.searched if isinstance(value_range, RecipeFeatures) else ()
        with placing(settings.n_clusters, watch):
            stages = (
                None
                if value_range is None
                else TwoStages.of(settings, outer_of(value_range, source), searched)
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
        """Return whether noise will be added."""
        return self.mechanism.noise is not Noise.NONE

    @property
    def forecast(self) -> Forecast:
        """Expected error and noise of the result."""
        return Forecast.of(self.mechanism)

    def carry_out(self, watch: Watch = nobody, noise: NoiseSource | None = None) -> FitOutcome[S]:
        """Charge the account and cluster the records.

        watch : function that receives events of the job.
        noise : source of the noise, or None for the system's. Only tests pass another source.

        Raises BudgetError if the run exceeds a limit, StateError if the ledger cannot be used,
        DataError if the records cannot be read, and EngineError if the engine fails. After an
        error, rounds whose noise was not drawn are refunded.
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
        account, source = self.request.account, self._by(stages.first)
        with charged_to(account, self.bill, watch) as charged:
            watch(StepBegan(what="searching for bounds"))
            found = find_bounds(stages.first, source, self.outside, watch, noise, charged.drawing)
            clipped = source.clipped
            first = FirstStage(mechanism=stages.first, bounds=found, epsilon=stages.epsilon)
            watch(BoundsFound(mechanism=stages.first, bounds=found))
            with after(first):
                settings = stages.second(found)
                with placing(settings.n_clusters, watch):
                    m: Mechanism = design(settings)
                source = self._by(m)
                with (
                    source.answering(m, Outside.CLIP, watch) as answering,
                    watched(m, watch, charged.later(m)) as drawing,
                ):
                    clustering = central.cluster(m, answering, noise, drawing)
        return FitOutcome(m, clustering, first, charged, source, self.leaks, clipped)

    def _by(self, m: AnyRun) -> S:
        """Return the records in the form that a mechanism needs. If the mechanism has a recipe,
        they are read with the features of the recipe.
        """
        recipe = m.domain.recipe
        return self.source if recipe is None else self.request.records.open_as(recipe)


def find_bounds(
    mechanism: BoundsMechanism,
    source: Source,
    outside: Outside,
    watch: Watch,
    noise: NoiseSource,
    drawing: Drawing,
) -> FoundBounds:
    """Return bounds found within the outer range, which is the domain of the mechanism.

    mechanism : mechanism that finds bounds.
    source : records.
    outside : treatment of a value outside the range.
    watch : function that receives events of the job.
    noise : source of the noise.
    drawing : function that is called with the number of each round, from 0, before its noise is
        drawn.
    """
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

    The yielded function takes the number of a round, from 0. It calls `drawing`, and then reports
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
    """Context manager for the placing of initial centroids. If its block takes long, this is
    reported to `watch`.
    """
    if n_clusters >= MANY_CLUSTERS:
        watch(StepBegan(what=f"placing {n_clusters} initial centroids"))
    try:
        yield
    finally:
        watch(StepEnded())


@contextmanager
def after(first: FirstStage) -> Iterator[None]:
    """Context manager for the second stage. If its block raises an error, add the epsilon that the
    first stage has spent to the error's message.
    """
    try:
        yield
    except FastLloydError as error:
        own, both = rounded_up(first.mechanism.epsilon), epsilon_up(first.epsilon)
        sentence = (
            f"{error}; finding the bounds has spent epsilon {own} of {both}, which stays spent"
        )
        raise type(error)(sentence, code=error.code, field=error.field) from None
