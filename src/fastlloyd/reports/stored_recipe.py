"""Recipe of a result, read from the result's folder."""

from pathlib import Path

from fastlloyd.errors import PlanError
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.reports.stored_result import StoredResult


def recipe_of(folder: Path) -> Recipe:
    """Return the public part of a result's recipe, with the options of its run.

    Raises DataError if the folder is not a complete result, and PlanError if its settings were
    changed or have no recipe.
    """
    mechanism = StoredResult.read(folder).mechanism
    recipe = mechanism.domain.recipe
    if recipe is None:
        raise PlanError(f"{folder} is a result without a recipe; its bounds are in its settings")
    privacy = {
        "epsilon": mechanism.epsilon,
        "n_records": mechanism.n_records,
        "n_expected": mechanism.n_expected,
        "neighboring_relation": mechanism.neighboring_relation.value,
    }
    if mechanism.persons is not None:
        privacy |= {
            "unit": "person",
            "unit_name": mechanism.persons.name,
            "max_clients_per_person": mechanism.persons.max_clients,
        }
    clustering = {
        "n_clusters": mechanism.n_clusters,
        "algorithm": mechanism.name,
        "scaling": mechanism.domain.scaling.value,
    }
    return Recipe(features=recipe, privacy=privacy, clustering=clustering)
