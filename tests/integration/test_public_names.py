"""Every public name says what it takes and gives, with an example that runs."""

import doctest
import inspect
import re
import shutil
from pathlib import Path

import pytest

import fastlloyd
from clone import ROOT
from fastlloyd.cli.failures import run

NAMES = [name for name in fastlloyd.__all__ if name != "__version__"]
SECTIONS = ("Parameters", "Attributes", "Returns", "Raises")
ENTRY = re.compile(r"[*\w]+(?:, \w+)* : \S.*")


@pytest.fixture
def with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a recipe, a plan of three clients, and their identities."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/hospital/recipe.toml", tmp_path)
    parties = ("a", "b", "c", "server")
    for name in parties:
        assert run(["keygen", "--name", name]) == 0
    members = [word for name in parties[:3] for word in ("--member", f"{name}.public.toml:2000")]
    settings = ["--features", "age,dose", "-k", "3", "--bounds", "age=18:90,dose=0:5"]
    server = ["--server", "server.public.toml", "--address", "localhost:8443"]
    assert run(["plan", "new", *settings, *members, *server]) == 0


@pytest.mark.usefixtures("with_files")
@pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")
@pytest.mark.parametrize("name", NAMES)
def test_its_example_runs_and_shows_what_it_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    docstring = inspect.getdoc(getattr(fastlloyd, name)) or ""
    _, _, written = docstring.partition("Examples\n--------\n")
    assert written, name
    example = doctest.DocTestParser().get_doctest(written, {}, name, None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example)
    assert runner.failures == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_line_for_its_type_and_lines_for_its_meaning(name: str) -> None:
    docstring = inspect.getdoc(getattr(fastlloyd, name)) or ""
    parts = re.split(r"^(\w[\w ]*)\n-+\n", docstring, flags=re.MULTILINE)[1:]
    for section, body in zip(parts[::2], parts[1::2], strict=True):
        rows = [row for row in body.split("\n") if row]
        for row, below in zip(rows, [*rows[1:], ""], strict=True):
            if section in SECTIONS and not row.startswith(" "):
                assert below.startswith("    "), row
                assert section in ("Returns", "Raises") or ENTRY.fullmatch(row), row
