"""Facts about a run: names, numbers and types, which `reports/facts.py` turns into words.

A new algorithm may state facts for which `reports/facts.py` has no words. They appear as names and
values.
"""

import enum
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """Fact that becomes one sentence or phrase.

    name : name of the fact, which programs and tests rely on.
    values : numbers and names of the fact, by name.
    """

    name: str
    values: dict[str, Any]

    @classmethod
    def of(cls, name: str, /, **values: Any) -> "Fact":
        """Return the fact with this name and these values."""
        return cls(name, values)


Facts = tuple[Fact, ...]  # sentences that follow each other


class Finds(enum.Enum):
    """Kind of result of a run."""

    CLUSTERS = "clusters"
    BOUNDS = "bounds"


class SumUnit(enum.Enum):
    """Unit of the sums in a run's answers, and of their noise."""

    GRID = "grid"  # steps of the domain's grid
    ROUND = "round"  # the radius of the round over its units, known only during the run
    NONE = "none"  # only records are counted


class FarRecords(enum.Enum):
    """Treatment of the records that are farther than a radius R from their centroid in the last
    round.

    The noisy sums of a round show the *centre* of the records nearest to a centroid. Records
    farther away than R count in part or not at all. So if a column is skewed, the mean of the
    records differs from this centre. No interval of useful width covers the mean on every data set
    (proof in docs/accuracy.md).
    """

    PULLED_IN = "pulled in to distance R"
    LEFT_OUT = "left out"
    COUNTED = "counted in full"  # there is no R
