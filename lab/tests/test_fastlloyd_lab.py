"""Tests of the package of the lab: it is separate from the product, and has the same version."""

import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import requires, version

import fastlloyd
from clone import ROOT
from fastlloyd.cli.app import COMMANDS, LAB

HERE = ROOT / "lab"


def test_the_lab_has_the_version_of_the_product_and_needs_exactly_this_one() -> None:
    assert version("fastlloyd-lab") == fastlloyd.__version__
    assert (
        f"=={fastlloyd.__version__}" in "".join(requires("fastlloyd-lab") or []).split("pooch")[0]
    )


def test_the_commands_that_the_product_lists_are_those_that_the_lab_has() -> None:
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    commands = project["entry-points"]["fastlloyd.commands"]
    assert commands.keys() == {*LAB} <= COMMANDS.keys()
    assert all(import_module(module).GROUP for module in commands.values())


def test_the_product_imports_nothing_of_the_lab() -> None:
    program = (
        "import importlib, pkgutil, sys, fastlloyd\n"
        "for each in pkgutil.walk_packages(fastlloyd.__path__, 'fastlloyd.'):\n"
        "    importlib.import_module(each.name)\n"
        "print('fastlloyd_lab' in sys.modules)"
    )
    # our own program
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
