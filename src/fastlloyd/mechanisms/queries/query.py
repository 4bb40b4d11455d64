"""Queries for records. A `Question` is what a plan fixes: everything in a query except its
parameters. A `Query` is a `Question` with its parameters.

The server knows the question of every round, with its shape, parts and sensitivity. It never knows
the parameters. Answers of disjoint sets of records add up to the answer of their union.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.errors import DataError, OverflowRisk
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.queries.inequalities import Inequality
from fastlloyd.mechanisms.queries.parameters import Parameter, Value
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity

# one record moves an entry by at most 2**32, so the answer for a block stays below 2**62
MAX_BLOCK_RECORDS = 1 << 30


class Question:
    """Part of a query that the plan fixes: everything except the parameters."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the question, in the order in which they are sent."""
        raise NotImplementedError

    @property
    def n_rows(self) -> int:
        """Number of rows of the answer."""
        return 1

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of columns of each part of the answer. All noise in a part has the same scale."""
        raise NotImplementedError

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns of the answer."""
        return self.n_rows, sum(self.parts)

    @property
    def sensitivity(self) -> Sensitivity:
        """Largest change of the answer by one record, for all parameters in range."""
        raise NotImplementedError

    @property
    def answer(self) -> Callable[..., IntArray]:
        """Function that returns the exact answer, int64.

        Its arguments are grid points X, int32 or int64 (n, n_features), and checked parameters by
        name.
        """
        raise NotImplementedError

    # where none are known
    def inequalities(
        self,
        answer: IntArray,  # noqa: ARG002
        n_records: int,  # noqa: ARG002
    ) -> tuple[Inequality, ...]:
        """Return inequalities that hold for every exact answer of at most `n_records` records.

        They hold for all parameters in range.
        """
        return ()

    @property
    def digest_prefix(self) -> bytes:
        """Bytes that are hashed before the parameters in the digest of a query."""
        return b"fastlloyd/v1/parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Question with its parameters by name. Arrays are copied.

    Raises OverflowRisk if a parameter is missing, unknown or out of its range.
    """

    question: Question
    values: dict[str, Value] = field(repr=False)  # the server must not see them, nor should a log

    def __post_init__(self) -> None:
        expected = [parameter.name for parameter in self.question.parameters]
        if set(self.values) != set(expected):
            given = ", ".join(sorted(self.values)) or "none"
            raise OverflowRisk(f"the parameters {given} were given; expected {', '.join(expected)}")
        checked = {
            parameter.name: parameter.check(self.values[parameter.name])
            for parameter in self.question.parameters
        }
        object.__setattr__(self, "values", checked)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the parameters in their order, as little-endian int64, 32 bytes.

        The masks of the answer depend on it.
        """
        values = (np.asarray(value, dtype="<i8").tobytes() for value in self.values.values())
        return hashlib.sha256(self.question.digest_prefix + b"".join(values)).digest()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of columns of the answer."""
        return self.question.shape

    # see `answering.Asked`
    def evaluate(self, X: GridArray, first: int = 0) -> IntArray:  # noqa: ARG002
        """Return the exact answer, int64, with the shape of the question.

        X : grid points of the question's domain (`Domain.check_grid`).
        """
        if len(X) > MAX_BLOCK_RECORDS:
            raise DataError(
                f"there are more than {MAX_BLOCK_RECORDS} records in one block; pass smaller blocks"
            )
        return self.question.answer(X, **self.values)


def ask(question: Question, **values: Value) -> Query:
    """Return the query with this question and these parameters."""
    return Query(question=question, values=values)


@dataclass(frozen=True, kw_only=True)
class InShares(Question):
    """Query about persons, made from a query about records (`question`). The answer for each row is
    multiplied by its number of shares (its weight among the rows of its person).

    So the answer is that of `question` for a table that repeats each row as often as its number of
    shares. `InShares.answer` takes rows of one share each, and the client multiplies by the number
    of shares. The shares of one person's rows add up to at most W. Only the sensitivity differs
    from the sensitivity of `question`.
    """

    question: Question
    persons: Persons

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the wrapped question."""
        return self.question.parameters

    @property
    def n_rows(self) -> int:
        """Number of rows of the wrapped question."""
        return self.question.n_rows

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of columns of each part of the answer, as in the wrapped question."""
        return self.question.parts

    @property
    def digest_prefix(self) -> bytes:
        """Digest prefix of the wrapped question."""
        return self.question.digest_prefix

    @property
    def answer(self) -> Callable[..., IntArray]:
        """Function that returns the exact answer for rows with one share each."""
        return self.question.answer

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Largest change of the answer by one person (`Sensitivity.of_persons`)."""
        return self.question.sensitivity.of_persons(self.persons)

    def inequalities(self, answer: IntArray, n_records: int) -> tuple[Inequality, ...]:
        """Return the inequalities of the wrapped question for all shares of `n_records` persons."""
        return self.question.inequalities(answer, n_records * self.persons.shares)


def in_shares(question: Question, persons: Persons | None) -> Question:
    """Return the question for persons, or the question itself if single records are protected."""
    return question if persons is None else InShares(question=question, persons=persons)
