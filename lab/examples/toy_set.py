"""Example of a user's own data set: eight groups of points on a ring, generated on request."""

import numpy as np
import numpy.typing as npt

N_GROUPS, GROUP = 8, 500


def ring() -> tuple[npt.NDArray[np.float64], int]:
    """Return the records (4000, 2), and the number of clusters, 8. Each call returns the same
    records.
    """
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * np.repeat(np.arange(N_GROUPS), GROUP) / N_GROUPS + rng.normal(
        scale=0.1, size=N_GROUPS * GROUP
    )
    radius = rng.normal(loc=10, scale=1, size=N_GROUPS * GROUP)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), N_GROUPS
