"""`fastlloyd ledger` from outside: what it shows, sets, finds and refuses."""

import json
import re
import time
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from fastlloyd.base.precision import rounded_up
from fastlloyd.cli.failures import run
from fastlloyd.dp.gdp import gdp_epsilon
from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import StateError
from fastlloyd.federation.admission import reserve
from fastlloyd.federation.ledger import account, accounts
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.store import Role, Store, read
from fastlloyd.federation.store.events import (
    ClientJoined,
    Event,
    ExchangeCharged,
    LimitSet,
    Outcome,
    PeerSigned,
    UnitLimitSet,
)
from fastlloyd.reports import budget
from fastlloyd.reports.accounts import down
from federation import make_plan
from stores import (
    ADD,
    OWNER,
    cost,
    new_store,
    pure_cost,
    reserved,
    reserved_as,
    run_id,
)

DELTA = 1e-6


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client's store with a run that was charged whole, one that was charged in part and one that
    is open.
    """
    monkeypatch.setenv("COLUMNS", "100")
    with new_store(tmp_path) as store:
        for number, charged in enumerate([(1, 2, 3), (1,), ()]):
            plan = make_plan(run_id=bytes([number]) * 16)
            run = bytes.fromhex(plan.run_id)
            event = reserve(
                store.history,
                plan,
                client="c0",
                dataset="patients",
            )
            charges: list[Event] = [
                ExchangeCharged(run_id=run, number=exchange) for exchange in charged
            ]
            store.append([event, *charges])
            if charged:
                store.append(
                    [
                        store.history.runs[run].end(
                            Outcome.FINISHED if number == 0 else Outcome.ABORTED, "why"
                        )
                    ]
                )
    return store.path


def test_no_limit_is_shown_smaller_than_it_is(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = ["--dataset", "patients", "--epsilon", "9.2345644", "--delta", "1.2345644e-6"]
    assert run(["ledger", "limit", str(store), *limit]) == 0
    assert "has the limit epsilon 9.23457 at delta 1.23457e-06. " in capsys.readouterr().out
    assert row(shown(store, capsys))[4:6] == ["1.23457e-06", "9.23457"]


def test_show_lists_runs_spending_limit_and_what_is_left(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            [
                "ledger",
                "limit",
                str(store),
                "--dataset",
                "patients",
                "--epsilon",
                "9",
                "--delta",
                "1e-6",
            ]
        )
        == 0
    )
    assert "'patients' has the limit epsilon 9 at delta 1e-06. " in capsys.readouterr().out
    assert run(["ledger", "show", str(store)]) == 0
    shown = capsys.readouterr().out
    assert "3 (1 open)" in shown
    other = rounded_up(account(read(store)[0].history, "patients").otherwise.epsilon(DELTA))
    assert (
        "patients: the epsilon spent is for one record added or removed; for one record replaced,"
        f" it is {other}." in shown
    )
    assert (
        "no limit was set before the first run, so the sum holds only if the number of runs"
        in shown
    )
    one = account(read(store)[0].history, "patients")
    m = make_plan().mechanism
    assert (
        one.spent.mu_squared
        == 2 * m.accountant().mu_squared + m.accountant_of(m.all_rounds[0]).mu_squared
    )
    assert one.left is not None
    spent, delta, limit, left = map(float, row(shown)[3:])
    assert spent * (1 - 1e-3) < one.epsilon <= spent
    assert (delta, limit) == (DELTA, 9)
    assert left <= one.left < left * (1 + 1e-3)


def test_show_for_machines_has_every_run(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ledger", "show", str(store.with_name("clinic-a.identity.toml")), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (one,) = said["data_sets"]
    assert [(r["charged"], r["released"], r["outcome"]) for r in one["runs"]] == [
        ([1, 2, 3], [], "finished"),
        ([1], [2, 3], "aborted"),
        ([], [], None),
    ]
    assert one["limit"] is None
    assert said["events"] == 9
    assert one["spent"]["epsilon"] >= gdp_epsilon(1.0, 0.5)


def test_a_name_that_the_store_does_not_know_is_refused_unless_it_is_said_to_be_new(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def limit(name: str, *more: str) -> str:
        assert (
            run(
                [
                    "ledger",
                    "limit",
                    str(store),
                    "--dataset",
                    name,
                    "--epsilon",
                    "9",
                    "--delta",
                    "1e-6",
                    *more,
                ]
            )
            == 2
        )
        return capsys.readouterr().err

    before = read(store)[0].position
    assert (
        "data set 'patient' is unknown (did you mean 'patients'?); the known names are 'patients'"
        in limit("patient")
    )
    assert "pass --new" in limit("others")
    assert "data set 'patients' is not new" in limit("patients", "--new")
    assert read(store)[0].position == before
    assert (
        run(
            [
                "ledger",
                "limit",
                str(store),
                "--dataset",
                "others",
                "--epsilon",
                "9",
                "--delta",
                "1e-6",
                "--new",
            ]
        )
        == 0
    )
    assert (
        run(
            [
                "ledger",
                "limit",
                str(store),
                "--dataset",
                "others",
                "--epsilon",
                "8",
                "--delta",
                "1e-6",
            ]
        )
        == 0
    )
    assert read(store)[0].history.limits["others", None].epsilon == 8


def test_the_first_limit_of_a_store_is_of_a_new_data_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "clinic-a.store"
    Store.create(path, role=Role.CLIENT, identity=OWNER).close()
    limit = [
        "ledger",
        "limit",
        str(path),
        "--dataset",
        "patients",
        "--epsilon",
        "9",
        "--delta",
        "1e-6",
    ]
    assert run(limit) == 2
    assert "data set 'patients' is unknown, and" in capsys.readouterr().err
    assert run([*limit, "--new"]) == 0


def test_a_limit_for_persons_of_another_name_is_a_slip_unless_they_are_new(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = [
        "ledger",
        "limit",
        str(store),
        "--dataset",
        "patients",
        "--epsilon",
        "9",
        "--delta",
        "1e-6",
    ]
    assert run([*limit, "--unit", "patient"]) == 0
    before = read(store)[0].position
    for arguments, reason in (
        (
            ["--unit", "pateint"],
            (
                "unit 'pateint' is unknown (did you mean 'patient'?); the known names are 'patient': correct"
                " the name"
            ),
        ),
        (["--new-unit"], "--new-unit needs --unit"),
    ):
        assert run([*limit, *arguments]) == 2
        assert reason in " ".join(capsys.readouterr().err.split())
    assert read(store)[0].position == before
    assert run([*limit, "--unit", "doctor", "--new-unit"]) == 0


def test_a_limit_below_what_is_spent_is_taken_and_stops_further_runs(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "ledger",
        "limit",
        str(store),
        "--dataset",
        "patients",
        "--delta",
        "1e-6",
        "--epsilon",
    ]
    assert run([*arguments, "0.5"]) == 0
    assert "No epsilon is left" in capsys.readouterr().out
    assert run([*arguments, "inf"]) == 0
    assert "has no limit any more" in capsys.readouterr().out
    assert run([*arguments, "12", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["limit"]["epsilon"] == 12
    limits = [event.epsilon for event in read(store)[1] if isinstance(event, LimitSet)]
    assert limits == [0.5, float("inf"), 12]


def test_verify_says_what_is_sound_and_from_when_it_is(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ledger", "verify", str(store)]) == 0
    position = read(store)[0].position
    sound, times = capsys.readouterr().out.splitlines()
    assert (
        sound == f"{store} is sound: the store of a client, 9 events, head {position.head.hex()}."
    )
    assert times.count(" UTC") == 2
    assert run(["ledger", "verify", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["head"] == position.head.hex()


def test_verify_finds_a_changed_event(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = store.read_bytes()
    at = content.index(b"patients")
    store.write_bytes(content[:at] + b"P" + content[at + 1 :])
    assert run(["ledger", "verify", str(store)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is damaged (the chain of hashes breaks at event " in said.err


def test_reading_is_allowed_while_a_run_has_the_store_and_setting_is_not(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(store):
        for command in ("show", "verify"):
            assert run(["ledger", command, str(store)]) == 0
        assert (
            run(
                [
                    "ledger",
                    "limit",
                    str(store),
                    "--dataset",
                    "patients",
                    "--epsilon",
                    "9",
                    "--delta",
                    "0",
                ]
            )
            == 2
        )
    assert "in use by another process" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "two words", "--epsilon", "1", "--delta", "0"], "dataset is 'two words'"),
        (["--dataset", "a", "--epsilon", "0", "--delta", "0"], "epsilon is 0"),
        (["--dataset", "a", "--epsilon", "nan", "--delta", "0"], "epsilon is 'nan'"),
        (["--dataset", "a", "--epsilon", "1", "--delta", "1"], "delta is 1"),
        (["--dataset", "a", "--epsilon", "1", "--delta", "nan"], "delta is 'nan'"),
        (["--dataset", "a", "--epsilon", "1"], "--delta"),
    ],
)
def test_a_limit_that_is_none_is_refused(
    store: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read(store)[1]
    assert run(["ledger", "limit", str(store), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert read(store)[1] == before


def test_what_has_no_ledger_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.create(tmp_path / "hub.store", role=Role.SERVER, identity=OWNER).close()
    assert run(["ledger", "verify", str(tmp_path / "hub.store")]) == 0
    assert "the store of a server, 0 events" in capsys.readouterr().out
    for arguments in (["show"], ["limit", "--dataset", "a", "--epsilon", "1", "--delta", "0"]):
        assert run(["ledger", arguments[0], str(tmp_path / "hub.store"), *arguments[1:]]) == 2
        assert "store of a server" in capsys.readouterr().err
    assert run(["ledger", "show", str(tmp_path / "nothing.identity.toml")]) == 2
    assert "there is no store" in capsys.readouterr().err


def test_status_shows_whole_run_ids_on_a_narrow_screen_as_release_wants_them(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["status", str(store)]) == 0
    shown = capsys.readouterr().out
    assert all(run_id.hex() in shown for run_id in read(store)[0].history.runs)


def test_status_of_a_server_whose_clients_have_not_joined_says_why_there_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "server.store"
    Store.create(path, role=Role.SERVER, identity=bytes(32)).close()
    assert run(["status", str(path)]) == 0
    assert "no run; a server notes one when the first client has joined" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_client_is_not_forgotten_while_a_run_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_store(tmp_path, Role.SERVER) as store:
        position = SignedPosition(length=3, head=bytes(32), signature=bytes(64))
        store.append([PeerSigned(name="ab" * 32, client="c0", position=position)])
        store.append([ClientJoined(run_id=run_id(1), client="c0")])
        forget = ["ledger", "forget", str(store.path), "--client", "ab" * 32]
    assert run(forget) == 2
    assert f"run {run_id(1).hex()} is open in this store" in " ".join(
        capsys.readouterr().err.split()
    )
    with Store.open(store.path) as store:
        assert list(store.history.peers) == ["ab" * 32]
        store.append([store.history.runs[run_id(1)].end(Outcome.ABORTED)])
    assert run(forget) == 0


def test_an_empty_store_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_store(tmp_path).close()
    assert run(["ledger", "show", str(tmp_path / "clinic-a.store")]) == 0
    assert "No run was joined" in capsys.readouterr().out


def test_a_run_that_is_given_up_frees_what_was_never_charged_and_never_sends_again(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = account(read(store)[0].history, "patients").spent.mu_squared
    run_id = (bytes([2]) * 16).hex()
    assert run(["ledger", "release", str(store), "--run", run_id]) == 0
    assert "Rounds released: 3. Rounds that stay charged: 0." in capsys.readouterr().out
    assert (
        account(read(store)[0].history, "patients").spent.mu_squared
        == before - make_plan().mechanism.accountant().mu_squared
    )
    with Store.open(store) as opened, pytest.raises(StateError, match="has ended"):
        opened.append([ExchangeCharged(run_id=bytes.fromhex(run_id), number=1)])
    for again, reason in [
        (run_id, "has ended"),
        ("ff" * 16, "never reserved"),
        (run_id[:-1] + "f", "one digit differs, digit 32"),
        ("x", "32 hex digits"),
    ]:
        assert run(["ledger", "release", str(store), "--run", again]) == 2
        assert reason in capsys.readouterr().err


# On which condition a sum holds


def shown(store: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    assert run(["ledger", "show", str(store), *more]) == 0
    return capsys.readouterr().out


def join_one(store: Store, plan: Plan) -> None:
    store.append(
        [
            reserve(
                store.history,
                plan,
                client="c0",
                dataset="patients",
            )
        ]
    )


def test_a_limit_from_before_the_first_run_is_said_to_hold_until_it_is_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_store(tmp_path).close()
    path = tmp_path / "clinic-a.store"
    limit = ["ledger", "limit", str(path), "--dataset", "patients", "--delta", "1e-3", "--epsilon"]
    assert run([*limit, "3", "--new"]) == 0
    assert "valid only if" not in capsys.readouterr().out
    with Store.open(path) as store:
        join_one(store, make_plan())
    kept = (
        "all runs together stay within epsilon 3 at delta 0.001, however they were chosen: that"
        " limit was set before the first"
    )
    kept += " run"
    assert f"{kept}." in shown(path, capsys)
    assert run([*limit, "2.5"]) == 0
    assert f"{kept}.\npatients: the limit is now epsilon 2.5 at delta 0.001." in shown(path, capsys)
    said = json.loads(shown(path, capsys, "--json"))["data_sets"][0]
    assert said["holds_whatever_runs_were_chosen_by"] == {"epsilon": 3.0, "delta": 1e-3}
    assert said["holds_if_runs_were_not_chosen_from_results"] is None
    assert run([*limit, "4"]) == 0
    raised = "its limit was raised or lifted after a run, so the sum holds only if"
    assert raised in capsys.readouterr().out
    assert raised in shown(path, capsys)
    said = json.loads(shown(path, capsys, "--json"))["data_sets"][0]
    assert said["holds_whatever_runs_were_chosen_by"] is None
    assert (
        said["holds_if_runs_were_not_chosen_from_results"]
        == "its limit was raised or lifted after a run"
    )


def test_with_limits_for_several_units_each_sentence_says_for_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One unit has a limit from before the first run, and the other has none."""
    new_store(tmp_path).close()
    path = tmp_path / "clinic-a.store"
    limit = ["ledger", "limit", str(path), "--dataset", "patients", "--delta", "1e-3"]
    assert run([*limit, "--epsilon", "3", "--new"]) == 0
    with Store.open(path) as store:
        join_one(store, make_plan())
    assert run([*limit, "--epsilon", "9", "--unit", "patient"]) == 0
    text = shown(path, capsys)
    assert "patients, for one record added or removed: all runs together stay within" in text
    assert "patients, for one patient added or removed: no limit was set before the first" in text


