"""A noisy answer as the arithmetic behind it sees it: numbers with the deviation of their noise."""

from dataclasses import dataclass

import numpy as np

from fastlloyd.clustering.domain import FloatArray


@dataclass(frozen=True, slots=True)
class Noisy:
    """One part of an answer, float64, in units that `scaled` may change; deviation : of the noise of each entry."""

    values: FloatArray
    deviation: float

    def scaled(self, unit: float) -> "Noisy":
        """The same in other units, of which one of the present ones has `unit`."""
        return Noisy(self.values * unit, self.deviation * unit)


def rounded(values: FloatArray, most: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The nearest integers within [-most, most]; half towards even."""
    return np.clip(np.rint(values), -np.asarray(most), np.asarray(most)).astype(np.int64)
