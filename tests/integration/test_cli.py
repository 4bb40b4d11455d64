"""The command line from outside: what it prints, writes, refuses and keeps to itself."""

import importlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from fastlloyd import Lloyd
from fastlloyd.cli import screen, terminal
from fastlloyd.cli.app import COMMANDS, subcommand
from fastlloyd.cli.commands import demo
from fastlloyd.cli.commands.demo import N_RECORDS
from fastlloyd.cli.commands.plan import HEADING
from fastlloyd.cli.failures import run
from fastlloyd.clustering import grid_records
from fastlloyd.errors import OutputError
from fastlloyd.evaluation.datasets import TUMOUR_BOUNDS, load_tumours
from fastlloyd.evaluation.metrics import nicv
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.records import RecordFile, reading
from fastlloyd.reports import pictures
from fastlloyd.reports.result import COMPARISON
from kinds import lloyd_of

SECRET_NUMBER, SECRET_TEXT = "271828.18", "Zebra"
SECRETS = ("271828", "2.7182", SECRET_TEXT)
BOUNDS = ("--bounds", "age=0:100,dose=0:5")
PAPERS = ("--algorithm", "fastlloyd")
PUBLIC = (*BOUNDS, "--n-records", "500", "-k", "3")
FROM_DATA = ("--bounds", "from-data", "--n-records", "from-data")
# From this start every record of data.csv is nearest to its own cluster's centroid, by 0.4 half widths of the domain, and stays
# so: at epsilon 10 noise moves a centroid by 0.01. From one start in ten a run ends in another local minimum.
START = ("--public-seed", "8")
HANG = 300  # seconds after which a process counts as hung; one that works needs a few


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with 300 records in data.csv, in three clusters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FASTLLOYD_DEBUG", raising=False)
    rng = np.random.default_rng(2)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.integers(0, 3, 300)] + rng.normal(0, [3, 0.2], (300, 2))
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="age,dose", comments="")
    return tmp_path


@pytest.fixture
def fastlloyd(capsys: pytest.CaptureFixture[str], here: Path) -> Command:
    """Run the command line in this process."""

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        return Outcome(run(arguments), *capsys.readouterr())

    return command


def _process(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fastlloyd", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)  # noqa: S603 - our own program


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def _refused(outcome: Outcome, *fragments: str) -> None:
    """Exit code 2, nothing on stdout, one sentence on stderr that holds the fragments and no secret."""
    assert outcome.code == 2
    assert outcome.out == ""
    [sentence] = outcome.err.splitlines()
    assert sentence.startswith("Error: ")
    for fragment in fragments:
        assert fragment in sentence
    assert "Traceback" not in sentence
    for secret in SECRETS:
        assert secret not in sentence


def _strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


# What works


def test_momentlloyd_is_the_default_and_the_help_says_so_once(fastlloyd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    said_in_help = " ".join(fastlloyd("fit", "--help").out.replace("│", " ").split())
    assert "momentlloyd is our own mechanism, the others are the paper's" in said_in_help
    for command in (("fit", "data.csv"), ("simulate", "data.csv", "--clients", "3")):
        code, out, err = fastlloyd(*command, *PUBLIC, "--out", "result", "--force")
        assert (code, err) == (0, "")
        assert "our own mechanism" not in " ".join(out.split())
        said = _strict(Path("result/privacy.json").read_text())
        assert said["mechanism"] == "momentlloyd"
        assert said["units"]["sum"].startswith("the radius of the round")  # its sums are normalised: no grid units
        assert fastlloyd("assign", "result", "data.csv", "--out", "labels.csv", "--force").code == 0
    assert "default" not in fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS).out
    fastlloyd(*NEW, "--out", "new.toml")
    assert Plan.from_toml(Path("new.toml").read_text()).mechanism.name == "momentlloyd"
    explained = fastlloyd("plan", "explain", "new.toml").out
    assert "asks for the number of records and their mean" in " ".join(explained.split())
    assert "How it was chosen, from public numbers only, by the table of momentlloyd's planner" in " ".join(explained.split())


@pytest.mark.parametrize(
    "option",
    [("--alpha", "0.5"), ("--iterations", "3"), ("--min-count", "0"), ("--initialization", "halving"), ("--noise", "laplace")],
)
@pytest.mark.parametrize("command", [("fit", "data.csv"), ("simulate", "data.csv", "--clients", "3")], ids=lambda c: c[0])
def test_settings_of_the_papers_algorithms_are_refused_where_momentlloyd_runs(
    fastlloyd: Command, command: tuple[str, ...], option: tuple[str, str]
) -> None:
    _refused(fastlloyd(*command, *PUBLIC, *option), f"{option[0].lstrip('-')} has no effect: momentlloyd plans by itself")


def test_fit_shows_centroids_guarantee_and_files_and_writes_them(fastlloyd: Command, here: Path) -> None:
    code, out, err = fastlloyd("fit", "data.csv", *PUBLIC, *START, "--epsilon", "10", "--out", "result")
    assert (code, err) == (0, "")
    for expected in ("age", "dose", "noisy count", "epsilon = 10", "delta = 2e-05", "add_or_remove_one", "clusters.png"):
        assert expected in out
    assert {p.name for p in (here / "result").iterdir()} == {
        "centroids.csv",
        "centroids.json",
        "privacy.json",
        "mechanism.toml",
        "clusters.png",
    }
    table = np.loadtxt("result/centroids.csv", delimiter=",", skiprows=1, usecols=range(1, 7))
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    nearest = np.abs(X[:, :1] - [20, 50, 80]).argmin(axis=1)
    exact = np.array([X[nearest == j].mean(axis=0) for j in range(3)])
    centroids, errors = np.split(table[np.argsort(table[:, 0])][:, [0, 1, 3, 4]], 2, axis=1)
    assert (errors < [1, 0.05]).all()
    assert (np.abs(centroids - exact) < 7 * errors).all()  # six normal deviates beyond 7 errors: 2e-11
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    statement = _strict(Path("result/privacy.json").read_text())
    assert (statement["epsilon"], statement["mechanism_digest"]) == (10, m.digest.hex())
    assert statement["taken_from_the_data"] == []


def test_json_is_all_there_is_on_stdout_and_agrees_with_the_files(fastlloyd: Command) -> None:
    code, out, err = fastlloyd("fit", "data.csv", *PUBLIC, "--json", "--out", "result")
    read = _strict(out)
    assert code == 0
    assert "Guarantee" in err
    assert _strict(Path("result/centroids.json").read_text())["clusters"] == read["clusters"]
    assert [cluster["cluster"] for cluster in read["clusters"]] == [0, 1, 2]
    assert read["privacy"] == _strict(Path("result/privacy.json").read_text())
    assert sorted(read["files"]) == sorted(str(path) for path in Path("result").iterdir())
    assert read["leaks"] == []


def test_simulate_names_who_was_included_in_every_round(fastlloyd: Command) -> None:
    options = (*PAPERS, "--clients", "4", "--iterations", "3", "--drop", "client-2@1", "--drop", "4@2+", "--out", "result")
    code, out, _ = fastlloyd("simulate", "data.csv", *PUBLIC, *options)
    assert code == 0
    assert "Round 1: client-1, client-3, client-4; without client-2" in out
    assert "Round 3: client-1, client-2, client-3; without client-4" in out
    rounds = _strict(Path("result/rounds.json").read_text())
    assert [set(r["included"]) for r in rounds] == [
        {"client-1", "client-3", "client-4"},
        {"client-1", "client-2", "client-3"},
        {"client-1", "client-2", "client-3"},
    ]
    plan = Plan.from_toml(Path("result/plan.toml").read_text())
    assert (plan.max_dropouts, plan.n_clients, plan.trust.value) == (2, 4, "client-noise")
    assert sum(client.max_records for client in plan.clients) == 500
    assert _strict(Path("result/privacy.json").read_text())["federated"]["plan_digest"] == plan.digest.hex()


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "3")])
def test_the_public_seed_decides_the_start_and_never_the_noise(fastlloyd: Command, command: Sequence[str]) -> None:
    name, *options = command

    def result(seed: str) -> Any:
        return _strict(fastlloyd(name, "data.csv", *PUBLIC, *options, "--epsilon", "10", "--public-seed", seed, "--json").out)

    # clusters of 100 records, at epsilon 10: all centroids move, by noise of hundreds of grid units in each of 6 coordinates
    first, second = result("7"), result("7")
    assert first["clusters"] != second["clusters"]
    mechanisms = []
    for seed in ("7", "7", "seven", "00" * 31 + "07"):
        fastlloyd("fit", "data.csv", *PUBLIC, "--public-seed", seed, "--out", "result", "--force")
        mechanisms.append(read_mechanism(Path("result/mechanism.toml").read_text()))
    assert mechanisms[0] == mechanisms[1] == mechanisms[3] != mechanisms[2]


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
@pytest.mark.parametrize(
    ("given", "fragments"),
    [
        ((), ("--bounds and --n-records are missing: state", "with --bounds from-data --n-records from-data: NOT PRIVATE")),
        (BOUNDS, ("--n-records is missing: state a round number", "from the data with --n-records from-data: NOT PRIVATE")),
        (("--n-records", "500"), ("--bounds is missing: state the smallest", "bounds template", "with --bounds from-data")),
        (("--algorithm", "lloyd"), ("--bounds and --n-records are missing",)),
    ],
    ids=["neither", "no cap", "no bounds", "lloyd"],
)
def test_what_is_not_stated_is_never_taken_from_the_data_unasked(
    fastlloyd: Command, here: Path, command: Sequence[str], given: Sequence[str], fragments: Sequence[str]
) -> None:
    name, *more = command
    before = _tree(here)
    _refused(fastlloyd(name, "data.csv", *more, "-k", "3", *given), *fragments)
    assert _tree(here) == before


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (FROM_DATA, ["bounds were", "n_records was"]),
        ((*BOUNDS, *FROM_DATA[2:]), ["n_records was"]),
        ((*FROM_DATA[:2], "--n-records", "500"), ["bounds were"]),
    ],
    ids=["both", "cap", "bounds"],
)
def test_what_is_taken_from_the_data_on_request_makes_the_result_not_private_wherever_that_is_said(
    fastlloyd: Command, command: Sequence[str], given: Sequence[str], taken: Sequence[str]
) -> None:
    name, *more = command
    code, out, err = fastlloyd(name, "data.csv", *more, "-k", "3", *given, "--json", "--out", "result")
    warnings = [line.removeprefix("Warning: ") for line in err.splitlines() if line.startswith("Warning")]
    assert code == 0
    assert [any(w.startswith(t) for w in warnings) for t in taken] == [True] * len(taken) == [True] * len(warnings)
    said, read = _strict(Path("result/privacy.json").read_text()), _strict(out)
    for statement in (said, read["privacy"]):
        assert statement["private"] is False
        assert statement["taken_from_the_data"] == warnings == read["leaks"]
        assert statement["protected"] == []
        assert statement["cautions"][0].startswith("NOT PRIVATE: settings were taken from the data")
    assert read["private"] is False
    text = " ".join(err.split())
    assert (
        "NOT PRIVATE: settings were taken from the data (see the warnings). If they were public, the guarantee would be" in text
    )
    assert "It would hide whether any single record is in the data" in text
    assert "Guarantee: " not in text
    for path in Path("result").iterdir():
        assert b"NOT PRIVATE" in path.read_bytes() or path.name == "rounds.json", path
    assert Path(f"result/{'plan' if more else 'mechanism'}.toml").read_text().startswith("# NOT PRIVATE: settings were taken")


