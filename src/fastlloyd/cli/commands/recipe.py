"""Commands `fastlloyd recipe new`, `here`, `check`, `explain` and `from`. A recipe is a file that
says how columns become features.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.files import check_file, write_file
from fastlloyd.cli.options import Data, in_output
from fastlloyd.errors import DataError

if TYPE_CHECKING:
    from fastlloyd.records.recipe.recipe import Recipe

RecipePath = Annotated[
    Path, typer.Argument(help="Recipe, such as recipe.toml.", metavar="RECIPE", show_default=False)
]
ResultPath = Annotated[
    Path,
    typer.Argument(help="Folder of a result of fit, simulate or join.", metavar="RESULT"),
]
PlanPath = Annotated[
    Path, typer.Argument(help="Plan that was agreed.", metavar="PLAN", show_default=False)
]
OwnPart = Annotated[Path, in_output("--out", help="File to make.", metavar="FILE")]
NewRecipe = Annotated[Path, in_output("--out", help="File to make.", metavar="FILE")]
Printed = Annotated[
    Path | None, in_output("--out", help="File to make. Default: the screen.", metavar="FILE")
]
Template = Annotated[
    bool,
    in_output(
        "--template", help="Write a form to fill in, and ask nothing. Default without a terminal."
    ),
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier recipe.")]


def new(
    data: Data,
    out: NewRecipe = Path("recipe.toml"),
    template: Template = False,
    force: Force = False,
) -> None:
    """Make a recipe for DATA: by questions at a terminal, or as a form to fill in.

    Types and layout are guessed from the first 100 rows. No value of a record is written.
    """
    from fastlloyd.records.recipe_proposal import look_at
    from fastlloyd.records.recipe_text import TEMPLATE_HEADING
    from fastlloyd.records.recipe_text import template as as_template

    check_file(out, heading=TEMPLATE_HEADING, force=force)
    look = look_at(data)
    for doubt in look.doubts:
        typer.echo(f"Note: {doubt}", err=True)
    if template or not (sys.stdin.isatty() and sys.stdout.isatty()):
        write_file(out, as_template(look))
        typer.echo(
            f"Written to {out}. Replace the words in capitals by public numbers and names, then"
            f" run: fastlloyd recipe check {out} {data}"
        )
        return
    from fastlloyd.cli.recipe_questions import ask

    recipe = ask(look)
    write_file(out, recipe.to_toml())
    typer.echo(f"Written to {out}. See what it does: fastlloyd recipe check {out} {data}")


def here(plan: PlanPath, data: Data, out: OwnPart = Path("own.toml"), force: Force = False) -> None:
    """Write the local part of the recipe of PLAN, for the columns of DATA: the file of one
    organisation for `join --recipe`.

    Columns and layout are guessed from the first 100 rows. No value of a record is written.
    """
    from fastlloyd.cli.settings import read_plan
    from fastlloyd.records.recipe_proposal import look_at
    from fastlloyd.records.recipe_text import BLANK, TEMPLATE_HEADING, own_text

    check_file(out, heading=TEMPLATE_HEADING, force=force)
    m, look = read_plan(plan).mechanism, look_at(data)
    text = own_text(look, m.domain.recipe or (), of_persons=m.persons is not None)
    write_file(out, text)
    blanks = f" Replace each {BLANK} by the name in your file." if f'"{BLANK}"' in text else ""
    typer.echo(
        f"Written to {out}.{blanks} Look at it, then rehearse: join --recipe {out} --dry-run"
    )


def check(recipe: RecipePath, data: Data) -> None:
    """Show what a recipe does with DATA: exact counts for each feature, for the owner only."""
    from rich.console import Console

    from fastlloyd.cli import terminal
    from fastlloyd.jobs.recipe_check import check_recipe
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.records.recipe.rows import Using

    loaded = Recipe.load(recipe, searching=True)
    using = Using(features=loaded.features, here=loaded.here)
    ends = "outside range" if loaded.searched else "outside bounds"
    found = check_recipe(using, data, loaded.here.unit_column)
    counts = list(found.features.values())
    columns = [
        terminal.Column(
            heading="feature", cells=list(found.features), justify="left", is_text=True
        ),
        terminal.Column(heading="missing cells", cells=[str(each.missing) for each in counts]),
        terminal.Column(heading="unknown texts", cells=[str(each.unknown) for each in counts]),
        terminal.Column(heading=ends, cells=[str(each.outside) for each in counts]),
    ]
    screen: Console = terminal.console()
    terminal.show(screen, f"{found.n_rows} rows, exact numbers for you only", columns)
    refused = [
        feature.key
        for feature, _ in using.used
        if (feature.other == "refuse" and found.features[feature.key].unknown)
        or (
            feature.missing == "refuse"
            and feature.per_person is None
            and found.features[feature.key].missing
        )
    ]
    screen.print(
        "These numbers are exact: keep them to yourself, and do not choose bounds by them."
    )
    if refused:
        raise DataError(
            f"a run would refuse the file because of {', '.join(map(repr, refused))}: state what a"
            " missing cell (missing) or another text (other) stands for, or correct the cells",
            field=refused[0],
        )


def explain(recipe: RecipePath) -> None:
    """Say in plain words what a recipe does with each column. It reads no records."""
    from fastlloyd.mechanisms.facts import Fact
    from fastlloyd.records.recipe.recipe import Recipe
    from fastlloyd.reports.facts import said, sentence
    from fastlloyd.reports.recipe_facts import of_recipe

    loaded = Recipe.load(recipe, searching=True)
    for line in said(of_recipe(loaded.features, loaded.searched)):
        typer.echo(f"- {line}")
    typer.echo(sentence(Fact.of("recipe_digest", digest=loaded.digest)))


def from_result(result: ResultPath, out: Printed = None, force: Force = False) -> None:
    """Write the recipe of a result: its features, and the options of the run that made it."""
    from fastlloyd.records.recipe_text import TEMPLATE_HEADING
    from fastlloyd.reports.stored_result import recipe_of

    if out is not None:
        check_file(out, heading=TEMPLATE_HEADING, force=force)
    _write(recipe_of(result), out)


def _write(recipe: "Recipe", out: Path | None) -> None:
    if out is None:
        typer.echo(recipe.to_toml(), nl=False)
    else:
        write_file(out, recipe.to_toml())
        typer.echo(f"Written to {out}.")


GROUP = {"new": new, "here": here, "check": check, "explain": explain, "from": from_result}
