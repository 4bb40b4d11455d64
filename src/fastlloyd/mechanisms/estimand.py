"""Sentences on what the interval of a centroid covers, the same for every screen, file and page.

The noisy sums of a round say where the *centre* of the records nearest to a centroid is. Records
farther away than a radius R count in part or not at all, so in a skewed column the mean lies
elsewhere. No interval of useful width covers that mean on every data set: docs/accuracy.md has the
proof.
"""

import enum
from collections.abc import Sequence
from typing import Final

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.precision import two_digits_up
from fastlloyd.mechanisms.persons import Persons

SHOWN: Final = 12  # features, or figures, in one sentence


class FarRecords(enum.Enum):
    """Treatment of the records that are farther than R from their centroid in the last round."""

    PULLED_IN = "pulled in to distance R"
    LEFT_OUT = "left out"
    COUNTED = "counted in full"  # there is no R


CENTRES = {
    FarRecords.PULLED_IN: (
        "Where the status is settled, two standard errors to either side cover, in nine of ten"
        " cases, the centre of the records nearest to the centroid: their mean with records"
        " farther than R pulled in to distance R. In a skewed column the mean lies farther out."
    ),
    FarRecords.LEFT_OUT: (
        "Where the status is settled, two standard errors to either side cover, in nine of ten"
        " cases, the centre of the records nearest to the centroid: the mean of those within"
        " distance R. In a skewed column the mean of all of them lies farther out."
    ),
    FarRecords.COUNTED: (
        "Where the status is settled, two standard errors to either side cover, in nine of ten"
        " cases, the mean of the records nearest to the centroid."
    ),
}
WITHOUT_NOISE = "Without noise nothing is estimated: standard errors are 0, and cover nothing."
CLIPPED = "Values outside the bounds count as the bound."
OF_PERSONS = "Each {one} counts once, whatever the number of rows."
AT_SEVERAL = "Each {one} counts once at each organisation, whatever the number of rows."
CANNOT_BE_TOLD = (
    "The released numbers cannot tell how much farther out the mean of a skewed column may lie."
)


def promise(far: FarRecords, persons: Persons | None) -> str:
    """Return what the intervals cover; persons : None if each record counts once."""
    said = [CENTRES[far], CLIPPED]
    if persons is not None:
        counted = OF_PERSONS if persons.max_clients == 1 else AT_SEVERAL
        said.append(counted.format(one=persons.name))
    return " ".join(said)


def radius_in_words(features: Sequence[str], radius: FloatArray) -> str:
    """Return R, float64 (n_features,), in the units of each feature."""
    each = [
        f"{R:.3g} in {name!r}" for name, R in zip(features[:SHOWN], radius.tolist(), strict=False)
    ]
    more = [f"and so on for {len(features) - SHOWN} more"] if len(features) > SHOWN else []
    return f"R is {', '.join([*each, *more])}."


def means_in_words(features: Sequence[str], beyond: FloatArray) -> list[str]:
    """Return a sentence with the figures of `uncertainty.Accuracy.beyond`, or none without one."""
    figures = [
        f"cluster {cluster}, {features[feature]!r}: up to {two_digits_up(size):g}"
        f" {'higher' if beyond[cluster, feature] > 0 else 'lower'}"
        for cluster, feature in np.argwhere(np.isfinite(beyond)).tolist()
        if (size := abs(float(beyond[cluster, feature])))
    ]
    if not figures:
        return []
    more = [f"{len(figures) - SHOWN} more in the files"] if len(figures) > SHOWN else []
    return [f"The mean may lie beyond two standard errors: {'; '.join(figures[:SHOWN] + more)}."]