def test_what_is_stated_makes_the_result_private_and_nothing_says_otherwise(fastlloyd: Command) -> None:
    _, out, err = fastlloyd("fit", "data.csv", *PUBLIC, "--json", "--out", "result")
    assert _strict(out)["private"] is _strict(out)["privacy"]["private"] is True
    assert "Warning" not in err
    assert "NOT PRIVATE" not in err
    assert not [path for path in Path("result").iterdir() if b"NOT PRIVATE" in path.read_bytes()]


def test_the_number_of_records_is_no_leak_where_the_relation_makes_it_public(fastlloyd: Command) -> None:
    given = (*BOUNDS, "--n-records", "from-data", "--neighboring-relation", "replace-one", "--json", "--no-out")
    _, out, err = fastlloyd("fit", "data.csv", "-k", "3", *given)
    assert "Warning" not in err
    assert _strict(out)["privacy"]["n_records_cap"] == 300
    assert _strict(out)["private"] is True


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
def test_the_number_of_records_leaks_under_every_relation_where_some_may_be_dropped(
    fastlloyd: Command, here: Path, command: Sequence[str]
) -> None:
    # One record is replaced by one with a missing cell, and the number that is published is another.
    lines = (here / "data.csv").read_text().splitlines()
    lines[5] = ",1.5"
    (here / "gaps.csv").write_text("\n".join(lines))
    name, *more = command
    relation = ("--neighboring-relation", "replace-one")
    shared = (*more, "-k", "3", *BOUNDS, *FROM_DATA[2:], *relation, "--missing", "drop", "--json", "--no-out")
    for data, n_records in (("data.csv", 300), ("gaps.csv", 299)):
        _, out, err = fastlloyd(name, data, *shared)
        privacy = _strict(out)["privacy"]
        assert privacy["n_records_cap"] == n_records
        assert ["n_records" in leak for leak in privacy["taken_from_the_data"]] == [True]
        assert privacy["private"] is False
        assert "Warning: n_records was taken from the data" in err


def test_a_constant_column_gets_bounds_half_a_unit_away(fastlloyd: Command, here: Path) -> None:
    (here / "flat.csv").write_text("a,b,c\n1,7,1e9\n2,7,1e9\n3,7,1e9\n")
    code, _, _ = fastlloyd("fit", "flat.csv", "-k", "1", *FROM_DATA, "--out", "result")
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    assert code == 0
    assert (m.domain.lower[:2], m.domain.upper[:2]) == ((1.0, 6.5), (3.0, 7.5))
    assert m.domain.lower[2] < 1e9 - 0.5 < 1e9 + 0.5 < m.domain.upper[2]


def test_the_paper_preset_sets_what_the_paper_ran(fastlloyd: Command) -> None:
    fastlloyd("fit", "data.csv", *PUBLIC, "--preset", "paper", "--out", "central")
    m = LloydMechanism.from_toml(Path("central/mechanism.toml").read_text())
    assert (m.initialization.value, float(m.min_count)) == ("halving", 0)
    assert math.isclose(m.delta, 1 / (500 * math.log(500)), rel_tol=1e-15)
    fastlloyd("simulate", "data.csv", *PUBLIC, "--preset", "paper", "--clients", "2", "--out", "federated")
    plan = Plan.from_toml(Path("federated/plan.toml").read_text())
    assert (plan.trust.value, float(lloyd_of(plan).min_count)) == ("server-noise", 0)


def test_every_option_of_the_ablation_reaches_the_mechanism(fastlloyd: Command) -> None:
    options = "--radius constant --alpha 0.5 --postprocessing truncate --no-clipping --noise laplace --min-count 2.5"
    more = "--initialization halving --iterations 4 --n-expected 250 --scaling common"
    code, _, err = fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS, *options.split(), *more.split(), "--out", "result")
    assert (code, err) == (0, "")
    m = LloydMechanism.from_toml(Path("result/mechanism.toml").read_text())
    a = m.algorithm
    words = (a.radius.value, a.postprocessing.value, a.noise.value, m.initialization.value, m.domain.scaling.value)
    assert words == ("constant", "truncate", "laplace", "halving", "common")
    assert (float(a.alpha), a.clipping, float(m.min_count), len(m.rounds), m.n_expected) == (0.5, False, 2.5, 4, 250)


def test_the_loss_is_estimated_on_request_and_said_with_its_error_and_meaning(fastlloyd: Command) -> None:
    code, out, err = fastlloyd("fit", "data.csv", *PUBLIC, "--loss", "--loss-share", "0.25", "--out", "result")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "Private estimate of the loss: " in text
    assert "the sum of squared distances to the nearest centroid in squared half widths of the domain" in text
    assert "for each of 500 expected records" in text
    assert " of them move the centroids) and the loss together" in text
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    assert float(m.loss_share) == pytest.approx(0.25, rel=1e-6)
    stated = _strict(Path("result/privacy.json").read_text())["loss_estimate"]
    assert stated["value"] is not None
    assert "loss: " not in fastlloyd("fit", "data.csv", *PUBLIC).out
    assert "Loss, NOT PRIVATE: " in fastlloyd("fit", "data.csv", *PUBLIC, "--loss", "--algorithm", "lloyd").out


def test_a_negative_estimate_of_the_loss_is_left_as_it_is_and_explained(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = central.cluster

    def unlucky(*arguments: Any) -> Any:
        return msgspec.structs.replace(genuine(*arguments), loss=-(10**6))

    monkeypatch.setattr(central, "cluster", unlucky)
    text = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, "--loss").out.split())
    assert "Private estimate of the loss: -" in text
    assert "It is negative because the noise is larger than the loss." in text


