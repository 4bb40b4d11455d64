"""Linear inequalities between the entries of an exact answer, for all records and parameters.

A noisy answer breaks them by at most what noise can do, unless it is not the answer of records.
Each kind of question lists its own (`Question.inequalities`), at most twice as many as its answer
has entries.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray


class Term(NamedTuple):
    """Summand of a linear form in the noise of an answer.

    part : number of the part of the answer that has the entries.
    weight : absolute value of the coefficient of each entry.
    times : number of entries.
    """

    part: int
    weight: float | FloatArray = 1.0
    times: int = 1


@dataclass(frozen=True, slots=True)
class Inequality:
    """Inequality left <= right, entry by entry. An absolute value on the left makes two
    inequalities.

    left, right : float64, linear in the answer otherwise. terms : the terms of left - right, with
        weights that broadcast to it.
    """

    left: FloatArray
    right: FloatArray
    terms: tuple[Term, ...]


def parts_of_records(
    entries: IntArray, part: int, most: int, n_records: int
) -> tuple[Inequality, ...]:
    """Return the inequalities if a record adds nothing below 0 to these entries of a part, and at
    most `most` to all of them together.
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
    """Return the inequalities for rows of sums and, last, a count in units of 1 / one.

    A record adds at most `bounds` and `one`, to at most one row. So |sum| <= bounds (count / one).
    """
    sums, counts = answer[:, :-1].astype(np.float64), answer[:, -1]
    weights = bounds / one
    within = Inequality(
        np.abs(sums),
        counts.astype(np.float64)[:, np.newaxis] * weights,
        (Term(0), Term(1, weights)),
    )
    return within, *parts_of_records(counts, 1, one, n_records)
