"""Types of arrays, and arrays that cannot be changed."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
# records on the grid: int32 as a domain makes them (enough, and half as large) or int64
GridArray = NDArray[np.signedinteger]
RealArray = NDArray[np.floating[Any]]
"""Real numbers in the type in which they arrived, float32 or float64."""

_Array = TypeVar("_Array", bound=NDArray[Any])


def fixed(values: _Array) -> _Array:
    """Make the array read-only, because several callers share it. Return the array."""
    values.setflags(write=False)
    return values
