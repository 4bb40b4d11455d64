"""`fit` and `simulate` on a data set, and what `ledger` shows of it: one ledger, that of whoever
runs the commands.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import FIT, SIMULATE, Command, refused
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.precision import rounded_up
from fastlloyd.errors import BudgetError
from fastlloyd.federation.ledger import account
from fastlloyd.federation.store import read
from fastlloyd.federation.store.head_file import head_path
from fastlloyd.jobs.account import REQUIRE
from fastlloyd.reports import budget

NOT_COUNTED = "This run is not counted in a ledger"
BRIEF = ("--no-out", "--algorithm", "fastlloyd", "--iterations", "2", "--public-seed", "8")
ON = (*BRIEF, "--dataset", "patients")
LIMIT = ("ledger", "limit", "--dataset", "patients", "--epsilon", "3", "--delta", "1e-5")


def words(text: str) -> str:
    """However wide the screen was."""
    return " ".join(text.split())


def spent(path: Path) -> float:
    return account(read(path)[0].history, "patients").epsilon


def test_what_names_no_data_set_says_that_it_is_not_counted(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    for arguments in (FIT, SIMULATE):
        code, out, err = fastlloyd(*arguments, *BRIEF)
        assert (code, out.count(NOT_COUNTED), err) == (0, 1, "")
    code, out, err = fastlloyd(*FIT, *BRIEF, "--json")
    assert (code, NOT_COUNTED in out, NOT_COUNTED in err) == (0, False, True)
    assert json.loads(out)["private"] is True
    assert (
        NOT_COUNTED not in fastlloyd(*FIT, "--no-out", "--algorithm", "lloyd").out
    )  # which spends nothing
    assert not ledger_of_its_own.parent.exists()


def test_fit_simulate_and_estimators_keep_to_one_limit_together(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    code, out, err = fastlloyd(*LIMIT, "--new")
    assert (code, out) == (
        0,
        (
            "Data set 'patients' has the limit epsilon 3 at delta 1e-05. All runs so far spent epsilon"
            " 0 at delta 1e-05.\n"
        ),
    )
    assert err == f"Note: made {ledger_of_its_own}, a new ledger without runs or limits.\n"
    code, out, err = fastlloyd(*FIT, *ON, "--delta", "1e-5")
    assert (code, err) == (0, "")
    said = (
        "All runs so far on data set 'patients' spent epsilon 1 at delta 1e-05, for one record"
        " added or removed. The limit is epsilon 3."
    )
    assert said in words(out)
    assert fastlloyd(*SIMULATE, *ON, "--delta", "1e-5", "--epsilon", "1.5").code == 0
    model = FastLloyd(
        3, epsilon=1.5, delta=1e-5, bounds=(0.0, 1.0), n_records=500, dataset="patients"
    )
    model.fit(np.random.default_rng(1).random((60, 2)))
    now = spent(ledger_of_its_own)
    assert 2 < now < 3
    for arguments in ((*FIT, *ON), (*SIMULATE, *ON)):
        refused(
            fastlloyd(*arguments, "--epsilon", "2"),
            "data set 'patients' has the limit epsilon 3 at delta 1e-05. All runs so far spent or reserved",
        )
    with pytest.raises(BudgetError, match="limit epsilon 3"):
        model.set_params(epsilon=2.0).fit(np.zeros((60, 2)))
    assert spent(ledger_of_its_own) == now


def test_a_command_tells_once_of_the_ledger_that_it_made(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    made = f"Note: made {ledger_of_its_own}, a new ledger without runs or limits.\n"
    first, *later = [
        fastlloyd(*command, *ON, *more).err
        for command, *more in ((FIT, "--new-dataset"), (FIT,), (SIMULATE,))
    ]
    assert first == made
    assert [said.splitlines()[0].partition(",")[0] for said in later] == ["Note: This file"] * 2
    assert [said.count("\n") for said in later] == [1, 1]


def test_nothing_that_is_charged_is_said_to_be_less_than_it_is(
    fastlloyd: Command, ledger_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs after which the nearest number of four digits would be."""
    limit = (
        "ledger",
        "limit",
        "--dataset",
        "patients",
        "--epsilon",
        "9.2345644",
        "--delta",
        "1.2345644e-6",
    )
    fastlloyd(*limit, "--new")
    n_hidden = 0
    for _ in range(4):
        fitted = words(fastlloyd(*FIT, *ON).out)
        epsilon = spent(ledger_of_its_own)
        said = rounded_up(epsilon)
        n_hidden += float(f"{epsilon:.4g}") < epsilon <= float(said)
        of_limit = (
            f"spent epsilon {said} at delta 1.23457e-06, for one record added or removed. The"
            " limit is epsilon 9.23457."
        )
        assert of_limit in fitted
        assert fastlloyd(*limit).out.endswith(f" spent epsilon {said} at delta 1.23457e-06.\n")
        told = (
            "has the limit epsilon 9.23457 at delta 1.23457e-06. All runs so far spent or reserved"
            f" epsilon {said}, this run needs"
        )
        refused(fastlloyd(*FIT, *ON, "--epsilon", "20"), told)
    assert n_hidden
    titles = list[str]()

    def draw(title: str, *_: object) -> bytes:
        titles.append(title)
        return b""

    monkeypatch.setattr(budget, "draw", draw)
    assert fastlloyd("ledger", "show", "--figure", "budget.png").code == 0
    assert titles == ["patients, at delta 1.23457e-06"]


