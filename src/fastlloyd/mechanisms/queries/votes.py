"""Which of some public candidates the records are near: a histogram."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import GridArray
from fastlloyd.mechanisms.queries.offsets import check_count
from fastlloyd.mechanisms.queries.parameters import Parameter, symmetric
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity
from fastlloyd.mechanisms.queries.spaces import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes(Question):
    """How many records each candidate is the nearest of, ties to the lowest index: (m, 1), on a grid of 2**-count_bits records.

    One record added or removed moves one entry by 2**count_bits; one replaced moves two.
    """

    parts: ClassVar[tuple[int, ...]] = (1,)
    space: Space
    n_candidates: int
    count_bits: int = 0

    def __post_init__(self) -> None:
        check_count("n_candidates", self.n_candidates, self.count_bits)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """`candidates` among the points of the space, int64 (n_candidates, n_coordinates), and what places the records."""
        limits = self.space.limits
        return symmetric("candidates", (self.n_candidates, len(limits)), limits), *self.space.parameters

    @property
    def n_rows(self) -> int:
        """A row per candidate."""
        return self.n_candidates

    @property
    def sensitivity(self) -> Sensitivity:
        """See the class."""
        one = 1 << self.count_bits
        return Sensitivity(entries=(one,), added=((one**2,),), replaced=((2 * one**2,),))

    def answer(self, X: GridArray, *, candidates: IntArray, **frame: IntArray) -> IntArray:
        """See `Question.answer`."""
        labels = kernels.assign(self.space.place(X, **frame), candidates, limits=self.space.limits)
        return np.bincount(labels, minlength=self.n_candidates)[:, np.newaxis].astype(np.int64) << self.count_bits
