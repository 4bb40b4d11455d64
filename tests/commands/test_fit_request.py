"""`fastlloyd fit --request`: one file is the whole request, and the ledger counts it once."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from command_line import Command, refused
from fastlloyd.errors import StateError
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.store.lock import Lock
from fastlloyd.jobs.data_files import files_of
from fastlloyd.jobs.fit_file import FitFile

RUN = "0123456789abcdef0123456789abcdef"
RECIPE = """
[privacy]
epsilon = 1.0
n_records = 500
[clustering]
n_clusters = 2
public_seed = "a seed"
[features.age]
bounds = [0, 100]
[features.dose]
bounds = [0, 10]
[here]
dataset = "ward-7"
header = "yes"
"""


def _file(here: Path, **changed: Any) -> FitFile:
    records = str(here / "data.csv")
    facts = files_of(records)
    assert facts is not None
    fields: dict[str, Any] = {"run_id": RUN, "records": records, "files": facts, "recipe": RECIPE}
    return FitFile(**fields | {"out": str(here / "result"), "new_dataset": True} | changed)


@pytest.fixture
def requested(here: Path) -> Callable[..., Path]:
    def write(**changed: Any) -> Path:
        path = here / "request.json"
        path.unlink(missing_ok=True)
        _file(here, **changed).write(path)
        return path

    return write


def test_a_request_gives_the_mechanism_of_the_options_and_its_id_to_the_ledger(
    fastlloyd: Command, here: Path, requested: Callable[..., Path]
) -> None:
    code, out, err = fastlloyd("fit", "--request", str(requested()))
    assert (code, err) == (0, "")
    said = [json.loads(line) for line in out.splitlines()]
    assert {"charged": True} in said
    assert said[-1]["done"]
    assert set(said[-1]["files"]) == {path.name for path in (here / "result").iterdir()}
    (here / "recipe.toml").write_text(RECIPE)
    assert fastlloyd("fit", "data.csv", "--recipe", "recipe.toml", "--out", "other")[0] == 0
    assert (here / "result/mechanism.toml").read_text() == (
        here / "other/mechanism.toml"
    ).read_text()
    runs = HoldersLedger(place()).history().runs
    assert bytes.fromhex(RUN) in runs
    assert len(runs) == 2


def test_a_request_that_was_carried_out_is_refused_by_its_id_and_spends_once(
    fastlloyd: Command, here: Path, requested: Callable[..., Path]
) -> None:
    assert fastlloyd("fit", "--request", str(requested()))[0] == 0
    again = requested(out=str(here / "again"), new_dataset=False)
    refused(fastlloyd("fit", "--request", str(again)), "already")
    assert not (here / "again").exists()
    assert len(HoldersLedger(place()).history().runs) == 1


def test_a_file_that_was_replaced_after_it_was_confirmed_is_refused(
    fastlloyd: Command, here: Path, requested: Callable[..., Path]
) -> None:
    path = requested()
    text = (here / "data.csv").read_text()
    (here / "data.csv").unlink()
    (here / "data.csv").write_text(text)
    refused(fastlloyd("fit", "--request", str(path)), "confirm")
    assert not HoldersLedger(place()).is_there()


@pytest.mark.parametrize("unlike", ["mode", "link", "second name", "pipe", "folder", "key", "json"])
def test_only_a_file_of_this_user_alone_is_a_request(
    fastlloyd: Command, here: Path, requested: Callable[..., Path], unlike: str
) -> None:
    path = requested()
    if unlike == "mode":
        path.chmod(0o640)
    elif unlike == "link":
        path.rename(here / "real.json")
        path.symlink_to(here / "real.json")
    elif unlike == "second name":
        os.link(path, here / "second.json")
    elif unlike in ("pipe", "folder"):
        path.unlink()
        os.mkfifo(path) if unlike == "pipe" else path.mkdir()
    else:
        content = json.loads(path.read_text())
        text = json.dumps(content | {"more": 1}) if unlike == "key" else "{"
        path.write_text(text)
    refused(fastlloyd("fit", "--request", str(path)))
    assert not HoldersLedger(place()).is_there()


@pytest.mark.parametrize(
    "more", [("data.csv",), ("-k", "3"), ("--epsilon", "2"), ("--no-out",), ("--recipe", "r.toml")]
)
def test_a_request_stands_alone_on_the_command_line(
    fastlloyd: Command, here: Path, requested: Callable[..., Path], more: tuple[str, ...]
) -> None:
    (here / "r.toml").write_text(RECIPE)
    refused(fastlloyd("fit", "--request", str(requested()), *more))
    assert not HoldersLedger(place()).is_there()


def test_a_request_that_is_not_there_leaves_no_file_beside(fastlloyd: Command, here: Path) -> None:
    before = sorted(here.iterdir())
    refused(fastlloyd("fit", "--request", "missing.json"), "missing.json")
    refused(fastlloyd("join", "--request", "missing.json"), "missing.json")
    assert sorted(here.iterdir()) == before


def test_a_request_that_another_process_carries_out_is_refused(
    fastlloyd: Command, requested: Callable[..., Path]
) -> None:
    lock = Lock(requested())
    try:
        refused(fastlloyd("fit", "--request", "request.json"))
    finally:
        lock.release()


def test_faults_of_a_request_come_together_and_nothing_is_spent(
    fastlloyd: Command, requested: Callable[..., Path]
) -> None:
    path = requested(recipe=RECIPE.replace("epsilon = 1.0", "epsilon = -1.0"))
    refused(fastlloyd("fit", "--request", str(path)), "epsilon")
    assert not HoldersLedger(place()).is_there()


def test_a_request_is_read_back_as_it_was_written(
    here: Path, requested: Callable[..., Path]
) -> None:
    assert FitFile.read(requested()) == _file(here)
    assert tomllib.loads(_file(here).recipe)["here"]["dataset"] == "ward-7"
    with pytest.raises(StateError, match=r"none\.json cannot be"):
        FitFile.read(here / "none.json")


@pytest.mark.parametrize(
    ("privacy", "clustering"),
    [
        (
            {"loss": True, "loss_share": 0.125, "delta": 1e-6, "n_expected": 400},
            {"scaling": "common"},
        ),
        (
            {"neighboring_relation": "replace_one", "outside": "clip"},
            {
                "algorithm": "fastlloyd",
                "iterations": 3,
                "radius": "step",
                "alpha": 0.75,
                "initialization": "halving",
                "min_count": 5,
            },
        ),
        (
            {},
            {"preset": "paper", "postprocessing": "none", "clipping": True, "noise": "laplace"},
        ),
    ],
)
def test_every_option_of_a_recipe_means_the_same_in_a_request(
    fastlloyd: Command,
    here: Path,
    requested: Callable[..., Path],
    privacy: dict[str, Any],
    clustering: dict[str, Any],
) -> None:
    tables = tomllib.loads(RECIPE)
    tables["privacy"] |= privacy
    tables["clustering"] |= clustering
    tables["here"]["separator"] = ","
    text = tomli_w.dumps(tables)
    (here / "recipe.toml").write_text(text)
    by_recipe = ("fit", "data.csv", "--recipe", "recipe.toml", "--new-dataset", "--out", "other")
    code, _, said = fastlloyd(*by_recipe)
    again = fastlloyd("fit", "--request", str(requested(recipe=text, new_dataset=False)))
    assert (code, again.code) == (0, 0), said + again.err
    found = [(here / name / "mechanism.toml").read_text() for name in ("other", "result")]
    assert found[0] == found[1]
