"""`fastlloyd join --dry-run`: it shows the owner what a run would take, and sends, charges and
writes nothing.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.cli.client_progress import ClientProgress
from fastlloyd.cli.readiness import _say_limits
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.federation.holder import place
from fastlloyd.federation.ledger import account
from fastlloyd.federation.store import History, Role
from fastlloyd.federation.store.events import LimitSet
from fastlloyd.federation.traffic import traffic, upload_bytes
from fastlloyd.jobs.live import LiveFile
from fastlloyd.jobs.rehearsal import Contribution, Rehearsal, filled
from fastlloyd.jobs.watching import RecordsFound
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.records.recipe.feature import feature_of
from fastlloyd.records.recipe.here import Here
from fastlloyd.records.recipe.rows import Using
from network_processes import DATASET, Site, cleared
from network_site import here, refused, tree
from network_site import made as made  # noqa: PLC0414 - a fixture
from network_site import site as site  # noqa: PLC0414 - a fixture

NEW = ("--new-dataset",)
LIMIT = ("ledger", "limit", "--dataset", DATASET, "--delta", "1e-6", "--epsilon")
SOCKETS = """
import sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
                 "socket.gethostbyname", "subprocess.Popen", "os.posix_spawn", "os.exec"):
        raise AssertionError(event)