def test_no_sentence_on_limits_shows_one_smaller_than_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_store(tmp_path).close()
    path = tmp_path / "clinic-a.store"
    limit = ["ledger", "limit", str(path), "--dataset", "patients", "--epsilon"]
    assert run([*limit, "9.2345644", "--delta", "1.2345644e-3", "--new"]) == 0
    with Store.open(path) as store:
        join_one(store, make_plan())
    assert run([*limit, "8.2345644", "--delta", "1.1345644e-3"]) == 0
    text = shown(path, capsys)
    assert "all runs together stay within epsilon 9.23457 at delta 0.00123457, however" in text
    assert "the limit is now epsilon 8.23457 at delta 0.00113457." in text
    assert run([*limit, "inf", "--delta", "1.1345644e-3"]) == 0
    assert "at delta 0.00113457." in capsys.readouterr().out


def test_laplace_noise_that_is_left_is_said_beside_gaussian_noise_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_store(tmp_path) as store:
        store.append([LimitSet(dataset="patients", epsilon=3.0, delta=1e-6)])
        event = reserved(run_id(1))
        store.append([msgspec.structs.replace(event, cost=pure_cost(Fraction(2)))])
        path = store.path
    assert "patients: one more run may have epsilon 1 if it adds only Laplace noise." in shown(
        path, capsys
    )
    assert "No epsilon is left" not in shown(path, capsys)


