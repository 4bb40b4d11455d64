"""Request for a fit, as one file."""

from typing import ClassVar

from fastlloyd.jobs.choices import choices_of
from fastlloyd.jobs.fit import FitRequest
from fastlloyd.jobs.request_file import RequestFile
from fastlloyd.jobs.source import FileSource, TableSource
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.rows import Using


class FitFile(RequestFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fit"):
    """Request for a fit by one holder of all records. The folder of its result must be free.

    recipe : text of the recipe. It has features, options, and the name of the data set.
    """

    command: ClassVar[str] = "fit"
    recipe: str

    def request(self) -> FitRequest[TableSource]:
        """Return the request. Nothing is read. Raises Problems, PlanError or BudgetError if the
        recipe or an option is not valid.
        """
        recipe = Recipe.from_toml(self.recipe)
        here = recipe.here
        return FitRequest(
            records=FileSource(
                path=self.records,
                unit_column=here.unit_column if recipe.privacy.get("unit") == "person" else None,
                recipe=Using(features=recipe.features, here=here),
                layout=here.layout,
            ),
            choices=choices_of(recipe),
            outside=str(recipe.privacy.get("outside", "clip")),
            account=None if here.dataset is None else self.account(here.dataset),
        )
