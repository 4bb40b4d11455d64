"""Choices of a job as plain values, and checks of them that need no records."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from fastlloyd.base.names import choose, fraction
from fastlloyd.base.numerals import whole
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Scaling
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.catalogue import algorithm, preset
from fastlloyd.mechanisms.lloyd.algorithm import VARIED
from fastlloyd.mechanisms.persons import Persons, Unit, unit
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.records.bounds import Bounds
from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.search import searched_features

FROM_DATA: Final = "from-data"
"""Value of the parameters `bounds` and `n_records`: take them from the data. The guarantee then
does not hold.
"""


PRIVATE: Final = "private"
"""Value of the parameter `bounds`: find bounds within `value_range`, from noisy answers."""


MISSING: Final = "missing-setting"


NEEDS_BOUNDS = (
    "bounds is missing: state the smallest and largest value that each column can have, from public"
    " knowledge (`fastlloyd bounds template` makes a form; `fastlloyd recipe new` makes one for"
    " tables with text, dates or missing cells); with bounds from-data they are taken from the"
    " data: NOT PRIVATE"
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
    """Bounds of features, as a text that `parse_bounds` reads."""

    text: str


class RecipeFeatures(NamedTuple):
    """Features of a recipe, each with its bounds, its weight, and the rule that turns a cell into a
    number.

    searched : keys of the features whose bounds are still to be found. The bounds that the recipe
        states for such a feature are only a range.
    """

    features: tuple[Feature, ...]
    searched: tuple[str, ...] = ()

    @property
    def ranges(self) -> "RecipeFeatures | None":
        """Features for the search for bounds, or None if no bounds are to be found."""
        if not self.searched:
            return None
        return RecipeFeatures(searched_features(self.features, self.searched), self.searched)


StatedBounds = Bounds | BoundsText | RecipeFeatures | str
"""Bounds of columns: a text, Python values or the features of a recipe, or FROM_DATA, or
PRIVATE.
"""


@dataclass(frozen=True, kw_only=True)
class GuaranteeChoices:
    """Choices about the guarantee of a job, as plain values.

    epsilon : privacy budget, or None for 1.
    delta : delta of the guarantee, or None for the default of the mechanism.
    n_records : public cap on the number of records, or of persons. A number, a text of digits, or
        FROM_DATA.
    neighboring_relation : name of the neighbouring relation.
    n_expected : expected number of records, or None.
    public_seed : seed of the first centroids, as a text for `seed_of`, or None for a new seed.
    persons : unit of protection, or None for single records.
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
        """Neighbouring relation. Its name may contain underscores or dashes.

        Raises PlanError if the name is unknown.
        """
        name: Any = self.neighboring_relation
        text: str = name.replace("-", "_") if isinstance(name, str) else name
        return choose(NeighboringRelation, text, "neighboring_relation")

    @property
    def cap(self) -> int | None:
        """Stated public cap on the number of records. None if no cap is stated, or if the cap is to
        be taken from the data.

        Raises PlanError unless it is a whole number of at least 1.
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
        """Return the fields of `RunSettings` by name, except domain, n_records and
        taken_from_the_data.
        """
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
    """Choices of a clustering, as plain values. If a field is None, the preset or the planner
    chooses its value.

    n_clusters : number of clusters.
    bounds : public bounds, or FROM_DATA. PRIVATE or None means that bounds are to be found within
        value_range.
    value_range : public range in which bounds are to be found, or None.
    algorithm : the algorithm, or its name.
    varied : fields of the algorithm to replace, by name.

    The other fields are those of `Settings`.
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
    def stated(self) -> dict[str, StatedBounds | None]:
        """Stated bounds and range, by the name of the setting."""
        return {"bounds": self.bounds, "value_range": self.value_range}

    @property
    def grid(self) -> dict[str, Any]:
        """Scaling and step of the grid, under the names of `Domain`'s parameters. Raises PlanError
        for an unknown scaling.
        """
        scaling = choose(Scaling, self.scaling, "scaling")
        return {"scaling": scaling, "fraction_bits": self.fraction_bits}

    @property
    def chosen_algorithm(self) -> AnyAlgorithm:
        """Algorithm that the choices name, after the choices have replaced some of its fields.
        Raises PlanError if the name or a field is invalid.
        """
        named = preset(self.preset).algorithm if self.algorithm is None else self.algorithm
        return (algorithm(named) if isinstance(named, str) else named).varied(**self.varied)

    def specific(self) -> dict[str, Callable[[], Any]]:
        """Return functions, by the names of fields of `Settings`. Each returns the value of its
        field. The fields of `common` are not among them.

        Each function raises PlanError if its choice is invalid.
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
    """Return the public seed for a choice.

    None gives a new seed. A text of 64 hex digits, as in a plan, gives the bytes that the digits
    encode. An integer or another text is hashed.

    Raises PlanError for an empty text.
    """
    if isinstance(stated, PublicSeed):
        return stated
    if stated == "":  # an empty variable would give everybody the same seed
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
    """Return whether bounds are to be found from noisy answers."""
    return isinstance(bounds, str) and bounds == PRIVATE


def refuse_private(choices: ClusteringChoices) -> None:
    """Raise PlanError if bounds are to be found from noisy answers. The job needs stated bounds."""
    if is_private(choices.bounds) or choices.value_range is not None:
        raise PlanError(
            (
                "this command does not find bounds (--bounds private, --range); use `fastlloyd"
                " fit`, or for several organisations first make a plan that finds them"
                " (`fastlloyd plan new --kind bounds`)"
            ),
            field="bounds",
        )


def _whole_number(text: str) -> int:
    """Return the number that a text of digits states, or 0 for another text."""
    try:
        return whole(text)
    except ValueError:
        return 0


_CALLED: Final = {"loss": "estimate_loss", "iterations": "n_iterations"}
_ELSEWHERE: Final = frozenset({"unit", "unit_name", "max_clients_per_person", "outside"})


def choices_of(recipe: Recipe) -> ClusteringChoices:
    """Return the choices that a recipe states. A choice that it does not state has its default
    value.

    Raises PlanError for a name of persons that cannot be used.
    """
    given = {**recipe.privacy, **recipe.clustering}
    found: dict[str, Any] = {
        _CALLED.get(name, name): value
        for name, value in given.items()
        if name not in _ELSEWHERE and name not in VARIED
    }
    if "loss_share" in found:
        found["loss_share"] = fraction(found["loss_share"], "loss_share")
    return ClusteringChoices(
        **{"n_clusters": 0} | found,
        bounds=RecipeFeatures(recipe.features),
        varied={name: given.get(name) for name in VARIED},
        persons=persons_of(recipe),
    )


def persons_of(recipe: Recipe) -> Persons | None:
    """Return the persons that a recipe protects, or None for records. Raises PlanError for a name
    that cannot be used.
    """
    if recipe.privacy.get("unit") != "person":
        return None
    return Persons.called(str(recipe.privacy.get("unit_name", "person")))
