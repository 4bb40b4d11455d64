"""Design of a MomentLloyd mechanism from settings.

The rounds come from a table of the number of features and the signal of a cluster:

    signal = n_expected mu / (k b)

The signal is the expected number of records of a cluster times mu, divided by b. Here b is the half
diagonal of the box in half widths (sqrt d), the largest Euclidean norm of a record.

Each share in the table is relative: the share of the budget is the number divided by the sum of its
row. The shares were found by trials on data sets, and some of these belong to the paper's
evaluation. Every optimum is flat. Doubling or halving one share moved the result of a group of data
sets by about one percent. So users need not tune anything.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np

from fastlloyd.clustering.domain import EXACT_BITS, Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.loss import loss_round, loss_share
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import (
    MAX_CANDIDATES,
    MAX_FEATURES,
    LengthsRound,
    MeanRound,
    MomentAlgorithm,
    Rounds,
    SecondMomentRound,
    SquaresRound,
    StepRound,
    VotesRound,
)
from fastlloyd.mechanisms.moment_lloyd.start import FAR_PART, FEW_CANDIDATES, with_far
from fastlloyd.mechanisms.persons import Persons, max_clients, share_bits
from fastlloyd.mechanisms.queries.query import Question, in_shares
from fastlloyd.mechanisms.queries.spaces import squared_diameter
from fastlloyd.mechanisms.rounds import sqrt_up
from fastlloyd.mechanisms.settings import Settings

UNITS = 1 << 16  # of sums, lengths and offsets
SQUARE_UNITS = 1 << 13  # of squares and second moments, whose noise is drawn faster at this size
LEAST_SQUARE_UNITS = 1 << 4  # of persons: below it rounding would cost more than larger noise
LARGEST_SQUARE_SCALE = 1 << 38  # of their noise: still larger noise takes long to draw
# of the sum of squares over all records: it must leave room for the noise in a ring of 64 bits
SQUARED_SUM_BITS = 58
COUNT = Fraction(2, 100)  # the weight of the number of records
COUNT_SHARE = Fraction(5, 100)  # of a step, for its counts
F = Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of `TABLE`: shares of the budget and radii of the rounds, and the number of directions.
    The row is for runs with at most `max_features` features and a signal below `below_signal`. The
    docstring of the module defines the signal.
    """

    max_features: int
    below_signal: float
    mean: Fraction | None
    lengths: Fraction
    second: Fraction
    votes: Fraction
    steps: tuple[Fraction, ...]
    first_radius: Fraction
    last_radius: Fraction
    mean_radius: Fraction
    second_radius: Fraction
    edge: Fraction
    n_directions: int
    n_inner: int

    def share(self, weight: Fraction, mean: Fraction) -> Fraction:
        """Return the share of mu^2 that a round or part gets.

        weight : weight of the round or part in the row.
        mean : weight of the mean in the row.
        """
        return weight / (COUNT + mean + self.lengths + self.second + self.votes + sum(self.steps))


def _percent(*weights: int) -> tuple[Fraction, ...]:
    return tuple(F(weight, 100) for weight in weights)


def _few_features(
    below_signal: float, steps: tuple[Fraction, ...], first_radius: Fraction, last_radius: Fraction
) -> Row:
    return Row(
        max_features=3, below_signal=below_signal, mean=F(3, 100), lengths=F(0), second=F(5, 100),
        votes=F(50, 100),
        steps=steps, first_radius=first_radius, last_radius=last_radius, mean_radius=F(1),
        second_radius=F(85, 100),
        edge=F(1), n_directions=0, n_inner=0,
    )  # fmt: skip


def _some_features(
    below_signal: float, mean: Fraction, votes: Fraction, steps: tuple[Fraction, ...],
    first_radius: Fraction,
    last_radius: Fraction, mean_radius: Fraction, second_radius: Fraction,
) -> Row:  # fmt: skip
    return Row(
        max_features=32, below_signal=below_signal, mean=mean, lengths=F(3, 100), second=F(15, 100),
        votes=votes,
        steps=steps, first_radius=first_radius, last_radius=last_radius, mean_radius=mean_radius,
        second_radius=second_radius, edge=F(9, 10), n_directions=8, n_inner=0,
    )  # fmt: skip


def _many_features(below_signal: float, votes: Fraction) -> Row:
    return Row(
        max_features=MAX_FEATURES, below_signal=below_signal, mean=None, lengths=F(2, 100),
        second=F(40, 100), votes=votes,
        steps=_percent(6, 6, 6, 20), first_radius=F(9, 10), last_radius=F(9, 10),
        mean_radius=F(8, 10),
        second_radius=F(8, 10), edge=F(7, 10), n_directions=12, n_inner=3,
    )  # fmt: skip


