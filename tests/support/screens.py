"""Screens and pages about plans and results, drawn from fixed plans, records and noise.

`screens()` returns the text of each by name; tests/golden holds what they said when last looked at.
"""

import io
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from designs import design_mechanism, design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.cli import screen
from fastlloyd.cli.commands import plan_show
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.federation.plan.design import design_plan as plan_of
from fastlloyd.federation.plan.plan import Client, Masks, Plan, Server, TrustMode
from fastlloyd.federation.plan.study import Study
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import cluster, release
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings
from fastlloyd.mechanisms.two_stages import FirstStage, TwoStages
from fastlloyd.mechanisms.uncertainty import loss_estimate, noise_deviation
from fastlloyd.reports.agreement import page
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.explain import explain
from fastlloyd.reports.facts import said
from fastlloyd.reports.plan_facts import liveness
from fastlloyd.reports.result import Result, result_of_run
from fastlloyd.reports.run_result import RunResult
from fastlloyd.reports.statement import plan_statement
from fastlloyd.testing import SeededNoise
from federation import make_federation, make_plan, results

BOX = Domain(features=("age", "dose"), lower=(0.0, 0.0), upper=(100.0, 5.0))
OUTER = outer_range(BOX.features, [-1000.0, -10.0], [1000.0, 10.0])
SEED = PublicSeed.from_int(1)
STUDY = Study(name="Falls", purpose="groups of patients", controller="Clinic A", contact="a@b.org")
PATIENT = Persons.called("patient")


def wide(d: int) -> Domain:
    """A box of d features."""
    return Domain(features=tuple(f"x{i}" for i in range(d)), lower=(-1.0,) * d, upper=(1.0,) * d)


