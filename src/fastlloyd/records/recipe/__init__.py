"""Public recipe that says how the columns of a table become the features that are clustered."""

from fastlloyd.records.recipe.feature import Feature
from fastlloyd.records.recipe.here import Here
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.together import columns_of

__all__ = ["Feature", "Here", "Recipe", "columns_of"]
