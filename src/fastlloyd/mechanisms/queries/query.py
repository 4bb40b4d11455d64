"""A question is what the plan fixes of a query; with parameters in range it becomes a query.

The server knows the question of every exchange and never its parameters: shape, parts and sensitivity are the question's.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import GridArray
from fastlloyd.errors import DataError, OverflowRisk
from fastlloyd.mechanisms.queries.parameters import Parameter, Value
from fastlloyd.mechanisms.queries.sensitivity import Sensitivity

MAX_BLOCK_RECORDS = 1 << 30  # no entry moves by more than 2**32 per record, so the answer for a block stays below 2**62


class Question(Protocol):
    """Constants of the plan from which everything but the answer follows."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What must be given to ask it, in the order in which it is sent."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the answer."""

    @property
    def parts(self) -> tuple[int, ...]:
        """How many columns each part has: the entries of a part carry noise of one scale."""

    @property
    def sensitivity(self) -> Sensitivity:
        """Of the answer, for all parameters in range."""

    @property
    def answer(self) -> Callable[..., IntArray]:
        """The exact answer for grid points X, int32 or int64 (n, n_features), and checked parameters by name: int64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with its parameters: a linear query over records, like those of `queries.py`.

    values : by name. Raises OverflowRisk if one is missing, unknown or out of its range; keeps copies of arrays.
    """

    question: Question
    values: dict[str, Value] = field(repr=False)  # the server must not see them, nor should a log

    def __post_init__(self) -> None:
        expected = [parameter.name for parameter in self.question.parameters]
        if set(self.values) != set(expected):
            given = ", ".join(sorted(self.values)) or "none"
            raise OverflowRisk(f"the parameters {given} were given; expected {', '.join(expected)}")
        checked = {parameter.name: parameter.check(self.values[parameter.name]) for parameter in self.question.parameters}
        object.__setattr__(self, "values", checked)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the parameters in their order as little-endian int64, 32 bytes; the question says their shapes."""
        values = (np.asarray(self.values[parameter.name], dtype="<i8").tobytes() for parameter in self.question.parameters)
        return hashlib.sha256(b"fastlloyd/v1/parameters" + b"".join(values)).digest()

    def evaluate(self, X: GridArray) -> IntArray:
        """The exact answer for grid points X of the question's domain (`Domain.check_grid`), int64 of the question's shape."""
        if len(X) > MAX_BLOCK_RECORDS:
            raise DataError(f"there are more than {MAX_BLOCK_RECORDS} records in one block; pass smaller blocks")
        return self.question.answer(X, **self.values)


def ask(question: Question, **values: Value) -> Asked:
    """The query with these parameters; see `Asked`."""
    return Asked(question=question, values=values)
