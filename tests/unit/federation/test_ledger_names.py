"""Which ledger is meant, and which data set: neither depends on the current folder, nor on how a
name is spelled, and nothing is made anew unasked.
"""

import sys
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import pytest

from command_line import FIT, SIMULATE, Command, refused
from fastlloyd.errors import BudgetError, StateError
from fastlloyd.federation import holder
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.holder import HoldersLedger, place
from fastlloyd.federation.ledger import Proviso, account, accounts, known_datasets
from fastlloyd.federation.store.events import LimitSet
from ledgers import knowing
from stores import new_store, pure_cost, reserved, run_id

ON = ("--no-out", "--algorithm", "fastlloyd", "--iterations", "2", "--dataset", "patients")
LIMIT = ("ledger", "limit", "--epsilon", "3", "--delta", "1e-5", "--dataset")
ONE = pure_cost(Fraction(1))

# Places


@pytest.mark.parametrize("said", ["state", "./state", "~no-such-user-here/state"])
@pytest.mark.parametrize(
    ("platform", "variable"),
    [
        ("linux", "XDG_STATE_HOME"),
        ("linux", holder.VARIABLE),
        ("win32", "LOCALAPPDATA"),
        ("linux", "HOME"),
        ("darwin", "HOME"),
        ("win32", "HOME"),
    ],
)
def test_a_place_that_depends_on_the_current_folder_is_refused(
    platform: str, variable: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for each in (holder.VARIABLE, "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, said)
    with pytest.raises(StateError, match=f"{variable} is '{said}"):
        place()


def test_a_home_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(holder.VARIABLE)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(StateError, match=r"HOME.*''; expected a"):
        place()
    monkeypatch.setenv(holder.VARIABLE, "~/ledger.store")
    with pytest.raises(StateError, match=r"HOME.*''; expected a"):
        place()


def test_two_folders_have_one_ledger_or_none(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(holder.VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    for command in (
        (*FIT, *ON, "--new-dataset"),
        (*LIMIT, "patients", "--new"),
        ("ledger", "show"),
    ):
        refused(fastlloyd(*command), "XDG_STATE_HOME is 'state'; expected a full path")
    assert not (here / "state").exists()


# New ones


@pytest.mark.parametrize("command", [FIT, SIMULATE], ids=["fit", "simulate"])
def test_nothing_is_made_anew_unasked_and_a_new_ledger_is_always_told_of(
    command: tuple[str, ...], fastlloyd: Command, here: Path, ledger_of_its_own: Path
) -> None:
    unknown = f"data set 'patients' is unknown in the ledger {ledger_of_its_own}"
    refused(fastlloyd(*command, *ON), f"{unknown}, which does not exist", "pass --new-dataset")
    assert not ledger_of_its_own.exists()
    code, out, err = fastlloyd(*command, *ON, "--new-dataset")
    assert (code, err.count(f"made {ledger_of_its_own}, a new ledger")) == (0, 1)
    assert f"Counted in the ledger {ledger_of_its_own}; this is its first run." in _words(out)
    refused(fastlloyd(*command, *ON, "--new-dataset"), "data set 'patients' is not new")
    code, out, err = fastlloyd(*command, *ON)
    assert (code, err.count("\n")) == (0, 1)
    assert "unchanged, was used in 1 earlier run" in err
    assert "which began today (" in _words(out)
    assert "has 2 runs." in _words(out)
    refused(fastlloyd(*command, *ON[:-1], "patient"), "did you mean 'patients'")
    refused(fastlloyd(*LIMIT, "Patients", "--new"), "data set 'patients' is not new")
    assert len(HoldersLedger(ledger_of_its_own).history().runs) == 2


def test_a_script_that_always_says_new_restarts_no_count(ledger_of_its_own: Path) -> None:
    new = DataSet(name="patients", is_new=True)
    for n_runs in range(2):
        ledger = HoldersLedger(ledger_of_its_own)
        with (
            pytest.raises(BudgetError, match="is not new") if n_runs else nullcontext(),
            ledger.charged(new, ONE, by="fit", digest=bytes(32)),
        ):
            pass
        assert len(ledger.history().runs) == 1


def _words(text: str) -> str:
    return " ".join(text.split())


# Spellings


@pytest.fixture
def ledger(ledger_of_its_own: Path) -> HoldersLedger:
    return knowing(ledger_of_its_own, "visits-2026")


@pytest.mark.parametrize("spelled", ["Visits-2026", "visits_2026", "VISITS.2026", "visits-2026"])
def test_however_a_name_is_spelled_it_is_one_data_set(
    ledger: HoldersLedger, fastlloyd: Command, here: Path, spelled: str
) -> None:
    assert fastlloyd(*LIMIT, spelled).code == 0
    for name in (spelled, "visits-2026"):
        with ledger.charged(DataSet(name=name), ONE, by="fit", digest=bytes(32)):
            pass
    with pytest.raises(BudgetError, match="is not new"):
        ledger.named(DataSet(name=spelled, is_new=True))
    more = ledger.charged(DataSet(name=spelled), pure_cost(Fraction(2)), by="fit", digest=bytes(32))
    with pytest.raises(BudgetError, match="limit epsilon 3"), more:
        pytest.fail("nothing may be drawn")
    history = ledger.history()
    assert known_datasets(history) == ["visits-2026"]
    assert account(history, spelled).spent.pure_epsilon == 2
    assert "visits-2026" in fastlloyd("ledger", "show", "--dataset", spelled).out


@pytest.mark.parametrize("other", ["visits2026", "visits-2026-", "visit-2026"])
def test_names_that_differ_by_more_are_others(ledger: HoldersLedger, other: str) -> None:
    with pytest.raises(BudgetError, match="is unknown in"):
        ledger.named(DataSet(name=other))


def test_a_ledger_that_holds_two_spellings_counts_them_together_and_says_so_once(
    ledger: HoldersLedger, tmp_path: Path
) -> None:
    said: list[str] = []
    ledger = HoldersLedger(ledger.path, said.append)
    with ledger.opened() as store:
        store.append(
            [
                LimitSet(dataset="visits-2026", epsilon=5.0, delta=0.0),
                LimitSet(dataset="Visits_2026", epsilon=3.0, delta=0.0),
            ]
        )
    with new_store(tmp_path) as client:
        mine = reserved(run_id(1), dataset="VISITS-2026")
        client.append([mine])
        ledger.follow(client)
    more = ledger.charged(DataSet(name="visits-2026"), ONE, by="fit", digest=bytes(32))
    with pytest.raises(BudgetError, match="limit epsilon 3"), more:
        pytest.fail("earlier run had")
    (one,) = accounts(ledger.history())
    assert (one.dataset, len(one.runs)) == ("visits-2026", 1)
    assert one.limit is not None
    assert one.limit.epsilon == 3
    with ledger.opened() as store:
        store.append(
            [
                LimitSet(dataset=name, epsilon=float("inf"), delta=0.0)
                for name in ("visits-2026", "Visits_2026")
            ]
        )
    for _ in range(2):
        with ledger.charged(DataSet(name="visits-2026"), ONE, by="fit", digest=bytes(32)):
            pass
    told = "'visits-2026', 'Visits_2026', 'VISITS-2026' are one data set"
    assert [told in each for each in said] == [True]
    assert account(ledger.history(), "visits_2026").proviso is Proviso.RAISED
