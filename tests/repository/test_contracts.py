"""The import contracts of pyproject.toml find each import that they are there for: copies have
them, and each is named.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clone import ROOT

pytest.importorskip("importlinter")

FORBIDDEN = [
    ("fastlloyd.clustering.update", "fastlloyd.dp.noise"),
    ("fastlloyd.clustering.compiled.sums", "fastlloyd.dp.accountant"),
    ("fastlloyd.clustering.kernels", "fastlloyd.testing"),
    ("fastlloyd.mechanisms.central", "fastlloyd.testing"),
    ("fastlloyd.federation.simulation", "fastlloyd.testing"),
    ("fastlloyd.reports.explain", "fastlloyd.testing"),
    ("fastlloyd.estimators.base", "fastlloyd.testing"),
    ("fastlloyd.evaluation.metrics", "fastlloyd.testing"),
    ("fastlloyd.cli.commands.fit", "fastlloyd.testing"),
    ("fastlloyd.records.files", "fastlloyd.testing"),
    ("fastlloyd.federation.secagg.masks", "fastlloyd.clustering.kernels"),
    ("fastlloyd.federation.secagg.keys", "fastlloyd.mechanisms.mechanism"),
    ("fastlloyd.federation.secagg.sealing", "fastlloyd.records.table"),
    ("fastlloyd.dp.accountant", "fastlloyd.records.table"),
    ("fastlloyd.mechanisms.loss", "fastlloyd.federation.plan.plan"),
    ("fastlloyd.federation.secagg.ring", "fastlloyd.federation.plan.plan"),
    ("fastlloyd.cli.app", "fastlloyd_lab"),
    ("fastlloyd.evaluation.comparison", "fastlloyd_lab.partitions"),
    ("fastlloyd_lab.experiments.runner", "fastlloyd.testing"),
    ("fastlloyd_lab.datasets.named", "fastlloyd.testing"),
    ("fastlloyd_lab.experiments.measures", "fastlloyd_lab.pictures.axes"),
]
CIRCULAR = ("fastlloyd.federation.protocol.server", "fastlloyd.federation.store.durable")


def test_every_forbidden_import_breaks_a_contract(tmp_path: Path) -> None:
    for package in (ROOT / "src/fastlloyd", ROOT / "lab/src/fastlloyd_lab"):
        copy = tmp_path / "src" / package.name
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    kept = _lint(tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    _add(tmp_path, CIRCULAR)
    circle = _lint(tmp_path).stdout
    assert "No cycles are allowed in fastlloyd.federation." in circle, circle
    for each in FORBIDDEN:
        _add(tmp_path, each)
    broken = _lint(tmp_path).stdout
    named = set(re.findall(r"(fastlloyd[\w.]*) ->\s+(fastlloyd[\w.]*)", broken))
    assert set(FORBIDDEN) - named == set(), broken


def _add(folder: Path, import_: tuple[str, str]) -> None:
    importer, imported = import_
    with (folder / "src" / f"{importer.replace('.', '/')}.py").open("a") as source:
        source.write(f"\nimport {imported}\n")


def _lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = (
        "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command;"
        " lint_imports_command()"
    )
    command = [sys.executable, "-c", program]
    # our own program
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