sys.addaudithook(hook)
from fastlloyd.cli.failures import run
code = run(sys.argv[1:])
assert "grpc" not in sys.modules, "the network library was loaded"
sys.exit(code)
"""


def found(site: Site, *more: str) -> dict[str, Any]:
    code, out, err = here(site, site.join("a", "--dry-run", "--json", *more))
    assert (code, err) == (0, "")
    said: dict[str, Any] = json.loads(out)
    return said


def test_a_rehearsal_opens_no_socket_and_no_process_and_writes_no_file(site: Site) -> None:
    before, ledger = tree(site.folder), place()
    had = ledger.read_bytes() if ledger.exists() else None
    command = [sys.executable, "-c", SOCKETS, *site.join("a", "--dry-run", without=["--out"])]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing was sent, charged or written." in done.stdout
    assert tree(site.folder) == before
    assert not (site.folder / "a.store").exists()
    assert (ledger.read_bytes() if ledger.exists() else None) == had


def test_what_a_run_would_refuse_is_refused_by_a_rehearsal_too(site: Site) -> None:
    for more in ((), ("--dry-run",)):
        refused(site, site.join("a", "--store", "no/a.store", *more), "there is no folder no")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.access", lambda _, mode: mode != os.W_OK)
        refused(site, site.join("a", "--dry-run"), "the folder of a store must be writable")
    serve = ["serve", "plan.toml", "--key", "sums.identity.toml", "--store", "no/s.store"]
    refused(site, serve, "there is no folder no")


def test_the_owner_sees_exact_numbers_on_stdout_alone(site: Site) -> None:
    rows = ["age,dose", *["50,1"] * 30, *["200,1"] * 3, "200,9", *[",2"] * 5]
    (site.folder / "a.csv").write_text("\n".join(rows) + "\n")
    said = found(site)["contribution"]
    said.pop("note")
    assert said == {
        "unit": "record",
        "number": 34,
        "rows": 34,
        "left_out": 5,
        "rows_clipped": 4,
        "clipped": {"age": 4, "dose": 1},
        "filled": {},
    }
    code, out, err = here(site, site.join("a", "--dry-run"))
    assert (code, err) == (0, "")
    for words in ("34, and 5 left out", "values of 4 rows", "age: 4 (11.8%)", "dose: 1 (2.9%)"):
        assert words in out
    assert "Warning: 11.8% of the values of 'age' lie outside" in out


def test_persons_are_counted_once_and_their_rows_beside(made: Path, tmp_path: Path) -> None:
    persons = Persons(name="patient", max_clients=2)
    with cleared(Site.make(made, tmp_path / "site", persons=persons)) as site:
        rows = [f"{9 * i},1,{i // 3}" for i in range(20)]  # the last eight beyond the bounds
        (site.folder / "a.csv").write_text("\n".join(["age,dose,patient", *rows]) + "\n")
        said = found(site, "--unit-column", "patient")
        exact = said["contribution"]
        assert (exact["unit"], exact["number"], exact["rows"]) == ("patient", 7, 20)
        assert (exact["rows_clipped"], exact["clipped"]) == (8, {"age": 8, "dose": 0})
        (account,) = said["accounts"]
        assert (account["unit"], account["epsilon_before"]) == ("patient", 0)
        code, out, _ = here(site, site.join("a", "--dry-run", "--unit-column", "patient"))
        assert code == 0
        assert "patients   7" in out


def test_values_that_a_recipe_fills_in_are_shown_to_the_owner(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = (
        feature_of("age", {"bounds": [0, 100], "missing": "middle"}),
        feature_of("dose", {"bounds": [0, 5], "missing": "drop"}),
    )
    domain = Domain.of_recipe(features, scaling=Scaling.PER_FEATURE)
    monkeypatch.setattr("network_processes.DOMAIN", domain)
    with cleared(Site.make(made, tmp_path / "site")) as site:
        rows = ["age,dose", *["50,1"] * 9, *[",1"] * 3, *["7,"] * 2, ","]
        (site.folder / "a.csv").write_text("\n".join(rows) + "\n")
        exact = found(site)["contribution"]
        assert (exact["number"], exact["left_out"], exact["filled"]) == (12, 3, {"age": 3})
        code, out, _ = here(site, site.join("a", "--dry-run"))
        assert code == 0
        assert "filled in  age: 3" in out


def test_a_run_says_exact_numbers_on_a_terminal_and_in_no_log(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = RecordsFound(
        dropped=7, clipped=Clipped(n_records=9, n_outside=8, counts=(8, 0)), seconds=0.0
    )
    ClientProgress(site.plan, "a", LiveFile(None), as_json=False).watch(exact)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ClientProgress(site.plan, "a", LiveFile(None), as_json=True).watch(exact)
    assert capsys.readouterr() == ("", "")
    ClientProgress(site.plan, "a", LiveFile(None), as_json=False).watch(exact)
    _, err = capsys.readouterr()
    assert "7 of your records have missing cells" in err
    assert "88.9% of the values of 'age'" in err


def test_cost_balance_and_bytes_are_those_of_the_run(site: Site) -> None:
    said, plan = found(site), site.plan
    whole = traffic(plan, "a")
    assert said["plan_digest"] == plan.digest.hex()
    assert said["bytes"] == {
        "sent": whole.sent,
        "received": whole.received,
        "uploads": list(upload_bytes(plan)),
    }
    assert len(upload_bytes(plan)) == plan.mechanism.n_rounds
    assert sum(upload_bytes(plan)) < whole.sent
    assert said["cost"] == {"epsilon": plan.mechanism.epsilon, "delta": plan.mechanism.delta}
    (account,) = said["accounts"]
    assert (account["epsilon_before"], account["limit"]) == (0, None)
    assert 0 < account["epsilon_after"] <= plan.mechanism.epsilon
    codes = [each["code"] for each in said["seen_by_others"]]
    assert codes[:3] == ["what_leaves", "server_sees_you", "clients_see_you"]


def test_the_balance_counts_earlier_runs_and_a_rehearsal_is_not_one(site: Site) -> None:
    assert here(site, [*LIMIT, "9", "--new"])[0] == 0
    fit = ["fit", "b.csv", "--bounds", "0:100", "--n-records", "500", "-k", "2", "--no-out"]
    budget = ["--dataset", DATASET, "--epsilon", "1", "--delta", "1e-6"]
    assert here(site, [*fit, *budget])[0] == 0
    for _ in range(2):
        said = found(site)
        (account,) = said["accounts"]
        assert account["limit"] == said["limit"] == {"epsilon": 9.0, "delta": 1e-6}
        assert 0 < account["epsilon_before"] < account["epsilon_after"] < 9
        assert 0 < account["left_after"] < 9
    code, out, _ = here(site, site.join("a", "--dry-run"))
    assert code == 0
    assert "left for one more run" in out
    assert "The limit is epsilon 9 at delta 1e-06" in " ".join(out.split())
    assert f"The run fits every limit of data set '{DATASET}'." in out


@pytest.mark.parametrize(("unit", "option"), [("patient", " --unit patient"), (None, "")])
def test_a_rehearsal_names_the_neighbours_that_no_limit_counts(
    capsys: pytest.CaptureFixture[str], unit: str | None, option: str
) -> None:
    """Even if the data set has a limit for others: one for records counts no patient."""
    asked = Neighbours(NeighboringRelation.ADD_OR_REMOVE_ONE, unit)
    of_unit = account(History(Role.CLIENT), DATASET, asked)
    records = LimitSet(dataset=DATASET, epsilon=9.0, delta=1e-6)
    nothing = Contribution(n=0, dropped=0, clipped=Clipped(), filled={})
    limits = Rehearsal(
        contribution=nothing, accounts=[(of_unit, of_unit)], limits=[records], seconds=0
    )
    _say_limits(DATASET, limits)
    said = " ".join(capsys.readouterr().out.split())
    assert f"no limit for one {unit or 'record'} added or removed." in said
    assert said.endswith(f"fastlloyd ledger limit{option}")


@pytest.mark.parametrize(("compiles", "passes"), [(False, 1), (True, 2)])
def test_time_for_compiling_is_no_part_of_the_pass_that_a_rehearsal_measures(
    site: Site, monkeypatch: pytest.MonkeyPatch, compiles: bool, passes: int
) -> None:
    total, seen = LocalRecords.total, list[Any]()

    def counted(self: LocalRecords, *arguments: Any) -> Any:
        seen.append(arguments)
        return total(self, *arguments)

    monkeypatch.setattr(LocalRecords, "total", counted)
    numbers = itertools.count(0, int(compiles))
    monkeypatch.setattr("fastlloyd.jobs.client.n_compiled", lambda: next(numbers))
    found(site)
    assert seen == passes * seen[:1]


def test_a_refusal_of_the_ledger_is_that_of_join(site: Site) -> None:
    assert here(site, [*LIMIT, "0.1", "--new"])[0] == 0
    for more in ((), ("--dry-run",), ("--dry-run", "--json")):
        refused(site, site.join("a", *more), "has the limit epsilon 0.1")
    assert here(site, [*LIMIT, "20", "--neighboring-relation", "replace-one"])[0] == 0
    refused(site, site.join("a", "--dry-run", "--dataset", "other"), "is unknown")


def test_filled_values_are_counted_by_feature_among_the_records_that_are_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "t.csv").write_text("age,sex,stage,id\n1,m,2,a\n,f,,a\n3,,NA,b\n,x,1,b\n4,m,,c\n")
    tables: dict[str, dict[str, Any]] = {
        "age": {"bounds": [0, 9], "missing": "middle"},
        "sex": {"categories": ["m", "f"], "missing": "m", "other": "missing"},
        "stage": {"bounds": [0, 4], "missing": "drop"},
    }

    def using(**changed: Any) -> Using:
        features = tuple(feature_of(key, table | changed) for key, table in tables.items())
        return Using(features=features, here=Here(missing_words=("NA",), unit_column="id"))

    path = str(tmp_path / "t.csv")
    assert filled(path, using(), layout=None) == {"age": 1, "sex": 1}
    of_persons = using(per_person="mean")
    assert filled(path, of_persons, "id") == {"age": 0, "sex": 1}
