"""Parameters of a query that follow from earlier answers: integers in known ranges.

The client that computes the parameters may err or cheat. For *every* value in range, one record
changes an answer by at most the sensitivity, and no product of integers wraps around. A value out
of range is refused. So a wrong parameter costs accuracy, never privacy.
"""

import math
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import OverflowRisk

Value = int | IntArray


class Parameter(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One parameter: its name, its shape, and the range of its entries.

    shape : () for a Python int, otherwise the shape of an int64 array.
    least, most : smallest and largest value of an entry, integers that broadcast to the shape.
    column_square : largest squared norm of a column of a matrix, or None for no limit.
    """

    name: str
    shape: tuple[int, ...]
    least: Any
    most: Any
    column_square: int | None = None

    def __post_init__(self) -> None:
        for limits in (self.least, self.most):
            if isinstance(limits, np.ndarray):
                limits.setflags(write=False)  # all who ask share them

    @cached_property
    def size(self) -> int:
        """Number of integers of the parameter."""
        return math.prod(self.shape)

    @cached_property
    def dtype(self) -> np.dtype[np.signedinteger]:
        """Type in which the integers are sent: little-endian, 4 bytes, or 8 if the range is
        wider.
        """
        reach = max(int(np.abs(self.least).max(initial=0)), int(np.abs(self.most).max(initial=0)))
        return np.dtype("<i4") if reach < 1 << 31 else np.dtype("<i8")

    def check(self, value: Value) -> Value:
        """Return the value if it has the type, the shape and the range of the parameter. An array
        is copied, so that no other code can change it.

        Raises OverflowRisk for any other value. The message does not show the value.
        """
        if self.shape == ():
            if type(value) is not int or not self.least <= value <= self.most:
                raise OverflowRisk(
                    f"the parameter {self.name} is not a Python int from {self.least} to"
                    f" {self.most}"
                )
            return value
        if type(value) is not np.ndarray or value.dtype != np.int64 or value.shape != self.shape:
            raise OverflowRisk(
                f"the parameter {self.name} is not an int64 array of shape {self.shape}"
            )
        own = np.array(value, dtype=np.int64, order="C")
        if not ((own >= self.least) & (own <= self.most)).all():
            raise OverflowRisk(
                f"an entry of the parameter {self.name} is out of its range; the client that sent"
                " it is at fault"
            )
        if self.column_square is not None and _longest_column(own) > self.column_square:
            raise OverflowRisk(
                f"a column of the parameter {self.name} has a Euclidean norm above 1; the client"
                " that sent it is at fault"
            )
        return own


def _longest_column(V: IntArray) -> int:
    """Return the largest squared norm of a column, as an exact integer."""
    columns: list[list[int]] = V.T.tolist()
    return max((sum(v * v for v in column) for column in columns), default=0)


def symmetric(name: str, shape: tuple[int, ...], limits: IntArray) -> Parameter:
    """Return a parameter for points whose coordinates are in [-limit, limit].

    limits : limit of each coordinate of the last axis.
    """
    return Parameter(name=name, shape=shape, least=-limits, most=limits.copy())
