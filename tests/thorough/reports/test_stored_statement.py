"""What a result folder says is worked out from its sealed settings: no edited claim is believed."""

import json
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd import FastLloyd, Lloyd, MomentLloyd
from fastlloyd.cli.failures import run
from fastlloyd.errors import DataError, PlanError
from fastlloyd.evaluation.labels import FittedClustering
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.reports import pictures

PUBLIC = ("-k", "2", "--n-expected", "1800", "--public-seed", "8", "--out")
STATED = ("--bounds", "age=0:100,dose=0:5", "--n-records", "2000")
LEAKING = ("--bounds", "from-data", "--n-records", "2000")
KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "fit": (MomentLloyd, ("fit", "data.csv", *STATED, "--loss")),
    "from data": (MomentLloyd, ("fit", "data.csv", *LEAKING)),
    "fastlloyd": (FastLloyd, ("fit", "data.csv", *STATED, "--algorithm", "fastlloyd")),
    "lloyd": (Lloyd, ("fit", "data.csv", *STATED, "--algorithm", "lloyd")),
    "simulate": (MomentLloyd, ("simulate", "data.csv", *STATED, "--clients", "3")),
    "range": (
        MomentLloyd,
        (
            "fit",
            "data.csv",
            "--bounds",
            "private",
            "--range",
            "age=0:1000,dose=0:50",
            "--n-records",
            "2000",
        ),
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one result of each kind."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(2)
    X = np.array([[20, 1], [80, 4]])[rng.integers(0, 2, 1800)] + rng.normal(0, [3, 0.2], (1800, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(pictures, "draw", lambda _: b"")
        np.savetxt("data.csv", X, delimiter=",", header="age,dose", comments="")
        for name, (_, command) in KINDS.items():
            assert run((*command, *PUBLIC, name)) == 0
    return folder


@pytest.fixture(params=KINDS)
def result(request: pytest.FixtureRequest, results: Path, tmp_path: Path) -> tuple[Any, Path]:
    """An estimator and a copy of a result of its algorithm."""
    shutil.copytree(results / request.param, tmp_path / "result")
    return KINDS[request.param][0], tmp_path / "result"


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


def claims(said: Any, found: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers, codes and truth values in a statement."""
    if isinstance(said, dict):
        for name, value in said.items():
            yield from claims(value, found, (*where, name))
    elif isinstance(said, list):
        for number, value in enumerate(said):
            yield from claims(value, found, (*where, number))
    elif not (isinstance(said, str) and " " in said):
        yield where


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value * 0.01 + 0.003 if isinstance(value, float | int) else "invented"


# of what a run found out, or of the version
FINDINGS = {"fastlloyd_version", "intervals", "value", "standard_error", "not_found", "unconfirmed"}


def test_a_whole_result_is_believed_as_it_was_written(result: tuple[Any, Path]) -> None:
    kind, folder = result
    model = kind.from_result(folder)
    assert model.privacy_spent_ == json.loads((folder / "privacy.json").read_text())
    assert pickle.loads(pickle.dumps(model)).privacy_spent_ == model.privacy_spent_  # noqa: S301


def test_every_edited_claim_is_refused_with_its_name(result: tuple[Any, Path]) -> None:
    kind, folder = result
    path = folder / "privacy.json"
    text = path.read_text()
    n_refused = 0
    for where in claims(json.loads(text), None):
        if where[0] == "outside_the_guarantee" or FINDINGS & set(where):
            continue
        if where[0] == "loss_estimate" and str(where[-1]).startswith(("per_", "standard_")):
            continue
        if "included" in where or (where[0] == "rounds" and where[1] > 0):
            continue
        said = json.loads(text)
        inner = said
        for step in where[:-1]:
            inner = inner[step]
        inner[where[-1]] = changed(inner[where[-1]])
        path.write_text(json.dumps(said))
        with pytest.raises(DataError) as caught:
            kind.from_result(folder)
        named = [step for step in where if isinstance(step, str)][-1]
        assert named in str(caught.value) or named == "mechanism_digest", where
        n_refused += 1
    assert n_refused > 20


def test_cautions_that_the_settings_give_cannot_be_edited_away(
    results: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(results / "from data", tmp_path / "result")
    edits: dict[str, Any] = {"private": True, "taken_from_the_data": []}
    text = (folder / "privacy.json").read_text()
    for name, value in edits.items():
        (folder / "privacy.json").write_text(json.dumps(json.loads(text) | {name: value}))
        with pytest.raises(DataError, match=name):
            MomentLloyd.from_result(folder)
    (folder / "privacy.json").write_text(text)
    edit(folder / "privacy.json", lambda said: said.update(cautions=[], protected=["all"]))
    model = MomentLloyd.from_result(folder)
    assert model.privacy_spent_["private"] is False
    assert model.privacy_spent_["cautions"][0].startswith("NOT PRIVATE")
    assert model.privacy_spent_["protected"] == []
    # the seal covers what was taken from the data
    settings = folder / "mechanism.toml"
    assert read_mechanism(settings.read_text()).taken_from_the_data
    lines = settings.read_text().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("taken_from_the_data"))
    end = next(i for i in range(start, len(lines)) if lines[i].rstrip().endswith("]"))
    settings.write_text("".join(lines[:start] + lines[end + 1 :]))
    with pytest.raises(PlanError, match="changed after it"):
        MomentLloyd.from_result(folder)


def test_cautions_that_only_the_run_knew_are_kept(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results / "fit", tmp_path / "result")
    edit(folder / "privacy.json", lambda said: said["cautions"].append("compared with lloyd"))
    assert MomentLloyd.from_result(folder).privacy_spent_["cautions"] == ["compared with lloyd"]


def test_the_mark_of_a_result_that_is_not_private_cannot_be_edited_away(
    results: Path, tmp_path: Path
) -> None:
    """Not for labels either."""
    for name in ("from data", "lloyd"):
        folder = shutil.copytree(results / name, tmp_path / name)
        edit(folder / "centroids.json", lambda said: said.pop("privacy"))
        with pytest.raises(DataError, match="privacy is None"):
            FittedClustering.read(folder)
    folder = shutil.copytree(results / "fit", tmp_path / "fit")
    edit(folder / "centroids.json", lambda said: said.update(privacy="NOT PRIVATE"))
    with pytest.raises(DataError, match="is 'NOT PRIVATE'"):
        FittedClustering.read(folder)


@pytest.mark.parametrize("name", ["fit", "simulate", "range"])
def test_files_of_two_runs_are_not_one_result(results: Path, tmp_path: Path, name: str) -> None:
    kind, _ = KINDS[name]
    folder = shutil.copytree(results / name, tmp_path / "result")
    other = results / ("fastlloyd" if name == "fit" else "fit")
    shutil.copy(other / "privacy.json", folder / "privacy.json")
    with pytest.raises(DataError, match="keep the files"):
        kind.from_result(folder)


def test_rounds_that_are_not_those_of_the_plan_are_refused(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results / "simulate", tmp_path / "result")
    text = (folder / "rounds.json").read_text()
    edits: list[Callable[[Any], Any]] = [
        lambda rounds: rounds.pop(),
        lambda rounds: rounds[-1].update(included=["nobody"]),
        lambda rounds: rounds[-1].update(included=[]),
        lambda rounds: rounds[-1].pop("included"),
    ]
    for change in edits:
        edit(folder / "rounds.json", change)
        with pytest.raises(DataError, match=r"rounds\.json"):
            MomentLloyd.from_result(folder)
        (folder / "rounds.json").write_text(text)
    (folder / "rounds.json").unlink()
    with pytest.raises(DataError, match=r"rounds\.json"):
        MomentLloyd.from_result(folder)


def test_bounds_that_were_found_cost_what_they_cost(results: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(results / "range", tmp_path / "result")
    said = json.loads((folder / "privacy.json").read_text())
    m = read_mechanism((folder / "mechanism.toml").read_text())
    assert m.epsilon < said["epsilon"] == 1.0
    edit(folder / "privacy.json", lambda said: said.update(epsilon=m.epsilon))
    with pytest.raises(DataError, match="epsilon"):
        MomentLloyd.from_result(folder)
    (folder / "bounds-mechanism.toml").unlink()
    with pytest.raises(PlanError, match=r"bounds-mechanism\.toml"):
        MomentLloyd.from_result(folder)


@pytest.mark.parametrize("name", ["fit", "simulate", "range"])
def test_what_neither_settings_nor_a_run_give_is_left_out(
    results: Path, tmp_path: Path, name: str
) -> None:
    """Claims that somebody added, at any depth."""
    kind, _ = KINDS[name]
    folder = shutil.copytree(results / name, tmp_path / "result")
    whole = kind.from_result(folder).privacy_spent_

    def add(said: Any) -> None:
        for table in [said, *(value for value in said.values() if isinstance(value, dict))]:
            table |= {"local_dp_epsilon": 0.01, "user_level": True, "certified": {"by": "x"}}
        said["rounds"][0]["exact"] = False
        absent = {"persons": {"name": "patient"}, "federated": {"coalitions": []}, "bounds": {}}
        for table, content in absent.items():
            said.setdefault(table, content)

    edit(folder / "privacy.json", add)
    assert kind.from_result(folder).privacy_spent_ == whole
    model = kind.from_result(folder)
    state = model.__getstate__()
    add(state["privacy_spent_"])
    again = object.__new__(kind)
    again.__setstate__(state)
    assert again.privacy_spent_ == whole


@pytest.mark.parametrize(
    ("name", "table", "entry", "value"),
    [
        ("fit", "loss_estimate", "value", "certified"),
        ("fit", "loss_estimate", "standard_error", {"epsilon": 0.1}),
        ("fit", "intervals", "radius", {"weight": 1.0}),
        ("fit", "intervals", "radius", "all records"),
        ("fit", None, "data_set", "certified by somebody"),
        ("range", "bounds", "not_found", ["everything is private"]),
        ("simulate", "federated", "unconfirmed", ["nobody else"]),
    ],
)
def test_a_finding_that_no_run_can_have_is_refused(
    results: Path, tmp_path: Path, name: str, table: str | None, entry: str, value: Any
) -> None:
    folder = shutil.copytree(results / name, tmp_path / "result")
    edit(
        folder / "privacy.json",
        lambda said: (said if table is None else said[table]).update({entry: value}),
    )
    with pytest.raises(DataError, match=entry):
        KINDS[name][0].from_result(folder)


def state_of(kind: Any, results: Path, name: str, tmp_path: Path) -> dict[str, Any]:
    """The state of a model of each kind: fitted here, or of a result."""
    if name in KINDS:
        folder = shutil.copytree(results / name, tmp_path / "result", dirs_exist_ok=True)
        return dict(kind.from_result(folder).__getstate__())
    X = np.random.default_rng(0).uniform(0, 1, (400, 2))
    outer: dict[str, Any] = {"bounds": "private", "value_range": (-9, 9)}
    settings: dict[str, Any] = {
        "fitted": {"bounds": (0, 1)},
        "leaking": {},
        "two stages": outer | {"epsilon": 20.0},
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(kind(2, n_records=500, estimate_loss=True, **settings).fit(X).__getstate__())


@pytest.mark.parametrize("name", ["fitted", "leaking", "two stages", *KINDS])
def test_every_edited_claim_in_the_state_of_a_model_is_refused_with_its_name(
    results: Path, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name][0] if name in KINDS else MomentLloyd
    state = state_of(kind, results, name, tmp_path)
    again = object.__new__(kind)
    again.__setstate__(state)
    assert again.privacy_spent_ == state["privacy_spent_"]
    assert again.__getstate__().keys() == state.keys()
    said = json.loads(json.dumps(state["privacy_spent_"]))
    places = [
        where
        for where in claims(said, None)
        if where[0] != "outside_the_guarantee"
        and not FINDINGS & {*where, "included" if "included" in where else ""}
        and where[-1] not in ("data_set", "included", "n_included")
        and not str(where[-1]).startswith(("per_", "standard_"))
        and "included" not in where
        and not (where[0] == "rounds" and where[1] > 0)
        and not (where[:2] == ("federated", "share_scales") and where[2] > 0)
    ]
    assert len(places) > 20
    for where in places:
        edited = json.loads(json.dumps(said))
        inner = edited
        for step in where[:-1]:
            inner = inner[step]
        inner[where[-1]] = changed(inner[where[-1]])
        with pytest.raises(DataError) as caught:
            object.__new__(kind).__setstate__(state | {"privacy_spent_": edited})
        named = [step for step in where if isinstance(step, str)][-1]
        assert named in str(caught.value), where


def test_the_settings_in_a_state_must_belong_together(results: Path, tmp_path: Path) -> None:
    def state(name: str) -> dict[str, Any]:
        return state_of(MomentLloyd, results, name, tmp_path / name)

    found, other, simulated = state("two stages"), state("two stages"), state("simulate")
    for changed in (
        {key: value for key, value in found.items() if key != "_first"},
        found | {"_first": other["_first"]},  # of another fit
        state("fit") | {"_first": found["_first"]},
        state("fit") | {"_plan": simulated["_plan"]},
        state("fit") | {"privacy_spent_": "private"},
    ):
        with pytest.raises(DataError, match="of this model"):
            object.__new__(MomentLloyd).__setstate__(changed)


def test_an_edited_pickle_is_refused_with_the_name_of_the_claim() -> None:
    X = np.random.default_rng(0).uniform(0, 1, (100, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MomentLloyd(2, n_records=200, bounds=(0, 1)).fit(X)
        leaking = MomentLloyd(2, n_records=200).fit(X)
    for one, name, value in (
        (model, "epsilon", 0.01),
        (leaking, "private", True),
        (leaking, "taken_from_the_data", []),
        (model, "delta", 0.0),
        (model, "mu", 0.01),
        (model, "delta_accounted", 0.0),
        (model, "statement_version", 99),
        (model, "rounds", []),
    ):
        state = one.__getstate__()
        state["privacy_spent_"] = state["privacy_spent_"] | {name: value}
        with pytest.raises(DataError, match=name):
            object.__new__(MomentLloyd).__setstate__(state)
