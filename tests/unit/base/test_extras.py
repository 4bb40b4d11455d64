"""Optional packages: every hint is a command that installs what is missing, wherever fastlloyd
itself came from.
"""

import re
import tomllib

import pytest

from clone import ROOT
from fastlloyd.base import extras
from fastlloyd.cli.commands import demo
from fastlloyd.errors import FastLloydError

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", sorted(extras.MODULES))
def test_the_command_names_the_packages_that_pyproject_names(extra: str) -> None:
    assert extras.command(extra) == "python -m pip install " + " ".join(
        f'"{package}"' for package in EXTRAS[extra]
    )


def test_every_extra_for_users_has_its_modules() -> None:
    assert extras.MODULES.keys() == EXTRAS.keys() - {"all", "dev"}


def test_no_hint_asks_the_package_index_for_fastlloyd() -> None:
    said = re.compile(r"pip install[^\n]*fastlloyd\[")
    sources = [
        *ROOT.glob("src/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "README.md",
        *ROOT.glob("examples/*.ipynb"),
    ]
    assert len(sources) > 50  # also where the package is installed from its wheel
    assert [path for path in sources if said.search(path.read_text())] == []


def test_the_demo_names_all_that_is_missing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda extra: extra == "sklearn")
    with pytest.raises(
        FastLloydError,
        match=r'installed yet.*"grpcio[^"]*" "matplotlib[^"]*"$',
    ):
        demo.demo(output=None)  # type: ignore[arg-type]  # nothing is looked at before