def test_the_loss_of_a_simulation_may_be_missed_like_a_round(fastlloyd: Command) -> None:
    options = (*PAPERS, "--clients", "4", "--loss", "--iterations", "2", "--drop", "2@3", "--out", "result")
    code, out, _ = fastlloyd("simulate", "data.csv", *PUBLIC, *options)
    assert code == 0
    assert "Loss: client-1, client-3, client-4; without client-2" in out
    assert "It is the loss of the records of 3 of 4 clients." in " ".join(out.split())
    rounds = _strict(Path("result/rounds.json").read_text())
    assert rounds[2] == {"round": 3, "included": ["client-1", "client-3", "client-4"], "of": "loss"}
    stated, plan = _strict(Path("result/privacy.json").read_text()), Plan.from_toml(Path("result/plan.toml").read_text())
    loss = plan.mechanism.loss
    assert loss is not None
    assert stated["loss_estimate"]["included"] == ["client-1", "client-3", "client-4"]
    share = float(plan.share_scales(loss)[0]) * loss.unit(16)
    assert stated["loss_estimate"]["standard_error"] == pytest.approx(3**0.5 * share)


@pytest.mark.parametrize("share", ["0", "1", "nan", "1.5", "-0.1", "inf", "a"])
@pytest.mark.parametrize("command", [["fit", "data.csv"], ["simulate", "data.csv", "--clients", "3"]])
def test_a_share_of_the_loss_that_is_none_is_refused(fastlloyd: Command, command: list[str], share: str) -> None:
    code, out, err = fastlloyd(*command, *PUBLIC, "--loss", "--loss-share", share, "--out", "result")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert "loss" in err
    assert err.count("\n") == 1
    assert not Path("result").exists()
    code, _, err = fastlloyd(*command, *PUBLIC, "--loss-share", "0.1")
    assert code == 2
    assert "loss_share is for a private estimate of the loss" in err


def test_lloyd_says_not_private_on_screen_and_in_every_file(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd("fit", "data.csv", *PUBLIC, "--algorithm", "lloyd", "--out", "result")
    assert code == 0
    assert "NOT PRIVATE" in out
    assert "Guarantee" not in out
    for path in Path("result").iterdir():
        assert b"NOT PRIVATE" in path.read_bytes(), path
    assert _strict(fastlloyd("fit", "data.csv", *PUBLIC, "--algorithm", "lloyd", "--json").out)["private"] is False


def test_records_are_drawn_only_on_request_and_then_the_picture_is_marked(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[bool] = []
    original = pictures.draw

    def watch(picture: pictures.Picture) -> bytes:
        drawn.append(picture.records is not None)
        return original(picture)

    monkeypatch.setattr(pictures, "draw", watch)
    assert "NOT PRIVATE" not in fastlloyd("fit", "data.csv", *PUBLIC, "--out", "without").err
    assert "NOT PRIVATE" in fastlloyd("fit", "data.csv", *PUBLIC, "--out", "with", "--plot-data").err
    assert drawn == [False, True]
    assert b"NOT PRIVATE" in Path("with/clusters.png").read_bytes()
    assert b"NOT PRIVATE" not in Path("without/clusters.png").read_bytes()


def test_without_matplotlib_everything_else_is_written(fastlloyd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: pictures.Picture) -> bytes:
        raise OutputError("clusters.png was left out because matplotlib is not installed")

    monkeypatch.setattr(pictures, "draw", missing)
    code, _, err = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result")
    assert code == 0
    assert err.splitlines() == ["Warning: clusters.png was left out because matplotlib is not installed"]
    assert {p.name for p in Path("result").iterdir()} == {"centroids.csv", "centroids.json", "privacy.json", "mechanism.toml"}


@pytest.mark.parametrize("postprocessing", ["none", "truncate"])
def test_centroids_outside_the_bounds_are_said_where_the_algorithm_leaves_them(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, postprocessing: str
) -> None:
    genuine = central.cluster

    def thrown_out(mechanism: LloydMechanism, *arguments: Any) -> Any:
        inside = np.zeros((3, 2), dtype=np.int64)
        outside = inside + np.array([[0], [1], [2]]) * mechanism.domain.half_widths
        centroids = outside if postprocessing == "none" else inside
        return msgspec.structs.replace(genuine(mechanism, *arguments), centroids=centroids)

    monkeypatch.setattr(central, "cluster", thrown_out)
    shared = ("fit", "data.csv", *PUBLIC, "--postprocessing", postprocessing)
    for algorithm in ("sulloyd", "glloyd"):
        text = " ".join(fastlloyd(*shared, "--algorithm", algorithm).out.split())
        said = f"1 of 3 centroids lie outside the bounds, where {algorithm} leaves them; --postprocessing truncate"
        assert (said in text) == (postprocessing == "none")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (12.3456, 0.5612, "12.35 ± 0.56"),
        (30269.6, 170.3, "30270 ± 170"),
        (-1016.2, 19.4, "-1016 ± 19"),
        (2.5e9, 1.234e6, "2500000000 ± 1200000"),
        (1.2e-9, 3.4e-10, "(1.20 ± 0.34)e-09"),
        (2.5e12, 3.4e10, "(2.500 ± 0.034)e+12"),
        (0.0, 3.4e-10, "(0.0 ± 3.4)e-10"),
        (5.125, 0.0, "5.125"),
        (5.125, math.nan, "5.125"),
    ],
)
def test_a_value_and_its_error_have_the_same_decimals(value: float, error: float, text: str) -> None:
    assert screen.measured(value, error) == text


def test_an_error_of_hardly_anything_is_not_said_to_be_nothing(fastlloyd: Command) -> None:
    # At epsilon 10**6 the deviation of a centroid is a millionth of a half width; counts of 100 stay far above their noise.
    text = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, *START, "--epsilon", "1e6").out.split())
    assert "Standard error of a typical centroid: less than 1% of the radius of a cluster" in text


def test_noise_that_dominates_is_said(fastlloyd: Command) -> None:
    # Not said of 9 clusters only if 5 noisy counts lie 3, and 4 lie 1 standard deviation above counts that are a tenth of one:
    # 1e-15. At epsilon 50, from START, counts of 100 have noise of less than 1.
    settings = [("--epsilon", "0.02", "-k", "9"), ("--epsilon", "50", "-k", "3", *START)]
    outs = [fastlloyd("fit", "data.csv", *BOUNDS, "--n-records", "500", *setting).out for setting in settings]
    assert ["noise dominates" in out or "stayed in the last" in out for out in outs] == [True, False]


def test_values_outside_the_bounds_are_clipped_and_the_owner_is_told(fastlloyd: Command) -> None:
    bounds = ("--bounds", "age=0:100,dose=2:5")
    outside = int((np.loadtxt("data.csv", delimiter=",", skiprows=1)[:, 1] < 2).sum())
    code, out, err = fastlloyd("fit", "data.csv", *bounds, "--n-records", "500", "-k", "3", "--json", "--out", "result")
    assert code == 0
    assert f"Note: {outside} of your records" in err
    assert _strict(out)["leaks"] == []


