"""Inner loop that sorts the indices of records by key."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.jit import Points, kernel, read


@kernel(types.void(read(types.int32, 1), read(types.uint16, 1), types.int64[::1], types.int32[::1]))
def place(points: Points, keys: NDArray[np.uint16], places: IntArray, memory: Points) -> None:
    """Write each number to the next free place of its key.

    places : next free place of each key in `memory`, int64 (number of keys,), increased here.
    """
    for r in range(len(points)):
        at = places[keys[r]]
        memory[at] = points[r]
        places[keys[r]] = at + 1
