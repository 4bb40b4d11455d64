"""Rounds of a run, each with one query and one noisy answer.

The last round may estimate the loss. The central model, clients and the server treat all rounds
alike. An answer is a matrix whose columns form parts, and all noise in a part has the same scale.
Kinds of rounds are `LossRound`, `lloyd/mechanism.LloydRound` and those in `moment_lloyd/rounds.py`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.dp.noise import Noise, NoiseSource
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import reach
from fastlloyd.mechanisms.queries.query import Query, Question, ask
from fastlloyd.mechanisms.queries.relative import ClippedLoss

# Departs from the paper, where noise scales are reals: they are multiples of 1/65536 grid unit,
# rounded up, so that the cost of a mechanism is an exact rational.
SCALE_UNITS = 1 << 16

Answer = IntArray  # int64, of the shape of the round's question: exact sums and noise
State = Any  # of a type that each mechanism has for itself; what drives one hands it on unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNoise:
    """Noise of an answer, and the share of clients in the answer.

    deviations : noise scales, one for each part, in units of the answer.
    share : sum of the caps of the clients in this answer, divided by the sum of the caps of the
        clients in the run's first answer. It is 1 in the central model.
    """

    deviations: tuple[float, ...]
    share: float


class Round(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One query and its noisy answer, as the plan describes them. In all methods, `m` is the
    mechanism of the round.

    moves_centroids : whether the answer moves the centroids.
    counts_records : whether the last column of the answer counts records.
    """

    moves_centroids: ClassVar[bool] = False
    counts_records: ClassVar[bool] = False

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Scales of the noise, one for each part of the answer, in units of the answer.

        They are standard deviations of Gaussian noise, scales of two-sided geometric noise, or 0
        without noise.
        """
        raise NotImplementedError

    def question(self, m: Any) -> Question:
        """Return the part of the round's query that the plan fixes."""
        raise NotImplementedError

    def query(self, m: Any, state: State) -> Query:
        """Return the query in this state. It consists of integers, so all clients ask the same
        query.
        """
        raise NotImplementedError

    def advance(self, m: Any, state: State, answer: Answer, noise: AnswerNoise) -> State:
        """Return the state after the noisy answer."""
        raise NotImplementedError

    def information_on_number(self, m: Any, scales: Sequence[Fraction]) -> Fraction:
        """Return the precision (inverse variance) of the number of records in a noisy answer.

        scales : scales of the noise, one for each part. The precision is in their units.
        """
        return 1 / (m.shape(self)[0] * scales[-1] ** 2) if self.counts_records else Fraction(0)

    def facts(self, m: Any) -> dict[str, Any]:
        """Return the sensitivity and the noise of the round for the privacy statement, by name."""
        raise NotImplementedError


class LossRound(Round, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Round after the last iteration, which estimates the loss.

    Departs from the paper, which has no noisy estimate of the loss. A record farther from its
    centroid than sqrt(cap << shift) grid units counts as if it were that far away.

    scale : scale of the noise, in units of 2**shift squared grid units.
    cap : largest number that a record adds, in the same units.
    shift : base-2 logarithm of the unit.
    """

    scale: Fraction
    cap: int
    shift: int

    @property
    def squared_cap(self) -> int:
        """Largest squared distance that a record adds, in squared grid units."""
        return self.cap << self.shift

    @property
    def scales(self) -> tuple[Fraction, ...]:
        """Scale of the noise in the answer, which is one sum."""
        return (self.scale,)

    def unit(self, fraction_bits: int) -> float:
        """Return the unit of the answer in squared half widths of the domain, exact."""
        return math.ldexp(1.0, self.shift - 2 * fraction_bits)

    def question(self, m: Any) -> ClippedLoss:
        """Return the query, without its parameters, for the sum of clipped squared distances."""
        return ClippedLoss(domain=m.domain, n_clusters=m.n_clusters, cap=self.cap, shift=self.shift)

    def query(self, m: Any, state: State) -> Query:
        """Return the query for the loss of the state's centroids."""
        return ask(m.question(self), centroids=state.centroids)

    # this round needs neither
    def advance(
        self,
        m: Any,  # noqa: ARG002
        state: State,
        answer: Answer,
        noise: AnswerNoise,  # noqa: ARG002
    ) -> State:
        """Return the state with its loss."""
        return msgspec.structs.replace(state, loss=int(answer[0, 0]))

    def facts(self, m: Any) -> dict[str, Any]:
        """Return the meaning of the answer, its cost and its noise, by name."""
        unit = self.unit(m.domain.fraction_bits)
        return {
            "meaning": Fact.of("loss_meaning_of_persons" if m.persons else "loss_meaning"),
            "unit": Fact.of("squared_half_widths"),
            "cap": self.cap * unit,
            "cap_distance": math.sqrt(self.cap * unit),
            "share_of_budget": float(m.loss_share),
            "sensitivity": self.cap * reach(m.persons),
            "sensitivity_is_for": Fact.of("sensitivity_of_any_change"),
            "noise_scale": float(self.scale),
            "noise_scale_exact": str(self.scale),
            "sensitivity_and_noise_unit": m.loss_unit,
        }


def sqrt_up(square: Fraction) -> Fraction:
    """Return the square root, rounded up to a multiple of 1 / SCALE_UNITS.

    The computation uses integers only, so it is exact.
    """
    units = square * SCALE_UNITS**2
    root = math.isqrt(math.ceil(units))
    return Fraction(root if root * root >= units else root + 1, SCALE_UNITS)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of an answer with the same noise scale.

    n_columns : number of columns.
    scale : scale of the noise.
    bound : largest change of an entry by one record.
    """

    n_columns: int
    scale: Fraction
    bound: int


def draw(
    noise: Noise, n_rows: int, columns: Iterable[tuple[int, Fraction]], source: NoiseSource
) -> IntArray:
    """Draw the noise of one answer, int64 (n_rows, number of columns).

    columns : number of columns and noise scale of each part.
    """
    parts = []
    for n_columns, scale in columns:
        match noise:
            case Noise.NONE:
                values = np.zeros(n_rows * n_columns, dtype=np.int64)
            case Noise.GAUSSIAN:
                values = source.gaussian(scale, n_rows * n_columns)
            case Noise.LAPLACE:
                values = source.two_sided_geometric(scale, n_rows * n_columns)
        parts.append(values.reshape(n_rows, n_columns))
    return np.concatenate(parts, axis=1)
