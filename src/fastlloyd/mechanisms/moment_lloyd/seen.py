"""What the rounds have shown: votes and steps, kept to say in the end how far centroids may be from their records."""

from dataclasses import dataclass, replace
from typing import Self

from fastlloyd.clustering.domain import IntArray
from fastlloyd.mechanisms.moment_lloyd.noisy import Noisy


@dataclass(frozen=True, slots=True)
class Histogram:
    """Candidates, int64 (m, r), as the votes were asked for, and the noisy votes (m, 1)."""

    candidates: IntArray
    votes: Noisy


@dataclass(frozen=True, slots=True)
class Step:
    """One step among all features: centroids, int64 (k, d), as it was asked; noisy sums of offsets (k, d) and counts (k, 1)."""

    centroids: IntArray
    sums: Noisy
    counts: Noisy


@dataclass(frozen=True, slots=True)
class Seen:
    """histogram : None where there were no votes. steps : in order."""

    histogram: Histogram | None = None
    steps: tuple[Step, ...] = ()

    def with_votes(self, candidates: IntArray, votes: Noisy) -> Self:
        """And these votes."""
        return replace(self, histogram=Histogram(candidates, votes))

    def with_step(self, centroids: IntArray, sums: Noisy, counts: Noisy) -> Self:
        """And this step."""
        return replace(self, steps=(*self.steps, Step(centroids, sums, counts)))
