"""Facts about a run: names, numbers and types, which `reports/facts.py` turns into words.

An algorithm of its own may state facts that have no words there; they are shown as names and
values.
"""

import enum
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """One fact, to be told in one sentence or phrase.

    name : of the fact, stable, for programs and tests. values : its numbers and names, by name.
    """

    name: str
    values: dict[str, Any]

    @classmethod
    def of(cls, name: str, /, **values: Any) -> "Fact":
        """Return the fact of that name with these values."""
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
    """Treatment of the records that are farther than R from their centroid in the last round.

    The noisy sums of a round say where the *centre* of the records nearest to a centroid is.
    Records farther away than a radius R count in part or not at all, so in a skewed column the mean
    lies elsewhere. No interval of useful width covers that mean on every data set:
    docs/accuracy.md has the proof.
    """

    PULLED_IN = "pulled in to distance R"
    LEFT_OUT = "left out"
    COUNTED = "counted in full"  # there is no R
