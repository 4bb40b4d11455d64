"""A data set of one's own: eight groups of points on a ring, made when it is asked for."""

import numpy as np
import numpy.typing as npt

N_GROUPS, GROUP = 8, 500


def ring() -> tuple[npt.NDArray[np.float64], int]:
    """Records (4000, 2), and how many clusters are looked for: 8. The same whenever it is
    called.
    """
    rng = np.random.default_rng(1)
    angle = 2 * np.pi * np.repeat(np.arange(N_GROUPS), GROUP) / N_GROUPS + rng.normal(
        scale=0.1, size=N_GROUPS * GROUP
    )
    radius = rng.normal(loc=10, scale=1, size=N_GROUPS * GROUP)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), N_GROUPS
