"""Query for a histogram of each feature: counts in a tree of equal intervals, level by level."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.kernels import blocks
from fastlloyd.clustering.parallel import NUMPY_STEPS, sum_over_spans
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.queries.inequalities import Inequality, Term
from fastlloyd.mechanisms.queries.nearest import MAX_COUNT_BITS
from fastlloyd.mechanisms.queries.parameters import Parameter
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity

BRANCHES = 8  # children of a node
MAX_LEVELS = 4


@dataclass(frozen=True, kw_only=True)
class Histograms(Question):
    """Query for the number of records in each node of a tree of intervals, for each feature.

    Levels have 8, 64, 512, ... nodes, so the answer is (d, 8 + 64 + ...), with one part for each
    level. Counts are in units of 2**-count_bits records.

    The parameters are `start` and `step`, int64 (d,), in grid units. The nodes of the last level,
    the leaves, are intervals of width `step` from `start` on. Leaf 0 also counts all values below,
    and the last leaf all values above. A node of another level is the union of eight nodes of the
    next level.

    Adding or removing a record changes one node for each feature and level by 2**count_bits.
    Replacing a record changes two nodes.
    """

    domain: Domain
    n_levels: int
    count_bits: int = 0

    def __post_init__(self) -> None:
        if type(self.n_levels) is not int or not 1 <= self.n_levels <= MAX_LEVELS:
            raise PlanError(f"n_levels is {self.n_levels!r:.40}; expected 1 to {MAX_LEVELS}")
        if type(self.count_bits) is not int or not 0 <= self.count_bits <= MAX_COUNT_BITS:
            raise PlanError(
                f"count_bits is {self.count_bits!r:.40}; expected 0 to {MAX_COUNT_BITS}"
            )

    @cached_property
    def n_leaves(self) -> int:
        """Number of nodes of the last level."""
        return int(BRANCHES**self.n_levels)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters `start`, within the box, and `step`.

        `step` is so small that the leaves do not extend beyond the box.
        """
        B, shape = self.domain.half_widths, (self.domain.n_features,)
        start = Parameter(name="start", shape=shape, least=-B, most=B.copy())
        return start, Parameter(
            name="step", shape=shape, least=np.ones_like(B), most=-(-2 * B // self.n_leaves)
        )

    @property
    def n_rows(self) -> int:
        """Number of rows of the answer, one for each feature."""
        return self.domain.n_features

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Number of nodes of each level."""
        return tuple(BRANCHES**level for level in range(1, self.n_levels + 1))

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Sensitivity derived in the docstring of the class.

        One record may change d nodes of every level at once, one for each feature, each by its full
        bound.
        """
        one, d = 1 << self.count_bits, self.domain.n_features
        return Sensitivity(
            entries=(one,) * self.n_levels,
            added=((d * one**2,) * self.n_levels,),
            replaced=((2 * d * one**2,) * self.n_levels,),
        )

    def answer(self, X: GridArray, *, start: IntArray, step: IntArray) -> IntArray:
        """Return the exact number of records in each node of every level, with one row for each
        feature.

        Counts are in units of 2**-count_bits records.
        """
        ends = list(zip(start.tolist(), step.tolist(), strict=True))

        def of_span(first: int, stop: int) -> IntArray:
            counts = np.zeros((len(ends), self.n_leaves), dtype=np.int64)
            for begin, end in blocks(stop - first, 1, None):
                for j, (low, width) in enumerate(ends):
                    leaves = self._leaves(X[first + begin : first + end, j], low, width)
                    counts[j] += np.bincount(leaves, minlength=self.n_leaves)
            return counts

        levels = [sum_over_spans(of_span, X, NUMPY_STEPS)]
        while levels[0].shape[1] > BRANCHES:
            levels.insert(0, levels[0].reshape(len(ends), -1, BRANCHES).sum(axis=2))
        return np.concatenate(levels, axis=1) << self.count_bits

    def _leaves(self, x: GridArray, start: int, step: int) -> NDArray[np.int64]:
        """Return, for each value of a feature, the index of the leaf (interval of the last level)
        that contains it, (n,).

        Integer division makes the edges exact.
        """
        return np.clip((x.astype(np.int64) - start) // step, 0, self.n_leaves - 1)

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return inequalities that every exact answer satisfies.

        No count is below 0. A level of a feature counts every record once. A node is the sum of its
        children.
        """
        levels = np.split(answer.astype(np.float64), np.cumsum(self.parts)[:-1], axis=1)
        most = np.array([float(n_records << self.count_bits)])
        said = []
        for part, counts in enumerate(levels):
            said.append(Inequality(-counts, np.zeros(1), (Term(part),)))
            said.append(Inequality(counts.sum(axis=1), most, (Term(part, times=counts.shape[1]),)))
        for part, (nodes, children) in enumerate(pairwise(levels)):
            apart = np.abs(nodes - children.reshape(*nodes.shape, BRANCHES).sum(axis=2))
            said.append(
                Inequality(apart, np.zeros(1), (Term(part), Term(part + 1, times=BRANCHES)))
            )
        return tuple(said)
