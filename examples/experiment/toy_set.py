"""A data set of one's own: three groups of points on a ring, made when it is asked for."""

import numpy as np
import numpy.typing as npt


def ring() -> tuple[npt.NDArray[np.float64], int]:
    """Records (600, 2), and how many clusters are looked for: 3. The same whenever it is called."""
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * np.repeat([0, 1, 2], 200) / 3 + rng.normal(scale=0.25, size=600)
    radius = rng.normal(loc=10, scale=1, size=600)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), 3
