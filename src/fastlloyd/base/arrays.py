"""Types of arrays, said once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RealArray = NDArray[np.floating[Any]]
"""Real numbers as they were found, float32 or float64."""
