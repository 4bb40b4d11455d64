"""Choices of a clustering that a recipe states."""

from typing import Any, Final

from fastlloyd.base.names import fraction
from fastlloyd.jobs.choices import ClusteringChoices, RecipeFeatures
from fastlloyd.mechanisms.lloyd.algorithm import VARIED
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.records.recipe.recipe import Recipe

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