def _plan(
    M: int = 3, algorithm: AnyAlgorithm = FASTLLOYD, domain: Domain = BOX, **changes: Any
) -> Plan:
    given: dict[str, Any] = {
        "clients": tuple(Client(name=f"c{i}", max_records=10_000 // M) for i in range(M)),
        "run_id": bytes(16),
        "n_clusters": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "public_seed": SEED,
        "masks": Masks.PAIRWISE,
    }
    return design_plan(algorithm, domain, **(given | changes))


def _plan_of_bounds(**changes: Any) -> Plan:
    settings = BoundsSettings(
        domain=OUTER, n_records=3000, public_seed=SEED, **{"epsilon": 3.0} | changes
    )
    clients = tuple(Client(name=f"c{i}", max_records=1000) for i in range(3))
    return plan_of(settings, clients=clients, run_id=bytes(16))


def plans() -> dict[str, Plan]:
    """Plans of every algorithm, trust mode and kind of masks, by what is special about them."""
    shared, replaced = Persons.called("family", 2), NeighboringRelation.REPLACE_ONE
    return {
        "fastlloyd, five clients, group masks, a loss": _plan(
            5, max_dropouts=1, masks=Masks.GROUP, estimate_loss=True, study=STUDY
        ),
        "fastlloyd, two clients": _plan(2, server=Server(name="hub", address="hub.org:50051")),
        "fastlloyd, weak guarantee": _plan(3, epsilon=20.0, delta=0.001, n_records=100_000),
        "glloyd, shared families, a host": _plan(
            6, GLLOYD, persons=shared, host="c1", max_colluding=2, n_iterations=4
        ),
        "glloyd, a host and nobody else": _plan(5, GLLOYD, host="c1", max_dropouts=1),
        "sulloyd, server-noise, replaced": _plan(
            3, SULLOYD, trust=TrustMode.SERVER_NOISE, max_colluding=0, delta=None,
            neighboring_relation=replaced,
        ),
        "sulloyd, server-noise, group masks, patients, a loss": _plan(
            3, SULLOYD, trust=TrustMode.SERVER_NOISE, max_colluding=0, delta=None, persons=PATIENT,
            estimate_loss=True, masks=Masks.GROUP,
        ),
        "momentlloyd": _plan(3, MOMENTLLOYD, estimate_loss=True),
        "momentlloyd, 30 features, patients, replaced": _plan(
            4, MOMENTLLOYD, wide(30), persons=PATIENT, neighboring_relation=replaced, epsilon=3.0,
            masks=Masks.GROUP, max_dropouts=1, estimate_loss=True,
        ),
        "fastlloyd, 30 features, dropouts": _plan(5, FASTLLOYD, wide(30), max_dropouts=2),
        "fastlloyd, two results, group masks": _plan(4, max_dropouts=2, masks=Masks.GROUP),
        "fastlloyd, two results, patients": _plan(3, max_dropouts=1, persons=PATIENT),
        "momentlloyd, simulated, from the data": _plan(
            3, MOMENTLLOYD, simulated=True, masks=Masks.GROUP,
            taken_from_the_data=("bounds were taken from the data",),
        ),
        "bounds": _plan_of_bounds(),
        "bounds, patients": _plan_of_bounds(persons=PATIENT),
    }  # fmt: skip


def _records(n: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(3)
    groups = [(20.0, 1.0), (50.0, 2.0), (80.0, 4.0)]
    return np.concatenate([rng.normal(of, (4.0, 0.1), (n // 3, 2)) for of in groups])


def _of_fit(algorithm: AnyAlgorithm, n: int = 3000, **changes: Any) -> Result:
    given: dict[str, Any] = {
        "n_clusters": 3, "n_records": n, "epsilon": 1.0, "public_seed": SEED
    }  # fmt: skip
    m = design_mechanism(algorithm, BOX, **(given | changes))
    found = cluster(m, LocalRecords(BOX, BOX.to_grid(_records(n))), SeededNoise(4))
    return Result.of(m, found, noise_deviation(m), loss=loss_estimate(m, found))


def _in_two_stages() -> Result:
    settings = Settings(
        algorithm=MOMENTLLOYD, domain=BOX, n_clusters=3, n_records=3000, epsilon=3.0,
        public_seed=SEED,
    )  # fmt: skip
    stages = TwoStages.of(settings, OUTER)
    X = _records(3000)
    bounds = release(stages.first, LocalRecords(OUTER, OUTER.to_grid(X)), SeededNoise(5))
    m: Any = design(stages.second(bounds))
    found: Clustering = cluster(m, LocalRecords(m.domain, m.domain.to_grid(X)), SeededNoise(4))
    first = FirstStage(mechanism=stages.first, bounds=bounds, epsilon=stages.epsilon)
    return Result.of(m, found, noise_deviation(m), first=first)


def _of_run(**changes: Any) -> RunResult:
    plan = make_plan(3, **changes)
    federation = make_federation(plan)
    outcome = run_in_process(federation.server(), federation.clients())
    return result_of_run(plan, results(outcome.clients.values())[0])


def _of_patients() -> Result:
    """The records are single ones, which changes numbers and no words."""
    plan = _plan(3, persons=PATIENT, estimate_loss=True, max_dropouts=1, masks=Masks.GROUP)
    m, alone = plan.clustering, design_mechanism(
        FASTLLOYD, BOX, n_clusters=3, n_records=9999, epsilon=1.0, public_seed=SEED,
        estimate_loss=True, n_iterations=len(plan.mechanism.rounds),
    )  # fmt: skip
    ended = cluster(alone, LocalRecords(BOX, BOX.to_grid(_records(9999))), SeededNoise(4))
    everyone, some = ("c0", "c1", "c2"), ("c0", "c2")
    return Result.of(
        m, ended, noise_deviation(m), loss=loss_estimate(m, ended), plan=plan, doubtful=(2,),
        included=(everyone,) * len(m.rounds) + (some,),
    )  # fmt: skip


def _of_bounds() -> BoundsResult:
    m = design(BoundsSettings(domain=OUTER, n_records=3000, public_seed=SEED, epsilon=2.0))
    found = release(m, LocalRecords(OUTER, OUTER.to_grid(_records(3000))), SeededNoise(5))
    return BoundsResult(mechanism=m, bounds=found)


def found() -> dict[str, RunResult]:
    """Results of every algorithm, in the central model and of runs."""
    leak = ("n_records was taken from the data",)
    return {
        "momentlloyd, a loss": _of_fit(MOMENTLLOYD, estimate_loss=True),
        "momentlloyd, bounds found": _in_two_stages(),
        "momentlloyd, mostly noise": _of_fit(MOMENTLLOYD, 300, epsilon=0.05),
        "fastlloyd": _of_fit(FASTLLOYD),
        "fastlloyd, from the data": _of_fit(FASTLLOYD, taken_from_the_data=leak),
        "glloyd, mostly noise": _of_fit(GLLOYD, 300, epsilon=0.1, estimate_loss=True),
        "sulloyd, replaced": _of_fit(
            SULLOYD, neighboring_relation=NeighboringRelation.REPLACE_ONE, estimate_loss=True
        ),
        "lloyd": _of_fit(LLOYD, estimate_loss=True),
        "bounds": _of_bounds(),
        "a run of fastlloyd, patients": _of_patients(),
        "a run of fastlloyd": _of_run(estimate_loss=True),
        "a run of fastlloyd, server-noise": _of_run(trust=TrustMode.SERVER_NOISE, max_colluding=0),
    }


def _words(content: Any, at: str = "") -> str:
    """Return every sentence of a document, by its place there."""
    if isinstance(content, Mapping):
        return "".join(_words(each, f"{at}.{name}") for name, each in content.items())
    if isinstance(content, list):
        return "".join(_words(each, f"{at}[]") for each in content)
    return f"{at[1:]}: {content}\n" if isinstance(content, str) and " " in content else ""


def _shown(draw: Callable[[Console], None]) -> str:
    text = io.StringIO()
    console = Console(file=text, width=100, markup=False, highlight=False, emoji=False)
    draw(console)
    lines = text.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _command(run_it: Callable[..., None], *arguments: Any) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        run_it(*arguments)
    return err.getvalue() + out.getvalue()


def _plan_shown(plan: Plan, *, as_json: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(plan.to_toml())
        return _command(plan_show.show, path, as_json).replace(str(path), "plan.toml")


def _screen(result: RunResult) -> str:
    lines = "\n".join(screen.rounds(result))
    return f"{lines}\n" + _shown(lambda console: screen.show(console, result))


def screens() -> dict[str, str]:
    """Text of each screen, of the plans or results that it shows, by the name of its file."""
    made, ended = plans(), found()
    few = {name: made[name] for name in list(made)[::5]}
    return {
        "plan-explain.txt": _once(_joined(lambda plan: explain(plan) + "\n", made)),
        "plan-page.txt": _joined(page, few),
        "plan-show.txt": _joined(lambda plan: _plan_shown(plan, as_json=False), few),
        "plan-show.json": _joined(lambda plan: _plan_shown(plan, as_json=True), few),
        "plan-liveness.txt": "".join(f"{each}\n" for each in said(liveness(made["bounds"]))),
        "plan-statement.txt": _once(_joined(lambda plan: _words(plan_statement(plan)), made)),
        "result.txt": _joined(_screen, ended),
        "result-statement.txt": _once(_joined(lambda result: _words(result.statement()), ended)),
    }


def _once(text: str) -> str:
    """Return a text without the lines that it has said before."""
    return "".join(f"{line}\n" for line in dict.fromkeys(text.splitlines()) if line)


def _joined(draw: Callable[[Any], str], of: Mapping[str, Any]) -> str:
    return "\n".join(f"=== {name}\n\n{draw(each)}" for name, each in of.items())
