"""Bounds of the features from two rounds of noisy histograms.

The first round covers a wide public range. The second round covers the intervals that the first
round has found in it.
"""

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.bounds.reading import OUTSIDE, Thresholds, interval
from fastlloyd.mechanisms.facts import Fact, Facts, Finds, SumUnit
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.mechanisms.private_run import (
    AnyRun,
    PrivateRun,
    check_grid,
    check_guarantee,
    check_ints,
    check_numbers,
)
from fastlloyd.mechanisms.queries.histograms import Histograms
from fastlloyd.mechanisms.queries.query import Query, ask
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round

MAX_FEATURES = 1024  # as momentlloyd has: an answer then has about half a million numbers
N_ROUNDS = 2
SEEN_DEVIATIONS = Fraction(35, 10)  # of the noise in a count, which
SEEN_SHARE = Fraction(1, 10)  # of the expected records must be worth
# of the larger end: the width that bounds have at least, to be told apart by a fine grid
NARROWEST = 2.0**-11


class FoundBounds(msgspec.Struct, frozen=True):
    """Bounds of the features, during a run or at its end.

    lower, upper : bounds in grid units of the outer range, int64 (d,).
    found : bool (d,). False if noise hides the records of the feature, whose bounds are then those
        of the outer range.
    """

    lower: IntArray
    upper: IntArray
    found: NDArray[np.bool_]

    @property
    def digest(self) -> bytes:
        """Return the digest of the lower and upper bounds, which clients confirm."""
        ends = np.concatenate([self.lower, self.upper]).astype("<i8").tobytes()
        return hashlib.sha256(b"fastlloyd/v1/bounds" + ends).digest()

    def ends(self, outer: Domain) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds in original units, float64 (d,).

        They lie within the outer range, and differ enough for a `Domain`.
        """
        B, (least, most) = outer.half_widths, np.array([outer.lower, outer.upper])
        low, high = outer.from_grid(np.stack([self.lower, self.upper]))
        room = np.maximum(NARROWEST * np.maximum(np.abs(low), np.abs(high)) - (high - low), 0.0) / 2
        low, high = (
            np.where(self.lower == -B, least, low - room),
            np.where(self.upper == B, most, high + room),
        )
        return np.maximum(low, least), np.minimum(high, most)

    def domain(self, outer: Domain, *, scaling: Scaling, fraction_bits: int = 16) -> Domain:
        """Return the domain with these bounds. Raises PlanError as `Domain` does."""
        return Domain.of_bounds(
            outer.features, *self.ends(outer), scaling=scaling, fraction_bits=fraction_bits
        )

    def missing(self, outer: Domain) -> list[str]:
        """Return the names of the features that keep the outer range as their bounds."""
        return [
            name
            for name, found in zip(outer.features, self.found.tolist(), strict=True)
            if not found
        ]


class HistogramRound(Round, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Round that asks for histograms over the bounds found so far.

    n_levels : number of levels of each histogram.
    scale : scale of the noise in every count.
    """

    counts_records: ClassVar[bool] = True
    n_levels: int
    scale: Fraction

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise, one for each level."""
        return (self.scale,) * self.n_levels

    def question(self, m: Any) -> Histograms:
        """Return the query, without its parameters, for the counts of records in all intervals
        (nodes) of the histograms of all features.
        """
        return Histograms(domain=m.domain, n_levels=self.n_levels, count_bits=m.count_bits)

    def query(self, m: "BoundsMechanism", state: FoundBounds) -> Query:
        """Return the query that divides the state's bounds of each feature into intervals (leaves)
        of equal width.
        """
        return ask(m.question(self), start=state.lower, step=self._step(m, state))

    def advance(
        self, m: "BoundsMechanism", state: FoundBounds, answer: Answer, noise: AnswerNoise
    ) -> FoundBounds:
        """Return new bounds, read from the noisy histograms feature by feature.

        The bounds of a feature do not change if noise hides its records.
        """
        question, B = self.question(m), m.domain.half_widths
        thresholds = Thresholds.of(max(noise.deviations), m.n_features, question.n_leaves)
        lower, upper, found = state.lower.copy(), state.upper.copy(), state.found.copy()
        step, ends = self._step(m, state), np.cumsum(question.parts)[:-1]
        for j, counts in enumerate(answer):
            levels = [level.tolist() for level in np.split(counts, ends)]
            is_open = {"open_below": bool(lower[j] == -B[j]), "open_above": bool(upper[j] == B[j])}
            if (leaves := interval(levels, thresholds, **is_open)) is not None:
                first, last = leaves
                lower[j], upper[j] = (
                    lower[j] + first * step[j],
                    min(lower[j] + last * step[j], upper[j]),
                )
                found[j] = True
        return FoundBounds(lower, upper, found)

    def information_on_number(self, m: AnyRun, scales: Sequence[Fraction]) -> Fraction:
        """Return the precision (inverse variance) of the number of records in the answer.

        Every level of every feature counts all records.
        """
        question = self.question(m)
        each = zip(question.parts, scales, strict=True)
        return question.n_rows * sum((1 / (n * scale**2) for n, scale in each), Fraction(0))

    def facts(self, m: "BoundsMechanism") -> dict[str, Any]:
        """Return facts about the round's query: its meaning, sensitivity, noise and cost."""
        question = m.question(self)
        return {
            "asks": "histograms",
            "numbers": [*question.shape],
            "intervals_per_feature": [*question.parts],
            "squared_sensitivities": [
                list(corner) for corner in question.sensitivity.corners(m.neighboring_relation)
            ],
            "noise_scale": float(self.scale),
            "noise_scale_exact": str(self.scale),
            "share_of_budget": float(m.share_of_budget(self)),
        }

    def _step(self, m: "BoundsMechanism", state: FoundBounds) -> IntArray:
        return -((state.lower - state.upper) // self.question(m).n_leaves)


class BoundsMechanism(
    PrivateRun[FoundBounds], frozen=True, kw_only=True, tag_field="kind", tag="bounds"
):
    """`PrivateRun` that finds bounds, made by `bounds/design.py`. Its domain is the outer range."""

    rounds: tuple[HistogramRound, ...]

    name: ClassVar[str] = "bounds"
    finds: ClassVar[Finds] = Finds.BOUNDS
    noise: ClassVar[Noise] = Noise.GAUSSIAN
    sum_unit: ClassVar[SumUnit] = SumUnit.NONE
    bears_server_noise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_ints(self, "n_records", "n_expected", "count_bits")
        check_numbers(self.n_records, self.epsilon, self.noise)
        PublicSeed.from_hex(self.public_seed)
        check_grid(self.n_expected, self.count_bits)
        if self.domain.scaling is not Scaling.PER_FEATURE:
            raise PlanError(f"scaling is {self.domain.scaling.value}; expected per-feature")
        if self.n_features > MAX_FEATURES:
            raise PlanError(
                f"there are {self.n_features} features; bounds can be found for at most"
                f" {MAX_FEATURES}"
            )
        if len(self.rounds) != N_ROUNDS:
            raise PlanError(f"there are {len(self.rounds)} rounds; bounds are found in {N_ROUNDS}")
        leaves, bits = (
            math.prod(round.question(self).n_leaves for round in self.rounds),
            self.domain.fraction_bits,
        )
        if (2 << bits) % leaves:
            raise PlanError(
                f"fraction_bits is {bits}; expected at least {leaves.bit_length() - 2}, to find"
                " bounds in two rounds"
            )
        check_guarantee(self)

    @property
    def seed(self) -> PublicSeed:
        """Public seed, derived from all settings. It only decides which rows of a person get one
        share more, if the person's shares do not divide evenly.
        """
        return PublicSeed(self.digest)

    def start(self) -> FoundBounds:
        """Return the first state: the outer range. A state contains the bounds found so far."""
        B = self.domain.half_widths
        return FoundBounds(-B, B.copy(), np.zeros(self.n_features, dtype=np.bool_))

    def result(self, state: FoundBounds) -> FoundBounds:
        """Return the bounds found, which are the state after the last round."""
        return state

    def check_noise(self, totals: Sequence[tuple[Fraction, ...]]) -> None:
        """Raise PlanError if noise would hide the bounds.

        Noise hides them if 3.5 deviations exceed a tenth of the expected number of records.

        totals : scales of the total noise of each round, part by part.
        """
        deviation = max(map(max, totals)) / 2**self.number_bits
        needed = math.ceil(SEEN_DEVIATIONS * deviation / SEEN_SHARE)
        if needed > self.n_expected:
            raise too_few(
                self.n_expected,
                self.n_records,
                self.unit,
                self.n_features,
                f"epsilon {self.epsilon:.4g}",
                needed,
            )

    def planning(self, noise_factor: float) -> list[Fact | Facts]:
        """Return facts about the counts of each round, and about the smallest number of records in
        an interval that stands out from the noise.
        """
        counted = []
        for number, (round, where) in enumerate(
            zip(self.rounds, ("outer_range", "found_range"), strict=True), 1
        ):
            question = self.question(round)
            counted.append(
                Fact.of(
                    f"counts_in_{where}",
                    number=number,
                    parts=list(question.parts),
                    n=math.prod(question.shape),
                    share=float(self.share_of_budget(round)),
                )
            )
        first = self.rounds[0]
        threshold = Thresholds.of(
            noise_factor * float(first.scale), self.n_features, first.question(self).n_leaves
        ).node
        seen = two_digits(math.ceil(threshold / 2**self.number_bits))
        return [
            Fact.of("planned"),
            *counted,
            Fact.of("least_seen", least=seen, outside=100 // OUTSIDE),
        ]

    def facts(self) -> dict[str, Any]:
        """Return the outer range in original units, for the privacy statement."""
        ends = zip(self.domain.lower, self.domain.upper, strict=True)
        outer = dict(zip(self.domain.features, map(list, ends), strict=True))
        stated = {each.key: list(each.bounds) for each in self.domain.recipe or () if each.bounds}
        return {"outer_range": outer | stated}


def too_few(n: int, cap: int, unit: Unit, n_features: int, budget: str, needed: int) -> PlanError:
    """Return the error that n expected records are too few to find bounds.

    cap : cap on the number of records.
    budget : phrase that states the budget.
    needed : number of records that suffice with this budget.
    """
    features = "1 feature" if n_features == 1 else f"{n_features} features"
    return PlanError(
        f"{'n_expected' if n < cap else 'n_records, the cap,'} is {n} {unit.many}:"
        f" too few to find bounds of {features} with {budget}. About"
        f" {two_digits(needed)} are needed; use a larger epsilon or fewer features,"
        " or state bounds"
    )


def two_digits(n: int) -> int:
    """Return n rounded up to two significant digits, such as 1200."""
    tens: int = 10 ** max(len(str(n)) - 2, 0)
    return -(-n // tens) * tens
