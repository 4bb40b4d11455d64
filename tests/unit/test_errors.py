"""Codes of errors: each error has one, and the page lists all of them."""

import ast
import re
from pathlib import Path

import pytest

from fastlloyd import errors
from fastlloyd.clustering.bound_checks import UNUSABLE_BOUNDS
from fastlloyd.errors import FastLloydError, PlanError, Problem, Problems
from fastlloyd.federation.store.lock import InUseError
from fastlloyd.jobs.choices import MISSING
from fastlloyd.records import declared
from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE
from fastlloyd.records.recipe.rows import UNKNOWN_CELL

ROOT = Path(__file__).parents[2]
OF_FILES = {"UNREADABLE_FILE", "WRONG_FILE", "CHANGED_FILE", "OTHER_VERSION"} | {
    "NO_STORE", "DAMAGED_STORE", "OPEN_TO_OTHERS", "NO_FINGERPRINTS", "BEGUN", "OTHER_PLAN"
}  # fmt: skip
OF_COLUMNS = {
    "MISSING",
    "INFINITE",
    "RAGGED",
    "UNREADABLE",
    "INDEX",
    "ANOTHER_ORDER",
    "AMBIGUOUS",
    "LAYOUT",
}


def kinds(of: type[FastLloydError]) -> set[str]:
    return {of.kind}.union(*map(kinds, of.__subclasses__()))


def codes() -> set[str]:
    columns = {getattr(declared, name) for name in OF_COLUMNS}
    return (
        kinds(FastLloydError)
        | {getattr(errors, name) for name in OF_FILES}
        | columns
        | {holds.value for holds in declared.Holds}
        | {MISSING, UNUSABLE_BOUNDS, UNUSABLE_RECIPE, UNKNOWN_CELL}
    )


def test_the_page_lists_every_code_and_no_other() -> None:
    assert InUseError.kind in codes()
    page = (ROOT / "docs/compatibility.md").read_text()
    _, _, rest = page.partition("| code | what is at fault |")
    listed = [code for line in rest.splitlines() for code in re.findall(r"`([^`]+)`", line[:200])]
    assert sorted(listed) == sorted(codes())


def test_a_code_is_passed_as_a_name_never_as_a_literal() -> None:
    literals = [
        f"{path}:{node.value.lineno}"
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword)
        and node.arg == "code"
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    assert literals == []


def test_an_error_without_a_code_of_its_own_has_that_of_its_kind() -> None:
    assert PlanError("no").code == "setting"
    assert PlanError("no", code=MISSING, field="epsilon").code == MISSING
    assert list(Problems([PlanError("no", field="epsilon")])) == [
        Problem("setting", "epsilon", "no")
    ]


@pytest.mark.parametrize("code", sorted(codes()))
def test_a_code_is_lower_case_words_with_hyphens(code: str) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
