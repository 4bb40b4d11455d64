"""A worked example: a private algorithm that is none of ours, the mean of all records.

A patch that adds it touches three files of the package: `mechanisms/private_mean.py`, as it stands
here, the catalogue in `mechanisms/catalogue.py`, and `estimators/estimators.py` for whoever wants
an estimator too. The central model, clients, servers, masks, accountants, plans and statements take
it as they are. The last test applies the first two to a copy of the package.
"""

import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import private_mean
import pytest
from private_mean import MEAN, MeanAlgorithm, MeanMechanism

import fastlloyd
from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms import catalogue
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.reports.statement import mechanism_statement, plan_statement
from fastlloyd.testing import SeededNoise
from federation import make_federation, make_plan, results, same_clustering

pytestmark = pytest.mark.usefixtures("repeatable_noise")

BOX = Domain(features=("x", "y"), lower=(0.0, -1.0), upper=(10.0, 1.0))


@pytest.fixture(autouse=True)
def _in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.ALGORITHMS, MEAN.name, MEAN)
    designs: dict[Any, Any] = catalogue._DESIGNS
    monkeypatch.setitem(designs, MeanAlgorithm, private_mean.design)


def designed(**settings: object) -> MeanMechanism:
    given = {
        "n_clusters": 1,
        "n_records": 2000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    } | settings
    m: Any = design_mechanism(catalogue.algorithm("mean"), BOX, **given)
    assert type(m) is MeanMechanism
    return m


@pytest.mark.parametrize("relation", NeighboringRelation)
def test_it_costs_what_it_may_and_with_a_little_less_noise_it_is_refused(
    relation: NeighboringRelation,
) -> None:
    m = designed(neighboring_relation=relation)
    assert m.accountant().get_delta(m.epsilon) == pytest.approx(m.delta, rel=1e-3)
    for part in (
        (0, 1) if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else (0,)
    ):  # one replaced moves no count
        scales = list(m.rounds[0].scales)
        scales[part] -= Fraction(1, 100) * scales[part]
        with pytest.raises(PlanError, match="not give epsilon"):
            msgspec.structs.replace(
                m, rounds=(msgspec.structs.replace(m.rounds[0], scales=tuple(scales)),)
            )
    assert mechanism_statement(m)["private"]


def test_the_central_model_finds_the_mean_of_an_array_and_of_blocks() -> None:
    X = BOX.to_grid(np.random.default_rng(1).normal((4.0, 0.5), (1.0, 0.1), (2000, 2)))
    one, blocks = (
        cluster(designed(estimate_loss=False), LocalRecords(BOX, given), SeededNoise(1))
        for given in (X, [X[:700], X[700:]])
    )
    assert same_clustering(one, blocks)
    np.testing.assert_allclose(BOX.from_grid(one.centroids), [[4.0, 0.5]], atol=0.1)


@pytest.mark.parametrize("trust", TrustMode)
def test_clients_find_what_plain_integers_find(trust: TrustMode) -> None:
    plan = make_plan(3, algorithm=MEAN, n_clusters=1, n_iterations=1, trust=trust)
    federation = make_federation(plan)
    outcome = run_in_process(federation.server(), federation.clients())
    found = results(outcome.clients.values())
    assert len(found) == 3
    assert all(
        same_clustering(each.clustering, federation.plain_result(each.included)) for each in found
    )
    assert plan_statement(plan)["federated"]["trust"] == trust.value


def test_a_patch_that_adds_it_adds_one_file_and_changes_the_catalogue(tmp_path: Path) -> None:
    package = Path(fastlloyd.__file__).parent
    patched = shutil.copytree(
        package, tmp_path / "fastlloyd", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(Path(private_mean.__file__), patched / "mechanisms")
    table = patched / "mechanisms/catalogue.py"
    for before, added in (
        ("from fastlloyd.mechanisms.settings", "from fastlloyd.mechanisms import private_mean\n"),
        ("\nALGORITHMS", " | private_mean.MeanMechanism"),
        ("MOMENTLLOYD, FASTLLOYD, ", "private_mean.MEAN, "),
        ("    Algorithm: lloyd", "    private_mean.MeanAlgorithm: private_mean.design,\n"),
    ):
        assert before in table.read_text()
        table.write_text(table.read_text().replace(before, added + before, 1))
    np.savetxt(
        tmp_path / "visits.csv", np.full((500, 1), 42.0), header="age", comments="", delimiter=","
    )
    options = [
        "--algorithm",
        "mean",
        "-k",
        "1",
        "--epsilon",
        "1",
        "--bounds",
        "0:100",
        "--n-records",
        "1000",
    ]
    command = [sys.executable, "-m", "fastlloyd", "fit", "visits.csv", *options, "--out", "found"]
    subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True
    )
    read = (
        "from fastlloyd import read_mechanism;"
        " print(read_mechanism(open('found/mechanism.toml').read()).name)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    output = subprocess.check_output(
        [sys.executable, "-c", read], cwd=tmp_path, env=environment, text=True
    )
    assert output == "mean\n"
    sources = {str(path.relative_to(patched)): path.read_text() for path in patched.rglob("*.py")}
    old = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
    changed = {name for name, text in sources.items() if old.get(name) != text}
    assert changed == {"mechanisms/private_mean.py", "mechanisms/catalogue.py"}
