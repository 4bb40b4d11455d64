"""Linear inequalities between the entries of an exact answer, for all records and parameters.

If an answer is computed from records, noise can break an inequality by no more than the noise
itself. `Question.inequalities` lists the inequalities of each kind of query. There are at most
twice as many as the answer has entries.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray


class Term(NamedTuple):
    """Some entries of the answer with the same coefficient, as a part of a linear combination of
    the answer's noise.

    part : index of the part of the answer that has the entries.
    weight : absolute value of the coefficient of each entry.
    times : number of entries.
    """

    part: int
    weight: float | FloatArray = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Inequality:
    """Inequality left <= right between arrays, entry by entry.

    left, right : linear functions of the answer, float64. The left side may have an absolute value,
        and then stands for two inequalities.
    terms : terms of left - right, with weights that broadcast to its shape.
    """

    left: FloatArray
    right: FloatArray
    terms: tuple[Term, ...]


def parts_of_records(
    entries: IntArray, part: int, most: int, n_records: int
) -> tuple[Inequality, ...]:
    """Return inequalities for entries to which a record adds no negative number.

    part : index of the part that has the entries.
    most : largest number that a record adds to all entries together.
    n_records : largest number of records.
    """
    total = float(sum(entries.ravel().tolist()))  # Python's integers: they do not wrap around
    return (
        Inequality(-entries.astype(np.float64), np.zeros(1), (Term(part),)),
        Inequality(
            np.array([total]),
            np.array([float(most * n_records)]),
            (Term(part, times=entries.size),),
        ),
    )


def sums_and_counts(
    answer: IntArray, bounds: IntArray, one: int, n_records: int
) -> tuple[Inequality, ...]:
    """Return inequalities for rows of sums, with a count in the last column.

    A record is added to a single row at most. It changes the sums of that row by at most `bounds`,
    and adds `one` to its count. So |sum| <= bounds (count / one).
    """
    sums, counts = answer[:, :-1].astype(np.float64), answer[:, -1]
    weights = bounds / one
    within = Inequality(
        np.abs(sums),
        counts.astype(np.float64)[:, np.newaxis] * weights,
        (Term(0), Term(1, weights)),
    )
    return within, *parts_of_records(counts, 1, one, n_records)
