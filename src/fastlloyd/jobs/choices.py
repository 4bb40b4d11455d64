"""Choices of a job as plain values, and the checks that need no records."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from fastlloyd.base.names import choose, fraction
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.catalogue import algorithm, preset
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.records.bounds import Bounds

FROM_DATA: Final = "from-data"
"""Value of bounds or n_records that takes it from the data. The guarantee then does not hold."""


PRIVATE: Final = "private"
"""Value of bounds that has them found, with noise, in value_range."""


MISSING: Final = "missing-setting"


NEEDS_BOUNDS = (
    "bounds is missing: state the smallest and largest value that each column can have, from public"
    " knowledge (`fastlloyd bounds template` makes a form); with bounds from-data they are taken"
    " from the data: NOT PRIVATE"
)


NEEDS_RANGE = (
    "value_range is missing: state a public range that surely contains all values; bounds are"
    " searched for within it"
)


NEEDS_CAP = (
    "n_records is missing: state a round number above the number of {many}; with"
    " n_records from-data the cap is taken from the data: NOT PRIVATE"
)


class BoundsText(NamedTuple):
    """Bounds in the text form of `parse_bounds`."""

    text: str


StatedBounds = Bounds | BoundsText | str
"""Bounds of columns, as a text or as programs give them; or FROM_DATA, or PRIVATE."""


@dataclass(frozen=True, kw_only=True)
class GuaranteeChoices:
    """Choices of every private job, as plain values.

    epsilon None: 1. delta None: the default of the mechanism. n_records : public cap on the number
    of records, or of persons, as a number or a text of digits, or FROM_DATA. public_seed : of the
    first centroids, a text as of `seed_of`, or None for a fresh one. persons : unit of protection,
    or None for single records.
    """

    epsilon: float | None = None
    delta: float | None = None
    n_records: int | str | None = None
    neighboring_relation: str = NeighboringRelation.ADD_OR_REMOVE_ONE.value
    n_expected: int | None = None
    public_seed: PublicSeed | str | None = None
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        """Unit of protection, in words."""
        return unit(self.persons)

    @property
    def relation(self) -> NeighboringRelation:
        """Return the neighbouring relation, spelled with underscores or dashes. Raises
        PlanError.
        """
        name: Any = self.neighboring_relation
        text: str = name.replace("-", "_") if isinstance(name, str) else name
        return choose(NeighboringRelation, text, "neighboring_relation")

    @property
    def cap(self) -> int | None:
        """Return the stated public cap, or None if it is to be taken from the data. Raises
        PlanError.
        """
        stated = self.n_records
        if stated is None or stated == FROM_DATA:
            return None
        number = _whole_number(stated) if isinstance(stated, str) else int(stated)
        if number < 1:
            text, instead = repr(stated), ""
            if isinstance(stated, str):
                is_number = stated.lstrip("-").isdigit()
                text, instead = stated if is_number else text, f", or {FROM_DATA}"
            raise PlanError(
                f"n_records is {text:.40}, the cap on the number of {self.unit.many};"
                f" expected a whole number, at least 1{instead}",
                field="n_records",
            )
        return number

    def common(self) -> dict[str, Any]:
        """Return the fields of `RunSettings` except domain, n_records and the leaks."""
        return {
            "epsilon": 1.0 if self.epsilon is None else float(self.epsilon),
            "delta": None if self.delta is None else float(self.delta),
            "public_seed": seed_of(self.public_seed),
            "n_expected": self.n_expected,
            "neighboring_relation": self.relation,
            "persons": self.persons,
        }


@dataclass(frozen=True, kw_only=True)
class ClusteringChoices(GuaranteeChoices):
    """Choices of a clustering, as plain values. None leaves a choice to preset and planner.

    bounds : public bounds, or FROM_DATA; PRIVATE or None if they are to be found in value_range.
    algorithm : its name, or itself.
    varied : fields of the algorithm to replace, by name. The others are those of `Settings`.
    """

    n_clusters: int
    bounds: StatedBounds | None = None
    value_range: StatedBounds | None = None
    scaling: str = Scaling.PER_FEATURE.value
    fraction_bits: int = 16
    algorithm: AnyAlgorithm | str | None = None
    varied: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "default"
    n_iterations: int | None = None
    initialization: str | None = None
    min_count: float | Fraction | None = None
    estimate_loss: bool = False
    loss_share: float | Fraction | None = None

    @property
    def finds_bounds(self) -> bool:
        """Return whether bounds are found privately."""
        return self.value_range is not None

    @property
    def stated(self) -> dict[str, StatedBounds | None]:
        """Return the stated bounds and range, by the name of the setting."""
        return {"bounds": self.bounds, "value_range": self.value_range}

    @property
    def grid(self) -> dict[str, Any]:
        """Return scaling and step of the grid under the names of `Domain`. Raises PlanError."""
        scaling = choose(Scaling, self.scaling, "scaling")
        return {"scaling": scaling, "fraction_bits": self.fraction_bits}

    @property
    def chosen_algorithm(self) -> AnyAlgorithm:
        """Return the algorithm with its replaced fields. Raises PlanError."""
        named = preset(self.preset).algorithm if self.algorithm is None else self.algorithm
        return (algorithm(named) if isinstance(named, str) else named).varied(**self.varied)

    def specific(self) -> dict[str, Callable[[], Any]]:
        """Return functions that make the fields of `Settings` missing in the base class, by name.
        They raise PlanError.
        """
        return {
            "algorithm": lambda: self.chosen_algorithm,
            "preset": lambda: preset(self.preset),
            "n_clusters": lambda: self.n_clusters,
            "n_iterations": lambda: self.n_iterations,
            "initialization": lambda: (
                None
                if self.initialization is None
                else choose(RadiusSearch, self.initialization, "initialization")
            ),
            "min_count": lambda: (
                None if self.min_count is None else fraction(self.min_count, "min_count")
            ),
            "estimate_loss": lambda: bool(self.estimate_loss),
            "loss_share": lambda: self.loss_share,
        }


def seed_of(stated: PublicSeed | str | None) -> PublicSeed:
    """Return a seed: a new one for None, the bytes of 64 hex digits, as in a plan, or else the hash
    of an integer or other text.

    Raises PlanError for an empty text.
    """
    if isinstance(stated, PublicSeed):
        return stated
    if stated == "":  # a variable that is not set would give everybody the same
        raise PlanError(
            "public_seed is empty; expected a number or a text; leave it out for a new seed",
            field="public_seed",
        )
    if stated is None:
        return PublicSeed(os.urandom(32))
    if re.fullmatch(r"[0-9a-f]{64}", stated):
        return PublicSeed.from_hex(stated)
    if re.fullmatch(r"[0-9]{1,80}", stated):
        return PublicSeed.from_int(int(stated))
    return PublicSeed.from_text(stated)


def is_private(bounds: object) -> bool:
    """Return whether bounds are to be found privately."""
    return isinstance(bounds, str) and bounds == PRIVATE


def refuse_private(choices: ClusteringChoices) -> None:
    """Raise PlanError for private bounds in a job that needs stated ones."""
    if is_private(choices.bounds) or choices.value_range is not None:
        raise PlanError(
            (
                "bounds private works only in fit; for several organisations first make a"
                " plan that finds the bounds (`fastlloyd plan new --kind bounds`)"
            ),
            field="bounds",
        )


def _whole_number(text: str) -> int:
    """Return the number of a text of digits, or 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