def test_a_ledger_may_be_named_and_each_is_for_itself(
    fastlloyd: Command, here: Path, ledger_of_its_own: Path
) -> None:
    assert fastlloyd(*FIT, *ON, "--ledger", "mine.store", "--new-dataset").code == 0
    assert (here / "mine.store").exists()
    assert head_path(here / "mine.store").exists()
    assert not ledger_of_its_own.exists()
    assert "patients" in fastlloyd("ledger", "show", "mine.store").out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--ledger", "mine.store"), "--ledger needs the name of a data set"),
        (("--rows-are", "patient"), "--rows-are needs the name of a data set"),
        (("--new-dataset",), "--new-dataset needs the name of a data set"),
        (("--dataset", "a b"), "dataset is 'a b'"),
        (("--dataset", "a", "--rows-are", "a b"), "the name of the unit is 'a b'"),
        (
            ("--dataset", "a", "--rows-are", "patients"),
            "expected the singular",
        ),
        (
            ("--dataset", "a", "--algorithm", "lloyd"),
            "lloyd adds no noise",
        ),
    ],
)
def test_what_has_no_effect_or_no_sense_is_refused(
    more: tuple[str, ...], said: str, fastlloyd: Command
) -> None:
    refused(fastlloyd(*FIT, "--no-out", *more), said)


