"""A search for an event that tells the worlds apart better than epsilon allows, without a model of
the noise.

A release is (epsilon, delta)-DP if and only if P(E) <= e^epsilon Q(E) + delta for every event E and
both orders of the worlds P, Q. Events are proposed in three families: atoms (a count, the parity of
a sum, one count in all rounds), halfspaces, and bins of histograms in one and two dimensions. The
most promising are picked on one half of the trials and put to the test on the other half, with
Clopper-Pearson bounds whose confidence is shared out over all picked (Bonferroni).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np

from auditing import DELTA, BoolArray, FloatArray, Observations
from bounds import CONFIDENCE, lower_bound, upper_bound
from fastlloyd.base.arrays import IntArray

N_PICKED = 20
QUANTILES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 0.99, 0.997, 0.999)
N_DIRECTIONS = 30

Event = Callable[["Trials"], BoolArray]


@dataclass(frozen=True, eq=False)
class Trials:
    """What the attacker holds of each trial, turned so that a canary adds to the sums. exact :
    int64 (n, T, 2).
    """

    exact: IntArray
    scaled: FloatArray  # the same over the noise's standard deviations, (n, 2 T)
    scores: FloatArray  # (n,)
    present: BoolArray  # (n,)

    @classmethod
    def of(cls, observations: Observations) -> "Trials":
        """One trial per run and cluster."""
        o = observations
        side = np.where(o.signals[..., :1] < 0, -1, 1) * np.array([1, 0]) + np.array([0, 1])
        exact = (o.residuals * side).transpose(0, 2, 1, 3).reshape(-1, *o.deviations.shape)
        scaled = (exact / o.deviations).reshape(len(exact), -1)
        return cls(exact, scaled, o.scores.ravel(), o.present.ravel())

    def half(self, parity: int) -> "Trials":
        """Every second trial of each world."""
        rank = np.where(self.present, np.cumsum(self.present), np.cumsum(~self.present))
        chosen = rank % 2 == parity
        return Trials(
            self.exact[chosen], self.scaled[chosen], self.scores[chosen], self.present[chosen]
        )


@dataclass(frozen=True)
class Separation:
    """An event, and the epsilon that it proves to be exceeded, with the search's confidence over
    all events put to the test.
    """

    name: str
    epsilon: float


def search(observations: Observations, confidence: float = CONFIDENCE) -> Separation:
    """The best of the picked events on the half they were not picked on, proven with `confidence`
    over all of them.
    """
    trials = Trials.of(observations)
    picking, testing = trials.half(0), trials.half(1)
    proposed, promise = list[tuple[str, Event, bool]](), list[float]()
    for name, event in events(picking):
        occurred = event(picking)
        for is_swapped in (False, True):
            proposed.append((name, event, is_swapped))
            promise.append(epsilon_of(occurred, picking, is_swapped, CONFIDENCE))
    picked = [proposed[i] for i in np.argsort(promise)[-N_PICKED:]]
    each = 1 - (1 - confidence) / (2 * N_PICKED)  # two bounds per event
    found = [
        Separation(name, epsilon_of(event(testing), testing, swapped, each))
        for name, event, swapped in picked
    ]
    return max(found, key=lambda separation: separation.epsilon)


def epsilon_of(occurred: BoolArray, trials: Trials, is_swapped: bool, confidence: float) -> float:
    """ln((P(E) - delta) / Q(E)), P bounded from below and Q from above; 0 where that is not
    positive.
    """
    n_present, n_absent = int(trials.present.sum()), int((~trials.present).sum())
    sides = [
        (int(occurred[trials.present].sum()), n_present),
        (int(occurred[~trials.present].sum()), n_absent),
    ]
    (p, n_p), (q, n_q) = reversed(sides) if is_swapped else sides
    likely = float(lower_bound(p, n_p, confidence)) - DELTA
    return max(0.0, float(np.log(likely / upper_bound(q, n_q, confidence)))) if likely > 0 else 0.0


def events(trials: Trials) -> Iterator[tuple[str, Event]]:
    """All events that are proposed; thresholds and bins are quantiles of `trials`."""
    yield from atoms(trials)
    yield from halfspaces(trials)
    yield from bins(trials)


def atoms(trials: Trials) -> Iterator[tuple[str, Event]]:
    """Single values of a count, in one round and in all; residues of a sum."""

    def count_is(value: int, rounds: slice) -> Event:
        return lambda z: np.asarray((z.exact[:, rounds, 1] == value).all(axis=1))

    def sum_is(residue: int, t: int) -> Event:
        return lambda z: z.exact[:, t, 0] % 4 == residue

    n_rounds = trials.exact.shape[1]
    for value in range(-2, 4):
        yield f"count {value} in all rounds", count_is(value, slice(None))
        for t in range(n_rounds):
            yield f"count {value} in round {t + 1}", count_is(value, slice(t, t + 1))
    for t in range(n_rounds):
        yield from (
            (f"sum {residue} mod 4 in round {t + 1}", sum_is(residue, t)) for residue in range(4)
        )


def halfspaces(trials: Trials) -> Iterator[tuple[str, Event]]:
    """Scores above and below thresholds; the same for projections on the axes and on directions
    drawn at random.
    """

    def score_above(threshold: float) -> Event:
        return lambda z: z.scores > threshold

    def projected_on(direction: FloatArray) -> Callable[[Trials], FloatArray]:
        return cache(lambda z: np.asarray(z.scaled @ direction))

    def projection_above(projected: Callable[[Trials], FloatArray], threshold: float) -> Event:
        return lambda z: projected(z) > threshold

    def negation(event: Event) -> Event:
        return lambda z: ~event(z)

    def both(name: str, event: Event) -> Iterator[tuple[str, Event]]:
        yield name, event
        yield f"not {name}", negation(event)

    for threshold in np.quantile(trials.scores, QUANTILES):
        yield from both(f"score above {threshold:.2f}", score_above(threshold))
    dimension = trials.scaled.shape[1]
    drawn = np.random.default_rng(30).standard_normal((N_DIRECTIONS, dimension))
    for number, direction in enumerate([*np.eye(dimension), *drawn], 1):
        projected = projected_on(direction)
        for threshold in np.quantile(projected(trials), QUANTILES):
            yield from both(
                f"projection {number} above {threshold:.2f}", projection_above(projected, threshold)
            )


def bins(trials: Trials) -> Iterator[tuple[str, Event]]:
    """Sixteen bins of each axis, and six by six of each pair of axes."""

    def between(axis: int, low: float, high: float) -> Event:
        return lambda z: (z.scaled[:, axis] > low) & (z.scaled[:, axis] <= high)

    def intersection(first: Event, second: Event) -> Event:
        return lambda z: first(z) & second(z)

    def intervals(axis: int, n_bins: int) -> list[tuple[str, Event]]:
        inner = np.quantile(trials.scaled[:, axis], np.arange(1, n_bins) / n_bins)
        ends = pairwise([-np.inf, *inner.tolist(), np.inf])
        return [
            (f"axis {axis + 1} in ({low:.2f}, {high:.2f}]", between(axis, low, high))
            for low, high in ends
        ]

    dimension = trials.scaled.shape[1]
    for axis in range(dimension):
        yield from intervals(axis, 16)
    for pair in combinations(range(dimension), 2):
        for (name, event), (other_name, other) in product(*(intervals(axis, 6) for axis in pair)):
            yield f"{name}, {other_name}", intersection(event, other)
