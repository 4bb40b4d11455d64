"""Counts of what a recipe does with the owner's file, made in a process of its own. The counts are
exact and for the owner only: they are shown once, and stored nowhere.
"""

import subprocess  # nosec B404 - runs this very program
import sys
from typing import Final

import msgspec

from fastlloyd.app.looking import answered_in_a_process
from fastlloyd.errors import FastLloydError
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.jobs.recipe_check import RecipeCheck, check_recipe
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe.rows import Using

SECONDS: Final = 60.0


class FileCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a file, or a fault.

    fault : sentence that says why the file cannot be counted, or "".
    counts : exact counts. Do not publish them.
    """

    fault: str = ""
    counts: RecipeCheck | None = None


def checked_in_a_process(file: FitFile, seconds: float = SECONDS) -> FileCheck:
    """Return the counts of the file of a request. They are counted in another process, which is
    stopped after `seconds`.
    """
    try:
        return answered_in_a_process("fastlloyd.app.checking", file, FileCheck, seconds)
    except (subprocess.TimeoutExpired, ValueError):
        return FileCheck(
            fault="The file is too large to be counted here. The run can read it; to count, use"
            " fastlloyd recipe check."
        )


def _check(file: FitFile) -> FileCheck:
    try:
        file.check_unchanged()
        recipe = Recipe.from_toml(file.recipe)
        using = Using(features=recipe.features, here=recipe.here)
        return FileCheck(counts=check_recipe(using, file.records, recipe.here.unit_column))
    except FastLloydError as error:
        return FileCheck(fault=f"{error}.")


def main() -> None:
    """Read a request on standard input, count, and write the counts to standard output."""
    file = msgspec.json.decode(sys.stdin.buffer.read(), type=FitFile)
    sys.stdout.buffer.write(msgspec.json.encode(_check(file)))


if __name__ == "__main__":
    main()