def test_what_fails_before_any_noise_spends_nothing(
    fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    refused(
        fastlloyd("fit", "data.csv", *FIT[2:4], "-k", "3", "--n-records", "100", *ON),
        "more records than the cap",
    )
    refused(fastlloyd(*SIMULATE, *ON, "--drop", "1@9"), "is to be dropped in round 9")
    assert not ledger_of_its_own.exists()


# Showing


def test_show_tells_where_a_ledger_would_be(fastlloyd: Command, ledger_of_its_own: Path) -> None:
    code, out, err = fastlloyd("ledger", "show")
    assert (code, out, err) == (
        0,
        f"There is no ledger {ledger_of_its_own} yet: no run has named a data set.\n",
        "",
    )
    assert fastlloyd(*LIMIT).code == 2  # not said to be new
    assert not ledger_of_its_own.exists()


def test_show_explains_what_is_left_at_any_delta_and_for_so_many_runs(fastlloyd: Command) -> None:
    fastlloyd(*LIMIT, "--new")
    fastlloyd(*FIT, *ON, "--delta", "1e-5")
    out = fastlloyd("ledger", "show").out
    assert (
        "patients: one more run with Gaussian noise may have epsilon 2.756 at delta 1e-05, or 10"
        " more runs may have epsilon 0.7693 each." in out
    )
    out = fastlloyd("ledger", "show", "--runs", "10", "--dataset", "patients").out
    assert "left for each of 10" in out
    assert "0.7693" in next(line for line in out.splitlines() if line.startswith("patients  "))
    out = fastlloyd("ledger", "show", "--delta", "1e-7").out
    row = next(line for line in out.splitlines() if line.startswith("patients  "))
    assert "3 at 1e-05" in row
    left = float(row.split()[-1])
    assert fastlloyd(*FIT, *ON, "--delta", "1e-7", "--epsilon", str(1.001 * left)).code == 2
    assert fastlloyd(*FIT, *ON, "--delta", "1e-7", "--epsilon", str(left)).code == 0
    assert "no further run" not in fastlloyd("ledger", "show").out
    assert fastlloyd(*FIT, *ON, "--delta", "1e-7", "--epsilon", "0.1").code == 2


def test_machines_are_told_what_is_left_for_so_many_runs_and_at_which_delta(
    fastlloyd: Command,
) -> None:
    fastlloyd(*LIMIT, "--new")
    fastlloyd(*FIT, *ON, "--delta", "1e-5")

    def limit(*asked: str) -> dict[str, Any]:
        (one,) = json.loads(fastlloyd("ledger", "show", "--json", *asked).out)["data_sets"]
        found: dict[str, Any] = one["limit"]
        return found

    assert "left_for_each" not in limit()
    each = limit("--runs", "10")["left_for_each"]
    assert (each["runs"], each["delta"], each["epsilon"]) == (
        10,
        1e-5,
        pytest.approx(0.7693, abs=1e-4),
    )
    later = limit("--delta", "1e-7")
    assert later["left_for_each"] == {
        "runs": 1,
        "delta": 1e-7,
        "epsilon": later["left_for_one_run"],
    }
    assert (later["delta"], later["left_for_one_run"] > limit()["left_for_one_run"]) == (1e-5, True)


def test_the_budget_is_drawn(fastlloyd: Command, here: Path) -> None:
    fastlloyd(*LIMIT, "--new")
    fastlloyd(*FIT, *ON)
    code, out, err = fastlloyd("ledger", "show", "--figure", "budget.png", "--runs", "12")
    assert (code, err) == (0, "")
    assert out.endswith("Drawn in budget.png.\n")
    assert (here / "budget.png").read_bytes().startswith(b"\x89PNG")
    refused(fastlloyd("ledger", "show", "--figure", "budget.png"), "budget.png exists already")
    assert fastlloyd("ledger", "show", "--figure", "budget.png", "--force").code == 0
    refused(
        fastlloyd("ledger", "show", "--figure", "data.csv", "--force"), "a file of another kind"
    )
    refused(
        fastlloyd("ledger", "show", "--figure", "budget.jpg"), "budget.jpg does not end in .png"
    )
    fastlloyd("ledger", "limit", "--dataset", "b", "--new", "--epsilon", "3", "--delta", "0")
    refused(
        fastlloyd("ledger", "show", "--figure", "other.png"),
        "draws one data set, but there are 2",
    )
    refused(fastlloyd("ledger", "show", "--dataset", "patient"), "did you mean 'patients'")
    refused(
        fastlloyd("ledger", "show", "--delta", "1"), "delta is 1; expected 0 or more and below 1"
    )
    assert fastlloyd("ledger", "show", "--figure", "other.png", "--dataset", "b").code == 0


def test_limits_for_persons_are_set_shown_and_kept(fastlloyd: Command) -> None:
    for more in (
        ("--unit", "patient"),
        ("--unit", "patient", "--neighboring-relation", "replace-one"),
    ):
        assert fastlloyd(*LIMIT, *more, *(() if "replace-one" in more else ("--new",))).code == 0
    refused(
        fastlloyd(*FIT, *ON),
        "this run does not protect every patient as a whole",
        "pass --rows-are patient",
    )
    code, out, _ = fastlloyd(*FIT, *ON, "--rows-are", "patient", "--epsilon", "0.5")
    assert code == 0
    assert "for one patient added or removed. The limit is epsilon 3." in words(out)
    assert "for one patient replaced. The limit is epsilon 3." in words(out)
    refused(fastlloyd(*FIT, *ON, "--rows-are", "household"), "'household' is unknown", "--new-unit")
    out = fastlloyd("ledger", "show").out
    assert out.count("  one patient ") == 2
    said = json.loads(fastlloyd("ledger", "show", "--json").out)["data_sets"]
    assert [(one["unit"], one["limit"]["neighboring_relation"]) for one in said] == [
        ("patient", "add_or_remove_one"),
        ("patient", "replace_one"),
    ]
    assert (
        fastlloyd("ledger", "verify")
        .out.split(" is sound: a ledger, 5 events")[0]
        .endswith("ledger.store")
    )
    simulated = fastlloyd(*SIMULATE, *ON, "--rows-are", "patient", "--epsilon", "0.5")
    assert "for one patient replaced. The limit is epsilon 3." in words(simulated.out)
    at_three = json.loads(
        fastlloyd(*LIMIT, "--unit", "patient", "--max-clients-per-person", "3", "--json").out
    )
    assert (at_three["unit"], at_three["max_clients_per_person"]) == ("patient", 3)


def test_a_run_that_protects_persons_by_a_column_is_held_by_a_limit_for_them(
    fastlloyd: Command, here: Path
) -> None:
    rows = (here / "data.csv").read_text().splitlines()
    table = [f"{rows[0]},who", *(f"{row},p{number // 3}" for number, row in enumerate(rows[1:]))]
    (here / "visits.csv").write_text("\n".join(table))
    fastlloyd(*LIMIT, "--new", "--unit", "patient")
    given = ("fit", "visits.csv", *FIT[2:], *ON, "--unit-column", "who", "--unit-name", "patient")
    code, out, _ = fastlloyd(*given)
    assert code == 0
    assert "for one patient added or removed. The limit is epsilon 3." in words(out)
    refused(fastlloyd(*given, "--epsilon", "2.99"), "for one patient added or removed. All runs")
    refused(
        fastlloyd(*given[:-1], "household", "--rows-are", "patient"),
        "rows_are is 'patient'",
    )


def test_what_has_no_bound_for_persons_is_said_to_have_none_for_them(fastlloyd: Command) -> None:
    lifted = (
        "ledger",
        "limit",
        "--dataset",
        "patients",
        "--unit",
        "patient",
        "--epsilon",
        "inf",
        "--delta",
        "1e-5",
    )
    fastlloyd(*lifted, "--new")
    code, out, _ = fastlloyd(*FIT, *ON)
    assert code == 0
    assert "no finite epsilon for one patient added or removed. There is no limit for one" in words(
        out
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--max-clients-per-person", "2"), "--unit NAME"),
        (("--unit", "two words"), "the name of the unit is 'two words'"),
        (
            ("--unit", "patients"),
            ("the name of the unit is 'patients'; expected the singular"),
        ),
        (("--unit", "a", "--max-clients-per-person", "100000"), "expected 1 to 10000"),
        (("--neighboring-relation", "swap"), "neighboring_relation 'swap' is unknown"),
    ],
)
def test_a_limit_for_nobody_is_refused(
    more: tuple[str, ...], said: str, fastlloyd: Command, ledger_of_its_own: Path
) -> None:
    refused(fastlloyd(*LIMIT, "--new", *more), said)
    assert not ledger_of_its_own.exists()


