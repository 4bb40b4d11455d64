"""Option `--recipe`: a file with values of options, and with the features and their columns.

An option on the command line overrides the option in the file, and a note says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fastlloyd.cli.options import in_clustering
from fastlloyd.cli.usage import BEFORE
from fastlloyd.errors import PlanError

if TYPE_CHECKING:
    from fastlloyd.base.problems import Faults
    from fastlloyd.jobs.choices import StatedBounds
    from fastlloyd.records.recipe.feature import Feature
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.records.recipe.rows import Using


def _take_over(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the options of the recipe the defaults of the command."""
    if path is not None:
        from fastlloyd.records.recipe.recipe import Recipe

        known = {option.name for option in ctx.command.params}
        found = dict(_options(Recipe.load(path, searching=True)))  # a command refuses ranges later
        _take(ctx, {name: value for name, value in found.items() if name in known})
    return path


def _take_over_here(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the local options of the recipe the defaults of the command."""
    if path is not None:
        from fastlloyd.records.recipe.recipe import Recipe

        known = {option.name for option in ctx.command.params}
        found = dict(_local_options(Recipe.load_here(path)))
        _take(ctx, {name: value for name, value in found.items() if name in known})
    return path


def _take_over_numbers(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the public numbers of the recipe the defaults of a forecast."""
    if path is not None:
        from fastlloyd.records.recipe.recipe import Recipe

        recipe = Recipe.load(path, searching=True)
        options = dict(_options(recipe))
        renamed = {
            "records": options.get("n_expected", options.get("n_records")),
            "features": str(len(recipe.columns)),
            "clusters": options.get("n_clusters"),
        }
        known = {option.name for option in ctx.command.params}
        found = {name: value for name, value in {**options, **renamed}.items() if value is not None}
        _take(ctx, {name: value for name, value in found.items() if name in known})
    return path


def _take(ctx: typer.Context, options: Mapping[str, Any]) -> None:
    ctx.default_map = {**(ctx.default_map or {}), **options}
    if BEFORE not in ctx.meta:  # otherwise another option refuses the recipe
        ctx.meta[BEFORE] = lambda: _say_overridden(ctx, options)


def _say_overridden(ctx: typer.Context, options: Mapping[str, Any]) -> None:
    """Print the options of the recipe that the command line overrides, each with both values."""
    for name, value in options.items():
        source, stated = ctx.get_parameter_source(name), ctx.params.get(name)
        if source is not None and source.name == "COMMANDLINE" and str(stated) != str(value):
            option = f"--{name.replace('_', '-')}"
            typer.echo(f"{option} {stated} overrides {name} = {value} of the recipe.", err=True)


RecipeFile = Annotated[
    Path | None,
    in_clustering(
        "--recipe",
        is_eager=True,
        callback=_take_over,
        help=(
            "Recipe of the features, of their bounds and of options (`fastlloyd recipe new` makes"
            " one). Options of the command line override those of the recipe."
        ),
        metavar="FILE",
    ),
]
OwnRecipeFile = Annotated[
    Path | None,
    in_clustering(
        "--recipe",
        is_eager=True,
        callback=_take_over_here,
        help=(
            "Recipe whose part [here] says where the columns of the plan are in your file, and how"
            " its text is written."
        ),
        metavar="FILE",
    ),
]


ForecastRecipe = Annotated[
    Path | None,
    in_clustering(
        "--recipe",
        is_eager=True,
        callback=_take_over_numbers,
        help="Recipe that has the numbers of records, features and clusters. No file of records is"
        " read.",
        metavar="FILE",
    ),
]


def _options(recipe: "Recipe") -> Iterator[tuple[str, Any]]:
    """Yield the options of a recipe, in the form in which a command line has them."""
    for table in (recipe.privacy, recipe.clustering):
        for name, value in table.items():
            yield name, value if isinstance(value, bool) else str(value)
    local = dict(_local_options(recipe.here))
    if recipe.privacy.get("unit") != "person":
        local.pop("unit_column", None)
    yield from local.items()


def _local_options(here: Any) -> Iterator[tuple[str, Any]]:
    from fastlloyd.base.names import joined_list
    from fastlloyd.records.recipe.here import FIELDS

    for name in FIELDS:
        value = getattr(here, name)
        if name in ("names", "dates") or value in (None, ()):
            continue
        yield name, joined_list(value) if isinstance(value, tuple) else str(value)


def given_recipe(
    path: Path | None, columns: str | None, *, searching: bool = False
) -> "Using | None":
    """Return the features of a recipe, with the names of their columns in the user's file, or None
    without a recipe.

    path : file of the recipe, or None.
    columns : keys of the features to use, or None for all.
    searching : whether features may have a range instead of bounds.

    Raises PlanError if the file cannot be read, Problems with all faults of the recipe, and
    DataError if a key in `columns` is unknown.
    """
    if path is None:
        return None
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.records.recipe.rows import Using

    recipe = Recipe.load(path, searching=searching)
    features = chosen_features(recipe, columns)
    keys = tuple(each.key for each in features if each.key in recipe.searched)
    return Using(features=features, here=recipe.here, searched=keys)


def noted_recipe(
    faults: "Faults", path: Path | None, columns: str | None, *, searching: bool = False
) -> "Using | None":
    """Return the features of a recipe as `given_recipe` does. If it raises an error, raise Problems
    with all faults so far, because later faults would only follow from this one.

    faults : faults so far.
    """
    using = faults.value(None, lambda: given_recipe(path, columns, searching=searching), "recipe")
    if path is not None and using is None:
        faults.check()
    return using


def for_search(recipe: "Using | None") -> "Using | None":
    """Return the features whose bounds are to be found, or None without a recipe. Raises PlanError
    if no feature has a range.
    """
    from dataclasses import replace

    from fastlloyd.records.recipe.search import searched_features

    if recipe is None:
        return None
    if not recipe.searched:
        raise PlanError(
            "no feature of the recipe has a range; write range = [LOWER, UPPER] instead of bounds"
            " for each feature whose bounds are to be found",
            field="recipe",
        )
    return replace(recipe, features=searched_features(recipe.features, recipe.searched))


def with_ranges(path: Path | None) -> "Recipe | None":
    """Return a recipe in which features may have a range, or None without a recipe."""
    from fastlloyd.records.recipe.recipe import Recipe

    return None if path is None else Recipe.load(path, searching=True)


def chosen_features(recipe: "Recipe", columns: str | None) -> Any:
    """Return the features with these keys, or all features if the keys are None. Raises DataError
    if a key is unknown.
    """
    from fastlloyd.base.names import parse_columns

    return recipe.features if columns is None else recipe.chosen(parse_columns(columns))


def bounds_of(recipe: "Using | None", bounds: str | None) -> "StatedBounds | None":
    """Return the bounds of a recipe or, without a recipe, of the option --bounds. Raises PlanError
    if both have bounds.
    """
    from fastlloyd.cli.requests import stated
    from fastlloyd.jobs.choices import RecipeFeatures

    if recipe is None:
        return stated(bounds)
    if bounds is not None:
        raise PlanError(
            "the recipe already has the bounds or the range of each feature; leave out --bounds",
            field="bounds",
        )
    return RecipeFeatures(recipe.features, recipe.searched)


def ranges_of(recipe: "Using | None", value_range: str | None) -> "StatedBounds | None":
    """Return the ranges of a recipe or, without a recipe, of the option --range. Return None if
    there are none. Raises PlanError if a recipe and the option are given.
    """
    from fastlloyd.cli.requests import stated
    from fastlloyd.jobs.choices import RecipeFeatures

    if recipe is None:
        return stated(value_range)
    if value_range is not None:
        raise PlanError(
            "the recipe already has the range of each feature; leave out --range",
            field="value_range",
        )
    return RecipeFeatures(recipe.features, recipe.searched).ranges


def columns_of(recipe: "Using | None", features: str | None) -> "Sequence[str]":
    """Return the names of a plan's columns, from a recipe or from the option.

    Raises PlanError if neither names columns, and DataError if a name is empty or repeated.
    """
    from fastlloyd.base.names import parse_columns

    if recipe is not None:
        return [column.name for column in recipe.columns]
    if features is None:
        raise PlanError(
            "--features is missing: name the columns that all clients have, separated by commas,"
            " or pass --recipe FILE",
            field="features",
        )
    return parse_columns(features)


def own_recipe(path: Path | None, agreed: "Sequence[Feature] | None") -> "Using | None":
    """Return the features of a plan, with the names of their columns in the user's file, or None if
    the plan has no recipe.

    path : recipe whose table [here] says where the columns are. None if the columns have the names
        in the plan.
    agreed : features of the plan, or None.

    Raises PlanError if the recipe differs from the recipe of the plan.
    """
    from fastlloyd.records.recipe.here import Here
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.records.recipe.rows import Using

    if agreed is None:
        if path is not None and Recipe.load_here(path).names:
            raise PlanError(
                "the plan has no recipe, so your file must use the plan's names of columns;"
                " rename your columns, or agree on a plan made with `plan new --recipe`",
                field="recipe",
            )
        return None
    here = Here() if path is None else Recipe.load_here(path, agreed)
    return Using(features=tuple(agreed), here=here)