@pytest.fixture
def pure(tmp_path: Path) -> Path:
    """A store with a limit at a delta, and a run of Laplace noise only."""
    with new_store(tmp_path) as store:
        store.append([LimitSet(dataset="patients", epsilon=3.0, delta=1e-6)])
        store.append([reserved_as(pure_cost(Fraction(1, 2)), run_id(1))])
        return store.path


def with_gaussian_noise(path: Path) -> None:
    with Store.open(path) as store:
        store.append([reserved_as(cost(Fraction(1, 1000)), run_id(2))])


def row(text: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith("patients  "))
    return re.split(r"\s{2,}", line.strip())


def test_at_delta_0_laplace_noise_is_shown_as_it_is(
    pure: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = shown(pure, capsys, "--delta", "0", "--figure", str(tmp_path / "year.png"))
    assert row(text)[3:] == ["0.5", "0", "3 at 1e-06", "2.5"]
    assert (
        "one more run with Laplace noise may have epsilon 2.5 at delta 0, or 10 more runs may have epsilon 0.25 each."
        in text
    )
    assert "has no bound" not in text
    assert (tmp_path / "year.png").exists()
    (said,) = json.loads(shown(pure, capsys, "--delta", "0", "--json"))["data_sets"]
    assert (
        said["spent"]["epsilon"],
        said["spent"]["delta"],
        said["limit"]["left_for_one_run"],
    ) == (0.5, 0, 2.5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "is_known"),
    [("3", "1e-06", False), ("3", "0", True), ("0.5", "1e-06", True), ("inf", "0", False)],
    ids=["limit at a delta", "limit at delta 0", "limit that is exceeded", "no limit"],
)
def test_at_delta_0_gaussian_noise_has_no_bound(
    pure: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    epsilon: str,
    delta: str,
    is_known: bool,
) -> None:
    """is_known : that nothing is left."""
    with_gaussian_noise(pure)
    assert (
        run(
            [
                "ledger",
                "limit",
                str(pure),
                "--dataset",
                "patients",
                "--epsilon",
                epsilon,
                "--delta",
                delta,
            ]
        )
        == 0
    )
    assert ("have no finite epsilon" in capsys.readouterr().out) == (delta == "0")
    text = shown(pure, capsys, "--delta", "0")
    spent, at, _, left = row(text)[3:]
    assert (spent, at, left) == ("no bound", "0", "0" if is_known else "-")
    assert "patients: a run with Gaussian noise has no finite epsilon at delta 0" in text
    assert "for one record replaced, no bound is known." in text
    (said,) = json.loads(shown(pure, capsys, "--delta", "0", "--json"))["data_sets"]
    assert (said["spent"]["epsilon"], said["spent"]["delta"]) == (None, 0)
    assert {each["epsilon"] for each in said["spent_by_relation"].values()} == {None}
    assert said["limit"] is None or said["limit"]["left_for_one_run"] == (0 if is_known else None)
    assert "has no finite epsilon" not in shown(pure, capsys, "--delta", "1e-6")
    capsys.readouterr()
    assert (
        run(["ledger", "show", str(pure), "--delta", "0", "--figure", str(tmp_path / "year.png")])
        == 2
    )
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot draw data set 'patients' at delta 0" in " ".join(err.split())
    assert not (tmp_path / "year.png").exists()