@pytest.mark.parametrize("large", [False, True], ids=["in memory", "in passes"])
def test_a_value_outside_the_bounds_is_refused_by_its_line_or_by_its_number_in_the_file(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Blank lines, lines of the header and dropped records count."""
    monkeypatch.setattr(reading, "LARGE_TEXT", 0 if large else 1 << 28)
    (here / "odd.csv").write_text('age,"note in\ntwo lines"\n20,a\n\n21,"b"\n,c\n22,d\n400,e\n')
    _write_arrow(here / "odd.parquet", {"age": [20.0, 21.0, None, 22.0, 400.0], "note": list("abcde")})
    fit = ("--columns", "age", "--bounds", "0:100", "--n-records", "9", "-k", "2", "--missing", "drop", "--outside", "refuse")
    for file, place in (("odd.csv", "line 8"), ("odd.parquet", "record 5")):
        _refused(fastlloyd("fit", file, *fit), f"{file}, {place}, column 'age': the value lies outside the bounds")


def test_a_stray_quotation_mark_in_an_unused_column_is_refused_at_every_door(fastlloyd: Command, here: Path) -> None:
    records = (here / "data.csv").read_text().splitlines()
    lines = [records[0] + ",note", *(f"{record},text" for record in records[1:])]
    (here / "notes.csv").write_text("\n".join(lines))
    chosen = ("--columns", "age,dose")
    assert fastlloyd("fit", "notes.csv", *chosen, *PUBLIC, "--out", "result").code == 0
    lines[50], lines[80] = f'{records[50]},"text', f'{records[80]},text"'
    (here / "notes.csv").write_text("\n".join(lines))
    for command in (
        ("fit", "notes.csv", *chosen, *PUBLIC),
        ("simulate", "notes.csv", "--clients", "2", *chosen, *PUBLIC),
        ("assign", "result", "notes.csv"),
        ("bounds", "template", "notes.csv", "--out", "template.toml"),
    ):
        _refused(fastlloyd(*command), "notes.csv, line 51: the row does not end in its line", "as Parquet")


def test_values_outside_the_bounds_are_refused_on_request_by_line_and_column(fastlloyd: Command) -> None:
    dose = np.loadtxt("data.csv", delimiter=",", skiprows=1)[:, 1]
    first = int((dose < 2).argmax()) + 1
    bounds = ("--bounds", "age=0:100,dose=2:5", "--n-records", "500", "-k", "3", "--outside", "refuse")
    for command in (("fit",), ("simulate", "--clients", "2")):
        outcome = fastlloyd(command[0], "data.csv", *command[1:], *bounds, "--out", "result")
        _refused(outcome, f"data.csv, line {first + 1}, column 'dose': the value lies outside the bounds")
        assert str(dose[first - 1])[:5] not in outcome.err
        assert not Path("result").exists()
    code, _, err = fastlloyd(*FIT, "--outside", "refuse")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
def test_records_with_missing_cells_are_left_out_on_request_and_the_owner_alone_is_told(
    fastlloyd: Command, here: Path, command: Sequence[str]
) -> None:
    lines = (here / "data.csv").read_text().splitlines()
    lines[5], lines[77] = ",1.5", "40,NA"
    (here / "gaps.csv").write_text("\n".join(lines))
    name, *more = command
    _refused(fastlloyd(name, "gaps.csv", *more, *PUBLIC), "gaps.csv, line 6, column 'age'", "missing")
    code, out, err = fastlloyd(name, "gaps.csv", *more, *PUBLIC, "--missing", "drop", "--json", "--out", "result")
    assert code == 0
    assert err.startswith("Note: 2 of your records have missing cells and were left out. This number is exact: keep it to")
    assert "left out" not in out
    for path in Path("result").iterdir():
        assert b"left out" not in path.read_bytes()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".npz"])
def test_other_formats_are_clustered_as_the_text_file_is(fastlloyd: Command, here: Path, suffix: str) -> None:
    """Without noise the same records from the same start give the same centroids, digit for digit."""
    age, dose = np.loadtxt("data.csv", delimiter=",", skiprows=1).T
    columns = {"note": np.array(["text"] * 300), "dose": dose, "age": age}
    if suffix == ".npz":
        np.savez(here / "data.npz", **columns)
    else:
        _write_arrow(here / f"data{suffix}", columns)
    options = ("--columns", "age,dose", *PUBLIC, "--algorithm", "lloyd", "--public-seed", "5", "--json")
    of_text, of_other = (_strict(fastlloyd("fit", f"data{end}", *options).out) for end in (".csv", suffix))
    assert of_other["clusters"] == of_text["clusters"]


def _write_arrow(path: Path, columns: dict[str, Any]) -> None:
    pa = importlib.import_module("pyarrow")
    table = pa.table(columns)
    if path.suffix == ".parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)


def test_a_template_of_bounds_is_made_filled_in_and_used_for_any_choice_of_columns(fastlloyd: Command, here: Path) -> None:
    (here / "three.csv").write_text("age,mean dose,sex\n" + "".join(f"{20 + i % 50},{i % 5},{i % 2}\n" for i in range(200)))
    code, out, err = fastlloyd("bounds", "template", "three.csv", "--out", "bounds.toml")
    assert (code, err) == (0, "")
    assert "bounds.toml" in out
    text = Path("bounds.toml").read_text()
    assert fastlloyd("bounds", "template", "three.csv").out == text
    assert [line for line in text.splitlines() if line.endswith('= ["LOWER", "UPPER"]')] == text.splitlines()[-3:]
    fit = ("fit", "three.csv", "-k", "2", "--n-records", "300", "--bounds", "bounds.toml")
    _refused(fastlloyd(*fit), "bounds of 'age' in bounds.toml are not filled in yet")
    Path("bounds.toml").write_text(text.replace('age = ["LOWER", "UPPER"]', "age = [0, 100]"))
    assert fastlloyd(*fit, "--columns", "age").code == 0
    _refused(fastlloyd(*fit), "bounds of 'mean dose' in bounds.toml are not filled in yet")
    _refused(fastlloyd("bounds", "template", "three.csv", "--out", "bounds.toml"), "exists already")
    assert fastlloyd("bounds", "template", "three.csv", "--columns", "sex", "--out", "bounds.toml", "--force").code == 0
    assert "age" not in Path("bounds.toml").read_text().partition("[bounds]")[2]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_a_template_leaves_out_columns_of_text_and_says_which(fastlloyd: Command, here: Path, suffix: str) -> None:
    columns: dict[str, Any] = {"age": np.arange(3.0), "name": np.array([SECRET_TEXT, "", "b"]), "dose": np.arange(3)}
    match suffix:
        case ".csv":
            rows = "".join(
                f"{a:g},{name},{'NA' if dose == 1 else dose}\n" for a, name, dose in zip(*columns.values(), strict=True)
            )
            (here / "mixed.csv").write_text("age,name,dose\n" + rows)
        case ".npz":
            np.savez(here / "mixed.npz", **columns)
        case _:
            _write_arrow(here / f"mixed{suffix}", columns)
    code, out, err = fastlloyd("bounds", "template", f"mixed{suffix}")
    assert code == 0
    assert [line.split(" = ")[0] for line in out.partition("[bounds]\n")[2].splitlines()] == ["age", "dose"]
    assert err.splitlines()[0] == (
        "Note: left out 'name': not all cells there are numbers, and only numbers are clustered. Choose columns yourself with "
        "--columns."
    )
    assert SECRET_TEXT not in out + err


def test_a_template_tells_nothing_of_the_records(fastlloyd: Command, here: Path) -> None:
    templates = []
    for records in (f"{SECRET_NUMBER},1\n", "3,4\n5,6\n"):
        (here / "some.csv").write_text(f"age,dose\n{records}")
        templates.append(fastlloyd("bounds", "template", "some.csv"))
    assert templates[0] == templates[1]
    assert templates[0].code == 0


def test_many_features_and_clients_are_summed_up_on_screen_and_complete_in_the_files(fastlloyd: Command, here: Path) -> None:
    X = np.random.default_rng(0).uniform(0, 1, (200, 9))
    np.savetxt(here / "wide.csv", X, delimiter=",")
    settings = ("--bounds", "0:1", "--n-records", "200", "-k", "2", "--trust", "server-noise", "--epsilon", "20")
    _, out, _ = fastlloyd("simulate", "wide.csv", *settings, "--clients", "15", "--drop", "15@1", "--out", "result")
    assert "Round 1: 14 of 15 clients; without client-15" in out
    assert "Round 2: 15 of 15 clients\n" in out
    assert "3 more" in out
    assert "keep these files from it" in " ".join(out.split())
    [header, *rows] = Path("result/centroids.csv").read_text().splitlines()
    assert header.count(",") == 21
    assert len(rows) == 2


def test_centroids_that_all_stayed_are_said_to_be_worth_nothing(fastlloyd: Command) -> None:
    """With a floor of 10**9 records no count is large enough."""
    code, out, _ = fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS, "--min-count", "1e9", "--out", "result")
    assert code == 0
    assert "3 of 3 centroids stayed" in out
    assert "Trust in the centroids" not in out
    assert all(line.split(",")[4:6] == ["", ""] for line in Path("result/centroids.csv").read_text().splitlines()[1:])


@pytest.mark.parametrize("is_terminal", [True, False])
def test_long_work_shows_progress_on_a_terminal_only_and_never_on_stdout(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(terminal, "LARGE_WORK", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    for command, shown in (("simulate", "3 clients at work"), ("fit", "round 1 of ")):
        code, out, err = fastlloyd(
            command, "data.csv", *PUBLIC, *(["--clients", "3"] if command == "simulate" else []), "--json"
        )
        assert code == 0
        assert (shown in err) == is_terminal
        assert ("records (exact: NOT PRIVATE)" in err) == (is_terminal and command == "fit")
        assert _strict(out)["private"] is True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_search_for_many_initial_centroids_shows_progress_on_a_terminal_only(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(terminal, "MANY_CLUSTERS", 3)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    for command in (FIT, SIMULATE, (*NEW[:-1], "3", "--out", "p.toml")):
        outcome = fastlloyd(*command)
        assert outcome.code == 0
        assert ("placing 3 initial centroids" in outcome.err) == is_terminal
        assert "placing" not in outcome.out
    assert "placing" not in fastlloyd(*NEW[:-1], "2", "--out", "q.toml").err


def test_a_file_of_very_many_records_is_fitted_in_passes_with_the_same_files_and_pictures(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = fastlloyd("fit", "data.csv", *PUBLIC, "--plot-data", "--outside", "clip", "--out", "few")
    monkeypatch.setattr(reading, "LARGE_TEXT", 0)
    many = fastlloyd("fit", "data.csv", *PUBLIC, "--plot-data", "--outside", "clip", "--out", "many", "--compare-non-private")
    assert (few.code, many.code) == (0, 0)
    assert {p.name for p in Path("many").iterdir()} == {p.name for p in Path("few").iterdir()} | {COMPARISON}
    for leaking in ([], ["--outside", "refuse"]):
        outcome = fastlloyd("fit", "data.csv", "--n-clusters", "3", "--epsilon", "1", *FROM_DATA, *leaking, "--json")
        assert outcome.code == 0
        assert len(_strict(outcome.out)["leaks"]) == 2


def test_a_file_that_changes_between_two_rounds_is_refused_and_nothing_is_written(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE_TEXT", 0)
    monkeypatch.setattr(grid_records.GridRecords.__init__, "__kwdefaults__", {"kept_cells": 0})
    genuine = RecordFile.blocks_to_check

    def grows(file: RecordFile) -> Iterator[Any]:
        yield from genuine(file)
        with Path("data.csv").open("a") as text:
            text.write("50,3\n")

    monkeypatch.setattr(RecordFile, "blocks_to_check", grows)
    outcome = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result")
    _refused(outcome, "data.csv", "was changed while it was in use")
    assert not Path("result").exists()


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
def test_without_a_folder_a_run_makes_a_new_one_and_never_the_same_twice(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, command: Sequence[str]
) -> None:
    """The clock stands still, so that all runs would have one name."""
    monkeypatch.setattr(time, "strftime", lambda _: "2025-01-31-120000")
    name, *more = command
    first, second = (fastlloyd(name, "data.csv", *more, *PUBLIC) for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    made = [here / "data-k3-2025-01-31-120000", here / "data-k3-2025-01-31-120000-2"]
    assert sorted(path for path in here.iterdir() if path.is_dir()) == made
    for outcome, folder in zip((first, second), made, strict=True):
        assert f"Written to {folder.name}: centroids.csv, " in outcome.out
        assert {"centroids.csv", "centroids.json", "privacy.json", "clusters.png"} <= {path.name for path in folder.iterdir()}
    assert (made[0] / "centroids.json").read_bytes() != (made[1] / "centroids.json").read_bytes()
    assert fastlloyd("assign", made[0].name, "data.csv").code == 0


def test_a_folder_that_is_taken_at_the_last_moment_costs_no_result(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "now")
    genuine = Path.rename

    def overtaken(self: Path, target: Path) -> Path:
        if target.name == "data-k3-now":
            target.mkdir()
            (target / "mine.txt").write_text("of another process")
        return genuine(self, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    outcome = fastlloyd("fit", "data.csv", *PUBLIC)
    assert outcome.code == 0
    assert "Written to data-k3-now-2: " in outcome.out
    assert [path.name for path in (here / "data-k3-now").iterdir()] == ["mine.txt"]


def test_a_working_directory_that_cannot_be_written_is_refused_before_anything_is_spent(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(central, "cluster", lambda *_: pytest.fail("spent"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    _refused(fastlloyd(*FIT), "Permission denied", "data-k3-")


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
def test_nothing_is_kept_only_where_that_is_asked_for(fastlloyd: Command, here: Path, command: Sequence[str]) -> None:
    name, *more = command
    before = _tree(here)
    code, out, _ = fastlloyd(name, "data.csv", *more, *PUBLIC, "--no-out")
    assert code == 0
    assert "Nothing was written, as --no-out says" in out
    assert _tree(here) == before


def test_force_replaces_an_earlier_result(fastlloyd: Command) -> None:
    fastlloyd("simulate", "data.csv", *PUBLIC, "--clients", "2", "--out", "result")
    code, _, _ = fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result", "--force")
    assert code == 0
    assert not Path("result/rounds.json").exists()


def test_a_plan_is_made_shown_and_explained(fastlloyd: Command) -> None:
    clients = ("--client", "hospital-a:200", "--client", "hospital-b:150", "--client", "hospital-c:150")
    features = ("--features", "age,dose", *BOUNDS, "--n-clusters", "3", "--epsilon", "1.5")
    code, out, err = fastlloyd("plan", "new", "--simulation", *clients, *features, "--max-dropouts", "1", "--out", "p.toml")
    plan = Plan.from_toml(Path("p.toml").read_text())
    assert code == 0
    assert plan.digest.hex() in out
    assert "Warning: with 1 of 3 clients absent a round is the sum of two" in err
    assert Path("p.toml").read_text().startswith(HEADING)
    assert plan.names == ("hospital-a", "hospital-b", "hospital-c")
    assert (plan.mechanism.n_records, plan.mechanism.epsilon, plan.max_dropouts) == (500, 1.5, 1)
    shown = fastlloyd("plan", "show", "p.toml")
    assert shown.code == 0
    for expected in (plan.digest.hex(), "hospital-b: at most 150", "age: 0 to 100", "client-noise", "1.5"):
        assert expected in shown.out
    explained = fastlloyd("plan", "explain", "p.toml")
    assert explained.code == 0
    assert "NOT protected" in explained.out


def test_the_demo_shows_both_clusterings_and_their_true_losses(fastlloyd: Command) -> None:
    """Nobody picks the start, so no loss can be expected: the figures are computed again from what is shown."""
    code, out, err = fastlloyd("demo", "--out", "result")
    assert (code, err) == (0, "")
    for expected in (
        "hospital-a, hospital-b, hospital-c",
        "Guarantee",
        "NICV",
        "NOT PRIVATE",
        "clusters.png",
        "new every time",
    ):
        assert expected in out
    plan = Plan.from_toml(Path("result/plan.toml").read_text())
    assert plan.trust.value == "client-noise"
    domain, tumours = plan.mechanism.domain, load_tumours().values
    X, half_width = domain.to_grid(tumours) / 2**16, domain.units * 2**16
    first_table = Path("result/centroids.csv").read_bytes()
    shown = _strict(fastlloyd("demo", "--json", "--force", "--out", "result").out)
    start = Plan.from_toml(Path("result/plan.toml").read_text()).mechanism.public_seed
    centroids = (np.array([cluster["centroid"] for cluster in shown["clusters"]]) - domain.centre) / half_width
    assert shown["nicv"]["momentlloyd"] == pytest.approx(nicv(X, centroids), rel=1e-9)
    plain = Lloyd(2, bounds=(domain.lower, domain.upper), n_records=N_RECORDS, random_state=int(start, 16)).fit(tumours)
    assert shown["nicv"]["lloyd"] == pytest.approx(-plain.score(tumours) / len(tumours), rel=1e-9)
    assert "NOT PRIVATE" in shown["nicv"]["note"]
    assert start != plan.mechanism.public_seed
    assert Path("result/centroids.csv").read_bytes() != first_table


def test_a_demo_in_which_a_process_fails_says_which_and_why_and_writes_nothing(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _tree(here)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(demo, "free_address", lambda: address)
        _refused(fastlloyd("demo", "--out", "result"), f"server failed: cannot listen at {address}: it is not an")
    assert _tree(here) == before


@pytest.mark.parametrize("seed", range(20))
def test_two_clusters_of_the_demo_lose_less_than_half_of_what_one_does(seed: int) -> None:
    X = load_tumours().values
    lower, upper = zip(*TUMOUR_BOUNDS.values(), strict=True)
    one, two = (Lloyd(k, bounds=(lower, upper), n_records=N_RECORDS, random_state=seed).fit(X).score(X) for k in (1, 2))
    assert two > one / 2  # scores are losses below 0


# What is refused

FIT = ("fit", "data.csv", *PUBLIC)
SIMULATE = ("simulate", "data.csv", *PUBLIC, "--clients", "3")
NEW = ("plan", "new", "--simulation", "--client", "a:50", "--client", "b:50", "--features", "age,dose", *BOUNDS, "-k", "2")
K2 = ("-k", "2")

REFUSED_DATA = {
    "missing file": (None, (), "no such file"),
    "empty": ("", (), "empty"),
    "header only": ("age,dose\n", (), "no records"),
    "text": (f"age,dose\n{SECRET_NUMBER},1\n{SECRET_TEXT},2\n", (), "not a number"),
    "missing cell": (f"age,dose\n{SECRET_NUMBER},\n", (), "missing"),
    "NaN": (f"age,dose\n{SECRET_NUMBER},nan\n", (), "line 2"),
    "inf": (f"age,dose\n{SECRET_NUMBER},inf\n", (), "not a finite number"),
    "short row": (f"age,dose\n1,2\n{SECRET_NUMBER}\n", (), "line 3"),
    "not text": ("age,dose\n\udcff\udcfe,1\n", (), "UTF-8"),
    "repeated names": (f"age,age\n{SECRET_NUMBER},1\n", (), "'age'"),
    "k above the number of records": (f"age,dose\n{SECRET_NUMBER},1\n", (), "fewer records"),
    "bounds of huge values": (f"age,dose\n{SECRET_NUMBER}e303,1\n-{SECRET_NUMBER}e303,1\n", (), "'age'"),
    "bounds of near values": (f"age,dose\n{SECRET_NUMBER}00001,1\n{SECRET_NUMBER},1\n", (), "'age'"),
    "above the cap": (f"age,dose\n{SECRET_NUMBER},1\n1,1\n1,1\n", ("--n-records", "2"), "cap of 2"),
}

REFUSED = {
    "no data": (("fit",), "DATA"),
    "no k": (("fit", "data.csv"), "--n-clusters"),
    "k of 0": (("fit", "data.csv", "-k", "0"), "--n-clusters"),
    "k above the cap": (("fit", "data.csv", *BOUNDS, "--n-records", "300", "-k", "301"), "n_clusters is 301"),
    "epsilon of 0": ((*FIT, "--epsilon", "0"), "epsilon is 0"),
    "epsilon below 0": ((*FIT, "--epsilon=-1"), "epsilon is -1"),
    "epsilon of nan": ((*FIT, "--epsilon", "nan"), "epsilon is nan"),
    "epsilon of inf": ((*FIT, "--epsilon", "inf"), "epsilon is inf"),
    "epsilon of text": ((*FIT, "--epsilon", "one"), "--epsilon is 'one'; expected a number"),
    "k of text": (("fit", "data.csv", "-k", "four"), "--n-clusters is 'four'; expected an integer, 1 or more"),
    "clients without end": ((*SIMULATE[:-1], "2000"), "--clients is '2000'; expected an integer from 1 to 1000"),
    "columns twice": (
        (*FIT, "--columns", "age", "--columns", "dose"),
        "--columns is given 2 times; give it once; several",
    ),
    "bounds twice": ((*FIT, *BOUNDS), "--bounds is given 2 times"),
    "k twice": ((*FIT, "--n-clusters", "4"), "--n-clusters is given 2 times"),
    "features of a plan twice": ((*NEW, "--features", "x"), "--features is given 2 times"),
    "a folder of labels twice": (("assign", "r", "data.csv", "--out", "a", "--out", "b"), "--out is given 2 times"),
    "clipping and not": ((*FIT, "--clipping", "--no-clipping"), "--clipping is given 2 times"),
    "delta of 1": ((*FIT, "--delta", "1"), "delta is 1"),
    "delta of 0": ((*FIT, "--delta", "0"), "delta is 0"),
    "delta of nan": ((*FIT, "--delta", "nan"), "delta is nan"),
    "delta without use": (
        (*FIT, "--algorithm", "sulloyd", "--delta", "1e-6"),
        "--delta has no effect: sulloyd has",
    ),
    "delta of Laplace noise": (
        (*FIT, *PAPERS, "--noise", "laplace", "--delta", "1e-6"),
        "--delta has no effect: fastlloyd with",
    ),
    "epsilon without use": ((*FIT, "--algorithm", "lloyd", "--epsilon", "1"), "--epsilon has no effect: lloyd adds no noise"),
    "delta without noise": ((*FIT, "--algorithm", "lloyd", "--delta", "1e-6"), "--delta has no effect: lloyd adds no noise"),
    "more expected than allowed": ((*FIT, "--n-expected", "501"), "n_expected is 501, above n_records"),
    "more expected of a plan than allowed": ((*NEW, "--n-expected", "101"), "n_expected is 101, above n_records"),
    "bounds equal": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "5:5"), "equal"),
    "bounds reversed": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "5:1"), "reversed"),
    "bounds for one of two": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "age=0:100"), "'dose'"),
    "bounds for a third": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "age=0:100,dose=0:5,x=0:1"), "'x'"),
    "bounds of nan": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "nan:5"), "finite"),
    "bounds of text": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "wide"), "LO:HI"),
    "bounds in no file": (("fit", "data.csv", *K2, *PUBLIC[2:4], "--bounds", "none.toml"), "none.toml"),
    "unknown treatment of missing cells": ((*FIT, "--missing", "fill"), "missing"),
    "unknown treatment of values outside": ((*FIT, "--outside", "refuze"), "did you mean 'refuse'"),
    "template of no file": (("bounds", "template", "none.csv"), "none.csv: there is no such file"),
    "template of an unknown column": (("bounds", "template", "data.csv", "--columns", "dosis"), "did you mean 'dose'"),
    "template in place of the data": (("bounds", "template", "data.csv", "--out", "data.csv", "--force"), ".toml"),
    "template without a file to replace": (("bounds", "template", "data.csv", "--force"), "--out"),
    "unknown column": ((*FIT, "--columns", "age,dosis"), "did you mean 'dose'"),
    "unknown algorithm": ((*FIT, "--algorithm", "fastloyd"), "did you mean 'fastlloyd'"),
    "unknown preset": ((*FIT, "--preset", "papr"), "did you mean 'paper'"),
    "unknown scaling": ((*FIT, "--scaling", "comon"), "did you mean 'common'"),
    "unknown relation": ((*FIT, "--neighboring-relation", "replace"), "neighboring_relation"),
    "unknown radius": ((*FIT, *PAPERS, "--radius", "steps"), "did you mean 'step'"),
    "unknown noise": ((*FIT, *PAPERS, "--noise", "gausian"), "did you mean 'gaussian'"),
    "no noise": ((*FIT, *PAPERS, "--noise", "none"), "lloyd"),
    "unknown postprocessing": ((*FIT, *PAPERS, "--postprocessing", "flod"), "did you mean 'fold'"),
    "unknown initialization": ((*FIT, *PAPERS, "--initialization", "random"), "initialization"),
    "unknown option": ((*FIT, "--epsilom", "1"), "no option --epsilom; did you mean --epsilon?"),
    "scikit-learn's name of the seed": ((*FIT, "--random-state", "1"), "no option --random-state; did you mean --public-seed?"),
    "an option like none": ((*FIT, "-x"), "no option -x; --help lists the options"),
    "unknown command": (("fitt", "data.csv"), "fit"),
    "a needed option is left out": (("fit", "data.csv"), "--n-clusters is missing (number of clusters); --help says more"),
    "a needed file is left out": (("plan", "explain"), "PLAN is missing (a plan); --help says more"),
    "alpha of 0": ((*FIT, "--alpha", "0"), "alpha"),
    "no iterations": ((*FIT, "--iterations", "0"), "--iterations"),
    "min-count of nan": ((*FIT, *PAPERS, "--min-count", "nan"), "min_count"),
    "min-count below 0": ((*FIT, *PAPERS, "--min-count=-1"), "min_count"),
    "cap of 0": (("fit", "data.csv", *BOUNDS, *K2, "--n-records", "0"), "n_records is 0"),
    "none expected": ((*FIT, "--n-expected", "0"), "n_expected is 0"),
    "seed too large": ((*FIT, "--public-seed", "9" * 80), "seed"),
    "output exists": ((*FIT, "--out", "existing"), "existing"),
    "output is not ours": ((*FIT, "--out", "existing", "--force"), "mine.txt"),
    "output is a file": ((*FIT, "--out", "data.csv", "--force"), "is a file"),
    "output below a file": ((*FIT, "--out", "data.csv/result"), "data.csv"),
    "output where none can be": ((*FIT, "--out", "/proc/fastlloyd"), "/proc"),
    "cap of text": (("fit", "data.csv", *BOUNDS, *K2, "--n-records", "many"), "--n-records is 'many'; expected an integer"),
    "cap with a fraction": (("fit", "data.csv", *BOUNDS, *K2, "--n-records", "5.5"), "or from-data"),
    "cap of very many digits": (("fit", "data.csv", *BOUNDS, *K2, "--n-records", "9" * 5000), "expected an integer"),
    "plan with bounds of no data": (("plan", "new", *NEW[2:9], "--bounds", "from-data", *K2), "a plan needs --bounds"),
    "plan with a cap of no data": ((*NEW, "--n-records", "from-data"), "a plan holds no records to count"),
    "nowhere and somewhere": ((*FIT, "--no-out", "--out", "result"), "leave one of them out"),
    "force for a new folder": ((*FIT, "--no-out", "--force"), "--force is about the output folder"),
    "picture without a folder": ((*FIT, "--no-out", "--plot-data"), "--out"),
    "force without a folder": ((*FIT, "--force"), "--out"),
    "no clients": ((*SIMULATE[:-1], "0"), "--clients"),
    "one client": ((*SIMULATE[:-1], "1"), "no share of noise"),
    "everyone colludes": ((*SIMULATE, "--max-colluding", "3"), "no share of noise"),
    "nobody colludes": ((*SIMULATE, "--max-colluding", "0"), "max_colluding is 0"),
    "drop of nobody": ((*SIMULATE, "--drop", "client-9@1"), "client-9@1"),
    "drop without a round": ((*SIMULATE, "--drop", "client-1"), "CLIENT@ROUND"),
    "drop after the run": ((*SIMULATE, "--drop", "1@999"), "round 999"),
    "drops above the tolerated": ((*SIMULATE, "--drop", "1@1", "--max-dropouts", "0"), "without a result"),
    "shares of Laplace noise": ((*SIMULATE, "--algorithm", "sulloyd"), "server-noise"),
    "a federated run without noise": ((*SIMULATE, "--algorithm", "lloyd"), "protects nobody"),
    "unknown trust": ((*SIMULATE, "--trust", "client"), "did you mean 'client-noise'"),
    "odd ring": ((*SIMULATE, "--ring-bits", "16"), "ring_bits is 16"),
    "plan without bounds": ((*NEW[:9], "-k", "2"), "--bounds"),
    "plan without a server": (("plan", "new", *NEW[3:]), "needs --server FILE"),
    "plan of which half the clients are enough": (
        (*NEW, "--client", "c:50", "--client", "d:50", "--max-dropouts", "2"),
        "max_dropouts is 2 of 4 clients; expected at most 1",
    ),
    "plan with an odd client": ((*NEW, "--client", "c"), "NAME:CAP"),
    "plan with an odd name": ((*NEW, "--client", "c d:5"), "c d"),
    "plan with one name twice": ((*NEW, "--client", "a:5"), "'a'"),
    "plan that exists": ((*NEW, "--out", "data.csv"), "data.csv"),
    "plan in the place of data": ((*NEW, "--out", "data.csv", "--force"), "left alone"),
    "plan in no folder": ((*NEW, "--out", "none/plan.toml"), "none/plan.toml"),
    "no plan": (("plan", "show", "none.toml"), "none.toml"),
    "data for a plan": (("plan", "explain", "data.csv"), "data.csv"),
}


@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
@pytest.mark.parametrize("case", REFUSED_DATA)
def test_bad_records_are_refused_in_a_sentence_without_a_value_of_them(
    fastlloyd: Command, here: Path, case: str, command: Sequence[str]
) -> None:
    content, options, fragment = REFUSED_DATA[case]
    if content is not None:
        (here / "bad.csv").write_text(content, encoding="utf-8", errors="surrogateescape")
    before = _tree(here)
    name, *more = command
    taken = [*(() if "--bounds" in options else FROM_DATA[:2]), *(() if "--n-records" in options else FROM_DATA[2:])]
    _refused(fastlloyd(name, "bad.csv", *K2, *more, *taken, *options, "--out", "result"), fragment)
    assert _tree(here) == before


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings_are_refused_in_a_sentence_and_nothing_is_written(fastlloyd: Command, here: Path, case: str) -> None:
    (here / "existing").mkdir()
    (here / "existing" / "mine.txt").write_text("mine")
    arguments, fragment = REFUSED[case]
    before = _tree(here)
    _refused(fastlloyd(*arguments), fragment)
    assert _tree(here) == before


def test_the_output_is_checked_before_the_records_are_read(fastlloyd: Command, here: Path) -> None:
    (here / "existing").mkdir()
    _refused(fastlloyd("fit", "none.csv", *PUBLIC, "--out", "existing"), "existing")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--algorithm", "sulloyd", "--delta", "1e-6"), "--delta has no effect"),
        (("--algorithm", "lloyd", "--epsilon", "1"), "--epsilon has no effect"),
        (("--loss-share", "0.1"), "loss_share is for a private estimate"),
        (("--algorithm", "lloyd", "--compare-non-private"), "--compare-non-private"),
        (("--epsilon", "-1"), "epsilon is -1"),
        (("--delta", "2"), "delta is 2"),
        ((*PAPERS, "--alpha", "9"), "alpha is 9"),
        (("--n-expected", "600"), "n_expected is 600"),
        (("--scaling", "comon"), "did you mean 'common'"),
        (("--outside", "refuze"), "did you mean 'refuse'"),
        ((*PAPERS, "--initialization", "halfing"), "did you mean 'halving'"),
    ],
)
@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "2")], ids=["fit", "simulate"])
def test_options_are_checked_before_the_records_are_read(
    fastlloyd: Command, command: tuple[str, ...], options: tuple[str, ...], fragment: str
) -> None:
    name, *more = command
    _refused(fastlloyd(name, "none.csv", *more, *PUBLIC, *options), fragment)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [(("--trust", "server"), "server-noise"), (("--drop", "client-9@1"), "client-9")],
)
def test_options_of_a_federation_are_checked_before_the_records_are_read(
    fastlloyd: Command, options: tuple[str, ...], fragment: str
) -> None:
    _refused(fastlloyd("simulate", "none.csv", "--clients", "2", *PUBLIC, *options), fragment)


def test_a_plan_with_one_digit_changed_is_refused_wherever_the_digit_stands(fastlloyd: Command) -> None:
    fastlloyd(*NEW, *PAPERS, "--iterations", "2", "--out", "plan.toml")
    text = Path("plan.toml").read_text()
    positions = [i for i, character in enumerate(text) if character.isdigit()]
    assert len(positions) > 200
    for i in positions:
        changed = text[:i] + str((int(text[i]) + 1) % 10) + text[i + 1 :]
        Path("changed.toml").write_text(changed)
        _refused(fastlloyd("plan", "show", "changed.toml"), "changed.toml")


GARBAGE = {
    "nothing": b"",
    "bytes": bytes(range(256)) * 40,
    "zeros": bytes(10_000),
    "huge": b"a" * (5 << 20),
    "brackets": b"x = " + b"[" * 100_000,
    "digits": b"x = " + b"9" * 10_000,
    "another table": b"[seal]\ndigest = 'x'\n",
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_is_no_plan(fastlloyd: Command, here: Path, case: str) -> None:
    (here / "plan.toml").write_bytes(GARBAGE[case])
    for command in ("show", "explain"):
        _refused(fastlloyd("plan", command, "plan.toml"), "plan.toml")


def test_the_settings_of_a_fit_are_no_plan_and_that_is_said(fastlloyd: Command) -> None:
    for given in (PUBLIC[:4], FROM_DATA):
        assert fastlloyd("fit", "data.csv", "-k", "3", *given, "--out", "result", "--force").code == 0
        for command in ("show", "explain"):
            outcome = fastlloyd("plan", command, "result/mechanism.toml")
            _refused(outcome, "result/mechanism.toml holds the settings of a run of fit", "privacy.json")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_plan_cut_off_is_refused(fastlloyd: Command, share: float) -> None:
    fastlloyd(*NEW)
    text = Path("plan.toml").read_text()
    Path("plan.toml").write_text(text[: int(share * len(text))])
    _refused(fastlloyd("plan", "show", "plan.toml"), "plan.toml")


# What goes wrong


def test_an_unexpected_error_keeps_its_message_to_itself(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError(f"record {SECRET_TEXT} {SECRET_NUMBER}")

    monkeypatch.setattr(central, "cluster", fail)
    before = _tree(here)
    code, out, err = fastlloyd(*FIT, "--out", "result")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "report" in err
    assert not any(secret in err for secret in SECRETS)
    assert SECRET_TEXT in fastlloyd("--debug", *FIT).err
    monkeypatch.setenv("FASTLLOYD_DEBUG", "1")
    assert SECRET_TEXT in fastlloyd(*FIT, "--out", "result").err
    assert _tree(here) == before


@pytest.mark.parametrize(("failure", "code"), [(KeyboardInterrupt(), 130), (MemoryError(), 1)])
@pytest.mark.parametrize("where", ["computing", "writing"])
def test_an_interruption_leaves_nothing_half_written(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int, where: str
) -> None:
    def fail(*_: object) -> None:
        raise failure

    before = _tree(here)
    if where == "computing":
        monkeypatch.setattr(central, "cluster", fail)
    else:
        monkeypatch.setattr(Path, "write_bytes", fail)
    outcome = fastlloyd(*FIT, "--out", "result")
    assert (outcome.code, outcome.out) == (code, "")
    assert len(outcome.err.splitlines()) == 1
    assert _tree(here) == before


def test_a_full_disk_is_said_and_leaves_nothing(fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    before = _tree(here)
    code, out, err = fastlloyd(*FIT, "--out", "result")
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left on device); nothing was left there; the result was shown, and its epsilon is spent" in err
    assert "noisy count" in out  # it is spent, so it is not lost
    assert _strict(fastlloyd(*FIT, "--json", "--out", "result").out)["files"] == []
    assert _tree(here) == before


# What only a process of its own can show


def test_ctrl_c_ends_a_process_quietly(here: Path) -> None:
    """The data come through a named pipe: once it is open for reading, the program is at work, and stays so."""
    os.mkfifo(here / "pipe.csv")
    # a shell lets background jobs, and so their children, ignore SIGINT: a handler, unlike that, is not handed on to a child
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = _process("fit", "pipe.csv", *PUBLIC, "--out", "result", stdout=subprocess.PIPE)
    signal.signal(signal.SIGINT, ours)
    with process, (here / "pipe.csv").open("w") as pipe:
        pipe.write("age,dose\n1,2\n")
        pipe.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out, err) == (130, "", "Interrupted\n")
    assert {p.name for p in here.iterdir()} == {"data.csv", "pipe.csv"}


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_has_gone_costs_no_result_and_no_traceback(here: Path, options: Sequence[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with _process(*FIT, "--out", "result", *options, stdout=writer) as process:
        os.close(writer)
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 1
    assert "Traceback" not in err
    assert "Error" not in err
    assert (here / "result" / "centroids.csv").exists()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_poor_terminal_gets_question_marks_and_no_error(here: Path, encoding: str) -> None:
    (here / "data.csv").write_text("\u5e74\u9f84\n" + "1\n2\n3\n" * 30, encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    options = ("-k", "1", "--bounds", "0:4", "--n-records", "100")
    with _process("fit", "data.csv", *options, stdout=subprocess.PIPE, env=environment, encoding=encoding) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (0, "")
    assert "?" in out


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["simulate", "--help"], ["--version"]])
def test_help_loads_none_of_the_heavy_libraries(arguments: list[str]) -> None:
    """That is why it answers at once; how fast is measured by the benchmarks."""
    script = (
        f"import sys; from fastlloyd.cli.failures import run; run({arguments!r}); "
        "sys.exit(len({'numpy', 'scipy', 'matplotlib', 'sklearn', 'mpmath', 'cryptography'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own interpreter


HELPED = [(), *((name,) for name in COMMANDS), ("plan", "new"), ("bounds", "template"), ("plan", "show")]


@pytest.mark.parametrize("command", HELPED, ids=" ".join)
def test_help_says_nothing_of_the_kind_of_a_switch_and_breaks_no_word_at_80_columns(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = fastlloyd(*command, "--help")
    assert code == 0
    assert "<bool>" not in out
    assert all(len(line) <= 80 for line in out.splitlines())
    if command in (("fit",), ("simulate",), ("plan", "new")):
        words = "momentlloyd fastlloyd glloyd sulloyd add_or_remove_one replace_one none truncate fold"
        assert set(words.split()) <= set(out.split())


def _completed(line: str) -> list[str]:
    """What a shell is told to complete a line with, its last word being the one that is typed."""
    variables = {"_FASTLLOYD_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    with _process(stdout=subprocess.PIPE, env=os.environ | variables) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (0, "")
    return out.split()


def test_a_shell_completes_commands_and_options(here: Path) -> None:
    assert _completed("fastlloyd si") == ["simulate"]
    assert _completed("fastlloyd fit --n-r") == ["--n-records"]
    assert _completed("fastlloyd plan ren") == ["renew"]


def test_the_way_to_complete_is_shown(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd("--show-completion", "bash")
    assert code == 0
    assert "_FASTLLOYD_COMPLETE=complete_bash" in out


def test_standard_input_is_a_text_file(here: Path) -> None:
    """Through a pipe, which is read once, and from a file, which is read again."""
    for pass_on in (True, False):
        with (here / "data.csv").open() as file:
            source: Any = subprocess.PIPE if pass_on else file
            arguments = ("fit", "-", *PUBLIC, "--json", "--no-out")
            with _process(*arguments, stdin=source, stdout=subprocess.PIPE) as process:
                out, _ = process.communicate(file.read() if pass_on else None, timeout=HANG)
        assert process.returncode == 0
        assert _strict(out)["features"] == ["age", "dose"]


@pytest.mark.parametrize(
    ("option", "fragment"),
    [
        (("--decimal", ","), "no option --decimal: decimals have a point; where cells are separated by semicolons, `tr , .`"),
        (("--sep", ";"), "no option --sep: cells are separated by commas, semicolons or tabs, whichever the first line has"),
        (("--delimiter", ";"), "whichever the first line has"),
        (("--no-header",), "the first line is a header if none of its cells is a number"),
        (("--encoding", "latin1"), "text is UTF-8"),
    ],
)
def test_what_other_programs_have_options_for_is_told_by_the_file_and_that_is_said(
    fastlloyd: Command, option: tuple[str, ...], fragment: str
) -> None:
    _refused(fastlloyd("fit", "data.csv", *PUBLIC, *option), fragment)


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("age;dose\n1,5;2\n", "`tr , . <IN.csv >OUT.csv` turns decimal commas into points"),
        ("age;dose\n1,5;2,5\n", "`tr , . <IN.csv >OUT.csv` turns decimal commas into points"),
        ("sep=;\nage;dose\n1;2\n", "the first line is a note for Excel, not a header; delete it"),
        ("sep=,\nage,dose\n1,2\n", "the first line is a note for Excel, not a header; delete it"),
    ],
)
def test_what_a_spreadsheet_writes_is_refused_with_the_way_out(
    fastlloyd: Command, here: Path, text: str, fragment: str
) -> None:
    (here / "sheet.csv").write_text(text)
    _refused(fastlloyd("fit", "sheet.csv", *PUBLIC), "sheet.csv", fragment)


def test_a_workbook_is_refused_with_the_way_out(fastlloyd: Command, here: Path) -> None:
    (here / "sheet.xlsx").write_bytes(b"PK")
    way_out = "sheet.xlsx: workbooks are not read; save the sheet as CSV in UTF-8, with decimal points"
    _refused(fastlloyd("fit", "sheet.xlsx", *PUBLIC), way_out)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_template_says_why_it_leaves_a_column_out(fastlloyd: Command, here: Path, suffix: str) -> None:
    cells = {"age": np.arange(2.0), "ward": np.array([SECRET_TEXT, "b"]), "smokes": np.array(["yes", "no"])}
    if suffix == ".csv":
        (here / "mixed.csv").write_text(f"age,ward,smokes\n1,{SECRET_TEXT},yes\n2,b,no\n")
    else:
        _write_arrow(here / f"mixed{suffix}", cells)
    code, out, err = fastlloyd("bounds", "template", f"mixed{suffix}")
    assert code == 0
    assert 'age = ["LOWER", "UPPER"]' in out
    note, *reasons = err.splitlines()
    assert note.startswith("Note: left out 'ward', 'smokes'")
    expected = ["line 2, column 'ward': not a number", "line 2, column 'smokes': not a number; write yes and no"]
    assert len(reasons) == 2
    for reason, fragment in zip(reasons, expected if suffix == ".csv" else ["'ward' holds text"] * 2, strict=True):
        assert fragment.replace("ward", "smokes" if "smokes" in reason else "ward") in reason
        assert SECRET_TEXT not in reason


def test_rounds_and_iterations_are_told_apart_in_words(fastlloyd: Command) -> None:
    out = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, "--out", "result").out.split())
    said = _strict(Path("result/privacy.json").read_text())
    assert len(said["rounds"]) == said["n_rounds"] > said["n_iterations"]
    assert f"over all {said['n_rounds']} rounds ({said['n_iterations']} of them move the centroids) together" in out
    assert said["iterations_and_rounds"] == "a round is one noisy answer; an iteration is a round that moves the centroids"
    out = " ".join(fastlloyd("fit", "data.csv", *PUBLIC, *PAPERS, "--iterations", "3", "--no-out").out.split())
    assert "over all 3 iterations together" in out


def test_help_loads_no_command_that_is_not_called() -> None:
    script = (
        "import sys; from fastlloyd.cli.failures import run; run(['--help']); "
        "assert not {'fastlloyd.cli.commands.fit', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own interpreter


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_how_its_own_help_begins(fastlloyd: Command, name: str) -> None:
    assert " ".join(subcommand(name).help.split()).startswith(COMMANDS[name].rstrip("."))
    code, out, err = fastlloyd(name, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: fastlloyd {name} " in out
    assert f" {name} " in fastlloyd("--help").out


def test_the_shell_sees_the_exit_code(here: Path) -> None:
    with _process("fit", "none.csv", *PUBLIC, stdout=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out, err) == (2, "", "Error: none.csv: there is no such file\n")


def test_a_file_that_a_stranger_sent_reaches_no_terminal_as_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.toml"
    for text in ('"\\u0007\\u001b]0;title" = 1\n[seal]\ndigest = ""', 'run_id = 1\n[seal]\ndigest = "\\u0007\\u202e"'):
        file.write_text(text)
        assert run(["plan", "show", str(file)]) == 2
        assert capsys.readouterr().err.rstrip("\n").isprintable()
