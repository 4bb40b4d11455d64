"""Tests lie where their module does: the folders of tests mirror those of the source."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clone import ROOT

MIRRORS = {
    "tests/unit": "src/fastlloyd",
    "tests/thorough": "src/fastlloyd",
    "tests/commands": "src/fastlloyd/cli/commands",
    "lab/tests": "lab/src/fastlloyd_lab",
    "lab/tests/studies": "lab/studies",
}
# What concerns more than one room, each folder for the reason that CONTRIBUTING gives.
CROSS_CUTTING = {
    "campaigns",
    "examples",
    "integration",
    "pages",
    "properties",
    "repository",
    "statistical",
    "support",
    "vectors",
}


def mirrored(test: Path) -> Path:
    """Return the folder of the source that this file of tests belongs to."""
    tests = max((ROOT / root for root in MIRRORS if ROOT / root in test.parents), key=str)
    return ROOT / MIRRORS[tests.relative_to(ROOT).as_posix()] / test.parent.relative_to(tests)


def named(source: Path) -> Iterator[str]:
    """Yield what a test of this folder may be named after: the folder, or what is in it."""
    yield source.name
    for path in source.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            yield from (path.stem, f"{source.name}_{path.stem}")


def names_a_module(test: Path) -> bool:
    """Return whether a file is called `test_MODULE.py` or `test_MODULE_more.py`, for a module of
    the folder that it mirrors or that folder itself; `test_FOLDER_MODULE.py` where two folders
    have a module of one name.
    """
    source, name = mirrored(test), test.stem.removeprefix("test_")
    return source.is_dir() and any(f"{name}_".startswith(f"{each}_") for each in named(source))


TESTS = sorted({path for root in MIRRORS for path in (ROOT / root).rglob("test_*.py")})


@pytest.mark.parametrize("test", TESTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_of_tests_is_named_after_a_module_and_lies_where_the_module_does(test: Path) -> None:
    assert names_a_module(test), f"no module in {mirrored(test)} has this name"


def test_every_other_folder_of_tests_is_for_what_concerns_more_than_one_room() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if list(path.rglob("*.py"))}
    assert folders == CROSS_CUTTING | {"unit", "thorough", "commands"}


def test_no_two_files_of_tests_have_one_name() -> None:
    """Tests are no packages, so pytest and mypy know a file by its name alone."""
    names = [path.name for root in ("tests", "lab/tests") for path in (ROOT / root).rglob("*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == ["conftest.py"]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("unit/dp/test_gdp.py", True),
        ("unit/dp/test_gdp_mu.py", True),
        ("unit/mechanisms/lloyd/test_lloyd_design.py", True),
        ("unit/mechanisms/lloyd/test_design.py", True),
        ("unit/dp/test_gd.py", False),
        ("unit/test_gdp.py", False),
        ("unit/nowhere/test_gdp.py", False),
        ("commands/test_fit_records.py", True),
        ("commands/test_records.py", False),
    ],
)
def test_the_check_knows_a_name_that_is_no_module(test: str, *, expected: bool) -> None:
    assert names_a_module(ROOT / "tests" / test) == expected
