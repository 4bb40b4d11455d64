"""Commands that protect persons: `--unit-column` in fit, simulate and join, `plan new --unit
person`, and what they say.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import NEW, Command, refused, strict
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.catalogue import read_mechanism
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.reports.facts import sentence as words_of
from fastlloyd.reports.plan_facts import whole_person
from network_processes import HANG, NAMES, SERVER, Site, cleared
from network_site import FAST
from network_site import here as run_here
from network_site import made as made  # noqa: PLC0414 - a fixture
from network_site import refused as refused_at

CAP = ("--n-records", "150")
VISITS = ("--bounds", "age=0:100,dose=0:5", "-k", "3", "--public-seed", "8", "--epsilon", "10")
OF_PATIENTS = ("--unit-column", "patient", "--unit-name", "patient")


@pytest.fixture
def visits(here: Path) -> Path:
    """A file of 900 rows of 100 patients, from 1 to 17 each."""
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(100), rng.integers(1, 18, 100))
    X = np.array([[20, 1], [50, 4], [80, 2]])[ids % 3] + rng.normal(0, [3, 0.2], (len(ids), 2))
    rows = [f"{X[i, 0]:.6f},P{ids[i]:03d},{X[i, 1]:.6f}" for i in rng.permutation(len(ids))]
    path = here / "visits.csv"
    path.write_text("age,patient,dose\n" + "\n".join(rows) + "\n")
    return path


def words(text: str) -> str:
    return " ".join(text.split())


def test_fit_protects_patients_and_says_so(fastlloyd: Command, visits: Path) -> None:
    code, out, err = fastlloyd(
        "fit", "visits.csv", *VISITS, *CAP, *OF_PATIENTS, "--loss", "--out", "result"
    )
    assert (code, err) == (0, "")
    said = words(out)
    assert "It hides whether any single patient is in the data" in said
    assert (
        "One patient: all rows under one id. Together they count once, whatever their number."
        in said
    )
    assert "each of 150 expected patients" in said
    assert "noisy count of patients" in said
    m = read_mechanism(Path("result/mechanism.toml").read_text())
    assert m.persons == Persons(name="patient")
    assert m.domain.features == ("age", "dose")
    statement = strict(Path("result/privacy.json").read_text())
    assert statement["persons"] == {"name": "patient", "max_clients": 1, "weight_bits": 10}
    assert statement["units"]["count"] == "2**-10 patients"
    assert "per_expected_person" in statement["loss_estimate"]
    codes = [fact["code"] for fact in statement["outside_the_guarantee"]]
    assert "wrong_ids" in codes
    assert "more_organisations" not in codes
    counts = np.array(
        [
            cluster["noisy_count"]
            for cluster in json.loads(Path("result/centroids.json").read_text())["clusters"]
        ]
    )
    assert counts.dtype == np.float64  # in shares of a patient
    error = json.loads(Path("result/centroids.json").read_text())["clusters"][0][
        "noisy_count_standard_error"
    ]
    assert abs(counts.sum() - 100) < 8 * error * 3**0.5
    assert fastlloyd("assign", "result", "visits.csv", "--out", "labels.csv").code == 0
    assert len(Path("labels.csv").read_text().splitlines()) == len(visits.read_text().splitlines())


def test_a_comparison_of_persons_is_by_rows(fastlloyd: Command, visits: Path) -> None:
    """Of which there are more than the cap on patients."""
    code, out, _ = fastlloyd(
        "fit", "visits.csv", *VISITS, *CAP, *OF_PATIENTS, "--no-out", "--compare-non-private"
    )
    assert code == 0
    assert "NOT PRIVATE, for the owner of the records only" in words(out)
    assert len(visits.read_text().splitlines()) > 151


@pytest.mark.parametrize("c", ["1", "2"])
def test_simulate_deals_patients_out_whole_or_over_several_clients(
    fastlloyd: Command, visits: Path, c: str
) -> None:
    more = CAP if c == "1" else ("--max-clients-per-person", c, "--n-records", "250")
    code, out, err = fastlloyd(
        "simulate", "visits.csv", "--clients", "3", *VISITS, *OF_PATIENTS, *more, "--out", "result"
    )
    assert (code, err) == (0, "")
    plan = Plan.from_toml(Path("result/plan.toml").read_text())
    assert plan.mechanism.persons == Persons(name="patient", max_clients=int(c))
    assert f"{words_of(whole_person(plan.mechanism.persons), plan.mechanism.unit)}." in words(out)
    counts = [
        cluster["noisy_count"]
        for cluster in json.loads(Path("result/centroids.json").read_text())["clusters"]
    ]
    error = json.loads(Path("result/centroids.json").read_text())["clusters"][0][
        "noisy_count_standard_error"
    ]
    n = (
        100
        if c == "1"
        else 100 + sum(visits.read_text().count(f"P{i:03d}") > 1 for i in range(100))
    )
    assert abs(sum(counts) - n) < 8 * error * 3**0.5


UNCAPPED = ("fit", "visits.csv", *VISITS, "--no-out")
FIT = (*UNCAPPED, *CAP)


def test_what_is_wrong_with_a_column_of_ids_is_refused_in_a_sentence(
    fastlloyd: Command, visits: Path
) -> None:
    for arguments, match in (
        ((*FIT, "--unit-column", "patent"), "did you mean 'patient'?"),
        (
            (*FIT, "--unit-column", "patient", "--columns", "age,patient"),
            "ids of persons",
        ),
        (
            (*FIT, "--unit-name", "patient"),
            "--unit-name has no effect",
        ),
        (
            (*FIT, "--unit-column", "patient", "--unit-name", "two words"),
            "expected a word such as patient",
        ),
        (
            (*FIT, "--unit-column", "patient", "--unit-name", "patients"),
            ("the name of the unit is 'patients'; expected the singular"),
        ),
        ((*FIT, "--unit-column", "patient", "--engine", "local:2"), "leave out --engine"),
        ((*UNCAPPED, *OF_PATIENTS, "--n-records", "99"), "more patients than the cap of 99"),
        ((*FIT, *OF_PATIENTS, "--n-expected", "999"), "the cap on the number of patients"),
        ((*UNCAPPED, *OF_PATIENTS), "a round number above the number of patients"),
        (
            ("simulate", *FIT[1:], "--clients", "3", *OF_PATIENTS, "--ring-bits", "32"),
            "expected 64 to protect patients",
        ),
        (
            ("simulate", *FIT[1:], "--clients", "3", "--max-clients-per-person", "2"),
            "name the column of ids",
        ),
        (
            ("simulate", *FIT[1:], "--clients", "2", *OF_PATIENTS, "--max-clients-per-person", "3"),
            "has 2 clients",
        ),
    ):
        refused(fastlloyd(*arguments), match)
    lines = visits.read_text().splitlines()
    for number, cell in ((7, ""), (9, "NA")):
        age, _, dose = lines[number - 1].split(",")
        Path("visits.csv").write_text(
            "\n".join([*lines[: number - 1], f"{age},{cell},{dose}", *lines[number:]]) + "\n"
        )
        refused(
            fastlloyd(*FIT, *OF_PATIENTS), f"line {number}, column 'patient': the id is missing"
        )


def test_the_number_of_patients_taken_from_the_data_leaks_under_both_relations(
    fastlloyd: Command, visits: Path
) -> None:
    assert visits.is_file()
    for relation in ("add_or_remove_one", "replace_one"):
        taken = ("--n-records", "from-data", "--neighboring-relation", relation)
        code, out, err = fastlloyd(*UNCAPPED, *OF_PATIENTS, *taken, "--json")
        assert code == 0
        assert "reveals the number of patients" in err
        assert strict(out)["private"] is False


@pytest.mark.parametrize(("clients", "c", "cap"), [("3", "2", 200), ("7", "3", 300)])
def test_a_simulation_that_counts_patients_itself_counts_each_at_each_of_its_clients(
    fastlloyd: Command, visits: Path, clients: str, c: str, cap: int
) -> None:
    """Of 100 patients, c times."""
    assert visits.is_file()
    shared = ("--clients", clients, "--max-clients-per-person", c, "--n-records", "from-data")
    code, out, err = fastlloyd("simulate", *UNCAPPED[1:], *OF_PATIENTS, *shared, "--json")
    assert code == 0
    assert "reveals the number of patients" in err
    assert strict(out)["private"] is False
    assert strict(out)["privacy"]["delta"] == pytest.approx(1 / (100 * cap))


PERSONS = ("--unit", "person", "--unit-name", "patient", "--max-clients-per-person", "2")


def test_plan_new_makes_plans_of_persons_and_explain_says_what_they_mean(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*NEW, "--client", "c:50", *PERSONS, "--loss", "--out", "p.toml").code == 0
    plan = Plan.from_toml((here / "p.toml").read_text())
    assert plan.mechanism.persons == Persons(name="patient", max_clients=2)
    said = words(fastlloyd("plan", "explain", "p.toml").out)
    for sentence in (
        "At most 150 patients in all, each counted once at each organisation where the patient is.",
        "What is protected: every single patient.",
        "the number of its patients (standard error ",
        "every patient of the other clients is protected",
        "knows all other patients",
        (
            "One patient: all rows under one id, at up to 2 organisations. Together, the rows at one"
            " organisation count once"
        ),
        "If rows have a wrong id",
        "At delta = 6.66667e-05, the epsilon of such a patient is",
        "asks for the number of patients and for their mean",
        "The rows of a patient count as one record.",
        "per expected patient.",
        "a: at most 50 patients",
        "a patient with rows at more than 2 organisations",
    ):
        assert sentence in said, sentence
    assert "not each person" not in said
    shown = words(fastlloyd("plan", "show", "p.toml").out)
    assert "protected" in shown
    assert "at most 150, planned for 150" in shown
    of_machines = strict(fastlloyd("plan", "show", "p.toml", "--json").out)
    assert of_machines["persons"] == {"name": "patient", "max_clients": 2, "weight_bits": 10}
    page = (
        words(fastlloyd("plan", "digest", "p.toml", "--page", "page.txt").out)
        and (here / "page.txt").read_text()
    )
    assert "At most 150 patients in all" in words(page)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        (("--unit", "person"), "--max-clients-per-person is missing"),
        (("--unit", "human", "--max-clients-per-person", "1"), "unit 'human' is unknown"),
        (
            ("--unit-name", "patient"),
            "--unit-name has no effect",
        ),
        (
            ("--max-clients-per-person", "1"),
            "--max-clients-per-person has no effect",
        ),
        (
            (*PERSONS[:3], "families", *PERSONS[4:]),
            "the name of the unit is 'families'; expected the singular",
        ),
        ((*PERSONS[:-1], "0"), "max_clients is 0"),
        ((*PERSONS[:-1], "3"), "--max-clients-per-person is 3"),
        ((*PERSONS, "--ring-bits", "32"), "expected 64 to protect patients"),
    ],
)
def test_plans_of_persons_without_sense_are_refused(
    fastlloyd: Command, here: Path, more: tuple[str, ...], match: str
) -> None:
    refused(fastlloyd(*NEW, *more, "--out", "p.toml"), match)
    assert not (here / "p.toml").exists()


def test_advise_shows_what_it_costs_that_persons_may_be_at_several_clients(
    fastlloyd: Command,
) -> None:
    question = (
        "advise",
        "--records",
        "5000",
        "--features",
        "4",
        "-k",
        "5",
        "--epsilons",
        "2,5",
        "--unit",
        "person",
    )
    said = strict(fastlloyd(*question, "--clients", "4", "--json").out)
    assert list(said["by_clients"]) == ["1", "2", "4"]
    for at_one, at_two, at_all in zip(*said["by_clients"].values(), strict=True):
        assert at_one < at_two < at_all
    assert said["by_clients"]["1"] == pytest.approx([o["bar"] for o in said["outlooks"]], rel=1e-9)
    out = words(fastlloyd(*question, "--unit-name", "patient", "--clients", "4").out)
    assert "rows of a patient" in out
    assert "a cluster of 1000 patients" in out
    assert "by_clients" not in strict(fastlloyd(*question[:-2], "--clients", "4", "--json").out)


# join


def test_a_run_of_patients_over_a_network_ends_with_one_result(made: Path, tmp_path: Path) -> None:
    with cleared(
        Site.make(made, tmp_path / "site", persons=Persons(name="patient", max_clients=2))
    ) as site:
        for name in NAMES:
            head, *rows = (site.folder / f"{name}.csv").read_text().splitlines()
            lines = [f"{head},patient", *(f"{row},{i // 3}" for i, row in enumerate(rows))]
            (site.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        refused_at(
            site, site.join("a"), "the plan protects patients, not single rows", "--unit-column"
        )
        refused_at(site, site.join("a", "--unit-column", "age"), "be a feature")
        refused_at(site, site.join("a", "--unit-column", "patiant"), "did you mean 'patient'")
        started = {SERVER: site.start(SERVER, site.serve(), FAST)}
        started |= {
            name: site.start(name, site.join(name, "--unit-column", "patient"), FAST)
            for name in NAMES
        }
        assert [started[name].wait(HANG) for name in (*NAMES, SERVER)] == [0] * 4, site.said("a")
        assert len(set(site.centroids().values())) == 1
        said = words(site.said("a", "out"))
        assert "One patient: all rows under one id, at up to 2 organisations" in said
        code, out, _ = run_here(site, ["ledger", "show", "a.identity.toml", "--json"])
        assert code == 0
        assert [run["charged"] for run in json.loads(out)["data_sets"][0]["runs"]] == [[1, 2]]


def test_a_plan_of_records_takes_no_column_of_ids(made: Path, tmp_path: Path) -> None:
    with cleared(Site.make(made, tmp_path / "site")) as site:
        (site.folder / "visits.csv").write_text("age,dose,patient\n1,2,3\n")
        refused_at(
            site,
            site.join("a", "--data", "visits.csv", "--unit-column", "patient"),
            "the plan protects single records, not persons",
        )


def test_more_patients_than_a_clients_cap_are_refused(made: Path, tmp_path: Path) -> None:
    with cleared(Site.make(made, tmp_path / "site", persons=Persons(name="patient"))) as site:
        rows = [f"1,2,{i}" for i in range(51)]
        (site.folder / "a.csv").write_text("\n".join(["age,dose,patient", *rows, *rows]) + "\n")
        refused_at(
            site,
            site.join("a", "--unit-column", "patient"),
            "more patients than its cap, max_records 50",
            new=("a",),
        )
