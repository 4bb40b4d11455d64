"""Inner loop that sorts the indices of records by the keys of the records."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.jit import Points, kernel, read


@kernel(types.void(read(types.int32, 1), read(types.uint16, 1), types.int64[::1], types.int32[::1]))
def place(points: Points, keys: NDArray[np.uint16], places: IntArray, memory: Points) -> None:
    """Write one given number of each record, such as its index, to the next free place of its key.

    points : one number of each record.
    keys : key of each record.
    places : next free place of each key in `memory`, int64 (number of keys,), increased here.
    memory : output.
    """
    for r in range(len(points)):
        at = places[keys[r]]
        memory[at] = points[r]
        places[keys[r]] = at + 1
