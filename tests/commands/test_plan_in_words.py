"""What people read before they sign, from outside: what a study is for, who learns which totals,
and what was spent before.
"""

import json
from pathlib import Path

import pytest

from fastlloyd.base.precision import rounded_up
from fastlloyd.cli.failures import run
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.federation.admission import DataSet, reserve
from fastlloyd.federation.holder import VARIABLE
from fastlloyd.federation.ledger import plan_cost, whole
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.spending import Spending
from fastlloyd.federation.store import Role, Store
from fastlloyd.federation.store.events import LimitSet, UnitLimitSet
from ledgers import knowing
from stores import ADD, ADDED, OWNER, REPLACE, new_store, reserved_as, run_id

NEW = [
    "plan",
    "new",
    "--simulation",
    "--features",
    "age,dose",
    "--bounds",
    "age=0:100,dose=0:5",
    "-k",
    "2",
    "--delta",
    "1e-6",
]
TWO = ["--client", "clinic-a:500", "--client", "clinic-b:500"]
STUDY = [
    "--study",
    "Falls",
    "--purpose",
    "groups of patients",
    "--controller",
    "Clinic A",
    "--contact",
    "dpo@clinic-a.example",
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_a_plan_of_two_says_what_each_learns_of_the_other_and_one_of_three_what_two_of_them_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*NEW, *TWO]) == 0
    assert "with two organisations, each can" in capsys.readouterr().err
    text = said(capsys, "plan", "explain", "plan.toml")
    assert "WARNING: with two organisations" in text
    assert "sums or counts" not in text
    note = said(capsys, *NEW, *TWO, "--client", "clinic-c:500", "--out", "three.toml")
    assert "Note: if all organisations but one pool what they see, they learn" in note
    assert "Note: if all organisations but one pool what they see" in said(
        capsys, "plan", "explain", "three.toml"
    )


