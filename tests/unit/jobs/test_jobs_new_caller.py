"""A caller of jobs that is neither a command nor an estimator, as the next one will be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd import errors
from fastlloyd.base.precision import rounded_up
from fastlloyd.federation.admission import DataSet
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.choices import MISSING, BoundsText, ClusteringChoices
from fastlloyd.jobs.fit import FitRequest
from fastlloyd.jobs.source import FileSource, TableSource
from fastlloyd.jobs.watching import BudgetCharged, RoundAnswered
from fastlloyd.records import reading
from fastlloyd.reports.result import Result


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """400 records in two clusters."""
    rng = np.random.default_rng(0)
    X = rng.normal([[30, 1], [60, 4]], [3, 0.2], (200, 2, 2)).reshape(-1, 2)
    path = tmp_path / "visits.csv"
    np.savetxt(path, X, delimiter=",", header="age,dose", comments="")
    return path


def test_a_caller_sees_forecast_and_balance_before_and_the_statement_after(
    visits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choices = ClusteringChoices(
        n_clusters=2, n_records=500, epsilon=2.0, bounds={"age": (0, 100), "dose": (0, 5)}
    )
    account = BudgetAccount(DataSet(name="visits", is_new=True), tmp_path / "my.ledger")
    request = FitRequest(records=FileSource(path=str(visits)), choices=choices, account=account)
    prepared, heard = request.prepare(), list[Any]()
    assert not (tmp_path / "my.ledger").exists()
    print(prepared.forecast.verdict.value)  # noqa: T201
    print([rounded_up(one.epsilon) for one in prepared.balance])  # noqa: T201
    fit = prepared.carry_out(heard.append)
    print(Result.of_fit(fit).statement()["epsilon"])  # noqa: T201
    assert capsys.readouterr().out.splitlines() == ["clear", "['2']", "2.0"]
    rounds = [event.number for event in heard if isinstance(event, RoundAnswered)]
    assert rounds == list(range(1, prepared.forecast.n_rounds + 1))
    [charged] = [event for event in heard if isinstance(event, BudgetCharged)]
    assert charged.accounts == fit.charged.accounts
    assert [one.epsilon for one in charged.accounts] == [one.epsilon for one in prepared.balance]


def test_all_faults_come_at_once_with_codes_and_nothing_is_read_or_spent(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        pytest.fail("the records were read")

    monkeypatch.setattr(reading, "at_once_if_few", never)
    monkeypatch.setattr(TableSource, "load", never)
    request = FitRequest(
        records=FileSource(path=str(visits), features=["age", "weight"]),
        choices=ClusteringChoices(n_clusters=2, bounds=BoundsText("age=90:10"), epsilon=-1.0),
        account=BudgetAccount(DataSet(name="visits", is_new=True), tmp_path / "my.ledger"),
    )
    with pytest.raises(errors.Problems) as raised:
        request.prepare()
    found = {(problem.code, problem.field) for problem in raised.value}
    assert found == {
        (MISSING, "n_records"),
        ("data", "bounds"),
        ("budget", "epsilon"),
        ("data", "records"),
    }
    assert not (tmp_path / "my.ledger").exists()
