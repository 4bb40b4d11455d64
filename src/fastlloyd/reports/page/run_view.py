"""Run behind a page: its settings and its privacy statement."""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context
from typing import Any, Self

import msgspec

from fastlloyd.base.markup import Markup
from fastlloyd.base.precision import epsilon_up
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.private_run import AnyRun
from fastlloyd.reports.certainty import Odds
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.page.words import marked
from fastlloyd.reports.run_result import PRIVACY, ROUNDS
from fastlloyd.reports.stored_files import StoredFiles

HARDLY, PARTLY = 57, 75  # right guesses of 100, on average
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """Run whose result a page shows.

    mechanism : settings of the run.
    plan : plan of a federated run, or None.
    privacy : privacy statement.
    rounds : table of rounds of a federated run, or an empty list.
    files : names of the files from which the page is made.
    """

    mechanism: AnyRun
    plan: Plan | None
    privacy: Mapping[str, Any]
    rounds: Sequence[Mapping[str, Any]]
    files: tuple[str, ...]

    @classmethod
    def of(cls, files: StoredFiles, mechanism: AnyRun, plan: Plan | None) -> Self:
        """Return the run of a result with these files and settings. Raises DataError if a file is
        missing or not valid.
        """
        return cls(
            mechanism=mechanism,
            plan=plan,
            privacy=files.json(PRIVACY),
            rounds=files.json(ROUNDS) if ROUNDS in files.contents else [],
            files=files.sources,
        )

    @property
    def unit(self) -> Unit:
        """Words for what is counted and protected."""
        return self.mechanism.unit

    @property
    def has_noise(self) -> bool:
        """Return whether the run added noise."""
        return self.mechanism.noise is not Noise.NONE

    @property
    def is_private(self) -> bool:
        """Return whether the guarantee holds."""
        return bool(self.privacy["private"])

    @property
    def study(self) -> dict[str, str]:
        """Texts about the study of a federated run."""
        return {} if self.plan is None or self.plan.study is None else self.plan.study.texts

    @property
    def delta(self) -> str:
        """Delta of the guarantee in words, or "" if it is 0."""
        return of_ten(self.privacy["delta"]) if self.privacy["delta"] else ""

    @property
    def guarantee(self) -> Fact:
        """Fact about epsilon and delta, or about a run without noise."""
        if not self.has_noise:
            return Fact.of("page_no_noise")
        epsilon = epsilon_up(self.privacy["epsilon"])
        if not self.delta:
            return Fact.of("page_epsilon", epsilon=epsilon)
        return Fact.of("page_epsilon_delta", epsilon=epsilon, delta=self.delta)

    @property
    def question(self) -> Fact:
        """Fact about the secret that an observer guesses."""
        if self.mechanism.neighboring_relation is not NeighboringRelation.REPLACE_ONE:
            return Fact.of("whether_present")
        return self.of_values

    @property
    def of_values(self) -> Fact:
        """Fact that names the secret: the values of a record, or of a person."""
        return Fact.of("which_value" if self.mechanism.persons is None else "which_rows")

    @property
    def odds(self) -> Odds:
        """Odds of an observer after all rounds of the run."""
        return Odds(self.privacy["mu"], self.privacy["epsilon"], self.privacy["delta"] or 0.0)

    @property
    def right_on_average(self) -> int:
        """Number of right guesses out of 100, rounded up, on average over all results. An attacker
        guesses whether one record or person is in the data.
        """
        return _of_100(self.odds.right_guesses() + float(self.privacy["delta_slack"] or 0) / 2)

    @property
    def right_about_values(self) -> int | None:
        """Number of right guesses out of 100 about one record's values, on average, rounded up.
        Here somebody knows that a record is in the data, and guesses which of two values the record
        has. None if `odds` answer this question already.

        To replace a record is to remove one and to add one. So mu and epsilon are twice as large
        (Dong, Roth and Su 2022, Theorem 2.14).
        """
        if self.mechanism.neighboring_relation is NeighboringRelation.REPLACE_ONE:
            return None
        mu, epsilon, delta = self.odds
        twice = Odds(None if mu is None else 2 * mu, 2 * epsilon, delta)
        return _of_100(twice.right_guesses() + float(self.privacy["delta_slack"] or 0) / 2)

    @property
    def right_at_worst(self) -> int:
        """Number of right guesses out of 100, rounded up, after the result that reveals the most.
        An attacker guesses whether one record or person is in the data.
        """
        return _of_100(self.odds.certainty(0.5))

    @property
    def lead(self) -> Fact:
        """Fact that says how hard it is to guess whether one record or person is in the data."""
        n = self.right_on_average
        name = "lead_hardly" if n <= HARDLY else "lead_partly" if n <= PARTLY else "lead_badly"
        words = "lead_guesses_but" if self.delta else "lead_guesses"
        guesses = Fact.of(words, share=n, worst=self.right_at_worst, delta=self.delta)
        return Fact.of(name, question=self.question, guesses=guesses)

    def said(self, name: str, /, **values: Any) -> Markup:
        """Return the sentence of a fact as HTML."""
        return marked(Fact.of(name, **values), self.unit)

    def words(self, fact: Fact) -> Markup:
        """Return the sentence of a fact as HTML."""
        return marked(fact, self.unit)

    def text(self, name: str, /, **values: Any) -> str:
        """Return the sentence of a fact as text, for attributes."""
        return sentence(Fact.of(name, **values), self.unit)


def _of_100(share: float) -> int:
    return min(100, math.ceil(100 * share))


def of_ten(delta: float) -> str:
    """Return a delta as a multiple of a power of ten, rounded up to two significant digits.

    If a user gave the delta with two digits, it does not change.
    """
    shown = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(float(delta)))
    figure, _, power = f"{shown:.1e}".partition("e")
    ten = f"10{str(int(power)).translate(_RAISED)}"
    figure = figure.removesuffix(".0")
    return ten if figure == "1" else f"{figure} \N{MULTIPLICATION SIGN} {ten}"