def test_a_ledger_takes_no_part_in_runs(fastlloyd: Command, ledger_of_its_own: Path) -> None:
    fastlloyd(*LIMIT, "--new")
    refused(fastlloyd("status", str(ledger_of_its_own)), "is a ledger, which takes no part in runs")
    refused(
        fastlloyd("ledger", "positions", str(ledger_of_its_own)),
        "is a ledger; only a server's store remembers",
    )
    refused(
        fastlloyd("ledger", "release", str(ledger_of_its_own), "--run", "0" * 32),
        "give the run up",
    )


def test_a_machine_can_refuse_all_runs_that_no_ledger_would_count(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "t.csv").write_text("a\n" + "1\n2\n3\n" * 20)
    fit = ("fit", "t.csv", "-k", "2", "--bounds", "0:4", "--n-records", "70", "--no-out")
    simulate = ("simulate", *fit[1:], "--clients", "3")
    bounds = ("bounds", "estimate", "t.csv", "--range", "0:9", "--n-records", "70")
    monkeypatch.setenv(REQUIRE, "1")
    for command in (fit, simulate, bounds):
        refused(fastlloyd(*command), REQUIRE, "dataset is missing")
    with pytest.raises(BudgetError, match=REQUIRE):
        MomentLloyd(2, bounds=(0, 4), n_records=70).fit([[1.0], [2.0], [3.0]])
    assert fastlloyd(*fit, "--dataset", "t", "--new-dataset").code == 0
    monkeypatch.setenv(REQUIRE, "")
    assert fastlloyd(*fit).code == 0
