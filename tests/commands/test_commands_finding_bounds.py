"""Bounds that are found privately: `fit --range`, `bounds estimate`, `plan new --kind bounds`, and
what is refused before.
"""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from command_line import Command, refused, strict, tree
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import PlanError
from fastlloyd.federation.ledger import account
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import read
from fastlloyd.jobs import bounds as bounds_job
from fastlloyd.jobs import fit as fit_job
from fastlloyd.mechanisms import central, two_stages
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.testing import SeededNoise
from stores import ADD

RANGE = ("--range", "-1000:1000")
FIT = ("fit", "visits.csv", "-k", "3", "--n-records", "4000", "--epsilon", "3")
ESTIMATE = ("bounds", "estimate", "visits.csv", "--n-records", "4000", "--epsilon", "2")
NEW = (
    "plan",
    "new",
    "--simulation",
    "--client",
    "a:2000",
    "--client",
    "b:2000",
    "--features",
    "age,dose",
    "--epsilon",
    "2",
)
CENTRES = np.array([[20, 1], [50, 4], [80, 2]])


@pytest.fixture(autouse=True)
def visits(here: Path) -> None:
    rng = np.random.default_rng(2)
    X = CENTRES[rng.integers(0, 3, 3000)] + rng.normal(0, [3, 0.2], (3000, 2))
    np.savetxt(here / "visits.csv", X, delimiter=",", header="age,dose", comments="")


@pytest.fixture(autouse=True)
def known_noise(monkeypatch: pytest.MonkeyPatch, repeatable_noise: None) -> None:
    """Of the bounds: in one run of some hundreds noise alone looks like records somewhere, which is
    as it should be.
    """
    for job in (bounds_job, fit_job):
        monkeypatch.setattr(job, "SystemNoise", lambda: SeededNoise(0))


@pytest.fixture
def spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("records were asked")

    monkeypatch.setattr(central, "release", never)


def test_fit_finds_bounds_and_centroids_within_one_budget_and_states_both(
    fastlloyd: Command, here: Path
) -> None:
    counted = ("--dataset", "visits", "--new-dataset")
    code, out, err = fastlloyd(*FIT, *RANGE, *counted, "--public-seed", "8", "--out", "result")
    assert code == 0, err
    assert set(err.splitlines()) == {line for line in err.splitlines() if line.startswith("Note: ")}
    said = strict(Path("result/privacy.json").read_text())
    assert (said["private"], said["epsilon"], said["delta"]) == (True, 3.0, 1 / 400_000)
    assert said["delta_accounted"] <= said["delta"]
    assert said["mu"] == pytest.approx(gdp_mu(3.0, said["delta"]), rel=1e-5)
    assert said["mu"] <= gdp_mu(3.0, said["delta"])
    assert said["bounds"]["share_of_budget"] == pytest.approx(0.05, rel=1e-3)
    assert said["bounds"]["outer_range"] == {"age": [-1000.0, 1000.0], "dose": [-1000.0, 1000.0]}
    assert [r["intervals_per_feature"][-1] for r in said["bounds"]["rounds"]] == [4096, 512]
    assert said["n_rounds"] == 2 + len(said["rounds"])
    assert (
        "the noisy answers that found the bounds, and the bounds, within the same budget"
        in said["protected"]
    )
    bounds = tomllib.loads(Path("result/bounds.toml").read_text())["bounds"]
    for (low, high), centres, reach in zip(bounds.values(), CENTRES.T, (40, 4), strict=True):
        assert min(centres) - reach < low < min(centres)
        assert max(centres) < high < max(centres) + reach
    words = " ".join(out.split())
    assert "epsilon = 3, delta = 2.5e-06, over all 2 rounds for the bounds and" in words
    assert "Bounds found, to which values are clipped: 'age' from" in words
    assert fastlloyd("assign", "result", "visits.csv", "--out", "labels.csv").code == 0
    assert fastlloyd(*FIT, "--bounds", "result/bounds.toml", "--no-out").code == 0
    assert fastlloyd("result", "result", "--statement").code == 0
    statement = Path("result/statement.html").read_text()
    assert "This took a share of 0.05 of the budget." in statement
    assert "Together they cost epsilon 3 " in statement


