"""The import contracts of pyproject.toml find each import that they are there for: copies have
them, and each is named.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")

ROOT = Path(__file__).parents[2]
FORBIDDEN = [
    ("clustering.update", "dp.noise"),
    ("clustering.compiled.sums", "dp.accountant"),
    ("clustering.kernels", "testing"),
    ("mechanisms.central", "testing"),
    ("federation.simulation", "testing"),
    ("reports.explain", "testing"),
    ("estimators.base", "testing"),
    ("evaluation.metrics", "testing"),
    ("evaluation.datasets.named", "testing"),
    ("evaluation.experiments.runner", "testing"),
    ("cli.commands.fit", "testing"),
    ("records.files", "testing"),
    ("federation.secagg.masks", "clustering.kernels"),
    ("federation.secagg.keys", "mechanisms.mechanism"),
    ("federation.secagg.sealing", "records.table"),
    ("dp.accountant", "records.table"),
    ("mechanisms.loss", "federation.plan.plan"),
    ("federation.secagg.ring", "federation.plan.plan"),
]
CIRCULAR = ("federation.protocol.server", "federation.store.durable")


def test_every_forbidden_import_breaks_a_contract(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    kept = _lint(tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    _add(tmp_path, CIRCULAR)
    circle = _lint(tmp_path).stdout
    assert "No cycles are allowed in fastlloyd.federation." in circle, circle
    for each in FORBIDDEN:
        _add(tmp_path, each)
    broken = _lint(tmp_path).stdout
    named = set(re.findall(r"fastlloyd\.([\w.]+) ->\s+fastlloyd\.([\w.]+)", broken))
    assert set(FORBIDDEN) - named == set(), broken


def _add(folder: Path, import_: tuple[str, str]) -> None:
    importer, imported = import_
    with (folder / "src/fastlloyd" / f"{importer.replace('.', '/')}.py").open("a") as source:
        source.write(f"\nimport fastlloyd.{imported}\n")


def _lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = (
        "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command;"
        " lint_imports_command()"
    )
    command = [sys.executable, "-c", program]
    # our own program
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
