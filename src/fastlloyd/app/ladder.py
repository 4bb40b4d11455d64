"""Choices of epsilon, as rows of a table (the ladder). For each epsilon, a row says what it means
for one person, for the picture, and for the ledger.

Everything is computed from public numbers. No file of records is read.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fastlloyd.errors import BudgetError
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.ledger import Account
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.choices import ClusteringChoices
from fastlloyd.jobs.forecast import Forecast
from fastlloyd.jobs.settings import Columns, clustering_settings, stated_domain
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.uncertainty import Verdict
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports.bars import Bar, bars_of
from fastlloyd.reports.certainty import Odds

EPSILONS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
LARGE: Final = 10.0  # a larger epsilon lets a reader be nearly sure


class Rung(NamedTuple):
    """Row of the table from which epsilon is chosen: one epsilon, and what follows from it.

    epsilon : epsilon of the run.
    average : number of right guesses out of 100, on average, rounded up. An attacker guesses
        whether one record or person is in the data.
    at_most : number of such right guesses after the result that reveals the most, rounded up. With
        probability delta, a result may reveal more.
    verdict : expected effect of the noise.
    bars : half of the interval that the result will probably show, for each feature.
    accounts : accounts of the data set after the run.
    refusal : sentence with which the ledger refuses the run, or "".
    """

    epsilon: float
    average: int
    at_most: int
    verdict: Verdict
    bars: tuple[Bar, ...]
    accounts: tuple[Account, ...]
    refusal: str = ""

    @property
    def is_clear(self) -> bool:
        """Return whether the clusters are expected to stand out from the noise."""
        return self.verdict is Verdict.CLEAR

    @property
    def left(self) -> float | None:
        """Largest epsilon that the limits leave for one more run, or None without a limit."""
        left = [each.left for each in self.accounts if each.left is not None]
        return min(left) if left else None


def rungs(
    recipe: Recipe,
    choices: ClusteringChoices,
    dataset: DataSet,
    ledger: Path | None,
    epsilons: Sequence[float] = EPSILONS,
) -> list[Rung]:
    """Return the rows of the table, with the epsilons in rising order.

    recipe : features of the run.
    choices : choices of the run. Their epsilon is not used.
    dataset : data set that the run is charged to.

    Raises PlanError, BudgetError or StateError if no run can have these settings.
    """
    account = BudgetAccount(dataset, ledger)
    return [_rung(recipe, choices, account, epsilon) for epsilon in sorted(set(epsilons))]


def _rung(
    recipe: Recipe, choices: ClusteringChoices, account: BudgetAccount, epsilon: float
) -> Rung:
    mechanism = mechanism_of(recipe, choices, epsilon)
    odds, forecast = Odds.of_run(mechanism), Forecast.of(mechanism)
    accounts, refusal = tuple[Account, ...](), ""
    try:
        accounts = account.balance(account.bill(mechanism))
    except BudgetError as error:
        refusal = str(error)
    return Rung(
        epsilon,
        _up(odds.right_guesses()),
        _up(odds.certainty(0.5)),
        forecast.verdict,
        bars_of(mechanism.domain, forecast.bar),
        accounts,
        refusal,
    )


def mechanism_of(recipe: Recipe, choices: ClusteringChoices, epsilon: float) -> Mechanism:
    """Return the settings of a run with an epsilon.

    choices : choices of the run. Their epsilon is not used.

    Raises PlanError if no run can have these settings.
    """
    domain = stated_domain(choices, Columns.of([column.name for column in recipe.columns]))
    fields = {**choices.__dict__, "epsilon": epsilon}
    settings = clustering_settings(ClusteringChoices(**fields), domain, choices.cap or 0)
    made: Mechanism = design(settings)
    return made


def cautions(k: int, epsilon: float, unit: Unit) -> list[str]:
    """Return sentences about choices that are allowed and rarely meant."""
    found = list[str]()
    if k == 1:
        found.append(
            f"With 1 group, all {unit.many} are in it. The result is one centre and one number."
        )
    if epsilon > LARGE:
        found.append(
            f"Epsilon {epsilon:g} is very large. A reader of the result may be almost sure whether"
            f" one {unit.one} is in the data."
        )
    return found


def _up(share: float) -> int:
    return min(100, math.ceil(100 * share - 1e-9))