def test_what_a_study_is_for_stands_in_every_view_of_its_plan(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    assert run([*NEW, *TWO, *STUDY]) == 0
    told = json.loads(said(capsys, "plan", "show", "plan.toml", "--json"))["study"]
    assert told == {
        "name": "Falls",
        "purpose": "groups of patients",
        "controller": "Clinic A",
        "contact": "dpo@clinic-a.example",
    }
    shown = said(capsys, "plan", "show", "plan.toml")
    for what, text in zip(
        ("study", "purpose", "controller", "contact"), told.values(), strict=True
    ):
        assert any(what in line and text in line for line in shown.splitlines())
    assert "Study: Falls\nPurpose: groups of patients\n" in said(
        capsys, "plan", "explain", "plan.toml"
    )
    assert run(["plan", "digest", "plan.toml", "--page", "page.txt"]) == 0
    assert "- Study: Falls\n- Purpose: groups of patients\n" in (here / "page.txt").read_text()
    assert run([*NEW, *TWO, "--out", "untold.toml"]) == 0
    assert json.loads(said(capsys, "plan", "show", "untold.toml", "--json"))["study"] is None
    assert run([*NEW, *TWO, "--purpose", "two\nlines", "--out", "refused.toml"]) == 2
    assert (
        "purpose of the study is 'two\\nlines'; expected 1 to 500 printable characters"
        in capsys.readouterr().err
    )
    assert not (here / "refused.toml").exists()


def test_the_readers_own_ledger_says_what_was_spent_before(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    assert run([*NEW, *TWO]) == 0
    assert run([*NEW, *TWO, "--out", "next.toml"]) == 0
    plan = Plan.from_toml((here / "plan.toml").read_text())
    with new_store(here) as store:
        store.append([LimitSet(dataset="patients", epsilon=1.4, delta=1e-6)])
        store.append(
            [
                reserve(
                    store.history,
                    plan,
                    client="clinic-a",
                    dataset="patients",
                )
            ]
        )
        path = str(store.path)
    mine = ("--store", path, "--dataset", "patients")
    text = said(capsys, "plan", "explain", "next.toml", *mine)
    spent = "According to this store, data set 'patients' has 1 run."
    limit = "The limit is epsilon 1.4 at delta 1e-06"
    assert (
        f"{spent}\nFor one record added or removed: epsilon 1 before this run, 1.455 after it, at"
        f" delta 1e-06. {limit}.\n`join` will refuse the plan: data set 'patients' has the limit"
        in text
    )
    assert (
        f"{spent} The run of this plan is among them.\nFor one record added or removed: epsilon 1"
        f" so far, at delta 1e-06. {limit}; epsilon 0.9"
        in said(capsys, "plan", "explain", "plan.toml", *mine)
    )
    assert run(["plan", "digest", "next.toml", "--page", "page.txt", *mine]) == 0
    assert f"1.455 after it, at delta 1e-06. {limit}. `join` will refuse the plan: " in " ".join(
        (here / "page.txt").read_text().split()
    )
    other = said(capsys, "plan", "explain", "next.toml", "--store", path, "--dataset", "others")
    assert "According to this store, data set 'others' has 0 runs.\n" in other
    assert (
        "epsilon 0 before this run, 1 after it, at delta 1e-06. There is no limit for one" in other
    )
    with Store.open(Path(path)) as store:
        store.append([LimitSet(dataset="patients", epsilon=1.4000004, delta=1.2345644e-6)])
    text = said(capsys, "plan", "explain", "next.toml", *mine)
    assert "The limit is epsilon 1.40001 at delta 1.23457e-06.\n`join` will refuse" in text
    with Store.open(Path(path)) as store:
        store.append([LimitSet(dataset="others", epsilon=3.0000004, delta=1.2345644e-6)])
    assert "The limit is epsilon 3.00001 at delta 1.23457e-06; epsilon" in said(
        capsys, "plan", "explain", "next.toml", *mine[:-1], "others"
    )


def test_what_was_spent_is_not_said_to_be_less_than_it_is(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """At deltas at which the nearest number of four digits would be."""
    assert run([*NEW, *TWO]) == 0
    plan, n_hidden = Plan.from_toml((here / "plan.toml").read_text()), [0, 0]
    with new_store(here) as store:
        store.append([reserved_as(plan_cost(plan), run_id(1))])
        for delta in (1e-6, 2e-6, 3e-6, 5e-6, 7e-6):
            store.append([LimitSet(dataset="patients", epsilon=9.0, delta=delta)])
            epsilons = [
                Spending.of([whole(plan_cost(plan))] * n, ADDED).epsilon(delta) for n in (1, 2)
            ]
            spent, together = map(rounded_up, epsilons)
            text = said(
                capsys,
                "plan",
                "explain",
                "plan.toml",
                "--store",
                str(store.path),
                "--dataset",
                "patients",
            )
            assert (
                f"For one record added or removed: epsilon {spent} before this run, {together}"
                f" after it, at delta {delta:g}. " in text
            )
            n_hidden = [
                n + (float(f"{epsilon:.4g}") < epsilon)
                for n, epsilon in zip(n_hidden, epsilons, strict=True)
            ]
    assert all(n_hidden)


def test_of_a_plan_for_persons_the_readers_ledger_says_what_was_spent_on_them(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    persons = ("--unit", "person", "--unit-name", "patient", "--max-clients-per-person", "2")
    assert run([*NEW, *TWO, *persons]) == 0

    def whose(*limits: Neighbours) -> list[str]:
        with new_store(here / str(len(limits))) as store:
            store.append(
                [
                    UnitLimitSet(dataset="visits", epsilon=9.0, delta=1e-6, speaks_of=each)
                    for each in limits
                ]
            )
        text = said(
            capsys,
            "plan",
            "explain",
            "plan.toml",
            "--store",
            str(store.path),
            "--dataset",
            "visits",
        )
        lines = [line for line in text.splitlines() if line.startswith("For one ")]
        return [line.partition(":")[0].removeprefix("For ") for line in lines]

    for n_limits in range(3):
        (here / str(n_limits)).mkdir()
    of_plan = "one patient added or removed, with rows at up to 2 organisations"
    assert whose() == [of_plan]
    households, patients = Neighbours(ADD, "household"), Neighbours(REPLACE, "patient")
    assert whose(households) == ["one household added or removed", of_plan]
    assert whose(households, patients) == [
        "one household added or removed",
        "one patient replaced",
    ]


def test_a_data_set_that_is_misspelt_is_said_to_be_unknown_and_has_no_run_that_counts_on_another(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    assert run([*NEW, *TWO]) == 0
    plan = Plan.from_toml((here / "plan.toml").read_text())
    with new_store(here) as store:
        path = str(store.path)
        asked = ("plan", "explain", "plan.toml", "--store", path, "--dataset", "patiens")
        assert "is unknown" not in said(capsys, *asked)
        store.append(
            [
                reserve(
                    store.history,
                    plan,
                    client="clinic-a",
                    dataset="patients",
                )
            ]
        )
    text = said(capsys, *asked)
    assert "Data set 'patiens' is unknown" in text
    assert (
        "data set 'patiens' has 0 runs. The run of this plan is counted on 'patients'.\nFor one"
        " record added or removed: epsilon 0 so far" in text
    )


def test_the_ledger_knows_the_run_of_a_plan_that_a_client_joined(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(here / "none.store"))
    assert run([*NEW, *TWO]) == 0
    plan, ledger = (
        Plan.from_toml((here / "plan.toml").read_text()),
        knowing(here / "own.store"),
    )
    with new_store(here) as store:
        begun = reserve(
            store.history,
            plan,
            client="clinic-a",
            dataset="patients",
        )
        ledger.enter(DataSet(name="patients"), store, begun, begun.run_id)
    asked = ("plan", "explain", "plan.toml", "--dataset", "patients")
    text = said(capsys, *asked)
    assert f"There is no ledger {here / 'none.store'} yet.\n" in text
    assert "'patients' is unknown; `join` refuses it without --new-dataset.\n" in text
    assert not (here / "none.store").exists()
    monkeypatch.setenv(VARIABLE, str(ledger.path))
    counted = said(capsys, *asked)
    assert counted == said(capsys, *asked, "--store", "own.store")
    assert (
        "\nAccording to this ledger, data set 'patients' has 1 run. The run of this plan is among"
        " them.\nFor one record added or removed: epsilon 1 so far, at delta 1e-06. " in counted
    )


def test_with_a_store_the_limits_of_the_ledger_are_said_too(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`join` asks both."""
    ledger = knowing(here / "own.store")
    monkeypatch.setenv(VARIABLE, str(ledger.path))
    with ledger.opened() as kept:
        kept.append([LimitSet(dataset="patients", epsilon=0.5, delta=1e-6)])
    (here / "client").mkdir()
    with new_store(here / "client") as store:
        path = str(store.path)
    assert run([*NEW, *TWO]) == 0
    text = said(capsys, "plan", "explain", "plan.toml", "--store", path, "--dataset", "patients")
    assert "According to this store" in text
    assert "The limit is epsilon 0.5 at delta 1e-06.\n`join` will refuse the plan: " in text


def test_asking_whose_ledger_without_which_data_set_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    assert run([*NEW, *TWO]) == 0
    Store.create(here / "hub.store", role=Role.SERVER, identity=OWNER).close()
    for arguments, reason in (
        (["explain", "plan.toml", "--store", "x.store"], "--store needs --dataset NAME"),
        (
            ["explain", "plan.toml", "--store", "x.store", "--dataset", "patients"],
            "there is no store",
        ),
        (
            ["explain", "plan.toml", "--store", "hub.store", "--dataset", "patients"],
            "is the store of a server",
        ),
        (
            ["explain", "plan.toml", "--store", "hub.store", "--dataset", "two words"],
            "dataset is 'two words'",
        ),
        (
            ["digest", "plan.toml", "--store", "hub.store", "--dataset", "a"],
            "need a page",
        ),
    ):
        capsys.readouterr()
        assert run(["plan", *arguments]) == 2
        assert reason in capsys.readouterr().err