def test_a_limit_holds_both_stages_or_neither_begins(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    limit = (
        "ledger",
        "limit",
        "--dataset",
        "patients",
        "--unit",
        "patient",
        "--delta",
        "2.5e-6",
        "--epsilon",
    )
    fit = (*FIT, *RANGE, "--no-out", "--dataset", "patients", "--rows-are", "patient")
    assert fastlloyd(*limit, "2.9", "--new").code == 0
    refused(
        fastlloyd(*fit),
        "has the limit epsilon 2.9 at delta 2.5e-06 for one patient added or removed",
    )
    assert read(ledger_of_its_own)[0].history.runs == {}
    assert fastlloyd(*limit, "3").code == 0  # the whole of what is left
    assert fastlloyd(*fit).code == 0
    history = read(ledger_of_its_own)[0].history
    assert [run.uncharged for run in history.runs.values()] == [()]
    assert 2.999 < account(history, "patients", speaks_of=Neighbours(ADD, "patient")).epsilon <= 3


def test_bounds_private_says_the_same(fastlloyd: Command) -> None:
    assert (
        fastlloyd(
            *FIT, "--bounds", "private", *RANGE, "--scaling", "common", "--out", "result"
        ).code
        == 0
    )
    assert Path("result/bounds.toml").exists()


def test_a_file_is_read_in_passes_and_by_persons_too(fastlloyd: Command, here: Path) -> None:
    assert fastlloyd(*FIT, *RANGE, "--engine", "local:1", "--no-out").code == 0
    rows = (here / "visits.csv").read_text().splitlines()
    with_ids = [f"{row},{'who' if number == 0 else number // 2}" for number, row in enumerate(rows)]
    (here / "visits.csv").write_text("\n".join(with_ids))
    code, out, _ = fastlloyd(*FIT, *RANGE, "--unit-column", "who", "--out", "result")
    assert code == 0
    said = strict(Path("result/privacy.json").read_text())
    assert said["persons"]["max_clients"] == 1
    assert "noisy count of persons" in " ".join(out.split())


def test_values_outside_the_outer_range_can_be_refused_and_outside_what_was_found_never(
    fastlloyd: Command,
) -> None:
    too_narrow = ("--range", "-1000:60", "--outside", "refuse")
    for command in (
        (*FIT, "--no-out"),
        (*FIT, "--no-out", "--engine", "local:1"),
        (*ESTIMATE, "--out", "bounds.toml"),
    ):
        outcome = fastlloyd(*command, *too_narrow)
        refused(
            outcome,
            "the value lies outside --range; correct it, state a wider range from public knowledge,"
            " or clip",
        )
        assert "bounds" not in outcome.err
    assert fastlloyd(*FIT, *RANGE, "--outside", "refuse", "--no-out").code == 0


def test_an_estimate_has_a_page_for_people_that_replaces_no_other_page(
    fastlloyd: Command, here: Path
) -> None:
    command = (*ESTIMATE, *RANGE, "--out", "found.toml")
    (here / "found.html").write_text("my page")
    refused(fastlloyd(*command), "found.html")
    assert not (here / "found.toml").exists()
    (here / "found.html").unlink()
    assert fastlloyd(*command).code == 0
    page = (here / "found.html").read_text()
    assert "Bounds of" in page
    assert "from the files next to it: found.toml." in page


def test_an_estimate_is_a_file_for_bounds_that_holds_its_statement(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(*ESTIMATE, *RANGE, "--out", "bounds.toml")
    assert (code, err) == (0, "")
    assert "Guarantee: differential privacy with epsilon = 2" in " ".join(out.split())
    text = tomllib.loads(Path("bounds.toml").read_text())
    assert text["privacy"]["private"]
    assert (text["privacy"]["epsilon"], text["privacy"]["mechanism"]) == (2.0, "bounds")
    assert fastlloyd(*FIT, "--bounds", "bounds.toml", "--no-out").code == 0
    plan = (
        "plan",
        "new",
        "--simulation",
        "--client",
        "a:9",
        "--client",
        "b:9",
        "--features",
        "age,dose",
        "-k",
        "2",
    )
    assert fastlloyd(*plan, "--bounds", "bounds.toml").code == 0
    assert Plan.from_toml(Path("plan.toml").read_text()).mechanism.domain.upper == tuple(
        high for _, high in text["bounds"].values()
    )
    refused(fastlloyd(*ESTIMATE, *RANGE, "--out", "bounds.toml"), "exists already")
    assert fastlloyd(*ESTIMATE, *RANGE, "--out", "bounds.toml", "--force").code == 0
    printed = json.loads(fastlloyd(*ESTIMATE, *RANGE, "--json").out)
    assert set(printed["bounds"]) == {"age", "dose"}
    assert printed["private"]


def test_where_noise_hides_the_records_the_outer_range_stands_and_is_said(
    fastlloyd: Command, here: Path
) -> None:
    """Records that are everywhere, in a range as wide: no eighth of it has what it takes to stand
    out.
    """
    np.savetxt(
        here / "visits.csv",
        np.random.default_rng(0).uniform(-1, 1, (400, 2)),
        delimiter=",",
        header="age,dose",
        comments="",
    )
    options = ("--range", "-1:1", "--n-expected", "4000", "--out", "bounds.toml")
    code, out, _ = fastlloyd(
        "bounds", "estimate", "visits.csv", "--n-records", "4000", "--epsilon", "0.4", *options
    )
    assert code == 0
    assert "in 'age', 'dose'" in " ".join(out.split())
    assert tomllib.loads(Path("bounds.toml").read_text())["bounds"] == {
        "age": [-1.0, 1.0],
        "dose": [-1.0, 1.0],
    }


def test_a_plan_of_bounds_is_made_from_the_range_and_explained(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(*NEW, "--kind", "bounds", *RANGE)
    assert code == 0
    plan = Plan.from_toml(Path("plan.toml").read_text())
    assert isinstance(plan.mechanism, BoundsMechanism)
    assert plan.mechanism.n_records == 4000
    assert "find" not in err
    shown = json.loads(fastlloyd("plan", "show", "plan.toml", "--json").out)
    assert (shown["algorithm"], shown["n_clusters"], shown["n_rounds"]) == ("bounds", None, 2)
    explained = fastlloyd("plan", "explain", "plan.toml").out
    assert "run bounds together" in explained
    assert "Public range, to which values are clipped: 'age' from " in explained
    page = fastlloyd("plan", "digest", "plan.toml", "--page", "page.txt")
    assert page.code == 0
    assert "Algorithm bounds finds bounds in 2 rounds." in Path("page.txt").read_text()
    assert out.startswith("Written to plan.toml")


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (
        (*FIT, "--range", "1000:-1000"),
        "--range: bounds of every column are reversed: write -1000.0:1000.0",
    ),
    ((*FIT, "--range", "age=5:1,dose=0:9"), "--range: bounds of 'age' are reversed"),
    ((*FIT, "--range", "1e15:1000000000000000.1"), "--range: "),
    (
        (*FIT, "--range", "age=0:100,dosis=0:9"),
        "visits.csv: there is no column 'dosis' (did you mean 'dose'?)",
    ),
    (
        (*FIT, "--range", "age=0:100,dosis=0:9", "--columns", "age,dose"),
        "--range: bounds: column 'dosis' is unknown (did you mean 'dose'?)",
    ),
    ((*FIT, "--range", "0:x"), "--range: bounds of every column: expected LO:HI"),
    ((*FIT, "--range", "age=0:x,dose=0:9"), "--range: bounds of 'age': expected LO:HI"),
    (
        (*FIT, "--range", "age=0:100", "--columns", "age,dose"),
        "--range: bounds are missing for 'dose'",
    ),
    ((*FIT, "--range", "range.toml"), "--range: range.toml: there is no such file"),
    ((*ESTIMATE, "--range", "0:x"), "--range: bounds of every column: expected LO:HI"),
    ((*ESTIMATE, "--range", "0:9,"), "--range: bounds of every column: expected LO:HI"),
    (
        (*NEW, "--kind", "bounds", "--range", "0:x"),
        "--range: bounds of every column: expected LO:HI",
    ),
    ((*FIT, "--range", "0:0"), "--range: bounds of every column are equal"),
    (
        (*FIT, *RANGE, "--epsilon", "0.1"),
        (
            "n_records, the cap, is 4000 records: too few to find bounds of 2 features with at"
            " most a fifth"
        ),
    ),
    ((*FIT, *RANGE, "--n-expected", "200"), "Error: n_expected is 200 records: too few"),
    ((*FIT, *RANGE, "--algorithm", "sulloyd"), "but sulloyd has"),
    ((*FIT, *RANGE, "--bounds", "0:100"), "leave out one of them"),
    ((*FIT, "--bounds", "private"), "--range is missing"),
    ((*ESTIMATE,), "--range is missing"),
    (
        (*ESTIMATE, *RANGE, "--epsilon", "0.01"),
        (
            "n_records, the cap, is 4000 records: too few to find bounds of 2 features with"
            " epsilon 0.01"
        ),
    ),
    (
        (*ESTIMATE, *RANGE, "--epsilon", "0.01", "--n-expected", "3000"),
        "Error: n_expected is 3000 records: too few",
    ),
    ((*ESTIMATE, *RANGE, "--out", "bounds.txt"), "does not end in .toml"),
    ((*ESTIMATE, *RANGE, "--out", "no/bounds.toml"), "there is no folder no"),
    ((*NEW, "--kind", "bounds"), "--range is missing"),
    (
        (*NEW, "--kind", "bounds", *RANGE, "-k", "3"),
        "--n-clusters has no effect on a plan of kind bounds",
    ),
    ((*NEW, "--kind", "bounds", *RANGE, "--loss"), "--loss has no effect on a plan of kind bounds"),
    (
        (*NEW, "--kind", "bounds", *RANGE, "--trust", "server-noise"),
        "a plan that finds bounds needs client-noise",
    ),
    (
        (*NEW, "--kind", "bounds", *RANGE, "--bounds", "0:9"),
        "--bounds has no effect on a plan of kind bounds",
    ),
    (
        (*NEW, "--kind", "limits", *RANGE),
        "kind 'limits' is unknown; expected one of: clustering, bounds",
    ),
    ((*NEW, "-k", "2", *RANGE), "--range has no effect on a plan of a clustering"),
    ((*NEW, "--bounds", "0:9"), "--n-clusters is missing"),
    ((*NEW, "-k", "2", "--bounds", "private"), "--bounds private"),
]


@pytest.mark.usefixtures("spends_nothing")
@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=[said[:40] for _, said in REFUSED])
def test_what_cannot_be_done_is_refused_before_anything_is_spent(
    fastlloyd: Command, here: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = tree(here)
    arguments = tuple(a for i, a in enumerate(arguments) if not _overridden(arguments, i))
    refused(fastlloyd(*arguments), said)
    assert tree(here) == before


@pytest.mark.usefixtures("spends_nothing")
def test_a_range_that_is_none_is_refused_before_any_record_is_read(
    fastlloyd: Command, here: Path
) -> None:
    with (here / "visits.csv").open("a") as file:
        file.write("not,a record\n")
    for command in (FIT, ESTIMATE):
        refused(
            fastlloyd(*command, "--range", "0:x"), "--range: bounds of every column: expected LO:HI"
        )
        refused(
            fastlloyd(*command, "--range", "age=0:9,dosis=0:9"),
            "visits.csv: there is no column 'dosis'",
        )


def _overridden(arguments: tuple[str, ...], i: int) -> bool:
    """Whether this is an option, or its value, that is given again."""
    name = i if arguments[i].startswith("--") else i - 1
    return arguments[name] == "--epsilon" and arguments[name] in arguments[name + 1 :]


def test_if_the_second_stage_is_refused_what_was_spent_is_said(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise PlanError("nobody can use these bounds")

    monkeypatch.setattr(two_stages.TwoStages, "second", broken)
    code, out, err = fastlloyd(*FIT, *RANGE, "--no-out")
    assert (code, out) == (2, "")
    assert (
        err
        == "Error: nobody can use these bounds; finding the bounds has spent epsilon 0.5836 of 3,"
        " which stays spent\n"
    )


@pytest.mark.parametrize("command", [FIT, ESTIMATE, (*ESTIMATE, "--engine", "local:1")])
def test_the_owner_hears_how_many_records_lie_outside_the_range(
    fastlloyd: Command, command: tuple[str, ...]
) -> None:
    outside = int((np.loadtxt("visits.csv", delimiter=",", skiprows=1) > 50).any(axis=1).sum())
    code, _, err = fastlloyd(*command, "--range", "-1000:50")
    assert code == 0, err
    assert (
        f"Note: {outside} of your records have values outside --range, which were clipped." in err
    )
    code, _, err = fastlloyd(*command, *RANGE)
    assert code == 0, err
    assert "outside --range" not in err


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (("--kind", "bounds"), "takes no --recipe: name the features"),
        ((), "--kind bounds --features dose --range RANGE"),
    ],
)
def test_a_plan_says_how_several_find_bounds_for_a_recipe(
    fastlloyd: Command, here: Path, kind: tuple[str, ...], said: str
) -> None:
    (here / "r.toml").write_text(
        "[clustering]\nn_clusters = 2\n[features.age]\nbounds = [0, 120]\n[features.dose]\n"
        "range = [0, 1000]\n"
    )
    clients = [each for name in "abc" for each in ("--client", f"{name}:200")]
    refused(fastlloyd("plan", "new", "--simulation", *clients, "--recipe", "r.toml", *kind), said)