def test_a_picture_at_delta_0_has_the_sums_that_have_a_bound(
    pure: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Store.open(pure) as store:
        patients = UnitLimitSet(
            dataset="patients", epsilon=3.0, delta=0.0, speaks_of=Neighbours(ADD, "patient")
        )
        store.append([patients])
    text = shown(pure, capsys, "--delta", "0", "--figure", str(tmp_path / "year.png"))
    assert "no bound is known, because" in text
    assert "Gaussian noise" not in text
    labels = [budget.line_of(one, 0, 1).label for one in accounts(read(pure)[0].history)]
    assert labels == ["one record added or removed", "one patient added or removed: no bound"]
    assert (tmp_path / "year.png").read_bytes().startswith(b"\x89PNG")


def test_a_limit_on_what_has_no_bound_says_so(
    pure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = [
        "ledger",
        "limit",
        str(pure),
        "--dataset",
        "patients",
        "--unit",
        "patient",
        "--delta",
        "1e-5",
        "--epsilon",
    ]
    for epsilon in ("3", "inf"):
        assert run([*limit, epsilon]) == 0
        assert "have no finite epsilon" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("delta", ["1", "-1e-9"])
def test_a_delta_that_is_none_is_refused(
    store: Path, delta: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ledger", "show", str(store), "--delta", delta]) == 2
    assert "expected 0 or more and below 1" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("left", "said"),
    [(2.75678, "2.756"), (0.76999, "0.7699"), (0.1, "0.1"), (12345.6, "1.234e+04")],
)
def test_what_is_left_is_never_shown_larger_than_it_is(left: float, said: str) -> None:
    assert down(left) == said


def test_a_delta_just_below_1_is_not_shown_as_1(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = [
        "ledger",
        "limit",
        str(store),
        "--dataset",
        "patients",
        "--epsilon",
        "9",
        "--delta",
        "0.9999999",
    ]
    assert run(limit) == 0
    assert "at delta 0.9999999. " in capsys.readouterr().out
    text = shown(store, capsys)
    assert row(text)[4] == "0.9999999"
    assert "at delta 1" not in text
    text = shown(store, capsys, "--delta", "0.99999951")
    assert row(text)[4:6] == ["0.99999951", "9 at 0.9999999"]
    assert (
        "at delta 0.999999, or 10 more runs" in text
    )  # a run that is still to be planned: no more than it is


def test_a_past_that_exceeds_its_limit_is_shown_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Epsilon 2.3 of Gaussian noise, and .5 in one exchange of Laplace noise."""
    with new_store(tmp_path) as store:
        store.append([LimitSet(dataset="patients", epsilon=3.0, delta=1e-4)])
        store.append([reserved_as(cost(Fraction(45, 100)), run_id(1))])
        store.append([reserved_as(pure_cost(Fraction(1, 2)), run_id(2))])
        path = store.path
    text = shown(path, capsys)
    assert "no further run is allowed" in text
    assert "its runs exceed the limit that was set before the first of them, so the sum" in text
    assert run(["ledger", "verify", str(path)]) == 0


def test_events_are_listed_with_their_time_and_its_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    with new_store(tmp_path) as store:
        store.append([reserved(run_id(1)), ExchangeCharged(run_id=run_id(1), number=1)])
        path = str(store.path)
    assert run(["ledger", "log", path]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "2023-11-14 22:13:20 UTC" in first
    assert "round 1 charged" in second
    assert run_id(1).hex() in second
    assert run(["ledger", "verify", path]) == 0
    assert "2023-11-14 22:13:20 UTC" in capsys.readouterr().out
    assert run(["ledger", "log", path, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["time"] for row in content["log"]] == ["2023-11-14T22:13:20Z"] * 2
    assert content["last_event"] == "2023-11-14T22:13:20Z"


def test_a_run_is_given_up_by_a_client_or_a_server_that_has_it_and_by_no_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for role, said in (
        (Role.SERVER, f"run {run_id(1).hex()} never began in"),
        (Role.CLIENT, "was never reserved"),
        (Role.HOLDER, "give the run up"),
    ):
        (tmp_path / role.value).mkdir()
        store = new_store(tmp_path / role.value, role)
        store.close()
        release = ["ledger", "release", str(store.path), "--run", run_id(1).hex()]
        assert run(release) == 2
        assert said in " ".join(capsys.readouterr().err.split())
        if role is Role.SERVER:
            with Store.open(store.path) as server:
                server.append([ClientJoined(run_id=run_id(1), client="c0")])
            assert run(release) == 0
            ended = read(store.path)[0].history.runs[run_id(1)].ended
            assert ended is not None
            assert ended.outcome is Outcome.ABORTED
            assert run(release) == 2
            assert "has ended" in capsys.readouterr().err
