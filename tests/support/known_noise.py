"""Noise that a test knows: it follows from who draws it and for what, so a process that is started
again draws the same.
"""

import hashlib
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fastlloyd.testing import SeededNoise


class KnownNoise:
    """The production samplers, seeded anew in every call by a name, the scale and the size. NOT
    PRIVATE.
    """

    private = False

    def __init__(self, name: str) -> None:
        self._name = name

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        return self._source(scale, size).gaussian(scale, size)

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        return self._source(scale, size).two_sided_geometric(scale, size)

    def _source(self, scale: Fraction, size: int) -> SeededNoise:
        return SeededNoise(
            int.from_bytes(hashlib.sha256(f"{self._name} {scale} {size}".encode()).digest())
        )