# fmt: off
TABLE = (
    # below signal, steps, radii of the first and the last step
    _few_features(8,        _percent(15, 20, 25),     F(9, 10),  F(9, 10)),
    _few_features(128,      _percent(12, 13, 15, 20), F(11, 10), F(11, 10)),
    _few_features(math.inf, _percent(12, 13, 15, 20), F(11, 10), F(22, 10)),
    # below signal, mean, votes, steps, radii of the first and the last step, of the mean and of the
    # second moment
    _some_features(2,        F(10, 100), F(0),       _percent(20, 30),             F(6, 10),
      F(6, 10),  F(5, 10), F(8, 10)),
    _some_features(4,        F(10, 100), F(0),       _percent(20, 30),             F(8, 10),
      F(8, 10),  F(5, 10), F(8, 10)),
    _some_features(8,        F(10, 100), F(0),       _percent(17, 20, 25),         F(8, 10),
      F(8, 10),  F(5, 10), F(8, 10)),
    _some_features(20,       F(10, 100), F(20, 100), _percent(12, 14, 18, 20),     F(8, 10),
      F(8, 10),  F(5, 10), F(8, 10)),
    _some_features(64,       F(8, 100),  F(30, 100), _percent(10, 10, 12, 15, 20), F(8, 10),
      F(12, 10), F(5, 10), F(8, 10)),
    _some_features(math.inf, F(8, 100),  F(30, 100), _percent(10, 10, 12, 15, 20), F(8, 10),
      F(22, 10), F(8, 10), F(20, 10)),
    # below signal, votes
    _many_features(8,        F(0)),
    _many_features(math.inf, F(10, 100)),
)
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Rounds that the planner chose from its table for the given public numbers."""

    n_directions: int
    edge: Fraction
    rounds: tuple[Rounds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budget of a run, and the numbers on which the costs of its rounds depend."""

    mu_squared: Fraction
    relation: NeighboringRelation
    domain: Domain
    n_clusters: int
    n_directions: int
    count_bits: int
    persons: Persons | None

    def scales(self, question: Question, shares: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        """Return the standard deviation of the noise in each part of a query's answer.

        shares : shares of mu^2, one for each part or one for the whole answer.
        """
        added = question.sensitivity.added
        if len(shares) == len(question.parts):
            (corner,) = added
            variances = [
                F(a) / (share * self.mu_squared) for a, share in zip(corner, shares, strict=True)
            ]
        else:  # parts that one record cannot both move to the full
            (share,) = shares
            variances = [
                F(max(corner[p] for corner in added)) / (share * self.mu_squared)
                for p in range(len(question.parts))
            ]
        spent = sum(shares) * self.mu_squared
        costs = [
            sum(F(a) / v for a, v in zip(corner, variances, strict=True))
            for corner in question.sensitivity.corners(self.relation)
        ]
        dearest = max(costs) / spent  # above 1 where a record may be replaced
        return tuple(sqrt_up(v * dearest) for v in variances)


def design(settings: Settings[MomentAlgorithm]) -> MomentMechanism:
    """Return the mechanism for the settings. Raises BudgetError if no noise gives the guarantee,
    and PlanError if a setting cannot be used.

    The mechanism checks its rounds and its noise again when it is made.
    """
    for_loss = loss_share(settings)
    planned = plan_rounds(settings, (1 - for_loss) * settings.budget)
    return MomentMechanism(
        **settings.fields,
        n_directions=planned.n_directions,
        edge=planned.edge,
        rounds=planned.rounds,
        loss=loss_round(settings, for_loss, UNITS),
    )


def plan_rounds(settings: Settings[MomentAlgorithm], mu_squared: Fraction) -> Planned:
    """Return rounds with their noise, from public numbers alone.

    The rounds together cost mu_squared, or slightly less, because noise scales are rounded up.
    Raises PlanError for more than 1024 features.
    """
    domain, n_clusters, n_expected = settings.domain, settings.n_clusters, settings.expected
    d, mu = domain.n_features, float(mu_squared) ** 0.5 / max_clients(settings.persons)
    b = (domain.squared_half_diagonal / 4**domain.fraction_bits) ** 0.5
    if d > MAX_FEATURES:
        raise PlanError(
            f"there are {d} features, and momentlloyd takes at most {MAX_FEATURES}; use the"
            " algorithm fastlloyd, or fewer features"
        )
    row = _row(d, n_expected * mu / (n_clusters * b))
    r = _n_directions(row, domain)
    mean = _mean_weight(row, d, n_expected * mu) if row.mean is None else row.mean
    share = {name: row.share(getattr(row, name), mean) for name in ("lengths", "second", "votes")}
    budget = Budget(
        mu_squared=mu_squared,
        relation=settings.neighboring_relation,
        domain=domain,
        n_clusters=n_clusters,
        n_directions=r,
        count_bits=settings.count_bits,
        persons=settings.persons,
    )

    def priced(round: Rounds, *shares: Fraction) -> Rounds:
        return msgspec.structs.replace(
            round, scales=budget.scales(in_shares(round.question(budget), budget.persons), shares)
        )

    def in_units(units: int) -> Rounds:
        kind = SecondMomentRound if r else SquaresRound
        return priced(kind(scales=(), radius=row.second_radius, units=units), share["second"])

    rounds: list[Rounds] = [
        priced(
            MeanRound(scales=(), radius=row.mean_radius, units=UNITS),
            row.share(mean, mean),
            row.share(COUNT, mean),
        )
    ]
    if r:
        rounds.append(priced(LengthsRound(scales=(), units=UNITS), share["lengths"]))
    rounds.append(_in_square_units(settings, in_units))
    if row.votes:
        m = _n_candidates(n_expected * mu * float(share["votes"]) ** 0.5 / 4, n_clusters, d)
        rounds.append(priced(VotesRound(scales=(), n_candidates=m), share["votes"]))
    last = len(row.steps) - 1
    for t, weight in enumerate(row.steps):
        radius = row.first_radius + (row.last_radius - row.first_radius) * F(t, max(last, 1))
        step = StepRound(scales=(), radius=radius, units=UNITS, in_directions=t < row.n_inner)
        whole = row.share(weight, mean)
        rounds.append(priced(step, (1 - COUNT_SHARE) * whole, COUNT_SHARE * whole))
    return Planned(n_directions=r, edge=row.edge, rounds=tuple(rounds))


def _in_square_units(
    settings: Settings[MomentAlgorithm], in_units: Callable[[int], Rounds]
) -> Rounds:
    """Return the round that asks for squares, with its noise. Its units are the finest for which
    the sum does not overflow.

    in_units : function that returns the round for a number of units in the radius.

    The number of units is at most `SQUARE_UNITS`. Persons have larger sums and noise, so their
    units are often half as fine. Vectors z in these units are rounded towards zero, so a sum of
    squares is too small by a share of at most 2 sqrt(d) / |z|. With 4096 units in the radius that
    is 1 % at 100 features.
    """
    bits = SQUARED_SUM_BITS - share_bits(settings.persons) - settings.n_records.bit_length()
    units = min(SQUARE_UNITS, 1 << bits // 2)
    round = in_units(units)
    while (
        settings.persons is not None
        and units > LEAST_SQUARE_UNITS
        and max(round.scales) > LARGEST_SQUARE_SCALE
    ):
        units //= 2
        round = in_units(units)
    return round


def _row(d: int, signal: float) -> Row:
    return next(row for row in TABLE if d <= row.max_features and signal < row.below_signal)


def _n_directions(row: Row, domain: Domain) -> int:
    """Return the number of directions in a row of the table, or a smaller number if squared
    distances would not be exact.
    """
    limit = squared_diameter(domain.half_widths)
    return min(row.n_directions, domain.n_features, ((1 << EXACT_BITS) - 1) // (4 * limit))


def _mean_weight(row: Row, d: int, signal: float) -> Fraction:
    """Return the weight of the mean in a row of the table, for many features.

    The mean's share of the budget grows with d / (N mu)^2, from 6 to 45 percent.

    signal : N mu, the expected number of records times mu.
    """
    W = F(
        round(1000 * float(np.clip(60 * d * float(row.mean_radius) ** 2 / signal**2, 0.06, 0.45))),
        1000,
    )
    return W / (1 - W) * (row.lengths + row.second + row.votes + sum(row.steps))


def _n_candidates(wanted: float, n_clusters: int, d: int) -> int:
    """Return the number of candidates in the vote, in which each record votes for the candidate
    nearest to it.

    wanted : number of candidates that should get votes above the noise.

    For up to 3 features, more than `FEW_CANDIDATES` candidates form a regular grid, so their number
    is a d-th power. For more than 3 features, the result includes the candidates far from the mean
    (`start.with_far`).
    """
    most = max(MAX_CANDIDATES, 4 * n_clusters)
    m = int(np.clip(wanted, max(4 * n_clusters, 8), most))
    if d > 3:
        return with_far(min(m, most - most // FAR_PART))
    if m <= FEW_CANDIDATES:
        return m
    per_axis = int(m ** (1 / d) + 1e-9)
    return int(per_axis**d)
